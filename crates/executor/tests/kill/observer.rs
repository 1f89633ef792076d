//! The observer that servers report to: it counts external effects, stores the requests to models, and
//! hands out runs to start. It outlives all servers.

use std::{
    collections::{BTreeMap, VecDeque},
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use emergent_domain::ids::RunId;
use rand::{Rng, SeedableRng, rngs::StdRng};
use serde::Serialize;
use serde_json::json;
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::{UnixListener, UnixStream},
    sync::Notify,
};

use crate::wire::{ObservedRequest, ServerMessage, Start, Ticket};

/// Everything that servers reported.
#[derive(Default)]
pub struct Observations {
    /// The requests to models, by their number.
    pub asked: Vec<ObservedRequest>,
    /// The calls of external tools, by tool and key.
    pub called: BTreeMap<(String, String), Vec<Ticket>>,
    pub tickets: u64,
    /// The accepted runs, by the key of the task.
    pub accepted: BTreeMap<String, RunId>,
    /// All start requests that were handed out, accepted or not.
    pub started: BTreeMap<String, Start>,
    pub ready: u64,
    /// The number of unfinished runs that each process reported.
    pub left: BTreeMap<usize, i64>,
}

impl Observations {
    /// Returns how much has happened: the count grows with everything that a kill could interrupt.
    pub fn events(&self) -> u64 {
        self.asked.len() as u64 + self.tickets + self.accepted.len() as u64
    }
}

pub struct Observer {
    pub path: PathBuf,
    inside: Arc<Inside>,
}

struct Inside {
    observations: Mutex<Observations>,
    waiting: Mutex<VecDeque<Start>>,
    more: Notify,
    /// The maximum delay of an answer, in microseconds.
    slowest: AtomicU64,
    dice: Mutex<StdRng>,
}

impl Observer {
    pub fn open(folder: &Path, seed: u64) -> Self {
        let path = folder.join("observer");
        let listener = UnixListener::bind(&path).expect("a socket");
        let inside = Arc::new(Inside {
            observations: Mutex::default(),
            waiting: Mutex::default(),
            more: Notify::new(),
            slowest: AtomicU64::new(20_000),
            dice: Mutex::new(StdRng::seed_from_u64(seed)),
        });
        let at = Arc::clone(&inside);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let at = Arc::clone(&at);
                // A connection that breaks off belongs to a killed server.
                tokio::spawn(async move { at.hear(stream).await });
            }
        });
        Self { path, inside }
    }

    pub fn observations(&self) -> MutexGuard<'_, Observations> {
        self.inside.observations.lock().expect("no panic in here")
    }

    pub fn start(&self, start: Start) {
        self.observations().started.insert(start.task.key.clone(), start.clone());
        self.inside.waiting.lock().expect("no panic in here").push_back(start);
        self.inside.more.notify_one();
    }

    /// Withdraws start requests that no server has fetched.
    pub fn take_back(&self) {
        self.inside.waiting.lock().expect("no panic in here").clear();
    }

    /// Sets the maximum delay of models and external tools.
    pub fn pace(&self, slowest: Duration) {
        let micros = u64::try_from(slowest.as_micros()).expect("not that long");
        self.inside.slowest.store(micros, Ordering::Relaxed);
    }

    /// Polls the observations until `until` holds; returns false after `limit`.
    pub async fn wait(&self, limit: Duration, mut until: impl FnMut(&Observations) -> bool) -> bool {
        let begun = Instant::now();
        while !until(&self.observations()) {
            if begun.elapsed() > limit {
                return false;
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        true
    }
}

impl Inside {
    async fn hear(&self, stream: UnixStream) -> Option<()> {
        let (read, mut write) = stream.into_split();
        let mut read = BufReader::new(read);
        let mut line = String::new();
        read.read_line(&mut line).await.ok()?;
        match serde_json::from_str(&line).ok()? {
            ServerMessage::Next => {
                // A waiting server sends nothing more, so a read returns only if the server is dead.
                let start = tokio::select! { start = self.next() => Some(start), _ = read.read_u8() => None };
                answer(&mut write, &start?).await
            }
            ServerMessage::ObservedRequest(asked) => {
                let number = self.note(|observations| {
                    observations.asked.push(asked);
                    observations.asked.len() - 1
                });
                self.take_time().await;
                answer(&mut write, &number).await
            }
            ServerMessage::Called { process, tool, key } => {
                let ticket = self.note(|observations| {
                    let ticket = Ticket { process, number: observations.tickets };
                    observations.tickets += 1;
                    observations.called.entry((tool, key)).or_default().push(ticket.clone());
                    ticket
                });
                self.take_time().await;
                answer(&mut write, &ticket).await
            }
            ServerMessage::Ready => {
                self.note(|observations| observations.ready += 1);
                answer(&mut write, &json!(null)).await
            }
            ServerMessage::Accepted { key, run } => {
                self.note(|observations| observations.accepted.insert(key, run));
                answer(&mut write, &json!(null)).await
            }
            ServerMessage::Left { process, runs } => {
                self.note(|observations| observations.left.insert(process, runs));
                answer(&mut write, &json!(null)).await
            }
        }
    }

    async fn next(&self) -> Start {
        loop {
            if let Some(start) = self.waiting.lock().expect("no panic in here").pop_front() {
                return start;
            }
            // The woken server may be dead, so the others poll as well.
            let _ = tokio::time::timeout(Duration::from_millis(20), self.more.notified()).await;
        }
    }

    fn note<T>(&self, write: impl FnOnce(&mut Observations) -> T) -> T {
        write(&mut self.observations.lock().expect("no panic in here"))
    }

    async fn take_time(&self) {
        let slowest = self.slowest.load(Ordering::Relaxed);
        let micros = self.dice.lock().expect("no panic in here").random_range(0..=slowest);
        tokio::time::sleep(Duration::from_micros(micros)).await;
    }
}

async fn answer(write: &mut (impl AsyncWriteExt + Unpin), value: &impl Serialize) -> Option<()> {
    let mut line = serde_json::to_string(value).ok()?;
    line.push('\n');
    write.write_all(line.as_bytes()).await.ok()
}

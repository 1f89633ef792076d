//! Many connections that receive the same changes, and when each of them received each change.

use std::time::{Duration, Instant};

use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
    net::TcpStream,
    task::JoinHandle,
};

/// The longest time that a change may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// One connection. Each line with the id of an entity is a change.
pub struct Follower {
    stream: BufReader<TcpStream>,
    line: String,
}

/// When a change arrived at a follower.
pub struct Arrival {
    pub entity: String,
    pub at: Instant,
}

impl Follower {
    /// Connects and sends a request, if there is one to send.
    pub async fn connect(address: &str, request: Option<&str>) -> Self {
        let mut stream = TcpStream::connect(address).await.expect("the server listens");
        stream.set_nodelay(true).expect("TCP_NODELAY");
        if let Some(request) = request {
            stream.write_all(request.as_bytes()).await.expect("the server reads");
        }
        Self { stream: BufReader::with_capacity(2_048, stream), line: String::new() }
    }

    /// Reads up to a line that contains a text.
    pub async fn skip_to(&mut self, text: &str) {
        while !self.line.contains(text) {
            self.next_line().await;
        }
    }

    /// Reads one line, which is empty between events.
    pub async fn next_line(&mut self) -> &str {
        self.line.clear();
        let read = tokio::time::timeout(PATIENCE, self.stream.read_line(&mut self.line));
        let bytes = read.await.expect("a line in time").expect("the stream goes on");
        assert_ne!(bytes, 0, "the stream ended");
        &self.line
    }

    /// Receives so many changes. The follower comes back with them, so that its connection stays open.
    pub fn receive(mut self, changes: usize) -> JoinHandle<(Self, Vec<Arrival>)> {
        tokio::spawn(async move {
            let mut arrivals = Vec::with_capacity(changes);
            while arrivals.len() < changes {
                self.next_line().await;
                let at = Instant::now();
                if let Some((_, rest)) = self.line.split_once("\"entityId\":\"") {
                    let entity = rest.split('"').next().unwrap_or_default().to_owned();
                    arrivals.push(Arrival { entity, at });
                }
            }
            (self, arrivals)
        })
    }
}

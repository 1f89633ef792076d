//! Following an answer while it is written: the text so far comes first, and then each part of the rest once.

use crate::support;

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use emergent_domain::{
    chat::{Part, StopReason},
    ids::RunId,
    run_event::{RunEvent, RunEventBody, TextSoFar},
};
use emergent_llm::{Answer, ChatRequest, Delta, Error, Models, Provider};
use emergent_testkit::{
    both_engines,
    scripted::{ScriptedModel, USAGE},
};
use futures_util::StreamExt;
use support::{Harness, HarnessOptions, agent, server::Server, until};
use tokio::sync::Semaphore;

const WORDS: usize = 60;

/// A model that writes one word for each permit.
struct GatedModel {
    permits: Semaphore,
    written: AtomicUsize,
}

impl GatedModel {
    fn new() -> Arc<Self> {
        Arc::new(Self { permits: Semaphore::new(0), written: AtomicUsize::new(0) })
    }

    /// Lets the model write words, and waits until it has.
    async fn write(&self, words: usize) {
        let before = self.written.load(Ordering::SeqCst);
        self.permits.add_permits(words);
        until("the words are written", async || self.written.load(Ordering::SeqCst) == before + words).await;
    }
}

fn word(number: usize) -> String {
    format!("w{number} ")
}

fn text(words: usize) -> String {
    (0..words).map(word).collect()
}

/// Named like the model of the other tests, so that the same definitions use it.
struct Gated(Arc<GatedModel>);

#[async_trait]
impl Provider for Gated {
    fn name(&self) -> &str {
        "scripted"
    }

    async fn chat(
        &self,
        _: ChatRequest<'_>,
        on_delta: &mut (dyn FnMut(Delta) + Send),
    ) -> Result<Answer, Error> {
        for number in 0..WORDS {
            self.0.permits.acquire().await.expect("the gate stays open").forget();
            on_delta(Delta::Text(word(number)));
            self.0.written.fetch_add(1, Ordering::SeqCst);
        }
        let parts = vec![Part::text(text(WORDS))];
        Ok(Answer { parts, usage: USAGE, stop: StopReason::End, response: Default::default() })
    }
}

fn options(model: &Arc<GatedModel>) -> HarnessOptions {
    let models = Models::default().with_provider(Arc::new(Gated(Arc::clone(model))));
    HarnessOptions { models: Some(models), ..HarnessOptions::new(ScriptedModel::default()) }
}

async fn harness(db: &emergent_store::Db) -> (Harness, Arc<GatedModel>, RunId) {
    let model = GatedModel::new();
    let harness = Harness::with(db, options(&model)).await;
    let writer = harness.agent(agent("writer")).await;
    let run = harness.start(&writer, "Write.").await.id;
    (harness, model, run)
}

/// What a follower got so far, and the task that follows the run to its end.
struct Follower {
    events: Arc<Mutex<Vec<RunEvent>>>,
    task: tokio::task::JoinHandle<()>,
}

impl Follower {
    /// Waits until the follower has the text that was written before it came.
    async fn has_text_so_far(&self) {
        let has = || self.events.lock().unwrap().iter().any(|event| event.body.kind() == "text_so_far");
        until("the text so far", async || has()).await;
    }

    /// Waits for the end of the stream, and returns everything that came.
    async fn all(self) -> Vec<RunEvent> {
        tokio::time::timeout(Duration::from_secs(20), self.task).await.expect("the stream ends").unwrap();
        let mut events = self.events.lock().unwrap();
        std::mem::take(&mut *events)
    }
}

fn follow(harness: &Harness, run: RunId, after: i64) -> Follower {
    let mut stream = Box::pin(harness.executor.follow(harness.project, run, after));
    let events = Arc::new(Mutex::new(Vec::new()));
    let written = Arc::clone(&events);
    let task = tokio::spawn(async move {
        while let Some(event) = stream.next().await {
            written.lock().unwrap().push(event.unwrap());
        }
    });
    Follower { events, task }
}

/// The live text that a follower got, and whether it was complete when the answer came.
fn live_text(events: &[RunEvent]) -> String {
    let mut live = String::new();
    for event in events {
        match &event.body {
            RunEventBody::TextSoFar(TextSoFar { text, omitted_chars: 0, .. }) => live = text.clone(),
            RunEventBody::TextDelta { text, .. } => live.push_str(text),
            _ => {}
        }
    }
    live
}

both_engines! {
    async fn each_follower_gets_the_text_so_far_and_then_every_part_once(db: TestDb) {
        let (harness, model, run) = harness(&db).await;
        model.write(3).await;
        assert_eq!(harness.executor.text_so_far(run).unwrap().text, text(3));
        let last = harness.executor.get_run(harness.project, run).await.unwrap().seq;
        let (first, again) = (follow(&harness, run, 0), follow(&harness, run, last));
        first.has_text_so_far().await;
        again.has_text_so_far().await;
        // Others come while the model writes.
        let mut followers = Vec::new();
        for _ in 3..WORDS {
            model.permits.add_permits(1);
            followers.push(follow(&harness, run, 0));
            tokio::task::yield_now().await;
        }
        let first = first.all().await;
        let kinds: Vec<&str> = first.iter().map(|event| event.body.kind()).collect();
        let so_far = kinds.iter().position(|kind| *kind == "text_so_far").expect("the text so far");
        assert!(!kinds[..so_far].contains(&"text_delta"), "{kinds:?}");
        assert_eq!(kinds.iter().filter(|kind| **kind == "text_delta").count(), WORDS - 3, "{kinds:?}");
        assert_eq!(first[so_far].seq, None);
        assert_eq!(live_text(&first), text(WORDS));
        let again = again.all().await;
        assert_eq!(again[0].body.kind(), "text_so_far", "what was recorded before is not sent again");
        assert_eq!(live_text(&again), text(WORDS));
        for follower in followers {
            let events = follower.all().await;
            let kinds: Vec<&str> = events.iter().map(|event| event.body.kind()).collect();
            let answers = events.iter().filter(|event| matches!(&event.body, RunEventBody::Message(message)
                if message.role == emergent_domain::run::MessageRole::Assistant)).count();
            assert_eq!(answers, 1, "{kinds:?}");
            let live = live_text(&events);
            assert!(live == text(WORDS) || live.is_empty(), "all parts once, or only the recorded answer: {kinds:?} {live}");
            let after_answer = kinds.iter().rev().take(2).any(|kind| *kind == "text_delta" || *kind == "text_so_far");
            assert!(!after_answer, "{kinds:?}");
        }
        assert_eq!(harness.executor.text_so_far(run), None, "the answer is recorded");
        let later = follow(&harness, run, 0).all().await;
        assert!(later.iter().all(|event| event.seq.is_some()), "only what is recorded");
        harness.close().await;
    }

    async fn after_a_crash_the_text_is_written_anew_and_the_recovery_comes_before_it(db: TestDb) {
        let model = GatedModel::new();
        let server = Server::open(&db, options(&model)).await;
        let writer = server.harness.agent(agent("writer")).await;
        let (project, run) = (server.harness.project, server.harness.start(&writer, "Write.").await.id);
        model.write(5).await;
        let last = server.harness.executor.get_run(project, run).await.unwrap().seq;
        server.kill(&db, Duration::from_secs(1)).await;
        let model = GatedModel::new();
        let harness = Harness::with(&db, options(&model)).await;
        assert_eq!(harness.executor.text_so_far(run), None, "what was not recorded is lost");
        let reader = follow(&harness, run, last);
        model.permits.add_permits(WORDS);
        let events = reader.all().await;
        let first = &events[0].body;
        assert!(matches!(first, RunEventBody::Started { recovered: true }), "a reader drops its text: {first:?}");
        assert_eq!(live_text(&events), text(WORDS));
        harness.close().await;
    }

    async fn the_text_of_a_cancelled_run_is_not_held_any_longer(db: TestDb) {
        let (harness, model, run) = harness(&db).await;
        model.write(2).await;
        assert_eq!(harness.executor.text_so_far(run).unwrap().text, text(2));
        harness.executor.cancel(harness.actor(), run).await.unwrap();
        until("the text is dropped", async || harness.executor.text_so_far(run).is_none()).await;
        harness.close().await;
    }
}

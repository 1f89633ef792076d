//! The embedding queue: writes fill it and any number of workers process it in batches, despite
//! failures.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use emergent_domain::{document::NewDocument, ids::ObjectId, object::ObjectPatch, time::Clock};
use emergent_graph::{Actor, Graph};
use emergent_llm::{EmbedTask, Embedder, Error};
use emergent_testkit::{TestDb, both_engines, fixed_clock};
use parking_lot::Mutex;
use serde_json::json;
use tokio::sync::{Notify, watch};

use crate::support;
use support::{Harness, change_kinds, map, new, project};

async fn harness(db: &TestDb, embedder: Arc<dyn Embedder>) -> Harness {
    let graph = Graph::new(db.db.clone(), fixed_clock(), Some(embedder));
    let actor = project(&graph, "test", false).await;
    Harness { graph, actor }
}

async fn text(harness: &Harness, id: ObjectId, text: &str) {
    let patch = ObjectPatch { properties: Some(map(json!({ "text": text }))), ..Default::default() };
    harness.graph.update_object(harness.actor, id, patch).await.unwrap();
}

/// Returns the first number of each stored vector, which is the length of its text.
async fn stored(graph: &Graph) -> Vec<i64> {
    let rows = graph.db().read(|tx| {
        tx.query("SELECT vector FROM graph_embeddings ORDER BY no", &[], |row| row.get::<Vec<f32>>(0))
    });
    let rows: Vec<Vec<f32>> = rows.await.unwrap_or_else(|error: emergent_store::Error| panic!("{error}"));
    rows.iter().map(|vector| vector[0] as i64).collect()
}

both_engines! {
    async fn what_is_written_gets_its_vector_and_the_end_is_an_event(db: TestDb) {
        let embedder = Lengths::new();
        let harness = harness(&db, embedder.clone()).await;
        for n in 1..=25 {
            harness.object(new("Note", "", json!({ "text": "x".repeat(n) }))).await;
        }
        let before = harness.graph.embedding_progress(harness.project()).await.unwrap();
        assert_eq!((before.pending, before.done, before.model), (25, 0, None));
        let (stop, stopped) = watch::channel(false);
        let worker = tokio::spawn({
            let graph = harness.graph.clone();
            async move { graph.run_embedder(stopped).await }
        });
        until(async || change_kinds(&harness.graph, harness.project()).await.last().unwrap() == "embeddings_done").await;
        let after = harness.graph.embedding_progress(harness.project()).await.unwrap();
        assert_eq!((after.pending, after.done, after.model.as_deref(), after.dims), (0, 25, Some("test/lengths"), Some(3)));
        assert_eq!(stored(&harness.graph).await, (1..=25).collect::<Vec<_>>());
        assert_eq!(embedder.calls(), 4, "in batches of eight");
        // Objects that are written later are embedded too.
        let late = harness.object(new("Note", "", json!({ "text": "x".repeat(30) }))).await;
        text(&harness, late, &"x".repeat(40)).await;
        until(async || stored(&harness.graph).await.last() == Some(&40)).await;
        stop.send(true).unwrap();
        worker.await.unwrap();
    }

    async fn a_text_that_changes_while_it_is_embedded_is_embedded_again(db: TestDb) {
        let embedder = Lengths::new();
        let harness = harness(&db, embedder.clone()).await;
        let id = harness.object(new("Note", "", json!({ "text": "four" }))).await;
        embedder.pause();
        let batch = tokio::spawn({
            let (graph, project) = (harness.graph.clone(), harness.project());
            async move { graph.embed_batch(project).await.unwrap() }
        });
        embedder.reached.notified().await;
        text(&harness, id, "longer").await;
        embedder.go_on();
        // The first vector is discarded, and the batch continues with the new text.
        assert_eq!(batch.await.unwrap(), 1);
        assert_eq!(stored(&harness.graph).await, [6]);
        assert_eq!(harness.graph.embed_batch(harness.project()).await.unwrap(), 0);
    }

    async fn an_object_deleted_while_it_is_embedded_gets_no_vector(db: TestDb) {
        let embedder = Lengths::new();
        let harness = harness(&db, embedder.clone()).await;
        let id = harness.object(new("Note", "", json!({ "text": "four" }))).await;
        embedder.pause();
        let batch = tokio::spawn({
            let (graph, project) = (harness.graph.clone(), harness.project());
            async move { graph.embed_batch(project).await.unwrap() }
        });
        embedder.reached.notified().await;
        harness.graph.delete_object(harness.actor, id, None).await.unwrap();
        embedder.go_on();
        assert_eq!(batch.await.unwrap(), 0);
        assert!(stored(&harness.graph).await.is_empty());
    }

    async fn two_servers_share_the_work_and_nothing_is_lost(db: TestDb) {
        let embedder = Lengths::new();
        let harness = harness(&db, embedder.clone()).await;
        let objects = (1..=100).map(|n| new("Note", "", json!({ "text": "x".repeat(n) }))).collect();
        harness.graph.bulk_create_objects(harness.actor, objects, true).await.unwrap();
        let (first, second) = tokio::join!(drain(&harness.graph, harness.actor), drain(&harness.graph, harness.actor));
        assert!(first + second >= 100);
        assert_eq!(stored(&harness.graph).await, (1..=100).collect::<Vec<_>>());
    }

    async fn a_project_with_much_to_embed_does_not_keep_others_waiting(db: TestDb) {
        let embedder = Lengths::new();
        *embedder.delay.lock() = Duration::from_millis(50);
        let graph = Graph::new(db.db.clone(), Clock::system(), Some(embedder.clone()));
        let busy = Harness { actor: project(&graph, "busy", false).await, graph: graph.clone() };
        let other = Harness { actor: project(&graph, "other", false).await, graph: graph.clone() };
        let objects = (0..800).map(|n| new("Note", "", json!({ "text": "x".repeat(n % 9 + 1) }))).collect();
        graph.bulk_create_objects(busy.actor, objects, true).await.unwrap();
        let (stop, stopped) = watch::channel(false);
        let worker = tokio::spawn(async move { graph.run_embedder(stopped).await });
        until(async || embedder.calls() > 2).await;
        other.object(new("Note", "", json!({ "text": "mine" }))).await;
        until(async || other.graph.embedding_progress(other.project()).await.unwrap().done == 1).await;
        let left = busy.graph.embedding_progress(busy.project()).await.unwrap().pending;
        assert!(left > 0, "the other project did not wait for the end");
        stop.send(true).unwrap();
        worker.await.unwrap();
    }

    async fn a_failure_leaves_the_rest_to_the_next_attempt(db: TestDb) {
        let embedder = Lengths::new();
        let harness = harness(&db, embedder.clone()).await;
        let objects = (1..=20).map(|n| new("Note", "", json!({ "text": "x".repeat(n) }))).collect();
        harness.graph.bulk_create_objects(harness.actor, objects, true).await.unwrap();
        assert_eq!(harness.graph.embed_batch(harness.project()).await.unwrap(), 8);
        embedder.fail(true);
        assert!(harness.graph.embed_batch(harness.project()).await.is_err());
        let progress = harness.graph.embedding_progress(harness.project()).await.unwrap();
        assert_eq!((progress.pending, progress.done), (12, 8));
        embedder.fail(false);
        assert_eq!(drain(&harness.graph, harness.actor).await, 12);
    }

    async fn a_text_that_the_model_refuses_does_not_stop_the_others(db: TestDb) {
        let harness = harness(&db, Lengths::new()).await;
        for text in ["fine", "refuse this", "also fine"] {
            harness.object(new("Note", "", json!({ "text": text }))).await;
        }
        assert_eq!(harness.graph.embed_batch(harness.project()).await.unwrap(), 3);
        assert_eq!(stored(&harness.graph).await, [4, 9]);
        assert_eq!(harness.graph.embed_batch(harness.project()).await.unwrap(), 0);
    }

    async fn a_text_that_the_model_refused_waits_for_another_text_or_another_model(db: TestDb) {
        let harness = harness(&db, Lengths::new()).await;
        let id = harness.object(new("Note", "", json!({ "text": "refuse this" }))).await;
        let document = NewDocument {
            title: "d".to_owned(),
            content: b"refuse that".to_vec(),
            mime_type: None,
            source_url: None,
            metadata: Default::default(),
        };
        harness.graph.create_document(harness.actor, document).await.unwrap();
        assert_eq!(drain(&harness.graph, harness.actor).await, 2);
        let start_again = async |graph: &Graph| {
            graph.enqueue_missing_vectors().await.unwrap();
            graph.embedding_progress(harness.project()).await.unwrap().pending
        };
        assert_eq!(start_again(&harness.graph).await, 0);
        // The object is changed while no embedder is configured, so nothing is queued.
        let without = Harness { graph: Graph::new(db.db.clone(), harness.graph.clock().clone(), None), actor: harness.actor };
        text(&without, id, "refuse nothing of the kind").await;
        assert_eq!(start_again(&harness.graph).await, 1);
        assert_eq!(drain(&harness.graph, harness.actor).await, 1);
        assert_eq!(start_again(&harness.graph).await, 0);
        let other = Graph::new(db.db.clone(), harness.graph.clock().clone(), Some(Lengths::named("test/other")));
        assert_eq!(start_again(&other).await, 2);
        drain(&other, harness.actor).await;
        text(&harness, id, "fine").await;
        drain(&other, harness.actor).await;
        assert_eq!(stored(&harness.graph).await, [4]);
    }

    async fn a_model_that_refuses_everything_is_asked_again(db: TestDb) {
        let embedder = Lengths::new();
        let harness = harness(&db, embedder.clone()).await;
        harness.object(new("Note", "", json!({ "text": "four" }))).await;
        embedder.refuse_all(true);
        assert_eq!(drain(&harness.graph, harness.actor).await, 1);
        embedder.refuse_all(false);
        harness.graph.enqueue_missing_vectors().await.unwrap();
        assert_eq!(drain(&harness.graph, harness.actor).await, 1);
        assert_eq!(stored(&harness.graph).await, [4]);
    }

    async fn sessions_and_their_messages_get_no_vector_after_a_restart(db: TestDb) {
        let plain = Harness::new(&db).await;
        for type_ in ["Session", "SessionMessage"] {
            plain.object(new(type_, "", json!({ "content": "said" }))).await;
        }
        let graph = Graph::new(db.db.clone(), Clock::system(), Some(Lengths::new()));
        assert_eq!(graph.enqueue_missing_in_project(plain.project()).await.unwrap(), 0);
        assert_eq!(drain(&graph, plain.actor).await, 0);
    }

    async fn few_vectors_get_no_index(db: TestDb) {
        let harness = harness(&db, Lengths::new()).await;
        harness.object(new("Note", "", json!({ "text": "four" }))).await;
        assert_eq!(drain(&harness.graph, harness.actor).await, 1);
        let mut previous = Vec::new();
        for _ in 0..2 {
            assert_eq!(harness.graph.build_vector_indexes(&mut previous).await.unwrap(), 0);
        }
    }

    async fn what_was_written_without_an_embedder_is_embedded_when_there_is_one(db: TestDb) {
        let plain = Harness::new(&db).await;
        plain.object(new("Note", "", json!({ "text": "four" }))).await;
        assert_eq!(plain.graph.embedding_progress(plain.project()).await.unwrap().pending, 0);
        let graph = Graph::new(db.db.clone(), Clock::system(), Some(Lengths::new()));
        graph.enqueue_missing_vectors().await.unwrap();
        assert_eq!(drain(&graph, plain.actor).await, 1);
        assert_eq!(stored(&graph).await, [4]);
        assert_eq!(graph.enqueue_missing_in_project(plain.project()).await.unwrap(), 0);
    }
}

async fn drain(graph: &Graph, actor: Actor) -> usize {
    let mut done = 0;
    loop {
        match graph.embed_batch(actor.project).await.unwrap() {
            0 => return done,
            some => done += some,
        }
    }
}

async fn until(mut done: impl AsyncFnMut() -> bool) {
    let wait = async {
        while !done().await {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), wait).await.expect("it happens within 20 seconds");
}

/// An embedder whose vectors begin with the length of the text.
struct Lengths {
    model: &'static str,
    refusing: AtomicBool,
    calls: AtomicUsize,
    failing: AtomicBool,
    /// How long each call takes.
    delay: Mutex<Duration>,
    gate: Mutex<Option<Arc<Notify>>>,
    reached: Notify,
}

impl Lengths {
    fn new() -> Arc<Self> {
        Self::named("test/lengths")
    }

    fn named(model: &'static str) -> Arc<Self> {
        Arc::new(Self {
            model,
            refusing: AtomicBool::new(false),
            calls: AtomicUsize::new(0),
            failing: AtomicBool::new(false),
            delay: Mutex::new(Duration::ZERO),
            gate: Mutex::new(None),
            reached: Notify::new(),
        })
    }

    fn calls(&self) -> usize {
        self.calls.load(Ordering::SeqCst)
    }

    fn fail(&self, fail: bool) {
        self.failing.store(fail, Ordering::SeqCst);
    }

    fn refuse_all(&self, refuse: bool) {
        self.refusing.store(refuse, Ordering::SeqCst);
    }

    /// Blocks the next call until [`Lengths::go_on`].
    fn pause(&self) {
        *self.gate.lock() = Some(Arc::default());
    }

    fn go_on(&self) {
        self.gate.lock().take().unwrap().notify_one();
    }
}

#[async_trait]
impl Embedder for Lengths {
    fn model(&self) -> &str {
        self.model
    }
    fn dims(&self) -> Option<usize> {
        Some(3)
    }
    fn max_batch(&self) -> usize {
        8
    }
    async fn embed(&self, texts: &[String], _: EmbedTask) -> Result<Vec<Vec<f32>>, Error> {
        self.calls.fetch_add(1, Ordering::SeqCst);
        let delay = *self.delay.lock();
        tokio::time::sleep(delay).await;
        let gate = self.gate.lock().clone();
        if let Some(gate) = gate {
            self.reached.notify_one();
            gate.notified().await;
        }
        let model = self.model.to_owned();
        if self.failing.load(Ordering::SeqCst) {
            return Err(Error::Overloaded { model, message: "not now".to_owned(), source: None });
        }
        if self.refusing.load(Ordering::SeqCst) || texts.iter().any(|text| text.contains("refuse")) {
            return Err(Error::BadRequest { model, status: 400, message: "no".to_owned() });
        }
        Ok(texts.iter().map(|text| vec![text.trim().len() as f32, 1.0, 0.5]).collect())
    }
}

//! Transactions that are open while a trigger is saved. Only PostgreSQL has them, because SQLite runs
//! one write transaction at a time.

use std::sync::mpsc;

use emergent_graph::{Error as GraphError, objects};

use crate::triggers::*;

/// A write that is committed on request.
struct Slow {
    go: mpsc::Sender<()>,
    done: tokio::task::JoinHandle<ObjectId>,
}

impl Slow {
    async fn begin(harness: &Harness) -> Self {
        let (go, wait) = mpsc::channel::<()>();
        let (begun, has_begun) = mpsc::channel();
        let (wait, graph, actor) =
            (parking_lot::Mutex::new(wait), harness.executor.graph().clone(), harness.actor());
        let new = NewObject { type_: "Note".into(), ..NewObject::default() };
        let draft = objects::ObjectDraft::new(new).unwrap();
        let done = tokio::spawn(async move {
            let inner = graph.clone();
            let work = move |tx: &mut Tx<'_>| -> Result<ObjectId, GraphError> {
                let writer = inner.write_context(tx, actor)?;
                let id = objects::create(tx, &writer, &draft)?.id;
                begun.send(()).unwrap();
                wait.lock().recv().unwrap();
                Ok(id)
            };
            graph.db().write(work).await.unwrap()
        });
        tokio::task::spawn_blocking(move || has_begun.recv().unwrap()).await.unwrap();
        Self { go, done }
    }

    async fn commit(self) -> ObjectId {
        self.go.send(()).unwrap();
        self.done.await.unwrap()
    }
}

fn entities(firings: &[ListedFiring]) -> Vec<Uuid> {
    let entity = |one: &ListedFiring| match one.firing.fired {
        emergent_domain::trigger::FiringCause::Event { entity, .. } => entity,
        emergent_domain::trigger::FiringCause::Schedule { .. } => panic!("no schedule"),
    };
    let mut all: Vec<Uuid> = firings.iter().map(entity).collect();
    all.sort();
    all
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_write_that_began_before_a_trigger_and_ends_after_it_fires() {
    let db = TestDb::postgres().await;
    let two = TwoServers::open(&db).await;
    // One trigger exists from the start, so that the feed is read all the time.
    triggered_agent(&two.here, "first", "on_document_ingested", json!({})).await;
    let (slow, slower) = (Slow::begin(&two.here).await, Slow::begin(&two.here).await);
    // This change is committed while an older transaction is open: it cannot be read yet, and precedes the
    // trigger.
    let new = NewObject { type_: "Note".into(), ..NewObject::default() };
    let early = two.there.executor.graph().create_object(two.there.actor(), new).await.unwrap();
    triggered_agent(&two.there, "notes", "on_entity_created", json!({})).await;
    let slow = slow.commit().await;
    let slower = slower.commit().await;
    let late = two.create("Note", json!({})).await;
    for id in [early.id, slow, slower] {
        readable(&two.here, id.0, 1).await;
    }
    two.settle().await;
    let mut expected = [slow.0, slower.0, late.id.0];
    expected.sort();
    assert_eq!(entities(&two.firings().await), expected, "and not {}", early.id);
    assert_eq!(two.runs().await.len(), 3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_first_trigger_of_a_project_hears_of_what_is_under_way() {
    let db = TestDb::postgres().await;
    let two = TwoServers::open(&db).await;
    let slow = Slow::begin(&two.here).await;
    triggered_agent(&two.there, "notes", "on_entity_created", json!({})).await;
    two.settle().await;
    let slow = slow.commit().await;
    readable(&two.here, slow.0, 1).await;
    two.settle().await;
    assert_eq!(entities(&two.firings().await), [slow.0]);
}

//! Housekeeping deletes data that would otherwise accumulate.

use std::{convert::Infallible, sync::Arc, time::Duration};

use bytes::Bytes;
use emergent_domain::{
    ids::JobId,
    query::{ObjectFilter, SearchMode, SearchQuery},
};
use emergent_graph::{
    Graph,
    housekeeping::{DEAD_JOB_RETENTION, DONE_JOB_RETENTION},
    transfer::{ImportOptions, ImportProgress},
};
use emergent_llm::{Credentials, Embedder, EmbedderSpec};
use emergent_store::{
    jobs::{self, JobStatus, NewJob},
    statistics,
};
use emergent_testkit::{TestDb, both_engines, fixed_clock};
use futures_util::{TryStreamExt, stream};
use serde_json::json;
use tokio::sync::watch;

use crate::support;
use support::{Harness, new, project};

const MOMENT: Duration = Duration::from_secs(1);

/// Inserts a job that has just ended, successfully or not.
async fn ended(graph: &Graph, well: bool) -> JobId {
    let now = graph.clock().now();
    let end = graph.db().write(move |tx| {
        let id = jobs::enqueue(tx, &NewJob { max_attempts: 1, ..NewJob::new("q", now) })?.expect("a job");
        jobs::claim(tx, "q", "me", MOMENT, now, 1)?;
        if well {
            assert!(jobs::complete(tx, id, "me", now)?);
        } else {
            assert_eq!(jobs::fail(tx, id, "me", "no", now)?, jobs::FailOutcome::Dead);
        }
        Ok::<_, emergent_store::Error>(id)
    });
    end.await.unwrap()
}

async fn status(graph: &Graph, id: JobId) -> Option<JobStatus> {
    graph.db().read(move |tx| jobs::get(tx, id)).await.unwrap().map(|job| job.status)
}

both_engines! {
    async fn jobs_that_ended_are_kept_for_a_while(db: TestDb) {
        let graph = Graph::new(db.db.clone(), fixed_clock(), None);
        let (done, dead) = (ended(&graph, true).await, ended(&graph, false).await);
        let now = graph.clock().now();
        let waiting = graph.db().write(move |tx| jobs::enqueue(tx, &NewJob::new("q", now))).await.unwrap().unwrap();
        let check = async |expected: [Option<JobStatus>; 3]| {
            graph.prune().await.unwrap();
            assert_eq!([status(&graph, done).await, status(&graph, dead).await, status(&graph, waiting).await], expected);
        };
        graph.clock().advance(DONE_JOB_RETENTION);
        check([Some(JobStatus::Done), Some(JobStatus::Dead), Some(JobStatus::Queued)]).await;
        graph.clock().advance(MOMENT);
        check([None, Some(JobStatus::Dead), Some(JobStatus::Queued)]).await;
        graph.clock().advance(DEAD_JOB_RETENTION);
        check([None, None, Some(JobStatus::Queued)]).await;
    }

    async fn an_import_makes_the_statistics_of_what_it_filled(db: TestDb) {
        let harness = Harness::new(&db).await;
        let line = |n: usize| format!("{{\"kind\":\"object\",\"type\":\"T\",\"key\":\"{n}\"}}\n");
        let file: String = (0..3_000).map(line).collect();
        let input = stream::iter([Ok::<_, Infallible>(Bytes::from(file))]);
        let import = harness.graph.import(harness.actor, input, ImportOptions::default());
        let progress: Vec<ImportProgress> = import.try_collect().await.unwrap();
        assert_eq!(progress.last().unwrap().objects.created, 3_000);
        let grown = harness.graph.db().read(statistics::list_grown).await.unwrap();
        let unanalysed = harness.graph.db().read(statistics::list_unanalysed).await.unwrap();
        assert_eq!((grown, unanalysed), (Vec::new(), Vec::new()));
    }

    async fn a_server_tidies_up_by_itself_until_it_stops(db: TestDb) {
        let graph = Graph::new(db.db.clone(), fixed_clock(), None);
        let done = ended(&graph, true).await;
        graph.clock().advance(DONE_JOB_RETENTION + MOMENT);
        let (stop, stopped) = watch::channel(false);
        let running = tokio::spawn({
            let graph = graph.clone();
            async move { graph.run_housekeeping(stopped).await }
        });
        let gone = async {
            while status(&graph, done).await.is_some() {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(20), gone).await.expect("the job is forgotten");
        stop.send(true).unwrap();
        tokio::time::timeout(Duration::from_secs(20), running).await.expect("it ends").unwrap();
    }
}

/// Two servers on one database. Each caches vectors in memory and is not notified of the other's
/// writes, so a server that finds an object of the other one has loaded the vectors again.
async fn two_servers(db: &TestDb) -> (Harness, Harness) {
    let embedder: Arc<dyn Embedder> =
        emergent_llm::embedder(&EmbedderSpec::Builtin, &Credentials::default()).unwrap().unwrap();
    let here = Graph::new(db.db.clone(), fixed_clock(), Some(Arc::clone(&embedder)));
    let actor = project(&here, "test", false).await;
    let there = Graph::new(db.second_connection().await, fixed_clock(), Some(embedder));
    let (here, there) = (Harness { graph: here, actor }, Harness { graph: there, actor });
    for harness in [&here, &there] {
        harness.object(new("Note", "", json!({ "text": "penguins" }))).await;
        while harness.graph.embed_batch(actor.project).await.unwrap() > 0 {}
        assert_eq!(found(&here).await, 1);
    }
    (here, there)
}

/// Restores the project. A search in a deleted project returns nothing, so only this shows whether
/// the cache was cleared.
async fn bring_back(harness: &Harness) {
    let undo = "UPDATE projects SET deleted_at = NULL";
    let done = harness.graph.db().write(|tx| tx.execute(undo, &[])).await;
    done.unwrap_or_else(|error: emergent_store::Error| panic!("{error}"));
}

async fn found(harness: &Harness) -> usize {
    let query = SearchQuery {
        query: "penguins".to_owned(),
        mode: SearchMode::Vector,
        filter: ObjectFilter::default(),
        include_system: false,
        min_similarity: None,
        limit: 10,
        weights: None,
    };
    harness.graph.search(harness.project(), query).await.unwrap().hits.len()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deleted_projects_vectors_leave_memory() {
    let (here, _there) = two_servers(&TestDb::sqlite().await).await;
    here.graph.delete_project(here.project()).await.unwrap();
    bring_back(&here).await;
    assert_eq!(found(&here).await, 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn vectors_of_a_project_that_another_server_deleted_leave_memory() {
    let db = TestDb::sqlite().await;
    let (here, there) = two_servers(&db).await;
    here.graph.prune().await.unwrap();
    assert_eq!(found(&here).await, 1, "it lives");
    there.graph.delete_project(here.project()).await.unwrap();
    here.graph.prune().await.unwrap();
    bring_back(&here).await;
    assert_eq!(found(&here).await, 2);
}

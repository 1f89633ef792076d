//! Workflows with more and larger tasks than one transaction can write in its time. Every change of a task takes
//! long here, so that a few of them suffice.

use std::time::Duration;

use emergent_domain::{
    task::{NewTask, TaskStatus},
    workflow::{OnFailure, WorkflowSettings, WorkflowStatus},
};
use emergent_store::{Db, TimeLimits, Tx, params};
use emergent_testkit::{
    TestDb,
    scripted::{ScriptedModel, hangs},
};

use crate::harness::{House, task};

const TASKS: usize = 100;
/// Each change of a task takes some milliseconds longer.
const SLOW_UPDATES: &str = "CREATE TRIGGER slow_updates AFTER UPDATE ON graph_objects BEGIN
    SELECT count(*) FROM sqlite_master AS a, sqlite_master AS b, (SELECT 1 FROM sqlite_master LIMIT 3) AS c
        WHERE a.name || b.name = 'x';
END";

/// A database in which a write may take 600 milliseconds.
async fn limited() -> (TestDb, Db) {
    let db = TestDb::sqlite().await;
    let limits = TimeLimits { read: Duration::from_secs(10), write: Duration::from_millis(600) };
    let limited = Db::open_with(db.config().clone(), limits).await.expect("the same database");
    (db, limited)
}

async fn make_slow(db: &Db) {
    db.write(|tx: &mut Tx<'_>| tx.execute(SLOW_UPDATES, params![])).await.expect("a trigger");
}

/// A task that hangs, and many that wait for it.
fn many_tasks() -> Vec<NewTask> {
    let waiting = (0..TASKS).map(|n| task(&format!("t{n}"), "builder", &["first"]));
    [task("first", "builder", &[])].into_iter().chain(waiting).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_workflow_with_many_tasks_is_cancelled_in_several_transactions() {
    let (_folder, db) = limited().await;
    let house = House::open(&db, ScriptedModel::default().agent("builder", [hangs()])).await;
    house.agents(&["builder"]).await;
    let id = house.dispatch(many_tasks()).await;
    house.reaches(id, "first", TaskStatus::InProgress).await;
    make_slow(&db).await;
    let cancelled = house.dispatcher.cancel(house.actor(), id).await.unwrap();
    assert_eq!(cancelled.status, WorkflowStatus::Cancelled);
    let shown = house.ended(id).await;
    let ended = |status| shown.tasks.iter().filter(|one| one.task.status == status).count();
    assert_eq!((ended(TaskStatus::Failed), ended(TaskStatus::Skipped)), (1, TASKS));
    let kinds: Vec<_> = house.events(id).await.iter().map(|event| event.kind.to_string()).collect();
    let ends = kinds.iter().filter(|kind| *kind == "workflow_ended").count();
    assert_eq!(ends, 1, "{kinds:?}");
    let again = house.dispatcher.cancel(house.actor(), id).await;
    assert!(again.is_err_and(|error| error.to_string().contains("has ended")));
    house.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_workflow_with_many_tasks_is_resumed_in_several_transactions() {
    let (_folder, db) = limited().await;
    let house = House::open(&db, ScriptedModel::default().agent("builder", [hangs(), hangs()])).await;
    house.agents(&["builder"]).await;
    let settings = WorkflowSettings { on_failure: OnFailure::Skip, ..WorkflowSettings::default() };
    let id = house.dispatch_with(settings, many_tasks()).await;
    let run = house.reaches(id, "first", TaskStatus::InProgress).await.run.unwrap();
    house.dispatcher.executor().cancel(house.actor(), run).await.unwrap();
    assert_eq!(house.ended(id).await.workflow.status, WorkflowStatus::Failed);
    make_slow(&db).await;
    let resumed = house.dispatcher.resume(house.actor(), id, None, None).await.unwrap();
    assert_eq!(resumed.status, WorkflowStatus::Running);
    let shown = house.dispatcher.workflow(house.project, id).await.unwrap();
    assert!(shown.tasks.iter().all(|one| one.task.status != TaskStatus::Skipped));
    house.kill();
}

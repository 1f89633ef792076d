//! Workflows with more and larger tasks than one transaction can write in its time. Every change of a task takes
//! long here, so that a few of them suffice.

use std::time::Duration;

use emergent_domain::{
    approval::{ApprovalStatus, Choice, NewDecision},
    task::{NewTask, TaskStatus},
    workflow::{OnFailure, WorkflowSettings, WorkflowStatus},
};
use emergent_store::{Db, Engine, TimeLimits, Tx, params};
use emergent_testkit::{
    TestDb, both_engines,
    scripted::{ScriptedModel, hangs, says},
};

use crate::harness::{House, task};

const TASKS: usize = 100;
/// Each change of a task takes some milliseconds longer.
const SLOW_UPDATES: &str = "CREATE TRIGGER slow_updates AFTER UPDATE ON graph_objects BEGIN
    SELECT count(*) FROM sqlite_master AS a, sqlite_master AS b, (SELECT 1 FROM sqlite_master LIMIT 3) AS c
        WHERE a.name || b.name = 'x';
END";
/// The same on PostgreSQL.
const SLOW_UPDATES_ON_POSTGRES: [&str; 2] = [
    "CREATE FUNCTION slow_update() RETURNS trigger LANGUAGE plpgsql
     AS 'BEGIN PERFORM pg_sleep(0.01); RETURN NULL; END'",
    "CREATE TRIGGER slow_updates AFTER UPDATE ON graph_objects FOR EACH ROW EXECUTE FUNCTION slow_update()",
];

/// A database in which a write may take 600 milliseconds.
async fn limited() -> (TestDb, Db) {
    let db = TestDb::sqlite().await;
    let limited = with_limits(&db).await;
    (db, limited)
}

async fn with_limits(db: &TestDb) -> Db {
    let limits = TimeLimits { read: Duration::from_secs(10), write: Duration::from_millis(600) };
    Db::open_with(db.config().clone(), limits).await.expect("the same database")
}

async fn make_slow(db: &Db) {
    let statements = match db.engine() {
        Engine::Sqlite => vec![SLOW_UPDATES],
        Engine::Postgres => SLOW_UPDATES_ON_POSTGRES.to_vec(),
    };
    for sql in statements {
        db.write(move |tx: &mut Tx<'_>| tx.execute(sql, params![])).await.expect("a trigger");
    }
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

both_engines! {
    async fn a_discussion_of_many_tasks_that_is_denied_keeps_the_decision(db: TestDb) {
        let writer: Vec<_> = (0..4).map(|_| says("A proposal.")).collect();
        let researcher: Vec<_> = (0..4).map(|_| says("SUGGEST_CHANGES: not like that.")).collect();
        let model = ScriptedModel::default().agent("writer", writer).agent("researcher", researcher);
        let house = House::open(&db, model).await;
        house.agents(&["writer", "researcher", "builder"]).await;
        let mut tasks = many_tasks();
        tasks[0] = NewTask {
            requires_collaboration: true,
            collaborators: vec!["researcher".into()],
            ..task("first", "writer", &[])
        };
        let id = house.dispatch(tasks).await;
        let discussion = house.ended(id).await.workflow.escalation.unwrap().discussion.unwrap();
        house.close().await;
        // Only the cancellation has little time.
        let limited = with_limits(&db).await;
        let house = House::open(&limited, ScriptedModel::default()).await;
        make_slow(&limited).await;
        let denied = NewDecision {
            choice: Choice::Deny,
            edited_input: None,
            answer: None,
            reason: Some("Not needed.".into()),
            digest: None,
        };
        let item = house.dispatcher.decide_inbox_item(house.actor(), discussion.0, denied).await.unwrap().item;
        assert_eq!(house.ended(id).await.workflow.status, WorkflowStatus::Cancelled);
        let events = house.events(id).await;
        let escalations = events.iter().filter(|event| event.kind == "escalated").count();
        assert_eq!(escalations, 2, "the tasks were ended in several transactions: {events:?}");
        let decision = item.decision.unwrap();
        assert_eq!((item.status, decision.choice), (ApprovalStatus::Decided, Choice::Deny));
        assert_eq!(decision.reason.as_deref(), Some("Not needed."));
        house.close().await;
    }
}

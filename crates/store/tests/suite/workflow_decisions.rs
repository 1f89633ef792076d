//! What a dispatcher writes when it decides for a workflow that it owns.

use std::time::Duration;

use emergent_domain::{
    ids::{ObjectId, ProjectId, RunId},
    workflow::{Workflow, WorkflowStatus},
};
use emergent_store::{
    Tx, projects,
    workflows::{self, NewWorkflowEvent},
};
use emergent_testkit::both_engines;
use serde_json::json;

use crate::{unreadable::now, unreadable_runs::workflow};

const OWNER: &str = "dispatcher";
const LEASE: Duration = Duration::from_secs(30);

fn event(kind: &'static str, task: Option<ObjectId>, run: Option<RunId>) -> NewWorkflowEvent {
    NewWorkflowEvent { kind, task, run, data: json!({ "reason": "a\0b" }), at: now() }
}

/// Inserts a workflow that the dispatcher owns.
fn insert_owned(tx: &mut Tx<'_>) -> emergent_store::Result<Workflow> {
    let project = projects::insert(tx, "p", false, now())?.unwrap().id;
    let owned = Workflow { owner: Some(OWNER.to_owned()), escalation: None, ..workflow(project) };
    workflows::insert(tx, &owned)?;
    Ok(owned)
}

both_engines! {
    async fn only_the_dispatcher_that_owns_an_active_workflow_locks_it(db: TestDb) {
        db.write(|tx| {
            let owned = insert_owned(tx)?;
            let (project, id) = (owned.project, owned.id);
            assert_eq!(workflows::lock_owned(tx, project, id, OWNER)?.as_ref(), Some(&owned));
            assert_eq!(workflows::lock_owned(tx, project, id, "another")?, None);
            assert_eq!(workflows::lock_owned(tx, ProjectId::new(), id, OWNER)?, None);
            let ended = Workflow { status: WorkflowStatus::Completed, ..owned.clone() };
            assert!(workflows::update(tx, WorkflowStatus::Running, &ended)?);
            assert_eq!(workflows::lock_owned(tx, project, id, OWNER)?, None, "it has ended");
            Ok::<_, emergent_store::Error>(())
        })
        .await
        .unwrap();
    }

    async fn decisions_follow_the_events_that_were_appended_before_in_their_transaction(db: TestDb) {
        let (task, run) = (ObjectId::new(), RunId::new());
        let owned = db.write(insert_owned).await.unwrap();
        let (project, id) = (owned.project, owned.id);
        let decide = move |tx: &mut Tx<'_>| {
            assert!(workflows::lock_owned(tx, project, id, OWNER)?.is_some());
            workflows::append_events(tx, id, &[event("task_added", Some(task), None)])?;
            let decided = [event("task_started", Some(task), Some(run)), event("escalated", None, None)];
            workflows::write_decisions(tx, id, now() + LEASE, &decided)
        };
        db.write(decide).await.unwrap();
        // Without an event, the revision and the lease are written all the same.
        db.write(move |tx| workflows::write_decisions(tx, id, now() + LEASE, &[])).await.unwrap();
        db.write(move |tx| {
            let after = workflows::get(tx, project, id)?.unwrap();
            assert_eq!((after.revision, after.event_seq), (2, 3));
            let events = workflows::list_events(tx, id, 0, 10)?;
            let kinds: Vec<_> = events.iter().map(|event| (event.seq, event.kind.as_str())).collect();
            assert_eq!(kinds, [(1, "task_added"), (2, "task_started"), (3, "escalated")]);
            let about: Vec<_> = events.iter().map(|event| (event.task, event.run)).collect();
            assert_eq!(about, [(Some(task), None), (Some(task), Some(run)), (None, None)]);
            assert!(events.iter().all(|event| event.at == now() && event.data == json!({ "reason": "a\u{fffd}b" })));
            let claimed = |tx: &mut Tx<'_>, at| {
                let limits = workflows::ClaimLimits { total: 1, per_project: 1, owned: [].into() };
                workflows::claim(tx, "another", &limits, at, at + LEASE)
            };
            assert!(claimed(tx, now() + LEASE / 2)?.is_empty(), "the lease is valid");
            assert_eq!(claimed(tx, now() + LEASE * 2)?.len(), 1);
            Ok::<_, emergent_store::Error>(())
        })
        .await
        .unwrap();
    }

    async fn a_workflow_is_inserted_with_its_first_events(db: TestDb) {
        db.write(|tx| {
            let project = projects::insert(tx, "p", false, now())?.unwrap().id;
            let mut new = Workflow { escalation: None, ..workflow(project) };
            let events = [event("workflow_started", None, None), event("task_added", Some(ObjectId::new()), None)];
            workflows::insert_with_events(tx, &mut new, &events)?;
            let stored = workflows::get(tx, project, new.id)?.unwrap();
            assert_eq!((stored.event_seq, &stored), (2, &new));
            workflows::append_events(tx, new.id, &[event("task_started", None, None)])?;
            let events = workflows::list_events(tx, new.id, 0, 10)?;
            let kinds: Vec<_> = events.iter().map(|event| (event.seq, event.kind.as_str())).collect();
            assert_eq!(kinds, [(1, "workflow_started"), (2, "task_added"), (3, "task_started")]);
            Ok::<_, emergent_store::Error>(())
        })
        .await
        .unwrap();
    }
}

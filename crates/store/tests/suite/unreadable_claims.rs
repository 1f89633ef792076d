//! A row that this version cannot read keeps no other row from being claimed. It is left as it is,
//! because a newer server may understand it.

use std::{collections::HashMap, time::Duration};

use emergent_domain::{
    change::FeedPosition,
    ids::{AgentId, JobId, ProjectId, RunId, WorkflowId},
    run::{Run, RunStatus},
    time::Timestamp,
    trigger::{EventConfig, EventKind, EventTrigger, FeedStart},
};
use emergent_store::{
    Db, Param, Tx,
    embedding_queue::{self, RowKind},
    jobs, params,
    runs::{self, claim},
    triggers::{
        self,
        firings::{self, DueFirings},
    },
    workflows::{self, ClaimLimits},
};
use emergent_testkit::both_engines;
use uuid::Uuid;

use crate::{
    unreadable::{firing, now},
    unreadable_runs::{run, workflow},
};

const LEASE: Duration = Duration::from_secs(10);

fn second(number: u64) -> Timestamp {
    now() + Duration::from_secs(number)
}

/// Writes a value that no version knows.
async fn spoil(db: &Db, table: &'static str, column: &'static str, value: &'static str, id: Uuid) {
    let sql = format!("UPDATE {table} SET {column} = $1 WHERE id = $2");
    let done = db.write(move |tx| tx.execute(&sql, &[Param::from(value), Param::from(id)])).await;
    assert_eq!(done.unwrap(), 1);
}

/// Inserts four runs, the oldest first, and makes the first and the third unreadable.
async fn insert_runs(db: &Db, prepare: impl Fn(&mut Run)) -> Vec<RunId> {
    let project = ProjectId::new();
    let rows: Vec<Run> = (0..4)
        .map(|index| {
            let mut run = Run { created_at: second(index), parent: None, ..run(project) };
            prepare(&mut run);
            run
        })
        .collect();
    let ids: Vec<RunId> = rows.iter().map(|run| run.id).collect();
    db.write(move |tx| rows.iter().try_for_each(|run| runs::insert(tx, run))).await.unwrap();
    spoil(db, "agent_runs", "origin", "moon", ids[0].0).await;
    spoil(db, "agent_runs", "model_config", r#"{"name": 7}"#, ids[2].0).await;
    ids
}

async fn owner(db: &Db, id: RunId) -> Option<String> {
    let sql = "SELECT owner FROM agent_runs WHERE id = $1";
    let read = move |tx: &mut Tx<'_>| tx.query_opt(sql, params![id], |row| row.get(0));
    db.read(read).await.unwrap().expect("the run is there")
}

/// Claims queued runs of all projects.
async fn claim_queued(db: &Db, limit: usize) -> Vec<Run> {
    let claimed = db.write(move |tx| {
        let mut claimed = Vec::new();
        for project in claim::list_waiting_projects(tx, ProjectId(Uuid::nil()))? {
            let mut runs = claim::lock_queued(tx, project, limit - claimed.len())?;
            claim::mark_started(tx, "runner", second(9), &mut runs)?;
            claimed.extend(runs);
        }
        Ok::<_, emergent_store::Error>(claimed)
    });
    claimed.await.unwrap()
}

both_engines! {
    async fn of_queued_runs(db: TestDb) {
        let ids = insert_runs(&db, |_| {}).await;
        let claimed = claim_queued(&db, 1).await;
        let [run] = claimed.as_slice() else { panic!("{claimed:?}") };
        assert_eq!((run.id, run.status, run.owner.as_deref()), (ids[1], RunStatus::Running, Some("runner")));
        assert_eq!((run.started_at, run.deadline_base), (Some(second(9)), Some(second(9))));
        let (project, id, claimed) = (run.project, run.id, run.clone());
        let stored = db.read(move |tx| runs::get(tx, project, id)).await.unwrap();
        assert_eq!(stored, Some(claimed));
        let rest = claim_queued(&db, 9).await;
        assert_eq!(rest.iter().map(|run| run.id).collect::<Vec<_>>(), [ids[3]]);
        for id in [ids[0], ids[2]] {
            assert_eq!(owner(&db, id).await, None);
        }
        let sql = "SELECT count(*) FROM agent_runs WHERE status = 'queued'";
        assert_eq!(crate::number(&db, sql).await, 2);
    }

    async fn of_orphaned_runs(db: TestDb) {
        let ids = insert_runs(&db, |run| {
            (run.status, run.owner) = (RunStatus::Running, Some("crashed".into()));
        })
        .await;
        let claimed = db.write(|tx| {
            let orphans = claim::lock_orphaned(tx, "runner", &[], second(9), 9)?;
            let take_over = |orphan| claim::claim_orphan(tx, "runner", orphan, LEASE, second(9)).transpose();
            orphans.into_iter().filter_map(take_over).collect::<Result<Vec<_>, _>>()
        });
        let claimed = claimed.await.unwrap();
        let mut claimed: Vec<RunId> = claimed.iter().map(|run| run.id).collect();
        claimed.sort();
        assert_eq!(claimed, [ids[1], ids[3]]);
        assert_eq!(owner(&db, ids[0]).await.as_deref(), Some("crashed"));
        assert_eq!(owner(&db, ids[1]).await.as_deref(), Some("runner"));
    }

    async fn of_workflows(db: TestDb) {
        let project = ProjectId::new();
        let rows: Vec<_> = (0..3).map(|_| workflow(project)).collect();
        let ids: Vec<WorkflowId> = rows.iter().map(|workflow| workflow.id).collect();
        db.write(move |tx| rows.iter().try_for_each(|row| workflows::insert(tx, row))).await.unwrap();
        spoil(&db, "workflows", "settings", r#"{"moon": true}"#, ids[1].0).await;
        let limits = ClaimLimits { total: 9, per_project: 9, owned: HashMap::new() };
        let claimed = db.write(move |tx| workflows::claim(tx, "d", &limits, now(), second(10))).await.unwrap();
        let mut claimed: Vec<_> = claimed.into_iter().map(|row| (row.id, row.owner)).collect();
        claimed.sort();
        assert_eq!(claimed, [(ids[0], Some("d".to_owned())), (ids[2], Some("d".to_owned()))]);
        assert_eq!(crate::number(&db, "SELECT count(*) FROM workflows WHERE owner IS NULL").await, 1);
    }

    async fn no_more_workflows_of_a_project_are_claimed_than_its_share(db: TestDb) {
        let (greedy, other) = (ProjectId::new(), ProjectId::new());
        let workflows_in = |project: ProjectId, count: usize| (0..count).map(move |_| workflow(project));
        let rows: Vec<_> = workflows_in(greedy, 9).chain(workflows_in(other, 2)).collect();
        db.write(move |tx| rows.iter().try_for_each(|row| workflows::insert(tx, row))).await.unwrap();
        let limits = ClaimLimits { total: 6, per_project: 3, owned: HashMap::from([(greedy, 1)]) };
        let claimed = db.write(move |tx| workflows::claim(tx, "d", &limits, now(), second(10))).await.unwrap();
        let count = |project: ProjectId| claimed.iter().filter(|workflow| workflow.project == project).count();
        assert_eq!((count(greedy), count(other)), (2, 2), "one of the greedy project is owned already");
    }

    async fn of_jobs_that_are_due_and_of_jobs_whose_lease_expired(db: TestDb) {
        let enqueue = |tx: &mut Tx<'_>| {
            let ids = (0..3).map(|_| jobs::enqueue(tx, &jobs::NewJob::new("mail", now())));
            ids.collect::<Result<Vec<Option<JobId>>, _>>()
        };
        let ids: Vec<JobId> = db.write(enqueue).await.unwrap().into_iter().flatten().collect();
        let claim = |owner: &'static str, at: u64| {
            move |tx: &mut Tx<'_>| jobs::claim(tx, "mail", owner, LEASE, second(at), 2)
        };
        let taken = db.write(claim("first", 0)).await.unwrap();
        assert_eq!(taken.len(), 2);
        let left: Vec<JobId> = ids.iter().copied().filter(|id| taken.iter().all(|job| job.id != *id)).collect();
        spoil(&db, "jobs", "payload", "[1]", taken[0].id.0).await;
        let claimed: Vec<JobId> =
            db.write(claim("second", 60)).await.unwrap().iter().map(|job| job.id).collect();
        assert_eq!(claimed, [taken[1].id, left[0]]);
    }

    async fn of_rows_that_wait_for_an_embedding(db: TestDb) {
        let project = ProjectId::new();
        let enqueue = move |tx: &mut Tx<'_>| {
            embedding_queue::enqueue(tx, RowKind::Object, project, &[(1, 1), (2, 1)], now())?;
            tx.execute("UPDATE embedding_queue SET kind = 'picture' WHERE no = 1", params![])
        };
        db.write(enqueue).await.unwrap();
        let queued = db.read(move |tx| embedding_queue::peek(tx, project, 9)).await.unwrap();
        assert_eq!(queued.iter().map(|row| row.no).collect::<Vec<_>>(), [2]);
        assert_eq!(crate::number(&db, "SELECT count(*) FROM embedding_queue").await, 2);
    }

    async fn of_event_triggers_and_firings(db: TestDb) {
        let (project, agent, newer_agent) = (ProjectId::new(), AgentId::new(), AgentId::new());
        let written = [agent, newer_agent].map(|agent| EventTrigger { dispatch: None, name: None, product: None,
            agent,
            project,
            event: EventKind::EntityCreated,
            config: EventConfig::default(),
            since: FeedStart { after: FeedPosition::default(), open: Vec::new() },
        });
        let readable_trigger = written[0].clone();
        let newer_firing = firing(project, newer_agent);
        db.write(move |tx| {
            written.iter().try_for_each(|trigger| triggers::upsert(tx, trigger))?;
            firings::insert(tx, std::slice::from_ref(&newer_firing))?;
            let sql = "UPDATE event_triggers SET event = 'on_full_moon' WHERE agent_id = $1";
            tx.execute(sql, params![newer_agent])
        })
        .await
        .unwrap();
        let both = [agent, newer_agent];
        let locked = db.write(move |tx| triggers::lock_readable(tx, &both)).await.unwrap();
        assert_eq!((locked.readable, &locked.unreadable), (vec![readable_trigger], &vec![newer_agent]));
        let rows = [firing(project, agent), firing(project, agent)];
        let [bad, good] = rows.clone();
        db.write(move |tx| firings::insert(tx, &rows)).await.unwrap();
        spoil(&db, "trigger_firings", "event", "on_full_moon", bad.id.0).await;
        let without = move |tx: &mut Tx<'_>| {
            let which = DueFirings::Without(&locked.unreadable);
            firings::list_due(tx, project, which, &HashMap::new(), now(), 1)
        };
        let due = db.read(without).await.unwrap();
        assert_eq!(due, std::slice::from_ref(&good));
        db.write(move |tx| {
            tx.execute(
                "INSERT INTO projects (no, id, name, strict, packs_revision, created_at, updated_at)
                 VALUES (1, $1, 'p', $2, 0, $3, $3)",
                params![project, false, now()],
            )
        })
        .await
        .unwrap();
        let waiting = db.read(firings::count_waiting).await.unwrap();
        assert_eq!(waiting, [(EventKind::EntityCreated, 2)]);
        let pending = db.read(move |tx| firings::list_pending(tx, project, agent, None, 9)).await.unwrap();
        assert_eq!(pending, std::slice::from_ref(&good));
        let first = db.read(move |tx| firings::list_first_due(tx, agent, now(), 1)).await.unwrap();
        assert_eq!(first, [good]);
    }
}

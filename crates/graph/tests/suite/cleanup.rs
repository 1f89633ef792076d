//! Deleting projects, and deleting what projects do not keep any longer.

use crate::support;

use std::{collections::BTreeSet, time::Duration};

use emergent_domain::{
    change::FeedPosition,
    ids::{AgentId, FiringId, ProjectId, RunId, ScheduleId, WorkflowId},
    project::{DeletedCounts, Project, ProjectPatch, Retention, RetentionPatch},
    run::{Origin, Run, RunStatus},
    time::Timestamp,
    token::Scope,
    trigger::{EventConfig, EventKind, EventTrigger, FeedStart, Firing, FiringCause, FiringStatus},
    workflow::WorkflowLink,
};
use emergent_graph::{Error, Graph, cleanup::CleanupSettings};
use emergent_store::{Param, Tx, feed, jobs, params, runs, triggers};
use emergent_testkit::both_engines;
use serde_json::json;
use support::*;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

pub fn days(count: u32) -> Duration {
    DAY * count
}

/// A run that ended just now.
pub fn ended_run(harness: &Harness, status: RunStatus) -> Run {
    let now = harness.graph.clock().now();
    Run {
        id: RunId::new(),
        project: harness.project(),
        agent: AgentId::new(),
        agent_version: 1,
        agent_name: "worker".into(),
        status,
        reason: None,
        origin: Origin::Trigger,
        parent: None,
        parent_call: None,
        child_index: 0,
        depth: 0,
        resumed_from: None,
        schedule: None,
        cause: None,
        cause_depth: 0,
        workflow_link: WorkflowLink::default(),
        model: "rehearsal/echo".parse().unwrap(),
        step_count: 1,
        steps_before: 0,
        terms: Default::default(),
        max_steps: None,
        timeout_seconds: 300,
        deadline_base: Some(now),
        owner: None,
        seq: 1,
        summary: None,
        error: None,
        started_by: None,
        created_at: now,
        started_at: Some(now),
        completed_at: status.is_terminal().then_some(now),
        waiting_for: None,
        output: None,
        waiting_since: None,
    }
}

/// Stores a run with an event.
pub async fn store_run(harness: &Harness, run: Run) -> RunId {
    let id = run.id;
    let stored = harness.graph.db().write(move |tx| {
        runs::insert(tx, &run)?;
        runs::record::insert_event(tx, run.id, 1, "run_started", &json!({}), run.created_at)
    });
    stored.await.unwrap_or_else(|error: emergent_store::Error| panic!("{error}"));
    id
}

pub async fn count(graph: &Graph, sql: &'static str, project: ProjectId) -> i64 {
    let read = move |tx: &mut Tx<'_>| tx.query_opt(sql, params![project], |row| row.get::<i64>(0));
    let counted: Result<Option<i64>, emergent_store::Error> = graph.db().read(read).await;
    counted.unwrap().unwrap()
}

pub async fn run_ids(harness: &Harness) -> BTreeSet<RunId> {
    let project = harness.project();
    let read = move |tx: &mut Tx<'_>| {
        tx.query("SELECT id FROM agent_runs WHERE project_id = $1", params![project], |row| row.get(0))
    };
    let found: Result<Vec<RunId>, emergent_store::Error> = harness.graph.db().read(read).await;
    found.unwrap().into_iter().collect()
}

pub async fn keep(harness: &Harness, retention: RetentionPatch) -> Project {
    let patch = ProjectPatch { retention, ..ProjectPatch::default() };
    harness.graph.update_project(harness.project(), patch).await.unwrap()
}

pub async fn clean_up(harness: &Harness) -> DeletedCounts {
    harness.graph.delete_expired(CleanupSettings::default()).await.unwrap();
    harness.graph.get_project(harness.project()).await.unwrap().deleted
}

fn firing(harness: &Harness, status: FiringStatus, settled_at: Option<Timestamp>) -> Firing {
    let now = harness.graph.clock().now();
    Firing {
        workflow: None,
        trigger_name: None,
        id: FiringId::new(),
        project: harness.project(),
        agent: AgentId::new(),
        fired: FiringCause::Schedule { schedule: ScheduleId::new(), at: now },
        cause: None,
        cause_depth: 0,
        status,
        reason: None,
        run: None,
        due_at: now,
        created_at: now,
        settled_at,
    }
}

both_engines! {
    async fn a_project_keeps_everything_unless_it_says_otherwise(db: TestDb) {
        let harness = Harness::new(&db).await;
        let old = store_run(&harness, ended_run(&harness, RunStatus::Completed)).await;
        harness.object(new("Note", "", json!({}))).await;
        harness.graph.clock().advance(days(1_000));
        assert_eq!(clean_up(&harness).await, DeletedCounts::default());
        assert!(run_ids(&harness).await.contains(&old));

        let kept = keep(&harness, RetentionPatch { runs_days: Some(Some(90)), ..RetentionPatch::default() }).await;
        assert_eq!(kept.retention, Retention { runs_days: Some(90), ..Retention::default() });
        let unchanged = keep(&harness, RetentionPatch::default()).await;
        assert_eq!(unchanged.retention.runs_days, Some(90));
        for wrong in [0, -1, 36_501] {
            let retention = RetentionPatch { events_days: Some(Some(wrong)), ..RetentionPatch::default() };
            let refused = harness.graph.update_project(harness.project(), ProjectPatch { retention, ..ProjectPatch::default() }).await;
            assert!(matches!(&refused, Err(Error::Invalid(invalid)) if invalid.to_string().contains("retention.eventsDays")), "{refused:?}");
        }
        let for_ever = keep(&harness, RetentionPatch { runs_days: Some(None), ..RetentionPatch::default() }).await;
        assert_eq!(for_ever.retention, Retention::default());
    }

    async fn ended_runs_are_deleted_with_their_record_after_their_time(db: TestDb) {
        let harness = Harness::new(&db).await;
        keep(&harness, RetentionPatch { runs_days: Some(Some(30)), ..RetentionPatch::default() }).await;
        let other = Harness { graph: harness.graph.clone(), actor: project(&harness.graph, "other", false).await };
        let theirs = store_run(&other, ended_run(&other, RunStatus::Completed)).await;

        // A tree, a chain of resumed runs, and what is still active.
        let parent = store_run(&harness, ended_run(&harness, RunStatus::Completed)).await;
        let child = Run { parent: Some(parent), ..ended_run(&harness, RunStatus::Failed) };
        store_run(&harness, child).await;
        let paused = store_run(&harness, ended_run(&harness, RunStatus::Paused)).await;
        let first = store_run(&harness, ended_run(&harness, RunStatus::Paused)).await;
        let second = Run { resumed_from: Some(first), ..ended_run(&harness, RunStatus::Paused) };
        let second = store_run(&harness, second).await;
        let resumed = store_run(&harness, ended_run(&harness, RunStatus::Paused)).await;
        let active = Run { resumed_from: Some(resumed), ..ended_run(&harness, RunStatus::Running) };
        let active = store_run(&harness, active).await;
        let waiting_parent = store_run(&harness, ended_run(&harness, RunStatus::Running)).await;
        let its_child = Run { parent: Some(waiting_parent), ..ended_run(&harness, RunStatus::Completed) };
        let its_child = store_run(&harness, its_child).await;
        let workflow = WorkflowId::new();
        let link = WorkflowLink { workflow: Some(workflow), ..WorkflowLink::default() };
        let attempt = store_run(&harness, Run { workflow_link: link, ..ended_run(&harness, RunStatus::Completed) }).await;
        let (id, now) = (harness.project(), harness.graph.clock().now());
        let added = harness.graph.db().write(move |tx| tx.execute(
            "INSERT INTO workflows (id, project_id, description, status, settings, plan_attempts, revision, event_seq, created_at, updated_at)
             VALUES ($1, $2, '', 'escalated', '{}', 0, 0, 0, $3, $3)", params![workflow, id, now]));
        assert_eq!(added.await.unwrap_or_else(|error: emergent_store::Error| panic!("{error}")), 1);

        harness.graph.clock().advance(days(29));
        assert_eq!(clean_up(&harness).await.runs, 0);
        let young = store_run(&harness, ended_run(&harness, RunStatus::Completed)).await;
        harness.graph.clock().advance(days(2));
        let deleted = clean_up(&harness).await;
        let left = run_ids(&harness).await;
        assert_eq!(left, BTreeSet::from([resumed, active, waiting_parent, its_child, attempt, young]));
        assert!(!left.contains(&paused) && !left.contains(&first) && !left.contains(&second));
        assert_eq!(deleted, DeletedCounts { runs: 5, ..DeletedCounts::default() });
        let events = "SELECT count(*) FROM agent_run_events AS e WHERE NOT EXISTS (SELECT 1 FROM agent_runs AS r WHERE r.id = e.run_id)
                          AND EXISTS (SELECT 1 FROM projects WHERE id = $1)";
        assert_eq!(count(&harness.graph, events, harness.project()).await, 0, "nothing of the record is left");
        assert_eq!(run_ids(&other).await, BTreeSet::from([theirs]), "another project keeps its runs");
    }

    async fn changes_leave_the_feed_when_triggers_have_read_them(db: TestDb) {
        let harness = Harness::new(&db).await;
        keep(&harness, RetentionPatch { events_days: Some(Some(7)), ..RetentionPatch::default() }).await;
        for n in 0..3 {
            harness.object(new("Note", "", json!({ "n": n }))).await;
        }
        let project = harness.project();
        let changes = loop {
            // On PostgreSQL a change is readable when all earlier transactions of the cluster have ended.
            let read = harness.graph.db().read(move |tx| feed::read_after(tx, project, FeedPosition::default(), 10));
            let changes: Result<_, emergent_store::Error> = read.await;
            match changes.unwrap().items {
                changes if changes.len() == 3 => break changes,
                _ => tokio::time::sleep(Duration::from_millis(20)).await,
            }
        };
        let trigger = EventTrigger { dispatch: None, name: None, product: None,
            agent: AgentId::new(), project, event: EventKind::EntityCreated, config: EventConfig::default(),
            since: FeedStart { after: FeedPosition::default(), open: Vec::new() },
        };
        let second = changes[1].position;
        let saved = harness.graph.db().write(move |tx| {
            triggers::upsert(tx, &trigger)?;
            triggers::lock_cursor(tx, project)?;
            triggers::set_cursor(tx, project, second)
        });
        saved.await.unwrap_or_else(|error: emergent_store::Error| panic!("{error}"));
        harness.graph.clock().advance(days(8));
        assert_eq!(clean_up(&harness).await.events, 2, "the third has not been read");
        harness.object(new("Note", "", json!({ "n": 3 }))).await;
        let last = changes[2].position;
        let moved = harness.graph.db().write(move |tx| triggers::set_cursor(tx, project, last));
        moved.await.unwrap_or_else(|error: emergent_store::Error| panic!("{error}"));
        assert_eq!(clean_up(&harness).await.events, 3);
        let left = "SELECT count(*) FROM graph_events WHERE project_id = $1";
        assert_eq!(count(&harness.graph, left, project).await, 1, "a new change is kept");
    }

    async fn settled_firings_are_kept_as_long_as_the_project_says(db: TestDb) {
        let harness = Harness::new(&db).await;
        keep(&harness, RetentionPatch { firings_days: Some(Some(30)), ..RetentionPatch::default() }).await;
        let now = harness.graph.clock().now();
        let rows = [firing(&harness, FiringStatus::Admitted, Some(now)), firing(&harness, FiringStatus::Pending, None)];
        let added = harness.graph.db().write(move |tx| triggers::firings::insert(tx, &rows)).await;
        assert_eq!(added.unwrap(), 2);
        harness.graph.clock().advance(days(30));
        assert_eq!(clean_up(&harness).await.firings, 0);
        harness.graph.clock().advance(Duration::from_secs(1));
        assert_eq!(clean_up(&harness).await.firings, 1);
        let left = "SELECT count(*) FROM trigger_firings WHERE project_id = $1 AND status = 'pending'";
        assert_eq!(count(&harness.graph, left, harness.project()).await, 1, "what waits is never forgotten");
    }

    async fn a_deleted_project_ends_at_once_and_its_rows_are_removed_later(db: TestDb) {
        let harness = Harness::new(&db).await;
        let (graph, project_id) = (harness.graph.clone(), harness.project());
        let survivor = Harness { graph: graph.clone(), actor: project(&graph, "survivor", false).await };
        for harness in [&harness, &survivor] {
            let (a, b) = (harness.object(new("Note", "a", json!({ "text": "penguins" }))).await, harness.object(new("Note", "b", json!({}))).await);
            harness.edge("knows", a, b).await;
            document(harness, "Birds", "Penguins swim.").await;
            graph.delete_object(harness.actor, b, None).await.unwrap();
            store_run(harness, ended_run(harness, RunStatus::Running)).await;
            store_run(harness, ended_run(harness, RunStatus::Queued)).await;
        }
        let (_, secret) = graph.create_token("ci", BTreeSet::from([Scope::GraphRead]), Some(project_id), None).await.unwrap();
        let sealed = graph.db().write(move |tx| tx.execute(
            "INSERT INTO secrets (project_id, name, key_id, sealed, version, created_at, updated_at) VALUES ($1, 'KEY', 'k', $2, 1, $3, $3)",
            &[Param::from(project_id), Param::from(b"sealed".as_slice()), Param::from(Timestamp::from_micros(1))]));
        sealed.await.unwrap_or_else(|error: emergent_store::Error| panic!("{error}"));

        graph.delete_project(project_id).await.unwrap();
        assert!(graph.authenticate(&secret).await.unwrap().is_none());
        assert_eq!(count(&graph, "SELECT count(*) FROM secrets WHERE project_id = $1", project_id).await, 0);
        let active = "SELECT count(*) FROM agent_runs WHERE project_id = $1 AND status IN ('queued', 'running')";
        assert_eq!(count(&graph, active, project_id).await, 0);
        assert_eq!(count(&graph, active, survivor.project()).await, 2);
        let claimed = graph.db().write({
            let now = graph.clock().now();
            move |tx| jobs::claim(tx, emergent_graph::cleanup::QUEUE, "me", DAY, now, 1)
        });
        assert_eq!(claimed.await.unwrap()[0].project, Some(project_id), "a job looks for what was started meanwhile");
        // A run that was admitted at the same moment.
        let late = store_run(&harness, ended_run(&harness, RunStatus::Queued)).await;
        graph.end_work(project_id).await.unwrap();
        assert_eq!(count(&graph, active, project_id).await, 0);
        assert!(run_ids(&harness).await.contains(&late), "its rows stay for now");

        let settings = CleanupSettings { deleted_project_retention: days(30) };
        graph.clock().advance(days(29));
        graph.delete_expired(settings).await.unwrap();
        assert_eq!(run_ids(&harness).await.len(), 3);
        graph.clock().advance(days(2));
        graph.delete_expired(settings).await.unwrap();
        for (table, left_of_survivor) in [
            ("SELECT count(*) FROM agent_runs WHERE project_id = $1", 2),
            ("SELECT count(*) FROM graph_objects WHERE project_id = $1", 2),
            ("SELECT count(*) FROM graph_object_versions WHERE project_id = $1", 1),
            ("SELECT count(*) FROM graph_relationships WHERE project_id = $1", 1),
            ("SELECT count(*) FROM graph_relationship_versions WHERE project_id = $1", 1),
            ("SELECT count(*) FROM documents WHERE project_id = $1", 1),
            ("SELECT count(*) FROM document_chunks WHERE project_id = $1", 1),
            ("SELECT count(*) FROM tokens WHERE project_id = $1", 0),
        ] {
            assert_eq!(count(&graph, table, project_id).await, 0, "{table}");
            assert_eq!(count(&graph, table, survivor.project()).await, left_of_survivor, "{table}");
        }
        assert_eq!(count(&graph, "SELECT count(*) FROM graph_events WHERE project_id = $1", project_id).await, 0);
        assert_eq!(count(&graph, "SELECT count(*) FROM projects WHERE id = $1 AND purged_at IS NOT NULL AND name = ''", project_id).await, 1);
        assert_ne!(project(&graph, "test", false).await.project, project_id, "its name is free");
    }
}

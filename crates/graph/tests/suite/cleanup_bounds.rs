//! A cleanup works in bounded steps, and one project or document that fails does not stop it.

use std::{
    collections::HashMap,
    hash::{BuildHasher, RandomState},
};

use emergent_domain::{
    change::FeedPosition,
    ids::{JobId, WorkflowId},
    project::RetentionPatch,
    run::{Run, RunStatus},
    time::Timestamp,
    workflow::{Amount, WorkflowLink},
};
use emergent_graph::{Graph, cleanup::CleanupSettings};
use emergent_store::{
    Engine, Param, Tx, budget,
    jobs::{self, NewJob},
    params,
    projects::DeletedProject,
    purge,
    retention::{self, EventExpiry},
    runs,
};
use emergent_testkit::{TestDb, both_engines};
use serde_json::json;
use uuid::Uuid;

use crate::{
    cleanup::{clean_up, count, days, ended_run, keep, run_ids, store_run},
    support::{Harness, document, new, project},
};

/// Makes the database refuse to delete the rows of a table that have this text in a column.
async fn refuse_deletion(db: &TestDb, table: &str, column: &str) {
    let statements = match db.engine() {
        Engine::Sqlite => vec![format!(
            "CREATE TRIGGER stuck BEFORE DELETE ON {table} WHEN OLD.{column} = 'stuck'
             BEGIN SELECT RAISE(ABORT, 'stuck'); END"
        )],
        Engine::Postgres => vec![
            "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql
             AS 'BEGIN RAISE EXCEPTION ''stuck''; END'"
                .to_owned(),
            format!(
                "CREATE TRIGGER stuck BEFORE DELETE ON {table} FOR EACH ROW WHEN (OLD.{column} = 'stuck')
                 EXECUTE FUNCTION refuse()"
            ),
        ],
    };
    for sql in statements {
        let created: Result<u64, emergent_store::Error> = db.write(move |tx| tx.execute(&sql, &[])).await;
        created.unwrap();
    }
}

async fn execute(graph: &Graph, sql: &'static str, params: Vec<Param<'static>>) -> u64 {
    let done: Result<u64, emergent_store::Error> = graph.db().write(move |tx| tx.execute(sql, &params)).await;
    done.unwrap()
}

both_engines! {
    async fn a_project_that_fails_keeps_no_other_from_its_cleanup(db: TestDb) {
        let first = Harness::new(&db).await;
        let second = Harness { graph: first.graph.clone(), actor: project(&first.graph, "second", false).await };
        let deleted = Harness { graph: first.graph.clone(), actor: project(&first.graph, "deleted", false).await };
        for harness in [&first, &second] {
            keep(harness, RetentionPatch { runs_days: Some(Some(1)), events_days: Some(Some(1)), ..RetentionPatch::default() }).await;
            harness.object(new("Note", "", json!({}))).await;
        }
        let stuck = store_run(&first, Run { agent_name: "stuck".into(), ..ended_run(&first, RunStatus::Completed) }).await;
        store_run(&second, ended_run(&second, RunStatus::Completed)).await;
        store_run(&deleted, Run { agent_name: "stuck".into(), ..ended_run(&deleted, RunStatus::Completed) }).await;
        first.graph.delete_project(deleted.project()).await.unwrap();
        refuse_deletion(&db, "agent_runs", "agent_name").await;
        first.graph.clock().advance(days(40));
        let failed = first.graph.delete_expired(CleanupSettings::default()).await;
        assert!(failed.is_err(), "the job is tried again");
        assert!(run_ids(&first).await.contains(&stuck));
        assert!(run_ids(&second).await.is_empty());
        let second_counts = first.graph.get_project(second.project()).await.unwrap().deleted;
        assert_eq!((second_counts.runs, second_counts.events), (1, 1));
        execute(&first.graph, if db.engine() == Engine::Sqlite { "DROP TRIGGER stuck" } else { "DROP TRIGGER stuck ON agent_runs" }, vec![]).await;
        first.graph.delete_expired(CleanupSettings::default()).await.unwrap();
        assert!(run_ids(&first).await.is_empty() && run_ids(&deleted).await.is_empty());
    }

    async fn a_document_that_cannot_be_removed_keeps_no_other_from_its_turn(db: TestDb) {
        let harness = Harness::new(&db).await;
        let (stuck, _) = document(&harness, "stuck", "It stays.").await;
        let (_other, _) = document(&harness, "other", "It goes.").await;
        // Both were not ingested to their end; the first is due for longer.
        execute(&harness.graph, "UPDATE documents SET deleted_at = created_at, purge_after = created_at", vec![]).await;
        let later = harness.graph.clock().now() + days(1);
        execute(&harness.graph, "UPDATE documents SET purge_after = $1 WHERE title = 'other'", vec![later.into()]).await;
        refuse_deletion(&db, "documents", "title").await;
        harness.graph.clock().advance(days(2));
        assert!(harness.graph.prune().await.is_err());
        let left = "SELECT count(*) FROM documents WHERE project_id = $1";
        assert_eq!(count(&harness.graph, left, harness.project()).await, 1);
        let now = harness.graph.clock().now();
        let due: Result<_, emergent_store::Error> =
            harness.graph.db().read(move |tx| emergent_store::documents::list_purgeable(tx, now, 9)).await;
        assert_eq!(due.unwrap(), [stuck], "it is tried again, after others");
        harness.graph.clock().advance(days(1));
        assert!(harness.graph.prune().await.is_err(), "document `{stuck}` is not forgotten");
    }

    async fn runs_of_a_failed_workflow_stay_while_it_may_be_resumed(db: TestDb) {
        let harness = Harness::new(&db).await;
        keep(&harness, RetentionPatch { runs_days: Some(Some(30)), ..RetentionPatch::default() }).await;
        let workflow = WorkflowId::new();
        let link = WorkflowLink { workflow: Some(workflow), ..WorkflowLink::default() };
        let attempt = store_run(&harness, Run { workflow_link: link, ..ended_run(&harness, RunStatus::Completed) }).await;
        harness.graph.clock().advance(days(20));
        let now = harness.graph.clock().now();
        execute(&harness.graph,
            "INSERT INTO workflows (id, project_id, description, status, settings, plan_attempts, revision, event_seq, created_at, updated_at)
             VALUES ($1, $2, '', 'failed', '{}', 0, 0, 0, $3, $3)", vec![workflow.into(), harness.project().into(), now.into()]).await;
        harness.graph.clock().advance(days(29));
        clean_up(&harness).await;
        assert!(run_ids(&harness).await.contains(&attempt), "it failed 29 days ago");
        harness.graph.clock().advance(days(2));
        clean_up(&harness).await;
        assert!(run_ids(&harness).await.is_empty());
    }

    async fn one_step_of_a_purge_deletes_a_bounded_number_of_bytes(db: TestDb) {
        let harness = Harness::new(&db).await;
        let (graph, id) = (harness.graph.clone(), harness.project());
        let run = store_run(&harness, ended_run(&harness, RunStatus::Completed)).await;
        // Random text, because PostgreSQL compresses what repeats.
        let random = RandomState::new();
        let text: String = (0..131_072).map(|number: u32| format!("{:016x}", random.hash_one(number))).collect();
        for seq in 2..8 {
            let data = json!({ "text": text });
            let now = graph.clock().now();
            let added: Result<(), emergent_store::Error> = graph.db().write(move |tx| {
                runs::record::insert_event(tx, run, seq, "text", &data, now)
            }).await;
            added.unwrap();
        }
        let events = "SELECT count(*) FROM agent_run_events WHERE EXISTS (SELECT 1 FROM projects WHERE id = $1)";
        assert_eq!(count(&graph, events, id).await, 7);
        graph.delete_project(id).await.unwrap();
        let purged = DeletedProject { id, no: 0 };
        let mut steps = 0;
        let mut left = 7;
        loop {
            let done: Result<bool, emergent_store::Error> =
                graph.db().write(move |tx| purge::delete_rows(tx, purged, purge::Step::Runs, 500)).await;
            if done.unwrap() {
                break;
            }
            steps += 1;
            let now_left = count(&graph, events, id).await;
            assert!(left - now_left <= 6, "{left} to {now_left}: about 8 MiB of 2 MiB each");
            left = now_left;
        }
        assert!(steps >= 2, "{steps} steps for 12 MiB");
        assert_eq!((left, run_ids(&harness).await.len()), (0, 0));
    }

    async fn ending_a_deleted_project_takes_its_access_once(db: TestDb) {
        let harness = Harness::new(&db).await;
        let (graph, id) = (harness.graph.clone(), harness.project());
        graph.delete_project(id).await.unwrap();
        let queued: Vec<Run> = (0..1_100).map(|_| ended_run(&harness, RunStatus::Queued)).collect();
        let stored: Result<(), emergent_store::Error> =
            graph.db().write(move |tx| queued.iter().try_for_each(|run| runs::insert(tx, run))).await;
        stored.unwrap();
        let revision = "SELECT mcp_revision FROM projects WHERE id = $1";
        let before = count(&graph, revision, id).await;
        graph.end_work(id).await.unwrap();
        assert_eq!(count(&graph, revision, id).await, before + 1, "it took three transactions");
        let active = "SELECT count(*) FROM agent_runs WHERE project_id = $1 AND status = 'queued'";
        assert_eq!(count(&graph, active, id).await, 0);
    }

    async fn jobs_and_model_calls_of_a_deleted_project_are_removed(db: TestDb) {
        let harness = Harness::new(&db).await;
        let (graph, id, now) = (harness.graph.clone(), harness.project(), harness.graph.clock().now());
        let written: Result<(), emergent_store::Error> = graph.db().write(move |tx| {
            let call = budget::NewModelCall {
                id: Uuid::now_v7(), project: id, workflow: None, task: None, agent: "worker".into(), run: None, budget_runs: Vec::new(), at: now,
            };
            budget::insert_settled(tx, &call, Amount::default(), true)?;
            jobs::enqueue(tx, &NewJob { project: Some(id), ..NewJob::new("other", now) })?;
            Ok(())
        }).await;
        written.unwrap();
        graph.delete_project(id).await.unwrap();
        graph.clock().advance(days(31));
        graph.delete_expired(CleanupSettings::default()).await.unwrap();
        assert_eq!(count(&graph, "SELECT count(*) FROM model_calls WHERE project_id = $1", id).await, 0);
        assert_eq!(count(&graph, "SELECT count(*) FROM jobs WHERE project_id = $1 AND queue = 'other'", id).await, 0);
        let own = "SELECT count(*) FROM jobs WHERE project_id = $1 AND queue = 'cleanup' AND status = 'queued'";
        assert_eq!(count(&graph, own, id).await, 2, "what ends the project is still done");
    }

    async fn finished_jobs_are_pruned_in_bounded_steps(db: TestDb) {
        let harness = Harness::new(&db).await;
        let now = harness.graph.clock().now();
        let finished: Result<Vec<JobId>, emergent_store::Error> = harness.graph.db().write(move |tx| {
            let ids = (0..5).map(|_| Ok(jobs::enqueue(tx, &NewJob::new("q", now))?.unwrap()));
            let ids = ids.collect::<Result<Vec<_>, emergent_store::Error>>()?;
            tx.execute("UPDATE jobs SET status = 'done', finished_at = $1 WHERE queue = 'q'", params![now])?;
            Ok(ids)
        }).await;
        assert_eq!(finished.unwrap().len(), 5);
        let prune = move |tx: &mut Tx<'_>| jobs::prune(tx, jobs::JobStatus::Done, now + days(1), 2);
        for expected in [2, 2, 1, 0] {
            let pruned: Result<usize, emergent_store::Error> = harness.graph.db().write(prune).await;
            assert_eq!(pruned.unwrap(), expected);
        }
    }

    async fn one_reading_of_the_feed_finds_what_all_projects_do_not_keep(db: TestDb) {
        let first = Harness::new(&db).await;
        let second = Harness { graph: first.graph.clone(), actor: project(&first.graph, "second", false).await };
        let third = Harness { graph: first.graph.clone(), actor: project(&first.graph, "third", false).await };
        for harness in [&first, &second, &third] {
            harness.object(new("Note", "", json!({}))).await;
            harness.object(new("Note", "", json!({}))).await;
        }
        let now = first.graph.clock().now();
        let never = Some(FeedPosition::default());
        let expiries = HashMap::from([
            (first.project(), EventExpiry { before: now + days(1), up_to: None }),
            (second.project(), EventExpiry { before: now + days(1), up_to: never }),
            (third.project(), EventExpiry { before: Timestamp::from_micros(0), up_to: None }),
        ]);
        let found: Result<_, emergent_store::Error> =
            first.graph.db().read(move |tx| retention::find_expired_events(tx, &expiries, 0)).await;
        let window = found.unwrap().unwrap();
        let counts: Vec<_> = window.expired.into_iter().map(|(project, seqs)| (project, seqs.len())).collect();
        assert_eq!(counts, [(first.project(), 2)]);
    }
}

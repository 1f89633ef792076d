//! Schedules: each time fires once, runs never overlap, and missed times follow the policy.

use std::collections::BTreeSet;

use emergent_domain::{
    agent::Visibility,
    run::{Origin, RunStatus},
    trigger::{FiringCause, ScheduleConfig},
};
use emergent_executor::{
    Error, Executor,
    triggers::{JobRow, delete_job, delete_jobs, save_job},
};
use emergent_testkit::both_engines;

use crate::triggers::*;

fn config(settings: Value) -> ScheduleConfig {
    serde_json::from_value(settings).unwrap()
}

/// Runs a transaction of a product.
async fn product<F>(executor: &Executor, harness: &Harness, work: F) -> Result<(), Error>
where
    F: Fn(&mut Tx<'_>, &emergent_graph::WriteContext) -> Result<(), Error> + Send + 'static,
{
    let (graph, actor) = (executor.graph().clone(), harness.actor());
    executor
        .graph()
        .db()
        .write(move |tx| {
            let writer = graph.write_context(tx, actor)?;
            work(tx, &writer)
        })
        .await
}

both_engines! {
    async fn each_time_of_each_schedule_fires_once_whoever_looks(db: TestDb) {
        const AGENTS: usize = 6;
        const ROUNDS: usize = 50;
        let two = TwoServers::open(&db).await;
        for at in 0..AGENTS {
            triggered_agent(&two.here, &format!("every-{at}"), "* * * * *", json!({})).await;
        }
        for _ in 0..ROUNDS {
            two.pass(60);
            two.look().await;
            end_runs(&two.here, "completed").await;
        }
        let firings = two.firings().await;
        let times: BTreeSet<String> = firings.iter().map(|one| format!("{:?}", one.firing.fired)).collect();
        assert_eq!((firings.len(), times.len()), (AGENTS * ROUNDS, AGENTS * ROUNDS));
        assert!(firings.iter().all(|one| one.firing.status == FiringStatus::Admitted), "{:?}", outcomes(&firings));
        let runs = two.runs().await;
        assert_eq!(runs.len(), AGENTS * ROUNDS);
        let fired: BTreeSet<_> = firings.iter().map(|one| one.firing.run.unwrap()).collect();
        assert_eq!(fired, runs.iter().map(|run| run.id).collect());
        assert!(runs.iter().all(|run| run.origin == Origin::Schedule && run.schedule.is_some() && run.cause.is_none()));
    }

    async fn a_schedule_never_has_two_live_runs(db: TestDb) {
        let two = TwoServers::open(&db).await;
        triggered_agent(&two.here, "slow", "* * * * *", json!({})).await;
        two.pass(60);
        two.look().await;
        two.pass(60);
        two.look().await;
        assert_eq!(outcomes(&two.firings().await), ["admitted", "skipped still_running"]);
        assert_eq!(two.runs().await.len(), 1);
        // A skipped time is not made up for.
        end_runs(&two.here, "completed").await;
        assert_eq!(two.look().await, 0);
        two.pass(60);
        two.look().await;
        assert_eq!(outcomes(&two.firings().await).len(), 3);
        assert_eq!(two.runs().await.len(), 2);
    }

    async fn a_resumed_run_is_its_schedules_live_run(db: TestDb) {
        let two = TwoServers::open(&db).await;
        triggered_agent(&two.here, "slow", "* * * * *", json!({})).await;
        two.pass(60);
        two.look().await;
        end_runs(&two.here, "paused").await;
        let first = two.runs().await[0].clone();
        let resumed = two.there.executor.resume(two.there.actor(), first.id, None).await.unwrap();
        assert_eq!(resumed.schedule, first.schedule);
        two.pass(60);
        two.look().await;
        assert_eq!(outcomes(&two.firings().await), ["admitted", "skipped still_running"]);
        end_runs(&two.here, "paused").await;
        two.pass(60);
        two.look().await;
        let refused = two.here.executor.resume(two.here.actor(), resumed.id, None).await.unwrap_err();
        assert!(matches!(&refused, Error::Conflict(why) if why.contains("same schedule")), "{refused}");
    }

    async fn times_that_passed_while_no_server_ran_are_run_once_or_not_at_all(db: TestDb) {
        let two = TwoServers::open(&db).await;
        let once = triggered_agent(&two.here, "once", "0 * * * *", json!({ "missed": "once" })).await;
        let skip = triggered_agent(&two.here, "skip", "0 * * * *", json!({ "missed": "skip" })).await;
        two.pass(5 * 3_600 + 1_800);
        two.look().await;
        let runs = two.runs().await;
        assert_eq!(runs.iter().map(|run| run.agent).collect::<Vec<_>>(), [once.id]);
        let mut outcomes_by_agent: Vec<_> = two.firings().await.into_iter().map(|one| (one.firing.agent == skip.id, outcomes(std::slice::from_ref(&one)).remove(0), one.firing.fired)).collect();
        outcomes_by_agent.sort_by_key(|one| one.0);
        assert_eq!(outcomes_by_agent[0].1, "admitted");
        assert_eq!(outcomes_by_agent[1].1, "skipped missed");
        for (_, _, fired) in outcomes_by_agent {
            // 08:00 was not one of its times yet, so 13:00 is the latest time that passed.
            assert!(matches!(fired, FiringCause::Schedule { at, .. } if at.to_string() == "2026-01-31T13:00:00.000000Z"), "{fired:?}");
        }
        end_runs(&two.here, "completed").await;
        two.pass(1_800);
        two.look().await;
        assert_eq!(two.runs().await.len(), 3, "at 14:00 both are on time");
    }

    async fn a_schedule_goes_by_its_own_time_zone(db: TestDb) {
        let two = TwoServers::open(&db).await;
        triggered_agent(&two.here, "berliner", "30 2 * * *", json!({ "time_zone": "Europe/Berlin" })).await;
        assert_eq!(two.schedule().await.next_at.unwrap().to_string(), "2026-02-01T01:30:00.000000Z");
        // The clock moves to the evening before daylight saving time starts, when 02:30 does not exist.
        two.pass(56 * 86_400 + 10 * 3_600);
        two.look().await;
        assert_eq!(two.schedule().await.next_at.unwrap().to_string(), "2026-03-29T01:00:00.000000Z");
    }

    async fn a_change_counts_from_its_commit_on_every_server(db: TestDb) {
        let two = TwoServers::open(&db).await;
        let agent = triggered_agent(&two.here, "worker", "* * * * *", json!({})).await;
        let before = two.schedule().await;
        let change = |trigger: Option<&'static str>| two.there.executor.update_agent(two.there.actor(), agent.id, None, move |definition| {
            AgentDefinition { trigger: trigger.map(str::to_owned), ..definition }
        });
        change(Some("0 12 * * *")).await.unwrap();
        two.pass(60);
        assert_eq!(two.look().await, 0);
        let after = two.schedule().await;
        assert_eq!((after.id, after.cron.as_str()), (before.id, "0 12 * * *"), "it is the same schedule");
        change(None).await.unwrap();
        two.pass(86_400);
        assert_eq!(two.look().await, 0);
        change(Some("* * * * *")).await.unwrap();
        two.pass(60);
        assert_eq!(two.here.executor.fire_schedules(10).await.unwrap(), 1);
        end_runs(&two.here, "completed").await;
        two.there.executor.delete_agent(two.there.actor(), agent.id).await.unwrap();
        two.pass(60);
        assert_eq!(two.look().await, 0);
        assert_eq!(two.runs().await.len(), 1);
    }

    async fn a_change_of_something_else_loses_no_time_that_has_come(db: TestDb) {
        let two = TwoServers::open(&db).await;
        let agent = triggered_agent(&two.here, "worker", "* * * * *", json!({})).await;
        two.pass(60);
        let rename = |definition| AgentDefinition { name: "renamed".into(), system_prompt: "New.".into(), ..definition };
        two.here.executor.update_agent(two.here.actor(), agent.id, None, rename).await.unwrap();
        assert_eq!(two.schedule().await.name, "agent:renamed");
        assert_eq!(two.look().await, 1);
        assert_eq!(two.runs().await[0].agent_version, 2);
    }

    async fn the_agent_is_told_what_the_settings_say(db: TestDb) {
        let two = TwoServers::open(&db).await;
        let settings = json!({ "input": "Write the digest.", "context": { "days": 1 }, "max_steps": 3, "timeout_seconds": 60 });
        triggered_agent(&two.here, "digest", "0 9 * * *", settings).await;
        two.pass(3_600);
        two.look().await;
        let run = two.runs().await.remove(0);
        assert_eq!((run.max_steps, run.timeout_seconds), (Some(3), 60));
        assert!(two.here.timeline(run.id).await.contains("Write the digest."));
        let context = context(&two.here, &run).await;
        assert_eq!(context["days"], 1);
        assert_eq!(context["schedule"]["scheduledAt"], "2026-01-31T09:00:00.000000Z");
        assert_eq!(two.schedule().await.last_run, Some(run.id));
    }

    async fn a_run_that_cannot_be_admitted_is_noted_and_the_schedule_goes_on(db: TestDb) {
        let two = TwoServers::open(&db).await;
        let modelless = AgentDefinition { model: Some("openai/none".parse().unwrap()), ..triggered("poor", "* * * * *", json!({})) };
        two.here.agent(modelless).await;
        triggered_agent(&two.here, "rich", "* * * * *", json!({})).await;
        two.pass(60);
        two.look().await;
        let outcomes = outcomes(&two.firings().await);
        assert_eq!(outcomes.iter().filter(|one| *one == "admitted").count(), 1, "{outcomes:?}");
        assert!(outcomes.iter().any(|one| one.starts_with("refused") && one.contains("OPENAI_API_KEY")), "{outcomes:?}");
        two.pass(60);
        assert_eq!(two.look().await, 2);
    }

    async fn a_job_of_a_product_is_a_schedule_and_one_that_stays_keeps_its_time(db: TestDb) {
        let two = TwoServers::open(&db).await;
        let agent = two.here.agent(agent("worker")).await;
        let job = JobRow { name: "nightly".into(), cron: "* * * * *".into(), agent: agent.id, config: config(json!({ "input": "Go." })) };
        let saved = job.clone();
        product(&two.here.executor, &two.here, move |tx, writer| save_job(tx, writer, "p", &saved)).await.unwrap();
        two.pass(60);
        let changed = JobRow { config: config(json!({ "input": "Go on." })), ..job.clone() };
        product(&two.here.executor, &two.here, move |tx, writer| save_job(tx, writer, "p", &changed)).await.unwrap();
        assert_eq!(two.look().await, 1);
        let run = two.runs().await.remove(0);
        assert!(two.here.timeline(run.id).await.contains("Go on."));
        let schedule = two.schedule().await;
        assert_eq!((schedule.product.as_deref(), schedule.name.as_str()), (Some("p"), "nightly"));

        let second = JobRow { name: "second".into(), ..job.clone() };
        product(&two.here.executor, &two.here, move |tx, writer| save_job(tx, writer, "p", &second)).await.unwrap();
        product(&two.here.executor, &two.here, move |tx, writer| delete_job(tx, writer, "p", "second")).await.unwrap();
        assert_eq!(two.schedule().await.id, schedule.id);
        product(&two.here.executor, &two.here, move |tx, writer| delete_jobs(tx, writer, "other")).await.unwrap();
        assert_eq!(two.schedule().await.id, schedule.id);
        product(&two.here.executor, &two.here, move |tx, writer| delete_jobs(tx, writer, "p")).await.unwrap();
        assert!(two.here.executor.list_triggers(two.here.project).await.unwrap().schedules.is_empty());

        let wrong = JobRow { cron: "never".into(), ..job };
        let refused = product(&two.here.executor, &two.here, move |tx, writer| save_job(tx, writer, "p", &wrong)).await.unwrap_err();
        assert!(refused.to_string().contains("`cron`"), "{refused}");
    }

    async fn an_internal_agent_is_never_triggered(db: TestDb) {
        let two = TwoServers::open(&db).await;
        let visibility = Visibility::Internal;
        let inside = two.here.agent(AgentDefinition { visibility, ..agent("inside") }).await;
        let job = JobRow { name: "job".into(), cron: "* * * * *".into(), agent: inside.id, config: ScheduleConfig::default() };
        let wrong = job.clone();
        let refused = product(&two.here.executor, &two.here, move |tx, writer| save_job(tx, writer, "p", &wrong)).await.unwrap_err();
        assert!(refused.to_string().contains("internal"), "{refused}");
        // An agent that becomes internal later is not started either.
        let later = two.here.agent(agent("later")).await;
        let job = JobRow { agent: later.id, ..job };
        product(&two.here.executor, &two.here, move |tx, writer| save_job(tx, writer, "p", &job)).await.unwrap();
        let inward = move |definition| AgentDefinition { visibility, ..definition };
        two.here.executor.update_agent(two.here.actor(), later.id, None, inward).await.unwrap();
        two.pass(60);
        two.look().await;
        assert!(two.runs().await.is_empty());
        assert!(outcomes(&two.firings().await)[0].contains("internal"));
        for trigger in ["* * * * *", "on_entity_created"] {
            let wrong = AgentDefinition { visibility, ..triggered("wrong", trigger, json!({})) };
            let refused = two.here.executor.create_agent(two.here.actor(), wrong).await.unwrap_err();
            assert!(refused.to_string().contains("`trigger`"), "{refused}");
        }
    }

    async fn a_deleted_project_fires_nothing(db: TestDb) {
        let two = TwoServers::open(&db).await;
        let graph = two.here.executor.graph();
        let project = graph.create_project("other", false).await.unwrap().id;
        let actor = emergent_graph::Actor { project, ..two.here.actor() };
        two.here.executor.create_agent(actor, triggered("worker", "* * * * *", json!({}))).await.unwrap();
        graph.delete_project(project).await.unwrap();
        two.pass(60);
        assert_eq!(two.look().await, 0);
        let soonest: Result<_, Error> = graph.db().read(|tx| Ok(emergent_store::schedules::next_due_at(tx)?)).await;
        assert_eq!(soonest.unwrap(), None, "and nobody waits for it");
    }

    async fn a_run_is_started_and_driven_to_its_end(db: TestDb) {
        let model = ScriptedModel::default().agent("worker", [emergent_testkit::scripted::says("Done.")]);
        let clock = fixed_clock();
        let harness = Harness::with(&db, HarnessOptions { clock: clock.clone(), ..HarnessOptions::new(model) }).await;
        triggered_agent(&harness, "worker", "* * * * *", json!({})).await;
        clock.advance(Duration::from_secs(60));
        harness.executor.fire_schedules(1).await.unwrap();
        let run = runs(&harness).await.remove(0);
        assert_eq!(harness.ended(run.id).await.status, RunStatus::Completed);
        harness.close().await;
    }
}

//! A schedule that cannot be read is suspended with the reason. The others continue, and saving it
//! again activates it.

use emergent_executor::triggers::{JobRow, save_job};
use emergent_testkit::both_engines;

use crate::triggers::*;

/// Writes a value into a schedule that no server of this version would write.
async fn spoil(two: &TwoServers, agent: &Agent, sql: &'static str) {
    let id = agent.id;
    let spoilt: Result<u64, Error> =
        two.here.executor.graph().db().write(move |tx| tx.execute(sql, &[id.into()])).await;
    assert_eq!(spoilt.unwrap(), 1);
}

const FROM_THE_FUTURE: &str = "UPDATE schedules SET config = '{\"lunar\":true}' WHERE agent_id = $1";

async fn schedule_of(two: &TwoServers, agent: &Agent) -> Schedule {
    let listed = two.here.executor.list_triggers(two.here.project).await.unwrap().schedules;
    listed.into_iter().find(|one| one.agent == agent.id).unwrap()
}

both_engines! {
    async fn one_that_cannot_be_read_is_set_aside_and_the_others_go_on(db: TestDb) {
        let two = TwoServers::open(&db).await;
        let lunar = triggered_agent(&two.here, "lunar", "* * * * *", json!({})).await;
        let crooked = triggered_agent(&two.here, "crooked", "* * * * *", json!({})).await;
        let nowhere = triggered_agent(&two.here, "nowhere", "* * * * *", json!({})).await;
        let fine = triggered_agent(&two.here, "fine", "* * * * *", json!({})).await;
        spoil(&two, &lunar, FROM_THE_FUTURE).await;
        spoil(&two, &crooked, "UPDATE schedules SET cron = 'whenever' WHERE agent_id = $1").await;
        spoil(&two, &nowhere, "UPDATE schedules SET config = '{\"time_zone\":\"Mars/Base\"}' WHERE agent_id = $1").await;
        two.pass(60);
        assert_eq!(two.look().await, 4);
        assert_eq!(two.runs().await.iter().map(|run| run.agent).collect::<Vec<_>>(), [fine.id]);
        for (agent, told) in [(&lunar, "`lunar`"), (&crooked, "cron"), (&nowhere, "Mars/Base")] {
            let schedule = schedule_of(&two, agent).await;
            assert_eq!(schedule.next_at, None);
            let why = schedule.error.unwrap_or_default();
            assert!(why.contains(told), "{why}");
        }
        assert_eq!(schedule_of(&two, &fine).await.error, None);
        end_runs(&two.here, "completed").await;
        two.pass(60);
        assert_eq!(two.look().await, 1, "nobody looks at them again");
    }

    async fn saving_the_agent_again_takes_its_schedule_up(db: TestDb) {
        let two = TwoServers::open(&db).await;
        let as_it_is = triggered_agent(&two.here, "same", "* * * * *", json!({})).await;
        let changed = triggered_agent(&two.here, "changed", "* * * * *", json!({})).await;
        let parked = triggered_agent(&two.here, "parked", "* * * * *", json!({})).await;
        spoil(&two, &as_it_is, FROM_THE_FUTURE).await;
        spoil(&two, &changed, FROM_THE_FUTURE).await;
        spoil(&two, &parked, "UPDATE schedules SET next_at = NULL WHERE agent_id = $1").await;
        two.pass(60);
        two.look().await;
        for agent in [&as_it_is, &parked] {
            two.change(agent, |definition| definition).await;
            assert_eq!(schedule_of(&two, agent).await.next_at, None, "nobody named the trigger");
            two.name_trigger(agent).await;
        }
        two.set(&changed, json!({ "input": "Go on." })).await;
        for agent in [&as_it_is, &changed, &parked] {
            let schedule = schedule_of(&two, agent).await;
            assert_eq!(schedule.error, None);
            assert_eq!(schedule.next_at.unwrap().to_string(), "2026-01-31T08:02:00.000000Z");
        }
        two.pass(60);
        assert_eq!(two.look().await, 3);
        assert_eq!(two.runs().await.len(), 3);
    }

    async fn saving_a_job_again_takes_it_up(db: TestDb) {
        let two = TwoServers::open(&db).await;
        let agent = two.here.agent(agent("worker")).await;
        let config = serde_json::from_value(json!({ "input": "Go." })).unwrap();
        let job = JobRow { name: "nightly".into(), cron: "* * * * *".into(), agent: agent.id, config };
        let save = async || {
            let (graph, actor, job) = (two.here.executor.graph().clone(), two.here.actor(), job.clone());
            let work = move |tx: &mut Tx<'_>| {
                let writer = graph.write_context(tx, actor)?;
                save_job(tx, &writer, "p", &job)
            };
            two.here.executor.graph().db().write(work).await.unwrap();
        };
        save().await;
        let next_at = two.schedule().await.next_at;
        for spoilt in [FROM_THE_FUTURE, "UPDATE schedules SET next_at = NULL WHERE agent_id = $1"] {
            spoil(&two, &agent, spoilt).await;
            save().await;
            let schedule = two.schedule().await;
            assert_eq!((schedule.next_at, schedule.error), (next_at, None));
            assert_eq!(schedule.config.input.as_deref(), Some("Go."));
        }
    }
}

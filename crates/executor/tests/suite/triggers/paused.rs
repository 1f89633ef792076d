//! A schedule that a person paused fires nothing until it is resumed, and then only what comes due from then on.

use emergent_domain::audit::AuditFilter;
use emergent_testkit::both_engines;

use crate::triggers::*;

/// Pauses or resumes a schedule on the other server.
async fn set(two: &TwoServers, reference: &str, enabled: bool) -> Schedule {
    let there = &two.there;
    there.executor.set_schedule_enabled(there.actor(), reference.to_owned(), enabled).await.unwrap().0
}

/// Why a schedule cannot be paused.
async fn refusal(two: &TwoServers, reference: &str) -> String {
    let there = &two.there;
    let refused = there.executor.set_schedule_enabled(there.actor(), reference.to_owned(), false).await;
    refused.unwrap_err().to_string()
}

async fn audited(two: &TwoServers) -> Vec<(String, String)> {
    let read = |tx: &mut Tx<'_>| emergent_store::audit::list(tx, &AuditFilter::default(), &Page::first(50));
    let entries: Result<_, Error> = two.here.executor.graph().db().read(read).await;
    let entries = entries.unwrap().items.into_iter().filter(|entry| entry.target_kind == "trigger");
    entries.map(|entry| (entry.action, entry.target_name)).collect()
}

both_engines! {
    async fn times_that_pass_while_it_is_paused_are_not_fired_later(db: TestDb) {
        let two = TwoServers::open(&db).await;
        let digest = triggered_agent(&two.here, "digest", "* * * * *", json!({})).await;
        two.pass(60);
        assert_eq!(two.look().await, 1);
        end_runs(&two.here, "completed").await;
        let paused = set(&two, "digest", false).await;
        assert_eq!((paused.agent, paused.next_at), (digest.id, None));
        let since = paused.paused_at;
        assert_eq!(since, Some(two.clock.now()));
        two.pass(600);
        assert_eq!(set(&two, "agent:digest", false).await.paused_at, since, "it was paused already");
        assert_eq!(two.look().await, 0);
        let resumed = set(&two, &paused.id.to_string(), true).await;
        assert_eq!(resumed.paused_at, None);
        assert!(resumed.next_at.unwrap() > two.clock.now());
        assert_eq!(two.look().await, 0, "none of the ten times is made up for");
        two.pass(60);
        assert_eq!(two.look().await, 1);
        assert_eq!(outcomes(&two.firings().await), ["admitted", "admitted"]);
        let name = "agent:digest".to_owned();
        let expected = [("trigger.resume".to_owned(), name.clone()), ("trigger.pause".to_owned(), name)];
        assert_eq!(audited(&two).await, expected, "newest first, and only what changed something");
    }

    async fn it_stays_paused_when_its_agent_is_saved_again(db: TestDb) {
        let two = TwoServers::open(&db).await;
        let digest = triggered_agent(&two.here, "digest", "* * * * *", json!({})).await;
        let paused_at = set(&two, "digest", false).await.paused_at;
        two.set(&digest, json!({ "input": "Go on." })).await;
        two.name_trigger(&digest).await;
        let change = |mut definition: AgentDefinition| {
            definition.trigger = Some("*/5 * * * *".into());
            definition
        };
        two.change(&digest, change).await;
        let schedule = two.schedule().await;
        assert_eq!((schedule.paused_at, schedule.next_at), (paused_at, None));
        assert_eq!((schedule.cron.as_str(), schedule.config.input.as_deref()), ("*/5 * * * *", Some("Go on.")));
        two.pass(600);
        assert_eq!(two.look().await, 0);
        set(&two, "digest", true).await;
        two.pass(300);
        assert_eq!(two.look().await, 1);
    }

    async fn only_schedules_of_the_project_can_be_paused(db: TestDb) {
        let two = TwoServers::open(&db).await;
        triggered_agent(&two.here, "digest", "* * * * *", json!({})).await;
        triggered_agent(&two.here, "welcomer", "on_entity_created", json!({})).await;
        let event = refusal(&two, "welcomer").await;
        assert!(event.contains("only for schedules") && event.contains("on_entity_created"), "{event}");
        let misspelt = refusal(&two, "digst").await;
        assert_eq!(misspelt, "there is no trigger `digst`; did you mean `digest`?");
        assert_eq!(two.schedule().await.paused_at, None);
    }
}

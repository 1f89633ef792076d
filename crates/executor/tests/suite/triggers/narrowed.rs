//! A pending firing is checked against the settings its trigger has when the firing is due.

use emergent_domain::{
    author::Author,
    ids::{ObjectId, RunId},
    trigger::FiringCause,
};
use emergent_graph::Actor;
use emergent_testkit::both_engines;

use crate::triggers::*;

/// Returns the outcomes of the firings about an object, oldest first.
async fn outcomes_of(two: &TwoServers, id: ObjectId) -> Vec<String> {
    let about =
        |one: &ListedFiring| matches!(one.firing.fired, FiringCause::Event { entity, .. } if entity == id.0);
    let found: Vec<_> = two.firings().await.into_iter().filter(about).collect();
    outcomes(&found)
}

both_engines! {
    async fn types_labels_and_conditions_that_were_narrowed_drop_what_no_longer_fits(db: TestDb) {
        let two = TwoServers::open(&db).await;
        let urgent = json!([{ "path": "priority", "op": "gte", "value": 5 }]);
        let narrower = [
            ("typed", json!({ "types": ["Task"], "coalesce_seconds": 30 })),
            ("labelled", json!({ "labels": ["red"], "coalesce_seconds": 30 })),
            ("conditional", json!({ "conditions": urgent, "coalesce_seconds": 30 })),
        ];
        let mut agents = Vec::new();
        for (name, settings) in narrower {
            let wide = triggered_agent(&two.here, name, "on_entity_created", json!({ "coalesce_seconds": 30 })).await;
            agents.push((wide, settings));
        }
        let fits = NewObject {
            type_: "Task".into(),
            labels: vec!["red".into()],
            properties: json!({ "priority": 7 }).as_object().cloned().unwrap(),
            ..NewObject::default()
        };
        let fits = two.here.executor.graph().create_object(two.here.actor(), fits).await.unwrap();
        readable(&two.here, fits.id.0, 1).await;
        let other = two.create("Note", json!({ "priority": 1 })).await;
        two.settle().await;
        assert_eq!(outcomes(&two.firings().await), vec!["pending"; 6]);
        for (agent, settings) in agents {
            two.set(&agent, settings).await;
        }
        // The version of the event counts, not the current state of the object.
        two.update(other.id, json!({ "priority": 9 })).await;
        two.pass(30);
        two.settle().await;
        assert_eq!(outcomes_of(&two, fits.id).await, vec!["admitted"; 3]);
        assert_eq!(outcomes_of(&two, other.id).await, vec!["skipped trigger_changed"; 3]);
        assert_eq!(two.runs().await.len(), 3);
    }

    async fn a_shorter_chain_drops_what_is_too_deep_by_now(db: TestDb) {
        let two = TwoServers::open(&db).await;
        let agent = triggered_agent(&two.here, "notes", "on_entity_created", json!({ "coalesce_seconds": 30 })).await;
        let author = Author::Run { run_id: RunId::new(), tool_call_id: None };
        let new = NewObject { type_: "Note".into(), ..NewObject::default() };
        let by_run = Actor { author, ..two.here.actor() };
        let caused = two.here.executor.graph().create_object(by_run, new).await.unwrap();
        readable(&two.here, caused.id.0, 1).await;
        let plain = two.create("Note", json!({})).await;
        two.settle().await;
        two.set(&agent, json!({ "coalesce_seconds": 30, "max_depth": 0 })).await;
        two.pass(30);
        two.settle().await;
        assert_eq!(outcomes_of(&two, caused.id).await, ["skipped depth"]);
        assert_eq!(outcomes_of(&two, plain.id).await, ["admitted"]);
    }

    async fn of_those_that_share_a_run_only_the_misfits_are_dropped(db: TestDb) {
        let two = TwoServers::open(&db).await;
        let together = json!({ "coalesce_seconds": 60, "coalesce_by": "agent" });
        let agent = triggered_agent(&two.here, "digest", "on_entity_created", together).await;
        let task = two.create("Task", json!({})).await;
        let note = two.create("Note", json!({})).await;
        let late = two.create("Task", json!({})).await;
        two.settle().await;
        two.set(&agent, json!({ "coalesce_seconds": 60, "coalesce_by": "agent", "types": ["Task"] })).await;
        two.pass(60);
        two.settle().await;
        let runs = two.runs().await;
        assert_eq!(runs.len(), 1);
        assert_eq!(outcomes_of(&two, note.id).await, ["skipped trigger_changed"]);
        let agent_context = context(&two.here, &runs[0]).await;
        assert_eq!((&agent_context["object"]["id"], &agent_context["coalesced"]), (&json!(late.id), &json!(2)));
        assert_eq!(agent_context["more"], json!([task.id]));
    }

    async fn a_trigger_that_was_off_for_a_while_fires_nothing_from_before(db: TestDb) {
        let two = TwoServers::open(&db).await;
        let agent = triggered_agent(&two.here, "notes", "on_entity_created", json!({ "coalesce_seconds": 30 })).await;
        let before = two.create("Note", json!({})).await;
        two.settle().await;
        two.change(&agent, |definition| AgentDefinition { trigger: None, ..definition }).await;
        let on = |definition| AgentDefinition { trigger: Some("on_entity_created".into()), ..definition };
        two.change(&agent, on).await;
        let after = two.create("Note", json!({})).await;
        two.settle().await;
        two.pass(30);
        two.settle().await;
        assert_eq!(outcomes_of(&two, before.id).await, ["skipped trigger_changed"]);
        assert_eq!(outcomes_of(&two, after.id).await, ["admitted"]);
    }

    async fn a_trigger_that_was_widened_keeps_what_waits(db: TestDb) {
        let two = TwoServers::open(&db).await;
        let narrow = json!({ "types": ["Note"], "coalesce_seconds": 30 });
        let agent = triggered_agent(&two.here, "notes", "on_entity_created", narrow).await;
        let note = two.create("Note", json!({})).await;
        two.settle().await;
        two.set(&agent, json!({ "coalesce_seconds": 30 })).await;
        two.pass(30);
        two.settle().await;
        assert_eq!(outcomes_of(&two, note.id).await, ["admitted"]);
    }
}

//! The outcomes of firings are counted, by kind.

use std::collections::BTreeMap;

use emergent_testkit::both_engines;
use prometheus_client::{encoding::text, registry::Registry};

use crate::triggers::*;

/// The firings that both servers counted, as `kind outcome`.
fn counted(two: &TwoServers) -> BTreeMap<String, u64> {
    let mut all = BTreeMap::new();
    for harness in [&two.here, &two.there] {
        let mut registry = Registry::default();
        harness.executor.telemetry().register(&mut registry);
        let mut rendered = String::new();
        text::encode(&mut rendered, &registry).unwrap();
        for line in rendered.lines().filter(|line| line.starts_with("trigger_firings_total{")) {
            let [_, kind, _, outcome, count] = line.split('"').collect::<Vec<_>>()[..] else {
                panic!("{line}")
            };
            let count: u64 = count.trim_start_matches("} ").parse().unwrap();
            *all.entry(format!("{kind} {outcome}")).or_default() += count;
        }
    }
    all
}

both_engines! {
    async fn firings_are_counted_by_kind_and_by_what_became_of_them(db: TestDb) {
        let two = TwoServers::open(&db).await;
        triggered_agent(&two.here, "each", "on_entity_created", json!({ "types": ["Note"] })).await;
        let together = json!({ "coalesce_seconds": 30, "coalesce_by": "agent" });
        triggered_agent(&two.here, "all", "on_entity_updated", together.clone()).await;
        triggered_agent(&two.here, "every", "* * * * *", json!({})).await;
        let modelless = AgentDefinition { model: Some("openai/none".parse().unwrap()), ..triggered("poor", "on_entity_created", json!({ "types": ["Task"] })) };
        two.here.agent(modelless).await;
        let note = two.create("Note", json!({ "n": 0 })).await;
        two.create("Task", json!({})).await;
        for n in 1..=4 {
            two.update(note.id, json!({ "n": n })).await;
        }
        two.settle().await;
        let waiting: Result<_, Error> = two.here.executor.graph().db().read(emergent_store::triggers::firings::count_waiting).await;
        assert_eq!(waiting.unwrap(), [(emergent_domain::trigger::EventKind::EntityUpdated, 4)]);
        two.pass(60);
        two.settle().await;
        two.look().await;
        two.pass(60);
        two.look().await;
        // The feed is read again from its beginning.
        let project = two.here.project;
        let rewind = move |tx: &mut Tx<'_>| emergent_store::triggers::set_cursor(tx, project, FeedPosition::default());
        let rewound: Result<(), Error> = two.here.executor.graph().db().write(rewind).await;
        rewound.unwrap();
        two.settle().await;
        let expected = [
            ("on_entity_created deduplicated", 2),
            ("on_entity_created fired", 1),
            ("on_entity_created refused", 1),
            ("on_entity_updated coalesced", 3),
            ("on_entity_updated deduplicated", 4),
            ("on_entity_updated fired", 1),
            ("schedule dropped", 1),
            ("schedule fired", 1),
        ];
        assert_eq!(counted(&two), expected.map(|(which, count)| (which.to_owned(), count)).into());
    }
}

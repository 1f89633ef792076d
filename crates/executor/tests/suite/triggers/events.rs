//! Events: each fires once, for the version it describes, with its content and its author.

use std::collections::BTreeSet;

use emergent_domain::{
    document::NewDocument,
    ids::RunId,
    relationship::{NewRelationship, RelationshipPatch},
    run::Origin,
    trigger::FiringCause,
};
use emergent_testkit::both_engines;
use serde_json::Map;

use crate::triggers::*;

both_engines! {
    async fn each_event_fires_once_whoever_reads_and_whoever_fires(db: TestDb) {
        const OBJECTS: usize = 60;
        let two = TwoServers::open(&db).await;
        let notes = triggered_agent(&two.here, "notes", "on_entity_created", json!({ "types": ["Note"] })).await;
        let all = triggered_agent(&two.there, "all", "on_entity_created", json!({})).await;
        let write = async |harness: &Harness, from: usize| for n in from..from + OBJECTS / 2 {
            create(harness, if n % 2 == 0 { "Note" } else { "Task" }, json!({ "n": n })).await;
            harness.executor.read_events(harness.project).await.unwrap();
        };
        tokio::join!(write(&two.here, 0), write(&two.there, OBJECTS / 2));
        two.settle().await;
        let runs = two.runs().await;
        let of = |agent: &Agent| runs.iter().filter(|run| run.agent == agent.id).count();
        assert_eq!((of(&notes), of(&all)), (OBJECTS / 2, OBJECTS));
        let firings = two.firings().await;
        assert_eq!(firings.len(), runs.len());
        let fired: BTreeSet<RunId> = firings.iter().map(|one| one.firing.run.unwrap()).collect();
        assert_eq!(fired.len(), runs.len(), "one run each");
        assert!(runs.iter().all(|run| run.origin == Origin::Event && run.cause.is_none() && run.cause_depth == 0));
        // Nothing is left to fire, and the feed is not read twice.
        two.pass(3_600);
        two.settle().await;
        assert_eq!(two.runs().await.len(), runs.len());
    }

    async fn a_feed_that_is_read_again_fires_nothing_twice(db: TestDb) {
        let two = TwoServers::open(&db).await;
        triggered_agent(&two.here, "notes", "on_entity_created", json!({})).await;
        for n in 0..5 {
            two.create("Note", json!({ "n": n })).await;
        }
        two.settle().await;
        let (project, start) = (two.here.project, FeedPosition::default());
        let rewind = move |tx: &mut Tx<'_>| emergent_store::triggers::set_cursor(tx, project, start);
        let rewound: Result<(), Error> = two.here.executor.graph().db().write(rewind).await;
        rewound.unwrap();
        two.settle().await;
        assert_eq!((two.firings().await.len(), two.runs().await.len()), (5, 5));
    }

    async fn conditions_are_asked_of_the_version_the_event_tells_of(db: TestDb) {
        let two = TwoServers::open(&db).await;
        let urgent = json!([{ "path": "priority", "op": "gte", "value": 5 }]);
        let settings = json!({ "types": ["Task"], "conditions": urgent, "coalesce_seconds": 0 });
        triggered_agent(&two.here, "created", "on_entity_created", settings.clone()).await;
        let updated = triggered_agent(&two.here, "updated", "on_entity_updated", settings).await;
        // The priority is below the threshold at creation, above it when the event is read, and below it
        // again later.
        let task = two.create("Task", json!({ "priority": 1 })).await;
        two.update(task.id, json!({ "priority": 7 })).await;
        two.update(task.id, json!({ "priority": 2 })).await;
        two.settle().await;
        let firings = two.firings().await;
        assert_eq!(firings.len(), 1, "{firings:?}");
        assert_eq!(firings[0].firing.agent, updated.id);
        assert!(matches!(firings[0].firing.fired, FiringCause::Event { version: 2, .. }), "{firings:?}");
        let context = context(&two.here, &two.runs().await[0]).await;
        assert_eq!((&context["object"]["properties"]["priority"], &context["version"]), (&json!(7), &json!(2)));
    }

    async fn large_content_is_read_in_several_transactions(db: TestDb) {
        let two = TwoServers::open(&db).await;
        let conditions = json!([{ "path": "n", "op": "gte", "value": 0 }]);
        let settings = json!({ "conditions": conditions, "coalesce_seconds": 1, "coalesce_by": "agent" });
        triggered_agent(&two.here, "notes", "on_entity_created", settings).await;
        // Each has 990,000 bytes, or 999,000 with the spaces of PostgreSQL, and a transaction reads 8 MiB.
        let list = vec!["7".repeat(107); 9_000];
        for n in 0..12 {
            two.create("Note", json!({ "n": n, "list": list })).await;
        }
        let project = two.here.project;
        for expected in [9, 3, 0] {
            assert_eq!(two.here.executor.read_events(project).await.unwrap(), expected);
        }
        two.pass(2);
        for expected in [9, 3, 0] {
            assert_eq!(two.there.executor.fire_events(project, 50).await.unwrap(), expected);
        }
        let mut coalesced = Vec::new();
        for run in two.runs().await {
            coalesced.push(context(&two.here, &run).await["coalesced"].clone());
        }
        assert_eq!(coalesced, [json!(9), json!(3)]);
        assert_eq!(outcomes(&two.firings().await), vec!["admitted"; 12]);
    }

    async fn large_content_of_one_object_does_not_divide_the_run_of_another(db: TestDb) {
        let two = TwoServers::open(&db).await;
        let conditions = json!([{ "path": "n", "op": "gte", "value": 1 }]);
        triggered_agent(&two.here, "notes", "on_entity_updated", json!({ "conditions": conditions })).await;
        let list = vec!["7".repeat(107); 9_000];
        let (first, second) = (two.create("Note", json!({ "n": 0 })).await, two.create("Note", json!({ "n": 0 })).await);
        // Both together have more than 8 MiB, and neither has alone.
        for (object, updates) in [(first.id, 7), (second.id, 3)] {
            for n in 1..=updates {
                two.update(object, json!({ "n": n, "list": list })).await;
            }
        }
        two.settle().await;
        two.pass(5);
        two.settle().await;
        let mut coalesced = Vec::new();
        for run in two.runs().await {
            coalesced.push(context(&two.here, &run).await["coalesced"].clone());
        }
        assert_eq!(coalesced, [json!(7), json!(3)], "one run for each object");
    }

    async fn large_content_of_other_types_is_not_read(db: TestDb) {
        let two = TwoServers::open(&db).await;
        let settings = |types: Value| {
            let conditions = json!([{ "path": "n", "op": "gte", "value": 0 }]);
            json!({ "types": types, "conditions": conditions, "coalesce_seconds": 1, "coalesce_by": "agent" })
        };
        triggered_agent(&two.here, "people", "on_entity_created", settings(json!(["Person"]))).await;
        let project = two.here.project;
        let list = vec!["7".repeat(107); 9_000];
        let write = async || for n in 0..12 {
            two.create("Note", json!({ "n": n, "list": list })).await;
        };
        write().await;
        assert_eq!(two.here.executor.read_events(project).await.unwrap(), 12, "all in one transaction");
        assert!(two.firings().await.is_empty());

        let notes = triggered_agent(&two.here, "notes", "on_entity_created", settings(json!(["Note"]))).await;
        write().await;
        two.settle().await;
        two.set(&notes, settings(json!(["Person"]))).await;
        two.pass(2);
        assert_eq!(two.there.executor.fire_events(project, 50).await.unwrap(), 12, "all in one transaction");
        assert_eq!(outcomes(&two.firings().await), vec!["skipped trigger_changed"; 12]);
    }

    async fn an_event_reads_no_other_version_of_its_object(db: TestDb) {
        let two = TwoServers::open(&db).await;
        let conditions = json!([{ "path": "n", "op": "eq", "value": 1 }]);
        let settings = json!({ "types": ["Note", "knows"], "conditions": conditions });
        triggered_agent(&two.here, "notes", "on_entity_created", settings.clone()).await;
        triggered_agent(&two.here, "edges", "on_relationship_created", settings).await;
        let (note, other) = (two.create("Note", json!({ "n": 1 })).await, two.create("Person", json!({})).await);
        let (graph, actor) = (two.here.executor.graph(), two.here.actor());
        let knows = NewRelationship {
            type_: "knows".into(), from: note.id, to: other.id, weight: None,
            properties: json!({ "n": 1 }).as_object().cloned().unwrap(),
        };
        let (edge, _) = graph.create_relationship(actor, knows).await.unwrap();
        readable(&two.here, edge.id.0, 1).await;
        two.update(note.id, json!({ "n": 2 })).await;
        let patch = RelationshipPatch { weight: Some(Some(0.5)), ..RelationshipPatch::default() };
        graph.update_relationship(actor, edge.id, patch).await.unwrap();
        readable(&two.here, edge.id.0, 2).await;
        // If something reads the newest versions, it fails.
        for (table, id) in [("graph_objects", note.id.0), ("graph_relationships", edge.id.0)] {
            let sql = format!("UPDATE {table} SET properties = '[]' WHERE id = $1");
            let damage = move |tx: &mut Tx<'_>| tx.execute(&sql, &[id.into()]);
            let damaged: Result<u64, Error> = graph.db().write(damage).await;
            assert_eq!(damaged.unwrap(), 1);
        }
        two.settle().await;
        assert_eq!(outcomes(&two.firings().await), ["admitted", "admitted"]);
        let runs = two.runs().await;
        let shown = [context(&two.here, &runs[0]).await, context(&two.here, &runs[1]).await];
        let about = |name: &str| shown.iter().find_map(|one| one[name]["properties"]["n"].as_i64());
        assert_eq!((about("object"), about("relationship")), (Some(1), Some(1)));
    }

    async fn labels_are_asked_for_as_well(db: TestDb) {
        let two = TwoServers::open(&db).await;
        triggered_agent(&two.here, "urgent", "on_entity_created", json!({ "labels": ["urgent"] })).await;
        let graph = two.here.executor.graph();
        for labels in [vec!["urgent".to_owned(), "red".into()], vec!["red".into()], vec![]] {
            let new = NewObject { type_: "Task".into(), labels, ..NewObject::default() };
            let object = graph.create_object(two.here.actor(), new).await.unwrap();
            readable(&two.here, object.id.0, 1).await;
        }
        two.settle().await;
        assert_eq!(two.runs().await.len(), 1);
    }

    async fn relationships_and_documents_set_agents_off_with_what_they_are(db: TestDb) {
        let two = TwoServers::open(&db).await;
        let edges = triggered_agent(&two.here, "edges", "on_relationship_created", json!({ "types": ["knows"] })).await;
        let docs = triggered_agent(&two.here, "docs", "on_document_ingested", json!({})).await;
        let (ada, bob) = (two.create("Person", json!({})).await, two.create("Person", json!({})).await);
        let graph = two.here.executor.graph();
        let knows = |type_: &str| NewRelationship { type_: type_.into(), from: ada.id, to: bob.id, properties: Map::new(), weight: None };
        let (edge, _) = graph.create_relationship(two.here.actor(), knows("knows")).await.unwrap();
        graph.create_relationship(two.here.actor(), knows("knows")).await.unwrap();
        graph.create_relationship(two.here.actor(), knows("likes")).await.unwrap();
        let text = NewDocument {
            title: "Letters".into(), content: b"# One\n\nDear Bob.\n\n# Two\n\nYours, Ada.".to_vec(),
            mime_type: Some("text/markdown".into()), source_url: None, metadata: Map::new(),
        };
        let (document, _) = graph.create_document(two.here.actor(), text.clone()).await.unwrap();
        let (_, again) = graph.create_document(two.here.actor(), text).await.unwrap();
        assert!(!again, "the same bytes are the same document");
        readable(&two.here, document.id.0, 1).await;
        two.settle().await;
        let runs = two.runs().await;
        assert_eq!(runs.len(), 2, "{runs:?}");
        let of = |agent: &Agent| runs.iter().find(|run| run.agent == agent.id).unwrap();
        let agent_context = context(&two.here, of(&edges)).await;
        assert_eq!((&agent_context["relationship"]["id"], &agent_context["relationship"]["fromId"]), (&json!(edge.id), &json!(ada.id)));
        let agent_context = context(&two.here, of(&docs)).await;
        assert_eq!((&agent_context["event"], &agent_context["document"]["title"]), (&json!("on_document_ingested"), &json!("Letters")));
        let chunks = agent_context["document"]["chunks"].as_array().unwrap();
        assert_eq!(json!(chunks.len()), agent_context["document"]["chunkCount"]);
        assert!(chunks[0]["text"].as_str().unwrap().contains("Dear Bob") && chunks[0]["id"].is_string(), "{chunks:?}");
    }

    async fn what_was_written_before_the_trigger_is_not_its_business(db: TestDb) {
        let two = TwoServers::open(&db).await;
        for n in 0..5 {
            two.create("Note", json!({ "n": n })).await;
        }
        let first = triggered_agent(&two.here, "first", "on_entity_created", json!({})).await;
        two.create("Note", json!({ "n": 5 })).await;
        // The change is not read yet when the second trigger is created, and counts only for the first one.
        triggered_agent(&two.here, "second", "on_entity_created", json!({})).await;
        two.settle().await;
        let runs = two.runs().await;
        assert_eq!(runs.iter().map(|run| run.agent).collect::<Vec<_>>(), [first.id]);
    }

    async fn a_trigger_that_goes_before_its_event_is_read_does_not_fire(db: TestDb) {
        let two = TwoServers::open(&db).await;
        let agent = triggered_agent(&two.here, "notes", "on_entity_created", json!({})).await;
        two.create("Note", json!({})).await;
        let off = |definition| AgentDefinition { trigger: None, ..definition };
        two.there.executor.update_agent(two.there.actor(), agent.id, None, off).await.unwrap();
        two.settle().await;
        assert!(two.firings().await.is_empty());
        // A trigger that is switched on again starts at the current position of the feed.
        let on = |definition| AgentDefinition { trigger: Some("on_entity_created".into()), ..definition };
        two.there.executor.update_agent(two.there.actor(), agent.id, None, on).await.unwrap();
        two.create("Note", json!({})).await;
        two.settle().await;
        assert_eq!(two.runs().await.len(), 1);
    }

    async fn a_firing_whose_trigger_agent_or_object_went_meanwhile_is_skipped(db: TestDb) {
        let two = TwoServers::open(&db).await;
        let settings = json!({ "coalesce_seconds": 30 });
        let changed = triggered_agent(&two.here, "changed", "on_entity_created", settings.clone()).await;
        let gone = triggered_agent(&two.here, "gone", "on_entity_created", settings.clone()).await;
        let stays = triggered_agent(&two.here, "stays", "on_entity_created", settings).await;
        let note = two.create("Note", json!({})).await;
        let kept = two.create("Note", json!({})).await;
        two.settle().await;
        assert_eq!(outcomes(&two.firings().await), vec!["pending"; 6]);
        let other = |definition| AgentDefinition { trigger: Some("on_document_ingested".into()), ..definition };
        two.here.executor.update_agent(two.here.actor(), changed.id, None, other).await.unwrap();
        two.here.executor.delete_agent(two.here.actor(), gone.id).await.unwrap();
        two.here.executor.graph().delete_object(two.here.actor(), note.id, None).await.unwrap();
        two.pass(30);
        two.settle().await;
        let outcome_of = |agent: &Agent, entity: Uuid, firings: &[ListedFiring]| {
            let found: Vec<_> = firings.iter().filter(|one| one.firing.agent == agent.id && matches!(one.firing.fired, FiringCause::Event { entity: of, .. } if of == entity)).cloned().collect();
            outcomes(&found).remove(0)
        };
        let firings = two.firings().await;
        assert_eq!(outcome_of(&changed, kept.id.0, &firings), "skipped trigger_changed");
        assert_eq!(outcome_of(&gone, kept.id.0, &firings), "skipped gone");
        assert_eq!(outcome_of(&stays, note.id.0, &firings), "skipped gone");
        assert_eq!(outcome_of(&stays, kept.id.0, &firings), "admitted");
        assert_eq!(two.runs().await.len(), 1);
    }

    async fn a_burst_of_updates_is_one_run_about_the_newest(db: TestDb) {
        let two = TwoServers::open(&db).await;
        triggered_agent(&two.here, "watcher", "on_entity_updated", json!({})).await;
        let (busy, calm) = (two.create("Task", json!({ "n": 0 })).await, two.create("Task", json!({ "n": 0 })).await);
        for n in 1..=100 {
            two.update(busy.id, json!({ "n": n })).await;
            if n % 25 == 0 {
                two.settle().await;
            }
        }
        two.update(calm.id, json!({ "n": 1 })).await;
        two.settle().await;
        assert!(two.runs().await.is_empty(), "they wait for more of the same");
        two.pass(5);
        two.settle().await;
        let runs = two.runs().await;
        assert_eq!(runs.len(), 2, "one for each object");
        let agent_context = context(&two.here, &runs[0]).await;
        assert_eq!((&agent_context["object"]["properties"]["n"], &agent_context["version"], &agent_context["coalesced"]), (&json!(100), &json!(101), &json!(100)));
        let firings = two.firings().await;
        assert_eq!(firings.len(), 101, "each firing says what became of it");
        assert!(firings.iter().all(|one| one.firing.run.is_some()));
        // Later changes start another run.
        two.update(busy.id, json!({ "n": 101 })).await;
        two.settle().await;
        two.pass(5);
        two.settle().await;
        assert_eq!(two.runs().await.len(), 3);
    }

    async fn everything_an_agent_waits_for_can_share_a_run(db: TestDb) {
        let two = TwoServers::open(&db).await;
        triggered_agent(&two.here, "digest", "on_entity_created", json!({ "coalesce_seconds": 60, "coalesce_by": "agent" })).await;
        let mut ids = BTreeSet::new();
        for n in 0..20 {
            ids.insert(two.create("Note", json!({ "n": n })).await.id.0);
        }
        two.settle().await;
        two.pass(60);
        two.settle().await;
        let runs = two.runs().await;
        assert_eq!(runs.len(), 1);
        let agent_context = context(&two.here, &runs[0]).await;
        let mut named: BTreeSet<Uuid> = serde_json::from_value(agent_context["more"].clone()).unwrap();
        named.insert(serde_json::from_value(agent_context["object"]["id"].clone()).unwrap());
        assert_eq!(named, ids);
    }

    async fn a_run_that_cannot_be_admitted_is_noted_once(db: TestDb) {
        let two = TwoServers::open(&db).await;
        let modelless = AgentDefinition { model: Some("openai/none".parse().unwrap()), ..triggered("poor", "on_entity_created", json!({})) };
        two.here.agent(modelless).await;
        triggered_agent(&two.here, "rich", "on_entity_created", json!({})).await;
        two.create("Note", json!({})).await;
        two.settle().await;
        let outcomes = outcomes(&two.firings().await);
        assert!(outcomes.iter().any(|one| one.starts_with("refused") && one.contains("OPENAI_API_KEY")), "{outcomes:?}");
        assert_eq!(two.runs().await.len(), 1, "and stands in nobody's way");
    }

    async fn no_other_projects_events_are_heard(db: TestDb) {
        let two = TwoServers::open(&db).await;
        triggered_agent(&two.here, "notes", "on_entity_created", json!({})).await;
        let graph = two.here.executor.graph();
        let other = graph.create_project("other", false).await.unwrap().id;
        let actor = emergent_graph::Actor { project: other, ..two.here.actor() };
        for n in 0..30 {
            let properties = json!({ "n": n }).as_object().cloned().unwrap();
            let new = NewObject { type_: "Note".into(), properties, ..NewObject::default() };
            graph.create_object(actor, new).await.unwrap();
        }
        two.create("Note", json!({})).await;
        two.settle().await;
        assert_eq!(two.runs().await.len(), 1);
        assert!(two.here.executor.list_triggers(other).await.unwrap().events.is_empty());
    }
}

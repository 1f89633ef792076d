//! Validation of large values happens outside of transactions, against the packs that are assigned then.

use crate::support;

use emergent_domain::{
    object::{NewObject, ObjectPatch},
    pack::TemplatePack,
    relationship::RelationshipPatch,
};
use emergent_graph::{Error, NewSubgraph};
use emergent_testkit::both_engines;
use serde_json::{Map, Value, json};
use support::*;

/// A pack that needs two hundred steps for each property of a `Row`, and for each of a `links`.
fn costly(version: &str, allowed: &str) -> TemplatePack {
    let rules: Vec<Value> =
        (0..100).map(|_| json!({ "additionalProperties": { "type": allowed } })).collect();
    let schema = json!({ "allOf": rules });
    serde_json::from_value(json!({
        "name": "costly",
        "version": version,
        "objectTypeSchemas": { "Row": schema },
        "relationshipTypeSchemas": { "links": { "from": "*", "to": "*", "properties": schema } },
    }))
    .unwrap()
}

async fn assign(harness: &Harness, pack: TemplatePack) {
    let stored = harness.graph.create_pack(harness.project(), pack).await.unwrap();
    harness.graph.assign_pack(harness.project(), stored.id).await.unwrap();
}

fn properties(count: usize, value: &Value) -> Map<String, Value> {
    (0..count).map(|n| (format!("p{n}"), value.clone())).collect()
}

fn row(key: &str, count: usize, value: Value) -> NewObject {
    NewObject { properties: properties(count, &value), ..new("Row", key, json!({})) }
}

/// Enough properties that a transaction does not validate them itself.
const LARGE: usize = 5_000;

both_engines! {
    async fn large_values_are_created_updated_and_refused_like_small_ones(db: TestDb) {
        let harness = Harness::new(&db).await;
        let graph = &harness.graph;
        assign(&harness, costly("1.0.0", "integer")).await;
        let made = graph.create_object(harness.actor, row("a", LARGE, json!(1))).await.unwrap();
        let refused = graph.create_object(harness.actor, row("b", LARGE, json!("x"))).await.unwrap_err();
        assert!(matches!(&refused, Error::Invalid(_)), "{refused}");

        let patch = |value: Value| ObjectPatch {
            properties: Some(Map::from_iter([("p7".to_owned(), value)])),
            ..ObjectPatch::default()
        };
        let changed = graph.update_object(harness.actor, made.id, patch(json!(2))).await.unwrap();
        assert_eq!(changed.version, 2);
        let refused = graph.update_object(harness.actor, made.id, patch(json!("x"))).await.unwrap_err();
        assert!(matches!(&refused, Error::Invalid(_)), "{refused}");
        let (upserted, _) = graph.upsert_object(harness.actor, row("a", 10, json!(5))).await.unwrap();
        assert_eq!(upserted.version, 3);

        let mut link = edge("links", made.id, made.id);
        link.properties = properties(LARGE, &json!(1));
        let (link, _) = graph.create_relationship(harness.actor, link).await.unwrap();
        let patch = RelationshipPatch {
            properties: Some(Map::from_iter([("p7".to_owned(), json!("x"))])),
            ..RelationshipPatch::default()
        };
        let refused = graph.update_relationship(harness.actor, link.id, patch).await.unwrap_err();
        assert!(matches!(&refused, Error::Invalid(_)), "{refused}");
    }

    async fn each_item_of_a_list_has_its_own_result(db: TestDb) {
        let harness = Harness::new(&db).await;
        let graph = &harness.graph;
        assign(&harness, costly("1.0.0", "integer")).await;
        let items = vec![row("a", LARGE, json!(1)), row("b", LARGE, json!("x")), row("c", 1, json!(1))];
        let results = graph.bulk_create_objects(harness.actor, items.clone(), false).await.unwrap();
        let created: Vec<bool> = results.iter().map(Result::is_ok).collect();
        assert_eq!(created, [true, false, true]);
        let all = vec![row("d", 1, json!(1)), row("e", LARGE, json!("x"))];
        let refused = graph.bulk_create_objects(harness.actor, all, true).await.unwrap_err();
        assert!(refused.to_string().contains("objects[1].properties"), "{refused}");
        let objects = items.into_iter().map(|item| (None, NewObject { key: None, ..item })).collect();
        let subgraph = NewSubgraph { objects, relationships: Vec::new() };
        let refused = graph.create_subgraph(harness.actor, subgraph).await.unwrap_err();
        assert!(refused.to_string().contains("objects[1].properties"), "{refused}");
    }

    async fn an_import_validates_large_lines_outside_of_its_transaction(db: TestDb) {
        let harness = Harness::new(&db).await;
        assign(&harness, costly("1.0.0", "integer")).await;
        let line = |number: u64, key: &str, value: Value| {
            let properties = properties(LARGE, &value);
            (number, json!({ "kind": "object", "type": "Row", "key": key, "properties": properties }).to_string())
        };
        let lines = vec![line(1, "a", json!(1)), line(2, "b", json!("x")), line(3, "c", json!(1))];
        let outcome = harness.graph.import_batch(harness.actor, lines).await.unwrap();
        assert_eq!((outcome.objects.created, outcome.errors.len()), (2, 1), "{:?}", outcome.errors);
        assert_eq!(outcome.errors[0].line, 2);
    }

    async fn a_value_is_validated_against_the_packs_that_are_assigned_when_it_is_written(db: TestDb) {
        let harness = Harness::new(&db).await;
        let graph = &harness.graph;
        assign(&harness, costly("1.0.0", "integer")).await;
        let made = graph.create_object(harness.actor, row("a", LARGE, json!(1))).await.unwrap();
        assign(&harness, costly("2.0.0", "string")).await;
        assert!(graph.create_object(harness.actor, row("b", LARGE, json!(1))).await.is_err());
        graph.create_object(harness.actor, row("c", LARGE, json!("x"))).await.unwrap();
        let patch = ObjectPatch { properties: Some(map(json!({ "p1": "x" }))), ..ObjectPatch::default() };
        assert!(graph.update_object(harness.actor, made.id, patch).await.is_err(), "the others are integers");

        // Another server assigned a pack that this one has compiled no version of.
        let elsewhere = emergent_graph::Graph::new(db.db.clone(), graph.clock().clone(), None);
        let third = elsewhere.create_pack(harness.project(), costly("3.0.0", "boolean")).await.unwrap();
        elsewhere.assign_pack(harness.project(), third.id).await.unwrap();
        assert!(graph.create_object(harness.actor, row("d", LARGE, json!("x"))).await.is_err());
        graph.create_object(harness.actor, row("e", LARGE, json!(true))).await.unwrap();
    }

    async fn a_value_beyond_the_budget_is_refused_and_names_the_limit(db: TestDb) {
        let harness = Harness::new(&db).await;
        assign(&harness, costly("1.0.0", "integer")).await;
        let refused = harness.graph.create_object(harness.actor, row("a", 80_000, json!(1))).await.unwrap_err();
        let text = refused.to_string();
        assert!(text.contains("limit of 10000000 steps") && text.contains("`costly`"), "{text}");
    }
}

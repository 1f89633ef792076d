//! Hits by parent, and within a budget of tokens.

use emergent_domain::{
    arrangement::GroupBy,
    query::{Direction, SearchMode},
};
use emergent_graph::arrangement::arrange_chunks;
use emergent_testkit::both_engines;
use serde_json::json;

use crate::{
    search::query,
    support::{Harness, document, new, project},
};

/// The keys of the messages about a kettle in the order of the search, grouped by their sessions.
async fn grouped(harness: &Harness, relationship: &str, direction: Direction) -> String {
    let found = harness.graph.search(harness.project(), query("kettle", SearchMode::Text)).await.unwrap();
    let group = GroupBy { relationship: relationship.to_owned(), direction };
    let found = harness.graph.arrange_objects(harness.project(), found, Some(group), None).await.unwrap();
    assert!(found.hits.iter().all(|hit| hit.group.is_some()));
    found.hits.iter().map(|hit| hit.item.key.clone().unwrap()).collect::<Vec<_>>().join(" ")
}

both_engines! {
    async fn hits_are_grouped_along_a_relationship(db: TestDb) {
        let harness = Harness::new(&db).await;
        let mut messages = Vec::new();
        for (key, text) in [("m1", "kettle kettle kettle"), ("m2", "kettle kettle tea"), ("m3", "kettle tea tea")] {
            messages.push(harness.object(new("Message", key, json!({ "text": text }))).await);
        }
        let [first, second] = ["s1", "s2"].map(|key| new("Chat", key, json!({ "topic": "kitchen" })));
        let (first, second) = (harness.object(first).await, harness.object(second).await);
        harness.edge("part_of", messages[0], first).await;
        harness.edge("part_of", messages[1], second).await;
        harness.edge("part_of", messages[2], first).await;
        harness.edge("has_message", second, messages[2]).await;
        harness.edge("has_message", second, messages[1]).await;
        assert_eq!(grouped(&harness, "part_of", Direction::Out).await, "m1 m3 m2");
        assert_eq!(grouped(&harness, "has_message", Direction::In).await, "m1 m2 m3");
        assert_eq!(grouped(&harness, "unknown", Direction::Out).await, "m1 m2 m3", "each is its own group");
        // A deleted session groups nothing.
        harness.graph.delete_object(harness.actor, first, None).await.unwrap();
        assert_eq!(grouped(&harness, "part_of", Direction::Out).await, "m1 m2 m3");
        // Another project is searched by itself.
        let other = Harness { graph: harness.graph.clone(), actor: project(&harness.graph, "other", false).await };
        assert_eq!(grouped(&other, "part_of", Direction::Out).await, "");
    }

    async fn hits_fill_a_budget_of_tokens(db: TestDb) {
        let harness = Harness::new(&db).await;
        for key in ["m1", "m2", "m3"] {
            harness.object(new("Message", key, json!({ "text": format!("kettle {}", "tea ".repeat(100)) }))).await;
        }
        let cut = async |tokens: usize| {
            let found = harness.graph.search(harness.project(), query("kettle", SearchMode::Text)).await.unwrap();
            let found = harness.graph.arrange_objects(harness.project(), found, None, Some(tokens)).await.unwrap();
            (found.hits.len(), found.truncated)
        };
        assert_eq!(cut(10).await, (1, true), "the best hit is always there");
        assert_eq!(cut(250).await, (2, true));
        assert_eq!(cut(10_000).await, (3, false));
    }

    async fn passages_of_a_document_are_together(db: TestDb) {
        let harness = Harness::new(&db).await;
        for (title, text) in [("one", "kettle kettle kettle"), ("two", "kettle kettle tea")] {
            document(&harness, title, text).await;
        }
        let (graph, project) = (&harness.graph, harness.project());
        let found = graph.search_chunks(project, "kettle", SearchMode::Text, 10, None, None).await.unwrap();
        let documents: Vec<_> = found.hits.iter().map(|hit| Some(hit.item.document.0)).collect();
        let grouped = arrange_chunks(found.clone(), true, None).unwrap();
        assert_eq!(grouped.hits.iter().map(|hit| hit.group).collect::<Vec<_>>(), documents);
        let cut = arrange_chunks(found.clone(), false, Some(1)).unwrap();
        assert_eq!((cut.hits.len(), cut.truncated), (1, true));
        assert!(arrange_chunks(found, false, Some(0)).is_err());
    }
}

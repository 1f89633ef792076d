//! Objects of nearly a megabyte: no answer holds more than a few of them.

use crate::support;

use emergent_domain::{
    cursor::Page,
    ids::ObjectId,
    query::{Direction, ObjectFilter, SearchMode, SearchQuery, TraverseQuery},
};
use emergent_testkit::both_engines;
use futures_util::TryStreamExt;
use serde_json::json;
use support::*;

/// The objects are larger than a page (8 MiB) and a traversal (16 MiB) may be.
const COUNT: usize = 20;

/// Creates large objects, each with an edge from the first one.
async fn create(harness: &Harness) -> Vec<ObjectId> {
    let text = "x".repeat(1_000_000);
    let mut ids = Vec::new();
    for n in 0..COUNT {
        ids.push(
            harness.object(new("Large", &n.to_string(), json!({ "name": "needle", "text": text }))).await,
        );
    }
    for to in &ids[1..] {
        harness.edge("to", ids[0], *to).await;
    }
    ids
}

both_engines! {
    async fn answers_end_where_they_would_become_too_large(db: TestDb) {
        let harness = Harness::new(&db).await;
        let (graph, project) = (&harness.graph, harness.project());
        let ids = create(&harness).await;

        let (mut listed, mut page) = (Vec::new(), Page::first(100));
        loop {
            let found = graph.list_objects(project, ObjectFilter::default(), page).await.unwrap();
            assert!((1..=8).contains(&found.items.len()), "{}", found.items.len());
            listed.extend(found.items.into_iter().map(|object| object.id));
            let Some(next) = found.next else { break };
            page.after = Some(next);
        }
        listed.reverse();
        assert_eq!(listed, ids, "the pages together have every object once");

        let query = TraverseQuery {
            start: vec![ids[0]],
            direction: Direction::Out,
            max_depth: 1,
            relationship_types: Vec::new(),
            object_types: Vec::new(),
            max_nodes: 100,
            max_edges: 100,
            as_of: None,
        };
        let near = graph.traverse(project, query).await.unwrap();
        assert!(near.truncated);
        let found: Vec<ObjectId> = near.nodes.iter().map(|node| node.object.id).collect();
        assert_eq!(found, ids[..found.len()], "the smallest ids are kept");
        assert!((8..=16).contains(&found.len()), "{}", found.len());

        let query = SearchQuery {
            query: "needle".into(),
            mode: SearchMode::Text,
            filter: ObjectFilter::default(),
            include_system: false,
            min_similarity: None,
            limit: 100,
            weights: Default::default(),
        };
        let hits = graph.search(project, query).await.unwrap();
        assert!(hits.truncated && (1..=8).contains(&hits.hits.len()), "{}", hits.hits.len());

        let parts: Vec<bytes::Bytes> = graph.export(project).try_collect().await.unwrap();
        assert!(parts.iter().all(|part| part.len() < 1_300_000), "an export has small parts");
        assert_eq!(parts.concat().split(|byte| *byte == b'\n').count() - 1, COUNT + COUNT - 1);
    }
}

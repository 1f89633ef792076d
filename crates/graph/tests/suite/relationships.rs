//! Relationships: uniqueness per type and ends, versions, and subgraphs.

use crate::support;

use emergent_domain::{
    cursor::Page,
    ids::{ObjectId, RelationshipId},
    query::Direction,
    relationship::{NewRelationship, Relationship, RelationshipPatch},
};
use emergent_graph::{EdgeEnd, Error, Graph, NewSubgraph, NewSubgraphEdge, RelationshipFilter};
use emergent_testkit::both_engines;
use serde_json::{Map, json};
use support::*;

async fn three(harness: &Harness) -> [ObjectId; 3] {
    [
        harness.object(new("Task", "a", json!({}))).await,
        harness.object(new("Task", "b", json!({}))).await,
        harness.object(new("Note", "c", json!({}))).await,
    ]
}

fn between(type_: &str, from: EdgeEnd, to: EdgeEnd) -> NewSubgraphEdge {
    NewSubgraphEdge { type_: type_.to_owned(), from, to, properties: Map::new(), weight: None }
}

both_engines! {
    async fn a_living_edge_of_the_same_type_and_ends_is_returned_as_it_is(db: TestDb) {
        let harness = Harness::new(&db).await;
        let [a, b, _] = three(&harness).await;
        let wanted = NewRelationship { properties: map(json!({ "why": "x" })), weight: Some(0.5), ..edge("blocks", a, b) };
        let (made, now) = harness.graph.create_relationship(harness.actor, wanted).await.unwrap();
        assert!(now);
        assert_eq!((made.version, made.weight, made.author), (1, Some(0.5), harness.actor.author));
        assert_eq!(harness.graph.get_relationship(harness.project(), made.id).await.unwrap(), made);
        let again = harness.graph.create_relationship(harness.actor, edge("blocks", a, b)).await.unwrap();
        assert_eq!(again, (made.clone(), false));
        assert!(harness.graph.create_relationship(harness.actor, edge("blocks", b, a)).await.unwrap().1);
        assert!(harness.graph.create_relationship(harness.actor, edge("likes", a, b)).await.unwrap().1);
        harness.graph.delete_relationship(harness.actor, made.id, None).await.unwrap();
        let (anew, now) = harness.graph.create_relationship(harness.actor, edge("blocks", a, b)).await.unwrap();
        assert!(now && anew.id != made.id && anew.version == 1);
    }

    async fn a_change_is_a_version_and_no_change_is_none(db: TestDb) {
        let harness = Harness::new(&db).await;
        let [a, b, _] = three(&harness).await;
        let made = harness.edge("blocks", a, b).await;
        let patch = RelationshipPatch { properties: Some(map(json!({ "n": 1 }))), weight: Some(Some(2.0)), expected_version: Some(1) };
        let next = harness.graph.update_relationship(harness.actor, made.id, patch.clone()).await.unwrap();
        assert_eq!((next.version, next.weight), (2, Some(2.0)));
        let outcome = harness.graph.update_relationship(harness.actor, made.id, patch.clone()).await;
        assert!(matches!(outcome, Err(Error::VersionConflict { expected: 1, current: 2, .. })));
        let same = RelationshipPatch { expected_version: None, ..patch };
        assert_eq!(harness.graph.update_relationship(harness.actor, made.id, same).await.unwrap(), next);
        let outcome = harness.graph.delete_relationship(harness.actor, made.id, Some(1)).await;
        assert!(matches!(outcome, Err(Error::VersionConflict { .. })));
        let tombstone = harness.graph.delete_relationship(harness.actor, made.id, Some(2)).await.unwrap();
        assert_eq!((tombstone.version, tombstone.deleted_with), (3, None));
        let gone = harness.graph.get_relationship(harness.project(), made.id).await;
        assert!(matches!(gone, Err(Error::NotFound { what: "relationship", .. })));
        let history = all_pages(async |page| harness.graph.relationship_history(harness.project(), made.id, page).await).await;
        assert_eq!(history, [tombstone, next, made]);
        assert_eq!(harness.change_kinds().await[3..], ["relationship_created", "relationship_updated", "relationship_deleted"]);
    }

    async fn ends_that_are_not_there_are_named(db: TestDb) {
        let harness = Harness::new(&db).await;
        let [a, b, _] = three(&harness).await;
        let nobody = ObjectId::new();
        match harness.graph.create_relationship(harness.actor, edge("x", nobody, nobody)).await {
            Err(Error::Invalid(invalid)) => {
                let fields: Vec<&str> = invalid.problems.iter().map(|problem| problem.field.as_str()).collect();
                assert_eq!(fields, ["fromId", "toId"]);
            }
            other => panic!("{other:?}"),
        }
        assert!(matches!(harness.graph.update_relationship(harness.actor, RelationshipId::new(), RelationshipPatch::default()).await, Err(Error::NotFound { .. })));
        let list = || vec![edge("x", a, b), edge("x", a, nobody), edge("bad type", a, b), edge("x", a, b)];
        let outcomes = harness.graph.bulk_create_relationships(harness.actor, list(), false).await.unwrap();
        let made: Vec<Option<RelationshipId>> = outcomes.iter().map(|outcome| outcome.as_ref().ok().map(|edge| edge.id)).collect();
        assert!(made[0].is_some() && made[0] == made[3] && made[1].is_none() && made[2].is_none());
        assert!(problem(harness.graph.bulk_create_relationships(harness.actor, vec![edge("y", a, b), edge("x", a, nobody)], true).await).starts_with("relationships[1].toId"));
        assert_eq!(harness.neighbours(a).await, [b]);
    }

    async fn lists_and_edges_can_be_narrowed_and_paged(db: TestDb) {
        let harness = Harness::new(&db).await;
        let [a, b, c] = three(&harness).await;
        let mut made = Vec::new();
        for (type_, from, to) in [("x", a, b), ("y", a, b), ("x", b, a), ("x", c, a), ("x", b, c)] {
            made.push(harness.edge(type_, from, to).await);
        }
        let pick = |places: &[usize]| places.iter().map(|at| made[*at].clone()).collect::<Vec<Relationship>>();
        let list = async |filter: RelationshipFilter| {
            all_pages(async |page| harness.graph.list_relationships(harness.project(), filter.clone(), page).await).await
        };
        assert_eq!(list(RelationshipFilter::default()).await, pick(&[4, 3, 2, 1, 0]));
        assert_eq!(list(RelationshipFilter { types: vec!["y".to_owned()], ..Default::default() }).await, pick(&[1]));
        assert_eq!(list(RelationshipFilter { from: Some(b), ..Default::default() }).await, pick(&[4, 2]));
        assert_eq!(list(RelationshipFilter { from: Some(b), to: Some(a), types: vec!["x".to_owned()] }).await, pick(&[2]));
        let edges = async |direction, types: Vec<String>| {
            all_pages(async |page| harness.graph.object_edges(harness.project(), a, direction, types.clone(), page).await).await
        };
        assert_eq!(edges(Direction::Out, vec![]).await, pick(&[1, 0]));
        assert_eq!(edges(Direction::In, vec![]).await, pick(&[3, 2]));
        assert_eq!(edges(Direction::Both, vec!["x".to_owned()]).await, pick(&[3, 2, 0]));
    }

    async fn a_subgraph_comes_whole_or_not_at_all(db: TestDb) {
        let harness = Harness::new(&db).await;
        let there = harness.object(new("Task", "there", json!({}))).await;
        let name = |text: &str| EdgeEnd::Ref(text.to_owned());
        let objects = || vec![
            (Some("a".to_owned()), new("Task", "a", json!({ "title": "a" }))),
            (Some("b".to_owned()), new("Task", "b", json!({}))),
            (None, new("Note", "", json!({}))),
        ];
        let made = harness.graph.create_subgraph(harness.actor, NewSubgraph {
            objects: objects(),
            relationships: vec![between("blocks", name("a"), name("b")), between("blocks", EdgeEnd::Id(there), name("a")), between("blocks", name("a"), name("b"))],
        }).await.unwrap();
        assert_eq!((made.objects.len(), made.relationships.len(), made.refs.len()), (3, 3, 2));
        assert_eq!(made.refs["a"], made.objects[0].id);
        assert_eq!(made.relationships[0], made.relationships[2]);
        assert_eq!((made.relationships[1].from, made.relationships[1].to), (there, made.refs["a"]));
        assert_eq!(harness.change_kinds().await.len(), 6);

        let refuse = async |objects: Vec<_>, relationships: Vec<_>| {
            harness.graph.create_subgraph(harness.actor, NewSubgraph { objects, relationships }).await
        };
        let fresh = |key: &str| (Some("n".to_owned()), new("Task", key, json!({})));
        assert_eq!(problem(refuse(vec![fresh("n")], vec![between("x", name("n"), name("m"))]).await), "relationships[0].to: no object of this request has the ref `m`");
        assert_eq!(problem(refuse(vec![fresh("n"), fresh("m")], vec![]).await), "objects[1].ref: is used by an object before this one");
        assert_eq!(problem(refuse(vec![fresh("n")], vec![between("x", name("n"), EdgeEnd::Id(ObjectId::new()))]).await), "relationships[0].toId: no object with this id in this project");
        assert!(matches!(refuse(vec![fresh("n"), (None, new("Task", "a", json!({})))], vec![]).await, Err(Error::KeyTaken { .. })));
        assert_eq!(harness.change_kinds().await.len(), 6, "nothing was written");
        assert_eq!(indexed(&harness.graph, harness.project()).await.len(), 4);
    }

    async fn an_edge_is_made_once_however_many_ask(db: TestDb) {
        let harness = Harness::new(&db).await;
        let [a, b, _] = three(&harness).await;
        let tasks: Vec<_> = (0..32).map(|_| {
            let (graph, actor): (Graph, _) = (harness.graph.clone(), harness.actor);
            tokio::spawn(async move { graph.create_relationship(actor, edge("x", a, b)).await.unwrap() })
        }).collect();
        let mut made = 0;
        let mut ids = std::collections::HashSet::new();
        for task in tasks {
            let (edge, now) = task.await.unwrap();
            made += usize::from(now);
            ids.insert(edge.id);
        }
        assert_eq!((made, ids.len()), (1, 1));
    }

    async fn a_hub_goes_and_comes_back_with_all_its_edges(db: TestDb) {
        let harness = Harness::new(&db).await;
        let hub = harness.object(new("Hub", "hub", json!({}))).await;
        let spokes = (0..1_200).map(|n| new("Spoke", &format!("s{n}"), json!({}))).collect();
        let spokes = harness.graph.bulk_create_objects(harness.actor, spokes, true).await.unwrap();
        let edges = spokes.iter().map(|spoke| edge("has", hub, spoke.as_ref().unwrap().id)).collect();
        harness.graph.bulk_create_relationships(harness.actor, edges, true).await.unwrap();
        let count = async || {
            let project = harness.project();
            let found: Vec<i64> = harness.graph.db().read(move |tx| tx.query(
                "SELECT count(*) FROM graph_relationships WHERE project_id = $1 AND deleted_at IS NULL", &[project.into()], |row| row.get(0)))
                .await.unwrap_or_else(|error: emergent_store::Error| panic!("{error}"));
            found[0]
        };
        assert_eq!(count().await, 1_200);
        harness.graph.delete_object(harness.actor, hub, None).await.unwrap();
        assert_eq!(count().await, 0);
        harness.graph.restore_object(harness.actor, hub).await.unwrap();
        assert_eq!(count().await, 1_200);
        let page = harness.graph.object_edges(harness.project(), hub, Direction::Out, vec![], Page::first(100)).await.unwrap();
        assert!(page.items.iter().all(|edge| edge.version == 3));
    }
}

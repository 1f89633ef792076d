//! Lists of an earlier time: they have what a list had then.

use std::{collections::BTreeMap, time::Duration};

use emergent_domain::{
    cursor::Page,
    filter::{Filter, Op},
    ids::{ObjectId, RelationshipId},
    object::{NewObject, Object, ObjectPatch},
    query::{Direction, ObjectFilter},
    relationship::{Relationship, RelationshipPatch},
    time::Timestamp,
};
use emergent_graph::{Error, RelationshipFilter};
use emergent_store::{Engine, objects};
use emergent_testkit::{TestDb, both_engines};
use rand::{Rng, SeedableRng, rngs::StdRng, seq::IndexedRandom};
use serde_json::json;

use crate::support::{Harness, all_pages, map, new};

/// What the lists had at a time.
struct Moment {
    at: Timestamp,
    objects: Vec<Object>,
    tasks: Vec<Object>,
    large: Vec<Object>,
    edges: Vec<Relationship>,
    near: Option<(ObjectId, Vec<Relationship>)>,
}

fn of_type(type_: &str) -> ObjectFilter {
    ObjectFilter { types: vec![type_.to_owned()], ..ObjectFilter::default() }
}

fn large() -> ObjectFilter {
    let filters = vec![Filter { path: "n".to_owned(), op: Op::Gt, value: Some(json!(50)) }];
    ObjectFilter { filters, ..ObjectFilter::default() }
}

async fn list(harness: &Harness, filter: ObjectFilter, at: Option<Timestamp>) -> Vec<Object> {
    let (graph, project) = (&harness.graph, harness.project());
    all_pages(async |page| match at {
        Some(at) => graph.list_objects_at(project, filter.clone(), at, page).await,
        None => graph.list_objects(project, filter.clone(), page).await,
    })
    .await
}

async fn list_edges(harness: &Harness, at: Option<Timestamp>) -> Vec<Relationship> {
    let (graph, project) = (&harness.graph, harness.project());
    let filter = RelationshipFilter::default();
    all_pages(async |page| match at {
        Some(at) => graph.list_relationships_at(project, filter.clone(), at, page).await,
        None => graph.list_relationships(project, filter.clone(), page).await,
    })
    .await
}

async fn list_near(harness: &Harness, id: ObjectId, at: Option<Timestamp>) -> Vec<Relationship> {
    let (graph, project, both) = (&harness.graph, harness.project(), Direction::Both);
    all_pages(async |page| match at {
        Some(at) => graph.object_edges_at(project, id.into(), (both, Vec::new()), at, page).await,
        None => graph.object_edges(project, id, both, Vec::new(), page).await,
    })
    .await
}

/// Changes something at random. What is not possible at the moment is left out.
async fn change(harness: &Harness, dice: &mut StdRng, ids: &mut Vec<ObjectId>) {
    let (graph, actor) = (&harness.graph, harness.actor);
    let type_ = (*["Task", "Note"].choose(dice).unwrap()).to_owned();
    let number = json!({ "n": dice.random_range(0..100) });
    let some = |dice: &mut StdRng| ids.choose(dice).copied().unwrap_or_else(ObjectId::new);
    match dice.random_range(0..10) {
        0..=2 => ids.push(harness.object(new(&type_, "", number)).await),
        3 | 4 => {
            let type_ = dice.random_bool(0.3).then_some(type_);
            let patch = ObjectPatch { type_, properties: Some(map(number)), ..ObjectPatch::default() };
            let _ = graph.update_object(actor, some(dice), patch).await;
        }
        5 => drop(graph.delete_object(actor, some(dice), None).await),
        6 => drop(graph.restore_object(actor, some(dice)).await),
        7 | 8 => {
            let edge = crate::support::edge("to", some(dice), some(dice));
            drop(graph.create_relationship(actor, edge).await);
        }
        _ => {
            let edges = list_edges(harness, None).await;
            let Some(edge) = edges.choose(dice) else { return };
            if dice.random_bool(0.5) {
                let patch = RelationshipPatch { properties: Some(map(number)), ..Default::default() };
                drop(graph.update_relationship(actor, edge.id, patch).await);
            } else {
                drop(graph.delete_relationship(actor, edge.id, None).await);
            }
        }
    }
}

both_engines! {
    async fn a_list_of_an_earlier_time_has_what_a_list_had_then(db: TestDb) {
        let harness = Harness::new(&db).await;
        let clock = harness.graph.clock().clone();
        let seed = rand::random();
        println!("the seed is {seed}");
        let (mut dice, mut ids, mut moments) = (StdRng::seed_from_u64(seed), Vec::new(), Vec::new());
        for _ in 0..30 {
            change(&harness, &mut dice, &mut ids).await;
            let objects = list(&harness, ObjectFilter::default(), None).await;
            let near = match objects.choose(&mut dice) {
                Some(object) => Some((object.id, list_near(&harness, object.id, None).await)),
                None => None,
            };
            let moment = Moment {
                // A version is later than the one before it, if need be by some microseconds.
                at: clock.now() + Duration::from_micros(500),
                tasks: list(&harness, of_type("Task"), None).await,
                large: list(&harness, large(), None).await,
                edges: list_edges(&harness, None).await,
                objects,
                near,
            };
            moments.push(moment);
            clock.advance(Duration::from_millis(1));
        }
        let all_edges: BTreeMap<RelationshipId, &Relationship> =
            moments.iter().flat_map(|moment| &moment.edges).map(|edge| (edge.id, edge)).collect();
        for moment in &moments {
            let at = Some(moment.at);
            assert_eq!(list(&harness, ObjectFilter::default(), at).await, moment.objects);
            assert_eq!(list(&harness, of_type("Task"), at).await, moment.tasks);
            assert_eq!(list(&harness, large(), at).await, moment.large);
            assert_eq!(list_edges(&harness, at).await, moment.edges);
            // Each of them by its id, and none that there was earlier or later.
            for edge in all_edges.values() {
                let found = harness.graph.relationship_at_with_sources(harness.project(), edge.id, moment.at).await;
                let expected = moment.edges.iter().find(|then| then.id == edge.id);
                match expected {
                    Some(expected) => assert_eq!(found.unwrap(), (expected.clone(), Vec::new())),
                    None => assert!(matches!(found, Err(Error::NotFound { .. })), "{found:?} at {:?}", moment.at),
                }
            }
            if let Some((id, edges)) = &moment.near {
                assert_eq!(list_near(&harness, *id, at).await, *edges);
            }
        }
        let before = Timestamp::from_micros(moments[0].at.as_micros() - 1_000_000);
        assert_eq!(list(&harness, ObjectFilter::default(), Some(before)).await, []);
    }

    async fn a_filter_applies_to_what_an_object_was(db: TestDb) {
        let harness = Harness::new(&db).await;
        let (graph, actor) = (&harness.graph, harness.actor);
        let clock = graph.clock().clone();
        let labels = vec!["early".to_owned()];
        let draft = NewObject { labels, status: Some("open".to_owned()), ..new("Idea", "a", json!({ "n": 1 })) };
        let id = harness.object(draft).await;
        let other = harness.object(new("Idea", "b", json!({}))).await;
        harness.edge("near", id, other).await;
        let then = clock.now() + Duration::from_millis(1);
        clock.advance(Duration::from_secs(1));
        let patch = ObjectPatch {
            type_: Some("Plan".to_owned()),
            key: Some(Some("c".to_owned())),
            status: Some(Some("done".to_owned())),
            labels: Some(Vec::new()),
            properties: Some(map(json!({ "n": 2 }))),
            ..ObjectPatch::default()
        };
        graph.update_object(actor, id, patch).await.unwrap();
        let between = clock.now() + Duration::from_millis(1);
        clock.advance(Duration::from_secs(1));
        graph.delete_object(actor, id, None).await.unwrap();

        let was = [
            ObjectFilter { key: Some("a".to_owned()), ..of_type("Idea") },
            ObjectFilter { status: Some("open".to_owned()), ..ObjectFilter::default() },
            ObjectFilter { labels: vec!["early".to_owned()], ..ObjectFilter::default() },
        ];
        for filter in was {
            let found = list(&harness, filter.clone(), Some(then)).await;
            assert_eq!(found.iter().map(|object| (object.id, object.version)).collect::<Vec<_>>(), [(id, 1)], "{filter:?}");
            assert_eq!(list(&harness, filter, Some(between)).await, []);
        }
        assert_eq!(list(&harness, of_type("Plan"), Some(then)).await, []);
        assert_eq!(list(&harness, of_type("Plan"), Some(between)).await.len(), 1);
        assert_eq!(list(&harness, of_type("Plan"), Some(clock.now() + Duration::from_millis(1))).await, [], "it is deleted by now");

        assert_eq!(list_near(&harness, id, Some(between)).await.len(), 1);
        let (page, after) = (Page::first(1), clock.now() + Duration::from_millis(1));
        let gone = graph.object_edges_at(actor.project, id.into(), (Direction::Both, Vec::new()), after, page).await;
        assert!(matches!(gone, Err(Error::NotLiveAt(_))), "{gone:?}");
        let wrong = graph.list_objects_at(actor.project, of_type("no type"), then, page).await;
        assert!(matches!(wrong, Err(Error::Invalid(_))), "{wrong:?}");
    }

    async fn a_list_of_an_earlier_time_ends_where_it_would_become_too_large(db: TestDb) {
        let harness = Harness::new(&db).await;
        let (graph, project) = (&harness.graph, harness.project());
        let text = "x".repeat(1_000_000);
        let mut ids = Vec::new();
        for _ in 0..12 {
            ids.push(harness.object(new("Large", "", json!({ "text": text }))).await);
        }
        let then = graph.clock().now() + Duration::from_secs(1);
        graph.clock().advance(Duration::from_secs(2));
        graph.delete_object(harness.actor, ids[3], None).await.unwrap();
        let (mut listed, mut page, mut pages) = (Vec::new(), Page::first(100), 0);
        loop {
            let found = graph.list_objects_at(project, ObjectFilter::default(), then, page).await.unwrap();
            assert!((1..=8).contains(&found.items.len()), "{}", found.items.len());
            listed.extend(found.items.into_iter().map(|object| object.id));
            pages += 1;
            let Some(next) = found.next else { break };
            page.after = Some(next);
        }
        listed.reverse();
        assert_eq!(listed, ids, "the pages together have every object once");
        assert!(pages > 1);
    }
}

#[tokio::test]
async fn a_list_of_an_earlier_time_reads_the_pages_of_indexes() {
    let db = TestDb::sqlite().await;
    let harness = Harness::new(&db).await;
    let (project, at) = (harness.project(), harness.graph.clock().now());
    let (sql, params) =
        objects::list_at_sql(Engine::Sqlite, project, &ObjectFilter::default(), at, &Page::first(20));
    let plan: Vec<String> = db
        .read(move |tx| tx.query(&format!("EXPLAIN QUERY PLAN {sql}"), &params, |row| row.get::<String>(3)))
        .await
        .unwrap_or_else(|error: emergent_store::Error| panic!("{error}"));
    for index in
        ["INDEX graph_objects_page (", "INDEX graph_objects_deleted_page (", "graph_object_versions_1 ("]
    {
        assert!(plan.iter().any(|step| step.contains(index)), "{index}: {plan:#?}");
    }
    assert!(!plan.iter().any(|step| step.starts_with("SCAN o") || step.starts_with("SCAN v")), "{plan:#?}");
}

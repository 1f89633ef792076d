//! Lists of objects, relationships and documents are read in pages while others write: every row
//! that existed at the start is returned exactly once.

use crate::support;

use std::collections::BTreeSet;

use emergent_domain::{
    cursor::{Cursor, Page},
    document::NewDocument,
    ids::ObjectId,
    query::ObjectFilter,
};
use emergent_graph::{Actor, Graph, RelationshipFilter};
use emergent_testkit::{TestDb, fixed_clock};
use proptest::{
    prelude::*,
    test_runner::{Config, RngAlgorithm, TestRng, TestRunner},
};
use serde_json::{Map, json};
use support::*;
use uuid::Uuid;

#[derive(Debug, Clone, Copy, PartialEq)]
enum List {
    Objects,
    Relationships,
    Documents,
}

#[derive(Debug, Clone)]
struct Story {
    list: List,
    limit: usize,
    /// The number of rows that exist at first, per timestamp, and the number of rows added after
    /// each page.
    before: Vec<usize>,
    between: Vec<usize>,
}

fn story() -> impl Strategy<Value = Story> {
    let list =
        prop_oneof![3 => Just(List::Objects), 2 => Just(List::Relationships), 1 => Just(List::Documents)];
    let before = prop::collection::vec(0..5_usize, 0..4);
    (list, 1..6_usize, before, prop::collection::vec(0..3_usize, 0..5))
        .prop_map(|(list, limit, before, between)| Story { list, limit, before, between })
}

struct Reader {
    graph: Graph,
    actor: Actor,
    list: List,
    /// One end of all relationships.
    hub: ObjectId,
}

impl Reader {
    async fn add(&self, count: usize) -> Vec<Uuid> {
        let mut ids = Vec::new();
        for _ in 0..count {
            ids.push(match self.list {
                List::Objects => self.object().await.0,
                List::Relationships => {
                    let new = edge("r", self.hub, self.object().await);
                    self.graph.create_relationship(self.actor, new).await.unwrap().0.id.0
                }
                List::Documents => {
                    let new = NewDocument {
                        title: "note".to_owned(),
                        content: Uuid::now_v7().to_string().into_bytes(),
                        mime_type: None,
                        source_url: None,
                        metadata: Map::new(),
                    };
                    self.graph.create_document(self.actor, new).await.unwrap().0.id.0
                }
            });
        }
        ids
    }

    async fn object(&self) -> ObjectId {
        self.graph.create_object(self.actor, new("T", "", json!({}))).await.unwrap().id
    }

    async fn page(&self, page: Page) -> (Vec<Uuid>, Option<Cursor>) {
        let project = self.actor.project;
        match self.list {
            List::Objects => {
                let filter = ObjectFilter { types: vec!["T".to_owned()], ..ObjectFilter::default() };
                let found = self.graph.list_objects(project, filter, page).await.unwrap();
                (found.items.iter().map(|one| one.id.0).collect(), found.next)
            }
            List::Relationships => {
                let filter = RelationshipFilter { from: Some(self.hub), ..RelationshipFilter::default() };
                let found = self.graph.list_relationships(project, filter, page).await.unwrap();
                (found.items.iter().map(|one| one.id.0).collect(), found.next)
            }
            List::Documents => {
                let found = self.graph.list_documents(project, page).await.unwrap();
                (found.items.iter().map(|one| one.id.0).collect(), found.next)
            }
        }
    }
}

async fn check(graph: &Graph, story: Story) -> Result<(), TestCaseError> {
    let actor = project(graph, &format!("p{}", Uuid::now_v7().simple()), false).await;
    let hub = graph.create_object(actor, new("Hub", "", json!({}))).await.unwrap().id;
    let reader = Reader { graph: graph.clone(), actor, list: story.list, hub };
    let mut first = BTreeSet::new();
    for count in story.before {
        first.extend(reader.add(count).await);
        graph.clock().advance(std::time::Duration::from_micros(1));
    }
    let mut all = first.clone();
    let mut seen = Vec::new();
    let mut between = story.between.into_iter();
    let mut after = None;
    loop {
        let (ids, next) = reader.page(Page { limit: story.limit, after }).await;
        prop_assert!(ids.len() <= story.limit);
        seen.extend(ids);
        let Some(next) = next else { break };
        // A client sends the encoded cursor.
        after = Some(next.encode().parse().unwrap());
        all.extend(reader.add(between.next().unwrap_or(0)).await);
    }
    let ids: BTreeSet<Uuid> = seen.iter().copied().collect();
    prop_assert_eq!(ids.len(), seen.len(), "nothing twice");
    prop_assert!(first.is_subset(&ids) && ids.is_subset(&all));
    Ok(())
}

/// Runs the property test with a seed that is printed. `SEED` sets it.
fn run_cases(cases: u32, db: impl Future<Output = TestDb>) {
    let seed: u64 = match std::env::var("SEED") {
        Ok(seed) => seed.parse().expect("SEED is a number"),
        Err(_) => Uuid::now_v7().as_u64_pair().1,
    };
    println!("SEED={seed}");
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    let mut runner = TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &bytes));
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let db = runtime.block_on(db);
    let graph = Graph::new(db.db.clone(), fixed_clock(), None);
    runner.run(&story(), |story| runtime.block_on(check(&graph, story))).unwrap();
}

#[test]
fn pages_visit_every_row_once_on_sqlite() {
    run_cases(1_000, TestDb::sqlite());
}

#[test]
fn pages_visit_every_row_once_on_postgres() {
    run_cases(60, TestDb::postgres());
}

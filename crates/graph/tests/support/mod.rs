//! What the graph's suites share.
#![allow(dead_code, unused_imports, reason = "each suite uses a part of it")]

mod letter_embedder;

use emergent_domain::{
    author::Author,
    cursor::{Page, ResultPage},
    document::NewDocument,
    ids::{ChunkId, DocumentId, ObjectId, ProjectId, RunId, TokenId, ToolCallId},
    merge::Source,
    object::NewObject,
    relationship::{NewRelationship, Relationship},
};
use emergent_graph::{Actor, Error, Graph};
use emergent_store::{Engine, Param};
use emergent_testkit::{TestDb, fixed_clock};
use serde_json::{Map, Value};
use uuid::Uuid;

pub use letter_embedder::Letters;

/// A graph with a project to write in, and an author to write as.
pub struct World {
    pub graph: Graph,
    pub actor: Actor,
}

impl World {
    pub async fn new(db: &TestDb) -> Self {
        let graph = Graph::new(db.db.clone(), fixed_clock(), None);
        let actor = project(&graph, "test", false).await;
        Self { graph, actor }
    }

    pub fn project(&self) -> ProjectId {
        self.actor.project
    }

    pub async fn object(&self, new: NewObject) -> ObjectId {
        self.graph.create_object(self.actor, new).await.unwrap().id
    }

    pub async fn edge(&self, type_: &str, from: ObjectId, to: ObjectId) -> Relationship {
        self.graph.create_relationship(self.actor, edge(type_, from, to)).await.unwrap().0
    }

    /// The other ends of an object's living edges.
    pub async fn neighbours(&self, id: ObjectId) -> Vec<ObjectId> {
        let edges = self
            .graph
            .object_edges(self.project(), id, Default::default(), Vec::new(), Page::first(100))
            .await
            .unwrap();
        let mut ids: Vec<ObjectId> =
            edges.items.iter().map(|edge| if edge.from == id { edge.to } else { edge.from }).collect();
        ids.sort();
        ids
    }

    pub async fn change_kinds(&self) -> Vec<String> {
        change_kinds(&self.graph, self.project()).await
    }
}

pub async fn project(graph: &Graph, name: &str, strict: bool) -> Actor {
    let project = graph.create_project(name, strict).await.unwrap().id;
    Actor { project, author: Author::Token { id: TokenId::new() } }
}

/// The same project, written to by a run.
pub fn run_in(world: &World) -> (RunId, Actor) {
    let run_id = RunId::new();
    let author = Author::Run { run_id, tool_call_id: Some(ToolCallId::new()) };
    (run_id, Actor { author, ..world.actor })
}

/// A new document, and its first chunk.
pub async fn document(world: &World, title: &str, content: &str) -> (DocumentId, ChunkId) {
    let new = NewDocument {
        title: title.to_owned(),
        content: content.as_bytes().to_vec(),
        mime_type: Some("text/plain".to_owned()),
        source_url: None,
        metadata: Map::new(),
    };
    let (document, _) = world.graph.create_document(world.actor, new).await.unwrap();
    let chunks = world.graph.document_chunks(world.project(), document.id, Page::first(1)).await.unwrap();
    (document.id, chunks.items[0].id)
}

/// The passages that are noted of something, newest first.
pub async fn said_in(world: &World, id: Uuid) -> Vec<Source> {
    world.graph.list_sources(world.project(), vec![id]).await.unwrap().remove(&id).unwrap_or_default()
}

pub fn map(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(map) => map,
        other => panic!("{other} is not an object"),
    }
}

pub fn new(type_: &str, key: &str, properties: Value) -> NewObject {
    let key = (!key.is_empty()).then(|| key.to_owned());
    NewObject { type_: type_.to_owned(), key, properties: map(properties), ..NewObject::default() }
}

pub fn edge(type_: &str, from: ObjectId, to: ObjectId) -> NewRelationship {
    NewRelationship { type_: type_.to_owned(), from, to, properties: Map::new(), weight: None }
}

/// The kinds of all changes of a project, in the order they were written.
pub async fn change_kinds(graph: &Graph, project: ProjectId) -> Vec<String> {
    graph
        .db()
        .read(move |tx| {
            tx.query(
                "SELECT kind FROM graph_events WHERE project_id = $1 ORDER BY seq",
                &[project.into()],
                |row| row.get(0),
            )
        })
        .await
        .unwrap_or_else(|error: emergent_store::Error| panic!("{error}"))
}

/// The objects that have a row in the full-text index; panics on a row that belongs to none.
pub async fn indexed(graph: &Graph, project: ProjectId) -> Vec<ObjectId> {
    let no = graph.get_project(project).await.unwrap().no;
    graph
        .db()
        .read(move |tx| {
            let numbers: Vec<i64> = match tx.engine() {
                Engine::Sqlite => {
                    let range = emergent_store::row_numbers::range(no);
                    tx.query(
                        "SELECT rowid FROM graph_objects_fts WHERE rowid >= $1 AND rowid < $2",
                        &[range.start.into(), range.end.into()],
                        |row| row.get(0),
                    )?
                }
                Engine::Postgres => tx.query(
                    "SELECT no FROM graph_objects_fts WHERE project_id = $1",
                    &[project.into()],
                    |row| row.get(0),
                )?,
            };
            let mut ids = Vec::new();
            for no in numbers {
                let id =
                    tx.query_opt("SELECT id FROM graph_objects WHERE no = $1", &[Param::from(no)], |row| {
                        row.get(0)
                    })?;
                ids.push(id.expect("an indexed row is an object's"));
            }
            ids.sort();
            Ok(ids)
        })
        .await
        .unwrap_or_else(|error: emergent_store::Error| panic!("{error}"))
}

/// The problem of an `Invalid`, as `field: reason`.
pub fn problem<T: std::fmt::Debug>(outcome: Result<T, Error>) -> String {
    match outcome {
        Err(Error::Invalid(invalid)) => {
            format!("{}: {}", invalid.problems[0].field, invalid.problems[0].reason)
        }
        other => panic!("expected something invalid, got {other:?}"),
    }
}

/// Every item of a list that comes in pages of two.
pub async fn all_pages<T>(mut get: impl AsyncFnMut(Page) -> Result<ResultPage<T>, Error>) -> Vec<T> {
    let mut page = Page::first(2);
    let mut items = Vec::new();
    loop {
        let found = get(page).await.unwrap();
        assert!(found.items.len() <= 2);
        items.extend(found.items);
        match found.next {
            Some(cursor) => page.after = Some(cursor),
            None => return items,
        }
    }
}

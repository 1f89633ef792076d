//! Helpers that the test suites of the graph share.
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
    token::Scope,
};
use emergent_graph::{Actor, Error, Graph};
use emergent_store::{Engine, Param};
use emergent_testkit::{TestDb, fixed_clock};
use serde_json::{Map, Value};
use uuid::Uuid;

pub use letter_embedder::Letters;

/// A graph with a project, and an actor that writes to it.
pub struct Harness {
    pub graph: Graph,
    pub actor: Actor,
}

impl Harness {
    pub async fn new(db: &TestDb) -> Self {
        let graph = Graph::new(db.db.clone(), fixed_clock(), None);
        let actor = project(&graph, "test", false).await;
        Self { graph, actor }
    }

    /// Writes with a token that may read what it changes.
    pub async fn reader(db: &TestDb) -> Self {
        let harness = Self::new(db).await;
        let scopes = [Scope::GraphRead, Scope::GraphWrite].into();
        let (token, _) =
            harness.graph.create_token("reader", scopes, Some(harness.project()), None).await.unwrap();
        Self { actor: Actor { author: Author::Token { id: token.id }, ..harness.actor }, ..harness }
    }

    /// Writes as the server itself, which may link tasks to workflows.
    pub fn into_system(mut self) -> Self {
        self.actor.author = Author::System;
        self
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

    /// Returns the other ends of an object's live edges.
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

/// Returns an actor that writes to the same project as a run.
pub fn run_in(harness: &Harness) -> (RunId, Actor) {
    let run_id = RunId::new();
    let author = Author::Run { run_id, tool_call_id: Some(ToolCallId::new()) };
    (run_id, Actor { author, ..harness.actor })
}

/// Creates a document. Returns its id and that of its first chunk.
pub async fn document(harness: &Harness, title: &str, content: &str) -> (DocumentId, ChunkId) {
    let new = NewDocument {
        title: title.to_owned(),
        content: content.as_bytes().to_vec(),
        mime_type: Some("text/plain".to_owned()),
        source_url: None,
        metadata: Map::new(),
    };
    let (document, _) = harness.graph.create_document(harness.actor, new).await.unwrap();
    let chunks = harness.graph.document_chunks(harness.project(), document.id, Page::first(1)).await.unwrap();
    (document.id, chunks.items[0].id)
}

/// Returns the recorded sources of an entity, newest first.
pub async fn said_in(harness: &Harness, id: Uuid) -> Vec<Source> {
    harness.graph.list_sources(harness.project(), vec![id]).await.unwrap().remove(&id).unwrap_or_default()
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

/// Returns the kinds of all changes of a project, in the order of their writing.
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

/// Returns the objects in the full-text index. Panics if a row belongs to no object.
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
                ids.push(id.expect("an indexed row belongs to an object"));
            }
            ids.sort();
            Ok(ids)
        })
        .await
        .unwrap_or_else(|error: emergent_store::Error| panic!("{error}"))
}

/// Formats the first problem of an `Invalid` error as `field: reason`.
pub fn problem<T: std::fmt::Debug>(outcome: Result<T, Error>) -> String {
    match outcome {
        Err(Error::Invalid(invalid)) => {
            format!("{}: {}", invalid.problems[0].field, invalid.problems[0].reason)
        }
        other => panic!("expected something invalid, got {other:?}"),
    }
}

/// Returns all items of a list, read in pages of two.
pub async fn all_pages<T>(mut get: impl AsyncFnMut(Page) -> Result<ResultPage<T>, Error>) -> Vec<T> {
    let mut page = Page::first(2);
    let mut items = Vec::new();
    loop {
        let result = get(page).await.unwrap();
        assert!(result.items.len() <= 2);
        items.extend(result.items);
        match result.next {
            Some(cursor) => page.after = Some(cursor),
            None => return items,
        }
    }
}

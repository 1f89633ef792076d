//! Exports a project as NDJSON: the objects in the order of their creation, then the relationships.

use std::collections::VecDeque;

use bytes::Bytes;
use emergent_domain::{
    ids::{ObjectId, ProjectId, RelationshipId},
    json::JsonObject,
    object::Object,
    time::Timestamp,
};
use emergent_store::transfer::{self, ExportCursor, ExportPage, ExportedEdge, FIRST_EXPORT_LIMIT};
use futures_util::{Stream, stream};
use serde::Serialize;

use crate::{Graph, error::Result};

impl Graph {
    /// Streams the live objects and relationships of a project as NDJSON, several lines at a time.
    /// Rows that are created after the start are left out, so that every exported relationship has
    /// its ends. The stream ends after an error.
    pub fn export(&self, project: ProjectId) -> impl Stream<Item = Result<Bytes>> + Send + use<> {
        let from = Exporter {
            graph: self.clone(),
            project,
            until: self.clock().now(),
            part: ExportStage::Objects(None),
            limit: FIRST_EXPORT_LIMIT,
            ready: VecDeque::new(),
        };
        stream::unfold(from, |mut exporter| async move {
            let next = exporter.next().await?;
            Some((next, exporter))
        })
    }
}

struct Exporter {
    graph: Graph,
    project: ProjectId,
    until: Timestamp,
    part: ExportStage,
    /// How many rows to ask for next.
    limit: usize,
    ready: VecDeque<Bytes>,
}

/// The page to read next.
#[derive(Clone, Copy)]
enum ExportStage {
    Objects(Option<ExportCursor>),
    Edges(Option<ExportCursor>),
    Done,
}

impl Exporter {
    async fn next(&mut self) -> Option<Result<Bytes>> {
        loop {
            if let Some(bytes) = self.ready.pop_front() {
                return Some(Ok(bytes));
            }
            let read = match self.part {
                ExportStage::Objects(after) => self.objects(after).await,
                ExportStage::Edges(after) => self.edges(after).await,
                ExportStage::Done => return None,
            };
            if let Err(error) = read {
                self.part = ExportStage::Done;
                return Some(Err(error));
            }
        }
    }

    async fn objects(&mut self, after: Option<ExportCursor>) -> Result<()> {
        let (project, until, limit) = (self.project, self.until, self.limit);
        let ExportPage { rows, has_more, next_limit } =
            self.graph.db().read(move |tx| transfer::objects_after(tx, project, after, until, limit)).await?;
        self.limit = next_limit;
        self.part = match rows.last() {
            Some(last) if has_more => ExportStage::Objects(Some((last.created_at, last.id.0))),
            _ => ExportStage::Edges(None),
        };
        self.push(rows.iter().map(ObjectOut::from));
        Ok(())
    }

    async fn edges(&mut self, after: Option<ExportCursor>) -> Result<()> {
        let (project, until, limit) = (self.project, self.until, self.limit);
        let ExportPage { rows, has_more, next_limit } =
            self.graph.db().read(move |tx| transfer::edges_after(tx, project, after, until, limit)).await?;
        self.limit = next_limit;
        self.part = match rows.last() {
            Some(ExportedEdge { relationship, .. }) if has_more => {
                ExportStage::Edges(Some((relationship.created_at, relationship.id.0)))
            }
            _ => ExportStage::Done,
        };
        self.push(rows.iter().map(EdgeOut::from));
        Ok(())
    }

    fn push(&mut self, rows: impl Iterator<Item = impl Serialize>) {
        let mut text = Vec::new();
        for row in rows {
            // Rows consist of values that JSON can represent, and writing to memory cannot fail.
            if serde_json::to_writer(&mut text, &row).is_ok() {
                text.push(b'\n');
            }
        }
        if !text.is_empty() {
            self.ready.push_back(text.into());
        }
    }
}

/// A line of an export file. The names are those of the file format, which `line` reads.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ObjectOut<'a> {
    kind: &'static str,
    id: ObjectId,
    #[serde(rename = "type")]
    type_: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<&'a str>,
    status: Option<&'a str>,
    labels: &'a [String],
    properties: &'a JsonObject,
    version: i64,
    created_at: Timestamp,
    updated_at: Timestamp,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
}

impl<'a> From<&'a Object> for ObjectOut<'a> {
    fn from(object: &'a Object) -> Self {
        Self {
            kind: "object",
            id: object.id,
            type_: &object.type_,
            key: object.key.as_deref(),
            status: object.status.as_deref(),
            labels: &object.labels,
            properties: &object.properties,
            version: object.version,
            created_at: object.created_at,
            updated_at: object.updated_at,
            reason: object.reason.as_deref(),
        }
    }
}

/// A line of an export file, as [`ObjectOut`].
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct EdgeOut<'a> {
    kind: &'static str,
    id: RelationshipId,
    #[serde(rename = "type")]
    type_: &'a str,
    from: EndOut<'a>,
    to: EndOut<'a>,
    properties: &'a JsonObject,
    weight: Option<f64>,
    version: i64,
    created_at: Timestamp,
    updated_at: Timestamp,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
}

/// Refers to an object by key if it has one, so that the file can be imported into a project whose
/// objects have other ids.
#[derive(Serialize)]
struct EndOut<'a> {
    #[serde(rename = "type")]
    type_: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<&'a str>,
    id: ObjectId,
}

impl<'a> From<&'a ExportedEdge> for EdgeOut<'a> {
    fn from(edge: &'a ExportedEdge) -> Self {
        let ExportedEdge { relationship, from, to } = edge;
        Self {
            kind: "relationship",
            id: relationship.id,
            type_: &relationship.type_,
            from: EndOut { type_: &from.0, key: from.1.as_deref(), id: relationship.from },
            to: EndOut { type_: &to.0, key: to.1.as_deref(), id: relationship.to },
            properties: &relationship.properties,
            weight: relationship.weight,
            version: relationship.version,
            created_at: relationship.created_at,
            updated_at: relationship.updated_at,
            reason: relationship.reason.as_deref(),
        }
    }
}

//! Exports a project as NDJSON: the objects in the order of their creation, then the relationships.

use bytes::Bytes;
use emergent_domain::{
    ids::{ObjectId, ProjectId, RelationshipId},
    json::JsonObject,
    object::Object,
    reserved_keys::has_reserved_key,
    time::Timestamp,
};
use emergent_store::{
    Tx,
    transfer::{self, ExportCursor, ExportedEdge, FIRST_EXPORT_LIMIT},
};
use futures_util::{Stream, stream};
use serde::{Serialize, Serializer};

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
            ready: None,
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
    ready: Option<Bytes>,
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
            if let Some(bytes) = self.ready.take() {
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
        let read = move |tx: &mut Tx<'_>| -> emergent_store::Result<_> {
            let page = transfer::objects_after(tx, project, after, until, limit)?;
            let next = page.rows.last().filter(|_| page.has_more).map(|last| (last.created_at, last.id.0));
            Ok(ExportText::new(page.next_limit, next, page.rows.iter().map(ObjectOut::from)))
        };
        let page = self.graph.db().read(read).await?;
        self.part = match page.next {
            Some(next) => ExportStage::Objects(Some(next)),
            None => ExportStage::Edges(None),
        };
        self.take(page);
        Ok(())
    }

    async fn edges(&mut self, after: Option<ExportCursor>) -> Result<()> {
        let (project, until, limit) = (self.project, self.until, self.limit);
        let read = move |tx: &mut Tx<'_>| -> emergent_store::Result<_> {
            let page = transfer::edges_after(tx, project, after, until, limit)?;
            let last = page.rows.last().filter(|_| page.has_more).map(|last| &last.relationship);
            let next = last.map(|last| (last.created_at, last.id.0));
            Ok(ExportText::new(page.next_limit, next, page.rows.iter().map(EdgeOut::from)))
        };
        let page = self.graph.db().read(read).await?;
        self.part = match page.next {
            Some(next) => ExportStage::Edges(Some(next)),
            None => ExportStage::Done,
        };
        self.take(page);
        Ok(())
    }

    fn take(&mut self, page: ExportText) {
        self.limit = page.next_limit;
        if !page.text.is_empty() {
            self.ready = Some(page.text);
        }
    }
}

/// A page of an export as text. It is made where the rows are read: on a thread that may take long, while the project's
/// share of the connections is used. On the threads of the runtime, a few exports would keep every other task waiting.
struct ExportText {
    text: Bytes,
    next_limit: usize,
    /// Where the next page of the same kind starts; `None` after the last one.
    next: Option<ExportCursor>,
}

impl ExportText {
    fn new(
        next_limit: usize,
        next: Option<ExportCursor>,
        rows: impl Iterator<Item = impl Serialize>,
    ) -> Self {
        let mut text = Vec::new();
        for row in rows {
            // Rows consist of values that JSON can represent, and writing to memory cannot fail.
            if serde_json::to_writer(&mut text, &row).is_ok() {
                text.push(b'\n');
            }
        }
        Self { text: text.into(), next_limit, next }
    }
}

/// Writes properties as an import takes them: those that an earlier version stored can have reserved keys, which get
/// another name.
fn importable<S: Serializer>(properties: &JsonObject, serializer: S) -> Result<S::Ok, S::Error> {
    match has_reserved_key(properties.as_str().as_bytes()) {
        true => JsonObject::from_map(&properties.to_map()).serialize(serializer),
        false => properties.serialize(serializer),
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
    #[serde(serialize_with = "importable")]
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
    #[serde(serialize_with = "importable")]
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

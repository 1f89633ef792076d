//! Loads the content of an event: for the conditions of a trigger, and for the input of the agent.

use std::collections::BTreeSet;

use emergent_domain::{
    cursor::{Cursor, Page},
    document::{Chunk, Document},
    ids::{DocumentId, ObjectId, ProjectId, RelationshipId},
    json::JsonObject,
    object::Object,
    relationship::Relationship,
    stored_json,
    trigger::{CoalesceBy, EventKind, EventTrigger, Firing, FiringCause, decide::Content},
};
use emergent_store::{Tx, documents, objects, relationships, search};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::{Result, start_options::StartOptions};

/// Larger properties are left out; the agent can read them with a tool.
const MAX_PROPERTIES_BYTES: usize = 64 << 10;
/// Chunks of a document are included up to this many tokens; the agent can read the rest with a tool.
const MAX_CHUNK_TOKENS: i64 = 24_000;
const CHUNK_PAGE_SIZE: usize = 50;
/// The maximum number of ids of other objects that share the run.
const MAX_LISTED_OBJECTS: usize = 100;

/// How many bytes of content one transaction reads for the conditions of triggers before it starts no other run, and how
/// many it reads for one run. The last one may exceed it. What is left is for the next transaction: one that takes too
/// long is rolled back, and would be repeated for ever.
pub(super) const MAX_CONTENT_BYTES: usize = 8 << 20;

/// The content that conditions refer to.
pub(super) struct LoadedContent {
    pub content: Content,
    /// The bytes of its properties.
    pub bytes: usize,
}

impl LoadedContent {
    fn new(labels: Vec<String>, properties: &JsonObject) -> Self {
        Self {
            content: Content { labels, properties: properties.to_map() },
            bytes: properties.as_str().len(),
        }
    }
}

/// Returns the content that conditions refer to, at a version; `None` if that version no longer exists.
pub(super) fn content_at_version(
    tx: &mut Tx<'_>,
    project: ProjectId,
    event: EventKind,
    entity: Uuid,
    version: i64,
) -> Result<Option<LoadedContent>> {
    Ok(match event {
        EventKind::EntityCreated | EventKind::EntityUpdated => {
            objects::get_version(tx, project, ObjectId(entity), version)?
                .map(|object| LoadedContent::new(object.labels, &object.properties))
        }
        EventKind::RelationshipCreated => {
            relationships::get_version(tx, project, RelationshipId(entity), version)?
                .map(|edge| LoadedContent::new(Vec::new(), &edge.properties))
        }
        EventKind::DocumentIngested => documents::get(tx, project, DocumentId(entity))?
            .map(|document| LoadedContent::new(Vec::new(), &document.metadata)),
    })
}

/// Returns the input of the agent; `None` if the entity of the event was deleted since.
pub(super) fn start_options(
    tx: &mut Tx<'_>,
    trigger: &EventTrigger,
    firing: &Firing,
    group: &[Firing],
) -> Result<Option<StartOptions>> {
    let FiringCause::Event { event, entity, entity_type, version, .. } = &firing.fired else {
        return Ok(None);
    };
    let project = firing.project;
    let description = match event {
        EventKind::EntityCreated | EventKind::EntityUpdated => {
            // The object has to exist now, but it is shown at the version of the event.
            let id = ObjectId(*entity);
            let object = match search::object_no(tx, project, id)? {
                Some(_) => objects::get_version(tx, project, id, *version)?,
                None => None,
            };
            object.map(|object| {
                let verb = if *event == EventKind::EntityCreated { "was created" } else { "was changed" };
                let name = object.key.clone().unwrap_or_else(|| object.id.to_string());
                (format!("The {entity_type} `{name}` {verb}."), "object", object_view(&object))
            })
        }
        EventKind::RelationshipCreated => {
            let id = RelationshipId(*entity);
            let edge = match relationships::is_live(tx, project, id)? {
                true => relationships::get_version(tx, project, id, *version)?,
                false => None,
            };
            edge.map(|edge| {
                let text = format!(
                    "A relationship `{entity_type}` was created, from `{}` to `{}`.",
                    edge.from, edge.to
                );
                (text, "relationship", relationship_view(&edge))
            })
        }
        EventKind::DocumentIngested => match documents::get(tx, project, DocumentId(*entity))? {
            Some(document) => {
                let chunks = first_chunks(tx, &document)?;
                let text = format!("The document `{}` was ingested.", document.title);
                Some((text, "document", document_view(&document, &chunks)))
            }
            None => None,
        },
    };
    Ok(description.map(|(text, name, view)| {
        let mut context = json!({ "event": event.as_str(), "version": version });
        context[name] = view;
        if let Some(cause) = firing.cause {
            context["causedByRun"] = json!(cause);
        }
        if group.len() > 1 {
            context["coalesced"] = json!(group.len());
        }
        if trigger.config.coalesce_by() == CoalesceBy::Agent {
            let other_entities: BTreeSet<Uuid> =
                group.iter().filter_map(entity_id).filter(|id| id != entity).collect();
            if !other_entities.is_empty() {
                context["more"] = json!(other_entities.iter().take(MAX_LISTED_OBJECTS).collect::<Vec<_>>());
            }
        }
        let input = trigger.config.input.clone().unwrap_or(text);
        StartOptions { input, context: Some(context), ..StartOptions::default() }
    }))
}

fn entity_id(firing: &Firing) -> Option<Uuid> {
    match firing.fired {
        FiringCause::Event { entity, .. } => Some(entity),
        FiringCause::Schedule { .. } => None,
    }
}

/// Returns the first chunks of a document, up to the token limit.
fn first_chunks(tx: &mut Tx<'_>, document: &Document) -> Result<Vec<Chunk>> {
    let (mut chunks, mut tokens) = (Vec::<Chunk>::new(), 0);
    let mut page = Page::first(CHUNK_PAGE_SIZE);
    loop {
        let chunk_page = documents::list_chunks(tx, document.id, page)?;
        for chunk in chunk_page.items {
            tokens += chunk.tokens;
            if tokens > MAX_CHUNK_TOKENS && !chunks.is_empty() {
                return Ok(chunks);
            }
            chunks.push(chunk);
        }
        match chunk_page.next {
            Some(Cursor { created_at, id }) => page.after = Some(Cursor { created_at, id }),
            None => return Ok(chunks),
        }
    }
}

fn object_view(object: &Object) -> Value {
    let mut view = json!({
        "id": object.id, "type": object.type_, "key": object.key, "status": object.status,
        "labels": object.labels,
    });
    add_properties(&mut view, object.properties.as_str());
    view
}

fn relationship_view(edge: &Relationship) -> Value {
    let mut view = json!({
        "id": edge.id, "type": edge.type_, "fromId": edge.from, "toId": edge.to, "weight": edge.weight,
    });
    add_properties(&mut view, edge.properties.as_str());
    view
}

fn add_properties(view: &mut Value, text: &str) {
    if text.len() > MAX_PROPERTIES_BYTES {
        view["propertiesLeftOut"] = json!(format!("{} bytes: read them with a tool", text.len()));
    } else {
        view["properties"] = stored_json::from_str(text).unwrap_or_default();
    }
}

fn document_view(document: &Document, chunks: &[Chunk]) -> Value {
    let chunk_views: Vec<Value> = chunks
        .iter()
        .map(|chunk| json!({ "id": chunk.id, "index": chunk.index, "heading": chunk.heading, "text": chunk.text }))
        .collect();
    let mut view = json!({
        "id": document.id, "title": document.title, "mimeType": document.mime_type,
        "sourceUrl": document.source_url, "metadata": document.metadata,
        "chunkCount": document.chunk_count, "chunks": chunk_views,
    });
    if let Some(last) = chunks.last().filter(|last| last.index + 1 < document.chunk_count) {
        view["chunksGoOnFrom"] = json!(last.index + 1);
    }
    view
}

//! `entities_get` and `entities_history`.

use std::sync::Arc;

use emergent_domain::{
    cursor::Page,
    ids::{ObjectId, ProjectId},
    object::Object,
};
use emergent_graph::{
    Error,
    sources::{MAX_SOURCES, SourcesById},
};
use emergent_store::{Tx, objects, sources};
use serde::Deserialize;
use serde_json::{Value, json};

use super::super::{
    define::{read_tool, refuse},
    reference::ObjectRef,
    schema, source,
    view::{FieldSelection, page_json},
};
use crate::{Tool, ToolContext, ToolError};

const MAX_IDS: usize = 50;

pub(super) fn tools() -> Vec<Arc<dyn Tool>> {
    let mut get_input = schema::object(
        &[],
        schema::merge_properties(
            json!({
                "id": schema::object_ref("The entity to read"),
                "ids": schema::object_refs("Several entities to read, instead of one", 1, MAX_IDS),
            }),
            &[schema::object_fields()],
        ),
    );
    get_input["examples"] = json!([{ "id": "Task/login" }]);
    vec![
        read_tool(
            "entities_get",
            "Reads one entity by `id`, or up to 50 by `ids`: its type, key, status, labels, properties and version. \
             Use it when you know the id or `Type/key`; to find entities use entities_query or entities_search. \
             Returns `object`; for `ids`, `objects` in your order and under `missing` those that are not there. What \
             was found in documents has `sources`: the passages that say it.",
            get_input,
            get,
        ),
        read_tool(
            "entities_history",
            "Shows every version of an entity, newest first, also of a deleted one: what it said, when, and who wrote \
             it (`author`); of a merge also the `reason`. Use it to see what changed or to find the values from \
             before. Returns `versions`, and `sources` when it was found in documents.",
            schema::object(
                &["id"],
                schema::merge_properties(
                    json!({ "id": schema::object_ref("The entity") }),
                    &[schema::paging(20), schema::object_fields()],
                ),
            ),
            history,
        ),
    ]
}

#[derive(Deserialize)]
struct GetInput {
    id: Option<ObjectRef>,
    ids: Option<Vec<ObjectRef>>,
    #[serde(default)]
    fields: FieldSelection,
}

async fn get(context: ToolContext, input: GetInput) -> Result<Value, ToolError> {
    let (project, fields) = (context.project, input.fields);
    match (input.id, input.ids) {
        (Some(id), None) => {
            let shows = fields.includes("sources");
            let read = move |tx: &mut Tx<'_>| {
                let found = find_object(tx, project, &id)?.ok_or_else(|| id.not_found())?;
                let sources = load_sources(tx, project, shows, std::slice::from_ref(&found))?;
                Ok::<_, Error>((found, sources))
            };
            let (found, sources) = context.graph.db().read(read).await?;
            Ok(json!({ "object": object_json(&fields, &found, &sources) }))
        }
        (None, Some(ids)) => {
            let shows = fields.includes("sources");
            let read = move |tx: &mut Tx<'_>| {
                let (mut found, mut missing) = (Vec::new(), Vec::new());
                for id in &ids {
                    match find_object(tx, project, id)? {
                        Some(object) => found.push(object),
                        None => missing.push(id.to_string()),
                    }
                }
                let sources = load_sources(tx, project, shows, &found)?;
                Ok::<_, Error>((found, missing, sources))
            };
            let (found, missing, sources) = context.graph.db().snapshot(read).await?;
            let objects: Vec<Value> =
                found.iter().map(|object| object_json(&fields, object, &sources)).collect();
            Ok(json!({ "objects": objects, "missing": missing }))
        }
        _ => Err(refuse("Give `id` for one entity, or `ids` for several: {\"id\": \"Task/login\"}")),
    }
}

fn find_object(tx: &mut Tx<'_>, project: ProjectId, id: &ObjectRef) -> Result<Option<Object>, Error> {
    match id.resolve(tx, project) {
        Ok(id) => Ok(objects::get(tx, project, id)?),
        Err(Error::NotFound { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

/// The passages of these, when they are to be shown.
fn load_sources(
    tx: &mut Tx<'_>,
    project: ProjectId,
    shown: bool,
    objects: &[Object],
) -> Result<SourcesById, Error> {
    let ids: Vec<_> = objects.iter().map(|object| object.id.0).collect();
    Ok(if shown { sources::list_for(tx, project, &ids, MAX_SOURCES)? } else { SourcesById::new() })
}

fn object_json(fields: &FieldSelection, object: &Object, sources: &SourcesById) -> Value {
    let mut view = fields.object_json(object);
    if let Some(sources) = sources.get(&object.id.0) {
        view["sources"] = source::sources_json(sources);
    }
    view
}

#[derive(Deserialize)]
struct HistoryInput {
    id: ObjectRef,
    limit: Option<i64>,
    cursor: Option<String>,
    #[serde(default)]
    fields: FieldSelection,
}

async fn history(context: ToolContext, input: HistoryInput) -> Result<Value, ToolError> {
    let wanted = Page::new(Some(input.limit.unwrap_or(20)), input.cursor.as_deref())
        .map_err(emergent_graph::Error::from)?;
    let (project, id) = (context.project, input.id.clone());
    let id: ObjectId = context.graph.db().read(move |tx| id.resolve_any(tx, project)).await?;
    let found = context.graph.object_history(project, id, wanted).await?;
    let author = |object: &Object| {
        let mut view = input.fields.object_json(object);
        // Who wrote it is what a history is asked for, besides what it said.
        view["author"] = json!(object.author);
        if let Some(reason) = &object.reason {
            view["reason"] = json!(reason);
        }
        view
    };
    let mut answer = page_json("versions", found.items.iter().map(author).collect(), found.next);
    if let Some(sources) = context.graph.list_sources(project, vec![id.0]).await?.get(&id.0) {
        answer["sources"] = source::sources_json(sources);
    }
    Ok(answer)
}

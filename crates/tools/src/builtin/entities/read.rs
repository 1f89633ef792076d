//! The tools `entities_get` and `entities_history`.

use std::sync::Arc;

use emergent_domain::{
    ids::{ObjectId, ProjectId},
    object::Object,
    time::Timestamp,
};
use emergent_graph::{
    Error,
    sources::{MAX_SOURCES, SourcesById},
};
use emergent_store::{Tx, objects, sources};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::super::{
    define::{read_tool, refuse},
    input::{DateTime, Paging},
    reference::{ObjectRef, check_found},
    source,
    view::{FieldSelection, page_json},
};
use crate::{Tool, ToolContext, ToolError};

const MAX_IDS: usize = 50;

pub(super) fn tools() -> Vec<Arc<dyn Tool>> {
    vec![
        read_tool(
            "entities_get",
            "Reads one entity by `id` or several by `ids`; to find entities use entities_query or entities_search. Returns \
             `object`, or for `ids` `objects` in your order and the `missing` ones. `sources` are the document chunks that \
             back it, newest first. `asOf` reads what was known at an earlier time.",
            get,
        ),
        read_tool(
            "entities_history",
            "Lists all versions of an entity, also of a deleted one, newest first, with `author`, and `reason` of a merge. \
             Returns `versions`, and `sources` if documents back it.",
            history,
        ),
    ]
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(example = json!({ "id": "Task/login" }))]
struct GetInput {
    /// Id or `Type/key`.
    id: Option<ObjectRef>,
    /// Several, instead of `id`.
    #[schemars(length(min = 1, max = MAX_IDS))]
    ids: Option<Vec<ObjectRef>>,
    /// As it was at this time, with the sources known then; only with `id`.
    #[serde(rename = "asOf")]
    #[schemars(with = "Option<DateTime>")]
    as_of: Option<Timestamp>,
    #[serde(default)]
    fields: FieldSelection,
}

async fn get(context: ToolContext, input: GetInput) -> Result<Value, ToolError> {
    let (project, fields) = (context.project, input.fields);
    if let Some(as_of) = input.as_of {
        let (Some(id), None) = (input.id, input.ids) else {
            return Err(refuse("`asOf` needs `id`, not `ids`: read one entity at a time"));
        };
        return get_at(&context, id, as_of, &fields).await;
    }
    match (input.id, input.ids) {
        (Some(id), None) => {
            let shows_sources = fields.includes("sources");
            let named = id.clone();
            let read = move |tx: &mut Tx<'_>| {
                let object = find_object(tx, project, &id)?.ok_or_else(|| id.not_found())?;
                let sources = load_sources(tx, project, shows_sources, std::slice::from_ref(&object))?;
                Ok::<_, Error>((object, sources))
            };
            let (object, sources) = context.graph.db().read(read).await?;
            check_found(&context, [(&named, object.id)]).await?;
            Ok(json!({ "object": object_json(&fields, &object, &sources) }))
        }
        (None, Some(ids)) => {
            let shows_sources = fields.includes("sources");
            let read = move |tx: &mut Tx<'_>| {
                let (mut objects, mut missing, mut found) = (Vec::new(), Vec::new(), Vec::new());
                for id in &ids {
                    match find_object(tx, project, id)? {
                        Some(object) => {
                            found.push((id.clone(), object.id));
                            objects.push(object);
                        }
                        None => missing.push(id.to_string()),
                    }
                }
                let sources = load_sources(tx, project, shows_sources, &objects)?;
                Ok::<_, Error>((objects, missing, sources, found))
            };
            let (objects, missing, sources, found) = context.graph.db().snapshot(read).await?;
            check_found(&context, found.iter().map(|(reference, id)| (reference, *id))).await?;
            let objects: Vec<Value> =
                objects.iter().map(|object| object_json(&fields, object, &sources)).collect();
            Ok(json!({ "objects": objects, "missing": missing }))
        }
        _ => Err(refuse("Give `id` for one entity, or `ids` for several: {\"id\": \"Task/login\"}")),
    }
}

/// An object as it was at a time. A key names the object that had it then.
async fn get_at(
    context: &ToolContext,
    id: ObjectRef,
    as_of: Timestamp,
    fields: &FieldSelection,
) -> Result<Value, ToolError> {
    let (object, known) = context.graph.object_at_with_sources(context.project, id.0.clone(), as_of).await?;
    check_found(context, [(&id, object.id)]).await?;
    let sources = if fields.includes("sources") && !known.is_empty() {
        SourcesById::from([(object.id.0, known)])
    } else {
        SourcesById::new()
    };
    Ok(json!({ "object": object_json(fields, &object, &sources) }))
}

/// The live object that a reference names; `None` if there is none.
fn find_object(tx: &mut Tx<'_>, project: ProjectId, id: &ObjectRef) -> Result<Option<Object>, Error> {
    match id.resolve(tx, project) {
        Ok(id) => Ok(objects::get(tx, project, id)?),
        Err(Error::NotFound { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

/// The sources of these objects, if the answer shows them.
fn load_sources(
    tx: &mut Tx<'_>,
    project: ProjectId,
    shows_sources: bool,
    objects: &[Object],
) -> Result<SourcesById, Error> {
    let ids: Vec<_> = objects.iter().map(|object| object.id.0).collect();
    Ok(if shows_sources { sources::list_for(tx, project, &ids, MAX_SOURCES)? } else { SourcesById::new() })
}

fn object_json(fields: &FieldSelection, object: &Object, sources: &SourcesById) -> Value {
    let mut view = fields.object_json(object);
    if let Some(sources) = sources.get(&object.id.0) {
        view["sources"] = source::sources_json(sources);
    }
    view
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct HistoryInput {
    /// Id or `Type/key`.
    id: ObjectRef,
    #[serde(flatten)]
    paging: Paging,
    #[serde(default)]
    fields: FieldSelection,
}

async fn history(context: ToolContext, input: HistoryInput) -> Result<Value, ToolError> {
    let page = input.paging.page().map_err(Error::from)?;
    let (project, named) = (context.project, input.id.clone());
    let id: ObjectId = context.graph.db().read(move |tx| named.resolve_any(tx, project)).await?;
    check_found(&context, [(&input.id, id)]).await?;
    let versions = context.graph.object_history(project, id, page).await?;
    let version_json = |object: &Object| {
        let mut view = input.fields.object_json(object);
        // The author is what a history is read for, so it is shown whatever `fields` says.
        view["author"] = json!(object.author);
        if let Some(reason) = &object.reason {
            view["reason"] = json!(reason);
        }
        view
    };
    let mut answer = page_json("versions", versions.items.iter().map(version_json).collect(), versions.next);
    if let Some(sources) = context.graph.list_sources(project, vec![id.0]).await?.get(&id.0) {
        answer["sources"] = source::sources_json(sources);
    }
    Ok(answer)
}

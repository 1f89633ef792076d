//! `entities_get` and `entities_history`.

use std::sync::Arc;

use emergent_domain::{
    cursor::Page,
    ids::{ObjectId, ProjectId},
    object::Object,
};
use emergent_graph::Error;
use emergent_store::{Tx, objects};
use serde::Deserialize;
use serde_json::{Value, json};

use super::super::{
    define::{reads, refused},
    reference::ObjectRef,
    schema,
    view::{Fields, page},
};
use crate::{Tool, ToolContext, ToolError};

const MOST: usize = 50;

pub(super) fn all() -> Vec<Arc<dyn Tool>> {
    let mut get_input = schema::object(
        &[],
        schema::and(
            json!({
                "id": schema::object_ref("The entity to read"),
                "ids": schema::object_refs("Several entities to read, instead of one", 1, MOST),
            }),
            &[schema::fields()],
        ),
    );
    get_input["examples"] = json!([{ "id": "Task/login" }]);
    vec![
        reads(
            "entities_get",
            "Reads one entity by `id`, or up to 50 by `ids`: its type, key, status, labels, properties and version. \
             Use it when you know the id or `Type/key`; to find entities use entities_query or entities_search. \
             Returns `object`; for `ids`, `objects` in your order and under `missing` those that are not there.",
            get_input,
            get,
        ),
        reads(
            "entities_history",
            "Shows every version of an entity, newest first, also of a deleted one: what it said, when, and who wrote \
             it (`author`). Use it to see what changed or to find the values from before.",
            schema::object(
                &["id"],
                schema::and(
                    json!({ "id": schema::object_ref("The entity") }),
                    &[schema::paging(20), schema::fields()],
                ),
            ),
            history,
        ),
    ]
}

#[derive(Deserialize)]
struct Get {
    id: Option<ObjectRef>,
    ids: Option<Vec<ObjectRef>>,
    #[serde(default)]
    fields: Fields,
}

async fn get(context: ToolContext, input: Get) -> Result<Value, ToolError> {
    let (project, fields) = (context.project, input.fields);
    match (input.id, input.ids) {
        (Some(id), None) => {
            let read = move |tx: &mut Tx<'_>| find(tx, project, &id)?.ok_or_else(|| id.not_found());
            let found = context.graph.db().read(read).await?;
            Ok(json!({ "object": fields.object(&found) }))
        }
        (None, Some(ids)) => {
            let read = move |tx: &mut Tx<'_>| {
                let (mut found, mut missing) = (Vec::new(), Vec::new());
                for id in &ids {
                    match find(tx, project, id)? {
                        Some(object) => found.push(object),
                        None => missing.push(id.to_string()),
                    }
                }
                Ok::<_, Error>((found, missing))
            };
            let (found, missing) = context.graph.db().snapshot(read).await?;
            Ok(json!({ "objects": fields.objects(&found), "missing": missing }))
        }
        _ => Err(refused("Give `id` for one entity, or `ids` for several: {\"id\": \"Task/login\"}")),
    }
}

fn find(tx: &mut Tx<'_>, project: ProjectId, id: &ObjectRef) -> Result<Option<Object>, Error> {
    match id.resolve(tx, project) {
        Ok(id) => Ok(objects::get(tx, project, id)?),
        Err(Error::NotFound { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

#[derive(Deserialize)]
struct History {
    id: ObjectRef,
    limit: Option<i64>,
    cursor: Option<String>,
    #[serde(default)]
    fields: Fields,
}

async fn history(context: ToolContext, input: History) -> Result<Value, ToolError> {
    let wanted = Page::new(Some(input.limit.unwrap_or(20)), input.cursor.as_deref())
        .map_err(emergent_graph::Error::from)?;
    let (project, id) = (context.project, input.id.clone());
    let id: ObjectId = context.graph.db().read(move |tx| id.resolve_any(tx, project)).await?;
    let found = context.graph.object_history(project, id, wanted).await?;
    let author = |object: &Object| {
        let mut view = input.fields.object(object);
        // Who wrote it is what a history is asked for, besides what it said.
        view["author"] = json!(object.author);
        view
    };
    Ok(page("versions", found.items.iter().map(author).collect(), found.next))
}

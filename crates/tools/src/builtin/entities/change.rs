//! The tools `entities_update`, `entities_delete` and `entities_restore`.

use std::sync::Arc;

use emergent_domain::object::ObjectPatch;
use emergent_graph::{Error, objects};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::super::{
    define::{CallResult, deserialize_nullable, destructive_tool, graph_change, refuse, write_tool},
    reference::ObjectRef,
    view::FieldSelection,
};
use crate::{Tool, ToolContext};

pub(super) fn tools() -> Vec<Arc<dyn Tool>> {
    vec![
        write_tool(
            "entities_update",
            "Changes an entity: give only what changes. The change is a new version; entities_history shows the old ones.",
            update,
        ),
        destructive_tool(
            "entities_delete",
            "Deletes an entity and its relationships; entities_restore brings them back.",
            delete,
        ),
        write_tool(
            "entities_restore",
            "Restores a deleted entity and the relationships deleted with it. `Type/key` names the one deleted last.",
            restore,
        ),
    ]
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(example = json!({ "id": "Task/login", "status": "done", "properties": { "result": "works" } }))]
struct UpdateInput {
    /// Id or `Type/key`.
    id: ObjectRef,
    /// New type of the entity.
    #[serde(rename = "type")]
    #[schemars(length(min = 1, max = 128))]
    type_: Option<String>,
    /// New key. Null removes it.
    #[serde(default, deserialize_with = "deserialize_nullable")]
    #[schemars(length(min = 1, max = 512), extend("nullable" = true))]
    key: Option<Option<String>>,
    /// New status. Null removes it.
    #[serde(default, deserialize_with = "deserialize_nullable")]
    #[schemars(length(min = 1, max = 128), extend("nullable" = true))]
    status: Option<Option<String>>,
    /// Replaces all labels.
    #[schemars(length(max = 64))]
    labels: Option<Vec<String>>,
    /// Properties to set. Null removes one; lists and inner objects are replaced as a whole.
    properties: Option<Map<String, Value>>,
    /// Fails if this is not its version.
    #[schemars(range(min = 1))]
    expected_version: Option<i64>,
    #[serde(default)]
    fields: FieldSelection,
}

async fn update(_: ToolContext, input: UpdateInput) -> CallResult {
    let UpdateInput { id, type_, key, status, labels, properties, expected_version, fields } = input;
    let patch = ObjectPatch { type_, key, status, labels, properties, expected_version };
    if (ObjectPatch { expected_version: None, ..patch.clone() }) == ObjectPatch::default() {
        return Err(refuse(
            "There is nothing to change: give `properties`, `status`, `labels`, `key` or `type`",
        ));
    }
    let patch = patch.check().map_err(Error::from)?;
    graph_change(move |tx, writer| {
        let id = id.resolve_for(tx, writer)?;
        Ok(json!({ "object": fields.object_json(&objects::update(tx, writer, id, &patch)?) }))
    })
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct DeleteInput {
    /// Id or `Type/key`.
    id: ObjectRef,
    /// Fails if this is not its version.
    #[schemars(range(min = 1))]
    expected_version: Option<i64>,
}

async fn delete(_: ToolContext, input: DeleteInput) -> CallResult {
    graph_change(move |tx, writer| {
        let id = input.id.resolve_for(tx, writer)?;
        let deleted = objects::delete(tx, writer, id, input.expected_version)?;
        Ok(json!({ "deleted": FieldSelection::only(["key", "version", "deletedAt"]).object_json(&deleted) }))
    })
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct RestoreInput {
    /// Id or `Type/key`.
    id: ObjectRef,
    #[serde(default)]
    fields: FieldSelection,
}

async fn restore(_: ToolContext, input: RestoreInput) -> CallResult {
    graph_change(move |tx, writer| {
        let id = input.id.resolve_any_for(tx, writer)?;
        Ok(json!({ "object": input.fields.object_json(&objects::restore(tx, writer, id)?) }))
    })
}

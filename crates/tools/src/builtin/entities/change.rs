//! `entities_update`, `entities_delete` and `entities_restore`.

use std::sync::Arc;

use emergent_domain::object::ObjectPatch;
use emergent_graph::{Error, objects};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::super::{
    define::{CallResult, deserialize_nullable, destructive_tool, graph_change, refuse, write_tool},
    reference::ObjectRef,
    schema,
    view::FieldSelection,
};
use crate::{Tool, ToolContext};

pub(super) fn tools() -> Vec<Arc<dyn Tool>> {
    let id = || schema::object_ref("The entity");
    let mut update_input = schema::object(
        &["id"],
        schema::merge_properties(
            json!({
                "id": id(),
                "type": schema::type_name("Another type for it."),
                "key": schema::text_or_null("Another key; null takes it away.", 512),
                "status": schema::text_or_null("Another status; null takes it away.", 128),
                "labels": schema::labels("Its labels from now on, in place of all it has."),
                "properties": schema::properties(
                    "Properties to set. Those you do not name stay; null deletes one; a list or an inner object is \
                     replaced as a whole.",
                ),
                "expectedVersion": schema::expected_version(),
            }),
            &[schema::object_fields()],
        ),
    );
    update_input["examples"] =
        json!([{ "id": "Task/login", "status": "done", "properties": { "result": "works" } }]);
    vec![
        write_tool(
            "entities_update",
            "Changes an entity: names only what changes, the rest stays. Every change is a new version, and the old \
             ones stay readable with entities_history. Returns the `object` as it is then; nothing is written when \
             nothing changes.",
            update_input,
            update,
        ),
        destructive_tool(
            "entities_delete",
            "Deletes an entity and all its relationships. entities_restore brings both back. Returns what was \
             `deleted`.",
            schema::object(&["id"], json!({ "id": id(), "expectedVersion": schema::expected_version() })),
            delete,
        ),
        write_tool(
            "entities_restore",
            "Brings a deleted entity back, with the relationships that went with it. By `Type/key`, the one deleted \
             last. Returns the `object`; one that was not deleted is returned as it is.",
            schema::object(
                &["id"],
                schema::merge_properties(json!({ "id": id() }), &[schema::object_fields()]),
            ),
            restore,
        ),
    ]
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct UpdateInput {
    id: ObjectRef,
    #[serde(rename = "type")]
    type_: Option<String>,
    #[serde(default, deserialize_with = "deserialize_nullable")]
    key: Option<Option<String>>,
    #[serde(default, deserialize_with = "deserialize_nullable")]
    status: Option<Option<String>>,
    labels: Option<Vec<String>>,
    properties: Option<Map<String, Value>>,
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
        let id = id.resolve(tx, writer.project.id)?;
        Ok(json!({ "object": fields.object_json(&objects::update(tx, writer, id, &patch)?) }))
    })
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct DeleteInput {
    id: ObjectRef,
    expected_version: Option<i64>,
}

async fn delete(_: ToolContext, input: DeleteInput) -> CallResult {
    graph_change(move |tx, writer| {
        let id = input.id.resolve(tx, writer.project.id)?;
        let gone = objects::delete(tx, writer, id, input.expected_version)?;
        Ok(json!({ "deleted": FieldSelection::only(["key", "version", "deletedAt"]).object_json(&gone) }))
    })
}

#[derive(Deserialize)]
struct RestoreInput {
    id: ObjectRef,
    #[serde(default)]
    fields: FieldSelection,
}

async fn restore(_: ToolContext, input: RestoreInput) -> CallResult {
    graph_change(move |tx, writer| {
        let id = input.id.resolve_any(tx, writer.project.id)?;
        Ok(json!({ "object": input.fields.object_json(&objects::restore(tx, writer, id)?) }))
    })
}

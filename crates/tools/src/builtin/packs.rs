//! The tools that list, create and assign template packs, which describe the types of a project.

use std::{collections::BTreeMap, sync::Arc};

use emergent_domain::{
    ids::ObjectId,
    pack::{EndTypes, RelationshipTypeSchema, TemplatePack},
};
use emergent_graph::{Error, StoredPack, packs};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{
    define::{CallResult, graph_change, read_tool, write_tool},
    input::Paging,
    view::{FieldSelection, page_json},
};
use crate::{Tool, ToolContext, ToolError};

pub(super) fn tools() -> Vec<Arc<dyn Tool>> {
    vec![
        read_tool(
            "schema_packs_list",
            "Lists the template packs of this project, newest first. A pack describes types, and is in effect while \
             `assigned`. Returns `packs`.",
            list,
        ),
        write_tool(
            "schema_pack_create",
            "Stores a template pack or a new version of one: JSON schemas of entity types, and what relationship types \
             connect. It has no effect until schema_pack_assign.",
            create,
        ),
        write_tool(
            "schema_pack_assign",
            "Puts a template pack into effect in place of its other versions: it then validates every write. \
             Existing entities stay.",
            assign,
        ),
    ]
}

fn pack_json(pack: &StoredPack, fields: &FieldSelection) -> Value {
    let names_json = |names: Vec<&String>| json!(names);
    fields.select(json!({
        "id": pack.id,
        "name": pack.pack.name,
        "version": pack.pack.version,
        "description": pack.pack.description,
        "assigned": pack.assigned,
        "builtin": pack.project.is_none(),
        "objectTypes": names_json(pack.pack.object_type_schemas.keys().collect()),
        "relationshipTypes": names_json(pack.pack.relationship_type_schemas.keys().collect()),
        "createdAt": pack.created_at,
    }))
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ListInput {
    #[serde(flatten)]
    paging: Paging,
    /// Return only these fields, such as name; default: all.
    #[serde(default)]
    fields: FieldSelection,
}

async fn list(context: ToolContext, input: ListInput) -> Result<Value, ToolError> {
    let page = input.paging.page().map_err(Error::from)?;
    let page_of_packs = context.graph.list_packs(context.project, page).await?;
    Ok(page_json(
        "packs",
        page_of_packs.items.iter().map(|pack| pack_json(pack, &input.fields)).collect(),
        page_of_packs.next,
    ))
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(example = json!({
    "name": "tickets",
    "version": "1.0.0",
    "objectTypeSchemas": { "Ticket": { "type": "object", "properties": { "title": { "type": "string" } } } },
    "relationshipTypeSchemas": { "blocks": { "from": "Ticket", "to": "Ticket" } },
}))]
struct CreateInput {
    /// Name of the pack.
    #[schemars(length(min = 1, max = 128))]
    name: String,
    /// Semantic version; every change needs a new one.
    #[schemars(length(min = 1, max = 128))]
    version: String,
    /// What it is for.
    #[schemars(length(min = 1, max = 4_000))]
    description: Option<String>,
    /// JSON schema of the properties, by entity type.
    #[serde(default)]
    #[schemars(with = "Map<String, Value>")]
    object_type_schemas: BTreeMap<String, Value>,
    /// What it connects, by relationship type.
    #[serde(default)]
    relationship_type_schemas: BTreeMap<String, RelationshipTypeInput>,
    /// How user interfaces show the types.
    ui_configs: Option<Map<String, Value>>,
    /// Prompts that find such entities in texts.
    extraction_prompts: Option<Map<String, Value>>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct RelationshipTypeInput {
    /// Entity type, list of types, or "*".
    #[schemars(with = "EndTypesSchema")]
    from: EndTypes,
    /// Entity type, list of types, or "*".
    #[schemars(with = "EndTypesSchema")]
    to: EndTypes,
    /// JSON schema of its properties.
    properties: Option<Map<String, Value>>,
    /// What it means.
    #[schemars(length(min = 1, max = 4_000))]
    description: Option<String>,
}

/// The schema of [`EndTypes`].
#[derive(JsonSchema)]
#[schemars(untagged)]
#[expect(dead_code, reason = "only its schema is used")]
enum EndTypesSchema {
    One(String),
    Several(Vec<String>),
}

impl From<CreateInput> for TemplatePack {
    fn from(input: CreateInput) -> Self {
        let relationship = |(name, input): (String, RelationshipTypeInput)| {
            let RelationshipTypeInput { from, to, properties, description } = input;
            (
                name,
                RelationshipTypeSchema { from, to, properties: properties.map(Value::Object), description },
            )
        };
        Self {
            name: input.name,
            version: input.version,
            description: input.description,
            object_type_schemas: input.object_type_schemas,
            relationship_type_schemas: input
                .relationship_type_schemas
                .into_iter()
                .map(relationship)
                .collect(),
            ui_configs: input.ui_configs.map(Value::Object),
            extraction_prompts: input.extraction_prompts.map(Value::Object),
        }
    }
}

async fn create(_: ToolContext, input: CreateInput) -> CallResult {
    let pack = TemplatePack::from(input);
    pack.check().map_err(Error::from)?;
    graph_change(move |tx, writer| {
        let created = packs::create(tx, writer.project.id, &pack, writer.now)?;
        Ok(json!({ "pack": pack_json(&created, &FieldSelection::default()) }))
    })
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(example = json!({ "id": "tickets@1.0.0" }))]
struct AssignInput {
    /// Id, `name@version`, or name for the newest version.
    #[schemars(length(min = 1, max = 300))]
    id: String,
}

async fn assign(_: ToolContext, input: AssignInput) -> CallResult {
    graph_change(move |tx, writer| {
        let project = writer.project.id;
        let not_found = || Error::NotFound { what: "template pack", id: input.id.clone() };
        let id = match input.id.parse() {
            Ok(id) => id,
            Err(_) => packs::find_named(tx, project, &input.id)?.ok_or_else(not_found)?.id,
        };
        // A newer version may have got the name since it was decided that the call may be made.
        writer.check_key(tx, &input.id, ObjectId(id.0))?;
        let pack = packs::assign_by(tx, writer, id)?;
        Ok(json!({ "pack": pack_json(&pack, &FieldSelection::default()) }))
    })
}

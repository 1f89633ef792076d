//! Template packs: what describes a project's types.

use std::sync::Arc;

use emergent_domain::{
    cursor::Page,
    ids::{PackId, ProjectId},
    pack::TemplatePack,
};
use emergent_graph::{Error, StoredPack, packs};
use emergent_store::{Tx, packs as rows};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    define::{CallResult, graph_change, read_tool, write_tool},
    schema,
    view::{FieldSelection, page_json},
};
use crate::{Tool, ToolContext, ToolError};

pub(super) fn tools() -> Vec<Arc<dyn Tool>> {
    let relationship = schema::object(
        &["from", "to"],
        json!({
            "from": { "description": "The entity type it starts from, a list of them, or \"*\" for any.", "examples": ["Task"] },
            "to": { "description": "The entity type it leads to, a list of them, or \"*\" for any.", "examples": ["Task"] },
            "properties": { "type": "object", "description": "A JSON schema of its properties." },
            "description": schema::text("What the relationship means.", 4_000),
        }),
    );
    let mut create_input = schema::object(
        &["name", "version"],
        json!({
            "name": schema::text("The pack's name.", 128),
            "version": schema::text("A semantic version, such as 1.0.0. A change is a new version.", 128),
            "description": schema::text("What the pack is for.", 4_000),
            "objectTypeSchemas": {
                "type": "object",
                "description": "For each entity type, a JSON schema of its properties.",
            },
            "relationshipTypeSchemas": {
                "type": "object",
                "description": "For each relationship type, what it joins.",
                "additionalProperties": relationship,
            },
            "uiConfigs": { "type": "object", "description": "Hints for showing the types." },
            "extractionPrompts": { "type": "object", "description": "Prompts for finding such entities in texts." },
        }),
    );
    create_input["examples"] = json!([{
        "name": "tickets",
        "version": "1.0.0",
        "objectTypeSchemas": {
            "Ticket": { "type": "object", "properties": { "title": { "type": "string" } }, "required": ["title"] },
        },
        "relationshipTypeSchemas": { "blocks": { "from": "Ticket", "to": "Ticket" } },
    }]);
    vec![
        read_tool(
            "schema_packs_list",
            "Lists the template packs of this project, newest first: each describes types of entities and relationships, \
             and takes effect while it is `assigned`. Returns `packs`, and `nextCursor` when there are more.",
            schema::object(
                &[],
                schema::merge_properties(
                    schema::paging(20),
                    &[schema::fields_schema(
                        "`name`, `version`, `description`, `assigned`, `builtin`, `objectTypes`, \
                         `relationshipTypes`, `createdAt`",
                    )],
                ),
            ),
            list,
        ),
        write_tool(
            "schema_pack_create",
            "Keeps a new template pack, or a new version of one: types of entities with JSON schemas of their properties, \
             and types of relationships with what they join. It describes nothing until schema_pack_assign assigns it. \
             Returns the `pack`.",
            create_input,
            create,
        ),
        write_tool(
            "schema_pack_assign",
            "Makes a template pack count in this project, in place of any other version of it: from then on what it \
             describes is checked on every write. What is in the graph already stays. Returns the `pack`.",
            schema::object(
                &["id"],
                json!({ "id": {
                    "type": "string",
                    "description": "The pack: its id (a UUID), `name@version`, or its name for the newest version.",
                    "minLength": 1,
                    "maxLength": 300,
                    "examples": ["tickets@1.0.0"],
                }}),
            ),
            assign,
        ),
    ]
}

fn pack_json(pack: &StoredPack, fields: &FieldSelection) -> Value {
    let names = |all: Vec<&String>| json!(all);
    fields.select(json!({
        "id": pack.id,
        "name": pack.pack.name,
        "version": pack.pack.version,
        "description": pack.pack.description,
        "assigned": pack.assigned,
        "builtin": pack.project.is_none(),
        "objectTypes": names(pack.pack.object_type_schemas.keys().collect()),
        "relationshipTypes": names(pack.pack.relationship_type_schemas.keys().collect()),
        "createdAt": pack.created_at,
    }))
}

#[derive(Deserialize)]
struct ListInput {
    limit: Option<i64>,
    cursor: Option<String>,
    #[serde(default)]
    fields: FieldSelection,
}

async fn list(context: ToolContext, input: ListInput) -> Result<Value, ToolError> {
    let wanted = Page::new(Some(input.limit.unwrap_or(20)), input.cursor.as_deref()).map_err(Error::from)?;
    let found = context.graph.list_packs(context.project, wanted).await?;
    Ok(page_json(
        "packs",
        found.items.iter().map(|pack| pack_json(pack, &input.fields)).collect(),
        found.next,
    ))
}

async fn create(_: ToolContext, pack: TemplatePack) -> CallResult {
    pack.check().map_err(Error::from)?;
    graph_change(move |tx, writer| {
        let made = packs::create(tx, writer.project.id, &pack, writer.now)?;
        Ok(json!({ "pack": pack_json(&made, &FieldSelection::default()) }))
    })
}

#[derive(Deserialize)]
struct AssignInput {
    id: String,
}

async fn assign(_: ToolContext, input: AssignInput) -> CallResult {
    graph_change(move |tx, writer| {
        let project = writer.project.id;
        let id = match input.id.parse() {
            Ok(id) => id,
            Err(_) => find_by_name(tx, project, &input.id)?,
        };
        let pack = packs::assign(tx, project, id, writer.now)?;
        Ok(json!({ "pack": pack_json(&pack, &FieldSelection::default()) }))
    })
}

/// The newest pack with this name, or the one with this name and version.
fn find_by_name(tx: &mut Tx<'_>, project: ProjectId, name: &str) -> emergent_graph::Result<PackId> {
    let is = |pack: &TemplatePack| pack.name == name || format!("{}@{}", pack.name, pack.version) == name;
    let mut part = Page::first(Page::MAX);
    loop {
        let found = rows::list(tx, project, &part)?;
        if let Some(pack) = found.items.iter().find(|stored| is(&stored.pack)) {
            return Ok(pack.id);
        }
        match found.next {
            None => return Err(Error::NotFound { what: "template pack", id: name.to_owned() }),
            next => part.after = next,
        }
    }
}

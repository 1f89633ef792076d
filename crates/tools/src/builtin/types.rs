//! The tools that show the types of a project: those in its template packs, and those its graph uses.

use std::{collections::BTreeMap, sync::Arc};

use emergent_domain::{
    ids::ProjectId,
    pack::{TemplatePack, nearest_name},
    project::Project,
};
use emergent_graph::Error;
use emergent_store::{Tx, counts, packs, projects};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{
    define::{read_tool, refuse},
    input::NoInput,
};
use crate::{Tool, ToolContext, ToolError};

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct TypeInput {
    /// Entity type or relationship type.
    #[schemars(length(min = 1, max = 128))]
    name: String,
}

pub(super) fn tools() -> Vec<Arc<dyn Tool>> {
    vec![
        read_tool(
            "schema_list_types",
            "Lists the entity types and relationship types of this project, described by a schema or only in use. Call it \
             before you create anything. Returns `objectTypes` and `relationshipTypes` with `name`, `count`, \
             `described`, for relationships `from` and `to`; `strict` is true if other types are refused.",
            list,
        ),
        read_tool(
            "schema_get_type",
            "Shows one type: its JSON schemas, `count`, and for an entity type its possible relationships. Call it before \
             you write a type you do not know.",
            get,
        ),
        read_tool(
            "schema_version",
            "Returns the schema `revision` of this project, which counts its changes, and the assigned template `packs`. \
             It tells whether the schema changed.",
            version,
        ),
    ]
}

/// The types of a project, read in one snapshot.
struct ProjectTypes {
    project: Project,
    packs: Vec<TemplatePack>,
    /// The number of live objects of each type; 0 for a type that is only in a pack.
    objects: BTreeMap<String, i64>,
    /// The number of relationships of each type.
    relationships: BTreeMap<String, i64>,
}

impl ProjectTypes {
    async fn load(context: &ToolContext) -> Result<Self, ToolError> {
        let project = context.project;
        Ok(context.graph.db().snapshot(move |tx| Self::load_in_tx(tx, project)).await?)
    }

    fn load_in_tx(tx: &mut Tx<'_>, id: ProjectId) -> Result<Self, Error> {
        let project = get_project(tx, id)?;
        let packs = packs::list_assigned(tx, id)?;
        let mut objects: BTreeMap<String, i64> = counts::count_object_types(tx, id)?.into_iter().collect();
        let mut relationships: BTreeMap<String, i64> =
            counts::count_relationship_types(tx, id)?.into_iter().collect();
        for pack in &packs {
            for name in pack.object_type_schemas.keys() {
                objects.entry(name.clone()).or_default();
            }
            for name in pack.relationship_type_schemas.keys() {
                relationships.entry(name.clone()).or_default();
            }
        }
        Ok(Self { project, packs, objects, relationships })
    }

    /// The object types that relationships of a type may connect, one entry for each pack.
    fn ends(&self, name: &str) -> impl Iterator<Item = Map<String, Value>> {
        self.packs.iter().filter_map(move |pack| {
            let schema = pack.relationship_type_schemas.get(name)?;
            let mut view = Map::new();
            view.insert("from".into(), json!(schema.from));
            view.insert("to".into(), json!(schema.to));
            Some(view)
        })
    }
}

pub(super) fn get_project(tx: &mut Tx<'_>, id: ProjectId) -> Result<Project, Error> {
    projects::get(tx, id)?.ok_or_else(|| Error::NotFound { what: "project", id: id.to_string() })
}

async fn list(context: ToolContext, _: NoInput) -> Result<Value, ToolError> {
    let types = ProjectTypes::load(&context).await?;
    let objects: Vec<Value> = types
        .objects
        .iter()
        .map(|(name, count)| {
            let mut schemas =
                types.packs.iter().filter_map(|pack| pack.object_type_schemas.get(name)).peekable();
            let mut view = json!({ "name": name, "count": count, "described": schemas.peek().is_some() });
            if let Some(description) = schemas.find_map(|schema| schema.get("description")) {
                view["description"] = description.clone();
            }
            view
        })
        .collect();
    let relationships: Vec<Value> = types
        .relationships
        .iter()
        .flat_map(|(name, count)| {
            let mut ends: Vec<_> = types.ends(name).collect();
            let described = !ends.is_empty();
            if ends.is_empty() {
                ends.push(Map::new());
            }
            ends.into_iter().map(move |mut view| {
                view.insert("name".into(), json!(name));
                view.insert("count".into(), json!(count));
                view.insert("described".into(), json!(described));
                Value::Object(view)
            })
        })
        .collect();
    Ok(json!({ "strict": types.project.strict, "objectTypes": objects, "relationshipTypes": relationships }))
}

async fn get(context: ToolContext, input: TypeInput) -> Result<Value, ToolError> {
    let types = ProjectTypes::load(&context).await?;
    let name = input.name.as_str();
    let mut answer = Map::from_iter([("name".to_owned(), json!(name))]);
    if let Some(count) = types.objects.get(name) {
        answer.insert("objectType".into(), object_type_json(&types, name, *count));
    }
    if let Some(count) = types.relationships.get(name) {
        answer.insert("relationshipType".into(), relationship_type_json(&types, name, *count));
    }
    if answer.len() == 1 {
        let names = types.objects.keys().chain(types.relationships.keys()).map(String::as_str);
        let hint = match nearest_name(name, names) {
            Some(meant) => format!("; did you mean `{meant}`?"),
            None => "; schema_list_types lists them".to_owned(),
        };
        return Err(refuse(format!("There is no type `{name}` in this project{hint}")));
    }
    Ok(Value::Object(answer))
}

fn object_type_json(types: &ProjectTypes, name: &str, count: i64) -> Value {
    let schemas: Vec<Value> = types
        .packs
        .iter()
        .filter_map(|pack| {
            let schema = pack.object_type_schemas.get(name)?;
            Some(json!({ "pack": pack.name, "version": pack.version, "schema": schema }))
        })
        .collect();
    let (mut outgoing, mut incoming) = (Vec::new(), Vec::new());
    for pack in &types.packs {
        for (edge_type, schema) in &pack.relationship_type_schemas {
            if schema.from.accepts(name) {
                outgoing.push(json!({ "type": edge_type, "to": schema.to }));
            }
            if schema.to.accepts(name) {
                incoming.push(json!({ "type": edge_type, "from": schema.from }));
            }
        }
    }
    json!({ "count": count, "schemas": schemas, "outgoing": outgoing, "incoming": incoming })
}

fn relationship_type_json(types: &ProjectTypes, name: &str, count: i64) -> Value {
    let schemas: Vec<Value> = types
        .packs
        .iter()
        .filter_map(|pack| {
            let schema = pack.relationship_type_schemas.get(name)?;
            let mut view = json!(schema);
            view["pack"] = json!(pack.name);
            view["version"] = json!(pack.version);
            Some(view)
        })
        .collect();
    json!({ "count": count, "schemas": schemas })
}

async fn version(context: ToolContext, _: NoInput) -> Result<Value, ToolError> {
    let project = context.project;
    let read = move |tx: &mut Tx<'_>| {
        Ok::<_, Error>((get_project(tx, project)?, packs::list_assigned(tx, project)?))
    };
    let (project, packs) = context.graph.db().snapshot(read).await?;
    Ok(json!({ "revision": project.packs_revision, "strict": project.strict, "packs": pack_names(&packs) }))
}

/// The name and the version of each pack.
pub(super) fn pack_names(packs: &[TemplatePack]) -> Vec<Value> {
    packs.iter().map(|pack| json!({ "name": pack.name, "version": pack.version })).collect()
}

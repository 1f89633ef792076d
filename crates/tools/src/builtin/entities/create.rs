//! `entities_create`: one object or many, with relationships, in one change. With `merge`, what is
//! known already is completed instead: see `merge`.

use std::{collections::BTreeMap, sync::Arc};

use emergent_domain::{ids::ProjectId, invalid::Invalid, object::NewObject};
use emergent_graph::{
    CreatedSubgraph, EdgeEnd, Error, NewSubgraph, NewSubgraphEdge, WriteContext, sources, subgraph,
};
use emergent_store::Tx;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{
    super::{
        define::{CallResult, graph_change, refuse, write_tool},
        reference::ObjectRef,
        schema,
        source::{self, SourceCache, SourceRef},
        view::FieldSelection,
    },
    merge::{self, MergeRequest},
};
use crate::{Tool, ToolContext, ToolError};

const MAX_OBJECTS: usize = 200;
const MAX_EDGES: usize = 500;

const DESCRIPTION: &str = "Creates entities (objects of the knowledge graph), and relationships between them, all or \
nothing. For one entity give `type`, `key` and `properties`; for several give `objects`. Give each entity a `ref` (a \
name of your own) to join it in `relationships` with `fromRef`/`toRef`; entities that exist already are joined with \
`fromId`/`toId`. A `key` makes an entity easy to find again as `Type/key` and must be free in its type; to change an \
entity that exists, use entities_update. When you write down what a text says, give `merge: true`, so that what is \
known already is completed and not doubled, and `source` with the chunk that says it. Look at schema_list_types first when unsure which types there are. Returns \
the ids, and which id each `ref` got; with `merge`, for each its `outcome` (created, updated, unchanged), by what it \
was found (`mergedBy`) and what stayed as it was although you said otherwise (`kept`).";

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct CreateInput {
    #[serde(rename = "ref")]
    ref_: Option<String>,
    #[serde(rename = "type")]
    type_: Option<String>,
    key: Option<String>,
    status: Option<String>,
    #[serde(default)]
    labels: Vec<String>,
    #[serde(default)]
    properties: Map<String, Value>,
    #[serde(default)]
    objects: Vec<ObjectInput>,
    #[serde(default)]
    relationships: Vec<EdgeInput>,
    #[serde(default)]
    merge: bool,
    source: Option<SourceRef>,
}

#[derive(Deserialize)]
struct ObjectInput {
    #[serde(rename = "ref")]
    ref_: Option<String>,
    #[serde(rename = "type")]
    type_: String,
    key: Option<String>,
    status: Option<String>,
    #[serde(default)]
    labels: Vec<String>,
    #[serde(default)]
    properties: Map<String, Value>,
    source: Option<SourceRef>,
}

#[derive(Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct EdgeInput {
    #[serde(rename = "type")]
    type_: String,
    from_ref: Option<String>,
    from_id: Option<ObjectRef>,
    to_ref: Option<String>,
    to_id: Option<ObjectRef>,
    #[serde(default)]
    properties: Map<String, Value>,
    weight: Option<f64>,
    pub(super) source: Option<SourceRef>,
}

pub(super) fn tool() -> Arc<dyn Tool> {
    let reference = || {
        json!({
            "type": "string",
            "description": "A name of your own for a new entity, known only within this call.",
            "pattern": "^[A-Za-z0-9_.-]+$",
            "maxLength": 64,
        })
    };
    let entity = |type_: &str| {
        json!({
            "ref": reference(),
            "type": schema::type_name(type_),
            "key": schema::text("A name that is unique in its type, to find it again as `Type/key`.", 512),
            "status": schema::text("A word for its state.", 128),
            "labels": schema::labels("Words to group it by."),
            "properties": schema::properties("What it says: any JSON, as the type's schema allows."),
        })
    };
    let edge = json!({
        "type": schema::type_name("The relationship's type, such as `depends_on`."),
        "fromRef": reference(),
        "fromId": schema::object_ref("The entity it starts from, when that exists already"),
        "toRef": reference(),
        "toId": schema::object_ref("The entity it leads to, when that exists already"),
        "properties": schema::properties("What the relationship says."),
        "weight": { "type": "number", "description": "How strong it is." },
        "source": source::source_schema("The passage that says so, when it is not that of the whole call."),
    });
    let several = schema::merge_properties(
        entity("The entity's type."),
        &[
            json!({ "source": source::source_schema("The passage that speaks of it, when it is not that of the whole call.") }),
        ],
    );
    let mut input = schema::object(
        &[],
        schema::merge_properties(
            entity("The type of the one entity to make."),
            &[json!({
                "objects": {
                    "type": "array",
                    "description": "Several entities at once, instead of one.",
                    "items": schema::object(&["type"], several),
                    "minItems": 1,
                    "maxItems": MAX_OBJECTS,
                },
                "relationships": {
                    "type": "array",
                    "description": "Relationships of the new entities, each with `fromRef` or `fromId` and `toRef` or `toId`.",
                    "items": schema::object(&["type"], edge),
                    "maxItems": MAX_EDGES,
                },
                "merge": source::merge_schema(
                    "Completes what is there already (same key, else equal name, else nearly the same text) instead of \
                     refusing or doubling it: fills what is missing, unites lists, replaces nothing.",
                ),
                "source": source::source_schema("The passage all of this was found in; it is kept with what you write."),
            })],
        ),
    );
    input["examples"] = json!([{ "type": "Task", "key": "login", "properties": { "title": "Login" } }]);
    write_tool("entities_create", DESCRIPTION, input, create)
}

async fn create(context: ToolContext, input: CreateInput) -> CallResult {
    let (merge, source) = (input.merge, input.source);
    let (entities, edges) = parse_input(input)?;
    if merge {
        let new = entities.iter().map(|entity| entity.new.clone().check()).collect::<Result<_, _>>();
        let found = context.graph.find_matches(context.project, new.map_err(Error::from)?).await?;
        let wanted = MergeRequest { candidates: found, entities, edges, source };
        return graph_change(move |tx, writer| merge::write(tx, writer, &wanted));
    }
    graph_change(move |tx, writer| {
        let relationships = resolve_ends(tx, writer.project.id, &entities, &edges)?;
        let objects = entities.iter().map(|entity| (entity.ref_.clone(), entity.new.clone())).collect();
        let draft = subgraph::SubgraphDraft::new(NewSubgraph { objects, relationships })?;
        let made = subgraph::create(tx, writer, &draft)?;
        add_sources(tx, writer, &made, (&entities, &edges), source)?;
        Ok(created_json(&made))
    })
}

/// Notes where everything was found.
fn add_sources(
    tx: &mut Tx<'_>,
    writer: &WriteContext,
    made: &CreatedSubgraph,
    (entities, edges): (&Entities, &[EdgeInput]),
    of_call: Option<SourceRef>,
) -> emergent_graph::Result<()> {
    let mut known = SourceCache::new(writer);
    for (object, entity) in made.objects.iter().zip(entities) {
        if let Some(source) = known.get(tx, entity.source, of_call)? {
            sources::add_to_object(tx, writer, object.id, &source)?;
        }
    }
    for (relationship, edge) in made.relationships.iter().zip(edges) {
        if let Some(source) = known.get(tx, edge.source, of_call)? {
            sources::add_to_relationship(tx, writer, relationship.id, &source)?;
        }
    }
    Ok(())
}

/// An entity of a call.
pub(super) struct EntityInput {
    pub(super) ref_: Option<String>,
    pub(super) source: Option<SourceRef>,
    pub(super) new: NewObject,
}

pub(super) type Entities = Vec<EntityInput>;

fn parse_input(input: CreateInput) -> Result<(Entities, Vec<EdgeInput>), ToolError> {
    let CreateInput { ref_, type_, key, status, labels, properties, objects, relationships, merge, .. } =
        input;
    let one = match type_ {
        Some(_) if !objects.is_empty() => {
            return Err(refuse(
                "Give either one entity (`type`, `key`, `properties`) or several in `objects`, not both",
            ));
        }
        Some(type_) => Some(ObjectInput { ref_, type_, key, status, labels, properties, source: None }),
        None if objects.is_empty() => {
            return Err(refuse(
                "There is nothing to create: give `type` and `properties` of one entity, or several in `objects`. \
                 Relationships between entities that exist are made with relationships_create",
            ));
        }
        None if key.is_some() || status.is_some() || !labels.is_empty() || !properties.is_empty() => {
            return Err(refuse(
                "`key`, `status`, `labels` and `properties` belong inside each of `objects`, or give `type` beside \
                 them for one entity",
            ));
        }
        None => None,
    };
    let mut new: Entities = Vec::new();
    for ObjectInput { ref_, type_, key, status, labels, properties, source } in objects.into_iter().chain(one)
    {
        // Models also name what they are just making by its key, so that is a ref as well.
        let ref_ = ref_.or_else(|| key.as_ref().map(|key| format!("{type_}/{key}")));
        let taken = |other: &EntityInput| other.new.type_ == type_ && other.new.key == key;
        // Twice the same is one when it is merged.
        if key.is_some() && !merge && new.iter().any(taken) {
            return Err(refuse(format!("`objects` has the key `{}` twice", key.unwrap_or_default())));
        }
        new.push(EntityInput { ref_, source, new: NewObject { type_, key, status, labels, properties } });
    }
    Ok((new, relationships))
}

/// The relationships with their ends. What exists is looked for in the same transaction, so it
/// cannot go in between.
pub(super) fn resolve_ends(
    tx: &mut Tx<'_>,
    project: ProjectId,
    objects: &Entities,
    edges: &[EdgeInput],
) -> emergent_graph::Result<Vec<NewSubgraphEdge>> {
    let new: BTreeMap<(&str, &str), &str> = objects
        .iter()
        .filter_map(|EntityInput { ref_, new, .. }| {
            Some(((new.type_.as_str(), new.key.as_deref()?), ref_.as_deref()?))
        })
        .collect();
    let mut end = |name: &Option<String>, id: &Option<ObjectRef>, at: usize, field: &str| match (name, id) {
        (Some(name), None) => Ok(EdgeEnd::Ref(name.clone())),
        (None, Some(ObjectRef::Key { type_, key })) if new.contains_key(&(type_.as_str(), key.as_str())) => {
            Ok(EdgeEnd::Ref(new[&(type_.as_str(), key.as_str())].to_owned()))
        }
        (None, Some(id)) => Ok(EdgeEnd::Id(id.resolve(tx, project)?)),
        (Some(_), Some(_)) | (None, None) => Err(Error::from(Invalid::new(
            format!("relationships[{at}].{field}Id"),
            format!("give one of `{field}Ref` (an entity of this call) and `{field}Id` (one that exists)"),
        ))),
    };
    let mut made = Vec::with_capacity(edges.len());
    for (at, edge) in edges.iter().enumerate() {
        made.push(NewSubgraphEdge {
            type_: edge.type_.clone(),
            from: end(&edge.from_ref, &edge.from_id, at, "from")?,
            to: end(&edge.to_ref, &edge.to_id, at, "to")?,
            properties: edge.properties.clone(),
            weight: edge.weight,
        });
    }
    Ok(made)
}

/// The model knows what it wrote; it needs the ids.
fn created_json(made: &CreatedSubgraph) -> Value {
    let objects = FieldSelection::only(["key", "status", "version"]).objects_json(&made.objects);
    let edges =
        FieldSelection::only(["type", "fromId", "toId", "version"]).relationships_json(&made.relationships);
    json!({ "objects": objects, "relationships": edges, "refs": made.refs })
}

//! `entities_create` creates one object or several, with relationships, in one transaction. With `merge`, it
//! completes objects that exist; see the module `merge`.

use std::{collections::BTreeMap, sync::Arc};

use emergent_domain::{invalid::Invalid, object::NewObject, object_ref::ObjectRef as Named};
use emergent_graph::{
    CreatedSubgraph, EdgeEnd, Error, NewSubgraph, NewSubgraphEdge, WriteContext, merge::MergeCandidate,
    sources, subgraph,
};
use emergent_store::Tx;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{
    super::{
        define::{CallResult, graph_change, refuse, write_tool},
        reference::ObjectRef,
        source::{SourceCache, SourceRef},
        view::FieldSelection,
    },
    dispatch_hint::dispatch_hint,
    merge::{self, MergeRequest},
};
use crate::{Tool, ToolContext, ToolError};

const MAX_OBJECTS: usize = 200;
const MAX_EDGES: usize = 500;
/// What a `ref` is made of. It has no slash, so that it differs from every `Type/key`.
const REF_PATTERN: &str = "^[A-Za-z0-9_.-]+$";

const DESCRIPTION: &str = "Creates entities (objects of the graph) and their relationships, all or nothing. Give `type`, \
`key`, `properties` of one entity, or several in `objects`. Call schema_list_types first if unsure about types. A `key` \
names an entity as `Type/key`, unique in its type; to change an entity use entities_update. To record what a text says, give \
`merge: true` and the chunk as `source`; if the text says that something changed, name the property in `supersedes`. \
Returns the new ids; with `merge` also each `outcome`, `replaced` values, and `kept`: values that were not replaced.";

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(example = json!({ "type": "Task", "key": "login", "properties": { "title": "Login" } }))]
struct CreateInput {
    /// Type of the entity.
    #[serde(rename = "type")]
    #[schemars(length(min = 1, max = 128))]
    type_: Option<String>,
    #[serde(flatten)]
    details: EntityDetails,
    /// Several entities, instead of one.
    #[serde(default)]
    #[schemars(length(min = 1, max = MAX_OBJECTS))]
    objects: Vec<ObjectInput>,
    /// Each with `fromRef` or `fromId`, and `toRef` or `toId`.
    #[serde(default)]
    #[schemars(length(max = MAX_EDGES))]
    relationships: Vec<EdgeInput>,
    /// Completes entities that exist (same key, name or text): adds, and replaces only what `supersedes` names.
    #[serde(default)]
    merge: bool,
    /// Chunk that says it.
    source: Option<SourceRef>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ObjectInput {
    /// Type of the entity.
    #[serde(rename = "type")]
    #[schemars(length(min = 1, max = 128))]
    type_: String,
    #[serde(flatten)]
    details: EntityDetails,
    /// Chunk that says it.
    source: Option<SourceRef>,
}

/// What one entity and each of several have in common.
#[derive(Deserialize, JsonSchema)]
struct EntityDetails {
    /// Your name for it in this call.
    #[serde(rename = "ref")]
    #[schemars(regex(pattern = REF_PATTERN), length(max = 64))]
    ref_: Option<String>,
    /// Unique name within its type.
    #[schemars(length(min = 1, max = 512))]
    key: Option<String>,
    /// One word, such as open.
    #[schemars(length(min = 1, max = 128))]
    status: Option<String>,
    /// Words to group it by.
    #[serde(default)]
    #[schemars(length(max = 64))]
    labels: Vec<String>,
    /// As the type's schema allows.
    #[serde(default)]
    properties: Map<String, Value>,
    /// Properties whose known value is no longer true; with `merge`.
    #[serde(default)]
    #[schemars(length(max = 64))]
    supersedes: Vec<String>,
}

#[derive(Clone, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct EdgeInput {
    /// Relationship type, such as `depends_on`.
    #[serde(rename = "type")]
    #[schemars(length(min = 1, max = 128))]
    type_: String,
    /// `ref` of its start.
    #[schemars(regex(pattern = REF_PATTERN), length(max = 64))]
    from_ref: Option<String>,
    /// Existing one: id or `Type/key`.
    from_id: Option<ObjectRef>,
    /// `ref` of its end.
    #[schemars(regex(pattern = REF_PATTERN), length(max = 64))]
    to_ref: Option<String>,
    /// Existing one: id or `Type/key`.
    to_id: Option<ObjectRef>,
    /// As the type's schema allows.
    #[serde(default)]
    properties: Map<String, Value>,
    /// Strength of the relationship.
    weight: Option<f64>,
    /// Chunk that says it.
    pub(super) source: Option<SourceRef>,
}

impl EntityDetails {
    /// Whether nothing but perhaps a `ref` is given.
    fn is_empty(&self) -> bool {
        self.key.is_none()
            && self.status.is_none()
            && self.labels.is_empty()
            && self.properties.is_empty()
            && self.supersedes.is_empty()
    }
}

pub(super) fn tool() -> Arc<dyn Tool> {
    write_tool("entities_create", DESCRIPTION, create)
}

async fn create(context: ToolContext, input: CreateInput) -> CallResult {
    let (merge, source) = (input.merge, input.source);
    let (entities, edges) = parse_input(input)?;
    if merge {
        let new = entities.iter().map(|entity| entity.new.clone().check()).collect::<Result<Vec<_>, _>>();
        let new = new.map_err(Error::from)?;
        let mut candidates = match context.may_read {
            true => context.graph.find_matches(context.project, new).await?,
            false => new.into_iter().map(MergeCandidate::matched_by_key).collect(),
        };
        for (candidate, entity) in candidates.iter_mut().zip(&entities) {
            candidate.superseded.clone_from(&entity.superseded);
        }
        let request = MergeRequest { candidates, entities, edges, source };
        return graph_change(move |tx, writer| merge::write(tx, writer, &request));
    }
    graph_change(move |tx, writer| {
        let relationships = resolve_ends(tx, writer, &entities, &edges)?;
        let objects = entities.iter().map(|entity| (entity.ref_.clone(), entity.new.clone())).collect();
        let draft = subgraph::SubgraphDraft::new(NewSubgraph { objects, relationships })?;
        let created = subgraph::create(tx, writer, &draft)?;
        add_sources(tx, writer, &created, (&entities, &edges), source)?;
        let mut answer = created_json(&created);
        if let Some(hint) = dispatch_hint(writer, &created) {
            answer["hint"] = hint.into();
        }
        Ok(answer)
    })
}

/// Records the source of every created object and relationship.
fn add_sources(
    tx: &mut Tx<'_>,
    writer: &WriteContext,
    created: &CreatedSubgraph,
    (entities, edges): (&Entities, &[EdgeInput]),
    call_source: Option<SourceRef>,
) -> emergent_graph::Result<()> {
    let mut cache = SourceCache::new(writer);
    for (object, entity) in created.objects.iter().zip(entities) {
        if let Some(source) = cache.get(tx, entity.source, call_source)? {
            sources::add_to_object(tx, writer, object.id, &source)?;
        }
    }
    for (relationship, edge) in created.relationships.iter().zip(edges) {
        if let Some(source) = cache.get(tx, edge.source, call_source)? {
            sources::add_to_relationship(tx, writer, relationship.id, &source)?;
        }
    }
    Ok(())
}

/// An entity of a tool call.
pub(super) struct EntityInput {
    pub(super) ref_: Option<String>,
    pub(super) source: Option<SourceRef>,
    pub(super) new: NewObject,
    /// The properties whose known values are no longer true.
    pub(super) superseded: Vec<String>,
}

pub(super) type Entities = Vec<EntityInput>;

/// Returns the entities and relationships of an input, whether it has one entity or several.
fn parse_input(input: CreateInput) -> Result<(Entities, Vec<EdgeInput>), ToolError> {
    let CreateInput { type_, details, objects, relationships, merge, .. } = input;
    let single = match type_ {
        Some(_) if !objects.is_empty() => {
            return Err(refuse(
                "Give either one entity (`type`, `key`, `properties`) or several in `objects`, not both",
            ));
        }
        Some(type_) => Some(ObjectInput { type_, details, source: None }),
        None if objects.is_empty() => {
            return Err(refuse(
                "There is nothing to create: give `type` and `properties` of one entity, or several in `objects`. \
                 Relationships between entities that exist are made with relationships_create",
            ));
        }
        None if !details.is_empty() => {
            return Err(refuse(
                "`key`, `status`, `labels`, `properties` and `supersedes` belong inside each of `objects`, or give \
                 `type` beside them for one entity",
            ));
        }
        None => None,
    };
    let mut entities: Entities = Vec::new();
    for ObjectInput { type_, details, source } in objects.into_iter().chain(single) {
        let EntityDetails { ref_, key, status, labels, properties, supersedes } = details;
        if !merge && !supersedes.is_empty() {
            return Err(refuse(
                "`supersedes` is about entities that exist: give `merge: true` beside it, or use entities_update",
            ));
        }
        // Models also refer to a new entity by its key, so `Type/key` is a ref as well.
        let ref_ = ref_.or_else(|| key.as_ref().map(|key| format!("{type_}/{key}")));
        let has_same_key = |other: &EntityInput| other.new.type_ == type_ && other.new.key == key;
        // With `merge`, a repeated key means the same entity.
        if key.is_some() && !merge && entities.iter().any(has_same_key) {
            return Err(refuse(format!("`objects` has the key `{}` twice", key.unwrap_or_default())));
        }
        entities.push(EntityInput {
            ref_,
            source,
            new: NewObject { type_, key, status, labels, properties },
            superseded: supersedes,
        });
    }
    Ok((entities, relationships))
}

/// Resolves the ends of the relationships. Existing objects are looked up in the transaction that writes, so
/// they cannot be deleted in between.
pub(super) fn resolve_ends(
    tx: &mut Tx<'_>,
    writer: &WriteContext,
    objects: &Entities,
    edges: &[EdgeInput],
) -> emergent_graph::Result<Vec<NewSubgraphEdge>> {
    let new: BTreeMap<(&str, &str), &str> = objects
        .iter()
        .filter_map(|EntityInput { ref_, new, .. }| {
            Some(((new.type_.as_str(), new.key.as_deref()?), ref_.as_deref()?))
        })
        .collect();
    let mut end = |name: &Option<String>, id: &Option<ObjectRef>, index: usize, field: &str| match (name, id)
    {
        (Some(name), None) => Ok(EdgeEnd::Ref(name.clone())),
        (None, Some(ObjectRef(Named::Key { type_, key })))
            if new.contains_key(&(type_.as_str(), key.as_str())) =>
        {
            Ok(EdgeEnd::Ref(new[&(type_.as_str(), key.as_str())].to_owned()))
        }
        (None, Some(id)) => Ok(EdgeEnd::Id(id.resolve_for(tx, writer)?)),
        (Some(_), Some(_)) | (None, None) => Err(Error::from(Invalid::new(
            format!("relationships[{index}].{field}Id"),
            format!("give one of `{field}Ref` (an entity of this call) and `{field}Id` (one that exists)"),
        ))),
    };
    let mut resolved = Vec::with_capacity(edges.len());
    for (index, edge) in edges.iter().enumerate() {
        resolved.push(NewSubgraphEdge {
            type_: edge.type_.clone(),
            from: end(&edge.from_ref, &edge.from_id, index, "from")?,
            to: end(&edge.to_ref, &edge.to_id, index, "to")?,
            properties: edge.properties.clone(),
            weight: edge.weight,
        });
    }
    Ok(resolved)
}

/// Only ids and versions: the model has just written the rest.
fn created_json(created: &CreatedSubgraph) -> Value {
    let objects = FieldSelection::only(["key", "status", "version"]).objects_json(&created.objects);
    let edges = FieldSelection::only(["type", "fromId", "toId", "version"])
        .relationships_json(&created.relationships);
    json!({ "objects": objects, "relationships": edges, "refs": created.refs })
}

//! The inputs of the relationship tools, and the functions that do their work.

use emergent_domain::{
    cursor::Page,
    ids::{ObjectId, ProjectId, RelationshipId},
    merge::Source,
    relationship::{NewRelationship, Relationship, RelationshipPatch},
    time::Timestamp,
};
use emergent_graph::{
    Error, RelationshipFilter, UpsertOutcome, WriteContext, merge, relationships,
    sources::{self, MAX_SOURCES, SourcesById},
};
use emergent_store::{Tx, relationships as rows, sources as source_rows};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::super::{
    define::{CallResult, deserialize_nullable, graph_change, refuse},
    input::{DateTime, Paging, Uuid},
    reference::{ObjectRef, check_found},
    source::{SourceCache, SourceRef, add_merge_outcome, sources_json},
    view::{FieldSelection, page_json},
};
use crate::{ToolContext, ToolError};

const MAX_EDGES: usize = 200;

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(example = json!({ "type": "depends_on", "fromId": "Task/login", "toId": "Task/users" }))]
pub(super) struct CreateInput {
    /// Relationship type, such as `depends_on`.
    #[serde(rename = "type")]
    #[schemars(length(min = 1, max = 128))]
    type_: Option<String>,
    /// Id or `Type/key`.
    from_id: Option<ObjectRef>,
    /// Id or `Type/key`.
    to_id: Option<ObjectRef>,
    #[serde(flatten)]
    details: EdgeDetails,
    /// Several, instead of one.
    #[serde(default)]
    #[schemars(length(min = 1, max = MAX_EDGES))]
    relationships: Vec<EdgeInput>,
    /// Completes existing ones: adds what is missing, replaces nothing.
    #[serde(default)]
    merge: bool,
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct EdgeInput {
    /// Relationship type, such as `depends_on`.
    #[serde(rename = "type")]
    #[schemars(length(min = 1, max = 128))]
    type_: String,
    /// Id or `Type/key`.
    from_id: ObjectRef,
    /// Id or `Type/key`.
    to_id: ObjectRef,
    #[serde(flatten)]
    details: EdgeDetails,
}

/// What one relationship and each of several have in common.
#[derive(Deserialize, JsonSchema)]
struct EdgeDetails {
    /// Content of the relationship.
    #[serde(default)]
    properties: Map<String, Value>,
    /// Strength of the relationship.
    weight: Option<f64>,
    /// Document chunk that says it.
    source: Option<SourceRef>,
}

pub(super) async fn create(_: ToolContext, input: CreateInput) -> CallResult {
    let CreateInput { type_, from_id, to_id, details, relationships: several, merge } = input;
    // The source of the single relationship, or of all that name no source of their own.
    let source = details.source;
    let inputs = match ((type_, from_id, to_id), several.is_empty()) {
        ((Some(type_), Some(from_id), Some(to_id)), true) => {
            vec![EdgeInput { type_, from_id, to_id, details }]
        }
        ((None, None, None), false) => several,
        (_, true) => {
            return Err(refuse("`type`, `fromId` and `toId` are required, or several in `relationships`"));
        }
        (_, false) => {
            return Err(refuse("Give either one relationship or several in `relationships`, not both"));
        }
    };
    graph_change(move |tx, writer| {
        let mut edges = Vec::with_capacity(inputs.len());
        for input in &inputs {
            edges.push(NewRelationship {
                type_: input.type_.clone(),
                from: input.from_id.resolve_for(tx, writer)?,
                to: input.to_id.resolve_for(tx, writer)?,
                properties: input.details.properties.clone(),
                weight: input.details.weight,
            });
        }
        let mut cache = SourceCache::new(writer);
        let mut edge_sources = Vec::with_capacity(inputs.len());
        for input in &inputs {
            edge_sources.push(cache.get(tx, input.details.source, source)?);
        }
        let views = if merge {
            merge_edges(tx, writer, edges, &edge_sources)?
        } else {
            create_edges(tx, writer, edges, &edge_sources)?
        };
        Ok(json!({ "relationships": views }))
    })
}

fn edge_json(edge: &Relationship, created: bool) -> Value {
    let mut view = FieldSelection::only(["type", "fromId", "toId", "version"]).relationship_json(edge);
    view["created"] = json!(created);
    view
}

fn create_edges(
    tx: &mut Tx<'_>,
    writer: &WriteContext,
    edges: Vec<NewRelationship>,
    edge_sources: &[Option<Source>],
) -> emergent_graph::Result<Vec<Value>> {
    let drafts =
        edges.into_iter().map(relationships::RelationshipDraft::new).collect::<Result<Vec<_>, _>>()?;
    let results = relationships::create_all(tx, writer, &drafts)?;
    for ((edge, _), source) in results.iter().zip(edge_sources) {
        if let Some(source) = source {
            sources::add_to_relationship(tx, writer, edge.id, source)?;
        }
    }
    Ok(results.iter().map(|(edge, created)| edge_json(edge, *created)).collect())
}

/// Like [`create_edges`], but completes relationships that exist.
fn merge_edges(
    tx: &mut Tx<'_>,
    writer: &WriteContext,
    edges: Vec<NewRelationship>,
    edge_sources: &[Option<Source>],
) -> emergent_graph::Result<Vec<Value>> {
    let mut views = Vec::with_capacity(edges.len());
    for (index, (edge, source)) in edges.into_iter().zip(edge_sources).enumerate() {
        let outcome =
            merge::create_or_merge_relationship(tx, writer, edge, source.as_ref()).map_err(|error| {
                match error {
                    Error::Invalid(invalid) => {
                        Error::Invalid(invalid.prefixed(&format!("relationships[{index}]")))
                    }
                    other => other,
                }
            })?;
        views.push(add_merge_outcome(
            edge_json(&outcome.item, outcome.written == UpsertOutcome::Created),
            &outcome,
        ));
    }
    Ok(views)
}

/// Names a relationship by its id, or by its type and ends; flattened into an input.
#[derive(Clone, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct RelationshipRef {
    /// Id of the relationship.
    #[schemars(with = "Option<Uuid>")]
    id: Option<RelationshipId>,
    /// Relationship type.
    #[serde(rename = "type")]
    #[schemars(length(min = 1, max = 128))]
    type_: Option<String>,
    /// Id or `Type/key`.
    from_id: Option<ObjectRef>,
    /// Id or `Type/key`.
    to_id: Option<ObjectRef>,
}

impl RelationshipRef {
    /// Refuses a reference with neither an id nor type and both ends, or with both.
    fn check(&self) -> Result<(), ToolError> {
        match (&self.id, &self.type_, &self.from_id, &self.to_id) {
            (Some(_), None, None, None) | (None, Some(_), Some(_), Some(_)) => Ok(()),
            _ => Err(refuse("Name the relationship by its `id`, or by all of `type`, `fromId` and `toId`")),
        }
    }

    /// The id of the live relationship. `resolve` finds its ends.
    fn resolve(
        &self,
        tx: &mut Tx<'_>,
        project: ProjectId,
        resolve: impl Fn(&mut Tx<'_>, &ObjectRef) -> emergent_graph::Result<ObjectId>,
    ) -> emergent_graph::Result<RelationshipId> {
        if let Some(id) = self.id {
            return Ok(id);
        }
        let (Some(type_), Some(from), Some(to)) = (&self.type_, &self.from_id, &self.to_id) else {
            return Err(self.not_found());
        };
        let ends = (resolve(tx, from)?, resolve(tx, to)?);
        let edge = rows::find(tx, ends.0, type_, ends.1)?.filter(|edge| edge.project == project);
        edge.map(|edge| edge.id).ok_or_else(|| self.not_found())
    }

    /// The id of the live relationship that a call changes.
    fn resolve_for(&self, tx: &mut Tx<'_>, writer: &WriteContext) -> emergent_graph::Result<RelationshipId> {
        self.resolve(tx, writer.project.id, |tx, end| end.resolve_for(tx, writer))
    }

    /// The live relationship.
    fn find(&self, tx: &mut Tx<'_>, project: ProjectId) -> emergent_graph::Result<Relationship> {
        let id = self.resolve(tx, project, |tx, end| end.resolve(tx, project))?;
        rows::get(tx, project, id)?.ok_or_else(|| self.not_found())
    }

    /// The relationship that was live at a time, as it was then. A key names the object that had it then.
    fn find_at(
        &self,
        tx: &mut Tx<'_>,
        project: ProjectId,
        as_of: Timestamp,
    ) -> emergent_graph::Result<Relationship> {
        let edge = match (self.id, &self.type_, &self.from_id, &self.to_id) {
            (Some(id), ..) => rows::get_at(tx, project, id, as_of)?,
            (None, Some(type_), Some(from), Some(to)) => {
                let filter = RelationshipFilter {
                    types: vec![type_.clone()],
                    from: Some(from.resolve_at(tx, project, "fromId", as_of)?),
                    to: Some(to.resolve_at(tx, project, "toId", as_of)?),
                };
                // At one time there is at most one of a type between two objects.
                rows::list_at(tx, project, &filter, as_of, &Page::first(1))?.items.pop()
            }
            _ => None,
        };
        edge.ok_or_else(|| self.not_found())
    }

    fn not_found(&self) -> Error {
        let id = match (self.id, &self.type_, &self.from_id, &self.to_id) {
            (None, Some(type_), Some(from), Some(to)) => format!("{type_} from {from} to {to}"),
            (id, ..) => id.map(|id| id.to_string()).unwrap_or_default(),
        };
        Error::NotFound { what: "relationship", id }
    }
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(example = json!({ "type": "depends_on", "fromId": "Task/login", "toId": "Task/users" }))]
pub(super) struct GetInput {
    #[serde(flatten)]
    named: RelationshipRef,
    /// As it was at this time.
    #[schemars(with = "Option<DateTime>")]
    as_of: Option<Timestamp>,
    /// Return only these fields; default: all but author.
    #[serde(default)]
    fields: FieldSelection,
}

pub(super) async fn get(context: ToolContext, input: GetInput) -> Result<Value, ToolError> {
    let GetInput { named, as_of, fields } = input;
    named.check()?;
    let (project, shows_sources) = (context.project, fields.includes("sources"));
    let ends = (named.from_id.clone(), named.to_id.clone());
    let read = move |tx: &mut Tx<'_>| {
        let edge = match as_of {
            Some(as_of) => named.find_at(tx, project, as_of)?,
            None => named.find(tx, project)?,
        };
        let sources = match as_of {
            _ if !shows_sources => SourcesById::new(),
            Some(as_of) => source_rows::list_known_at(tx, project, &[edge.id.0], MAX_SOURCES, as_of)?,
            None => source_rows::list_for(tx, project, &[edge.id.0], MAX_SOURCES)?,
        };
        Ok::<_, Error>((edge, sources))
    };
    // A snapshot, because a concurrent update moves a version to the history.
    let (edge, sources) = context.graph.db().snapshot(read).await?;
    let from = ends.0.iter().map(|named| (named, edge.from));
    let to = ends.1.iter().map(|named| (named, edge.to));
    check_found(&context, from.chain(to)).await?;
    let mut view = fields.relationship_json(&edge);
    if let Some(sources) = sources.get(&edge.id.0) {
        view["sources"] = sources_json(sources);
    }
    Ok(json!({ "relationship": view }))
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct ListInput {
    /// Any of these types.
    #[serde(default)]
    types: Vec<String>,
    /// Id or `Type/key`.
    from_id: Option<ObjectRef>,
    /// Id or `Type/key`.
    to_id: Option<ObjectRef>,
    #[serde(flatten)]
    paging: Paging,
    /// Return only these fields; default: all but author.
    #[serde(default)]
    fields: FieldSelection,
}

pub(super) async fn list(context: ToolContext, input: ListInput) -> Result<Value, ToolError> {
    let page = input.paging.page().map_err(Error::from)?;
    let mut filter = RelationshipFilter { types: input.types, from: None, to: None };
    if let Some(from) = &input.from_id {
        filter.from = Some(from.resolve_in_read(&context).await?);
    }
    if let Some(to) = &input.to_id {
        filter.to = Some(to.resolve_in_read(&context).await?);
    }
    let edge_page = context.graph.list_relationships(context.project, filter, page).await?;
    Ok(page_json("relationships", input.fields.relationships_json(&edge_page.items), edge_page.next))
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(example = json!({ "type": "depends_on", "fromId": "Task/login", "toId": "Task/users", "weight": 0.5 }))]
pub(super) struct UpdateInput {
    #[serde(flatten)]
    named: RelationshipRef,
    /// Properties to set. Null removes one.
    properties: Option<Map<String, Value>>,
    /// New weight. Null removes it.
    #[serde(default, deserialize_with = "deserialize_nullable")]
    #[schemars(extend("nullable" = true))]
    weight: Option<Option<f64>>,
    /// Fails if this is not its version.
    #[schemars(range(min = 1))]
    expected_version: Option<i64>,
}

pub(super) async fn update(_: ToolContext, input: UpdateInput) -> CallResult {
    let UpdateInput { named, properties, weight, expected_version } = input;
    named.check()?;
    if properties.is_none() && weight.is_none() {
        return Err(refuse("There is nothing to change: give `properties` or `weight`"));
    }
    let patch = RelationshipPatch { properties, weight, expected_version }.check().map_err(Error::from)?;
    graph_change(move |tx, writer| {
        let id = named.resolve_for(tx, writer)?;
        let edge = relationships::update(tx, writer, id, &patch)?;
        Ok(json!({ "relationship": FieldSelection::default().relationship_json(&edge) }))
    })
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(example = json!({ "type": "depends_on", "fromId": "Task/login", "toId": "Task/users" }))]
pub(super) struct DeleteInput {
    #[serde(flatten)]
    named: RelationshipRef,
    /// Fails if this is not its version.
    #[schemars(range(min = 1))]
    expected_version: Option<i64>,
    /// Document chunk that says that it ended.
    source: Option<SourceRef>,
}

pub(super) async fn delete(_: ToolContext, input: DeleteInput) -> CallResult {
    input.named.check()?;
    graph_change(move |tx, writer| {
        let id = input.named.resolve_for(tx, writer)?;
        let deleted = match SourceCache::new(writer).get(tx, input.source, None)? {
            Some(source) => merge::end_relationship(tx, writer, id, input.expected_version, &source)?,
            None => relationships::delete(tx, writer, id, input.expected_version)?,
        };
        Ok(
            json!({ "deleted": FieldSelection::only(["type", "fromId", "toId", "version"]).relationship_json(&deleted) }),
        )
    })
}

//! The tools that traverse the graph: from some objects, to the neighbors of one, and from one to another.

use std::{collections::HashMap, sync::Arc};

use emergent_domain::{
    cursor::{Page, ResultPage},
    ids::{ObjectId, ProjectId},
    object::Object,
    query::{Direction, PathQuery, TraverseQuery},
    relationship::Relationship,
    time::Timestamp,
};
use emergent_graph::{Error, sources::SourcesById};
use emergent_store::{
    Tx, objects, relationships as edges, sources, transfer,
    traversal::{ByteRoom, Traversal},
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    define::read_tool,
    input::{Count, DateTime, OneOf, Paging},
    reference::{ObjectRef, check_found, resolve_start},
    source::sources_json,
    view::{FieldSelection, page_json},
};
use crate::{Tool, ToolContext, ToolError};

/// The fields of relationships that the answers show.
const EDGE_FIELDS: [&str; 5] = ["type", "fromId", "toId", "properties", "weight"];
/// How many sources of each relationship `graph_neighbors` shows, the newest first. `relationships_get` shows more.
const MAX_EDGE_SOURCES: usize = 3;

pub(super) fn tools() -> Vec<Arc<dyn Tool>> {
    vec![
        read_tool(
            "graph_traverse",
            "Traverses the graph breadth first from some entities; for one step use graph_neighbors. Returns `nodes` (entities \
             with `depth`), the `edges` between them, and `truncated` if a limit was reached.",
            traverse,
        ),
        read_tool(
            "graph_neighbors",
            "Lists an entity's relationships and the entities at their other ends, newest first. Returns `neighbors` with \
             `direction`, `relationship` with `sources`, and `object`.",
            neighbors,
        ),
        read_tool(
            "graph_path",
            "Finds the shortest path between two entities. Returns `found`, the `objects` from start to end, and the \
             `edges` between them.",
            path,
        ),
    ]
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(example = json!({ "startIds": ["Task/login"], "maxDepth": 2, "fields": ["key", "title"] }))]
struct TraverseInput {
    /// Ids or `Type/key`.
    #[schemars(length(min = 1, max = TraverseQuery::MAX_START))]
    start_ids: Vec<ObjectRef>,
    /// Which way edges lead.
    #[serde(default)]
    #[schemars(with = "OneOf<Direction>")]
    direction: Direction,
    /// Most steps away.
    #[serde(default)]
    max_depth: Count<2, 0, { TraverseQuery::MAX_DEPTH }>,
    /// Only relationships of these types.
    #[serde(default)]
    relationship_types: Vec<String>,
    /// Only entities of these types; others are not passed through.
    #[serde(default)]
    object_types: Vec<String>,
    /// Most entities to return.
    #[serde(default)]
    max_nodes: Count<100, 1, 1_000>,
    /// Most relationships to return.
    #[serde(default)]
    max_edges: Count<500, 0, 5_000>,
    /// The graph at this time.
    #[schemars(with = "Option<DateTime>")]
    as_of: Option<Timestamp>,
    #[serde(default)]
    fields: FieldSelection,
}

async fn traverse(context: ToolContext, input: TraverseInput) -> Result<Value, ToolError> {
    let query = TraverseQuery {
        start: resolve_start(&context, input.start_ids, input.as_of).await?,
        direction: input.direction,
        max_depth: input.max_depth.get(),
        relationship_types: input.relationship_types,
        object_types: input.object_types,
        max_nodes: input.max_nodes.get(),
        max_edges: input.max_edges.get(),
        as_of: input.as_of,
    };
    let subgraph = context.graph.traverse(context.project, query).await?;
    let nodes: Vec<Value> = subgraph
        .nodes
        .iter()
        .map(|node| {
            let mut view = input.fields.object_json(&node.object);
            view["depth"] = json!(node.depth);
            view
        })
        .collect();
    let edges = FieldSelection::only(EDGE_FIELDS).relationships_json(&subgraph.edges);
    Ok(json!({ "nodes": nodes, "edges": edges, "truncated": subgraph.truncated }))
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct NeighborsInput {
    /// Id or `Type/key`.
    id: ObjectRef,
    /// Which way edges lead.
    #[serde(default)]
    #[schemars(with = "OneOf<Direction>")]
    direction: Direction,
    /// Only relationships of these types.
    #[serde(default)]
    relationship_types: Vec<String>,
    /// The graph at this time.
    #[schemars(with = "Option<DateTime>")]
    as_of: Option<Timestamp>,
    #[serde(flatten)]
    paging: Paging,
    #[serde(default)]
    fields: FieldSelection,
}

/// The relationships of an object, the objects at their other ends, and their sources.
struct Neighbors {
    center: ObjectId,
    edges: ResultPage<Relationship>,
    objects: Vec<Object>,
    sources: SourcesById,
}

async fn neighbors(context: ToolContext, input: NeighborsInput) -> Result<Value, ToolError> {
    let NeighborsInput { id, direction, relationship_types: types, as_of, paging, fields } = input;
    let page = paging.page().map_err(Error::from)?;
    let (project, named) = (context.project, id.clone());
    emergent_domain::query::check_types("relationshipTypes", &types).map_err(Error::from)?;
    let read = move |tx: &mut Tx<'_>| match as_of {
        Some(as_of) => load_neighbors_at(tx, project, &id, (direction, types.as_slice()), as_of, &page),
        None => load_neighbors(tx, project, &id, (direction, types.as_slice()), &page),
    };
    let Neighbors { center, edges, objects, sources } = context.graph.db().snapshot(read).await?;
    check_found(&context, [(&named, center)]).await?;
    let objects: HashMap<ObjectId, Object> = objects.into_iter().map(|object| (object.id, object)).collect();
    let ResultPage { items, next } = edges;
    let neighbors = items
        .iter()
        .filter_map(|edge| {
            let object = objects.get(&other_end(edge, center))?;
            let mut relationship = FieldSelection::only(EDGE_FIELDS).relationship_json(edge);
            if let Some(sources) = sources.get(&edge.id.0) {
                relationship["sources"] = sources_json(sources);
            }
            Some(json!({
                "direction": if edge.from == center { Direction::Out } else { Direction::In },
                "relationship": relationship,
                "object": fields.object_json(object),
            }))
        })
        .collect();
    Ok(page_json("neighbors", neighbors, next))
}

fn load_neighbors(
    tx: &mut Tx<'_>,
    project: ProjectId,
    id: &ObjectRef,
    (direction, types): (Direction, &[String]),
    page: &Page,
) -> Result<Neighbors, Error> {
    let center = id.resolve(tx, project)?;
    objects::get(tx, project, center)?.ok_or_else(|| id.not_found())?;
    let edges = edges::list_for_object(tx, project, center, direction, types, page)?;
    let ends: Vec<ObjectId> = edges.items.iter().map(|edge| other_end(edge, center)).collect();
    let objects = transfer::objects_by_id(tx, project, &ends)?;
    let sources = sources::list_for(tx, project, &edge_ids(&edges), MAX_EDGE_SOURCES)?;
    Ok(Neighbors { center, edges, objects, sources })
}

/// Like [`load_neighbors`], of an earlier time. A key names the object that had it then.
fn load_neighbors_at(
    tx: &mut Tx<'_>,
    project: ProjectId,
    id: &ObjectRef,
    (direction, types): (Direction, &[String]),
    as_of: Timestamp,
    page: &Page,
) -> Result<Neighbors, Error> {
    let center = id.resolve_at(tx, project, "id", as_of)?;
    let then = Traversal { project, relationship_types: &[], as_of: Some(as_of) };
    let edges = edges::list_for_object_at(tx, project, (center, direction), types, as_of, page)?;
    let ends: Vec<ObjectId> = edges.items.iter().map(|edge| other_end(edge, center)).collect();
    let objects = then.objects(tx, &ends, &[], &mut ByteRoom::new(usize::MAX))?;
    let sources = sources::list_known_at(tx, project, &edge_ids(&edges), MAX_EDGE_SOURCES, as_of)?;
    Ok(Neighbors { center, edges, objects, sources })
}

fn edge_ids(edges: &ResultPage<Relationship>) -> Vec<uuid::Uuid> {
    edges.items.iter().map(|edge| edge.id.0).collect()
}

fn other_end(edge: &Relationship, center: ObjectId) -> ObjectId {
    if edge.from == center { edge.to } else { edge.from }
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct PathInput {
    /// Id or `Type/key`.
    from_id: ObjectRef,
    /// Id or `Type/key`.
    to_id: ObjectRef,
    /// Which way edges lead.
    #[serde(default)]
    #[schemars(with = "OneOf<Direction>")]
    direction: Direction,
    /// Only relationships of these types.
    #[serde(default)]
    relationship_types: Vec<String>,
    /// Most steps.
    #[serde(default)]
    max_depth: Count<8, 0, { TraverseQuery::MAX_DEPTH }>,
    /// The graph at this time.
    #[schemars(with = "Option<DateTime>")]
    as_of: Option<Timestamp>,
    #[serde(default)]
    fields: FieldSelection,
}

async fn path(context: ToolContext, input: PathInput) -> Result<Value, ToolError> {
    let query = PathQuery {
        from: input.from_id.resolve_in_read_at(&context, "fromId", input.as_of).await?,
        to: input.to_id.resolve_in_read_at(&context, "toId", input.as_of).await?,
        direction: input.direction,
        relationship_types: input.relationship_types,
        max_depth: input.max_depth.get(),
        as_of: input.as_of,
    };
    let shortest = context.graph.shortest_path(context.project, query).await?;
    let (objects, edges) = shortest.as_ref().map_or_else(Default::default, |path| {
        (
            input.fields.objects_json(&path.objects),
            FieldSelection::only(EDGE_FIELDS).relationships_json(&path.edges),
        )
    });
    Ok(json!({ "found": shortest.is_some(), "objects": objects, "edges": edges }))
}

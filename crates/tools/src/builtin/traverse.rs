//! Walking the graph: what is around an object, and how two are joined.

use std::{collections::HashMap, sync::Arc};

use emergent_domain::{
    cursor::{Page, ResultPage},
    ids::ObjectId,
    object::Object,
    query::{Direction, PathQuery, TraverseQuery},
    relationship::Relationship,
    time::Timestamp,
};
use emergent_graph::Error;
use emergent_store::{Tx, objects, relationships as edges, transfer};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    define::read_tool,
    reference::{ObjectRef, resolve_all},
    schema,
    view::{FieldSelection, page_json},
};
use crate::{Tool, ToolContext, ToolError};

const EDGE_FIELDS: [&str; 5] = ["type", "fromId", "toId", "properties", "weight"];

pub(super) fn tools() -> Vec<Arc<dyn Tool>> {
    let types = || schema::type_names("Only relationships of these types.");
    let as_of = json!({
        "type": "string",
        "description": "The graph as it was at this moment, such as 2026-01-31T12:00:00Z; now when absent.",
        "format": "date-time",
    });
    let mut walk = schema::object(
        &["startIds"],
        schema::merge_properties(
            json!({
                "startIds": schema::object_refs("The entities to start from", 1, TraverseQuery::MAX_START),
                "direction": schema::direction(),
                "maxDepth": schema::count("How many steps away at most:", 0, TraverseQuery::MAX_DEPTH, 2),
                "relationshipTypes": types(),
                "objectTypes": schema::type_names("Only entities of these types; others are not walked through."),
                "maxNodes": schema::count("How many entities at most:", 1, 1_000, 100),
                "maxEdges": schema::count("How many relationships at most:", 0, 5_000, 500),
                "asOf": as_of.clone(),
            }),
            &[schema::object_fields()],
        ),
    );
    walk["examples"] = json!([{ "startIds": ["Task/login"], "maxDepth": 2, "fields": ["key", "title"] }]);
    vec![
        read_tool(
            "graph_traverse",
            "Walks the graph from some entities, breadth first, to see what they are connected with over several steps. \
             Returns `nodes` (entities, each with its `depth`), the `edges` between them, and `truncated` when a limit \
             cut it short. For one step use graph_neighbors.",
            walk,
            traverse,
        ),
        read_tool(
            "graph_neighbors",
            "Shows an entity's relationships with the entities at their other ends, newest first. Returns `neighbors`, \
             each with `direction`, `relationship` and `object`, and `nextCursor` when there are more.",
            schema::object(
                &["id"],
                schema::merge_properties(
                    json!({
                        "id": schema::object_ref("The entity in the middle"),
                        "direction": schema::direction(),
                        "relationshipTypes": types(),
                    }),
                    &[schema::paging(20), schema::object_fields()],
                ),
            ),
            neighbors,
        ),
        read_tool(
            "graph_path",
            "Finds the shortest way between two entities. Returns `found`, and on the way the `objects` from start to \
             end and the `edges` between each and the next.",
            schema::object(
                &["fromId", "toId"],
                schema::merge_properties(
                    json!({
                        "fromId": schema::object_ref("Where the way begins"),
                        "toId": schema::object_ref("Where it ends"),
                        "direction": schema::direction(),
                        "relationshipTypes": types(),
                        "maxDepth": schema::count("How many steps at most:", 0, TraverseQuery::MAX_DEPTH, 8),
                        "asOf": as_of,
                    }),
                    &[schema::object_fields()],
                ),
            ),
            path,
        ),
    ]
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct TraverseInput {
    start_ids: Vec<ObjectRef>,
    #[serde(default)]
    direction: Direction,
    max_depth: Option<usize>,
    #[serde(default)]
    relationship_types: Vec<String>,
    #[serde(default)]
    object_types: Vec<String>,
    max_nodes: Option<usize>,
    max_edges: Option<usize>,
    as_of: Option<Timestamp>,
    #[serde(default)]
    fields: FieldSelection,
}

async fn traverse(context: ToolContext, input: TraverseInput) -> Result<Value, ToolError> {
    let query = TraverseQuery {
        start: resolve_all(&context, input.start_ids).await?,
        direction: input.direction,
        max_depth: input.max_depth.unwrap_or(2),
        relationship_types: input.relationship_types,
        object_types: input.object_types,
        max_nodes: input.max_nodes.unwrap_or(100),
        max_edges: input.max_edges.unwrap_or(500),
        as_of: input.as_of,
    };
    let found = context.graph.traverse(context.project, query).await?;
    let nodes: Vec<Value> = found
        .nodes
        .iter()
        .map(|node| {
            let mut view = input.fields.object_json(&node.object);
            view["depth"] = json!(node.depth);
            view
        })
        .collect();
    let edges = FieldSelection::only(EDGE_FIELDS).relationships_json(&found.edges);
    Ok(json!({ "nodes": nodes, "edges": edges, "truncated": found.truncated }))
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct NeighborsInput {
    id: ObjectRef,
    #[serde(default)]
    direction: Direction,
    #[serde(default)]
    relationship_types: Vec<String>,
    limit: Option<i64>,
    cursor: Option<String>,
    #[serde(default)]
    fields: FieldSelection,
}

async fn neighbors(context: ToolContext, input: NeighborsInput) -> Result<Value, ToolError> {
    let NeighborsInput { id, direction, relationship_types: types, limit, cursor, fields } = input;
    let wanted = Page::new(Some(limit.unwrap_or(20)), cursor.as_deref()).map_err(Error::from)?;
    let project = context.project;
    emergent_domain::query::check_types("relationshipTypes", &types).map_err(Error::from)?;
    let read = move |tx: &mut Tx<'_>| {
        let middle = id.resolve(tx, project)?;
        objects::get(tx, project, middle)?.ok_or_else(|| id.not_found())?;
        let found = edges::list_for_object(tx, project, middle, direction, &types, &wanted)?;
        let ends: Vec<ObjectId> = found.items.iter().map(|edge| other_end(edge, middle)).collect();
        let objects = transfer::objects_by_id(tx, project, &ends)?;
        Ok::<_, Error>((middle, found, objects))
    };
    let (middle, found, objects) = context.graph.db().snapshot(read).await?;
    let objects: HashMap<ObjectId, Object> = objects.into_iter().map(|object| (object.id, object)).collect();
    let ResultPage { items, next } = found;
    let neighbors = items
        .iter()
        .filter_map(|edge| {
            let object = objects.get(&other_end(edge, middle))?;
            Some(json!({
                "direction": if edge.from == middle { Direction::Out } else { Direction::In },
                "relationship": FieldSelection::only(EDGE_FIELDS).relationship_json(edge),
                "object": fields.object_json(object),
            }))
        })
        .collect();
    Ok(page_json("neighbors", neighbors, next))
}

fn other_end(edge: &Relationship, middle: ObjectId) -> ObjectId {
    if edge.from == middle { edge.to } else { edge.from }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PathInput {
    from_id: ObjectRef,
    to_id: ObjectRef,
    #[serde(default)]
    direction: Direction,
    #[serde(default)]
    relationship_types: Vec<String>,
    max_depth: Option<usize>,
    as_of: Option<Timestamp>,
    #[serde(default)]
    fields: FieldSelection,
}

async fn path(context: ToolContext, input: PathInput) -> Result<Value, ToolError> {
    let query = PathQuery {
        from: input.from_id.resolve_in_read(&context).await?,
        to: input.to_id.resolve_in_read(&context).await?,
        direction: input.direction,
        relationship_types: input.relationship_types,
        max_depth: input.max_depth.unwrap_or(8),
        as_of: input.as_of,
    };
    let found = context.graph.shortest_path(context.project, query).await?;
    let (objects, edges) = found.as_ref().map_or_else(Default::default, |path| {
        (
            input.fields.objects_json(&path.objects),
            FieldSelection::only(EDGE_FIELDS).relationships_json(&path.edges),
        )
    });
    Ok(json!({ "found": found.is_some(), "objects": objects, "edges": edges }))
}

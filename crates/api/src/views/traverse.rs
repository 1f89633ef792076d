use emergent_domain::{
    ids::ObjectId,
    json::JsonObject,
    query::{Direction, FoundPath, Node, PathQuery, Subgraph, TraverseQuery},
    time::Timestamp,
};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use uuid::Uuid;

use super::{author::AuthorView, object::ObjectView, relationship::RelationshipView};

/// Where to start and how far to go.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Traverse {
    #[schema(value_type = Vec<Uuid>, min_items = 1, max_items = 100)]
    start_ids: Vec<ObjectId>,
    #[serde(default)]
    #[schema(value_type = DirectionView)]
    direction: Direction,
    #[schema(minimum = 0, maximum = 16, default = 2)]
    max_depth: Option<usize>,
    /// Only edges of these types are walked and returned; empty is every type.
    #[serde(default)]
    #[schema(max_items = 100)]
    relationship_types: Vec<String>,
    /// Objects of other types are neither returned nor walked through; empty is every type.
    #[serde(default)]
    #[schema(max_items = 100)]
    object_types: Vec<String>,
    #[schema(minimum = 1, maximum = 10000, default = 1000)]
    max_nodes: Option<usize>,
    #[schema(minimum = 0, maximum = 50000, default = 5000)]
    max_edges: Option<usize>,
    /// The graph as it was at that moment.
    #[schema(value_type = Option<String>, format = DateTime)]
    as_of: Option<Timestamp>,
}

#[derive(ToSchema)]
#[schema(as = Direction, rename_all = "lowercase")]
#[allow(dead_code, reason = "describes the domain's type")]
pub(crate) enum DirectionView {
    Out,
    In,
    Both,
}

impl From<Traverse> for TraverseQuery {
    fn from(body: Traverse) -> Self {
        Self {
            start: body.start_ids,
            direction: body.direction,
            max_depth: body.max_depth.unwrap_or(2),
            relationship_types: body.relationship_types,
            object_types: body.object_types,
            max_nodes: body.max_nodes.unwrap_or(1_000),
            max_edges: body.max_edges.unwrap_or(5_000),
            as_of: body.as_of,
        }
    }
}

/// An object and how many steps it is away. As [`ObjectView`] with a depth: nesting or flattening
/// it would either change the shape or buffer every property.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Node)]
pub(crate) struct NodeView {
    id: Uuid,
    #[serde(rename = "type")]
    type_: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<String>,
    labels: Vec<String>,
    #[schema(value_type = Object)]
    properties: JsonObject,
    version: i64,
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
    #[schema(value_type = String, format = DateTime)]
    updated_at: Timestamp,
    author: AuthorView,
    depth: usize,
}

impl From<Node> for NodeView {
    fn from(Node { object, depth }: Node) -> Self {
        Self {
            id: object.id.0,
            type_: object.type_,
            key: object.key,
            status: object.status,
            labels: object.labels,
            properties: object.properties,
            version: object.version,
            created_at: object.created_at,
            updated_at: object.updated_at,
            author: object.author.into(),
            depth,
        }
    }
}

#[derive(Serialize, ToSchema)]
#[schema(as = Traversal)]
pub(crate) struct TraversalView {
    /// By depth, then by id.
    nodes: Vec<NodeView>,
    /// By id, and only between returned nodes.
    edges: Vec<RelationshipView>,
    /// A cap cut the answer.
    truncated: bool,
}

impl From<Subgraph> for TraversalView {
    fn from(found: Subgraph) -> Self {
        Self {
            nodes: found.nodes.into_iter().map(NodeView::from).collect(),
            edges: found.edges.into_iter().map(RelationshipView::from).collect(),
            truncated: found.truncated,
        }
    }
}

/// Two objects, and what may lie between them.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct FindPath {
    from_id: Uuid,
    to_id: Uuid,
    #[serde(default)]
    #[schema(value_type = DirectionView)]
    direction: Direction,
    #[serde(default)]
    #[schema(max_items = 100)]
    relationship_types: Vec<String>,
    #[schema(minimum = 0, maximum = 16, default = 8)]
    max_depth: Option<usize>,
    #[schema(value_type = Option<String>, format = DateTime)]
    as_of: Option<Timestamp>,
}

impl From<FindPath> for PathQuery {
    fn from(body: FindPath) -> Self {
        Self {
            from: ObjectId(body.from_id),
            to: ObjectId(body.to_id),
            direction: body.direction,
            relationship_types: body.relationship_types,
            max_depth: body.max_depth.unwrap_or(8),
            as_of: body.as_of,
        }
    }
}

/// The shortest path from one object to the other.
#[derive(Serialize, ToSchema)]
#[schema(as = ShortestPath)]
pub(crate) struct PathView {
    /// False when there is no path within the depth; then both lists are empty.
    found: bool,
    objects: Vec<ObjectView>,
    /// Each joins an object with the next.
    edges: Vec<RelationshipView>,
}

impl From<Option<FoundPath>> for PathView {
    fn from(path: Option<FoundPath>) -> Self {
        let found = path.is_some();
        let (objects, edges) = path.map(|path| (path.objects, path.edges)).unwrap_or_default();
        Self {
            found,
            objects: objects.into_iter().map(ObjectView::from).collect(),
            edges: edges.into_iter().map(RelationshipView::from).collect(),
        }
    }
}

//! Traversals of the graph and shortest paths, with their results.

use emergent_domain::{
    ids::ObjectId,
    json::JsonObject,
    object_ref::ObjectRef,
    query::{Direction, FoundPath, Node, PathQuery, Subgraph, TraverseQuery},
    time::Timestamp,
};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use uuid::Uuid;

use crate::{author::AuthorView, object::ObjectView, relationship::RelationshipView, schema};

/// Where to start and how far to go.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Traverse {
    /// Objects, by their ids or as `Type/key`.
    #[schema(value_type = Vec<schema::ObjectRef>, min_items = 1, max_items = 100)]
    pub start_ids: Vec<ObjectRef>,
    #[serde(default)]
    #[schema(value_type = schema::Direction)]
    pub direction: Direction,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0, maximum = 16, default = 2)]
    pub max_depth: Option<usize>,
    /// Only edges of these types are walked and returned; empty is every type.
    #[serde(default)]
    #[schema(max_items = 100)]
    pub relationship_types: Vec<String>,
    /// Objects of other types are neither returned nor walked through; empty is every type.
    #[serde(default)]
    #[schema(max_items = 100)]
    pub object_types: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 10000, default = 1000)]
    pub max_nodes: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0, maximum = 50000, default = 5000)]
    pub max_edges: Option<usize>,
    /// The graph as it was at that moment. A key names the object that had it then.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub as_of: Option<Timestamp>,
}

impl Traverse {
    /// The query from the objects that `start_ids` stand for.
    pub fn into_query(self, start: Vec<ObjectId>) -> TraverseQuery {
        TraverseQuery {
            start,
            direction: self.direction,
            max_depth: self.max_depth.unwrap_or(2),
            relationship_types: self.relationship_types,
            object_types: self.object_types,
            max_nodes: self.max_nodes.unwrap_or(1_000),
            max_edges: self.max_edges.unwrap_or(5_000),
            as_of: self.as_of,
        }
    }
}

/// An object and how many steps it is away. As [`ObjectView`] with a depth: nesting or flattening
/// it would either change the shape or buffer every property.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Node)]
pub struct NodeView {
    pub id: Uuid,
    #[serde(rename = "type")]
    pub type_: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<String>,
    pub labels: Vec<String>,
    #[schema(value_type = Object)]
    pub properties: JsonObject,
    pub version: i64,
    #[schema(value_type = String, format = DateTime)]
    pub created_at: Timestamp,
    #[schema(value_type = String, format = DateTime)]
    pub updated_at: Timestamp,
    pub author: AuthorView,
    pub depth: usize,
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

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = Traversal)]
pub struct TraversalView {
    /// By depth, then by id.
    pub nodes: Vec<NodeView>,
    /// By id, and only between returned nodes.
    pub edges: Vec<RelationshipView>,
    /// A cap cut the answer.
    pub truncated: bool,
}

impl From<Subgraph> for TraversalView {
    fn from(subgraph: Subgraph) -> Self {
        Self {
            nodes: subgraph.nodes.into_iter().map(NodeView::from).collect(),
            edges: subgraph.edges.into_iter().map(RelationshipView::from).collect(),
            truncated: subgraph.truncated,
        }
    }
}

/// The schema of [`FindPath`] repeats this value.
const DEFAULT_PATH_DEPTH: usize = 8;

/// Two objects, and what may lie between them.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct FindPath {
    /// An object, by its id or as `Type/key`.
    #[schema(value_type = schema::ObjectRef)]
    pub from_id: ObjectRef,
    #[schema(value_type = schema::ObjectRef)]
    pub to_id: ObjectRef,
    #[serde(default)]
    #[schema(value_type = schema::Direction)]
    pub direction: Direction,
    #[serde(default)]
    #[schema(max_items = 100)]
    pub relationship_types: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0, maximum = 16, default = 8)]
    pub max_depth: Option<usize>,
    /// The graph as it was at that moment. A key names the object that had it then.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub as_of: Option<Timestamp>,
}

impl FindPath {
    /// The query between the objects that the references stand for.
    pub fn into_query(self, from: ObjectId, to: ObjectId) -> PathQuery {
        PathQuery {
            from,
            to,
            direction: self.direction,
            relationship_types: self.relationship_types,
            max_depth: self.max_depth.unwrap_or(DEFAULT_PATH_DEPTH),
            as_of: self.as_of,
        }
    }
}

/// The shortest path from one object to the other.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = ShortestPath)]
pub struct PathView {
    /// False when there is no path within the depth; then both lists are empty.
    pub found: bool,
    pub objects: Vec<ObjectView>,
    /// Each joins an object with the next.
    pub edges: Vec<RelationshipView>,
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

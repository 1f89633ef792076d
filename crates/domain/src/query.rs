//! Queries over the graph. The HTTP API and the tools build the same values.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::{
    dates::DateMatch,
    filter::Filter,
    fusion::Weights,
    ids::ObjectId,
    invalid::Invalid,
    object::{Object, check_chars, check_type},
    relationship::Relationship,
    time::Timestamp,
};

/// Selects objects. An object must satisfy every part that is set.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ObjectFilter {
    /// The object has one of these types. Empty means any type.
    pub types: Vec<String>,
    /// The object has none of these types.
    pub excluded_types: Vec<String>,
    /// The object has all of these labels.
    pub labels: Vec<String>,
    pub status: Option<String>,
    pub key: Option<String>,
    pub filters: Vec<Filter>,
}

impl ObjectFilter {
    /// Leaves out the [`SYSTEM_TYPES`]. A filter that names types is not changed.
    #[must_use]
    pub fn without_system_types(mut self) -> Self {
        if self.types.is_empty() {
            self.excluded_types.extend(SYSTEM_TYPES.map(str::to_owned));
        }
        self
    }

    pub fn check(&self) -> Result<(), Invalid> {
        for (index, type_) in self.types.iter().enumerate() {
            check_type(type_).map_err(|problem| {
                Invalid::new(format!("types[{index}]"), problem.problems[0].reason.clone())
            })?;
        }
        if self.types.len() > 100 || self.labels.len() > 64 || self.filters.len() > 32 {
            return Err(Invalid::new("filters", "at most 100 types, 64 labels and 32 property filters"));
        }
        for (index, label) in self.labels.iter().enumerate() {
            check_chars(&format!("labels[{index}]"), label)?;
        }
        for (field, text) in [("status", &self.status), ("key", &self.key)] {
            check_chars(field, text.as_deref().unwrap_or_default())?;
        }
        for (index, filter) in self.filters.iter().enumerate() {
            filter.check().map_err(|problem| problem.prefixed(&format!("filters[{index}]")))?;
        }
        Ok(())
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SearchMode {
    #[default]
    Hybrid,
    Text,
    Vector,
    /// Hybrid, and then the texts that share a name with the best hits.
    Linked,
    /// Linked if the question names one of the hits of a hybrid search, otherwise exactly hybrid.
    Auto,
}

impl SearchMode {
    pub const ALL: [Self; 5] = [Self::Hybrid, Self::Text, Self::Vector, Self::Linked, Self::Auto];
}

/// The types in which the server keeps account of its work: tasks, the sessions of their attempts, and
/// discussions. A search leaves them out unless it asks for them, because they repeat what the other objects
/// say.
pub const SYSTEM_TYPES: [&str; 5] =
    [crate::task::TASK_TYPE, "Session", "SessionMessage", "Discussion", "DiscussionEntry"];

#[derive(Debug, Clone, PartialEq)]
pub struct SearchQuery {
    pub query: String,
    pub mode: SearchMode,
    pub filter: ObjectFilter,
    /// Whether objects of the [`SYSTEM_TYPES`] can be found. A type that the filter names is found anyway.
    pub include_system: bool,
    /// Hits of the vector channel with a lower cosine are dropped. `None` means the value of the embedder.
    pub min_similarity: Option<f64>,
    pub limit: usize,
    /// The weights of rank fusion. `None` joins the channels by their scores, with the weight of the embedder.
    pub weights: Option<Weights>,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct ChannelHit {
    /// The rank within the channel; 1 is the best.
    pub rank: usize,
    pub score: f64,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Hit<T> {
    pub item: T,
    pub score: f64,
    pub text: Option<ChannelHit>,
    pub vector: Option<ChannelHit>,
    /// The link that raised the hit; only in the mode [`SearchMode::Linked`].
    pub link: Option<HitLink>,
    /// The date of the hit that matches the question; only if the question names one.
    pub date: Option<DateMatch>,
    /// The parent by which the hits are grouped, or the hit itself if it has none; see [`crate::arrangement`].
    pub group: Option<Uuid>,
}

/// A name that a hit shares with one of the best hits of the plain search.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct HitLink {
    /// The id of that object or chunk.
    pub from: Uuid,
    /// The name in lower case.
    pub name: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EmbeddingUse {
    Used,
    /// There is no embedder, or it failed, so only the text channel contributed.
    Unavailable,
}

#[derive(Debug, Clone, PartialEq)]
pub struct SearchResult<T> {
    pub hits: Vec<Hit<T>>,
    /// `None` if the search had no use for an embedding, because it is by text only.
    pub embedding: Option<EmbeddingUse>,
    /// Further hits were left out, because the result would be too large or they do not fit into the budget.
    pub truncated: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    Out,
    In,
    #[default]
    Both,
}

/// A breadth-first traversal from a set of objects.
#[derive(Debug, Clone, PartialEq)]
pub struct TraverseQuery {
    pub start: Vec<ObjectId>,
    pub direction: Direction,
    pub max_depth: usize,
    /// Only edges of these types are followed and returned. Empty means any type.
    pub relationship_types: Vec<String>,
    /// Only objects of these types are returned and expanded. Empty means any type. The start
    /// objects are returned regardless of their type.
    pub object_types: Vec<String>,
    pub max_nodes: usize,
    pub max_edges: usize,
    /// Traverses the graph as it was at this time.
    pub as_of: Option<Timestamp>,
}

impl TraverseQuery {
    pub const MAX_DEPTH: usize = 16;
    pub const MAX_NODES: usize = 10_000;
    pub const MAX_EDGES: usize = 50_000;
    pub const MAX_START: usize = 100;

    pub fn check(&self) -> Result<(), Invalid> {
        let range = |field: &str, value: usize, from: usize, to: usize| {
            if (from..=to).contains(&value) {
                Ok(())
            } else {
                Err(Invalid::new(field, format!("must be {from} to {to}")))
            }
        };
        range("startIds", self.start.len(), 1, Self::MAX_START)?;
        range("maxDepth", self.max_depth, 0, Self::MAX_DEPTH)?;
        range("maxNodes", self.max_nodes, 1, Self::MAX_NODES)?;
        range("maxEdges", self.max_edges, 0, Self::MAX_EDGES)?;
        range("relationshipTypes", self.relationship_types.len(), 0, 100)?;
        range("objectTypes", self.object_types.len(), 0, 100)?;
        check_types("relationshipTypes", &self.relationship_types)?;
        check_types("objectTypes", &self.object_types)
    }
}

/// Validates type names of a query. Any name is allowed if the database can represent it.
pub fn check_types(field: &str, types: &[String]) -> Result<(), Invalid> {
    types.iter().enumerate().try_for_each(|(index, type_)| check_chars(&format!("{field}[{index}]"), type_))
}

#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    pub object: Object,
    pub depth: usize,
}

/// Nodes are sorted by depth and then by id. Edges are sorted by id, and only edges between
/// returned nodes are included.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Subgraph {
    pub nodes: Vec<Node>,
    pub edges: Vec<Relationship>,
    /// True if a limit truncated the result.
    pub truncated: bool,
}

/// Requests the shortest path between two objects.
#[derive(Debug, Clone, PartialEq)]
pub struct PathQuery {
    pub from: ObjectId,
    pub to: ObjectId,
    pub direction: Direction,
    pub relationship_types: Vec<String>,
    pub max_depth: usize,
    pub as_of: Option<Timestamp>,
}

/// The objects from start to end, and the edges between consecutive objects. Among equally short
/// paths, the one with the smallest ids is returned.
#[derive(Debug, Clone, PartialEq)]
pub struct FoundPath {
    pub objects: Vec<Object>,
    pub edges: Vec<Relationship>,
}

//! Searches for objects and chunks, and their results.

use emergent_domain::{
    document::Chunk,
    filter::{Filter, Op},
    object::Object,
    query::{ChannelHit, EmbeddingUse, Hit, SearchMode, SearchResult},
};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;
use uuid::Uuid;

use crate::{document::ChunkView, fields, object::ObjectView, schema};

/// What to look for, and where.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SearchObjects {
    /// Words, `"phrases"`, `prefix*` and `-exclusions`; anything else is taken as text.
    #[schema(max_length = 2500)]
    pub query: String,
    #[serde(default)]
    #[schema(value_type = schema::SearchMode)]
    pub mode: SearchMode,
    /// Any of these types; empty is every type.
    #[serde(default)]
    #[schema(max_items = 100)]
    pub types: Vec<String>,
    /// Whether tasks, sessions, messages and discussions are found as well. A type that `types` names is
    /// found anyway.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub include_system: bool,
    /// Drops hits of the vector channel below this cosine [default: the value of the embedder].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = -1, maximum = 1)]
    pub min_similarity: Option<f64>,
    /// All of these labels.
    #[serde(default)]
    #[schema(max_items = 64)]
    pub labels: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<String>,
    #[serde(default, deserialize_with = "fields::map_list")]
    #[schema(value_type = Vec<FilterView>, max_items = 32)]
    pub filters: Vec<Filter>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 100, default = 10)]
    pub limit: Option<i64>,
    #[serde(default, deserialize_with = "fields::optional_map", skip_serializing_if = "Option::is_none")]
    pub weights: Option<WeightsInput>,
}

/// How much each channel counts in a hybrid search.
#[derive(Debug, Clone, Copy, Serialize, Deserialize, ToSchema)]
#[schema(as = WeightsBody)]
#[serde(deny_unknown_fields)]
pub struct WeightsInput {
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0)]
    pub text: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0)]
    pub vector: Option<f64>,
    /// The larger, the less the very first ranks matter.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0)]
    pub k: Option<f64>,
}

/// One condition on one property.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = Filter)]
pub struct FilterView {
    /// Property names from the outside in, joined with dots.
    #[schema(example = "metrics.calls")]
    pub path: String,
    #[schema(value_type = schema::FilterOp)]
    pub op: Op,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false)]
    pub value: Option<Value>,
}

/// What to look for in documents.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SearchChunks {
    #[schema(max_length = 2500)]
    pub query: String,
    #[serde(default)]
    #[schema(value_type = schema::SearchMode)]
    pub mode: SearchMode,
    /// Only in this document.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub document_id: Option<Uuid>,
    /// Drops hits of the vector channel below this cosine [default: the value of the embedder for passages].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = -1, maximum = 1)]
    pub min_similarity: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 100, default = 10)]
    pub limit: Option<i64>,
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = SearchResult)]
pub struct SearchView {
    /// The best first.
    pub hits: Vec<HitView>,
    /// Absent if the search is by text only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::EmbeddingUse>)]
    pub embedding: Option<EmbeddingUse>,
    /// Present and true if further hits were left out, because the result would have more than 8 MiB.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub truncated: bool,
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = Hit)]
pub struct HitView {
    pub object: ObjectView,
    pub score: f64,
    pub channels: Channels,
}

/// Where each channel had it.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct Channels {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<Channel>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vector: Option<Channel>,
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct Channel {
    /// 1 is the best.
    pub rank: u64,
    /// The channel's own measure, not comparable with the other's.
    pub score: f64,
}

impl From<ChannelHit> for Channel {
    fn from(hit: ChannelHit) -> Self {
        Self { rank: hit.rank as u64, score: hit.score }
    }
}

impl From<SearchResult<Object>> for SearchView {
    fn from(result: SearchResult<Object>) -> Self {
        let hit_view = |hit: Hit<Object>| HitView {
            object: hit.item.into(),
            score: hit.score,
            channels: Channels { text: hit.text.map(Into::into), vector: hit.vector.map(Into::into) },
        };
        Self {
            hits: result.hits.into_iter().map(hit_view).collect(),
            embedding: result.embedding,
            truncated: result.truncated,
        }
    }
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = ChunkSearchResult)]
pub struct ChunkSearchView {
    pub hits: Vec<ChunkHitView>,
    /// Absent if the search is by text only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::EmbeddingUse>)]
    pub embedding: Option<EmbeddingUse>,
    /// Present and true if further hits were left out, because the result would have more than 8 MiB.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub truncated: bool,
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = ChunkHit)]
pub struct ChunkHitView {
    pub chunk: ChunkView,
    pub score: f64,
    pub channels: Channels,
}

impl From<SearchResult<Chunk>> for ChunkSearchView {
    fn from(result: SearchResult<Chunk>) -> Self {
        let hit_view = |hit: Hit<Chunk>| ChunkHitView {
            chunk: hit.item.into(),
            score: hit.score,
            channels: Channels { text: hit.text.map(Into::into), vector: hit.vector.map(Into::into) },
        };
        Self {
            hits: result.hits.into_iter().map(hit_view).collect(),
            embedding: result.embedding,
            truncated: result.truncated,
        }
    }
}

use emergent_domain::{
    document::Chunk,
    filter::{Filter, Op},
    fusion::Weights,
    ids::DocumentId,
    object::Object,
    query::{ChannelHit, EmbeddingUse, Hit, ObjectFilter, SearchMode, SearchQuery, SearchResult},
};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;
use uuid::Uuid;

use super::{document::ChunkView, object::ObjectView};
use crate::{ApiError, extract::fields};

const DEFAULT_LIMIT: i64 = 10;
const MAX_LIMIT: i64 = 100;
/// Characters: a query is what a person asks, not a document.
const MAX_QUERY_CHARS: usize = 2_500;

/// What to look for, and where.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct SearchObjects {
    /// Words, `"phrases"`, `prefix*` and `-exclusions`; anything else is taken as text.
    #[schema(max_length = 2500)]
    query: String,
    #[serde(default)]
    #[schema(value_type = SearchModeView)]
    mode: SearchMode,
    /// Any of these types; empty is every type.
    #[serde(default)]
    #[schema(max_items = 100)]
    types: Vec<String>,
    /// All of these labels.
    #[serde(default)]
    #[schema(max_items = 64)]
    labels: Vec<String>,
    status: Option<String>,
    #[serde(default, deserialize_with = "fields::map_list")]
    #[schema(value_type = Vec<FilterView>, max_items = 32)]
    filters: Vec<Filter>,
    #[schema(minimum = 1, maximum = 100, default = 10)]
    limit: Option<i64>,
    #[serde(default, deserialize_with = "fields::optional_map")]
    weights: Option<WeightsInput>,
}

/// How much each channel counts in a hybrid search.
#[derive(Debug, Clone, Copy, Deserialize, ToSchema)]
#[schema(as = WeightsBody)]
#[serde(deny_unknown_fields)]
pub(crate) struct WeightsInput {
    #[schema(minimum = 0)]
    text: Option<f64>,
    #[schema(minimum = 0)]
    vector: Option<f64>,
    /// The larger, the less the very first ranks matter.
    #[schema(minimum = 0)]
    k: Option<f64>,
}

#[derive(ToSchema)]
#[schema(as = SearchMode, rename_all = "lowercase")]
#[allow(dead_code, reason = "describes the domain's type")]
pub(crate) enum SearchModeView {
    Hybrid,
    Text,
    Vector,
}

/// One condition on one property.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = Filter)]
#[allow(dead_code, reason = "describes the domain's type")]
pub(crate) struct FilterView {
    /// Property names from the outside in, joined with dots.
    #[schema(example = "metrics.calls")]
    path: String,
    #[schema(value_type = OpView)]
    op: Op,
    #[schema(required = false)]
    value: Option<Value>,
}

#[derive(ToSchema)]
#[schema(as = FilterOp, rename_all = "lowercase")]
#[allow(dead_code, reason = "describes the domain's type")]
pub(crate) enum OpView {
    Eq,
    Ne,
    Lt,
    Lte,
    Gt,
    Gte,
    In,
    Contains,
    Exists,
}

impl TryFrom<SearchObjects> for SearchQuery {
    type Error = ApiError;
    fn try_from(body: SearchObjects) -> Result<Self, ApiError> {
        let filter = ObjectFilter {
            types: body.types,
            labels: body.labels,
            status: body.status,
            key: None,
            filters: body.filters,
        };
        filter.check()?;
        check_query(&body.query)?;
        Ok(Self {
            query: body.query,
            mode: body.mode,
            filter,
            limit: parse_limit(body.limit)?,
            weights: parse_weights(body.weights)?,
        })
    }
}

fn check_query(query: &str) -> Result<(), ApiError> {
    let long = query.chars().count();
    if long > MAX_QUERY_CHARS {
        let reason = format!("has {long} characters, more than the limit of {MAX_QUERY_CHARS}");
        return Err(ApiError::invalid("query", reason));
    }
    Ok(())
}

pub(crate) fn parse_limit(limit: Option<i64>) -> Result<usize, ApiError> {
    usize::try_from(limit.unwrap_or(DEFAULT_LIMIT))
        .ok()
        .filter(|limit| (1..=MAX_LIMIT as usize).contains(limit))
        .ok_or_else(|| ApiError::invalid("limit", format!("must be 1 to {MAX_LIMIT}")))
}

fn parse_weights(given: Option<WeightsInput>) -> Result<Weights, ApiError> {
    let usual = Weights::default();
    let Some(given) = given else { return Ok(usual) };
    let weights = Weights::new(
        given.text.unwrap_or(usual.text()),
        given.vector.unwrap_or(usual.vector()),
        given.k.unwrap_or(usual.k()),
    );
    weights.map_err(|invalid| invalid.prefixed("weights").into())
}

/// What to look for in documents.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct SearchChunks {
    #[schema(max_length = 2500)]
    pub query: String,
    #[serde(default)]
    #[schema(value_type = SearchModeView)]
    pub mode: SearchMode,
    /// Only in this document.
    pub document_id: Option<Uuid>,
    #[schema(minimum = 1, maximum = 100, default = 10)]
    pub limit: Option<i64>,
}

impl SearchChunks {
    pub(crate) fn into_parts(self) -> Result<(String, SearchMode, usize, Option<DocumentId>), ApiError> {
        check_query(&self.query)?;
        Ok((self.query, self.mode, parse_limit(self.limit)?, self.document_id.map(DocumentId)))
    }
}

#[derive(Serialize, ToSchema)]
#[schema(as = SearchResult)]
pub(crate) struct SearchView {
    /// The best first.
    hits: Vec<HitView>,
    #[schema(value_type = EmbeddingUseView)]
    embedding: EmbeddingUse,
}

/// Whether vectors took part. `unavailable`: there is no embedder, or it could not answer.
#[derive(ToSchema)]
#[schema(as = EmbeddingUse, rename_all = "lowercase")]
#[allow(dead_code, reason = "describes the domain's type")]
pub(crate) enum EmbeddingUseView {
    Used,
    Unavailable,
}

#[derive(Serialize, ToSchema)]
#[schema(as = Hit)]
pub(crate) struct HitView {
    object: ObjectView,
    score: f64,
    channels: Channels,
}

/// Where each channel had it.
#[derive(Serialize, ToSchema)]
pub(crate) struct Channels {
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Channel>)]
    text: Option<ChannelHit>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Channel>)]
    vector: Option<ChannelHit>,
}

#[derive(ToSchema)]
#[allow(dead_code, reason = "describes the domain's type")]
pub(crate) struct Channel {
    /// 1 is the best.
    rank: u64,
    /// The channel's own measure, not comparable with the other's.
    score: f64,
}

impl From<SearchResult<Object>> for SearchView {
    fn from(found: SearchResult<Object>) -> Self {
        let view = |hit: Hit<Object>| HitView {
            object: hit.item.into(),
            score: hit.score,
            channels: Channels { text: hit.text, vector: hit.vector },
        };
        Self { hits: found.hits.into_iter().map(view).collect(), embedding: found.embedding }
    }
}

#[derive(Serialize, ToSchema)]
#[schema(as = ChunkSearchResult)]
pub(crate) struct ChunkSearchView {
    hits: Vec<ChunkHitView>,
    #[schema(value_type = EmbeddingUseView)]
    embedding: EmbeddingUse,
}

#[derive(Serialize, ToSchema)]
#[schema(as = ChunkHit)]
pub(crate) struct ChunkHitView {
    chunk: ChunkView,
    score: f64,
    channels: Channels,
}

impl From<SearchResult<Chunk>> for ChunkSearchView {
    fn from(found: SearchResult<Chunk>) -> Self {
        let view = |hit: Hit<Chunk>| ChunkHitView {
            chunk: hit.item.into(),
            score: hit.score,
            channels: Channels { text: hit.text, vector: hit.vector },
        };
        Self { hits: found.hits.into_iter().map(view).collect(), embedding: found.embedding }
    }
}

//! Searches for objects and chunks, and their results.

use emergent_domain::{
    dates::DateMatch,
    document::Chunk,
    filter::{Filter, Op},
    object::Object,
    query::{ChannelHit, Direction, EmbeddingUse, Hit, HitLink, SearchMode, SearchResult},
    time::Timestamp,
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
    #[schema(minimum = 1, maximum = 1000, default = 10)]
    pub limit: Option<i64>,
    /// Joins the two searches by ranks with these weights [default: by scores, with the weight of the embedder].
    #[serde(default, deserialize_with = "fields::optional_map", skip_serializing_if = "Option::is_none")]
    pub weights: Option<WeightsInput>,
    /// Whether hits say which of their dates matches and, in the mode `linked`, through which name they were found.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub explain: bool,
    /// Puts the hits with the same parent together. The groups are in the order of their best hits.
    #[serde(default, deserialize_with = "fields::optional_map", skip_serializing_if = "Option::is_none")]
    pub group: Option<GroupInput>,
    /// Returns only the first hits whose properties have so many tokens together, at least one hit. A token is counted
    /// as four bytes. Without `limit`, up to 1,000 hits are searched for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 1000000)]
    pub budget_tokens: Option<i64>,
}

/// The relationship that leads from a hit to its parent, such as from a message to its session.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = GroupBy)]
pub struct GroupInput {
    /// The type of the relationship. Of several, the oldest one counts; a hit without one is its own parent.
    #[schema(example = "part_of")]
    pub relationship: String,
    /// `out` if the relationship starts at the hit, `in` if it ends there [default: `out`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::Direction>)]
    pub direction: Option<Direction>,
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
    #[schema(minimum = 1, maximum = 1000, default = 10)]
    pub limit: Option<i64>,
    /// Whether hits say which of their dates matches and, in the mode `linked`, through which name they were found.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub explain: bool,
    /// Puts the passages of each document together. The documents are in the order of their best passages.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<ChunkGroup>,
    /// Returns only the first passages whose texts have so many tokens together, at least one passage. A token is
    /// counted as four bytes. Without `limit`, up to 1,000 passages are searched for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 1000000)]
    pub budget_tokens: Option<i64>,
}

/// By what passages are grouped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum ChunkGroup {
    Document,
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
    /// Present and true if further hits were left out, because the result would have more than 8 MiB or more than
    /// `budgetTokens`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub truncated: bool,
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = Hit)]
pub struct HitView {
    pub object: ObjectView,
    pub score: f64,
    pub channels: Channels,
    /// With `group`: the id of the parent, or of the object itself if it has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<Uuid>,
}

/// Where each channel had it.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct Channels {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<Channel>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vector: Option<Channel>,
    /// With `explain` in the mode `linked`: what raised the hit, if not its words or its vector.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link: Option<LinkView>,
    /// With `explain`, if the question names a date: which date of the hit matches.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub date: Option<DateView>,
}

impl Channels {
    fn remove_explanations(&mut self) {
        self.link = None;
        self.date = None;
    }
}

/// A name that a hit shares with one of the best hits.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = Link)]
pub struct LinkView {
    /// The id of that object or chunk.
    pub from: Uuid,
    /// The name in lower case.
    #[schema(example = "ada lovelace")]
    pub name: String,
}

impl From<HitLink> for LinkView {
    fn from(link: HitLink) -> Self {
        Self { from: link.from, name: link.name }
    }
}

/// A date of a hit that lies in a period which the question names.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = DateMatch)]
pub struct DateView {
    /// The property that has the date, or `createdAt`. For passages, it is one of the document.
    #[schema(example = "validFrom")]
    pub property: String,
    /// The beginning of the period of the question; absent if it is open, as for `before 2020`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub from: Option<Timestamp>,
    /// The first moment after the period; absent if it is open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub to: Option<Timestamp>,
}

impl From<DateMatch> for DateView {
    fn from(date: DateMatch) -> Self {
        Self { property: date.property, from: date.period.from, to: date.period.to }
    }
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

impl SearchView {
    /// The result of a search that did not ask for explanations.
    #[must_use]
    pub fn without_explanations(mut self) -> Self {
        self.hits.iter_mut().for_each(|hit| hit.channels.remove_explanations());
        self
    }
}

impl From<SearchResult<Object>> for SearchView {
    fn from(result: SearchResult<Object>) -> Self {
        let hit_view = |hit: Hit<Object>| HitView {
            object: hit.item.into(),
            score: hit.score,
            channels: Channels {
                text: hit.text.map(Into::into),
                vector: hit.vector.map(Into::into),
                link: hit.link.map(Into::into),
                date: hit.date.map(Into::into),
            },
            group: hit.group,
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
    /// Present and true if further hits were left out, because the result would have more than 8 MiB or more than
    /// `budgetTokens`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub truncated: bool,
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = ChunkHit)]
pub struct ChunkHitView {
    pub chunk: ChunkView,
    pub score: f64,
    pub channels: Channels,
    /// The title of the document. Absent if the document was deleted in the meantime.
    #[serde(rename = "documentTitle", default, skip_serializing_if = "Option::is_none")]
    pub document_title: Option<String>,
    /// With `group`: the id of the document.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<Uuid>,
}

impl ChunkSearchView {
    /// Like [`SearchView::without_explanations`].
    #[must_use]
    pub fn without_explanations(mut self) -> Self {
        self.hits.iter_mut().for_each(|hit| hit.channels.remove_explanations());
        self
    }
}

impl From<SearchResult<Chunk>> for ChunkSearchView {
    fn from(result: SearchResult<Chunk>) -> Self {
        let hit_view = |hit: Hit<Chunk>| ChunkHitView {
            chunk: hit.item.into(),
            score: hit.score,
            channels: Channels {
                text: hit.text.map(Into::into),
                vector: hit.vector.map(Into::into),
                link: hit.link.map(Into::into),
                date: hit.date.map(Into::into),
            },
            document_title: None,
            group: hit.group,
        };
        Self {
            hits: result.hits.into_iter().map(hit_view).collect(),
            embedding: result.embedding,
            truncated: result.truncated,
        }
    }
}

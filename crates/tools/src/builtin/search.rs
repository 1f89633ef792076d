//! The tools that search objects by words, by meaning, or by both.

use std::sync::Arc;

use emergent_domain::{
    fusion::Weights,
    object::Object,
    query::{EmbeddingUse, Hit, SearchMode, SearchQuery, SearchResult},
};
use emergent_graph::Error;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{
    define::read_tool,
    input::{Count, ObjectFilterInput, OneOf},
    reference::ObjectRef,
    view::FieldSelection,
};
use crate::{Tool, ToolContext, ToolError};

pub(super) fn tools() -> Vec<Arc<dyn Tool>> {
    vec![
        read_tool(
            "entities_search",
            "Finds entities by words and meaning; the first choice if you know no id or key. For exact conditions alone use \
             entities_query. Returns `hits`, best first.",
            |context, input: SearchInput| {
                search(context, input.text, input.filter, input.mode, Weights::default())
            },
        ),
        read_tool(
            "search_hybrid",
            "Finds entities by words and meaning at once, for when the wording may differ from yours. Returns `hits`, best first.",
            |context, input: HybridInput| async move {
                let HybridInput { text, filter, text_weight, vector_weight } = input;
                let weights =
                    Weights::new(text_weight, vector_weight, Weights::default().k()).map_err(|invalid| {
                        ToolError::Refused(format!("`textWeight` and `vectorWeight` do not fit: {invalid}"))
                    })?;
                search(context, text, filter, SearchMode::Hybrid, weights).await
            },
        ),
        read_tool(
            "search_semantic",
            "Finds entities by meaning only, also in other words. If `embedding` is `unavailable`, use search_fts. Returns `hits`, best first.",
            |context, input: PlainInput| {
                search(context, input.text, input.filter, SearchMode::Vector, Weights::default())
            },
        ),
        read_tool(
            "search_fts",
            "Finds entities by words only: names and exact terms. Returns `hits`, best first.",
            |context, input: PlainInput| {
                search(context, input.text, input.filter, SearchMode::Text, Weights::default())
            },
        ),
        read_tool(
            "search_similar",
            "Finds the entities closest in meaning to a given one. Returns `hits`, best first.",
            similar,
        ),
    ]
}

/// What to search for; flattened into the input of each search.
#[derive(Deserialize, JsonSchema)]
struct TextInput {
    /// Words, "exact phrases", prefix* and -without.
    #[schemars(length(min = 1, max = 2_500))]
    query: String,
    /// Number of hits.
    #[serde(default)]
    limit: Count<10, 1, 100>,
    /// Also tasks, sessions, messages and discussions.
    #[serde(default, rename = "includeSystem")]
    include_system: bool,
    /// Drops matches by meaning below this cosine.
    #[serde(default, rename = "minSimilarity")]
    #[schemars(range(min = -1, max = 1))]
    min_similarity: Option<f64>,
    #[serde(default)]
    fields: FieldSelection,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(example = example())]
struct SearchInput {
    #[serde(flatten)]
    text: TextInput,
    #[serde(flatten)]
    filter: ObjectFilterInput,
    /// `text`: by words; `vector`: by meaning.
    #[serde(default)]
    #[schemars(with = "OneOf<SearchMode>")]
    mode: SearchMode,
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct HybridInput {
    #[serde(flatten)]
    text: TextInput,
    #[serde(flatten)]
    filter: ObjectFilterInput,
    /// Weight of matching words.
    #[serde(default = "default_weight")]
    #[schemars(range(min = 0))]
    text_weight: f64,
    /// Weight of close meaning.
    #[serde(default = "default_weight")]
    #[schemars(range(min = 0))]
    vector_weight: f64,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(example = example())]
struct PlainInput {
    #[serde(flatten)]
    text: TextInput,
    #[serde(flatten)]
    filter: ObjectFilterInput,
}

fn example() -> Value {
    json!({ "query": "login with a token", "limit": 5, "fields": ["key", "title"] })
}

fn default_weight() -> f64 {
    1.0
}

async fn search(
    context: ToolContext,
    text: TextInput,
    filter: ObjectFilterInput,
    mode: SearchMode,
    weights: Weights,
) -> Result<Value, ToolError> {
    let TextInput { query, limit, include_system, min_similarity, fields } = text;
    let query = SearchQuery {
        query,
        mode,
        filter: filter.into(),
        include_system,
        min_similarity,
        limit: limit.get(),
        weights,
    };
    let result = context.graph.search(context.project, query).await?;
    Ok(hits_json(&result, mode, &fields))
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct SimilarInput {
    /// Id or `Type/key`.
    id: ObjectRef,
    /// Number of hits.
    #[serde(default)]
    limit: Count<10, 1, 100>,
    /// Leaves out entities below this cosine.
    #[serde(default, rename = "minSimilarity")]
    #[schemars(range(min = -1, max = 1))]
    min_similarity: Option<f64>,
    #[serde(flatten)]
    filter: ObjectFilterInput,
    #[serde(default)]
    fields: FieldSelection,
}

async fn similar(context: ToolContext, input: SimilarInput) -> Result<Value, ToolError> {
    let id = input.id.resolve_in_read(&context).await?;
    let (limit, min_similarity) = (input.limit.get(), input.min_similarity);
    let result = context.graph.similar(context.project, id, input.filter.into(), limit, min_similarity).await;
    let result = result.map_err(|error| match error {
        Error::NotFound { .. } => input.id.not_found(),
        other => other,
    })?;
    Ok(hits_json(&result, SearchMode::Vector, &input.fields))
}

fn hits_json(result: &SearchResult<Object>, mode: SearchMode, fields: &FieldSelection) -> Value {
    let hits: Vec<Value> =
        result.hits.iter().map(|hit| hit_json(hit, "object", fields.object_json(&hit.item))).collect();
    add_embedding_notice(json!({ "hits": hits }), result.embedding, mode)
}

/// A hit with its item under `name`, its score, and its rank in each search channel.
pub(super) fn hit_json<T>(hit: &Hit<T>, name: &str, item: Value) -> Value {
    let mut channels = Map::new();
    for (channel, rank) in [("text", &hit.text), ("vector", &hit.vector)] {
        if let Some(rank) = rank {
            channels.insert(channel.to_owned(), json!(rank));
        }
    }
    json!({ "score": hit.score, "channels": channels, name: item })
}

/// Adds whether embeddings were used. Without this, a search by meaning that was not possible would look as
/// if nothing matched.
pub(super) fn add_embedding_notice(
    mut answer: Value,
    embedding: Option<EmbeddingUse>,
    mode: SearchMode,
) -> Value {
    let Some(embedding) = embedding else { return answer };
    answer["embedding"] = json!(embedding);
    if embedding == EmbeddingUse::Unavailable {
        answer["note"] = Value::from(match mode {
            SearchMode::Vector => "there is no embedding model that answers: search by words instead",
            SearchMode::Hybrid | SearchMode::Text => {
                "there is no embedding model that answers: these match by words alone"
            }
        });
    }
    answer
}

//! Finding objects: by words, by meaning, or by both.

use std::sync::Arc;

use emergent_domain::{
    filter::Filter,
    fusion::Weights,
    object::Object,
    query::{EmbeddingUse, Hit, ObjectFilter, SearchMode, SearchQuery, SearchResult},
};
use emergent_graph::Error;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{define::read_tool, reference::ObjectRef, schema, view::FieldSelection};
use crate::{Tool, ToolContext, ToolError};

const DEFAULT_LIMIT: usize = 10;
const RETURNS: &str = "Returns `hits`, the best first, each with its `score` and the `object`.";

pub(super) fn tools() -> Vec<Arc<dyn Tool>> {
    let query = json!({
        "query": schema::text(
            "What to look for. Words, \"exact phrases\", prefix* and -without are understood where words count.",
            2_500,
        ),
        "limit": schema::count("How many hits at most:", 1, 100, DEFAULT_LIMIT),
    });
    let common = |more: Value| {
        let mut input = schema::object(
            &["query"],
            schema::merge_properties(
                query.clone(),
                &[more, schema::object_filter(), schema::object_fields()],
            ),
        );
        input["examples"] =
            json!([{ "query": "login with a token", "limit": 5, "fields": ["key", "title"] }]);
        input
    };
    let weight = |of: &str| json!({ "type": "number", "description": format!("How much {of} counts; 1 when absent."), "minimum": 0 });
    vec![
        read_tool(
            "entities_search",
            &format!(
                "Finds entities by what they say, the first choice when you do not know ids or keys. `mode` is `hybrid` \
                 (words and meaning, when absent), `text` or `vector`. Narrow it with `types`, `labels`, `status` and \
                 `filters`; for exact conditions alone use entities_query. {RETURNS}"
            ),
            common(json!({ "mode": {
                "type": "string",
                "description": "By words and meaning, by words only, or by meaning only.",
                "enum": ["hybrid", "text", "vector"],
            }})),
            |context, input: SearchInput| async move {
                let mode = input.mode;
                search(context, input, mode).await
            },
        ),
        read_tool(
            "search_hybrid",
            &format!(
                "Searches entities by words and by meaning at once, and joins both rankings. Use it when the wording \
                 may differ from yours. {RETURNS}"
            ),
            common(json!({
                "textWeight": weight("the match of words"),
                "vectorWeight": weight("the nearness in meaning"),
            })),
            |context, input| search(context, input, SearchMode::Hybrid),
        ),
        read_tool(
            "search_semantic",
            &format!(
                "Searches entities by meaning alone: finds what says the same in other words. Without an embedding \
                 model `embedding` is `unavailable` and there are no hits; then use search_fts. {RETURNS}"
            ),
            common(json!({})),
            |context, input| search(context, input, SearchMode::Vector),
        ),
        read_tool(
            "search_fts",
            &format!(
                "Searches entities by their words alone: names, exact terms, \"phrases\", prefix* and -without. \
                 {RETURNS}"
            ),
            common(json!({})),
            |context, input| search(context, input, SearchMode::Text),
        ),
        read_tool(
            "search_similar",
            &format!(
                "Finds the entities nearest in meaning to one that you know, itself left out. {RETURNS}"
            ),
            schema::object(
                &["id"],
                schema::merge_properties(
                    json!({
                        "id": schema::object_ref("The entity to compare with"),
                        "limit": schema::count("How many hits at most:", 1, 100, DEFAULT_LIMIT),
                    }),
                    &[schema::object_filter(), schema::object_fields()],
                ),
            ),
            similar,
        ),
    ]
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SearchInput {
    query: String,
    #[serde(default)]
    mode: SearchMode,
    text_weight: Option<f64>,
    vector_weight: Option<f64>,
    limit: Option<usize>,
    #[serde(flatten)]
    among: FilterInput,
    #[serde(default)]
    fields: FieldSelection,
}

#[derive(Deserialize)]
struct FilterInput {
    #[serde(default)]
    types: Vec<String>,
    #[serde(default)]
    labels: Vec<String>,
    status: Option<String>,
    #[serde(default)]
    filters: Vec<Filter>,
}

impl From<FilterInput> for ObjectFilter {
    fn from(among: FilterInput) -> Self {
        let FilterInput { types, labels, status, filters } = among;
        Self { types, labels, status, key: None, filters }
    }
}

async fn search(context: ToolContext, input: SearchInput, mode: SearchMode) -> Result<Value, ToolError> {
    let weights = Weights::default();
    let (text, vector) = (input.text_weight.unwrap_or(1.0), input.vector_weight.unwrap_or(1.0));
    let weights = Weights::new(text, vector, weights.k()).map_err(|invalid| {
        ToolError::Refused(format!("`textWeight` and `vectorWeight` do not fit: {invalid}"))
    })?;
    let limit = input.limit.unwrap_or(DEFAULT_LIMIT);
    let query = SearchQuery { query: input.query, mode, filter: input.among.into(), limit, weights };
    let found = context.graph.search(context.project, query).await?;
    Ok(hits_json(&found, mode, &input.fields))
}

#[derive(Deserialize)]
struct SimilarInput {
    id: ObjectRef,
    limit: Option<usize>,
    #[serde(flatten)]
    among: FilterInput,
    #[serde(default)]
    fields: FieldSelection,
}

async fn similar(context: ToolContext, input: SimilarInput) -> Result<Value, ToolError> {
    let id = input.id.resolve_in_read(&context).await?;
    let limit = input.limit.unwrap_or(DEFAULT_LIMIT);
    let found = context.graph.similar(context.project, id, input.among.into(), limit).await;
    let found = found.map_err(|error| match error {
        Error::NotFound { .. } => input.id.not_found(),
        other => other,
    })?;
    Ok(hits_json(&found, SearchMode::Vector, &input.fields))
}

fn hits_json(found: &SearchResult<Object>, mode: SearchMode, fields: &FieldSelection) -> Value {
    let hits: Vec<Value> =
        found.hits.iter().map(|hit| hit_json(hit, "object", fields.object_json(&hit.item))).collect();
    add_embedding_notice(json!({ "hits": hits }), found.embedding, mode)
}

/// A hit under its name, with its score and where each channel ranked it.
pub(super) fn hit_json<T>(hit: &Hit<T>, name: &str, item: Value) -> Value {
    let mut channels = Map::new();
    for (channel, place) in [("text", &hit.text), ("vector", &hit.vector)] {
        if let Some(place) = place {
            channels.insert(channel.to_owned(), json!(place));
        }
    }
    json!({ "score": hit.score, "channels": channels, name: item })
}

/// Says when the meaning could not be asked for, since no hits would else look like none there are.
pub(super) fn add_embedding_notice(mut answer: Value, embedding: EmbeddingUse, mode: SearchMode) -> Value {
    if mode == SearchMode::Text {
        return answer;
    }
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

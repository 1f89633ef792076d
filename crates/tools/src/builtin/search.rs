//! The tools that search objects by words, by meaning, or by both.

use std::sync::Arc;

use emergent_domain::{
    arrangement::{GroupBy, MAX_BUDGET_TOKENS},
    fusion::Weights,
    object::Object,
    query::{Direction, EmbeddingUse, Hit, SearchMode, SearchQuery, SearchResult},
};
use emergent_graph::{Error, search::MAX_LIMIT};
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
                search(context, input.text, input.filter, input.arrangement, input.mode, None)
            },
        ),
        read_tool(
            "search_hybrid",
            "Finds entities by words and meaning, if their wording may differ from yours. Returns `hits`, best first.",
            |context, input: HybridInput| async move {
                let HybridInput { text, filter, arrangement, text_weight, vector_weight } = input;
                let weights = rank_weights(text_weight, vector_weight)?;
                let mode = if weights.is_some() { SearchMode::Hybrid } else { SearchMode::Auto };
                search(context, text, filter, arrangement, mode, weights).await
            },
        ),
        read_tool(
            "search_linked",
            "Finds entities by words and meaning, and those that share a name with the best: for answers that take several \
             entities. Returns `hits`, best first; `link` says from which entity over which name.",
            |context, input: LinkedInput| {
                search(context, input.text, input.filter, input.arrangement, SearchMode::Linked, None)
            },
        ),
        read_tool(
            "search_semantic",
            "Finds entities by meaning only, in any words. If `embedding` is `unavailable`, use search_fts. Returns `hits`, best first.",
            |context, input: PlainInput| {
                search(
                    context,
                    input.text,
                    input.filter,
                    ArrangementInput::default(),
                    SearchMode::Vector,
                    None,
                )
            },
        ),
        read_tool(
            "search_fts",
            "Finds entities by words only: names and exact terms. Returns `hits`, best first.",
            |context, input: PlainInput| {
                search(context, input.text, input.filter, ArrangementInput::default(), SearchMode::Text, None)
            },
        ),
        read_tool(
            "search_similar",
            "Finds the entities closest in meaning to a given one. Returns `hits`, best first.",
            similar,
        ),
    ]
}

/// The number of hits that a search returns.
pub(super) type HitCount = Count<10, 1, MAX_LIMIT>;

/// The maximum number of hits. With a budget, the budget is the limit unless the input has both, as in the HTTP API.
pub(super) fn hit_limit(limit: Option<HitCount>, budget_tokens: Option<usize>) -> usize {
    match (limit, budget_tokens) {
        (Some(limit), _) => limit.get(),
        (None, Some(_)) => MAX_LIMIT,
        (None, None) => HitCount::default().get(),
    }
}

/// What to search for; flattened into the input of each search.
#[derive(Deserialize, JsonSchema)]
struct TextInput {
    /// Words, "exact phrases", prefix* and -without.
    #[schemars(length(min = 1, max = 2_500))]
    query: String,
    /// Number of hits.
    limit: Option<HitCount>,
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

/// How the hits are returned; flattened into the input of the searches that agents use for questions.
#[derive(Default, Deserialize, JsonSchema)]
struct ArrangementInput {
    /// Keeps hits with the same parent together.
    group: Option<GroupInput>,
    /// Only the first hits whose properties have so many tokens together; `limit` is then 1,000.
    #[serde(default, rename = "budgetTokens")]
    #[schemars(range(min = 1, max = MAX_BUDGET_TOKENS))]
    budget_tokens: Option<usize>,
}

/// The relationship that leads from a hit to its parent.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct GroupInput {
    /// Relationship type, such as `part_of`.
    #[schemars(length(min = 1, max = 128))]
    relationship: String,
    /// `out`: it starts at the hit; `in`: it ends there.
    #[schemars(with = "Option<OneOf<GroupDirection>>")]
    direction: Option<GroupDirection>,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum GroupDirection {
    Out,
    In,
}

impl From<GroupInput> for GroupBy {
    fn from(GroupInput { relationship, direction }: GroupInput) -> Self {
        let direction = match direction {
            Some(GroupDirection::In) => Direction::In,
            Some(GroupDirection::Out) | None => Direction::Out,
        };
        Self { relationship, direction }
    }
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(example = example())]
struct SearchInput {
    #[serde(flatten)]
    text: TextInput,
    #[serde(flatten)]
    filter: ObjectFilterInput,
    #[serde(flatten)]
    arrangement: ArrangementInput,
    /// `text`: by words; `vector`: by meaning; `linked`: also what shares a name with the best hits.
    #[serde(default = "auto_mode")]
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
    #[serde(flatten)]
    arrangement: ArrangementInput,
    /// Weight of matching words. Usually leave out both weights.
    #[serde(default)]
    #[schemars(range(min = 0))]
    text_weight: Option<f64>,
    /// Weight of close meaning.
    #[serde(default)]
    #[schemars(range(min = 0))]
    vector_weight: Option<f64>,
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

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(example = example())]
struct LinkedInput {
    #[serde(flatten)]
    text: TextInput,
    #[serde(flatten)]
    filter: ObjectFilterInput,
    #[serde(flatten)]
    arrangement: ArrangementInput,
}

/// The default mode of the tools, which get questions rather than search terms.
pub(super) fn auto_mode() -> SearchMode {
    SearchMode::Auto
}

fn example() -> Value {
    json!({ "query": "login with a token", "limit": 5, "fields": ["key", "title"] })
}

/// The weights of rank fusion; `None` if the input has none, which joins the searches by scores.
fn rank_weights(text: Option<f64>, vector: Option<f64>) -> Result<Option<Weights>, ToolError> {
    if text.is_none() && vector.is_none() {
        return Ok(None);
    }
    let defaults = Weights::default();
    let (text, vector) = (text.unwrap_or(defaults.text()), vector.unwrap_or(defaults.vector()));
    Weights::new(text, vector, defaults.k()).map(Some).map_err(|invalid| {
        ToolError::Refused(format!("`textWeight` and `vectorWeight` do not fit: {invalid}"))
    })
}

async fn search(
    context: ToolContext,
    text: TextInput,
    filter: ObjectFilterInput,
    arrangement: ArrangementInput,
    mode: SearchMode,
    weights: Option<Weights>,
) -> Result<Value, ToolError> {
    let TextInput { query, limit, include_system, min_similarity, fields } = text;
    let ArrangementInput { group, budget_tokens } = arrangement;
    let query = SearchQuery {
        query,
        mode,
        filter: filter.into(),
        include_system,
        min_similarity,
        limit: hit_limit(limit, budget_tokens),
        weights,
    };
    let (graph, project) = (&context.graph, context.project);
    let result = graph.search(project, query).await?;
    let result = graph.arrange_objects(project, result, group.map(GroupBy::from), budget_tokens).await?;
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
    add_embedding_notice(found_json(hits, result.truncated), result.embedding, mode)
}

/// The hits, and whether there are more that were left out because of their size.
pub(super) fn found_json(hits: Vec<Value>, truncated: bool) -> Value {
    if truncated { json!({ "hits": hits, "truncated": true }) } else { json!({ "hits": hits }) }
}

/// A hit with its item under `name`, its score, and its rank in each search channel.
pub(super) fn hit_json<T>(hit: &Hit<T>, name: &str, item: Value) -> Value {
    let mut channels = Map::new();
    for (channel, rank) in [("text", &hit.text), ("vector", &hit.vector)] {
        if let Some(rank) = rank {
            channels.insert(channel.to_owned(), json!(rank));
        }
    }
    if let Some(link) = &hit.link {
        channels.insert("link".to_owned(), json!(link));
    }
    if let Some(date) = &hit.date {
        channels.insert("date".to_owned(), json!(date));
    }
    let mut view = json!({ "score": hit.score, "channels": channels, name: item });
    if let Some(group) = hit.group {
        view["group"] = json!(group);
    }
    view
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
            SearchMode::Hybrid | SearchMode::Text | SearchMode::Linked | SearchMode::Auto => {
                "there is no embedding model that answers: these match by words alone"
            }
        });
    }
    answer
}

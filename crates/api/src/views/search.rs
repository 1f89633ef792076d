//! Converts and checks search requests.

use emergent_domain::{
    arrangement::{self, GroupBy},
    fusion::Weights,
    ids::DocumentId,
    query::{Direction, ObjectFilter, SearchMode, SearchQuery},
};
pub(crate) use emergent_wire::search::*;

use crate::ApiError;

const DEFAULT_LIMIT: i64 = 10;

const MAX_LIMIT: i64 = emergent_graph::search::MAX_LIMIT as i64;

/// The maximum length of a query, which is a question and not a document.
const MAX_QUERY_CHARS: usize = 2_500;

/// A checked search for objects.
pub(crate) struct ObjectQuery {
    pub query: SearchQuery,
    pub group: Option<GroupBy>,
    pub budget_tokens: Option<usize>,
    pub explain: bool,
}

/// Converts and checks a search for objects.
pub(crate) fn object_query(body: SearchObjects) -> Result<ObjectQuery, ApiError> {
    let filter = ObjectFilter {
        types: body.types,
        labels: body.labels,
        status: body.status,
        filters: body.filters,
        ..ObjectFilter::default()
    };
    filter.check()?;
    check_query(&body.query)?;
    let budget_tokens = parse_budget(body.budget_tokens)?;
    let query = SearchQuery {
        query: body.query,
        mode: body.mode,
        filter,
        include_system: body.include_system,
        min_similarity: body.min_similarity,
        limit: parse_limit_within(budget_tokens, body.limit)?,
        weights: parse_weights(body.weights)?,
    };
    Ok(ObjectQuery { query, group: parse_group(body.group)?, budget_tokens, explain: body.explain })
}

fn parse_group(input: Option<GroupInput>) -> Result<Option<GroupBy>, ApiError> {
    let Some(GroupInput { relationship, direction }) = input else { return Ok(None) };
    let group = GroupBy { relationship, direction: direction.unwrap_or(Direction::Out) };
    group.check()?;
    Ok(Some(group))
}

fn parse_budget(tokens: Option<i64>) -> Result<Option<usize>, ApiError> {
    // A negative number is refused like 0.
    let tokens = tokens.map(|tokens| usize::try_from(tokens).unwrap_or(0));
    arrangement::check_budget(tokens)?;
    Ok(tokens)
}

/// The maximum number of results. With a budget, the budget is the limit unless the request has both.
fn parse_limit_within(budget_tokens: Option<usize>, limit: Option<i64>) -> Result<usize, ApiError> {
    parse_limit(limit.or(budget_tokens.map(|_| MAX_LIMIT)))
}

fn check_query(query: &str) -> Result<(), ApiError> {
    let length = query.chars().count();
    if length > MAX_QUERY_CHARS {
        let reason = format!("has {length} characters, more than the limit of {MAX_QUERY_CHARS}");
        return Err(ApiError::invalid("query", reason));
    }
    Ok(())
}

/// Returns the maximum number of results.
pub(crate) fn parse_limit(limit: Option<i64>) -> Result<usize, ApiError> {
    usize::try_from(limit.unwrap_or(DEFAULT_LIMIT))
        .ok()
        .filter(|limit| (1..=MAX_LIMIT as usize).contains(limit))
        .ok_or_else(|| ApiError::invalid("limit", format!("must be 1 to {MAX_LIMIT}")))
}

/// Without weights, the channels are joined by their scores.
fn parse_weights(input: Option<WeightsInput>) -> Result<Option<Weights>, ApiError> {
    let Some(input) = input else { return Ok(None) };
    let defaults = Weights::default();
    let weights = Weights::new(
        input.text.unwrap_or(defaults.text()),
        input.vector.unwrap_or(defaults.vector()),
        input.k.unwrap_or(defaults.k()),
    );
    weights.map(Some).map_err(|invalid| invalid.prefixed("weights").into())
}

/// A checked search for chunks.
pub(crate) struct ChunkQuery {
    pub query: String,
    pub mode: SearchMode,
    pub limit: usize,
    pub document: Option<DocumentId>,
    pub min_similarity: Option<f64>,
    pub by_document: bool,
    pub budget_tokens: Option<usize>,
    pub explain: bool,
}

/// Checks a search for chunks.
pub(crate) fn chunk_query(body: SearchChunks) -> Result<ChunkQuery, ApiError> {
    check_query(&body.query)?;
    let budget_tokens = parse_budget(body.budget_tokens)?;
    Ok(ChunkQuery {
        query: body.query,
        mode: body.mode,
        limit: parse_limit_within(budget_tokens, body.limit)?,
        document: body.document_id.map(DocumentId),
        min_similarity: body.min_similarity,
        by_document: body.group == Some(ChunkGroup::Document),
        budget_tokens,
        explain: body.explain,
    })
}

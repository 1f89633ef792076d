//! Converts and checks search requests.

use emergent_domain::{
    fusion::Weights,
    ids::DocumentId,
    query::{ObjectFilter, SearchMode, SearchQuery},
};
pub(crate) use emergent_wire::search::*;

use crate::ApiError;

const DEFAULT_LIMIT: i64 = 10;

const MAX_LIMIT: i64 = 100;

/// The maximum length of a query, which is a question and not a document.
const MAX_QUERY_CHARS: usize = 2_500;

/// Converts and checks a search for objects.
pub(crate) fn search_query(body: SearchObjects) -> Result<SearchQuery, ApiError> {
    let filter = ObjectFilter {
        types: body.types,
        labels: body.labels,
        status: body.status,
        filters: body.filters,
        ..ObjectFilter::default()
    };
    filter.check()?;
    check_query(&body.query)?;
    Ok(SearchQuery {
        query: body.query,
        mode: body.mode,
        filter,
        include_system: body.include_system,
        min_similarity: body.min_similarity,
        limit: parse_limit(body.limit)?,
        weights: parse_weights(body.weights)?,
    })
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

fn parse_weights(input: Option<WeightsInput>) -> Result<Weights, ApiError> {
    let defaults = Weights::default();
    let Some(input) = input else { return Ok(defaults) };
    let weights = Weights::new(
        input.text.unwrap_or(defaults.text()),
        input.vector.unwrap_or(defaults.vector()),
        input.k.unwrap_or(defaults.k()),
    );
    weights.map_err(|invalid| invalid.prefixed("weights").into())
}

/// A checked search for chunks.
pub(crate) struct ChunkQuery {
    pub query: String,
    pub mode: SearchMode,
    pub limit: usize,
    pub document: Option<DocumentId>,
    pub min_similarity: Option<f64>,
}

/// Checks a search for chunks.
pub(crate) fn chunk_query(body: SearchChunks) -> Result<ChunkQuery, ApiError> {
    check_query(&body.query)?;
    Ok(ChunkQuery {
        query: body.query,
        mode: body.mode,
        limit: parse_limit(body.limit)?,
        document: body.document_id.map(DocumentId),
        min_similarity: body.min_similarity,
    })
}

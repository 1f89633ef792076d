use emergent_domain::{
    fusion::Weights,
    ids::DocumentId,
    query::{ObjectFilter, SearchMode, SearchQuery},
};
pub(crate) use emergent_wire::search::*;

use crate::ApiError;

const DEFAULT_LIMIT: i64 = 10;

const MAX_LIMIT: i64 = 100;

/// Characters: a query is what a person asks, not a document.
const MAX_QUERY_CHARS: usize = 2_500;

pub(crate) fn search_query(body: SearchObjects) -> Result<SearchQuery, ApiError> {
    let filter = ObjectFilter {
        types: body.types,
        labels: body.labels,
        status: body.status,
        key: None,
        filters: body.filters,
    };
    filter.check()?;
    check_query(&body.query)?;
    Ok(SearchQuery {
        query: body.query,
        mode: body.mode,
        filter,
        limit: parse_limit(body.limit)?,
        weights: parse_weights(body.weights)?,
    })
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

pub(crate) fn chunk_query(
    body: SearchChunks,
) -> Result<(String, SearchMode, usize, Option<DocumentId>), ApiError> {
    check_query(&body.query)?;
    Ok((body.query, body.mode, parse_limit(body.limit)?, body.document_id.map(DocumentId)))
}

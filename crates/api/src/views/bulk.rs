//! Many at once: each item is answered with what was made of it, or with why nothing was.

use emergent_graph as graph;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{object::CreateObject, relationship::CreateRelationship};
use crate::{ApiError, error::FailureBody, extract::fields, limits};

#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct BulkObjects {
    #[serde(deserialize_with = "fields::map_list")]
    #[schema(max_items = 1000)]
    pub objects: Vec<CreateObject>,
    /// All or nothing: the first error refuses every item.
    #[serde(default)]
    pub atomic: bool,
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct BulkRelationships {
    #[serde(deserialize_with = "fields::map_list")]
    #[schema(max_items = 1000)]
    pub relationships: Vec<CreateRelationship>,
    /// All or nothing: the first error refuses every item.
    #[serde(default)]
    pub atomic: bool,
}

pub(crate) fn check_count(field: &str, count: usize) -> Result<(), ApiError> {
    if count > limits::BULK {
        let reason = format!("has {count} items, more than the limit of {} in one request", limits::BULK);
        return Err(ApiError::invalid(field, reason));
    }
    Ok(())
}

/// What was made of an item, or why nothing was.
#[derive(Serialize, ToSchema)]
#[serde(untagged)]
pub(crate) enum BulkItem<T> {
    Made(T),
    Refused(Refused),
}

#[derive(Serialize, ToSchema)]
pub(crate) struct Refused {
    error: FailureBody,
}

impl<T: From<U>, U> From<graph::Result<U>> for BulkItem<T> {
    fn from(outcome: graph::Result<U>) -> Self {
        match outcome {
            Ok(made) => Self::Made(made.into()),
            Err(failure) => Self::Refused(Refused { error: ApiError::from(failure).into_body() }),
        }
    }
}

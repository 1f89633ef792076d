//! Converts the results of bulk requests: each item is the written object or an error.

use emergent_graph as graph;
pub(crate) use emergent_wire::bulk::*;

use super::IntoView;
use crate::{ApiError, limits};

/// Checks the number of items in one request; `field` is the list.
pub(crate) fn check_count(field: &str, count: usize) -> Result<(), ApiError> {
    if count > limits::BULK {
        let reason = format!("has {count} items, more than the limit of {} in one request", limits::BULK);
        return Err(ApiError::invalid(field, reason));
    }
    Ok(())
}

impl<T, U: IntoView<T>> IntoView<BulkItem<T>> for graph::Result<U> {
    fn into_view(self) -> BulkItem<T> {
        match self {
            Ok(written) => BulkItem::Made(written.into_view()),
            Err(failure) => BulkItem::Refused(Refused { error: ApiError::from(failure).into_body() }),
        }
    }
}

//! What clients of `/mcp` are told if the database did not do what they asked for. The limits are those of the other
//! routes, and so are the texts: they say what the caller can do. Everything else is an internal error.

use emergent_graph as graph;
use emergent_mcp::server::Fault;
use emergent_net::errors::error_chain;
use emergent_store as store;
use tracing::warn;

use crate::ApiError;

/// What the model is told about a change that was not made. If the database does not answer, nobody knows whether
/// it was.
pub(super) fn change_failure(error: store::Error) -> Result<String, Fault> {
    match error {
        // The same change would take as long again, so the model has to know how to make it.
        store::Error::TooSlow { limit } => {
            warn!(cause = %error, "a change over MCP was stopped");
            Ok(format!(
                "the change took longer than the limit of {} seconds; it was stopped, and nothing was written: make \
                 it in several smaller calls",
                limit.as_secs_f32()
            ))
        }
        other if is_limit(&other) || is_unavailable(&other) => Ok(ApiError::from(other).message),
        other => Err(Fault::internal(error_chain(&other))),
    }
}

/// What the model is told about a run whose events could not be read. The other texts advise to ask for less, which
/// does not help here.
pub(super) fn follow_failure(error: &store::Error) -> Result<String, Fault> {
    if is_limit(error) || is_unavailable(error) {
        warn!(cause = error_chain(error), "a run could not be followed over MCP");
        return Ok(error.to_string());
    }
    Err(Fault::internal(error_chain(error)))
}

/// The error of a request that is not a call of a tool.
pub(super) fn request_failure(error: impl Into<graph::Error>) -> Fault {
    match error.into() {
        graph::Error::Store(error) if is_limit(&error) => {
            Fault::LimitReached { why: ApiError::from(error).message }
        }
        other => Fault::internal(error_chain(&other)),
    }
}

/// Whether the caller reached a limit, and can ask for less or later.
fn is_limit(error: &store::Error) -> bool {
    matches!(
        error,
        store::Error::TooSlow { .. }
            | store::Error::TooLarge { .. }
            | store::Error::Busy { .. }
            | store::Error::TooManyWrites { .. }
            | store::Error::TooManyRows { .. }
    )
}

/// Whether the database cannot be used at the moment.
fn is_unavailable(error: &store::Error) -> bool {
    matches!(
        error,
        store::Error::Pool(_)
            | store::Error::Closed
            | store::Error::Unresponsive
            | store::Error::StorageFull(_)
            | store::Error::StorageCorrupt(_)
    )
}

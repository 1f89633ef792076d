//! `/api/agents/{agentId}/agui`: external agents for clients of AG-UI. The protocol is in `emergent_surfaces::agui`.

mod frames;
mod results;
mod resume;
mod run;

use emergent_domain::token::Scope::AgentsInvoke;

use crate::{ApiError, access::Routes, endpoint::routes};

pub(super) fn routes() -> Routes {
    Routes::new().starts_and_waits(AgentsInvoke, routes!(run::run))
}

/// Why a request gets no events of a run.
enum Refusal {
    /// The request is answered with an error of HTTP.
    Request(ApiError),
    /// The protocol answers such a request with a stream that ends with `RUN_ERROR`.
    Protocol { code: &'static str, message: String },
}

impl<E: Into<ApiError>> From<E> for Refusal {
    fn from(error: E) -> Self {
        Self::Request(error.into())
    }
}

impl Refusal {
    fn protocol(code: &'static str, message: impl Into<String>) -> Self {
        Self::Protocol { code, message: message.into() }
    }
}

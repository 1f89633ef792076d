//! `/api/graph`: operations on the whole graph.

mod changes;
mod embeddings;
mod search;
mod subgraph;
mod transfer;
mod traverse;

use emergent_domain::token::Scope::{GraphRead, GraphWrite};
use utoipa_axum::routes;

use crate::access::Routes;

pub(super) fn routes() -> Routes {
    Routes::new()
        .scoped(GraphWrite, routes!(subgraph::create))
        .scoped(GraphRead, routes!(search::search))
        .scoped(GraphRead, routes!(traverse::traverse))
        .scoped(GraphRead, routes!(traverse::path))
        .scoped(GraphRead, routes!(changes::follow))
        .scoped(GraphRead, routes!(embeddings::progress))
        .scoped(GraphWrite, routes!(transfer::import))
        .scoped(GraphRead, routes!(transfer::export))
}

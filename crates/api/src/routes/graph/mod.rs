//! `/api/graph`: operations on the whole graph.

mod changes;
mod embeddings;
mod search;
mod subgraph;
mod transfer;
mod traverse;
mod types;

use emergent_domain::token::Scope::{GraphRead, GraphWrite};

use crate::{access::Routes, endpoint::routes, extract::BodyLimits};

pub(super) fn routes() -> Routes {
    let bulk = Routes::new().scoped(GraphWrite, routes!(subgraph::create)).limit_bodies(BodyLimits::BULK);
    let search = Routes::new().scoped(GraphRead, routes!(search::search)).limit_bodies(BodyLimits::SMALL);
    bulk.merge(search)
        .scoped(GraphRead, routes!(traverse::traverse))
        .scoped(GraphRead, routes!(traverse::path))
        .scoped(GraphRead, routes!(changes::follow))
        .scoped(GraphRead, routes!(embeddings::progress))
        .scoped(GraphRead, routes!(types::count))
        .scoped(GraphWrite, routes!(transfer::import))
        .scoped(GraphRead, routes!(transfer::export))
}

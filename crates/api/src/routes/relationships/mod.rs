//! `/api/graph/relationships`: the relationships between objects.

mod change;
mod create;
mod read;

use emergent_domain::token::Scope::{GraphRead, GraphWrite};

use crate::{access::Routes, endpoint::routes, extract::BodyLimits};

pub(super) fn routes() -> Routes {
    Routes::new()
        .scoped(GraphRead, routes!(read::list))
        .scoped(GraphWrite, routes!(create::create))
        .merge(Routes::new().scoped(GraphWrite, routes!(create::bulk)).limit_bodies(BodyLimits::BULK))
        .scoped(GraphRead, routes!(read::get))
        .scoped(GraphWrite, routes!(change::update))
        .scoped(GraphWrite, routes!(change::delete))
        .scoped(GraphWrite, routes!(change::restore))
        .scoped(GraphRead, routes!(read::history))
}

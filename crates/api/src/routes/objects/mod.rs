//! `/api/graph/objects`: the objects of a project.

mod bulk;
mod change;
mod create;
mod read;
mod upsert;

use emergent_domain::token::Scope::{GraphRead, GraphWrite};

use crate::{access::Routes, endpoint::routes, extract::BodyLimits};

pub(super) fn routes() -> Routes {
    Routes::new()
        .scoped(GraphRead, routes!(read::list))
        .scoped(GraphWrite, routes!(create::create))
        .merge(Routes::new().scoped(GraphWrite, routes!(bulk::bulk)).limit_bodies(BodyLimits::BULK))
        .scoped(GraphWrite, routes!(upsert::upsert))
        .scoped(GraphRead, routes!(read::get))
        .scoped(GraphWrite, routes!(change::update))
        .scoped(GraphWrite, routes!(change::delete))
        .scoped(GraphWrite, routes!(change::restore))
        .scoped(GraphRead, routes!(read::history))
        .scoped(GraphRead, routes!(read::edges))
        .scoped(GraphRead, routes!(read::similar))
}

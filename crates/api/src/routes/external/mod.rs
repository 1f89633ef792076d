//! `/api/agents`: agents with external visibility, for callers from outside. The protocols are in `emergent_surfaces`.

mod card;
pub(super) mod invoke;
mod result;

use emergent_domain::token::Scope::AgentsInvoke;

use crate::{access::Routes, endpoint::routes};

pub(super) fn routes() -> Routes {
    Routes::new()
        .public(routes!(card::get))
        .starts_and_waits(AgentsInvoke, routes!(invoke::invoke))
        .waits(AgentsInvoke, routes!(result::get))
        .scoped(AgentsInvoke, routes!(result::follow))
}

//! `/api/admin/agents`: agent definitions, and starting agents. Their runs are in `runs`.

mod change;
mod read;
mod trigger;

use emergent_domain::token::Scope::{AgentsInvoke, AgentsRead, AgentsWrite};

use crate::{access::Routes, endpoint::routes, idempotency::started_run};

pub(super) fn routes() -> Routes {
    Routes::new()
        .scoped(AgentsRead, routes!(read::list))
        .scoped(AgentsWrite, routes!(change::create))
        .scoped(AgentsRead, routes!(read::get))
        .scoped(AgentsRead, routes!(read::history))
        .scoped(AgentsWrite, routes!(change::update))
        .scoped(AgentsWrite, routes!(change::delete))
        .starts_work(AgentsInvoke, routes!(trigger::trigger), started_run)
}

//! `/api/coordination`: workflows, their tasks and discussions, and their budgets.

mod budgets;
mod discussions;
mod dispatch;
mod events;
mod tasks;
mod workflows;

use emergent_domain::token::Scope::{AdminWrite, AgentsInvoke, AgentsRead, ApprovalsDecide};

use crate::{access::Routes, endpoint::routes};

pub(super) fn routes() -> Routes {
    Routes::new()
        .starts_work(AgentsInvoke, routes!(dispatch::dispatch), dispatch::started_workflow)
        .scoped(AgentsRead, routes!(workflows::list))
        .scoped(AgentsRead, routes!(workflows::get))
        .scoped(AgentsRead, routes!(events::follow))
        .scoped(AgentsInvoke, routes!(workflows::cancel))
        .starts_work(AgentsInvoke, routes!(workflows::resume), workflows::resumed_workflow)
        .scoped(AgentsInvoke, routes!(workflows::put_budget))
        .scoped(AgentsRead, routes!(tasks::list))
        .scoped(AgentsRead, routes!(tasks::get))
        .scoped(AgentsInvoke, routes!(tasks::add))
        .scoped(AgentsInvoke, routes!(tasks::retry))
        .scoped(AgentsInvoke, routes!(tasks::reassign))
        .scoped(AgentsInvoke, routes!(tasks::skip))
        .scoped(AgentsRead, routes!(discussions::list))
        .scoped(AgentsRead, routes!(discussions::get))
        .scoped(ApprovalsDecide, routes!(discussions::decide))
        .scoped(AgentsRead, routes!(budgets::get))
        .scoped(AdminWrite, routes!(budgets::put))
}

//! `/api/coordination`: workflows, their tasks and discussions, and their budgets.

mod budgets;
mod discussions;
mod dispatch;
mod events;
mod tasks;
mod workflows;

use emergent_domain::token::Scope::{AdminWrite, AgentsInvoke, AgentsRead, ApprovalsDecide};

use crate::{access::Routes, endpoint::routes};

/// Whoever may start agents, and nothing more, starts new work, and cancels and resumes a workflow. Everything else is
/// about tasks and budgets that are there, and says what they are, so it takes the right to read them as well.
pub(super) fn routes() -> Routes {
    Routes::new()
        .starts_work(AgentsInvoke, routes!(dispatch::dispatch), dispatch::started_workflow)
        .scoped(AgentsRead, routes!(workflows::list))
        .scoped(AgentsRead, routes!(workflows::get))
        .scoped(AgentsRead, routes!(events::follow))
        .scoped(AgentsInvoke, routes!(workflows::cancel))
        .starts_work(AgentsInvoke, routes!(workflows::resume), workflows::resumed_workflow)
        .scoped_both(AgentsInvoke, AgentsRead, routes!(workflows::put_budget))
        .scoped(AgentsRead, routes!(tasks::list))
        .scoped(AgentsRead, routes!(tasks::get))
        .scoped_both(AgentsInvoke, AgentsRead, routes!(tasks::add))
        .scoped_both(AgentsInvoke, AgentsRead, routes!(tasks::retry))
        .scoped_both(AgentsInvoke, AgentsRead, routes!(tasks::reassign))
        .scoped_both(AgentsInvoke, AgentsRead, routes!(tasks::skip))
        .scoped(AgentsRead, routes!(discussions::list))
        .scoped(AgentsRead, routes!(discussions::get))
        .scoped(ApprovalsDecide, routes!(discussions::decide))
        .scoped(AgentsRead, routes!(budgets::get))
        .scoped(AdminWrite, routes!(budgets::put))
}

//! Converts budgets and spend for the API. Internally, money is in whole micro-dollars; in the API it is in
//! dollars.

use std::collections::HashMap;

use emergent_coordination::{Budgets, DayBudget};
use emergent_domain::{ids::ObjectId, workflow::Limit};
use emergent_store::budget::{SpendShare, WorkflowSpend};
pub(crate) use emergent_wire::budget::*;

use super::IntoView;

/// Converts the spend of a workflow; `keys` are the keys of its tasks.
pub(crate) fn budget_view(
    limit: Limit,
    spending: WorkflowSpend,
    keys: &HashMap<ObjectId, String>,
) -> BudgetView {
    let task = |share: SpendShare<Option<ObjectId>>| TaskShare {
        task_id: share.key.map(Into::into),
        key: share.key.and_then(|id| keys.get(&id).cloned()),
        spent: share.spent.into(),
        reserved: share.reserved.into(),
    };
    let agent = |share: SpendShare<String>| AgentShare {
        agent: share.key,
        spent: share.spent.into(),
        reserved: share.reserved.into(),
    };
    BudgetView {
        limit: limit.into(),
        spent: spending.spent.into(),
        reserved: spending.reserved.into(),
        by_task: spending.by_task.into_iter().map(task).collect(),
        by_agent: spending.by_agent.into_iter().map(agent).collect(),
        unpriced_calls: spending.unpriced,
        lost_calls: spending.lost,
    }
}

impl IntoView<DayBudgetView> for DayBudget {
    fn into_view(self) -> DayBudgetView {
        let budget = self;
        let today = budget
            .today
            .map(|counter| TodayView { spent: counter.spent.into(), reserved: counter.reserved.into() });
        DayBudgetView { limit: budget.limit.into(), today }
    }
}

impl IntoView<BudgetsView> for Budgets {
    fn into_view(self) -> BudgetsView {
        let budgets = self;
        let agent =
            |(agent, budget): (String, DayBudget)| AgentDayBudgetView { agent, budget: budget.into_view() };
        BudgetsView {
            project: budgets.project.into_view(),
            agents: budgets.agents.into_iter().map(agent).collect(),
        }
    }
}

//! Money and tokens: what may be spent, and what was. Inside, money is whole micro-dollars; outside
//! it is dollars.

use std::collections::HashMap;

use emergent_coordination::{Budgets, DayBudget};
use emergent_domain::{
    ids::ObjectId,
    invalid::Invalid,
    workflow::{Amount, Limit},
};
use emergent_store::budget::{SpendShare, WorkflowSpend};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use uuid::Uuid;

/// More than anybody has; it keeps sums from running over.
const MAX_USD: f64 = 1e9;
const MAX_TOKENS: i64 = 1_000_000_000_000_000;

#[derive(Serialize, ToSchema)]
#[schema(as = Amount)]
pub(crate) struct AmountView {
    /// In US dollars.
    usd: f64,
    tokens: i64,
}

impl From<Amount> for AmountView {
    fn from(amount: Amount) -> Self {
        Self { usd: dollars(amount.microusd), tokens: amount.tokens }
    }
}

/// What may be spent; null is without end.
#[derive(Serialize, ToSchema)]
#[schema(as = Limit)]
pub(crate) struct LimitView {
    /// In US dollars.
    usd: Option<f64>,
    tokens: Option<i64>,
}

impl From<Limit> for LimitView {
    fn from(limit: Limit) -> Self {
        Self { usd: limit.microusd.map(dollars), tokens: limit.tokens }
    }
}

#[expect(clippy::cast_precision_loss, reason = "exact up to nine billion dollars")]
fn dollars(microusd: i64) -> f64 {
    microusd as f64 / 1e6
}

/// A limit as somebody wrote it, in dollars and tokens; both fields are named in what is refused.
pub(crate) fn parse_limit(
    usd: Option<f64>,
    usd_field: &str,
    tokens: Option<i64>,
    tokens_field: &str,
) -> Result<Limit, Invalid> {
    if usd.is_some_and(|usd| !(0.000_001..=MAX_USD).contains(&usd)) {
        return Err(Invalid::new(usd_field, "must be at least 0.000001 and at most 1000000000 dollars"));
    }
    if tokens.is_some_and(|tokens| !(1..=MAX_TOKENS).contains(&tokens)) {
        return Err(Invalid::new(tokens_field, format!("must be 1 to {MAX_TOKENS}")));
    }
    #[expect(clippy::cast_possible_truncation, reason = "within the limit above")]
    let microusd = usd.map(|usd| (usd * 1e6).round() as i64);
    Ok(Limit { microusd, tokens })
}

/// What a workflow may spend and has spent. The shares of tasks, and those of agents, sum up to it.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = WorkflowBudget)]
pub(crate) struct BudgetView {
    limit: LimitView,
    spent: AmountView,
    /// Of model calls under way.
    reserved: AmountView,
    by_task: Vec<TaskShare>,
    by_agent: Vec<AgentShare>,
    /// Calls whose price nobody knows: they count as no money, but with their tokens.
    unpriced_calls: i64,
    /// Calls whose answer never came to be recorded: they count in full.
    lost_calls: i64,
}

/// Planning and choosing belong to no task.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct TaskShare {
    task_id: Option<Uuid>,
    key: Option<String>,
    spent: AmountView,
    reserved: AmountView,
}

#[derive(Serialize, ToSchema)]
pub(crate) struct AgentShare {
    agent: String,
    spent: AmountView,
    reserved: AmountView,
}

impl BudgetView {
    pub(crate) fn new(limit: Limit, spending: WorkflowSpend, keys: &HashMap<ObjectId, String>) -> Self {
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
        Self {
            limit: limit.into(),
            spent: spending.spent.into(),
            reserved: spending.reserved.into(),
            by_task: spending.by_task.into_iter().map(task).collect(),
            by_agent: spending.by_agent.into_iter().map(agent).collect(),
            unpriced_calls: spending.unpriced,
            lost_calls: spending.lost,
        }
    }
}

/// What a project and its agents may spend in a day (UTC), and have spent today.
#[derive(Serialize, ToSchema)]
#[schema(as = Budgets)]
pub(crate) struct BudgetsView {
    project: DayBudgetView,
    /// Those that have a limit, or had one today.
    agents: Vec<AgentDayBudgetView>,
}

#[derive(Serialize, ToSchema)]
#[schema(as = DayBudget)]
pub(crate) struct DayBudgetView {
    limit: LimitView,
    /// Null where nothing is counted: there was no limit today.
    today: Option<TodayView>,
}

#[derive(Serialize, ToSchema)]
#[schema(as = Today)]
pub(crate) struct TodayView {
    spent: AmountView,
    reserved: AmountView,
}

#[derive(Serialize, ToSchema)]
#[schema(as = AgentDayBudget)]
pub(crate) struct AgentDayBudgetView {
    agent: String,
    #[serde(flatten)]
    budget: DayBudgetView,
}

impl From<DayBudget> for DayBudgetView {
    fn from(budget: DayBudget) -> Self {
        let today = budget
            .today
            .map(|counter| TodayView { spent: counter.spent.into(), reserved: counter.reserved.into() });
        Self { limit: budget.limit.into(), today }
    }
}

impl From<Budgets> for BudgetsView {
    fn from(budgets: Budgets) -> Self {
        let agent =
            |(agent, budget): (String, DayBudget)| AgentDayBudgetView { agent, budget: budget.into() };
        Self { project: budgets.project.into(), agents: budgets.agents.into_iter().map(agent).collect() }
    }
}

/// A limit for a day. One that is given takes the place of the one there was; null or absent is
/// without end.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct PutBudget {
    /// Of this agent; without it, of the project.
    #[schema(min_length = 1, max_length = 200)]
    pub agent: Option<String>,
    /// In US dollars.
    #[schema(minimum = 0.000_001, maximum = 1_000_000_000.0)]
    usd: Option<f64>,
    #[schema(minimum = 1)]
    tokens: Option<i64>,
}

impl PutBudget {
    pub(crate) fn limit(&self) -> Result<Limit, Invalid> {
        parse_limit(self.usd, "usd", self.tokens, "tokens")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dollars_become_whole_micro_dollars_and_come_back() {
        for (usd, micro) in [(0.000_001, 1), (0.1, 100_000), (1.0, 1_000_000), (12.345_678, 12_345_678)] {
            let read = parse_limit(Some(usd), "u", Some(7), "t").unwrap();
            assert_eq!((read.microusd, read.tokens), (Some(micro), Some(7)));
            assert_eq!(LimitView::from(read).usd, Some(usd));
        }
        for usd in [0.0, -1.0, 1e10, f64::NAN] {
            assert_eq!(parse_limit(Some(usd), "u", None, "t").unwrap_err().problems[0].field, "u", "{usd}");
        }
        assert_eq!(parse_limit(None, "u", Some(0), "t").unwrap_err().problems[0].field, "t");
        assert!(parse_limit(None, "u", None, "t").unwrap().is_unlimited());
    }
}

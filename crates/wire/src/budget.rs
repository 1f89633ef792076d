//! Budgets and spend, in money and tokens. Internally, money is in whole micro-dollars; in the API it is in
//! dollars.

use emergent_domain::{
    invalid::Invalid,
    workflow::{Amount, Limit},
};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use uuid::Uuid;

pub use emergent_domain::workflow::parse_limit;

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = Amount)]
pub struct AmountView {
    /// In US dollars.
    pub usd: f64,
    pub tokens: i64,
}

impl From<Amount> for AmountView {
    fn from(amount: Amount) -> Self {
        Self { usd: dollars(amount.microusd), tokens: amount.tokens }
    }
}

/// Spending limit. Null means no limit.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = Limit)]
pub struct LimitView {
    /// In US dollars.
    pub usd: Option<f64>,
    pub tokens: Option<i64>,
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

/// What a workflow may spend and has spent. The shares of tasks, and those of agents, sum up to it.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = WorkflowBudget)]
pub struct BudgetView {
    pub limit: LimitView,
    pub spent: AmountView,
    /// Of model calls under way.
    pub reserved: AmountView,
    pub by_task: Vec<TaskShare>,
    pub by_agent: Vec<AgentShare>,
    /// Calls whose price nobody knows: they count as no money, but with their tokens.
    pub unpriced_calls: i64,
    /// Calls whose answer never came to be recorded: they count in full.
    pub lost_calls: i64,
}

/// Planning and choosing belong to no task.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct TaskShare {
    pub task_id: Option<Uuid>,
    pub key: Option<String>,
    pub spent: AmountView,
    pub reserved: AmountView,
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct AgentShare {
    pub agent: String,
    pub spent: AmountView,
    pub reserved: AmountView,
}

/// What a project and its agents may spend in a day (UTC), and have spent today.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = Budgets)]
pub struct BudgetsView {
    pub project: DayBudgetView,
    /// Those that have a limit, or had one today.
    pub agents: Vec<AgentDayBudgetView>,
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = DayBudget)]
pub struct DayBudgetView {
    pub limit: LimitView,
    /// Null where nothing is counted: there was no limit today.
    pub today: Option<TodayView>,
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = Today)]
pub struct TodayView {
    pub spent: AmountView,
    pub reserved: AmountView,
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = AgentDayBudget)]
pub struct AgentDayBudgetView {
    pub agent: String,
    #[serde(flatten)]
    pub budget: DayBudgetView,
}

/// A daily limit. It replaces the current one. Null or absent means no limit.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PutBudget {
    /// Of this agent; without it, of the project.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 200)]
    pub agent: Option<String>,
    /// In US dollars.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0.000_001, maximum = 1_000_000_000.0)]
    pub usd: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1)]
    pub tokens: Option<i64>,
}

impl PutBudget {
    /// Returns the requested limit, if it is valid.
    pub fn limit(&self) -> Result<Limit, Invalid> {
        requested_limit(self.usd, self.tokens)
    }
}

/// The budget of a workflow that has not ended. It replaces the current one. Null or absent means no limit.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PutWorkflowBudget {
    /// In US dollars.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0.000_001, maximum = 1_000_000_000.0)]
    pub usd: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1)]
    pub tokens: Option<i64>,
    /// Why the budget is changed. The event `budget_changed` has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1)]
    pub reason: Option<String>,
}

impl PutWorkflowBudget {
    /// Returns the requested limit, if it is valid.
    pub fn limit(&self) -> Result<Limit, Invalid> {
        requested_limit(self.usd, self.tokens)
    }
}

/// The limit of a request whose fields are `usd` and `tokens`.
fn requested_limit(usd: Option<f64>, tokens: Option<i64>) -> Result<Limit, Invalid> {
    parse_limit(usd, "usd", tokens, "tokens")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dollars_are_converted_to_whole_micro_dollars_and_back() {
        for (usd, microusd) in [(0.000_001, 1), (0.1, 100_000), (1.0, 1_000_000), (12.345_678, 12_345_678)] {
            let limit = parse_limit(Some(usd), "u", Some(7), "t").unwrap();
            assert_eq!((limit.microusd, limit.tokens), (Some(microusd), Some(7)));
            assert_eq!(LimitView::from(limit).usd, Some(usd));
        }
        for usd in [0.0, -1.0, 1e10, f64::NAN] {
            assert_eq!(parse_limit(Some(usd), "u", None, "t").unwrap_err().problems[0].field, "u", "{usd}");
        }
        assert_eq!(parse_limit(None, "u", Some(0), "t").unwrap_err().problems[0].field, "t");
        assert!(parse_limit(None, "u", None, "t").unwrap().is_unlimited());
    }

    #[test]
    fn both_requests_name_their_fields_in_the_same_way() {
        let day = |usd, tokens| PutBudget { agent: None, usd, tokens }.limit();
        let workflow = |usd, tokens| PutWorkflowBudget { usd, tokens, reason: None }.limit();
        for (usd, tokens, field) in [(Some(0.0), None, "usd"), (None, Some(0), "tokens")] {
            for refused in [day(usd, tokens), workflow(usd, tokens)] {
                assert_eq!(refused.unwrap_err().problems[0].field, field);
            }
        }
        assert_eq!(day(Some(1.0), Some(7)).unwrap(), workflow(Some(1.0), Some(7)).unwrap());
    }
}

//! `emergent budget`: shows and sets the daily budgets of a project and its agents.

use emergent_domain::text::counted;
use emergent_wire::budget::{AmountView, BudgetsView, DayBudgetView, LimitView, PutBudget};

use super::{
    number::parse_finite,
    workflow::{limit_text, money_text},
};
use crate::{
    client::{Client, DataAccess, Received},
    error::{Error, Result},
    messages, output,
};

const PATH: &str = "/api/coordination/budgets";

#[derive(Debug, clap::Subcommand)]
pub enum Budget {
    /// Show the limits of the project and its agents, and what was spent today (UTC)
    Show,
    /// Set limits for a day; a limit that is not named stays as it is
    Set {
        /// Of this agent [default: of the project]
        #[arg(long)]
        agent: Option<String>,
        /// In US dollars
        #[arg(long, value_name = "DOLLARS", allow_negative_numbers = true, value_parser = parse_finite)]
        usd: Option<f64>,
        /// In tokens
        #[arg(long, value_name = "N", allow_negative_numbers = true)]
        tokens: Option<i64>,
        /// Take both limits away
        #[arg(long, conflicts_with_all = ["usd", "tokens"])]
        none: bool,
    },
}

impl Budget {
    /// Whether the command may create the data folder.
    pub fn data_access(&self) -> DataAccess {
        match self {
            Budget::Set { .. } => DataAccess::Create,
            Budget::Show => DataAccess::Existing,
        }
    }

    /// Refuses input that cannot be sent, before a data folder is made for it.
    pub fn check_input(&self) -> Result<()> {
        let Budget::Set { usd, tokens, none, .. } = self else { return Ok(()) };
        if !none && usd.is_none() && tokens.is_none() {
            return Err(Error::Usage(
                "give --usd, --tokens or both; --none takes the limits away".to_owned(),
            ));
        }
        let limit = PutBudget { agent: None, usd: *usd, tokens: *tokens }.limit();
        limit.map(drop).map_err(|invalid| Error::Usage(messages::translate(&invalid.to_string())))
    }

    pub async fn run(self, client: &Client, as_json: bool) -> Result<()> {
        let budgets: Received<BudgetsView> = match self {
            Budget::Show => client.get(PATH).await?.data().await?,
            Budget::Set { agent, usd, tokens, .. } => {
                let before = match (usd, tokens) {
                    (Some(_), None) | (None, Some(_)) => {
                        let budgets: Received<BudgetsView> = client.get(PATH).await?.data().await?;
                        find_limit(&budgets, agent.as_deref())
                    }
                    _ => NO_LIMIT,
                };
                let (usd, tokens) = (usd.or(before.usd), tokens.or(before.tokens));
                client.put(PATH, &PutBudget { agent, usd, tokens }).await?.data().await?
            }
        };
        if as_json { output::print_json(&budgets) } else { show(&budgets) }
    }
}

const NO_LIMIT: LimitView = LimitView { usd: None, tokens: None };

/// The limits of the project, or of an agent.
fn find_limit(budgets: &BudgetsView, agent: Option<&str>) -> LimitView {
    let Some(name) = agent else { return budgets.project.limit.clone() };
    let found = budgets.agents.iter().find(|budget| budget.agent == name);
    found.map_or(NO_LIMIT, |found| found.budget.limit.clone())
}

fn show(budgets: &BudgetsView) -> Result<()> {
    let row = |name: &str, budget: &DayBudgetView| {
        let limit = limit_text(&budget.limit).unwrap_or_else(|| "no limit".to_owned());
        let nothing = AmountView { usd: 0.0, tokens: 0 };
        let (spent, reserved) = match &budget.today {
            Some(today) => (&today.spent, &today.reserved),
            // Nothing was counted today, because nothing was spent since the limit was set.
            None if limit_text(&budget.limit).is_some() => (&nothing, &nothing),
            None => return vec![name.to_owned(), limit, "not counted".to_owned(), "–".to_owned()],
        };
        vec![name.to_owned(), limit, spent_text(spent, &budget.limit), reserved_text(reserved, &budget.limit)]
    };
    let agents = budgets.agents.iter().map(|agent| row(&agent.agent, &agent.budget));
    let rows: Vec<_> = std::iter::once(row("(project)", &budgets.project)).chain(agents).collect();
    // Half of an amount is misleading, and what was spent has its limit beside it.
    let headers = ["OF", "A DAY", "SPENT TODAY", "RESERVED"];
    output::print_table_with_optional(&headers, &rows, &headers[1..], &["A DAY"])
}

/// What was spent of a limit: `$0.25 of $5.00, 1200 of 100000 tokens`. What has no limit is left out, unless nothing has.
fn spent_text(spent: &AmountView, limit: &LimitView) -> String {
    let part = |spent: String, limit: Option<String>| match limit {
        Some(limit) => format!("{spent} of {limit}"),
        None => spent,
    };
    let money = part(money_text(spent.usd), limit.usd.map(money_text));
    // The noun belongs to the last number.
    let tokens = match limit.tokens {
        Some(tokens) => format!("{} of {}", spent.tokens, counted(tokens, "token")),
        None => counted(spent.tokens, "token"),
    };
    limited_parts(limit, money, tokens)
}

/// What model calls under way may still cost; a dash when there is none.
fn reserved_text(reserved: &AmountView, limit: &LimitView) -> String {
    if reserved.usd <= 0.0 && reserved.tokens == 0 {
        return "–".to_owned();
    }
    limited_parts(limit, money_text(reserved.usd), counted(reserved.tokens, "token"))
}

/// The money and the tokens, as far as they are limited; both without a limit.
fn limited_parts(limit: &LimitView, money: String, tokens: String) -> String {
    match (limit.usd, limit.tokens) {
        (Some(_), None) => money,
        (None, Some(_)) => tokens,
        _ => format!("{money}, {tokens}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_spent_is_shown_as_money_with_its_limit() {
        let spent = AmountView { usd: 0.2512, tokens: 1_200 };
        let limit = |usd, tokens| LimitView { usd, tokens };
        assert_eq!(spent_text(&spent, &limit(Some(5.0), None)), "$0.2512 of $5.00");
        assert_eq!(spent_text(&spent, &limit(None, Some(9_000))), "1200 of 9000 tokens");
        assert_eq!(
            spent_text(&spent, &limit(Some(0.5), Some(9_000))),
            "$0.2512 of $0.50, 1200 of 9000 tokens"
        );
        assert_eq!(spent_text(&spent, &limit(None, None)), "$0.2512, 1200 tokens");
        let nothing = AmountView { usd: 0.0, tokens: 0 };
        assert_eq!(spent_text(&nothing, &limit(Some(2.5), None)), "$0.00 of $2.50");
        assert_eq!(reserved_text(&nothing, &limit(Some(2.5), None)), "–");
        assert_eq!(reserved_text(&spent, &limit(Some(2.5), None)), "$0.2512");
    }
}

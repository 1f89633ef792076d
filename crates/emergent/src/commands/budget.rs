//! `emergent budget`: shows and sets the daily budgets of a project and its agents.

use emergent_wire::budget::{BudgetsView, DayBudgetView, PutBudget};

use super::workflow::{amount_text, limit_text};
use crate::{
    client::{Client, DataAccess, Received},
    error::{Error, Result},
    output,
};

const PATH: &str = "/api/coordination/budgets";

#[derive(Debug, clap::Subcommand)]
pub enum Budget {
    /// Show the limits of the project and its agents, and what was spent today (UTC)
    Show,
    /// Set a limit for a day; it takes the place of the one there was
    Set {
        /// Of this agent [default: of the project]
        #[arg(long)]
        agent: Option<String>,
        /// In US dollars
        #[arg(long, value_name = "DOLLARS", allow_negative_numbers = true)]
        usd: Option<f64>,
        /// In tokens
        #[arg(long, value_name = "N", allow_negative_numbers = true)]
        tokens: Option<i64>,
        /// Take the limit away
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

    pub async fn run(self, client: &Client, as_json: bool) -> Result<()> {
        let budgets: Received<BudgetsView> = match self {
            Budget::Show => client.get(PATH).await?.data().await?,
            Budget::Set { agent, usd, tokens, none } => {
                if !none && usd.is_none() && tokens.is_none() {
                    return Err(Error::Usage(
                        "give --usd, --tokens or both; --none takes the limit away".to_owned(),
                    ));
                }
                client.put(PATH, &PutBudget { agent, usd, tokens }).await?.data().await?
            }
        };
        if as_json { output::print_json(&budgets) } else { show(&budgets) }
    }
}

fn show(budgets: &BudgetsView) -> Result<()> {
    let row = |name: &str, budget: &DayBudgetView| {
        let limit = limit_text(&budget.limit).unwrap_or_else(|| "no limit".to_owned());
        let (spent, reserved) = match &budget.today {
            Some(today) => (amount_text(&today.spent), amount_text(&today.reserved)),
            None => ("–".to_owned(), "–".to_owned()),
        };
        vec![name.to_owned(), limit, spent, reserved]
    };
    let agents = budgets.agents.iter().map(|agent| row(&agent.agent, &agent.budget));
    let rows: Vec<_> = std::iter::once(row("(project)", &budgets.project)).chain(agents).collect();
    output::print_table(&["OF", "A DAY", "SPENT TODAY", "RESERVED"], &rows)
}

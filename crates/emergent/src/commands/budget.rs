//! `emergent budget`: what a project and its agents may spend in a day.

use serde_json::{Value, json};

use super::workflow::{amount_text, limit_text};
use crate::{
    client::Client,
    error::{Error, Result},
    output,
};

const PATH: &str = "/api/coordination/budgets";

#[derive(Debug, clap::Subcommand)]
pub enum Budget {
    /// The limits of the project and its agents, and what was spent today (UTC)
    Show,
    /// Set a limit for a day; it takes the place of the one there was
    Set {
        /// Of this agent [default: of the project]
        #[arg(long)]
        agent: Option<String>,
        /// In US dollars
        #[arg(long, value_name = "DOLLARS")]
        usd: Option<f64>,
        #[arg(long, value_name = "N")]
        tokens: Option<u64>,
        /// Take the limit away
        #[arg(long, conflicts_with_all = ["usd", "tokens"])]
        none: bool,
    },
}

impl Budget {
    pub async fn run(self, client: &Client, as_json: bool) -> Result<()> {
        let budgets: Value = match self {
            Budget::Show => client.get(PATH).await?.data().await?,
            Budget::Set { agent, usd, tokens, none } => {
                if !none && usd.is_none() && tokens.is_none() {
                    return Err(Error::Usage(
                        "give --usd, --tokens or both; --none takes the limit away".to_owned(),
                    ));
                }
                let mut body = json!({ "usd": usd, "tokens": tokens });
                if let Some(agent) = agent {
                    body["agent"] = json!(agent);
                }
                client.put(PATH, &body).await?.data().await?
            }
        };
        if as_json { output::print_json(&budgets) } else { show(&budgets) }
    }
}

fn show(budgets: &Value) -> Result<()> {
    let row = |name: &str, budget: &Value| {
        let today = &budget["today"];
        let spent = |what: &str| if today.is_null() { "–".to_owned() } else { amount_text(&today[what]) };
        let limit = limit_text(&budget["limit"]).unwrap_or_else(|| "no limit".to_owned());
        vec![name.to_owned(), limit, spent("spent"), spent("reserved")]
    };
    let mut rows = vec![row("(project)", &budgets["project"])];
    for agent in budgets["agents"].as_array().into_iter().flatten() {
        rows.push(row(agent["agent"].as_str().unwrap_or_default(), agent));
    }
    output::print_table(&["OF", "A DAY", "SPENT TODAY", "RESERVED"], &rows)
}

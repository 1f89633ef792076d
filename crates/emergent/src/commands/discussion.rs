//! `emergent discussion`: what agents talked over, and what a person decides.

use serde_json::{Value, json};

use super::encode;
use crate::{
    client::Client,
    error::Result,
    output::{self, bold, dim},
};

#[derive(Debug, clap::Subcommand)]
pub enum Discussion {
    /// What was said by whom, and what came of it
    Show { discussion: String },
    /// Settle one that is escalated; its workflow goes on
    Decide {
        discussion: String,
        /// In words, or as JSON
        decision: String,
        #[arg(long, value_name = "TEXT")]
        reason: Option<String>,
    },
}

impl Discussion {
    pub async fn run(self, client: &Client, as_json: bool) -> Result<()> {
        let shown: Value = match self {
            Discussion::Show { discussion } => client.get(&path(&discussion)).await?.data().await?,
            Discussion::Decide { discussion, decision, reason } => {
                // What is no JSON object is words, also when it looks like a number.
                let decision = match serde_json::from_str::<Value>(&decision) {
                    Ok(value) if value.is_object() => value,
                    _ => json!(decision),
                };
                let mut body = json!({ "decision": decision });
                if let Some(reason) = reason {
                    body["reason"] = json!(reason);
                }
                client.post(&format!("{}/decide", path(&discussion)), &body).await?.data().await?
            }
        };
        if as_json { output::print_json(&shown) } else { print_discussion(&shown) }
    }
}

fn path(id: &str) -> String {
    format!("/api/coordination/discussions/{}", encode(id))
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn print_discussion(discussion: &Value) -> Result<()> {
    let (kind, status) = (text(&discussion["kind"]), text(&discussion["status"]));
    output::print_line(&format!("{}  {kind}  {status}", bold(text(&discussion["topic"]))))?;
    for entry in discussion["entries"].as_array().into_iter().flatten() {
        let round = entry["round"].as_i64().filter(|round| *round > 1);
        let round = round.map(|round| format!(", round {round}")).unwrap_or_default();
        let what = dim(&format!("{}{round}", text(&entry["entryType"])));
        output::print_line(&format!(
            "\n{}  {what}\n{}",
            bold(text(&entry["agent"])),
            text(&entry["content"])
        ))?;
        if let Some(option) = entry["option"].as_str() {
            output::print_line(&format!("for: {option}"))?;
        }
    }
    let escalation = &discussion["escalation"];
    if status == "escalated" && escalation.is_object() {
        output::print_line(&format!("\nA person has to decide: {}", text(&escalation["reason"])))?;
        for option in escalation["options"].as_array().into_iter().flatten() {
            output::print_line(&format!("  - {}", text(option)))?;
        }
    }
    for (name, said) in [("decided by a person", "decidedByPerson"), ("decision", "finalDecision")] {
        if discussion[said].is_object() {
            let decision = &discussion[said];
            let words = decision["text"].as_str().or(decision["decision"].as_str());
            let words = words.map_or_else(|| decision.to_string(), str::to_owned);
            output::print_line(&format!("\n{name}: {words}"))?;
        }
    }
    Ok(())
}

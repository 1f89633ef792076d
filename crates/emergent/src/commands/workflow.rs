//! `emergent workflow`: work for several agents, as it stands and as it is steered.

use serde_json::{Value, json};

use super::{encode, watch_workflow};
use crate::{
    client::Client,
    error::Result,
    output::{self, first_line},
};

#[derive(Debug, clap::Subcommand)]
pub enum Workflow {
    /// The workflows, newest first
    List {
        /// Only with this status: planning, running, completed, failed, escalated, cancelled
        #[arg(long)]
        status: Option<String>,
        #[arg(long, default_value_t = 20)]
        limit: u32,
    },
    /// One workflow: its tasks in layers, what it cost, what it waits for
    Show { workflow: String },
    /// What happened, from the beginning
    Events { workflow: String },
    /// Watch it until it ends, or waits for a person
    Follow { workflow: String },
    /// End it, and every run of it
    Cancel { workflow: String },
    /// Go on with one that waits for a person, or has failed
    Resume {
        workflow: String,
        /// What the next attempts are told
        #[arg(long, value_name = "TEXT")]
        note: Option<String>,
        /// A new budget, in US dollars
        #[arg(long, value_name = "DOLLARS")]
        budget_usd: Option<f64>,
        /// A new budget, in tokens
        #[arg(long, value_name = "N")]
        budget_tokens: Option<u64>,
        /// Watch it until it ends, or waits for a person
        #[arg(long)]
        follow: bool,
    },
}

impl Workflow {
    pub async fn run(self, client: &Client, as_json: bool) -> Result<()> {
        match self {
            Workflow::List { status, limit } => {
                let status = status.map(|status| format!("&status={}", encode(&status))).unwrap_or_default();
                let path = format!("/api/coordination/workflows?limit={limit}{status}");
                let all: Vec<Value> = client.get(&path).await?.data().await?;
                if as_json { output::print_json(&all) } else { show_all(&all) }
            }
            Workflow::Show { workflow } => {
                let workflow = watch_workflow::get(client, &workflow).await?;
                if as_json { output::print_json(&workflow) } else { show(&workflow) }
            }
            Workflow::Events { workflow } => watch_workflow::events(client, &workflow, as_json).await,
            Workflow::Follow { workflow } => watch_workflow::follow(client, &workflow, as_json).await,
            Workflow::Cancel { workflow } => {
                let path = format!("{}/cancel", watch_workflow::path(&workflow));
                let ended: Value = client.post(&path, &json!({})).await?.data().await?;
                if as_json {
                    output::print_json(&ended)
                } else {
                    output::print_line(&format!("workflow {workflow} is {}", text(&ended["status"])))
                }
            }
            Workflow::Resume { workflow, note, budget_usd, budget_tokens, follow } => {
                let mut body = json!({});
                for (name, value) in [
                    ("note", note.map(Value::from)),
                    ("budgetUsd", budget_usd.map(Value::from)),
                    ("budgetTokens", budget_tokens.map(Value::from)),
                ] {
                    if let Some(value) = value {
                        body[name] = value;
                    }
                }
                let path = format!("{}/resume", watch_workflow::path(&workflow));
                let resumed: Value = client.post(&path, &body).await?.data().await?;
                if follow {
                    return watch_workflow::follow(client, &workflow, as_json).await;
                }
                if as_json {
                    output::print_json(&resumed)?;
                } else {
                    output::print_line(&format!("workflow {workflow} is {}", text(&resumed["status"])))?;
                }
                watch_workflow::warn_if_not_driven(client, &workflow);
                Ok(())
            }
        }
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn show_all(workflows: &[Value]) -> Result<()> {
    let rows: Vec<_> = workflows
        .iter()
        .map(|one| {
            let waits = one["escalation"]["reason"].as_str().unwrap_or_default();
            let said = if waits.is_empty() { text(&one["summary"]) } else { waits };
            vec![
                text(&one["id"]).to_owned(),
                text(&one["status"]).to_owned(),
                text(&one["createdAt"]).get(..19).unwrap_or_default().to_owned(),
                first_line(text(&one["description"]), 40),
                first_line(said, 60),
            ]
        })
        .collect();
    output::print_table(&["ID", "STATUS", "CREATED", "WHAT", "SUMMARY"], &rows)
}

fn show(workflow: &Value) -> Result<()> {
    watch_workflow::show(workflow)?;
    let shares = workflow["budget"]["byAgent"].as_array().map(Vec::as_slice).unwrap_or_default();
    if shares.is_empty() {
        return Ok(());
    }
    output::print_line("")?;
    let limit = &workflow["budget"]["limit"];
    let rows: Vec<_> = shares
        .iter()
        .map(|share| {
            vec![
                text(&share["agent"]).to_owned(),
                amount_text(&share["spent"]),
                amount_text(&share["reserved"]),
            ]
        })
        .chain([vec![
            "all".to_owned(),
            amount_text(&workflow["budget"]["spent"]),
            amount_text(&workflow["budget"]["reserved"]),
        ]])
        .collect();
    output::print_table(&["AGENT", "SPENT", "RESERVED"], &rows)?;
    match limit_text(limit) {
        Some(limit) => output::print_line(&format!("the budget is {limit}")),
        None => Ok(()),
    }
}

/// `1200 tokens, $0.0123`.
pub fn amount_text(value: &Value) -> String {
    let (tokens, dollars) = (value["tokens"].as_i64().unwrap_or(0), value["usd"].as_f64().unwrap_or(0.0));
    if dollars > 0.0 { format!("{tokens} tokens, ${dollars:.4}") } else { format!("{tokens} tokens") }
}

/// `$5 and 100000 tokens`; `None` is without end.
pub fn limit_text(limit: &Value) -> Option<String> {
    let dollars = limit["usd"].as_f64().map(|dollars| format!("${dollars}"));
    let tokens = limit["tokens"].as_i64().map(|tokens| format!("{tokens} tokens"));
    let both: Vec<String> = dollars.into_iter().chain(tokens).collect();
    (!both.is_empty()).then(|| both.join(" and "))
}

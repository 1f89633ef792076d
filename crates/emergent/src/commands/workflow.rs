//! `emergent workflow`: list, follow, cancel and resume workflows, and change their budgets.

use emergent_domain::text::counted;
use emergent_wire::{
    budget::{AmountView, LimitView, PutWorkflowBudget},
    dispatch::ResumeWorkflow,
    workflow::{WorkflowStateView, WorkflowSummaryView, WorkflowView},
};
use serde_json::json;

use super::{
    encode,
    number::parse_finite,
    resolve::{WORKFLOWS, resolve_id},
    watch_workflow,
};
use crate::{
    cells::cell,
    client::{Client, Received},
    error::{Error, Result},
    output,
};

/// The length of a timestamp up to its seconds: `2026-01-31T00:00:00`.
const SECONDS_LENGTH: usize = 19;

#[derive(Debug, clap::Subcommand)]
pub enum Workflow {
    /// List the workflows, newest first
    List {
        /// Only with this status: planning, running, completed, failed, escalated, cancelled
        #[arg(long)]
        status: Option<String>,
        /// At most this many
        #[arg(long, default_value_t = 20)]
        limit: u32,
    },
    /// Show one workflow: its tasks in layers, what it cost, what it waits for
    Show {
        /// An id, the end of an id, or `last`
        workflow: String,
    },
    /// Print what happened, from the beginning
    Events {
        /// An id, the end of an id, or `last`
        workflow: String,
    },
    /// Watch a workflow until it ends, or waits for a person
    Follow {
        /// An id, the end of an id, or `last`
        workflow: String,
    },
    /// End a workflow, and every run of it
    Cancel {
        /// An id, the end of an id, or `last`
        workflow: String,
    },
    /// Go on with a workflow that waits for a person, or has failed
    Resume {
        /// An id, the end of an id, or `last`
        workflow: String,
        /// What the next attempts are told
        #[arg(long, value_name = "TEXT")]
        note: Option<String>,
        /// A new budget, in US dollars
        #[arg(long, value_name = "DOLLARS", value_parser = parse_finite)]
        budget_usd: Option<f64>,
        /// A new budget, in tokens
        #[arg(long, value_name = "N")]
        budget_tokens: Option<i64>,
        /// Watch it until it ends, or waits for a person
        #[arg(long)]
        follow: bool,
        /// A name for this request: sent again with it, it starts nothing more
        #[arg(long, value_name = "KEY")]
        idempotency_key: Option<String>,
    },
    /// Change the budget of a workflow that has not ended; it takes the place of the one there was
    Budget {
        /// An id, the end of an id, or `last`
        workflow: String,
        /// In US dollars
        #[arg(long, value_name = "DOLLARS", allow_negative_numbers = true, value_parser = parse_finite)]
        usd: Option<f64>,
        /// In tokens
        #[arg(long, value_name = "N", allow_negative_numbers = true)]
        tokens: Option<i64>,
        /// Take the limit away
        #[arg(long, conflicts_with_all = ["usd", "tokens"])]
        none: bool,
        /// Why, for those who read the events of the workflow
        #[arg(long, value_name = "TEXT")]
        reason: Option<String>,
    },
}

impl Workflow {
    pub async fn run(self, client: &Client, as_json: bool) -> Result<()> {
        match self {
            Workflow::List { status, limit } => {
                let status = status.map(|status| format!("?status={}", encode(&status))).unwrap_or_default();
                let path = format!("/api/coordination/workflows{status}");
                let workflows: Vec<Received<WorkflowSummaryView>> = client.get_limited(&path, limit).await?;
                if as_json { output::print_json(&workflows) } else { show_all(&workflows) }
            }
            Workflow::Show { workflow } => {
                let id = resolve_id(client, &WORKFLOWS, &workflow).await?;
                let workflow = watch_workflow::get(client, &id).await?;
                if as_json { output::print_json(&workflow) } else { show(client, &workflow).await }
            }
            Workflow::Events { workflow } => {
                let id = resolve_id(client, &WORKFLOWS, &workflow).await?;
                watch_workflow::events(client, &id, as_json).await
            }
            Workflow::Follow { workflow } => {
                let id = resolve_id(client, &WORKFLOWS, &workflow).await?;
                watch_workflow::follow(client, &id, as_json).await
            }
            Workflow::Cancel { workflow } => {
                let workflow = resolve_id(client, &WORKFLOWS, &workflow).await?;
                let path = format!("{}/cancel", watch_workflow::path(&workflow));
                let cancelled: Received<WorkflowStateView> =
                    client.post(&path, &json!({})).await?.data().await?;
                if as_json {
                    output::print_json(&cancelled)
                } else {
                    output::print_line(&format!("workflow {workflow} is {}", cancelled.status))
                }
            }
            Workflow::Resume { workflow, note, budget_usd, budget_tokens, follow, idempotency_key } => {
                let workflow = resolve_id(client, &WORKFLOWS, &workflow).await?;
                let body = ResumeWorkflow { note, budget_usd, budget_tokens };
                let path = format!("{}/resume", watch_workflow::path(&workflow));
                let response = client.post_once(&path, &body, idempotency_key.as_deref()).await?;
                let resumed: Received<WorkflowStateView> = response.data().await?;
                if follow {
                    return watch_workflow::follow(client, &workflow, as_json).await;
                }
                if as_json {
                    output::print_json(&resumed)?;
                } else {
                    output::print_line(&format!("workflow {workflow} is {}", resumed.status))?;
                }
                watch_workflow::warn_if_not_driven(client, &workflow);
                Ok(())
            }
            Workflow::Budget { workflow, usd, tokens, none, reason } => {
                if !none && usd.is_none() && tokens.is_none() {
                    return Err(Error::Usage(
                        "give --usd, --tokens or both; --none takes the limit away".to_owned(),
                    ));
                }
                let workflow = resolve_id(client, &WORKFLOWS, &workflow).await?;
                let path = format!("{}/budget", watch_workflow::path(&workflow));
                let body = PutWorkflowBudget { usd, tokens, reason };
                let changed: Received<WorkflowSummaryView> = client.put(&path, &body).await?.data().await?;
                if as_json {
                    return output::print_json(&changed);
                }
                let limit = limit_text(&changed.settings.budget).unwrap_or_else(|| "unlimited".to_owned());
                output::print_line(&format!("the budget of workflow {workflow} is {limit}"))
            }
        }
    }
}

fn show_all(workflows: &[Received<WorkflowSummaryView>]) -> Result<()> {
    let rows: Vec<_> = workflows
        .iter()
        .map(|workflow| {
            let reason = workflow.escalation.as_ref().map(|escalation| escalation.reason.as_str());
            let outcome = reason.or(workflow.summary.as_deref()).unwrap_or_default();
            vec![
                workflow.id.to_string(),
                workflow.status.to_string(),
                workflow.created_at.to_string().get(..SECONDS_LENGTH).unwrap_or_default().to_owned(),
                cell(&workflow.description, 40),
                cell(outcome, 60),
            ]
        })
        .collect();
    output::print_list(
        &["ID", "STATUS", "CREATED", "WHAT", "SUMMARY"],
        &rows,
        ("dispatch TEXT", "starts one"),
    )
}

async fn show(client: &Client, workflow: &WorkflowView) -> Result<()> {
    watch_workflow::show(client, workflow).await?;
    let budget = &workflow.budget;
    if budget.by_agent.is_empty() {
        return Ok(());
    }
    output::print_line("")?;
    let row = |name: &str, spent: &AmountView, reserved: &AmountView| {
        vec![name.to_owned(), amount_text(spent), amount_text(reserved)]
    };
    let shares = budget.by_agent.iter().map(|share| row(&share.agent, &share.spent, &share.reserved));
    let rows: Vec<_> = shares.chain([row("all", &budget.spent, &budget.reserved)]).collect();
    output::print_table(&["AGENT", "SPENT", "RESERVED"], &rows)?;
    match limit_text(&budget.limit) {
        Some(limit) => output::print_line(&format!("the budget is {limit}")),
        None => Ok(()),
    }
}

/// An amount as text: `1200 tokens, $0.0123`.
pub fn amount_text(amount: &AmountView) -> String {
    let AmountView { tokens, usd } = amount;
    let tokens = counted(*tokens, "token");
    if *usd > 0.0 { format!("{tokens}, {}", money_text(*usd)) } else { tokens }
}

/// Dollars with at least two digits after the point, and at most six if they are needed: `$0.50`, `$0.001234`.
pub fn money_text(dollars: f64) -> String {
    let exact = format!("{dollars:.6}");
    let (whole, fraction) = exact.split_once('.').unwrap_or((&exact, ""));
    format!("${whole}.{:0<2}", fraction.trim_end_matches('0'))
}

/// A limit as text: `$5.00 and 100000 tokens`. `None` when there is no limit.
pub fn limit_text(limit: &LimitView) -> Option<String> {
    let dollars = limit.usd.map(money_text);
    let tokens = limit.tokens.map(|tokens| counted(tokens, "token"));
    let limits: Vec<String> = dollars.into_iter().chain(tokens).collect();
    (!limits.is_empty()).then(|| limits.join(" and "))
}

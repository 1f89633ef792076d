//! `emergent run`: list, count, inspect, cancel, resume and revert runs.

use std::collections::HashMap;

use emergent_domain::{approval::ApprovalKind, time::Timestamp};
use emergent_wire::{
    run::{ResumeRun, RunSummaryView, RunTreeView, RunView, StartedRun},
    run_bulk::BulkRunAction,
    run_detail::RunDetailView,
    run_message::{ContentView, RunMessageView},
};
use serde_json::{Value, json};
use uuid::Uuid;

use super::{
    encode,
    resolve::{RUNS, resolve_id},
    revert::Revert,
    reverted_runs::reverted_runs,
    run_bulk::{self, BulkFlags, RunConditions},
    tool_calls, tree, watch_run,
};
use crate::{
    cells::cell,
    client::{Client, Received},
    error::Result,
    hints,
    output::{self, bold, dim, duration, first_line},
    printable::printable_line,
    text::short_id,
};

/// How the server names what answers in conversations without an agent.
const SEARCH_AGENT: &str = "chat-retrieval";

#[derive(Debug, clap::Subcommand)]
pub enum Run {
    /// List the runs, newest first
    List {
        #[command(flatten)]
        conditions: RunConditions,
        /// At most this many
        #[arg(long, default_value_t = 20)]
        limit: u32,
    },
    /// Count the runs of a time by status, agent and hour
    Stats {
        /// From then on: a time such as 2026-01-31T08:00:00Z, or for how long, such as 2h or 7d [default: 24h]
        #[arg(long, value_name = "TIME")]
        since: Option<String>,
        /// Until then, as with --since [default: now]
        #[arg(long, value_name = "TIME")]
        until: Option<String>,
    },
    /// Show one run at a glance
    Show {
        /// An id, the end of an id, or `last`
        run: String,
    },
    /// Show a run and what it spawned
    Tree {
        /// An id, the end of an id, or `last`
        run: String,
    },
    /// Show what was said in a run
    Messages {
        /// An id, the end of an id, or `last`
        run: String,
        /// Only of this step
        #[arg(long)]
        step: Option<u32>,
    },
    /// List the tool calls of a run, oldest first
    ToolCalls(tool_calls::ToolCalls),
    /// End a run and everything it spawned, or many runs
    Cancel {
        /// An id, the end of an id, or `last`
        #[arg(required_unless_present = "all_matching", conflicts_with = "all_matching")]
        run: Option<String>,
        #[command(flatten)]
        bulk: BulkFlags,
    },
    /// Go on with a paused run, as a new one, or with many runs
    Resume {
        /// An id, the end of an id, or `last`
        #[arg(required_unless_present = "all_matching", conflicts_with = "all_matching")]
        run: Option<String>,
        #[command(flatten)]
        bulk: BulkFlags,
        /// What to tell the agent
        #[arg(long, value_name = "TEXT", conflicts_with = "all_matching")]
        input: Option<String>,
        /// Watch it work until it ends
        #[arg(long, conflicts_with = "all_matching")]
        follow: bool,
        /// A name for this request: sent again with it, it starts nothing more
        #[arg(long, value_name = "KEY")]
        idempotency_key: Option<String>,
    },
    /// Undo what a run wrote to the graph
    Revert(Revert),
    /// Watch a run work, from its beginning until it ends
    Follow {
        /// An id, the end of an id, or `last`
        run: String,
    },
}

impl Run {
    pub async fn run(self, client: &Client, as_json: bool) -> Result<()> {
        match self {
            Run::List { conditions, limit } => {
                let path = format!("/api/admin/runs?{}", conditions.query_text()?);
                let runs: Vec<Received<RunView>> = client.get_limited(&path, limit).await?;
                if as_json {
                    return output::print_json(&runs);
                }
                let reverted = match runs.iter().map(|run| run.facts.created_at).min() {
                    Some(oldest) => reverted_runs(client, oldest).await,
                    None => HashMap::new(),
                };
                show_all(&runs, &reverted)
            }
            Run::Stats { since, until } => {
                run_bulk::show_stats(client, since.as_deref(), until.as_deref(), as_json).await
            }
            Run::Show { run } => {
                let run = get_run(client, &run).await?;
                if as_json {
                    return output::print_json(&run);
                }
                let reverted = reverted_runs(client, run.facts.created_at).await;
                show(&run, reverted.get(&run.facts.id).copied())
            }
            Run::Tree { run } => {
                let detail = get_run(client, &run).await?;
                let tree: Received<RunTreeView> =
                    client.get(&format!("{}/tree", path(&detail))).await?.data().await?;
                if as_json {
                    output::print_json(&tree)
                } else {
                    tree::tree_lines(&tree).iter().try_for_each(|line| output::print_row(line))
                }
            }
            Run::Messages { run, step } => {
                let detail = get_run(client, &run).await?;
                let step = step.map(|step| format!("?step={step}")).unwrap_or_default();
                let messages: Vec<Received<RunMessageView>> =
                    client.get_all_pages(&format!("{}/messages{step}", path(&detail))).await?;
                if as_json {
                    output::print_json(&messages)
                } else if messages.is_empty() && output::terminal_width().is_some() {
                    output::print_line("This run has no such messages.")
                } else {
                    show_messages(&detail.facts.id.to_string(), &messages)
                }
            }
            Run::ToolCalls(tool_calls) => {
                let detail = get_run(client, tool_calls.run()).await?;
                tool_calls.show(client, &path(&detail), as_json).await
            }
            Run::Cancel { run: None, bulk } => {
                bulk.change(client, BulkRunAction::Cancel, None, as_json).await
            }
            Run::Cancel { run: Some(run), bulk } => {
                bulk.check_single()?;
                let detail = get_run(client, &run).await?;
                let cancelled: Received<StartedRun> =
                    client.post(&format!("{}/cancel", path(&detail)), &json!({})).await?.data().await?;
                if as_json {
                    output::print_json(&cancelled)
                } else {
                    output::print_line(&format!("run {} is {}", cancelled.run_id, cancelled.status))
                }
            }
            Run::Resume { run: None, bulk, idempotency_key, .. } => {
                bulk.change(client, BulkRunAction::Resume, idempotency_key.as_deref(), as_json).await
            }
            Run::Resume { run: Some(run), bulk, input, follow, idempotency_key } => {
                bulk.check_single()?;
                let detail = get_run(client, &run).await?;
                let (path, body) = (format!("{}/resume", path(&detail)), ResumeRun { input });
                let response = client.post_once(&path, &body, idempotency_key.as_deref()).await?;
                let agent = detail.facts.agent_id.to_string();
                watch_run::follow_or_print(client, &agent, response, follow, as_json).await
            }
            Run::Revert(revert) => revert.run(client, as_json).await,
            Run::Follow { run } => {
                let detail = get_run(client, &run).await?;
                let (agent, run) = (detail.facts.agent_id.to_string(), detail.facts.id.to_string());
                watch_run::follow(client, &agent, &run, as_json).await
            }
        }
    }
}

/// Loads the run that a person names, whichever agent it belongs to.
pub(super) async fn get_run(client: &Client, run: &str) -> Result<Received<RunDetailView>> {
    let id = resolve_id(client, &RUNS, run).await?;
    client.get(&format!("/api/admin/runs/{}", encode(&id))).await?.data().await
}

/// The API path of a run, below its agent.
pub(super) fn path(run: &RunDetailView) -> String {
    format!("/api/admin/agents/{}/runs/{}", run.facts.agent_id, run.facts.id)
}

/// The status with its reason, and a mark for a run with a scripted model: `paused (step_limit) [rehearsal]`.
fn status(run: &RunSummaryView) -> String {
    let mut status = watch_run::status(run.status, run.reason);
    if run.rehearsal {
        status.push_str(" [rehearsal]");
    }
    status
}

/// The agent of a run. Answers of conversations without an agent have none that could be shown.
pub fn agent_text(name: &str) -> String {
    if name == SEARCH_AGENT { "(search)".to_owned() } else { name.to_owned() }
}

/// A duration, or a dash when the run has not ended.
fn duration_text(millis: Option<i64>) -> String {
    millis.and_then(|millis| u64::try_from(millis).ok()).map_or("–".to_owned(), duration)
}

/// The width from which a list of runs has a column for their input.
const WIDTH_WITH_INPUT: usize = 140;

/// `reverted` has the runs that were reverted.
fn show_all(runs: &[Received<RunView>], reverted: &HashMap<Uuid, Timestamp>) -> Result<()> {
    let has_input = output::terminal_width().is_none_or(|width| width >= WIDTH_WITH_INPUT);
    let rows: Vec<_> = runs
        .iter()
        .map(|run| {
            let facts = &run.facts;
            let summary = facts.summary.as_ref().map(|summary| summary.text.as_str());
            let input = facts.input_preview.as_deref().unwrap_or_default();
            // Without a column for the input, it stands for the summary until there is one.
            let no_summary = if has_input { "" } else { input };
            // A rehearsal costs nothing.
            let no_cost = if facts.rehearsal { "rehearsal" } else { "–" };
            let was_reverted = if reverted.contains_key(&facts.id) { ", reverted" } else { "" };
            let mut row = vec![
                facts.id.to_string(),
                agent_text(&facts.agent_name),
                watch_run::status(facts.status, facts.reason) + was_reverted,
                facts.step_count.to_string(),
                duration_text(facts.duration_ms),
                watch_run::cost(run.token_usage.total_cost).unwrap_or_else(|| no_cost.to_owned()),
            ];
            if has_input {
                row.push(cell(input, 60));
            }
            row.push(cell(facts.error_message.as_deref().or(summary).unwrap_or(no_summary), 60));
            row
        })
        .collect();
    let mut headers = vec!["ID", "AGENT", "STATUS", "STEPS", "TOOK", "COST"];
    if has_input {
        headers.push("INPUT");
    }
    headers.push("SUMMARY");
    output::print_list_with_optional(
        &headers,
        &rows,
        &["STATUS"],
        &["STEPS", "TOOK", "COST"],
        ("agent trigger AGENT --input TEXT", "starts a run"),
    )
}

/// `reverted_at`: when the run was reverted, if it was.
fn show(run: &RunDetailView, reverted_at: Option<Timestamp>) -> Result<()> {
    let facts = &run.facts;
    output::print_row(&format!("{}  {}", bold(&agent_text(&facts.agent_name)), status(facts)))?;
    let steps = match facts.max_steps {
        Some(max) if run.resume_chain.is_empty() => format!("{} (limit {max})", facts.step_count),
        Some(max) => format!("{} with the runs it goes on from (limit {max} for each run)", facts.step_count),
        None => facts.step_count.to_string(),
    };
    let mut lines = vec![
        ("id", facts.id.to_string()),
        ("origin", facts.origin.to_string()),
        ("model", facts.model.clone()),
        ("created", facts.created_at.to_string()),
        ("took", duration_text(facts.duration_ms)),
        ("steps", steps),
        ("tokens", watch_run::tokens(&run.token_usage)),
        ("loops", run.doom_loop_events.to_string()),
    ];
    lines.extend(facts.waiting_for.map(|kind| ("waits for", waits_for(kind))));
    lines.extend(facts.parent_run_id.map(|id| ("parent", id.to_string())));
    lines.extend(facts.resumed_from.map(|id| ("resumes", id.to_string())));
    lines.extend(reverted_at.map(|at| ("reverted", at.to_string())));
    lines.extend(run.resumed_as.map(|id| ("resumed as", id.to_string())));
    lines.extend(facts.error_message.clone().map(|error| ("error", error)));
    lines.extend(facts.output.as_ref().map(|output| ("output", output.to_string())));
    lines.extend(
        run.unavailable_servers.iter().map(|server| ("server", watch_run::unavailable_server(server))),
    );
    if !run.missing_tools.is_empty() {
        lines.push(("no such tool", run.missing_tools.join(", ")));
    }
    for (name, value) in lines {
        output::print_fact(name, &value)?;
    }
    for (tool, usage) in &run.tool_call_summary.by_tool {
        // A call that waits for a person has taken no time yet.
        let average =
            usage.avg_duration_ms.map(|millis| format!(", {} on average", duration_text(Some(millis))));
        output::print_fact("tool", &format!("{} × {tool}{}", usage.count, average.unwrap_or_default()))?;
    }
    for child in &run.child_runs {
        let name = printable_line(&child.agent_name);
        let (status, id) = (child.status, dim(&child.id.to_string()));
        output::print_row(&format!("  {:<12} {name}  {status}  {id}", "child"))?;
    }
    match &facts.summary {
        Some(summary) => output::print_text(&format!("\n{}", summary.text)),
        None => Ok(()),
    }
}

/// What a run waits for, and what to do about it.
fn waits_for(kind: ApprovalKind) -> String {
    match kind {
        ApprovalKind::Approval | ApprovalKind::Question => {
            format!("a person: `{}` shows what to decide", hints::command("inbox list"))
        }
        ApprovalKind::ClientTool => {
            "the program that started it, which sends the result of a tool".to_owned()
        }
    }
}

/// How much of the result of a tool is shown among the messages.
const MAX_RESULT_CHARS: usize = 200;

fn show_messages(run: &str, messages: &[Received<RunMessageView>]) -> Result<()> {
    messages.iter().try_for_each(|message| show_message(message))?;
    if !messages.iter().any(|message| is_shortened(message)) {
        return Ok(());
    }
    let purpose = "long results are shortened; whole:";
    let command = |run: &str| hints::command(&format!("run tool-calls {run} --full"));
    match output::terminal_width() {
        Some(_) => output::print_command(purpose, &command(short_id(run))),
        None => {
            output::print_notice(&format!("{purpose} {}", command(run)));
            Ok(())
        }
    }
}

/// Whether a message is a result that is not shown whole.
fn is_shortened(message: &RunMessageView) -> bool {
    match &message.content {
        ContentView::Result(result) => {
            result_text(&result.output) != first_line(&result_text(&result.output), MAX_RESULT_CHARS)
        }
        _ => false,
    }
}

/// The result of a tool: its text, or its value as JSON.
fn result_text(output: &Value) -> String {
    match output {
        Value::String(text) => text.clone(),
        value => value.to_string(),
    }
}

fn show_message(message: &RunMessageView) -> Result<()> {
    let head = format!("{} {}", bold(message.role.as_str()), dim(&format!("step {}", message.step_number)));
    let (text, calls) = match &message.content {
        ContentView::Result(result) => {
            output::print_line(&format!("{head}  {}", printable_line(&result.tool_name)))?;
            let tool_output = first_line(&result_text(&result.output), MAX_RESULT_CHARS);
            return output::print_item("  ", &tool_output);
        }
        ContentView::Answer(answer) => (&answer.text, answer.tool_calls.as_slice()),
        ContentView::Text(text) => (&text.text, &[][..]),
    };
    output::print_line(&head)?;
    if !text.is_empty() {
        output::print_text(text)?;
    }
    for call in calls {
        let status = call.status.map(|status| status.as_str()).unwrap_or_default();
        output::print_line(&format!("  → {}  {status}", printable_line(&call.tool_name)))?;
    }
    Ok(())
}

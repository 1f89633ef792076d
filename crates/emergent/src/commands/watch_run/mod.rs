//! Watching a run work: what it says as it says it, each tool call, what it spawns, how it ends.

mod children;
mod events;
mod view;

use std::{io::IsTerminal, time::Duration};

use emergent_domain::{
    agent::FlowType,
    run::{Reason, RunStatus},
};
use emergent_wire::{
    agent::AgentView,
    run::{RunTreeView, StartedRun},
    run_detail::{RunDetailView, TokenUsage},
    run_event::{BodyView, RunEventView},
};
use indicatif::{ProgressBar, ProgressStyle};

use super::tree;
use crate::{
    client::{Client, Received},
    error::{Error, Result},
    output,
};
use children::Children;
pub use events::{Event, Events};
use view::View;

/// How often the tree below a run is looked at: what children do is not among its own events.
const TREE_POLL_INTERVAL: Duration = Duration::from_secs(1);

/// After a start: watches the run, or says where it is.
pub async fn follow_or_print(
    client: &Client,
    agent: &str,
    started: &Received<StartedRun>,
    watch: bool,
    as_json: bool,
) -> Result<()> {
    let run = started.run_id.to_string();
    if watch {
        return follow(client, agent, &run, as_json).await;
    }
    if as_json {
        output::print_json(started)?;
    } else {
        output::print_line(&format!("run {run} is {}", started.status))?;
    }
    if client.is_sole_driver() {
        eprintln!("It waits for a server (`emergent serve`); `emergent run follow {run}` drives it here.");
    }
    Ok(())
}

/// How a run ended, as its last event says.
struct RunEnd {
    status: RunStatus,
    reason: Option<Reason>,
    error: Option<String>,
}

impl RunEnd {
    fn of_event(event: &RunEventView) -> Option<Self> {
        match &event.body {
            BodyView::RunEnded { status, reason, error_message, .. } => {
                Some(Self { status: *status, reason: *reason, error: error_message.clone() })
            }
            _ => None,
        }
    }
}

/// Watches a run until it ends; fails when it failed. On a data folder, this process drives it.
pub async fn follow(client: &Client, agent: &str, run: &str, as_json: bool) -> Result<()> {
    let driver = client.drive_runs();
    let path = format!("/api/admin/agents/{agent}/runs/{run}");
    let ended =
        if as_json { print_events(client, &path).await } else { show_events(client, agent, &path).await };
    driver.stop().await;
    match ended? {
        Some(end) if matches!(end.status, RunStatus::Failed | RunStatus::Cancelled) => {
            let why = end.error.map(|why| format!(": {why}")).unwrap_or_default();
            Err(Error::Usage(format!("run {run} {}{why}", status(end.status, end.reason))))
        }
        Some(_) => Ok(()),
        None => {
            eprintln!(
                "Not watching any more: `emergent run follow {run}` goes on, `emergent run cancel {run}` ends it."
            );
            Ok(())
        }
    }
}

/// Each event as a line of JSON; how it ended is returned, or nothing when the user left.
async fn print_events(client: &Client, path: &str) -> Result<Option<RunEnd>> {
    let mut events = Events::new(client, path);
    loop {
        let event: Event<RunEventView> = tokio::select! {
            event = events.next() => event?,
            _ = tokio::signal::ctrl_c() => return Ok(None),
        };
        output::print_line(&event.raw.to_string())?;
        if let Some(end) = event.known.as_ref().and_then(RunEnd::of_event) {
            return Ok(Some(end));
        }
    }
}

async fn show_events(client: &Client, agent: &str, path: &str) -> Result<Option<RunEnd>> {
    let (mut view, mut children, mut waiting) =
        (View::new(output::use_colour()), Children::default(), Spinner(None));
    let is_flow = is_flow(client, agent).await;
    let mut events = Events::new(client, path);
    let mut look = tokio::time::interval(TREE_POLL_INTERVAL);
    let end = loop {
        if !view.is_mid_line() {
            waiting.show(view.activity());
        }
        tokio::select! {
            event = events.next::<RunEventView>() => {
                // What a newer server tells that this client has no words for is left out.
                let Some(event) = event?.known else { continue };
                waiting.hide();
                if let Some(end) = RunEnd::of_event(&event) {
                    break end;
                }
                // What the children did stands before what came of it.
                if matches!(&event.body, BodyView::ToolCompleted { tool_call } if tool_call.tool_name == view::SPAWN_TOOL) {
                    output::print_part(&view.lines(&children.changes(&get_tree(client, path).await?)))?;
                }
                output::print_part(&view.event(&event.body))?;
            }
            _ = look.tick(), if is_flow || view.is_spawning() => {
                let changes = children.changes(&get_tree(client, path).await?);
                if !changes.is_empty() {
                    waiting.hide();
                    output::print_part(&view.lines(&changes))?;
                }
            }
            _ = tokio::signal::ctrl_c() => {
                waiting.hide();
                output::print_part(&view.lines(&[]))?;
                return Ok(None);
            }
        }
    };
    // What children did in the last moment is told before the end.
    output::print_part(&view.lines(&children.changes(&get_tree(client, path).await?)))?;
    let run: RunDetailView = client.get(path).await?.data().await?;
    output::print_part(&view.end(&run))?;
    Ok(Some(end))
}

/// Whether the agent works through others, from the beginning and without calling a tool. Who may
/// not look at definitions, or asks for one that is gone, sees such children at the end.
async fn is_flow(client: &Client, agent: &str) -> bool {
    let Ok(answer) = client.get(&format!("/api/admin/agents/{agent}")).await else { return false };
    answer.data::<AgentView>().await.is_ok_and(|agent| agent.flow_type != FlowType::Single)
}

async fn get_tree(client: &Client, path: &str) -> Result<RunTreeView> {
    client.get(&format!("{path}/tree")).await?.data().await
}

/// What is being waited for, on a terminal only; gone before anything else is printed.
struct Spinner(Option<ProgressBar>);

impl Spinner {
    fn show(&mut self, what: String) {
        if !std::io::stderr().is_terminal() {
            return;
        }
        let bar = self.0.get_or_insert_with(|| {
            let bar = ProgressBar::new_spinner();
            if let Ok(style) = ProgressStyle::with_template("{spinner} {msg}  {elapsed}") {
                bar.set_style(style);
            }
            bar.enable_steady_tick(Duration::from_millis(120));
            bar
        });
        bar.set_message(what);
    }

    fn hide(&mut self) {
        if let Some(bar) = self.0.take() {
            bar.finish_and_clear();
        }
    }
}

/// `paused (step_limit)`.
pub fn status(status: RunStatus, reason: Option<Reason>) -> String {
    match reason {
        Some(reason) => format!("{status} ({reason})"),
        None => status.to_string(),
    }
}

/// `45200 tokens in, 12800 out`, with the price when it is known.
pub fn tokens(usage: &TokenUsage) -> String {
    let cost = cost(usage.total_cost).map(|cost| format!(", {cost}")).unwrap_or_default();
    format!("{} tokens in, {} out{cost}", usage.total_input, usage.total_output)
}

pub fn cost(dollars: Option<f64>) -> Option<String> {
    // What a script said, or a model at home, costs nothing.
    dollars.filter(|dollars| *dollars > 0.0).map(|dollars| format!("${dollars:.4}"))
}

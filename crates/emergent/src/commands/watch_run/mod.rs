//! Follows a run: prints its text as it is streamed, its tool calls, its child runs and its end.

mod call_line;
mod children;
mod decisions;
mod events;
mod view;

use std::{io::IsTerminal, time::Duration};

use emergent_domain::{
    agent::FlowType,
    run::{Reason, RunStatus},
    text::counted,
};
use emergent_wire::{
    agent::AgentView,
    run::{RunTreeView, StartedRun},
    run_detail::{RunDetailView, TokenUsage},
    run_event::{BodyView, RunEventView},
};
use futures_util::{FutureExt, future::BoxFuture};
use indicatif::{ProgressBar, ProgressStyle};

use super::{encode, tree, watch_workflow};
use crate::{
    client::{ApiResponse, Client, Received},
    error::{Error, Result},
    hints, output, progress,
};
pub use call_line::CallLine;
use children::Children;
use decisions::{Decisions, Wait};
pub use events::{CONNECTION_LOST, Event, Events, Frames, lost_changed};
pub use view::{View, request_text, unavailable_server};

/// How often the tree of child runs is loaded, because a run's events do not cover its children.
const TREE_POLL_INTERVAL: Duration = Duration::from_secs(1);

/// After a start, with its response: follows the run if `watch` is set, else prints its id and status.
pub async fn follow_or_print(
    client: &Client,
    agent: &str,
    response: ApiResponse,
    watch: bool,
    as_json: bool,
) -> Result<()> {
    let is_replayed = response.is_replayed();
    let started: Received<StartedRun> = response.data().await?;
    let run = started.run_id.to_string();
    if watch {
        return follow(client, agent, &run, as_json).await;
    }
    // The response to a request that was sent before has the status of then.
    let (now, has_ended) = match is_replayed {
        true => present_status(client, &run).await.unwrap_or((started.status.to_string(), false)),
        false => (started.status.to_string(), false),
    };
    if as_json {
        output::print_json(&started)?;
    } else {
        output::print_line(&format!("run {run} is {now}"))?;
    }
    if has_ended {
        return Ok(());
    }
    if client.is_sole_driver() {
        output::print_notice(&watch_workflow::waiting_message("run", &run));
    } else if !as_json && output::terminal_width().is_some() {
        output::print_notice(&format!("`{}` watches it.", hints::command(&format!("run follow {run}"))));
    }
    Ok(())
}

/// Tells the user on a data folder that no server drives the run, if it can go on: after a decision it may wait for another
/// one.
pub async fn warn_if_not_driven(client: &Client, run: &str) {
    if client.is_sole_driver() && is_queued(client, run).await.unwrap_or_default() {
        output::print_notice(&watch_workflow::waiting_message("run", run));
    }
}

/// The status of a run, with its reason, and whether the run has ended; `None` if it cannot be read, for example because
/// the token may only start runs.
async fn present_status(client: &Client, run: &str) -> Option<(String, bool)> {
    let path = format!("/api/admin/runs/{}", encode(run));
    let run: RunDetailView = client.get(&path).await.ok()?.data().await.ok()?;
    Some((status(run.facts.status, run.facts.reason), run.facts.status.is_terminal()))
}

async fn is_queued(client: &Client, run: &str) -> Result<bool> {
    let run: Received<RunDetailView> =
        client.get(&format!("/api/admin/runs/{}", encode(run))).await?.data().await?;
    Ok(run.facts.status == RunStatus::Queued)
}

/// How a run ended, from its last event.
struct RunEnd {
    status: RunStatus,
    reason: Option<Reason>,
    error: Option<String>,
}

impl RunEnd {
    /// `None` for any event but the last.
    fn from_event(event: &RunEventView) -> Option<Self> {
        match &event.body {
            BodyView::RunEnded { status, reason, error_message, .. } => {
                Some(Self { status: *status, reason: *reason, error: error_message.clone() })
            }
            _ => None,
        }
    }
}

/// Follows a run until it ends; fails when the run failed or was cancelled. On a data folder, this process
/// drives the run.
pub async fn follow(client: &Client, agent: &str, run: &str, as_json: bool) -> Result<()> {
    let driver = client.drive_runs();
    let path = format!("/api/admin/agents/{agent}/runs/{run}");
    let ended = if as_json {
        print_events(client, run, &path).await
    } else {
        show_events(client, agent, run, &path).await
    };
    driver.stop().await;
    match ended.map_err(|error| watch_workflow::left_behind(error, "run", run))? {
        Some(end) if matches!(end.status, RunStatus::Failed | RunStatus::Cancelled) => {
            let error = end.error.map(|error| format!(": {error}")).unwrap_or_default();
            Err(Error::Usage(format!("run {run} {}{error}", status(end.status, end.reason))))
        }
        Some(_) => Ok(()),
        None => {
            let ended = ended_status(client, &path).await;
            let driver = client.other_driver();
            output::print_notice(&watch_workflow::interrupted_message(driver, "run", run, ended.as_deref()));
            Err(Error::Interrupted)
        }
    }
}

/// The status of a run that has ended, which it may have while this process stopped; `None` for one that goes on.
pub async fn ended_status(client: &Client, path: &str) -> Option<String> {
    let run: RunDetailView = client.get(path).await.ok()?.data().await.ok()?;
    run.facts.status.is_terminal().then(|| status(run.facts.status, run.facts.reason))
}

/// A future that ends with Ctrl-C. The signal is listened for from now on, and not only once the future is awaited:
/// until then, it would end the process without a word.
pub async fn listen_for_interrupt() -> BoxFuture<'static, ()> {
    let mut interrupt = async {
        if tokio::signal::ctrl_c().await.is_err() {
            // The signal cannot be listened for, so it ends the process.
            std::future::pending::<()>().await;
        }
    }
    .boxed();
    // The first poll registers the listener.
    let _ = tokio::time::timeout(Duration::ZERO, &mut interrupt).await;
    interrupt
}

/// Prints each event as a line of JSON. Returns how the run ended, or `None` after Ctrl-C.
async fn print_events(client: &Client, run: &str, path: &str) -> Result<Option<RunEnd>> {
    let (mut events, mut decisions) = (Events::new(client, path), Decisions::new(client, false));
    // One listener for the whole loop: a signal that arrives while an event is printed is not lost.
    let (mut interrupt, mut lost) = (listen_for_interrupt().await, events.lost());
    loop {
        let event: Event<RunEventView> = tokio::select! {
            event = events.next() => event?,
            is_lost = lost_changed(&mut lost) => {
                notice_lost(is_lost);
                continue;
            }
            _ = &mut interrupt => return Ok(None),
        };
        output::print_json_line(&event.raw)?;
        if let Some(end) = event.parsed.as_ref().and_then(RunEnd::from_event) {
            return Ok(Some(end));
        }
        if let Some(event) = &event.parsed {
            decisions.event(run, &event.body).await?;
        }
    }
}

/// Prints the events for people. Returns how the run ended, or `None` after Ctrl-C.
async fn show_events(client: &Client, agent: &str, run: &str, path: &str) -> Result<Option<RunEnd>> {
    let (mut view, mut children, mut spinner) =
        (View::new(output::use_colour(), output::terminal_width()), Children::default(), Spinner::default());
    let is_flow = is_flow(client, agent).await;
    let (mut events, mut decisions) = (Events::new(client, path), Decisions::new(client, true));
    let mut tree_poll = tokio::time::interval(TREE_POLL_INTERVAL);
    let (mut interrupt, mut lost, mut is_lost) = (listen_for_interrupt().await, events.lost(), false);
    let end = loop {
        match is_lost {
            true => spinner.show(CONNECTION_LOST.to_owned()),
            false if !view.is_mid_line() => spinner.show(view.activity()),
            false => {}
        }
        tokio::select! {
            event = events.next::<RunEventView>() => {
                // Kinds of events that only a newer server knows are not shown.
                let Some(event) = event?.parsed else { continue };
                spinner.hide();
                if let Some(end) = RunEnd::from_event(&event) {
                    break end;
                }
                // Changes of the children are printed before the result of the call that spawned them.
                if matches!(&event.body, BodyView::ToolCompleted { tool_call } if tool_call.tool_name == view::SPAWN_TOOL) {
                    output::print_part(&view.lines(&children.changes(&get_tree(client, path).await?)))?;
                }
                output::print_part(&view.event(&event.body))?;
                if matches!(event.body, BodyView::RunWaiting { .. } | BodyView::ApprovalRequested { .. }) {
                    if decisions.event(run, &event.body).await? == Wait::Interrupted {
                        return Ok(None);
                    }
                    // A Ctrl-C at the keys or in an editor does not end the run.
                    interrupt = listen_for_interrupt().await;
                }
            }
            changed = lost_changed(&mut lost) => {
                is_lost = changed;
                spinner.hide();
                // Text that is being written ends its line, which the spinner would overwrite.
                output::print_part(&view.lines(&[]))?;
                if !Spinner::is_visible() {
                    notice_lost(is_lost);
                }
            }
            _ = tree_poll.tick(), if !is_lost && (is_flow || view.is_spawning()) => {
                let tree = match get_tree(client, path).await {
                    // The events find out whether the server comes back.
                    Err(Error::Unreachable { .. }) => continue,
                    tree => tree?,
                };
                let changes = children.changes(&tree);
                if !changes.is_empty() {
                    spinner.hide();
                    output::print_part(&view.lines(&changes))?;
                }
            }
            _ = &mut interrupt => {
                spinner.hide();
                output::print_part(&view.lines(&[]))?;
                return Ok(None);
            }
        }
    };
    // The last changes of the children are printed before the end of the run.
    output::print_part(&view.lines(&children.changes(&get_tree(client, path).await?)))?;
    let run: RunDetailView = client.get(path).await?.data().await?;
    output::print_part(&view.end(&run))?;
    Ok(Some(end))
}

/// Whether the agent is a flow, which starts child runs without a tool call. False when the definition cannot
/// be read, because the token lacks the scope or the agent is deleted; children are then shown at the end.
async fn is_flow(client: &Client, agent: &str) -> bool {
    let Ok(response) = client.get(&format!("/api/admin/agents/{agent}")).await else { return false };
    response.data::<AgentView>().await.is_ok_and(|agent| agent.flow_type != FlowType::Single)
}

async fn get_tree(client: &Client, path: &str) -> Result<RunTreeView> {
    client.get(&format!("{path}/tree")).await?.data().await
}

/// Says on standard error that the server does not answer.
pub fn notice_lost(is_lost: bool) {
    if is_lost {
        output::print_notice(CONNECTION_LOST);
    }
}

/// A spinner with the current activity, on a terminal only. It is hidden before anything else is printed.
#[derive(Default)]
pub struct Spinner(Option<ProgressBar>);

impl Spinner {
    /// Whether a spinner can be seen.
    pub fn is_visible() -> bool {
        std::io::stderr().is_terminal()
    }

    pub fn show(&mut self, activity: String) {
        if !Self::is_visible() {
            return;
        }
        let bar = self.0.get_or_insert_with(|| {
            let bar = ProgressBar::new_spinner();
            if let Ok(style) = ProgressStyle::with_template("{spinner} {msg}  {elapsed}") {
                bar.set_style(style);
            }
            bar.enable_steady_tick(progress::TICK_INTERVAL);
            bar
        });
        bar.set_message(activity);
    }

    pub fn hide(&mut self) {
        if let Some(bar) = self.0.take() {
            bar.finish_and_clear();
        }
    }
}

/// The status with its reason: `paused (step_limit)`.
pub fn status(status: RunStatus, reason: Option<Reason>) -> String {
    match reason {
        Some(reason) => format!("{status} ({reason})"),
        None => status.to_string(),
    }
}

/// The token usage, with the cost when it is known: `45200 tokens in, 12800 out, $0.0123`.
pub fn tokens(usage: &TokenUsage) -> String {
    tokens_text(usage.total_input, usage.total_output, usage.total_cost)
}

/// `1 token in, 5 out, $0.0123`.
pub fn tokens_text(input: i64, output: i64, dollars: Option<f64>) -> String {
    let cost = cost(dollars).map(|cost| format!(", {cost}")).unwrap_or_default();
    format!("{} in, {output} out{cost}", counted(input, "token"))
}

/// The cost as text; `None` when it is unknown or zero, as for a scripted or local model.
pub fn cost(dollars: Option<f64>) -> Option<String> {
    dollars.filter(|dollars| *dollars > 0.0).map(|dollars| format!("${dollars:.4}"))
}

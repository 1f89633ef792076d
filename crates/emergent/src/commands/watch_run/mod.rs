//! Watching a run work: what it says as it says it, each tool call, what it spawns, how it ends.

mod children;
mod events;
mod view;

use std::{io::IsTerminal, time::Duration};

use indicatif::{ProgressBar, ProgressStyle};
use serde_json::Value;

use super::tree;
use crate::{
    client::Client,
    error::{Error, Result},
    output,
};
use children::Children;
pub use events::Events;
use view::View;

/// How often the tree below a run is looked at: what children do is not among its own events.
const TREE_POLL_INTERVAL: Duration = Duration::from_secs(1);

/// After a start: watches the run, or says where it is.
pub async fn follow_or_print(
    client: &Client,
    agent: &str,
    started: &Value,
    watch: bool,
    as_json: bool,
) -> Result<()> {
    let run = text(&started["runId"]);
    if watch {
        return follow(client, agent, run, as_json).await;
    }
    if as_json {
        output::print_json(started)?;
    } else {
        output::print_line(&format!("run {run} is {}", text(&started["status"])))?;
    }
    if client.is_sole_driver() {
        eprintln!("It waits for a server (`emergent serve`); `emergent run follow {run}` drives it here.");
    }
    Ok(())
}

/// Watches a run until it ends; fails when it failed. On a data folder, this process drives it.
pub async fn follow(client: &Client, agent: &str, run: &str, as_json: bool) -> Result<()> {
    let driver = client.drive_runs();
    let path = format!("/api/admin/agents/{agent}/runs/{run}");
    let ended =
        if as_json { print_events(client, &path).await } else { show_events(client, agent, &path).await };
    driver.stop().await;
    match ended? {
        Some(ended) if matches!(ended["status"].as_str(), Some("failed" | "cancelled")) => {
            let why = ended["errorMessage"].as_str().map(|why| format!(": {why}")).unwrap_or_default();
            Err(Error::Usage(format!("run {run} {}{why}", status(&ended))))
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

/// Each event as a line of JSON; the last one is returned, or nothing when the user left.
async fn print_events(client: &Client, path: &str) -> Result<Option<Value>> {
    let mut events = Events::new(client, path);
    loop {
        let event = tokio::select! {
            event = events.next() => event?,
            _ = tokio::signal::ctrl_c() => return Ok(None),
        };
        output::print_line(&event.to_string())?;
        if event["type"] == "run_ended" {
            return Ok(Some(event));
        }
    }
}

async fn show_events(client: &Client, agent: &str, path: &str) -> Result<Option<Value>> {
    let (mut view, mut children, mut waiting) =
        (View::new(output::use_colour()), Children::default(), Spinner(None));
    let is_flow = is_flow(client, agent).await;
    let mut events = Events::new(client, path);
    let mut look = tokio::time::interval(TREE_POLL_INTERVAL);
    let ended = loop {
        if !view.is_mid_line() {
            waiting.show(view.activity());
        }
        tokio::select! {
            event = events.next() => {
                let event = event?;
                waiting.hide();
                if event["type"] == "run_ended" {
                    break event;
                }
                // What the children did stands before what came of it.
                if event["type"] == "tool_completed" && event["toolCall"]["toolName"] == view::SPAWN_TOOL {
                    output::print_part(&view.lines(&children.changes(&get_tree(client, path).await?)))?;
                }
                output::print_part(&view.event(&event))?;
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
    let run: Value = client.get(path).await?.data().await?;
    output::print_part(&view.end(&run))?;
    Ok(Some(ended))
}

/// Whether the agent works through others, from the beginning and without calling a tool. Who may
/// not look at definitions, or asks for one that is gone, sees such children at the end.
async fn is_flow(client: &Client, agent: &str) -> bool {
    let Ok(answer) = client.get(&format!("/api/admin/agents/{agent}")).await else { return false };
    answer.data::<Value>().await.is_ok_and(|agent| agent["flowType"] != "single")
}

async fn get_tree(client: &Client, path: &str) -> Result<Value> {
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

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// `paused (step_limit)`.
fn status(run: &Value) -> String {
    let reason = run["reason"].as_str().map(|reason| format!(" ({reason})")).unwrap_or_default();
    format!("{}{reason}", text(&run["status"]))
}

/// `45200 in, 12800 out`, with the price when it is known.
pub fn tokens(usage: &Value) -> String {
    let count = |name: &str| usage[name].as_u64().unwrap_or(0);
    let cost = cost(usage).map(|cost| format!(", {cost}")).unwrap_or_default();
    format!("{} tokens in, {} out{cost}", count("totalInput"), count("totalOutput"))
}

pub fn cost(usage: &Value) -> Option<String> {
    // What a script said, or a model at home, costs nothing.
    usage["totalCost"].as_f64().filter(|dollars| *dollars > 0.0).map(|dollars| format!("${dollars:.4}"))
}

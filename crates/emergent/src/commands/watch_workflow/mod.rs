//! Follows a workflow: redraws its tasks on a terminal as they change, or else prints a line for each event.

use std::{
    io::{IsTerminal, Write},
    time::Duration,
};

use emergent_domain::{time::Clock, workflow::WorkflowStatus};
use emergent_wire::{
    workflow::WorkflowView,
    workflow_event::{WorkflowEventBody, WorkflowEventView},
};
use futures_util::{StreamExt, stream};

use super::{
    encode,
    watch_run::{Event, Events},
};
use crate::{
    client::{Client, Received},
    dag::{Dag, RenderOptions, advice},
    error::{Error, Result},
    output,
};

/// How often the tasks are redrawn, so that elapsed times stay current without events.
const REDRAW_INTERVAL: Duration = Duration::from_millis(200);
/// The smallest drawing, for a terminal that reports no usable size.
const MIN_WIDTH: usize = 20;
const MIN_HEIGHT: usize = 3;

/// Follows a workflow until it ends or is escalated; fails unless it completed. On a data folder, this
/// process drives the workflow.
pub async fn follow(client: &Client, id: &str, as_json: bool) -> Result<()> {
    let driver = client.drive_runs();
    let ended = watch(client, id, as_json).await;
    driver.stop().await;
    let Some(workflow) = ended? else {
        eprintln!(
            "Not watching any more: `emergent workflow follow {id}` goes on, `emergent workflow cancel {id}` ends it."
        );
        return Ok(());
    };
    match workflow.facts.status {
        WorkflowStatus::Completed => Ok(()),
        WorkflowStatus::Escalated => Err(Error::Usage(format!("workflow {id} waits for a person"))),
        status => Err(Error::Usage(format!("workflow {id} {status}"))),
    }
}

/// Prints the events so far, a line each.
pub async fn events(client: &Client, id: &str, as_json: bool) -> Result<()> {
    let workflow = get(client, id).await?;
    let (dag, newest) = (Dag::new(&workflow), workflow.facts.event_seq);
    let mut events = Events::new(client, &path(id));
    let mut last_seq = 0;
    while last_seq < newest {
        let event: Event<WorkflowEventView> = events.next().await?;
        last_seq = event.parsed.as_ref().map_or(last_seq, |event| event.seq);
        print(&dag, &event, as_json)?;
    }
    Ok(())
}

/// Tells the user on a data folder that no server drives the workflow.
pub fn warn_if_not_driven(client: &Client, id: &str) {
    if client.is_sole_driver() {
        eprintln!(
            "It waits for a server (`emergent serve`); `emergent workflow follow {id}` drives it here."
        );
    }
}

/// Loads a workflow.
pub async fn get(client: &Client, id: &str) -> Result<Received<WorkflowView>> {
    client.get(&path(id)).await?.data().await
}

/// The API path of a workflow.
pub fn path(id: &str) -> String {
    format!("/api/coordination/workflows/{}", encode(id))
}

/// Prints the tasks of a workflow, and its summary or escalation.
pub fn show(workflow: &WorkflowView) -> Result<()> {
    let options =
        RenderOptions { colour: output::use_colour(), ..RenderOptions::plain(Clock::system().now()) };
    Dag::new(workflow).lines(&options).iter().try_for_each(|line| output::print_line(line))?;
    print_end(workflow)
}

/// Prints the summary, or the reason of an escalation with the commands for it.
fn print_end(workflow: &WorkflowView) -> Result<()> {
    if let Some(summary) = &workflow.facts.summary {
        output::print_line(&format!("\n{summary}"))?;
    }
    if let Some(escalation) = &workflow.facts.escalation {
        output::print_line(&format!("\nIt waits for you: {}", escalation.reason))?;
    }
    advice(&workflow.facts).iter().try_for_each(|option| output::print_line(&format!("  {option}")))
}

/// Shows the workflow until it is idle and all its events are shown. Returns it, or `None` after Ctrl-C.
async fn watch(client: &Client, id: &str, as_json: bool) -> Result<Option<Received<WorkflowView>>> {
    let mut workflow = get(client, id).await?;
    let mut dag = Dag::new(&workflow);
    let mut screen = Screen::new(as_json);
    // As a stream, so that a read in progress is not cancelled when the tasks are redrawn.
    let events = stream::unfold(Events::new(client, &path(id)), |mut events| async {
        let next = events.next::<WorkflowEventView>().await;
        Some((next, events))
    });
    let mut events = std::pin::pin!(events);
    let mut tick = tokio::time::interval(REDRAW_INTERVAL);
    let mut ending = false;
    let mut last_seq = 0;
    while !(is_idle(&workflow) && last_seq >= workflow.facts.event_seq) {
        tokio::select! {
            Some(event) = events.next() => {
                let event = event?;
                let mut is_complete = false;
                if let Some(event) = &event.parsed {
                    last_seq = event.seq;
                    is_complete = dag.apply_event(event);
                    ending |= matches!(
                        event.body(),
                        WorkflowEventBody::WorkflowEnded { .. } | WorkflowEventBody::Escalated { .. }
                    );
                }
                // The workflow may have been resumed after this event, so its current status decides.
                if !is_complete || ending {
                    workflow = get(client, id).await?;
                    dag.refresh(&workflow);
                    ending &= is_idle(&workflow);
                }
                screen.event(&dag, &event)?;
            }
            _ = tick.tick() => screen.draw(&dag)?,
            _ = tokio::signal::ctrl_c() => {
                screen.draw(&dag)?;
                return Ok(None);
            }
        }
    }
    workflow = get(client, id).await?;
    dag.refresh(&workflow);
    screen.end(&dag)?;
    if !as_json {
        print_end(&workflow)?;
    }
    Ok(Some(workflow))
}

/// Whether the workflow has ended or waits for a person.
fn is_idle(workflow: &WorkflowView) -> bool {
    !matches!(workflow.facts.status, WorkflowStatus::Planning | WorkflowStatus::Running)
}

/// Prints an event as a line, or as JSON.
fn print(dag: &Dag, event: &Event<WorkflowEventView>, as_json: bool) -> Result<()> {
    if as_json {
        return output::print_line(&event.raw.to_string());
    }
    match event.parsed.as_ref().and_then(|event| dag.describe_event(event)) {
        Some(line) => output::print_line(&line),
        None => Ok(()),
    }
}

/// The output of `watch`: a drawing that is replaced on a terminal, else a line for each event and the
/// drawing at the end.
struct Screen {
    as_json: bool,
    is_terminal: bool,
    /// The number of lines of the current drawing.
    drawn_lines: usize,
}

impl Screen {
    fn new(as_json: bool) -> Self {
        Self { as_json, is_terminal: !as_json && std::io::stdout().is_terminal(), drawn_lines: 0 }
    }

    fn event(&mut self, dag: &Dag, event: &Event<WorkflowEventView>) -> Result<()> {
        if self.is_terminal { Ok(()) } else { print(dag, event, self.as_json) }
    }

    fn draw(&mut self, dag: &Dag) -> Result<()> {
        if !self.is_terminal {
            return Ok(());
        }
        let (rows, columns) = console::Term::stdout().size();
        let options = RenderOptions {
            colour: output::use_colour(),
            width: usize::from(columns).max(MIN_WIDTH),
            // The last line is for the cursor.
            height: usize::from(rows).saturating_sub(1).max(MIN_HEIGHT),
            now: Clock::system().now(),
        };
        self.redraw(&dag.lines(&options))
    }

    fn end(&mut self, dag: &Dag) -> Result<()> {
        if self.as_json {
            return Ok(());
        }
        let options =
            RenderOptions { colour: output::use_colour(), ..RenderOptions::plain(Clock::system().now()) };
        if !self.is_terminal {
            output::print_line("")?;
        }
        self.redraw(&dag.lines(&options))
    }

    /// Replaces the drawing with one write, so that it does not flicker.
    fn redraw(&mut self, lines: &[String]) -> Result<()> {
        let mut text = String::new();
        if self.drawn_lines > 0 {
            text.push_str(&format!("\x1b[{}A\x1b[J", self.drawn_lines));
        }
        for line in lines {
            text.push_str(line);
            text.push('\n');
        }
        self.drawn_lines = lines.len();
        let mut out = std::io::stdout().lock();
        out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(Error::Io)
    }
}

//! Watching a workflow: the picture of its tasks, drawn again as they move. Where nobody looks, a
//! line for each event.

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

/// How often the picture is drawn again while nothing happens: seconds go by.
const REDRAW_INTERVAL: Duration = Duration::from_millis(200);

/// Watches a workflow until it is over or waits for a person; fails unless it completed. On a data
/// folder, this process drives it.
pub async fn follow(client: &Client, id: &str, as_json: bool) -> Result<()> {
    let driver = client.drive_runs();
    let watched = watch(client, id, as_json).await;
    driver.stop().await;
    let Some(workflow) = watched? else {
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

/// What happened so far, a line each.
pub async fn events(client: &Client, id: &str, as_json: bool) -> Result<()> {
    let workflow = get(client, id).await?;
    let (dag, newest) = (Dag::new(&workflow), workflow.facts.event_seq);
    let mut events = Events::new(client, &path(id));
    let mut seen = 0;
    while seen < newest {
        let event: Event<WorkflowEventView> = events.next().await?;
        seen = event.known.as_ref().map_or(seen, |event| event.seq);
        print(&dag, &event, as_json)?;
    }
    Ok(())
}

/// Says what a workflow waits for that nobody drives.
pub fn warn_if_not_driven(client: &Client, id: &str) {
    if client.is_sole_driver() {
        eprintln!(
            "It waits for a server (`emergent serve`); `emergent workflow follow {id}` drives it here."
        );
    }
}

pub async fn get(client: &Client, id: &str) -> Result<Received<WorkflowView>> {
    client.get(&path(id)).await?.data().await
}

pub fn path(id: &str) -> String {
    format!("/api/coordination/workflows/{}", encode(id))
}

/// The picture of a workflow as it stands, and what came of it.
pub fn show(workflow: &WorkflowView) -> Result<()> {
    let look = RenderOptions { colour: output::use_colour(), ..RenderOptions::plain(Clock::system().now()) };
    Dag::new(workflow).lines(&look).iter().try_for_each(|line| output::print_line(line))?;
    print_end(workflow)
}

/// The summary, or what a person can do.
fn print_end(workflow: &WorkflowView) -> Result<()> {
    if let Some(summary) = &workflow.facts.summary {
        output::print_line(&format!("\n{summary}"))?;
    }
    if let Some(escalation) = &workflow.facts.escalation {
        output::print_line(&format!("\nIt waits for you: {}", escalation.reason))?;
    }
    let ways = advice(&workflow.facts);
    ways.iter().try_for_each(|way| output::print_line(&format!("  {way}")))
}

/// The workflow at its end, or nothing when the user left.
async fn watch(client: &Client, id: &str, as_json: bool) -> Result<Option<Received<WorkflowView>>> {
    let mut workflow = get(client, id).await?;
    let mut dag = Dag::new(&workflow);
    let mut screen = Screen::new(as_json);
    // As a stream, whose next event goes on being waited for while the picture is drawn again.
    let events = stream::unfold(Events::new(client, &path(id)), |mut events| async {
        let next = events.next::<WorkflowEventView>().await;
        Some((next, events))
    });
    let mut events = std::pin::pin!(events);
    let mut tick = tokio::time::interval(REDRAW_INTERVAL);
    let mut ending = false;
    // What is over and has told nothing has nothing to tell.
    let mut seen = 0;
    while !(is_idle(&workflow) && seen >= workflow.facts.event_seq) {
        tokio::select! {
            Some(event) = events.next() => {
                let event = event?;
                let mut whole = false;
                if let Some(event) = &event.known {
                    seen = event.seq;
                    whole = dag.apply_event(event);
                    ending |= matches!(
                        event.body(),
                        WorkflowEventBody::WorkflowEnded { .. } | WorkflowEventBody::Escalated { .. }
                    );
                }
                // Whether an end is the end, only the workflow knows: it may have gone on since.
                if !whole || ending {
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

/// Whether nothing happens any more by itself.
fn is_idle(workflow: &WorkflowView) -> bool {
    !matches!(workflow.facts.status, WorkflowStatus::Planning | WorkflowStatus::Running)
}

fn print(dag: &Dag, event: &Event<WorkflowEventView>, as_json: bool) -> Result<()> {
    if as_json {
        return output::print_line(&event.raw.to_string());
    }
    match event.known.as_ref().and_then(|event| dag.describe_event(event)) {
        Some(line) => output::print_line(&line),
        None => Ok(()),
    }
}

/// Where the picture goes: over itself on a terminal, else a line for each event and the whole at
/// the end.
struct Screen {
    as_json: bool,
    terminal: bool,
    /// Lines that are drawn now.
    drawn: usize,
}

impl Screen {
    fn new(as_json: bool) -> Self {
        Self { as_json, terminal: !as_json && std::io::stdout().is_terminal(), drawn: 0 }
    }

    fn event(&mut self, dag: &Dag, event: &Event<WorkflowEventView>) -> Result<()> {
        if self.terminal { Ok(()) } else { print(dag, event, self.as_json) }
    }

    fn draw(&mut self, dag: &Dag) -> Result<()> {
        if !self.terminal {
            return Ok(());
        }
        let (rows, columns) = console::Term::stdout().size();
        let look = RenderOptions {
            colour: output::use_colour(),
            width: usize::from(columns).max(20),
            // A line is left for the cursor.
            height: usize::from(rows).saturating_sub(1).max(3),
            now: Clock::system().now(),
        };
        self.redraw(&dag.lines(&look))
    }

    fn end(&mut self, dag: &Dag) -> Result<()> {
        if self.as_json {
            return Ok(());
        }
        let look =
            RenderOptions { colour: output::use_colour(), ..RenderOptions::plain(Clock::system().now()) };
        if !self.terminal {
            output::print_line("")?;
        }
        self.redraw(&dag.lines(&look))
    }

    /// In one piece, so that no half picture is seen.
    fn redraw(&mut self, lines: &[String]) -> Result<()> {
        let mut text = String::new();
        if self.drawn > 0 {
            text.push_str(&format!("\x1b[{}A\x1b[J", self.drawn));
        }
        for line in lines {
            text.push_str(line);
            text.push('\n');
        }
        self.drawn = lines.len();
        let mut out = std::io::stdout().lock();
        out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(Error::Io)
    }
}

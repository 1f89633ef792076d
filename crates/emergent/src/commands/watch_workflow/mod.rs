//! Follows a workflow: redraws its tasks on a terminal as they change, with the newest activity below them, or
//! else prints a line for each event.

mod activity;
mod run_feeds;
mod screen;

use std::time::Duration;

use console::measure_text_width;
use emergent_domain::{time::Clock, workflow::WorkflowStatus};
use emergent_wire::{
    workflow::WorkflowView,
    workflow_event::{WorkflowEventBody, WorkflowEventView},
};
use futures_util::{StreamExt, stream};

use super::{
    discussion, encode,
    watch_run::{CONNECTION_LOST, Event, Events, listen_for_interrupt, lost_changed, notice_lost},
};
use crate::{
    client::{Client, OtherDriver, Received},
    dag::{Dag, RenderOptions, advice},
    error::{Error, Result},
    hints, output,
    text::shorten_ids,
};
use activity::Activity;
use run_feeds::{RunFeeds, RunUpdate};
use screen::Frame;

/// How often the tasks are redrawn, so that elapsed times stay current without events.
const REDRAW_INTERVAL: Duration = Duration::from_millis(200);
/// How often the workflow is loaded for what it has spent, which its events do not carry.
const SPEND_POLL_INTERVAL: Duration = Duration::from_secs(2);
/// The most lines below the graph, and the part of the terminal that they may take.
const MAX_ACTIVITY_LINES: usize = 12;
const ACTIVITY_SHARE: usize = 3;
/// `workflow show` reads the events of a workflow for the times of its attempts, unless there are more than this.
const MAX_EVENTS_FOR_TIMES: i64 = 5_000;
/// How long it reads them.
const TIMES_TIMEOUT: Duration = Duration::from_secs(5);

/// Follows a workflow until it ends or is escalated; fails unless it completed. On a data folder, this
/// process drives the workflow.
pub async fn follow(client: &Client, id: &str, as_json: bool) -> Result<()> {
    let again = hints::command(&format!("workflow follow {id}"));
    follow_with(client, id, &again, as_json).await
}

/// Follows a workflow like [`follow`]. `again` is the command that follows it again after Ctrl-C.
pub async fn follow_with(client: &Client, id: &str, again: &str, as_json: bool) -> Result<()> {
    let driver = client.drive_runs();
    let ended = watch(client, id, as_json).await;
    driver.stop().await;
    let Some(workflow) = ended.map_err(|error| left_behind(error, "workflow", id))? else {
        // It may have ended while this process stopped.
        let status = get(client, id).await.ok().map(|workflow| workflow.facts.status);
        let ended = status.filter(|status| status.is_terminal()).map(|status| status.to_string());
        let driver = client.other_driver();
        output::print_notice(&interrupted_message_with(driver, "workflow", id, ended.as_deref(), again));
        return Err(Error::Interrupted);
    };
    match workflow.facts.status {
        WorkflowStatus::Completed => Ok(()),
        WorkflowStatus::Escalated => Err(Error::Usage(format!("workflow {id} waits for a person"))),
        status => Err(Error::Usage(format!("workflow {id} {status}"))),
    }
}

/// What becomes of a run or workflow that is not followed any more, and what the user can do. `ended` is its status
/// if it has ended meanwhile.
pub fn interrupted_message(driver: OtherDriver, noun: &str, id: &str, ended: Option<&str>) -> String {
    let again = hints::command(&format!("{noun} follow {id}"));
    interrupted_message_with(driver, noun, id, ended, &again)
}

/// The message of [`interrupted_message`] with the command that follows the run or workflow again.
fn interrupted_message_with(
    driver: OtherDriver,
    noun: &str,
    id: &str,
    ended: Option<&str>,
    follow: &str,
) -> String {
    if let Some(status) = ended {
        let show = hints::command(&format!("{noun} show {id}"));
        return format!("Interrupted. The {noun} has ended meanwhile, it is {status}: `{show}` shows it.");
    }
    let cancel = hints::command(&format!("{noun} cancel {id}"));
    match driver {
        OtherDriver::Server => format!(
            "Interrupted. The server goes on with the {noun}: `{follow}` watches it again, `{cancel}` ends it."
        ),
        OtherDriver::MaybeServer => format!(
            "Interrupted. Only a server on the same database goes on with the {noun}; where none runs, `{follow}` \
             drives it here. `{cancel}` ends it."
        ),
        OtherDriver::Nobody => format!(
            "Interrupted. Nobody drives the {noun} now: `{follow}` goes on here, `{}` starts a server that does, \
             `{cancel}` ends it.",
            hints::local_command("serve")
        ),
    }
}

/// The error of a server that stopped while a run or workflow was followed says what becomes of it.
pub fn left_behind(error: Error, noun: &str, id: &str) -> Error {
    match error {
        Error::Unreachable { server, .. } => Error::Usage(format!(
            "the server at `{server}` does not answer any more; the {noun} is kept and goes on when a server starts: then \
             `{}` watches it again",
            hints::command(&format!("{noun} follow {id}"))
        )),
        other => other,
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

/// What the user can do about a run or workflow that nobody drives.
pub fn waiting_message(noun: &str, id: &str) -> String {
    format!(
        "It waits for a server (`{}`); `{}` drives it here.",
        hints::local_command("serve"),
        hints::command(&format!("{noun} follow {id}"))
    )
}

/// Tells the user on a data folder that no server drives the workflow.
pub fn warn_if_not_driven(client: &Client, id: &str) {
    if client.is_sole_driver() {
        output::print_notice(&waiting_message("workflow", id));
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
pub async fn show(client: &Client, workflow: &WorkflowView) -> Result<()> {
    let mut dag = Dag::new(workflow);
    if workflow.facts.event_seq <= MAX_EVENTS_FOR_TIMES {
        // Without its events, the workflow is shown without the times.
        let _ = tokio::time::timeout(TIMES_TIMEOUT, load_times(client, workflow, &mut dag)).await;
    }
    dag.lines(&whole_drawing()).iter().try_for_each(|line| output::print_line(line))?;
    print_end(client, workflow).await
}

/// Adds the times of the attempts, which only events have.
async fn load_times(client: &Client, workflow: &WorkflowView, dag: &mut Dag) -> Result<()> {
    let mut events = Events::new(client, &path(&workflow.facts.id.to_string()));
    let mut last_seq = 0;
    while last_seq < workflow.facts.event_seq {
        let event: Event<WorkflowEventView> = events.next().await?;
        if let Some(event) = &event.parsed {
            last_seq = event.seq;
            dag.apply_times(event);
        }
    }
    Ok(())
}

/// A drawing of every task, as wide as the terminal.
fn whole_drawing() -> RenderOptions {
    RenderOptions {
        colour: output::use_colour(),
        width: output::terminal_width().unwrap_or(usize::MAX),
        ..RenderOptions::plain(Clock::system().now())
    }
}

/// Prints the summary, or the reason of an escalation with the commands for it.
async fn print_end(client: &Client, workflow: &WorkflowView) -> Result<()> {
    if let Some(summary) = &workflow.facts.summary {
        output::print_text(&format!("\n{summary}"))?;
    }
    if let Some(escalation) = &workflow.facts.escalation {
        output::print_text(&format!("\nIt waits for you: {}", escalation.reason))?;
    }
    let undecided = workflow.facts.escalation.as_ref().and_then(|escalation| escalation.discussion_id);
    let options = match undecided {
        Some(discussion) => discussion::offered_options(client, &discussion.to_string()).await,
        None => Vec::new(),
    };
    for (label, mut command) in advice(&workflow.facts) {
        if command.contains(" DECISION") {
            command.push_str(&discussion::options_note(&options));
        }
        let line = format!("  {label:<17} {command}");
        match output::terminal_width() {
            None => output::print_line(&line)?,
            Some(width) if measure_text_width(&shorten_ids(&line)) <= width => {
                output::print_line(&shorten_ids(&line))?;
            }
            // A command is never broken, so that it can be copied.
            Some(_) => {
                output::print_line(&format!("  {label}"))?;
                output::print_line(&format!("    {}", shorten_ids(&command)))?;
            }
        }
    }
    Ok(())
}

/// Shows the workflow until it is idle and all its events are shown. Returns it, or `None` after Ctrl-C.
async fn watch(client: &Client, id: &str, as_json: bool) -> Result<Option<Received<WorkflowView>>> {
    let mut workflow = get(client, id).await?;
    let mut dag = Dag::new(&workflow);
    let mut screen = Screen::new(as_json);
    let mut feeds = RunFeeds::new(client);
    let events = Events::new(client, &path(id));
    let mut lost = events.lost();
    // As a stream, so that a read in progress is not cancelled when the tasks are redrawn.
    let events = stream::unfold(events, |mut events| async {
        let next = events.next::<WorkflowEventView>().await;
        Some((next, events))
    });
    let mut events = std::pin::pin!(events);
    let mut tick = tokio::time::interval(REDRAW_INTERVAL);
    let mut spend_poll = tokio::time::interval(SPEND_POLL_INTERVAL);
    // One listener for the whole loop: a signal that arrives while something is drawn is not lost.
    let mut interrupt = listen_for_interrupt().await;
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
                if let Some(event) = &event.parsed {
                    screen.follow_run(&mut feeds, &dag, event);
                }
            }
            Some(update) = feeds.next(), if !feeds.is_empty() => screen.run_update(&mut dag, update)?,
            _ = tick.tick() => screen.draw(&dag)?,
            is_lost = lost_changed(&mut lost) => screen.connection(is_lost),
            _ = spend_poll.tick(), if screen.is_terminal => {
                match get(client, id).await {
                    // The events find out whether the server comes back.
                    Err(Error::Unreachable { .. }) => {}
                    loaded => {
                        workflow = loaded?;
                        dag.refresh(&workflow);
                    }
                }
            }
            _ = &mut interrupt => {
                screen.draw(&dag)?;
                return Ok(None);
            }
        }
    }
    workflow = get(client, id).await?;
    dag.refresh(&workflow);
    screen.end(&dag)?;
    if !as_json {
        print_end(client, &workflow).await?;
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
        return output::print_json_line(&event.raw);
    }
    match event.parsed.as_ref().and_then(|event| dag.describe_event(event)) {
        Some(line) => output::print_text(&line),
        None => Ok(()),
    }
}

/// The output of `watch`: a drawing that is replaced on a terminal, else a line for each event and the
/// drawing at the end.
struct Screen {
    as_json: bool,
    is_terminal: bool,
    frame: Frame,
    activity: Activity,
}

impl Screen {
    fn new(as_json: bool) -> Self {
        let is_terminal = !as_json && output::terminal_size().is_some();
        Self { as_json, is_terminal, frame: Frame::default(), activity: Activity::default() }
    }

    fn event(&mut self, dag: &Dag, event: &Event<WorkflowEventView>) -> Result<()> {
        if !self.is_terminal {
            return print(dag, event, self.as_json);
        }
        if let Some(event) = &event.parsed
            && !self.has_own_line(event)
            && let Some(line) = dag.describe_event(event)
        {
            self.activity.add_line(event.at, line);
        }
        Ok(())
    }

    /// Whether the events of a run that is shown say the same.
    fn has_own_line(&self, event: &WorkflowEventView) -> bool {
        let is_retry = matches!(event.body(), WorkflowEventBody::ModelRetry { .. });
        is_retry && event.run_id.is_some_and(|run| self.activity.has_run(run))
    }

    /// Says that the server does not answer, or that it answers again.
    fn connection(&mut self, is_lost: bool) {
        match is_lost {
            _ if !self.is_terminal => notice_lost(is_lost),
            true => self.activity.add_line(Clock::system().now(), CONNECTION_LOST.to_owned()),
            false => self.activity.add_line(Clock::system().now(), "connected again".to_owned()),
        }
    }

    /// Follows the run that an event is about: on a terminal for its activity, and elsewhere for what it asks a person,
    /// which no event of the workflow says.
    fn follow_run(&mut self, feeds: &mut RunFeeds<'_>, dag: &Dag, event: &WorkflowEventView) {
        // A retry may be of a run that another one started, which is not shown by itself.
        let is_shown = !self.as_json && !matches!(event.body(), WorkflowEventBody::ModelRetry { .. });
        let Some(run) = event.run_id.filter(|_| is_shown) else { return };
        if feeds.follow(run) {
            let label = event.task_id.map_or_else(|| "planning".to_owned(), |task| dag.name(task));
            self.activity.add_run(run, &label);
        }
    }

    fn run_update(&mut self, dag: &mut Dag, update: RunUpdate) -> Result<()> {
        match update {
            RunUpdate::Loaded { rehearsal: true } => dag.mark_rehearsal(),
            RunUpdate::Loaded { rehearsal: false } => {}
            RunUpdate::Event { run, event } if self.is_terminal => {
                self.activity.apply_event(run, event.parsed.as_ref(), &event.raw);
            }
            RunUpdate::Event { run, event } => {
                let event = event.parsed.as_ref();
                if let Some(line) = event.and_then(|event| self.activity.request_line(run, event)) {
                    output::print_text(&line)?;
                }
            }
            RunUpdate::Closed { run } => self.activity.remove_run(run),
        }
        Ok(())
    }

    fn draw(&mut self, dag: &Dag) -> Result<()> {
        let Some((rows, columns)) = output::terminal_size().filter(|_| self.is_terminal) else {
            return Ok(());
        };
        // The last line is for the cursor.
        let height = rows - 1;
        let activity_height = (height / ACTIVITY_SHARE).min(MAX_ACTIVITY_LINES);
        let activity = self.activity.lines(dag.started_at(), columns, activity_height);
        // An empty line separates the two.
        let below = if activity.is_empty() { 0 } else { activity.len() + 1 };
        let options = RenderOptions {
            colour: output::use_colour(),
            width: columns,
            height: height.saturating_sub(below).max(1),
            now: Clock::system().now(),
        };
        let mut lines = dag.lines(&options);
        if !activity.is_empty() {
            lines.push(String::new());
            lines.extend(activity.iter().map(|line| output::dim(line)));
        }
        self.frame.draw(lines, (rows, columns))
    }

    fn end(&mut self, dag: &Dag) -> Result<()> {
        let lines = dag.lines(&whole_drawing());
        match output::terminal_size() {
            _ if self.as_json => Ok(()),
            Some(size) if self.is_terminal => self.frame.draw(lines, size),
            _ => {
                output::print_line("")?;
                lines.iter().try_for_each(|line| output::print_line(line))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interrupted_demo_goes_on_when_it_is_started_again() {
        let left = interrupted_message_with(OtherDriver::Nobody, "workflow", "abc", None, "emergent demo");
        let expected =
            "Nobody drives the workflow now: `emergent demo` goes on here, `emergent serve` starts a server";
        assert!(left.contains(expected), "{left}");
    }

    #[test]
    fn what_ended_meanwhile_is_not_said_to_wait() {
        let left = |ended| interrupted_message(OtherDriver::Nobody, "run", "abc", ended);
        assert!(left(None).contains("Nobody drives the run now"), "{}", left(None));
        let ended = left(Some("completed"));
        assert!(ended.contains("it is completed: `emergent run show abc`"), "{ended}");
        assert!(!ended.contains("Nobody drives") && !ended.contains("cancel"), "{ended}");
    }
}

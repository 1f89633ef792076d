//! `emergent watch`: prints what happens in a project, one line for each event, until Ctrl-C.

use std::io::IsTerminal;

use console::measure_text_width;
use emergent_domain::{
    change::ChangeKind, time::Timestamp, trigger::EventKind, workflow_template::is_written_by_workflows,
};
use emergent_wire::project_event::ProjectEventView;
use uuid::Uuid;

use super::{
    login_link::no_server,
    watch_run::{Event, Events, listen_for_interrupt, lost_changed, notice_lost},
};
use crate::{
    client::{Client, OtherDriver},
    error::{Error, Result},
    output,
    printable::printable_line,
    text::short_id,
};

/// The columns of what an event is about, and of its status. Longer ones shift the rest.
const KIND_WIDTH: usize = 12;
const STATUS_WIDTH: usize = 9;
/// On terminals with fewer columns than this, nothing is aligned.
const NARROW_COLUMNS: usize = 60;
/// A text of which a terminal would show less than this is left out.
const MIN_TEXT_COLUMNS: usize = 4;
/// How much of a text is shown elsewhere.
const MAX_TEXT_CHARS: usize = 120;

// What is shown.
#[derive(Debug, clap::Args)]
pub struct Watch {
    /// Only these types of events, separated by commas: run, workflow, approval, conversation, graph, agent,
    /// mcp_server, product, token, secret, budget, trigger
    #[arg(long, value_name = "TYPES")]
    types: Option<String>,
    /// Also changes of the graph that record the work of the server: tasks, sessions, messages, discussions, the
    /// relationships that workflows write, and that all texts are embedded
    #[arg(long)]
    include_system: bool,
}

impl Watch {
    pub async fn run(self, client: &Client, as_json: bool) -> Result<()> {
        if client.other_driver() == OtherDriver::Nobody {
            return Err(no_server());
        }
        let types = self.types.as_deref().map(super::encode);
        let mut events = Events::for_project(client, types.as_deref());
        let (mut interrupt, mut lost) = (listen_for_interrupt().await, events.lost());
        loop {
            let event: Event<ProjectEventView> = tokio::select! {
                event = events.next() => event?,
                is_lost = lost_changed(&mut lost) => {
                    notice_lost(is_lost);
                    continue;
                }
                _ = &mut interrupt => {
                    // The terminal shows `^C` and leaves the line open.
                    if std::io::stderr().is_terminal() {
                        eprintln!();
                    }
                    return Err(Error::Interrupted);
                }
            };
            if !self.include_system && event.parsed.as_ref().is_some_and(is_bookkeeping) {
                continue;
            }
            match (&event.parsed, as_json) {
                (_, true) => output::print_json_line(&event.raw)?,
                (Some(ProjectEventView::Ready { complete: true, .. }), false) => {
                    output::print_notice("Watching, with times in UTC; Ctrl-C ends it.");
                }
                (Some(parsed), false) => match EventLine::new(parsed) {
                    Some(line) => output::print_row(&line.line(output::terminal_width()))?,
                    None => output::print_notice(
                        "Some events are missing: they were deleted while this program was not connected.",
                    ),
                },
                // A newer server sends a type that this program does not know.
                (None, false) => output::print_json_line(&event.raw)?,
            }
        }
    }
}

/// What a line says of an event.
struct EventLine {
    at: Timestamp,
    kind: String,
    /// The status, or what was done.
    status: String,
    /// What commands accept to show it; settings have a name instead.
    id: Option<Uuid>,
    text: String,
}

impl EventLine {
    /// What a line says of an event; `None` for one that is about the stream itself.
    fn new(event: &ProjectEventView) -> Option<Self> {
        let new_line = |at: Timestamp, kind: &str, status: &str, id, text: &str| {
            Some(Self { at, kind: kind.to_owned(), status: status.to_owned(), id, text: text.to_owned() })
        };
        match event {
            ProjectEventView::Ready { .. } => None,
            ProjectEventView::Graph { change } => {
                let (kind, done) = change.type_.as_str().split_once('_').unwrap_or_default();
                new_line(change.at, kind, done, Some(change.entity_id), &change.entity_type)
            }
            ProjectEventView::Run { run_id, agent, status, reason, at, .. } => {
                let reason = reason.as_ref().map(|reason| format!(" ({reason})")).unwrap_or_default();
                new_line(*at, "run", status, Some(*run_id), &format!("{agent}{reason}"))
            }
            ProjectEventView::Workflow { workflow_id, description, status, at } => {
                new_line(*at, "workflow", status, Some(*workflow_id), description)
            }
            ProjectEventView::Approval { approval_id, kind, title, agent, status, overdue, at, .. } => {
                let status = if *overdue && status == "pending" { "overdue" } else { status };
                new_line(*at, kind, status, Some(*approval_id), agent.as_ref().unwrap_or(title))
            }
            ProjectEventView::Conversation { conversation_id, title, status, at } => {
                new_line(*at, "conversation", status, Some(*conversation_id), title)
            }
            ProjectEventView::Agent { name, action, at, .. } => new_line(*at, "agent", action, None, name),
            ProjectEventView::McpServer { name, action, at, .. } => {
                new_line(*at, "MCP server", &action.replace('_', " "), None, name)
            }
            ProjectEventView::Product { name, action, at } => new_line(*at, "product", action, None, name),
            ProjectEventView::Token { name, action, at, .. } => new_line(*at, "token", action, None, name),
            ProjectEventView::Secret { name, action, at } => new_line(*at, "secret", action, None, name),
            ProjectEventView::Budget { name, action, at } => {
                // The budget of the whole project has no name.
                let name = if name.is_empty() { "project" } else { name };
                new_line(*at, "budget", action, None, name)
            }
            ProjectEventView::Trigger { name, action, at } => new_line(*at, "trigger", action, None, name),
        }
    }

    /// One line: the time of day in UTC, what it is about, its status, its id, and a text. On a terminal of this width, the
    /// text gets only what the others leave.
    fn line(&self, width: Option<usize>) -> String {
        let is_narrow = width.is_some_and(|width| width < NARROW_COLUMNS);
        let (kind_width, status_width, gap) =
            if is_narrow { (0, 0, " ") } else { (KIND_WIDTH, STATUS_WIDTH, "  ") };
        let id = self.id.map(|id| id.to_string()).unwrap_or_default();
        let id = if width.is_some() { short_id(&id) } else { &id };
        let id = if id.is_empty() { String::new() } else { format!("{gap}{id}") };
        let time = self.at.to_string().get(11..19).unwrap_or_default().to_owned();
        let status = printable_line(&self.status).into_owned();
        let before = format!("{time}{gap}{:<kind_width$}{gap}", printable_line(&self.kind));
        // The colour has no columns.
        let padding = " ".repeat(status_width.saturating_sub(measure_text_width(&status)));
        let columns = measure_text_width(&before)
            + measure_text_width(&status)
            + padding.len()
            + measure_text_width(&id)
            + gap.len();
        let text = match width.map(|width| width.saturating_sub(columns)) {
            Some(left) if left < MIN_TEXT_COLUMNS => String::new(),
            left => output::first_line(&self.text, left.unwrap_or(MAX_TEXT_CHARS)),
        };
        format!("{before}{}{padding}{id}{gap}{text}", colour(&status)).trim_end().to_owned()
    }
}

/// Whether a change of the graph only records the work of the server: one of an object that lists and searches leave
/// out, of a relationship that workflows write, or that the texts of the project are embedded.
fn is_bookkeeping(event: &ProjectEventView) -> bool {
    let ProjectEventView::Graph { change } = event else { return false };
    let type_ = change.entity_type.as_str();
    match change.type_ {
        ChangeKind::ObjectCreated
        | ChangeKind::ObjectUpdated
        | ChangeKind::ObjectDeleted
        | ChangeKind::ObjectRestored => is_written_by_workflows(EventKind::EntityCreated, type_),
        ChangeKind::RelationshipCreated
        | ChangeKind::RelationshipUpdated
        | ChangeKind::RelationshipDeleted
        | ChangeKind::RelationshipRestored => is_written_by_workflows(EventKind::RelationshipCreated, type_),
        ChangeKind::EmbeddingsDone => true,
        ChangeKind::DocumentIngested | ChangeKind::DocumentDeleted => false,
    }
}

fn colour(status: &str) -> String {
    match status {
        "completed" => output::green(status),
        "failed" | "escalated" | "cancelled" => output::red(status),
        _ => status.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const AT: &str = "2026-11-15T10:20:30.000000Z";
    const ID: &str = "0198f3a2-7c41-7b52-9a3e-5d1c2b7f8e90";

    fn event(event: Value) -> ProjectEventView {
        serde_json::from_value(event).expect("an event")
    }

    fn line(json: Value, width: Option<usize>) -> String {
        EventLine::new(&event(json)).expect("an event with a line").line(width)
    }

    fn change(kind: &str, type_: &str) -> Value {
        json!({ "type": "graph", "change": { "position": "0-1", "type": kind, "entityId": ID, "entityType": type_,
            "version": 1, "at": AT, "author": { "type": "system" } } })
    }

    #[test]
    fn an_event_is_one_line_with_its_time() {
        let shown = |event| line(event, None);
        let run = json!({ "type": "run", "runId": ID, "agent": "writer", "status": "paused", "reason": "timeout", "at": AT });
        assert_eq!(shown(run), format!("10:20:30  run           paused     {ID}  writer (timeout)"));
        let item = json!({ "type": "approval", "approvalId": ID, "kind": "approval", "title": "t", "agent": "cleaner",
            "status": "pending", "overdue": true, "at": AT });
        assert_eq!(shown(item), format!("10:20:30  approval      overdue    {ID}  cleaner"));
        let item = json!({ "type": "approval", "approvalId": ID, "kind": "escalation", "title": "It failed.",
            "status": "decided", "at": AT });
        assert_eq!(shown(item), format!("10:20:30  escalation    decided    {ID}  It failed."));
        let server = json!({ "type": "mcp_server", "serverId": ID, "name": "files", "action": "accept_tool", "at": AT });
        assert_eq!(shown(server), "10:20:30  MCP server    accept tool  files");
        let budget = json!({ "type": "budget", "name": "", "action": "update", "at": AT });
        assert_eq!(shown(budget), "10:20:30  budget        update     project");
        assert_eq!(
            shown(change("relationship_created", "cites")),
            format!("10:20:30  relationship  created    {ID}  cites")
        );
    }

    #[test]
    fn a_terminal_of_any_width_shows_the_status_and_the_id() {
        let long = "A rather long title of a task that goes on and on, and does not fit";
        let events = [
            (
                json!({ "type": "workflow", "workflowId": ID, "description": long, "status": "escalated", "at": AT }),
                "escalated",
            ),
            (
                json!({ "type": "conversation", "conversationId": ID, "title": long, "status": "answering", "at": AT }),
                "answering",
            ),
            (
                json!({ "type": "run", "runId": ID, "agent": "an-agent-with-a-rather-long-name-that-nobody-types",
                "status": "completed", "at": AT }),
                "completed",
            ),
            (
                json!({ "type": "approval", "approvalId": ID, "kind": "discussion", "title": long, "status": "withdrawn",
                "at": AT }),
                "withdrawn",
            ),
            (change("relationship_restored", long), "restored"),
        ];
        for (event, status) in events {
            for width in [40, 60, 80, 120] {
                let shown = line(event.clone(), Some(width));
                assert!(measure_text_width(&shown) <= width, "{width}: {shown}");
                assert_eq!(output::fit_row(&shown, width), shown, "nothing of it is cut");
                assert!(
                    shown.contains(&format!("{status} ")) && shown.contains("2b7f8e90"),
                    "{width}: {shown}"
                );
                let has_text = shown.contains("A rather") || shown.contains("an-agent");
                assert!(has_text || width == 40, "{width}: {shown}");
            }
        }
        let run = json!({ "type": "run", "runId": ID, "agent": "echo", "status": "completed", "at": AT });
        assert_eq!(line(run, Some(40)), "10:20:30 run completed 2b7f8e90 echo");
    }

    #[test]
    fn what_records_the_work_of_the_server_is_bookkeeping() {
        let is_left_out = |kind, type_| is_bookkeeping(&event(change(kind, type_)));
        assert!(is_left_out("object_created", "SessionMessage"));
        assert!(is_left_out("object_updated", "SpecTask"));
        assert!(is_left_out("relationship_created", "has_message"));
        assert!(is_left_out("embeddings_done", "project"));
        assert!(!is_left_out("object_created", "Person"));
        assert!(!is_left_out("relationship_deleted", "cites"));
        assert!(!is_left_out("document_ingested", "text/markdown"));
    }
}

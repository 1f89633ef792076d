//! `emergent watch`: prints what happens in a project, one line for each event, until Ctrl-C.

use emergent_wire::project_event::ProjectEventView;

use super::{
    login_link::no_server,
    watch_run::{Event, Events, listen_for_interrupt},
};
use crate::{
    client::{Client, OtherDriver},
    error::{Error, Result},
    output,
};

// What is shown.
#[derive(Debug, clap::Args)]
pub struct Watch {
    /// Only these types of events, separated by commas: run, workflow, approval, conversation, graph, agent,
    /// mcp_server, product, token, secret, budget, trigger
    #[arg(long, value_name = "TYPES")]
    types: Option<String>,
}

impl Watch {
    pub async fn run(self, client: &Client, as_json: bool) -> Result<()> {
        if client.other_driver() == OtherDriver::Nobody {
            return Err(no_server());
        }
        let types = self.types.as_deref().map(super::encode);
        let mut events = Events::for_project(client, types.as_deref());
        let mut interrupt = listen_for_interrupt().await;
        loop {
            let event: Event<ProjectEventView> = tokio::select! {
                event = events.next() => event?,
                _ = &mut interrupt => return Err(Error::Interrupted),
            };
            match (&event.parsed, as_json) {
                (_, true) => output::print_line(&event.raw.to_string())?,
                (Some(ProjectEventView::Ready { complete: true, .. }), false) => {
                    output::print_notice("Watching; Ctrl-C ends it.");
                }
                (Some(parsed), false) => output::print_row(&line(parsed))?,
                // A newer server sends a type that this program does not know.
                (None, false) => output::print_line(&event.raw.to_string())?,
            }
        }
    }
}

/// One line: the time of day, what it is about, and what happened.
fn line(event: &ProjectEventView) -> String {
    match event {
        ProjectEventView::Ready { .. } => {
            "some events are missing: they were deleted while this program was not connected".to_owned()
        }
        ProjectEventView::Graph { change } => {
            let kind = change.type_.as_str().replace('_', " ");
            format!("{}  graph         {kind}  {} {}", time(change.at), change.entity_type, change.entity_id)
        }
        ProjectEventView::Run { run_id, agent, status, reason, at, .. } => {
            let reason = reason.as_ref().map(|reason| format!(" ({reason})")).unwrap_or_default();
            format!("{}  run           {agent} {}{reason}  {run_id}", time(*at), colour(status))
        }
        ProjectEventView::Workflow { workflow_id, description, status, at } => {
            let description = output::first_line(description, 48);
            format!("{}  workflow      {description} {}  {workflow_id}", time(*at), colour(status))
        }
        ProjectEventView::Approval { approval_id, kind, title, agent, status, overdue, at, .. } => {
            let who = agent.clone().unwrap_or_else(|| output::first_line(title, 48));
            let status = if *overdue && status == "pending" { "overdue" } else { status };
            format!("{}  {kind:<12}  {who} {}  {approval_id}", time(*at), colour(status))
        }
        ProjectEventView::Conversation { conversation_id, title, status, at } => {
            let title = output::first_line(title, 48);
            format!("{}  conversation  {title} {}  {conversation_id}", time(*at), colour(status))
        }
        ProjectEventView::Agent { name, action, at, .. } => setting("agent", name, action, *at),
        ProjectEventView::McpServer { name, action, at, .. } => setting("MCP server", name, action, *at),
        ProjectEventView::Product { name, action, at } => setting("product", name, action, *at),
        ProjectEventView::Token { name, action, at, .. } => setting("token", name, action, *at),
        ProjectEventView::Secret { name, action, at } => setting("secret", name, action, *at),
        ProjectEventView::Budget { name, action, at } => setting("budget", name, action, *at),
        ProjectEventView::Trigger { name, action, at } => setting("trigger", name, action, *at),
    }
}

/// The line of a setting that was changed.
fn setting(kind: &str, name: &str, action: &str, at: emergent_domain::time::Timestamp) -> String {
    // The budget of the whole project has no name.
    let name = if name.is_empty() { "project" } else { name };
    format!("{}  {kind:<12}  {} {}", time(at), output::first_line(name, 48), action.replace('_', " "))
}

/// The time of day in UTC, to the second.
fn time(at: emergent_domain::time::Timestamp) -> String {
    at.to_string().get(11..19).unwrap_or_default().to_owned()
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
    use serde_json::json;

    use super::*;

    #[test]
    fn an_event_is_one_line_with_its_time() {
        let shown = |event| line(&serde_json::from_value(event).expect("an event"));
        let at = "2026-11-15T10:20:30.000000Z";
        let id = "0198f3a2-7c41-7b52-9a3e-5d1c2b7f8e90";
        let run = json!({ "type": "run", "runId": id, "agent": "writer", "status": "paused", "reason": "timeout", "at": at });
        assert_eq!(shown(run), format!("10:20:30  run           writer paused (timeout)  {id}"));
        let change = json!({ "type": "graph", "change": { "position": "0-1", "type": "object_created", "entityId": id,
            "entityType": "Note", "version": 1, "at": at, "author": { "type": "system" } } });
        let item = json!({ "type": "approval", "approvalId": id, "kind": "approval", "title": "t", "agent": "cleaner",
            "status": "pending", "overdue": true, "at": at });
        assert_eq!(shown(item), format!("10:20:30  approval      cleaner overdue  {id}"));
        let item = json!({ "type": "approval", "approvalId": id, "kind": "escalation", "title": "It failed.",
            "status": "decided", "at": at });
        assert_eq!(shown(item), format!("10:20:30  escalation    It failed. decided  {id}"));
        let server = json!({ "type": "mcp_server", "serverId": id, "name": "files", "action": "accept_tool", "at": at });
        assert_eq!(shown(server), "10:20:30  MCP server    files accept tool");
        let budget = json!({ "type": "budget", "name": "", "action": "update", "at": at });
        assert_eq!(shown(budget), "10:20:30  budget        project update");
        assert_eq!(shown(change), format!("10:20:30  graph         object created  Note {id}"));
    }
}

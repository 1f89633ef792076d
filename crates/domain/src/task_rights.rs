//! Who may change the tasks of a workflow.
//!
//! The dispatcher starts agents for these tasks, with their texts, as soon as their blockers have ended. So
//! whoever changes one makes agents work, and needs the scope for that. A task without a workflow is an object
//! like any other.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use crate::{
    task::{TaskAuthority, TaskStatus, VerdictKind},
    token::Scope,
};

/// The scope that a token needs to change the tasks of a workflow.
pub const WORKFLOW_SCOPE: Scope = Scope::AgentsInvoke;

/// The relationships of a task that the dispatcher reads.
pub const WORKFLOW_EDGES: &[&str] = &["blocks", "spawned_discussion"];

/// The properties of a task that the dispatcher reads or writes.
const WORKFLOW_PROPERTIES: &[&str] = &[
    "status",
    "title",
    "description",
    "key",
    "kind",
    "tags",
    "priority",
    "complexity",
    "assigned_agent",
    "agent_is_named",
    "requires_collaboration",
    "collaborators",
    "retry_count",
    "max_retries",
    "failure_context",
    "verdict",
    "verifies",
    "summary",
    "output",
    "output_schema",
];

/// The author of a change, as far as the tasks of one workflow depend on it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TaskAuthor {
    Server,
    /// A run that works for the workflow, or that started it.
    RunOfWorkflow,
    /// A token with these scopes, or another run, which has the scopes of the token that saved its agent.
    Scopes(BTreeSet<Scope>),
}

impl TaskAuthor {
    pub fn authority(&self) -> TaskAuthority {
        match self {
            Self::Server | Self::RunOfWorkflow => TaskAuthority::Editor,
            Self::Scopes(scopes) if scopes.contains(&WORKFLOW_SCOPE) => TaskAuthority::Editor,
            Self::Scopes(scopes) if scopes.contains(&Scope::AdminWrite) => TaskAuthority::Editor,
            Self::Scopes(_) => TaskAuthority::Outsider,
        }
    }
}

/// Whether the dispatcher reads relationships of this type.
pub fn is_workflow_edge(type_: &str) -> bool {
    WORKFLOW_EDGES.contains(&type_)
}

/// The properties that a change writes and that an outsider may not change in a task of a workflow.
pub fn find_outsider_changes(
    before: Option<&Map<String, Value>>,
    after: &Map<String, Value>,
) -> Vec<&'static str> {
    let before_value = |name: &str| before.and_then(|before| present_value(before, name));
    let is_changed = |name: &&'static str| before_value(name) != present_value(after, name);
    WORKFLOW_PROPERTIES.iter().copied().filter(is_changed).collect()
}

/// Whether this status would complete a task that owes a verdict, which only its run delivers.
pub fn completes_without_verdict(task: &Map<String, Value>, to: TaskStatus) -> bool {
    let verdict = task.get("verdict").and_then(Value::as_str).and_then(VerdictKind::parse);
    to == TaskStatus::Completed && verdict.is_some_and(|verdict| verdict != VerdictKind::None)
}

/// A property that is null is absent.
fn present_value<'a>(properties: &'a Map<String, Value>, name: &str) -> Option<&'a Value> {
    properties.get(name).filter(|value| !value.is_null())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn map(value: Value) -> Map<String, Value> {
        value.as_object().cloned().unwrap()
    }

    #[test]
    fn whoever_may_start_agents_may_change_the_tasks_of_a_workflow() {
        let authority = |scopes: &[Scope]| TaskAuthor::Scopes(scopes.iter().copied().collect()).authority();
        assert_eq!(authority(&[Scope::GraphWrite, Scope::AgentsWrite]), TaskAuthority::Outsider);
        assert_eq!(authority(&[Scope::GraphWrite, Scope::AgentsInvoke]), TaskAuthority::Editor);
        assert_eq!(authority(&[Scope::AdminWrite]), TaskAuthority::Editor);
        assert_eq!(TaskAuthor::RunOfWorkflow.authority(), TaskAuthority::Editor);
        assert_eq!(TaskAuthor::Server.authority(), TaskAuthority::Editor);
    }

    #[test]
    fn an_outsider_changes_nothing_that_the_dispatcher_reads() {
        let before = map(json!({ "status": "pending", "title": "t", "note": 1 }));
        let change = |after| find_outsider_changes(Some(&before), &map(after));
        assert_eq!(change(json!({ "status": "pending", "title": "t", "note": 2, "summary": null })), [""; 0]);
        assert_eq!(change(json!({ "status": "completed", "title": "t" })), ["status"]);
        assert_eq!(change(json!({ "status": "pending", "description": "d" })), ["title", "description"]);
    }

    #[test]
    fn a_task_with_a_verdict_is_not_completed_without_one() {
        let with = |verdict: Value| map(json!({ "verdict": verdict }));
        assert!(completes_without_verdict(&with(json!("review")), TaskStatus::Completed));
        assert!(!completes_without_verdict(&with(json!("review")), TaskStatus::InProgress));
        assert!(!completes_without_verdict(&with(json!("none")), TaskStatus::Completed));
        assert!(!completes_without_verdict(&map(json!({})), TaskStatus::Completed));
    }
}

//! Tasks: the units of work of agents, their order, and their allowed status changes.
//!
//! A task is a graph object of type `SpecTask`. This module defines the meaning of its properties.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::{
    agent::string_enum,
    coordination::DiscussionDefaults,
    ids::{ObjectId, RunId, WorkflowId},
    object::{NewObject, Object},
    time::Timestamp,
};

pub const TASK_TYPE: &str = "SpecTask";
/// The type of the edge from a task to a task that must wait for it.
pub const BLOCKS_TYPE: &str = "blocks";
/// The number of retries if a task does not set it.
pub const DEFAULT_RETRIES: i64 = 3;
/// The maximum number of tasks in one workflow, regardless of how they are added.
pub const MAX_TASKS: usize = 1_000;
/// The maximum length of the title of a task, and of its property `key` in a task that is written as an object. Tasks of
/// earlier versions may have longer ones.
pub const MAX_TITLE_BYTES: usize = 500;

string_enum! {
    TaskStatus {
        Pending = "pending",
        InProgress = "in_progress",
        Completed = "completed",
        Failed = "failed",
        /// The run of the task ended at a limit and will be resumed.
        Paused = "paused",
        Skipped = "skipped",
    }
}

/// Who changes the status of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TaskAuthority {
    /// An author who may write the graph, but not change the tasks of this workflow.
    Outsider,
    /// An author who writes the task like any other object.
    Editor,
    /// Whoever decides for the workflow of the task: the dispatcher that owns the workflow, or a
    /// command of a person. It may also send a verified task back, retry a task, and end one that
    /// did not run.
    Workflow,
}

impl TaskStatus {
    /// Returns whether this authority may change the status to `to`.
    pub fn can_become(self, to: TaskStatus, authority: TaskAuthority) -> bool {
        use TaskStatus::*;
        let decides = authority == TaskAuthority::Workflow;
        match (self, to) {
            (from, to) if from == to => true,
            _ if authority == TaskAuthority::Outsider => false,
            (Pending, InProgress | Skipped)
            | (InProgress, Completed | Failed | Paused | Pending)
            | (Paused, InProgress) => true,
            // A person or an agent completed the task without the dispatcher.
            (Pending, Completed) => true,
            (Completed | Failed | Skipped | Paused, Pending) | (Pending | Paused, Failed) => decides,
            (Paused, Skipped | Completed) | (Failed, Skipped) | (Completed, Failed) => decides,
            _ => false,
        }
    }

    /// Returns whether the task has ended. Only a person or the dispatcher can reopen it.
    pub fn is_terminal(self) -> bool {
        matches!(self, TaskStatus::Completed | TaskStatus::Failed | TaskStatus::Skipped)
    }
}

string_enum! {
    /// How urgent a task is, most urgent first.
    #[derive(Default, PartialOrd, Ord)]
    Priority {
        Critical = "critical",
        High = "high",
        #[default]
        Medium = "medium",
        Low = "low",
    }
}

string_enum! {
    /// What kind of verdict a task delivers.
    #[derive(Default)]
    VerdictKind {
        #[default]
        None = "none",
        Test = "test",
        Review = "review",
    }
}

/// A task, as read from the graph.
#[derive(Debug, Clone, PartialEq)]
pub struct Task {
    pub id: ObjectId,
    /// The version of the graph object.
    pub version: i64,
    pub workflow: Option<WorkflowId>,
    /// The name of the task within its workflow.
    pub key: String,
    pub title: String,
    pub description: String,
    /// A free text such as research, design, implement, test or review.
    pub kind: String,
    pub tags: Vec<String>,
    pub status: TaskStatus,
    pub priority: Priority,
    pub complexity: Option<i64>,
    /// The agent that executes the task. Before the start, the agent that the task names, if any.
    pub assigned_agent: Option<String>,
    /// Whether the task itself names its agent. A retry then uses the same agent.
    pub agent_is_named: bool,
    pub requires_collaboration: bool,
    pub collaborators: Vec<String>,
    /// How its result is discussed, as far as the task says it.
    pub discussion: DiscussionDefaults,
    pub retry_count: i64,
    pub max_retries: i64,
    /// The failures of earlier attempts, newest last.
    pub failure_context: String,
    /// Set when the task failed in a way that a person must decide, regardless of other tasks.
    pub needs_person: Option<NeedsPerson>,
    pub verdict: VerdictKind,
    /// Keys of the tasks that this task verifies. If empty, it verifies its direct blockers.
    pub verifies: Vec<String>,
    /// The JSON schema of what the task passes on. The run of the task is held to it instead of the schema of its agent.
    pub output_schema: Option<Value>,
    /// The run of the last attempt.
    pub run: Option<RunId>,
    /// How often the run was resumed after a limit since the task last started.
    pub resumes: i64,
    pub summary: Option<String>,
    /// The result that the task passes on.
    pub output: Option<Value>,
    pub created_at: Timestamp,
}

impl Task {
    /// Reads a `SpecTask`. A property with an unusable value counts as absent, because the schema
    /// of the pack has already validated everything that was written through it.
    pub fn from_object(object: &Object) -> Self {
        let map = object.properties.to_map();
        let text = |name: &str| map.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
        let optional_text = |name: &str| Some(text(name)).filter(|text| !text.is_empty());
        let number = |name: &str| map.get(name).and_then(Value::as_i64);
        let flag = |name: &str| map.get(name).and_then(Value::as_bool).unwrap_or_default();
        // Tasks of workflows have keys with a slash, and their own in the property.
        let own_key = || object.key.clone().filter(|key| !key.contains('/'));
        let words = |name: &str| -> Vec<String> {
            let list = map.get(name).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
            list.iter().filter_map(Value::as_str).map(str::to_owned).collect()
        };
        Self {
            id: object.id,
            version: object.version,
            workflow: optional_text("workflow_id").and_then(|id| id.parse().ok()),
            key: optional_text("key").or_else(own_key).unwrap_or_else(|| object.id.to_string()),
            title: text("title"),
            description: text("description"),
            kind: text("kind"),
            tags: words("tags"),
            status: TaskStatus::parse(&text("status")).unwrap_or(TaskStatus::Pending),
            priority: Priority::parse(&text("priority")).unwrap_or_default(),
            complexity: number("complexity"),
            assigned_agent: optional_text("assigned_agent"),
            agent_is_named: flag("agent_is_named"),
            requires_collaboration: flag("requires_collaboration"),
            collaborators: words("collaborators"),
            discussion: map.get("discussion").and_then(DiscussionDefaults::from_json).unwrap_or_default(),
            retry_count: number("retry_count").unwrap_or_default(),
            max_retries: number("max_retries").unwrap_or(DEFAULT_RETRIES),
            failure_context: text("failure_context"),
            needs_person: map.get("needs_person").and_then(NeedsPerson::from_json),
            verdict: VerdictKind::parse(&text("verdict")).unwrap_or_default(),
            verifies: words("verifies"),
            output_schema: map.get("output_schema").filter(|schema| schema.is_object()).cloned(),
            run: optional_text("run_id").and_then(|id| id.parse().ok()),
            resumes: number("resumes").unwrap_or_default(),
            summary: optional_text("summary"),
            output: map.get("output").cloned().filter(|output| !output.is_null()),
            created_at: object.created_at,
        }
    }

    pub fn has_retries_left(&self) -> bool {
        self.retry_count < self.max_retries
    }

    /// Every agent that the task names: the one that executes it, and those that discuss its result.
    pub fn named_agents(&self) -> impl Iterator<Item = &String> {
        self.assigned_agent.iter().chain(&self.collaborators).chain(self.discussion.agents())
    }
}

/// Why a person must decide about a task, and the available options.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NeedsPerson {
    pub reason: String,
    pub options: Vec<String>,
}

impl NeedsPerson {
    fn from_json(value: &Value) -> Option<Self> {
        let reason = value.get("reason")?.as_str()?.to_owned();
        let options = value.get("options").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        let options = options.iter().filter_map(Value::as_str).map(str::to_owned).collect();
        Some(Self { reason, options })
    }

    /// Returns the JSON that is stored with the task.
    pub fn to_json(&self) -> Value {
        json!({ "reason": self.reason, "options": self.options })
    }
}

/// A task to create. It is stored only as a part of a [`WorkflowTemplate`](crate::workflow_template::WorkflowTemplate).
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct NewTask {
    pub key: String,
    pub title: String,
    pub description: String,
    pub kind: String,
    pub tags: Vec<String>,
    pub priority: Priority,
    pub complexity: Option<i64>,
    pub assigned_agent: Option<String>,
    /// Keys of tasks of the same workflow.
    pub blocked_by: Vec<String>,
    pub requires_collaboration: bool,
    pub collaborators: Vec<String>,
    pub discussion: DiscussionDefaults,
    pub verdict: VerdictKind,
    pub verifies: Vec<String>,
    pub max_retries: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_schema: Option<Value>,
}

impl NewTask {
    /// Returns the graph object to create. Its key contains the workflow, so a task name is unique
    /// per workflow.
    pub fn to_object(&self, workflow: Option<WorkflowId>) -> NewObject {
        let mut map = Map::new();
        let mut put = |name: &str, value: Value| {
            let empty = match &value {
                Value::Null => true,
                Value::String(text) => text.is_empty(),
                Value::Array(list) => list.is_empty(),
                _ => false,
            };
            if !empty {
                map.insert(name.to_owned(), value);
            }
        };
        put("title", self.title.clone().into());
        put("description", self.description.clone().into());
        put("key", self.key.clone().into());
        put("kind", self.kind.clone().into());
        put("tags", self.tags.clone().into());
        put("status", TaskStatus::Pending.as_str().into());
        put("priority", self.priority.as_str().into());
        put("complexity", self.complexity.into());
        put("assigned_agent", self.assigned_agent.clone().into());
        if self.assigned_agent.is_some() {
            put("agent_is_named", true.into());
        }
        if self.requires_collaboration {
            put("requires_collaboration", true.into());
        }
        put("collaborators", self.collaborators.clone().into());
        if !self.discussion.is_empty() {
            put("discussion", json!(self.discussion));
        }
        put("retry_count", 0.into());
        put("max_retries", self.max_retries.unwrap_or(DEFAULT_RETRIES).into());
        put("verdict", self.verdict.as_str().into());
        put("verifies", self.verifies.clone().into());
        put("output_schema", self.output_schema.clone().unwrap_or_default());
        put("workflow_id", workflow.map(|id| id.to_string()).into());
        NewObject {
            type_: TASK_TYPE.to_owned(),
            key: workflow.map(|id| object_key(id, &self.key)),
            status: None,
            labels: Vec::new(),
            properties: map,
        }
    }
}

/// Returns the key of the graph object of a task.
pub fn object_key(workflow: WorkflowId, key: &str) -> String {
    format!("{workflow}/{key}")
}

/// Finds a dependency cycle. The first element is repeated at the end. Returns `None` if there is
/// no cycle. Edges are (blocker, blocked).
pub fn find_cycle<T: Copy + Eq + std::hash::Hash>(edges: &[(T, T)]) -> Option<Vec<T>> {
    let mut after: HashMap<T, Vec<T>> = HashMap::new();
    for (from, to) in edges {
        after.entry(*from).or_default().push(*to);
    }
    // Visit state of a node: 1 means on the current path, 2 means done.
    let mut seen: HashMap<T, u8> = HashMap::new();
    for (start, _) in edges {
        if seen.contains_key(start) {
            continue;
        }
        let mut path = vec![(*start, 0)];
        seen.insert(*start, 1);
        while let Some((node, next)) = path.last_mut() {
            let node = *node;
            let Some(to) = after.get(&node).and_then(|all| all.get(*next)).copied() else {
                seen.insert(node, 2);
                path.pop();
                continue;
            };
            *next += 1;
            match seen.get(&to) {
                None => {
                    seen.insert(to, 1);
                    path.push((to, 0));
                }
                Some(1) => {
                    let from = path.iter().position(|(node, _)| *node == to).unwrap_or(0);
                    let mut cycle: Vec<T> = path[from..].iter().map(|(node, _)| *node).collect();
                    cycle.push(to);
                    return Some(cycle);
                }
                Some(_) => {}
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_way_round_is_found_and_named() {
        assert_eq!(find_cycle(&[(1, 2), (2, 3), (1, 3)]), None);
        assert_eq!(find_cycle(&[(0, 1), (1, 2), (2, 3), (3, 1)]), Some(vec![1, 2, 3, 1]));
        assert_eq!(find_cycle(&[(7, 7)]), Some(vec![7, 7]));
    }

    #[test]
    fn a_task_reads_back_as_it_was_made() {
        let workflow = WorkflowId::new();
        let new = NewTask {
            key: "test".into(),
            title: "Test it".into(),
            verdict: VerdictKind::Test,
            verifies: vec!["implement".into()],
            assigned_agent: Some("reviewer-agent".into()),
            discussion: DiscussionDefaults { rounds: Some(2), ..DiscussionDefaults::default() },
            max_retries: Some(0),
            ..NewTask::default()
        };
        let created = new.to_object(Some(workflow));
        let object = Object {
            id: ObjectId::new(),
            project: crate::ids::ProjectId::new(),
            type_: created.type_,
            key: created.key,
            status: None,
            labels: Vec::new(),
            properties: crate::json::JsonObject::from_map(&created.properties),
            version: 1,
            created_at: Timestamp::now(),
            updated_at: Timestamp::now(),
            deleted_at: None,
            author: crate::author::Author::System,
            reason: None,
        };
        let task = Task::from_object(&object);
        assert_eq!(
            (task.workflow, task.key.as_str(), task.status),
            (Some(workflow), "test", TaskStatus::Pending)
        );
        assert_eq!((task.verdict, task.max_retries, task.agent_is_named), (VerdictKind::Test, 0, true));
        assert_eq!((task.verifies, task.discussion), (new.verifies, new.discussion));
    }
}

//! Tasks: what agents are given to do, in which order, and how each may change.
//!
//! A task is a `SpecTask` of the graph. This is what its properties mean.

use std::collections::HashMap;

use serde_json::{Map, Value, json};

use crate::{
    agent::string_enum,
    ids::{ObjectId, RunId, WorkflowId},
    object::{NewObject, Object},
    time::Timestamp,
};

pub const TASK_TYPE: &str = "SpecTask";
/// A task's edge to one that has to wait for it.
pub const BLOCKS_TYPE: &str = "blocks";
/// Attempts after the first, when a task does not say.
pub const DEFAULT_RETRIES: i64 = 2;
/// Tasks of one workflow, however they come in.
pub const MAX_TASKS: usize = 1_000;

string_enum! {
    TaskStatus {
        Pending = "pending",
        InProgress = "in_progress",
        Completed = "completed",
        Failed = "failed",
        /// Its run ended at a limit, to be resumed.
        Paused = "paused",
        Skipped = "skipped",
    }
}

impl TaskStatus {
    /// The moves there are. `dispatcher`: those only the dispatcher makes as well, which sends a
    /// verified task back or takes up again what a person wants tried once more.
    pub fn can_become(self, to: TaskStatus, dispatcher: bool) -> bool {
        use TaskStatus::*;
        match (self, to) {
            (one, other) if one == other => true,
            (Pending, InProgress | Skipped)
            | (InProgress, Completed | Failed | Paused | Pending)
            | (Paused, InProgress) => true,
            // A person or an agent did it without the dispatcher.
            (Pending, Completed) => true,
            (Completed | Failed | Skipped | Paused, Pending) | (Pending | Paused, Failed) => dispatcher,
            (Paused, Skipped | Completed) | (Failed, Skipped) | (Completed, Failed) => dispatcher,
            _ => false,
        }
    }

    /// Nothing more happens to it by itself.
    pub fn is_terminal(self) -> bool {
        matches!(self, TaskStatus::Completed | TaskStatus::Failed | TaskStatus::Skipped)
    }
}

string_enum! {
    /// The most urgent first.
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
    /// What a task judges in the end.
    #[derive(Default)]
    VerdictKind {
        #[default]
        None = "none",
        Test = "test",
        Review = "review",
    }
}

/// A task as it stands in the graph.
#[derive(Debug, Clone, PartialEq)]
pub struct Task {
    pub id: ObjectId,
    /// Of its object.
    pub version: i64,
    pub workflow: Option<WorkflowId>,
    /// Its name within its workflow.
    pub key: String,
    pub title: String,
    pub description: String,
    /// A free word: research, design, implement, test, review.
    pub kind: String,
    pub tags: Vec<String>,
    pub status: TaskStatus,
    pub priority: Priority,
    pub complexity: Option<i64>,
    /// Who does it. Before it starts: who is to, if the task names one.
    pub assigned_agent: Option<String>,
    /// Whether the task itself names its agent: a retry keeps to it.
    pub agent_is_named: bool,
    pub requires_collaboration: bool,
    pub collaborators: Vec<String>,
    pub retry_count: i64,
    pub max_retries: i64,
    /// What went wrong in each attempt before, the newest last.
    pub failure_context: String,
    /// Since it failed: a person is asked about it, whatever becomes of others.
    pub needs_person: Option<NeedsPerson>,
    pub verdict: VerdictKind,
    /// Keys of the tasks it judges; none are its direct blockers.
    pub verifies: Vec<String>,
    /// Of the last attempt.
    pub run: Option<RunId>,
    /// How often its run was resumed after a limit, since the task last started.
    pub resumes: i64,
    pub summary: Option<String>,
    /// What it hands on.
    pub output: Option<Value>,
    pub created_at: Timestamp,
}

impl Task {
    /// Reads a `SpecTask`. What a property cannot mean is taken as if it were not there: the pack's
    /// schema has checked what was written through it.
    pub fn from_object(object: &Object) -> Self {
        let map = object.properties.to_map();
        let text = |name: &str| map.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
        let some = |name: &str| Some(text(name)).filter(|text| !text.is_empty());
        let number = |name: &str| map.get(name).and_then(Value::as_i64);
        let flag = |name: &str| map.get(name).and_then(Value::as_bool).unwrap_or_default();
        let words = |name: &str| -> Vec<String> {
            let list = map.get(name).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
            list.iter().filter_map(Value::as_str).map(str::to_owned).collect()
        };
        Self {
            id: object.id,
            version: object.version,
            workflow: some("workflow_id").and_then(|id| id.parse().ok()),
            key: some("key").unwrap_or_else(|| object.id.to_string()),
            title: text("title"),
            description: text("description"),
            kind: text("kind"),
            tags: words("tags"),
            status: TaskStatus::parse(&text("status")).unwrap_or(TaskStatus::Pending),
            priority: Priority::parse(&text("priority")).unwrap_or_default(),
            complexity: number("complexity"),
            assigned_agent: some("assigned_agent"),
            agent_is_named: flag("agent_is_named"),
            requires_collaboration: flag("requires_collaboration"),
            collaborators: words("collaborators"),
            retry_count: number("retry_count").unwrap_or_default(),
            max_retries: number("max_retries").unwrap_or(DEFAULT_RETRIES),
            failure_context: text("failure_context"),
            needs_person: map.get("needs_person").and_then(NeedsPerson::from_json),
            verdict: VerdictKind::parse(&text("verdict")).unwrap_or_default(),
            verifies: words("verifies"),
            run: some("run_id").and_then(|id| id.parse().ok()),
            resumes: number("resumes").unwrap_or_default(),
            summary: some("summary"),
            output: map.get("output").cloned().filter(|output| !output.is_null()),
            created_at: object.created_at,
        }
    }

    pub fn has_retries_left(&self) -> bool {
        self.retry_count < self.max_retries
    }
}

/// Why a person has to look at a task, and what can be done about it.
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

    /// As the task keeps it.
    pub fn to_json(&self) -> Value {
        json!({ "reason": self.reason, "options": self.options })
    }
}

/// A task to be made.
#[derive(Debug, Clone, Default, PartialEq)]
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
    pub verdict: VerdictKind,
    pub verifies: Vec<String>,
    pub max_retries: Option<i64>,
}

impl NewTask {
    /// The object it becomes. Its key holds the workflow, so that one name means one task there.
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
        put("retry_count", 0.into());
        put("max_retries", self.max_retries.unwrap_or(DEFAULT_RETRIES).into());
        put("verdict", self.verdict.as_str().into());
        put("verifies", self.verifies.clone().into());
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

/// The key of a task's object.
pub fn object_key(workflow: WorkflowId, key: &str) -> String {
    format!("{workflow}/{key}")
}

/// A way round in the graph of who waits for whom, the first again at its end; `None` where there
/// is none. Edges are (blocker, blocked).
pub fn find_cycle<T: Copy + Eq + std::hash::Hash>(edges: &[(T, T)]) -> Option<Vec<T>> {
    let mut after: HashMap<T, Vec<T>> = HashMap::new();
    for (from, to) in edges {
        after.entry(*from).or_default().push(*to);
    }
    // 1: on the path, 2: seen to the end.
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
                    let from = path.iter().position(|(one, _)| *one == to).unwrap_or(0);
                    let mut way: Vec<T> = path[from..].iter().map(|(one, _)| *one).collect();
                    way.push(to);
                    return Some(way);
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
            max_retries: Some(0),
            ..NewTask::default()
        };
        let made = new.to_object(Some(workflow));
        let object = Object {
            id: ObjectId::new(),
            project: crate::ids::ProjectId::new(),
            type_: made.type_,
            key: made.key,
            status: None,
            labels: Vec::new(),
            properties: crate::json::JsonObject::from_map(&made.properties),
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
        assert_eq!(task.verifies, ["implement"]);
    }
}

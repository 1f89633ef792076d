//! Tasks: as they are given, and as they stand in the graph.

use emergent_coordination::TaskCommand;
use emergent_domain::{
    ids::WorkflowId,
    object::Object as GraphObject,
    task::{NewTask, Priority, Task, TaskStatus, VerdictKind},
    time::Timestamp,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;
use uuid::Uuid;

#[derive(ToSchema)]
#[schema(as = TaskStatus, rename_all = "snake_case")]
#[allow(dead_code, reason = "describes the domain's type")]
pub(crate) enum TaskStatusView {
    Pending,
    InProgress,
    Completed,
    Failed,
    Paused,
    Skipped,
}

#[derive(ToSchema)]
#[schema(as = TaskPriority, rename_all = "lowercase")]
#[allow(dead_code, reason = "describes the domain's type")]
pub(crate) enum PriorityView {
    Critical,
    High,
    Medium,
    Low,
}

/// What a task judges in the end: nothing, a test, or a review.
#[derive(ToSchema)]
#[schema(as = VerdictKind, rename_all = "lowercase")]
#[allow(dead_code, reason = "describes the domain's type")]
pub(crate) enum VerdictKindView {
    None,
    Test,
    Review,
}

/// A task to be made, with whatever else belongs to the request.
macro_rules! task_body {
    ($(#[$about:meta])* $name:ident { $($extra:tt)* }) => {
        $(#[$about])*
        #[derive(Debug, Deserialize, ToSchema)]
        #[serde(rename_all = "camelCase", deny_unknown_fields)]
        pub(crate) struct $name {
            $($extra)*
            /// Its name within the workflow, which others name in `blockedBy`.
            #[schema(min_length = 1, max_length = 64, example = "design")]
            key: String,
            #[schema(min_length = 1, max_length = 500)]
            title: String,
            /// Everything its agent needs to know.
            #[serde(default)]
            description: String,
            /// A free word: research, design, implement, test, review.
            #[serde(default)]
            kind: String,
            #[serde(default)]
            tags: Vec<String>,
            #[serde(default)]
            #[schema(value_type = PriorityView)]
            priority: Priority,
            #[schema(minimum = 1, maximum = 10)]
            complexity: Option<i64>,
            /// The only agent that may do it; without it, one is chosen.
            assigned_agent: Option<String>,
            /// Keys of the tasks that have to be completed first.
            #[serde(default)]
            blocked_by: Vec<String>,
            /// Whether others look at what it brings, and have to agree.
            #[serde(default)]
            requires_collaboration: bool,
            /// The agents that do; without any, one is chosen.
            #[serde(default)]
            collaborators: Vec<String>,
            #[serde(default)]
            #[schema(value_type = VerdictKindView)]
            verdict: VerdictKind,
            /// Keys of the tasks it judges; its direct blockers when not said.
            #[serde(default)]
            verifies: Vec<String>,
            /// Attempts after the first, 2 when not said.
            #[schema(minimum = 0, maximum = 100)]
            max_retries: Option<i64>,
        }

        impl From<$name> for NewTask {
            fn from(task: $name) -> Self {
                Self {
                    key: task.key,
                    title: task.title,
                    description: task.description,
                    kind: task.kind,
                    tags: task.tags,
                    priority: task.priority,
                    complexity: task.complexity,
                    assigned_agent: task.assigned_agent,
                    blocked_by: task.blocked_by,
                    requires_collaboration: task.requires_collaboration,
                    collaborators: task.collaborators,
                    verdict: task.verdict,
                    verifies: task.verifies,
                    max_retries: task.max_retries,
                }
            }
        }
    };
}

task_body! {
    /// A task of a workflow that is started.
    DispatchTask {}
}

task_body! {
    /// A task for a workflow that is under way, or for none.
    AddTask {
        /// The workflow it becomes a part of; without one, it is for whoever takes it.
        #[schema(value_type = Option<Uuid>)]
        pub workflow_id: Option<WorkflowId>,
    }
}

/// A task by itself.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Task)]
pub(crate) struct TaskView {
    id: Uuid,
    workflow_id: Option<Uuid>,
    key: String,
    title: String,
    description: String,
    kind: String,
    tags: Vec<String>,
    #[schema(value_type = TaskStatusView)]
    status: TaskStatus,
    #[schema(value_type = PriorityView)]
    priority: Priority,
    complexity: Option<i64>,
    agent: Option<String>,
    requires_collaboration: bool,
    collaborators: Vec<String>,
    #[schema(value_type = VerdictKindView)]
    verdict: VerdictKind,
    verifies: Vec<String>,
    retry_count: i64,
    max_retries: i64,
    /// What went wrong in each attempt before, the newest last.
    failure_context: Option<String>,
    /// The run of the last attempt.
    run_id: Option<Uuid>,
    summary: Option<String>,
    /// What it hands on to those that wait for it.
    #[schema(value_type = Option<Object>)]
    output: Option<Value>,
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
}

impl From<Task> for TaskView {
    fn from(task: Task) -> Self {
        Self {
            id: task.id.0,
            workflow_id: task.workflow.map(Into::into),
            key: task.key,
            title: task.title,
            description: task.description,
            kind: task.kind,
            tags: task.tags,
            status: task.status,
            priority: task.priority,
            complexity: task.complexity,
            agent: task.assigned_agent,
            requires_collaboration: task.requires_collaboration,
            collaborators: task.collaborators,
            verdict: task.verdict,
            verifies: task.verifies,
            retry_count: task.retry_count,
            max_retries: task.max_retries,
            failure_context: Some(task.failure_context).filter(|text| !text.is_empty()),
            run_id: task.run.map(Into::into),
            summary: task.summary,
            output: task.output,
            created_at: task.created_at,
        }
    }
}

impl From<GraphObject> for TaskView {
    fn from(object: GraphObject) -> Self {
        Task::from_object(&object).into()
    }
}

#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct RetryTask {
    /// What the next attempt is told.
    #[schema(min_length = 1)]
    note: Option<String>,
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct ReassignTask {
    /// Who does it from now on.
    #[schema(min_length = 1)]
    agent: String,
    /// What that agent is told.
    #[schema(min_length = 1)]
    note: Option<String>,
}

#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct SkipTask {
    #[schema(min_length = 1)]
    reason: Option<String>,
}

impl From<RetryTask> for TaskCommand {
    fn from(body: RetryTask) -> Self {
        TaskCommand::Retry { note: body.note }
    }
}

impl From<ReassignTask> for TaskCommand {
    fn from(body: ReassignTask) -> Self {
        TaskCommand::Reassign { agent: body.agent, note: body.note }
    }
}

impl From<SkipTask> for TaskCommand {
    fn from(body: SkipTask) -> Self {
        TaskCommand::Skip { reason: body.reason }
    }
}

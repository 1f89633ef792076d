//! Tasks, requests to add them, and commands of a person about a task.

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

use crate::{fields, project::DiscussionDefaultsView, schema};

/// A task to be made, with whatever else belongs to the request.
macro_rules! task_body {
    ($(#[$about:meta])* $name:ident { $($extra:tt)* }) => {
        $(#[$about])*
        #[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
        #[serde(rename_all = "camelCase", deny_unknown_fields)]
        pub struct $name {
            $($extra)*
            /// Its name within the workflow, which others name in `blockedBy`.
            #[schema(min_length = 1, max_length = 64, example = "design")]
            pub key: String,
            #[schema(min_length = 1, max_length = 500)]
            pub title: String,
            /// Everything its agent needs to know.
            #[serde(default)]
            pub description: String,
            /// A free word: research, design, implement, test, review.
            #[serde(default)]
            pub kind: String,
            #[serde(default)]
            pub tags: Vec<String>,
            #[serde(default)]
            #[schema(value_type = schema::TaskPriority)]
            pub priority: Priority,
            #[serde(skip_serializing_if = "Option::is_none")]
            #[schema(minimum = 1, maximum = 10)]
            pub complexity: Option<i64>,
            /// The only agent that may do it; without it, one is chosen.
            #[serde(skip_serializing_if = "Option::is_none")]
            pub assigned_agent: Option<String>,
            /// Keys of the tasks that have to be completed first.
            #[serde(default)]
            pub blocked_by: Vec<String>,
            /// Whether others look at what it brings, and have to agree.
            #[serde(default)]
            pub requires_collaboration: bool,
            /// The agents that do; without any, one is chosen.
            #[serde(default)]
            pub collaborators: Vec<String>,
            /// How they discuss it; what is left out is as in the project.
            #[serde(
                default,
                deserialize_with = "fields::optional_map",
                skip_serializing_if = "Option::is_none"
            )]
            pub discussion: Option<DiscussionDefaultsView>,
            #[serde(default)]
            #[schema(value_type = schema::VerdictKind)]
            pub verdict: VerdictKind,
            /// Keys of the tasks it judges; its direct blockers when not said.
            #[serde(default)]
            pub verifies: Vec<String>,
            /// Attempts after the first, 3 when not said.
            #[serde(skip_serializing_if = "Option::is_none")]
            #[schema(minimum = 0, maximum = 100)]
            pub max_retries: Option<i64>,
            /// The JSON schema of what it hands on: the answer of its agent has to match it, instead of the agent's own
            /// `outputSchema`.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            #[schema(value_type = Option<Object>)]
            pub output_schema: Option<Value>,
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
                    discussion: task.discussion.map(Into::into).unwrap_or_default(),
                    verdict: task.verdict,
                    verifies: task.verifies,
                    max_retries: task.max_retries,
                    output_schema: task.output_schema,
                }
            }
        }
    };
}

task_body! {
    /// A task of a workflow that is started.
    DispatchTask {}
}

impl From<NewTask> for DispatchTask {
    fn from(task: NewTask) -> Self {
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
            discussion: Some(task.discussion).filter(|own| !own.is_empty()).map(Into::into),
            verdict: task.verdict,
            verifies: task.verifies,
            max_retries: task.max_retries,
            output_schema: task.output_schema,
        }
    }
}

task_body! {
    /// A task for a workflow that is under way, or for none.
    AddTask {
        /// The workflow to add the task to. Without one, the task stands alone and any agent or person
        /// can take it.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schema(value_type = Option<Uuid>)]
        pub workflow_id: Option<WorkflowId>,
    }
}

/// A task by itself.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Task)]
pub struct TaskView {
    pub id: Uuid,
    pub workflow_id: Option<Uuid>,
    pub key: String,
    pub title: String,
    pub description: String,
    pub kind: String,
    pub tags: Vec<String>,
    #[schema(value_type = schema::TaskStatus)]
    pub status: TaskStatus,
    #[schema(value_type = schema::TaskPriority)]
    pub priority: Priority,
    pub complexity: Option<i64>,
    pub agent: Option<String>,
    pub requires_collaboration: bool,
    pub collaborators: Vec<String>,
    /// How its result is discussed, as far as the task says it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub discussion: Option<DiscussionDefaultsView>,
    #[schema(value_type = schema::VerdictKind)]
    pub verdict: VerdictKind,
    pub verifies: Vec<String>,
    pub retry_count: i64,
    pub max_retries: i64,
    /// What went wrong in each attempt before, the newest last.
    pub failure_context: Option<String>,
    /// The run of the last attempt.
    pub run_id: Option<Uuid>,
    pub summary: Option<String>,
    /// What it hands on to those that wait for it.
    #[schema(value_type = Option<Object>)]
    pub output: Option<Value>,
    /// The JSON schema of what it hands on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub output_schema: Option<Value>,
    /// Why `autoDispatch` does not execute the task as it is. It is tried again when the task changes. Only in lists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_dispatched: Option<String>,
    #[schema(value_type = String, format = DateTime)]
    pub created_at: Timestamp,
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
            discussion: Some(task.discussion).filter(|own| !own.is_empty()).map(Into::into),
            verdict: task.verdict,
            verifies: task.verifies,
            retry_count: task.retry_count,
            max_retries: task.max_retries,
            failure_context: Some(task.failure_context).filter(|text| !text.is_empty()),
            run_id: task.run.map(Into::into),
            summary: task.summary,
            output: task.output,
            output_schema: task.output_schema,
            not_dispatched: None,
            created_at: task.created_at,
        }
    }
}

impl From<GraphObject> for TaskView {
    fn from(object: GraphObject) -> Self {
        Task::from_object(&object).into()
    }
}

#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RetryTask {
    /// What the next attempt is told.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1)]
    pub note: Option<String>,
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ReassignTask {
    /// Who does it from now on.
    #[schema(min_length = 1)]
    pub agent: String,
    /// What that agent is told.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1)]
    pub note: Option<String>,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SkipTask {
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1)]
    pub reason: Option<String>,
}

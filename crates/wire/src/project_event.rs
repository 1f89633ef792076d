//! The frames of the event stream of a project.

use emergent_domain::{
    project_event::{EventSubject, ProjectEvent, StatusEvent},
    time::Timestamp,
};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use uuid::Uuid;

use crate::change::ChangeView;

/// One thing that happened in a project. The `id:` of its frame is its position.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
#[schema(as = ProjectEvent)]
// Each variant has its own `rename_all`, because the schema ignores `rename_all_fields`.
pub enum ProjectEventView {
    /// The first frame. `complete` is false if events after the position of the request were deleted, because
    /// they are kept for a week: read the lists again.
    Ready { position: String, complete: bool },
    /// A change of the graph.
    Graph { change: ChangeView },
    /// A run has a new status.
    #[serde(rename_all = "camelCase")]
    Run {
        run_id: Uuid,
        agent: String,
        status: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        parent_run_id: Option<Uuid>,
        #[serde(skip_serializing_if = "Option::is_none")]
        workflow_id: Option<Uuid>,
        #[schema(value_type = String, format = DateTime)]
        at: Timestamp,
    },
    /// A workflow has a new status.
    #[serde(rename_all = "camelCase")]
    Workflow {
        workflow_id: Uuid,
        /// The first 120 characters.
        description: String,
        status: String,
        #[schema(value_type = String, format = DateTime)]
        at: Timestamp,
    },
    /// An item of the inbox is new (`pending`), or was `decided`, `expired` or `withdrawn`. With `overdue`, nobody has
    /// decided it in its time; while it is `pending`, it goes on waiting.
    #[serde(rename_all = "camelCase")]
    Approval {
        approval_id: Uuid,
        /// `approval`, `question`, `discussion` or `escalation`.
        kind: String,
        /// The tool with the start of its input, the question, the topic of the discussion, or why the workflow does
        /// not go on; at most 500 characters.
        #[serde(default)]
        title: String,
        /// The agent that asks.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        agent: Option<String>,
        status: String,
        /// The run that waits.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        run_id: Option<Uuid>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tool_name: Option<String>,
        #[schema(value_type = Option<String>, format = DateTime)]
        #[serde(default, skip_serializing_if = "Option::is_none")]
        expires_at: Option<Timestamp>,
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        overdue: bool,
        #[schema(value_type = String, format = DateTime)]
        at: Timestamp,
    },
    /// A conversation has a new status: `idle`, `answering` or `deleted`.
    #[serde(rename_all = "camelCase")]
    Conversation {
        conversation_id: Uuid,
        /// The first 120 characters.
        title: String,
        status: String,
        #[schema(value_type = String, format = DateTime)]
        at: Timestamp,
    },
}

impl From<&ProjectEvent> for ProjectEventView {
    fn from(event: &ProjectEvent) -> Self {
        match event {
            ProjectEvent::Graph(change) => Self::Graph { change: change.clone().into() },
            ProjectEvent::Status(event) => Self::from_status(event.clone()),
        }
    }
}

impl ProjectEventView {
    fn from_status(event: StatusEvent) -> Self {
        match event.subject {
            EventSubject::Run => Self::Run {
                run_id: event.subject_id,
                agent: event.name,
                status: event.status,
                reason: event.reason,
                parent_run_id: event.parent,
                workflow_id: event.workflow.map(|workflow| workflow.0),
                at: event.at,
            },
            EventSubject::Workflow => Self::Workflow {
                workflow_id: event.subject_id,
                description: event.name,
                status: event.status,
                at: event.at,
            },
            EventSubject::Approval => Self::Approval {
                approval_id: event.subject_id,
                kind: event.reason.unwrap_or_default(),
                title: event.title.unwrap_or_default(),
                agent: Some(event.name).filter(|name| !name.is_empty()),
                status: event.status,
                run_id: event.parent,
                tool_name: event.tool,
                expires_at: event.expires_at,
                overdue: event.is_overdue.unwrap_or_default(),
                at: event.at,
            },
            EventSubject::Conversation => Self::Conversation {
                conversation_id: event.subject_id,
                title: event.name,
                status: event.status,
                at: event.at,
            },
        }
    }
}

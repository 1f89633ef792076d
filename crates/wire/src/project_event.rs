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
    /// An agent was changed. `action` says how, as in the audit log: `create`, `update` or `delete`. The agents of a
    /// product change with the product.
    #[serde(rename_all = "camelCase")]
    Agent {
        agent_id: Uuid,
        name: String,
        action: String,
        #[schema(value_type = String, format = DateTime)]
        at: Timestamp,
    },
    /// An external MCP server was changed: `create`, `update`, `delete` or `accept_tool`.
    #[serde(rename_all = "camelCase")]
    McpServer {
        server_id: Uuid,
        name: String,
        action: String,
        #[schema(value_type = String, format = DateTime)]
        at: Timestamp,
    },
    /// A product was changed, and with it its agents, servers, triggers and template packs: `install`, `upgrade` or
    /// `uninstall`.
    Product {
        name: String,
        action: String,
        #[schema(value_type = String, format = DateTime)]
        at: Timestamp,
    },
    /// A token of the project was changed: `create` or `revoke`.
    #[serde(rename_all = "camelCase")]
    Token {
        token_id: Uuid,
        name: String,
        action: String,
        #[schema(value_type = String, format = DateTime)]
        at: Timestamp,
    },
    /// A secret was changed: `put`, `delete` or `allow`. Its value is never told.
    Secret {
        name: String,
        action: String,
        #[schema(value_type = String, format = DateTime)]
        at: Timestamp,
    },
    /// The daily budget of an agent was changed, or that of the project if `name` is empty: `update`.
    Budget {
        name: String,
        action: String,
        #[schema(value_type = String, format = DateTime)]
        at: Timestamp,
    },
    /// A trigger was changed: `put` or `delete`, or for a schedule `pause` or `resume`. The triggers of an agent or a product change with these.
    Trigger {
        name: String,
        action: String,
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
        let StatusEvent { subject, subject_id, name, status, at, .. } = event;
        match subject {
            EventSubject::Agent => Self::Agent { agent_id: subject_id, name, action: status, at },
            EventSubject::McpServer => Self::McpServer { server_id: subject_id, name, action: status, at },
            EventSubject::Product => Self::Product { name, action: status, at },
            EventSubject::Token => Self::Token { token_id: subject_id, name, action: status, at },
            EventSubject::Secret => Self::Secret { name, action: status, at },
            EventSubject::Budget => Self::Budget { name, action: status, at },
            EventSubject::Trigger => Self::Trigger { name, action: status, at },
            EventSubject::Run => Self::Run {
                run_id: subject_id,
                agent: name,
                status,
                reason: event.reason,
                parent_run_id: event.parent,
                workflow_id: event.workflow.map(|workflow| workflow.0),
                at,
            },
            EventSubject::Workflow => {
                Self::Workflow { workflow_id: subject_id, description: name, status, at }
            }
            EventSubject::Approval => Self::Approval {
                approval_id: subject_id,
                kind: event.reason.unwrap_or_default(),
                title: event.title.unwrap_or_default(),
                agent: Some(name).filter(|name| !name.is_empty()),
                status,
                run_id: event.parent,
                tool_name: event.tool,
                expires_at: event.expires_at,
                overdue: event.is_overdue.unwrap_or_default(),
                at,
            },
            EventSubject::Conversation => {
                Self::Conversation { conversation_id: subject_id, title: name, status, at }
            }
        }
    }
}

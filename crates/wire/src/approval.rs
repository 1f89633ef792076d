//! Requests to people: tool calls that have to be approved, questions of agents, and the inbox in which they are
//! listed together with escalated workflows and discussions.

use emergent_domain::{
    approval::{Approval, ApprovalKind, ApprovalStatus, Choice, Decision, NewDecision, OnExpiry, Question},
    inbox::{InboxItem, InboxItemKind, short_title},
    time::Timestamp,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;
use uuid::Uuid;

use crate::schema;

/// What an item of the inbox is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum InboxKind {
    /// A tool call that has to be approved.
    Approval,
    /// A question of an agent.
    Question,
    /// A discussion that did not come to a decision.
    Discussion,
    /// A workflow that cannot go on without a person.
    Escalation,
    /// A call to a tool of the caller of a run, who sends its result. Such calls are listed only by this kind.
    ClientTool,
}

impl InboxKind {
    pub const ALL: [InboxKind; 5] = [
        InboxKind::Approval,
        InboxKind::Question,
        InboxKind::Discussion,
        InboxKind::Escalation,
        InboxKind::ClientTool,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            InboxKind::Approval => "approval",
            InboxKind::Question => "question",
            InboxKind::Discussion => "discussion",
            InboxKind::Escalation => "escalation",
            InboxKind::ClientTool => "client_tool",
        }
    }

    /// The kind of a request of a run; `None` for what a workflow waits for.
    pub fn request_kind(self) -> Option<ApprovalKind> {
        match self {
            InboxKind::Approval => Some(ApprovalKind::Approval),
            InboxKind::Question => Some(ApprovalKind::Question),
            InboxKind::ClientTool => Some(ApprovalKind::ClientTool),
            InboxKind::Discussion | InboxKind::Escalation => None,
        }
    }
}

/// Something that a person has to decide, or decided.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = InboxItem)]
pub struct InboxItemView {
    /// Of the approval or question, of the discussion, or of the workflow.
    pub id: Uuid,
    pub kind: InboxKind,
    #[schema(value_type = schema::ApprovalStatus)]
    pub status: ApprovalStatus,
    /// The tool with the start of its input, the question, the topic of the discussion, or why the workflow does not go
    /// on. At most 500 characters; the item itself has all of it.
    pub title: String,
    /// The run that waits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_id: Option<Uuid>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_name: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_name: Option<String>,
    #[schema(value_type = Option<String>, format = DateTime)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
    /// Present, and true, when its time is up and it waits on.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub overdue: bool,
    #[schema(value_type = String, format = DateTime)]
    pub created_at: Timestamp,
}

impl From<InboxItem> for InboxItemView {
    fn from(item: InboxItem) -> Self {
        Self {
            id: item.id,
            kind: item.kind.into(),
            status: item.status,
            title: short_title(&item.title),
            run_id: None,
            agent_name: None,
            tool_name: None,
            expires_at: None,
            overdue: false,
            created_at: item.created_at,
        }
    }
}

impl From<InboxItemKind> for InboxKind {
    fn from(kind: InboxItemKind) -> Self {
        match kind {
            InboxItemKind::Approval => InboxKind::Approval,
            InboxItemKind::Question => InboxKind::Question,
            InboxItemKind::Discussion => InboxKind::Discussion,
            InboxItemKind::Escalation => InboxKind::Escalation,
        }
    }
}

impl From<Approval> for InboxItemView {
    fn from(approval: Approval) -> Self {
        let kind = match approval.kind {
            ApprovalKind::Approval => InboxKind::Approval,
            ApprovalKind::Question => InboxKind::Question,
            ApprovalKind::ClientTool => InboxKind::ClientTool,
        };
        Self {
            id: approval.id.0,
            kind,
            status: approval.status,
            title: short_title(&approval.title()),
            run_id: Some(approval.run.0),
            agent_name: Some(approval.agent_name),
            tool_name: Some(approval.tool),
            expires_at: approval.expires_at,
            overdue: approval.is_overdue,
            created_at: approval.created_at,
        }
    }
}

/// An item of the inbox with what a person needs to decide it.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(untagged)]
#[schema(as = InboxDetail)]
pub enum InboxDetailView {
    /// Of the kinds `approval` and `question`.
    Request(Box<ApprovalView>),
    /// Of the kinds `discussion` and `escalation`.
    Escalated(EscalatedItemView),
}

/// A discussion without a decision, or a workflow that cannot go on without a person.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = EscalatedItem)]
pub struct EscalatedItemView {
    /// Of the discussion, or of the workflow. Their own routes have the details.
    pub id: Uuid,
    pub kind: InboxKind,
    #[schema(value_type = schema::ApprovalStatus)]
    pub status: ApprovalStatus,
    /// The topic of the discussion, or why the workflow does not go on.
    pub title: String,
    /// What the discussion or the workflow offers, while it is pending.
    pub options: Vec<String>,
    /// Null until it is decided, and if it was withdrawn.
    pub decision: Option<DecisionView>,
    /// When a person was needed.
    #[schema(value_type = String, format = DateTime)]
    pub created_at: Timestamp,
}

impl EscalatedItemView {
    pub fn new(item: InboxItem, options: Vec<String>) -> Self {
        let InboxItem { id, project: _, kind, title, status, decision, created_at } = item;
        Self { id, kind: kind.into(), status, title, options, decision: decision.map(Into::into), created_at }
    }
}

/// A tool call that has to be approved, or a question of an agent.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Approval)]
pub struct ApprovalView {
    pub id: Uuid,
    #[schema(value_type = schema::ApprovalKind)]
    pub kind: ApprovalKind,
    #[schema(value_type = schema::ApprovalStatus)]
    pub status: ApprovalStatus,
    /// The tool with the start of its input, or the question.
    pub title: String,
    pub agent_id: Uuid,
    pub agent_name: String,
    pub run_id: Uuid,
    pub tool_call_id: Uuid,
    pub tool_name: String,
    /// The external MCP server that asks during the call; absent when the agent asks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
    /// The input of the call, as the agent wrote it.
    pub input: Value,
    /// Binds a decision to this call, this version of the tool and this input.
    pub digest: String,
    /// Null for a call that has to be approved.
    pub question: Option<QuestionView>,
    /// Null until it is decided.
    pub decision: Option<DecisionView>,
    #[schema(value_type = Option<String>, format = DateTime)]
    pub expires_at: Option<Timestamp>,
    #[schema(value_type = schema::OnExpiry)]
    pub on_expiry: OnExpiry,
    /// True when its time is up and it waits on.
    pub overdue: bool,
    #[schema(value_type = String, format = DateTime)]
    pub created_at: Timestamp,
}

/// What an agent asks a person.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Question)]
pub struct QuestionView {
    pub text: String,
    /// The answers to choose from; none: any text.
    pub options: Vec<String>,
    /// The JSON Schema of the answer; null: the answer is a text.
    #[schema(value_type = Option<Object>)]
    pub response_schema: Option<Value>,
}

/// What was decided, by whom and why.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = ApprovalOutcome)]
pub struct DecisionView {
    #[schema(value_type = schema::ApprovalDecision)]
    pub decision: Choice,
    /// The input with which the call was approved, if the person changed it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub edited_input: Option<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<Value>,
    pub reason: Option<String>,
    /// The token that decided; null when the time was up.
    pub token_id: Option<Uuid>,
    #[schema(value_type = String, format = DateTime)]
    pub at: Timestamp,
}

impl From<Approval> for ApprovalView {
    fn from(approval: Approval) -> Self {
        Self {
            id: approval.id.0,
            kind: approval.kind,
            status: approval.status,
            title: approval.title(),
            agent_id: approval.agent.0,
            agent_name: approval.agent_name,
            run_id: approval.run.0,
            tool_call_id: approval.call.0,
            tool_name: approval.tool,
            server: approval.server,
            input: approval.input,
            digest: approval.digest,
            question: approval.question.map(Into::into),
            decision: approval.decision.map(Into::into),
            expires_at: approval.expires_at,
            on_expiry: approval.on_expiry,
            overdue: approval.is_overdue,
            created_at: approval.created_at,
        }
    }
}

impl From<Question> for QuestionView {
    fn from(question: Question) -> Self {
        let Question { text, options, response_schema } = question;
        Self { text, options, response_schema }
    }
}

impl From<Decision> for DecisionView {
    fn from(decision: Decision) -> Self {
        let Decision { choice, edited_input, answer, reason, objects_digest: _, by, at } = decision;
        Self { decision: choice, edited_input, answer, reason, token_id: by.map(|token| token.0), at }
    }
}

/// What a person decides. Who decides is known from the token.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DecideApproval {
    /// `approve` or `deny` a tool call; `answer` a question, or `deny` to leave it unanswered; `approve` resumes a
    /// workflow and `deny` cancels it; `answer` is the outcome of a discussion, `approve` accepts its last
    /// proposal, and `deny` cancels the workflow that waits for it.
    #[schema(value_type = schema::ApprovalDecision)]
    pub decision: Choice,
    /// Replaces the whole input of an approved call. The schema of the tool has to accept it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub edited_input: Option<Value>,
    /// The outcome of a discussion, or the answer to a question: a text, one of its options, or what its schema asks for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<Value>,
    /// For the agent and the record.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 4000)]
    pub reason: Option<String>,
    /// The `digest` of the request as it was read; 409 when it is another.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
}

impl From<DecideApproval> for NewDecision {
    fn from(body: DecideApproval) -> Self {
        let DecideApproval { decision, edited_input, answer, reason, digest } = body;
        Self { choice: decision, edited_input, answer, reason, digest }
    }
}

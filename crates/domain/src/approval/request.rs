//! A request to a person: to approve a tool call, or to answer a question of an agent.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Decision, OnExpiry};
use crate::{
    agent::string_enum,
    ids::{AgentId, ApprovalId, ProjectId, RunId, ToolCallId},
    time::Timestamp,
};

string_enum! {
    /// What a run waits for.
    ApprovalKind {
        Approval = "approval",
        Question = "question",
        /// The caller of the run executes a tool of its own, and sends the result. No person is asked.
        ClientTool = "client_tool",
    }
}

string_enum! {
    ApprovalStatus {
        Pending = "pending",
        Decided = "decided",
        /// Nobody decided in time, so the call counts as denied.
        Expired = "expired",
        /// The run ended before anybody decided, or the external server no longer waits for an answer.
        Withdrawn = "withdrawn",
    }
}

/// A held tool call and what was decided about it.
#[derive(Debug, Clone, PartialEq)]
pub struct Approval {
    pub id: ApprovalId,
    pub project: ProjectId,
    pub kind: ApprovalKind,
    pub run: RunId,
    pub call: ToolCallId,
    pub agent: AgentId,
    pub agent_name: String,
    pub tool: String,
    /// The external MCP server that asks for input during the call. `None` if the agent asks, or if the call has to
    /// be approved.
    pub server: Option<String>,
    /// The input of the call, as the model wrote it.
    pub input: Value,
    /// The hash of [`call_text`]. A decision counts for this call, this tool and this input only.
    pub digest: String,
    /// What a question asks. `None` for a call that has to be approved.
    pub question: Option<Question>,
    pub status: ApprovalStatus,
    pub decision: Option<Decision>,
    pub expires_at: Option<Timestamp>,
    pub on_expiry: OnExpiry,
    /// True if the time is up and `on_expiry` says that the call goes on waiting.
    pub is_overdue: bool,
    pub created_at: Timestamp,
}

/// What an agent asks a person.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Question {
    pub text: String,
    /// The answers to choose from. If empty, any text is an answer.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub options: Vec<String>,
    /// The JSON Schema of the answer. If absent, the answer is a text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response_schema: Option<Value>,
}

/// Returns the text whose hash identifies a held call. `pin` is the digest of the definition of an external
/// tool, so that a decision does not count for a tool that changed since.
pub fn call_text(call: ToolCallId, tool: &str, pin: Option<&str>, input: &Value) -> String {
    // The keys of JSON objects are sorted in `Value`, so equal inputs have equal texts.
    serde_json::json!({ "call": call, "tool": tool, "pin": pin, "input": input }).to_string()
}

//! A request to a person: to approve a tool call, or to answer a question of an agent.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Decision, OnExpiry};
use crate::{
    agent::string_enum,
    ids::{AgentId, ApprovalId, ObjectId, ProjectId, RunId, ToolCallId},
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
    /// The hash of [`call_text`] and, if the input names objects by keys, that of [`objects_text`]. A decision counts
    /// for this call, this tool, this input and these objects only.
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

/// Between the two hashes of a digest.
const SEPARATOR: char = '.';

impl Approval {
    /// The digest of a request: the hash of its call, and that of the objects that its input names by keys.
    pub fn digest_of(call: &str, objects: Option<&str>) -> String {
        match objects {
            Some(objects) => format!("{call}{SEPARATOR}{objects}"),
            None => call.to_owned(),
        }
    }

    /// The hash of the call.
    pub fn call_digest(&self) -> &str {
        self.digest.split_once(SEPARATOR).map_or(&self.digest, |(call, _)| call)
    }

    /// The hash of the objects that the input named by keys when the request was made; `None` if it named none in this way,
    /// or if an earlier version of the server made the request.
    pub fn objects_digest(&self) -> Option<&str> {
        self.digest.split_once(SEPARATOR).map(|(_, objects)| objects)
    }
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

/// An object that an input names by a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NamedObject {
    pub id: ObjectId,
    pub is_deleted: bool,
}

/// Returns the text whose hash identifies the objects that an input may name by keys, by how they are written in it. A key
/// can be given to another object, so that the same input would mean that one.
pub fn objects_text(objects: &BTreeMap<String, Vec<NamedObject>>) -> String {
    serde_json::json!(objects).to_string()
}

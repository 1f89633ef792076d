//! Agents for callers from outside: the card that lists them, how one is started, and what it answered.

use emergent_domain::{
    approval::ApprovalKind,
    run::{Reason, RunStatus},
};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;
use uuid::Uuid;

use crate::{run::TokenSums, schema};

/// The agents of a project that the outside may find.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = AgentCard)]
pub struct AgentCardView {
    #[schema(example = "1.0")]
    pub schema_version: String,
    pub agents: Vec<CardEntryView>,
}

/// One agent of a card, as its definition describes it to the outside (`acp`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = AgentCardEntry)]
pub struct CardEntryView {
    pub name: String,
    pub description: String,
    pub capabilities: Vec<String>,
    pub input_modes: Vec<String>,
    pub output_modes: Vec<String>,
    /// Where the agent is started, with `POST`.
    #[schema(example = "/api/agents/01890000-0000-7000-8000-000000000000/invoke")]
    pub endpoint: String,
}

/// What an agent is started with from outside.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct InvokeAgent {
    /// What to do, as the agent reads it.
    #[schema(min_length = 1)]
    pub input: String,
    /// Anything else it should know; shown to the agent after the input.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<Value>,
    /// The conversation that the input continues: the `conversationId` of an earlier answer, or of a chat with this
    /// agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conversation_id: Option<Uuid>,
    /// How many seconds the answer waits for the end of the run. Without it, the answer comes at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0, maximum = 600)]
    pub wait: Option<u64>,
    /// Streams the events of the run. Not together with `wait`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub stream: bool,
}

/// A run that was started from outside: how it ended, or where it stands.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Invocation)]
pub struct InvocationView {
    pub run_id: Uuid,
    pub agent_id: Uuid,
    #[schema(value_type = schema::RunStatus)]
    pub status: RunStatus,
    /// Why it is paused or failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::Reason>)]
    pub reason: Option<Reason>,
    /// What the agent answered, once the run has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// The answer as a value that matches the output schema of the agent, if it has one and the run completed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_message: Option<String>,
    /// What a `waiting` run waits for: a person who approves a call or answers a question.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::ApprovalKind>)]
    pub waiting_for: Option<ApprovalKind>,
    /// Send it with the next input to go on with this conversation.
    pub conversation_id: Uuid,
    /// Of this run alone, once it has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token_usage: Option<TokenSums>,
    pub links: InvocationLinks,
}

/// Where to look for the rest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct InvocationLinks {
    /// The same answer, later. `?wait=` waits for the end.
    pub result: String,
    /// The events of the run as a stream.
    pub events: String,
}

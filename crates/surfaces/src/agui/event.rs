//! The events of AG-UI that this server sends. Fields without a value are left out, because clients refuse null. Only
//! types that clients before version 1.0 know are used: they fail on others.

use emergent_domain::{agent::ModelConfig, chat::Usage as TokenCounts, json::JsonText};
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

use super::interrupt::Interrupt;

/// One frame of the stream.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
#[serde(tag = "type", rename_all = "SCREAMING_SNAKE_CASE")]
#[schema(as = AguiEvent)]
pub enum Event {
    #[serde(rename_all = "camelCase")]
    RunStarted {
        /// As in the request.
        thread_id: String,
        /// As in the request.
        run_id: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        parent_run_id: Option<String>,
    },
    /// One model call and the tool calls that follow from it.
    #[serde(rename_all = "camelCase")]
    StepStarted { step_name: String },
    #[serde(rename_all = "camelCase")]
    StepFinished { step_name: String },
    #[serde(rename_all = "camelCase")]
    TextMessageStart { message_id: String, role: Role },
    #[serde(rename_all = "camelCase")]
    TextMessageContent { message_id: String, delta: String },
    #[serde(rename_all = "camelCase")]
    TextMessageEnd { message_id: String },
    #[serde(rename_all = "camelCase")]
    ReasoningStart { message_id: String },
    #[serde(rename_all = "camelCase")]
    ReasoningMessageStart { message_id: String, role: Role },
    #[serde(rename_all = "camelCase")]
    ReasoningMessageContent { message_id: String, delta: String },
    #[serde(rename_all = "camelCase")]
    ReasoningMessageEnd { message_id: String },
    #[serde(rename_all = "camelCase")]
    ReasoningEnd { message_id: String },
    #[serde(rename_all = "camelCase")]
    ToolCallStart { tool_call_id: String, tool_call_name: String, parent_message_id: String },
    #[serde(rename_all = "camelCase")]
    ToolCallArgs {
        tool_call_id: String,
        /// JSON.
        delta: String,
    },
    #[serde(rename_all = "camelCase")]
    ToolCallEnd { tool_call_id: String },
    #[serde(rename_all = "camelCase")]
    ToolCallResult { message_id: String, tool_call_id: String, content: String, role: Role },
    /// The state of the request, with `emergent` added.
    #[serde(rename_all = "camelCase")]
    StateSnapshot { snapshot: Value },
    /// A JSON Patch of the state.
    #[serde(rename_all = "camelCase")]
    StateDelta { delta: Vec<Value> },
    /// The messages of the request, and those of the run.
    #[serde(rename_all = "camelCase")]
    MessagesSnapshot {
        #[schema(value_type = Vec<Value>)]
        messages: Vec<JsonText>,
    },
    /// What AG-UI has no event for.
    #[serde(rename_all = "camelCase")]
    Custom { name: String, value: Value },
    #[serde(rename_all = "camelCase")]
    RunFinished {
        thread_id: String,
        run_id: String,
        outcome: Outcome,
        #[serde(skip_serializing_if = "Option::is_none")]
        result: Option<RunResult>,
        usage: Vec<ModelUsage>,
    },
    #[serde(rename_all = "camelCase")]
    RunError { message: String, code: String },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
#[schema(as = AguiRole)]
pub enum Role {
    Assistant,
    Reasoning,
    Tool,
}

/// How a run finished for its client.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
#[serde(tag = "type", rename_all = "lowercase")]
#[schema(as = AguiOutcome)]
pub enum Outcome {
    Success,
    /// The run waits for these decisions and answers.
    Interrupt {
        interrupts: Vec<Interrupt>,
    },
}

/// What a run that ended returned.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = AguiResult)]
pub struct RunResult {
    /// The id of the run in this system.
    pub run_id: String,
    /// `completed`, or `paused` at a limit of steps or time.
    pub status: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<&'static str>,
    pub text: String,
    /// The answer as a value, if the agent has an output schema.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output: Option<Value>,
}

/// The tokens of the model calls that the stream tells of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = AguiUsage)]
pub struct ModelUsage {
    pub provider: String,
    pub model: String,
    pub input_tokens: u64,
    pub output_tokens: u64,
    pub total_tokens: u64,
    pub reasoning_tokens: u64,
    pub cached_input_tokens: u64,
}

impl ModelUsage {
    pub fn new(model: &ModelConfig, tokens: TokenCounts) -> Self {
        Self {
            provider: model.provider.clone(),
            model: model.name.clone(),
            input_tokens: tokens.input,
            output_tokens: tokens.output,
            total_tokens: tokens.input.saturating_add(tokens.output),
            reasoning_tokens: tokens.reasoning,
            cached_input_tokens: tokens.cache_read,
        }
    }
}

/// The stream of a request that the protocol answers with an error.
pub fn refusal(thread: &str, run: &str, code: impl Into<String>, message: impl Into<String>) -> [Event; 2] {
    let started =
        Event::RunStarted { thread_id: thread.to_owned(), run_id: run.to_owned(), parent_run_id: None };
    [started, Event::RunError { message: message.into(), code: code.into() }]
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn events_have_the_names_of_the_protocol_and_no_null() {
        let started = Event::RunStarted { thread_id: "t".into(), run_id: "r".into(), parent_run_id: None };
        assert_eq!(
            serde_json::to_value(started).unwrap(),
            json!({ "type": "RUN_STARTED", "threadId": "t", "runId": "r" })
        );
        let finished = Event::RunFinished {
            thread_id: "t".into(),
            run_id: "r".into(),
            outcome: Outcome::Success,
            result: None,
            usage: vec![ModelUsage::new(&"google/gemini".parse().unwrap(), TokenCounts::default())],
        };
        let finished = serde_json::to_value(finished).unwrap();
        assert_eq!(finished["outcome"], json!({ "type": "success" }));
        assert_eq!(finished["usage"][0]["provider"], "google");
        assert!(finished.get("result").is_none());
        let start = Event::TextMessageStart { message_id: "m".into(), role: Role::Assistant };
        assert_eq!(
            serde_json::to_value(start).unwrap(),
            json!({ "type": "TEXT_MESSAGE_START", "messageId": "m", "role": "assistant" })
        );
    }
}

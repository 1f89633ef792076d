//! Whole completions: the answer of a run that has ended.

use emergent_domain::{
    chat::Usage as TokenCounts,
    run::{Run, RunStatus},
};
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

use super::{completion_id, error::RunFailure, tools::ToolCallView, unix_seconds};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = OpenAiCompletion)]
pub struct Completion {
    /// `chatcmpl-` and the id of the run.
    pub id: String,
    #[schema(example = "chat.completion")]
    pub object: &'static str,
    pub created: i64,
    /// The name of the agent.
    pub model: String,
    pub choices: [Choice; 1],
    pub usage: Usage,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = OpenAiChoice)]
pub struct Choice {
    pub index: u32,
    pub message: AnswerMessage,
    pub logprobs: Option<String>,
    pub finish_reason: FinishReason,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = OpenAiAnswer)]
pub struct AnswerMessage {
    #[schema(example = "assistant")]
    pub role: &'static str,
    /// Null if the agent only calls tools of the caller.
    pub content: Option<String>,
    pub refusal: Option<String>,
    /// The tools of the caller that the agent calls.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_calls: Option<Vec<ToolCallView>>,
    /// The answer as a value, of a run with an output schema. The content is its JSON.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output: Option<Value>,
}

/// Why an answer ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = OpenAiFinishReason)]
pub enum FinishReason {
    Stop,
    /// The run is paused at its limit of steps or time: the answer is what is known so far.
    Length,
    /// The run waits until the caller has sent the results of its tools.
    ToolCalls,
}

/// The tokens of all model calls of the run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = OpenAiUsage)]
pub struct Usage {
    pub prompt_tokens: u64,
    pub completion_tokens: u64,
    pub total_tokens: u64,
    pub prompt_tokens_details: PromptDetails,
    pub completion_tokens_details: CompletionDetails,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = OpenAiPromptDetails)]
pub struct PromptDetails {
    pub cached_tokens: u64,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = OpenAiCompletionDetails)]
pub struct CompletionDetails {
    pub reasoning_tokens: u64,
}

impl From<TokenCounts> for Usage {
    fn from(tokens: TokenCounts) -> Self {
        Self {
            prompt_tokens: tokens.input,
            completion_tokens: tokens.output,
            total_tokens: tokens.input + tokens.output,
            prompt_tokens_details: PromptDetails { cached_tokens: tokens.cache_read },
            completion_tokens_details: CompletionDetails { reasoning_tokens: tokens.reasoning },
        }
    }
}

/// Returns the completion of a run, or why there is none.
pub fn completion(run: &Run, usage: Usage) -> Result<Completion, RunFailure> {
    let finish_reason = match run.status {
        RunStatus::Completed => FinishReason::Stop,
        RunStatus::Paused => FinishReason::Length,
        _ => return Err(RunFailure::from_run(run)),
    };
    // The text of a validated answer may have a fence around its JSON.
    let content = match &run.output {
        Some(output) => output.to_string(),
        None => run.summary.clone().unwrap_or_default(),
    };
    let output = run.output.clone();
    let message =
        AnswerMessage { role: "assistant", content: Some(content), refusal: None, tool_calls: None, output };
    Ok(with_message(run, message, finish_reason, usage))
}

/// Returns the first completion of a run with this message.
pub(super) fn with_message(
    run: &Run,
    message: AnswerMessage,
    finish_reason: FinishReason,
    usage: Usage,
) -> Completion {
    Completion {
        id: completion_id(run.id, 0),
        object: "chat.completion",
        created: unix_seconds(run.created_at),
        model: run.agent_name.clone(),
        choices: [Choice { index: 0, message, logprobs: None, finish_reason }],
        usage,
    }
}

#[cfg(test)]
mod tests {
    use emergent_domain::{approval::ApprovalKind, run::Reason};
    use serde_json::json;

    use super::*;
    use crate::samples::run;

    #[test]
    fn a_completed_run_is_a_completion_with_its_usage() {
        let mut run = run(RunStatus::Completed);
        run.summary = Some("Three.".to_owned());
        let tokens = TokenCounts { input: 100, output: 10, reasoning: 2, cache_read: 40, cache_write: 5 };
        let expected = json!({
            "id": format!("chatcmpl-{}", run.id),
            "object": "chat.completion",
            "created": 1_767_323_045,
            "model": "finder",
            "choices": [{
                "index": 0,
                "message": { "role": "assistant", "content": "Three.", "refusal": null },
                "logprobs": null,
                "finish_reason": "stop",
            }],
            "usage": {
                "prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110,
                "prompt_tokens_details": { "cached_tokens": 40 },
                "completion_tokens_details": { "reasoning_tokens": 2 },
            },
        });
        assert_eq!(serde_json::to_value(completion(&run, tokens.into()).unwrap()).unwrap(), expected);
    }

    #[test]
    fn a_run_at_its_limit_is_cut_and_a_run_without_an_answer_is_an_error() {
        let mut paused = run(RunStatus::Paused);
        (paused.reason, paused.summary) = (Some(Reason::StepLimit), Some("Half.".to_owned()));
        let cut = completion(&paused, Usage::default()).unwrap();
        assert_eq!(cut.choices[0].finish_reason, FinishReason::Length);
        let mut failed = run(RunStatus::Failed);
        (failed.reason, failed.error) = (Some(Reason::Provider), Some("the model is down".to_owned()));
        let failure = completion(&failed, Usage::default()).unwrap_err();
        assert_eq!((failure.status, failure.code.as_str()), (500, "provider"));
        assert!(failure.message.contains("the model is down"), "{}", failure.message);
        let mut waiting = run(RunStatus::Waiting);
        waiting.waiting_for = Some(ApprovalKind::Question);
        let failure = completion(&waiting, Usage::default()).unwrap_err();
        assert_eq!((failure.status, failure.code.as_str()), (422, "run_waiting"));
        assert!(failure.message.contains("question"), "{}", failure.message);
        assert_eq!(completion(&run(RunStatus::Running), Usage::default()).unwrap_err().code, "run_not_ended");
        assert_eq!(completion(&run(RunStatus::Cancelled), Usage::default()).unwrap_err().code, "cancelled");
    }
}

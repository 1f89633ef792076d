//! The events of a run, which are also the frames of its event stream.

use emergent_domain::{
    approval::{ApprovalKind, ApprovalStatus, Choice},
    run::{Reason, RunStatus},
    run_event::{RunEvent, RunEventBody, TextSoFar},
    time::Timestamp,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;
use uuid::Uuid;

use crate::{
    run::SummaryView, run_detail::UnavailableServerView, run_message::RunMessageView, schema,
    tool_call::ToolCallView,
};

/// One thing a run tells. Durable ones have a place, which is also the frame's `id:`; the others
/// (`text_so_far`, `text_delta`, `thought_delta`, `step_restarted`) are told live only.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = RunEvent)]
pub struct RunEventView {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seq: Option<i64>,
    pub run_id: Uuid,
    #[schema(value_type = String, format = DateTime)]
    pub at: Timestamp,
    #[serde(flatten)]
    pub body: BodyView,
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
#[schema(as = RunEventBody)]
// Each variant has its own `rename_all`, because the schema ignores `rename_all_fields`.
pub enum BodyView {
    /// `recovered`: another process had it before.
    RunStarted {
        recovered: bool,
    },
    /// The agent's `tools` name tools that did not exist when the run was started, mostly because their servers could
    /// not be used.
    #[serde(rename_all = "camelCase")]
    ServersUnavailable {
        servers: Vec<UnavailableServerView>,
        /// The names in `tools` that no tool had.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        missing_tools: Vec<String>,
    },
    Message {
        message: RunMessageView,
    },
    #[serde(rename_all = "camelCase")]
    ToolStarted {
        tool_call: ToolCallView,
    },
    #[serde(rename_all = "camelCase")]
    ToolCompleted {
        tool_call: ToolCallView,
    },
    #[serde(rename_all = "camelCase")]
    LoopDetected {
        tool_call_id: Uuid,
        tool_name: String,
        count: i64,
    },
    LimitReached {
        #[schema(value_type = schema::Reason)]
        reason: Reason,
    },
    /// The model's answer was truncated or empty (`reason`), and it is asked again in the same step; or the answer did
    /// not match the output schema, and it is asked to correct it in the next step.
    #[serde(rename_all = "camelCase")]
    AnswerIncomplete {
        step_number: i64,
        #[schema(value_type = schema::Reason)]
        reason: Reason,
    },
    /// The provider failed. The model call is repeated after `waitMs`; `attempt` counts the failures. With `childRunId`,
    /// it is a call of that run, which is below this one, of the agent `agentName`.
    #[serde(rename_all = "camelCase")]
    ModelRetry {
        step_number: i64,
        model: String,
        error: String,
        attempt: u32,
        wait_ms: u64,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        child_run_id: Option<Uuid>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        agent_name: Option<String>,
    },
    /// What the model sees was shortened, from so many tokens to so many; the record is whole.
    Compacted {
        before: i64,
        after: i64,
        summarised: bool,
    },
    /// A person is asked to approve the call, or to answer a question (`kind`).
    #[serde(rename_all = "camelCase")]
    ApprovalRequested {
        approval_id: Uuid,
        tool_call_id: Uuid,
        tool_name: String,
        #[schema(value_type = schema::ApprovalKind)]
        kind: ApprovalKind,
        /// The run below this one that asks, because of which this run waits.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        child_run_id: Option<Uuid>,
    },
    /// It waits for a person, itself or through its children. Its time does not count meanwhile.
    #[serde(rename_all = "camelCase")]
    RunWaiting {
        #[schema(value_type = schema::ApprovalKind)]
        waiting_for: ApprovalKind,
    },
    /// `edited`: the person changed the input of the call.
    #[serde(rename_all = "camelCase")]
    ApprovalDecided {
        approval_id: Uuid,
        tool_call_id: Uuid,
        tool_name: String,
        #[schema(value_type = schema::ApprovalStatus)]
        status: ApprovalStatus,
        #[schema(value_type = schema::ApprovalDecision)]
        decision: Choice,
        reason: Option<String>,
        edited: bool,
        /// The run below this one that asked, because of which this run waited.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        child_run_id: Option<Uuid>,
    },
    /// It goes on after it waited for a person.
    RunContinued {},
    #[serde(rename_all = "camelCase")]
    RunEnded {
        #[schema(value_type = schema::RunStatus)]
        status: RunStatus,
        #[schema(value_type = Option<schema::Reason>)]
        reason: Option<Reason>,
        summary: Option<SummaryView>,
        /// The final answer as a value that matches the output schema; absent without such a schema.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        output: Option<Value>,
        error_message: Option<String>,
    },
    /// The text of the answer that is being written, before the `text_delta` that follow. It takes the place of
    /// what you have of this step. Sent when a stream is opened, and after parts were lost.
    #[serde(rename_all = "camelCase")]
    TextSoFar {
        step_number: i64,
        text: String,
        /// How many characters of the beginning are missing, because the answer is long.
        #[serde(default, skip_serializing_if = "is_zero")]
        omitted_chars: i64,
    },
    #[serde(rename_all = "camelCase")]
    TextDelta {
        step_number: i64,
        text: String,
    },
    #[serde(rename_all = "camelCase")]
    ThoughtDelta {
        step_number: i64,
        text: String,
    },
    /// The model is asked again: what it had said of this step is void.
    #[serde(rename_all = "camelCase")]
    StepRestarted {
        step_number: i64,
        why: String,
    },
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(number: &i64) -> bool {
    *number == 0
}

impl From<RunEvent> for RunEventView {
    fn from(event: RunEvent) -> Self {
        let run = event.run;
        let body = match event.body {
            RunEventBody::Started { recovered } => BodyView::RunStarted { recovered },
            RunEventBody::ServersUnavailable { servers, missing_tools } => BodyView::ServersUnavailable {
                servers: servers.into_iter().map(UnavailableServerView::from).collect(),
                missing_tools,
            },
            RunEventBody::Message(message) => {
                BodyView::Message { message: RunMessageView::from_recorded(run, message) }
            }
            RunEventBody::ToolStarted(call) => {
                BodyView::ToolStarted { tool_call: ToolCallView::new(run, call) }
            }
            RunEventBody::ToolCompleted(call) => {
                BodyView::ToolCompleted { tool_call: ToolCallView::new(run, call) }
            }
            RunEventBody::LoopDetected { call, tool, count } => {
                BodyView::LoopDetected { tool_call_id: call.0, tool_name: tool, count }
            }
            RunEventBody::LimitReached { reason } => BodyView::LimitReached { reason },
            RunEventBody::AnswerIncomplete { step, reason } => {
                BodyView::AnswerIncomplete { step_number: step, reason }
            }
            RunEventBody::ModelRetry { step, retry, child } => BodyView::ModelRetry {
                step_number: step,
                model: retry.model,
                error: retry.error,
                attempt: retry.attempt,
                wait_ms: retry.wait_ms,
                child_run_id: child.as_ref().map(|child| child.run.0),
                agent_name: child.map(|child| child.agent),
            },
            RunEventBody::Compacted { before, after, summarised } => {
                BodyView::Compacted { before, after, summarised }
            }
            RunEventBody::ApprovalRequested { approval, call, tool, kind, child } => {
                BodyView::ApprovalRequested {
                    approval_id: approval.0,
                    tool_call_id: call.0,
                    tool_name: tool,
                    kind,
                    child_run_id: child.map(|run| run.0),
                }
            }
            RunEventBody::Waiting { waiting_for } => BodyView::RunWaiting { waiting_for },
            RunEventBody::ApprovalDecided {
                approval,
                call,
                tool,
                status,
                decision,
                reason,
                edited,
                child,
            } => BodyView::ApprovalDecided {
                approval_id: approval.0,
                tool_call_id: call.0,
                tool_name: tool,
                status,
                decision,
                reason,
                edited,
                child_run_id: child.map(|run| run.0),
            },
            RunEventBody::Continued => BodyView::RunContinued {},
            RunEventBody::Ended { status, reason, summary, output, error } => BodyView::RunEnded {
                status,
                reason,
                summary: SummaryView::from_text(Some(summary)),
                output,
                error_message: error,
            },
            RunEventBody::TextSoFar(TextSoFar { step, text, omitted_chars }) => {
                BodyView::TextSoFar { step_number: step, text, omitted_chars }
            }
            RunEventBody::TextDelta { step, text } => BodyView::TextDelta { step_number: step, text },
            RunEventBody::ThoughtDelta { step, text } => BodyView::ThoughtDelta { step_number: step, text },
            RunEventBody::StepRestarted { step, why } => BodyView::StepRestarted { step_number: step, why },
        };
        Self { seq: event.seq, run_id: run.0, at: event.at, body }
    }
}

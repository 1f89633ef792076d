//! The events of a run, which are also the frames of its event stream.

use emergent_domain::{
    run::{Reason, RunStatus},
    run_event::{RunEvent, RunEventBody},
    time::Timestamp,
};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use uuid::Uuid;

use crate::{
    run::SummaryView, run_detail::UnavailableServerView, run_message::RunMessageView, schema,
    tool_call::ToolCallView,
};

/// One thing a run tells. Durable ones have a place, which is also the frame's `id:`; the others
/// (`text_delta`, `thought_delta`, `step_restarted`) are told live only.
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
    /// The agent's `tools` name tools of servers that could not be used when the run was started.
    ServersUnavailable {
        servers: Vec<UnavailableServerView>,
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
    /// The model's answer was truncated or empty (`reason`); it is asked again in the same step.
    #[serde(rename_all = "camelCase")]
    AnswerIncomplete {
        step_number: i64,
        #[schema(value_type = schema::Reason)]
        reason: Reason,
    },
    /// The provider failed. The model call is repeated after `waitMs`; `attempt` counts the failures.
    #[serde(rename_all = "camelCase")]
    ModelRetry {
        step_number: i64,
        model: String,
        error: String,
        attempt: u32,
        wait_ms: u64,
    },
    /// What the model sees was shortened, from so many tokens to so many; the record is whole.
    Compacted {
        before: i64,
        after: i64,
        summarised: bool,
    },
    #[serde(rename_all = "camelCase")]
    RunEnded {
        #[schema(value_type = schema::RunStatus)]
        status: RunStatus,
        #[schema(value_type = Option<schema::Reason>)]
        reason: Option<Reason>,
        summary: Option<SummaryView>,
        error_message: Option<String>,
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

impl From<RunEvent> for RunEventView {
    fn from(event: RunEvent) -> Self {
        let run = event.run;
        let body = match event.body {
            RunEventBody::Started { recovered } => BodyView::RunStarted { recovered },
            RunEventBody::ServersUnavailable { servers } => BodyView::ServersUnavailable {
                servers: servers.into_iter().map(UnavailableServerView::from).collect(),
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
            RunEventBody::ModelRetry { step, retry } => BodyView::ModelRetry {
                step_number: step,
                model: retry.model,
                error: retry.error,
                attempt: retry.attempt,
                wait_ms: retry.wait_ms,
            },
            RunEventBody::Compacted { before, after, summarised } => {
                BodyView::Compacted { before, after, summarised }
            }
            RunEventBody::Ended { status, reason, summary, error } => BodyView::RunEnded {
                status,
                reason,
                summary: SummaryView::from_text(Some(summary)),
                error_message: error,
            },
            RunEventBody::TextDelta { step, text } => BodyView::TextDelta { step_number: step, text },
            RunEventBody::ThoughtDelta { step, text } => BodyView::ThoughtDelta { step_number: step, text },
            RunEventBody::StepRestarted { step, why } => BodyView::StepRestarted { step_number: step, why },
        };
        Self { seq: event.seq, run_id: run.0, at: event.at, body }
    }
}

//! Spans of runs, model calls and tool calls, named after OpenTelemetry's GenAI conventions.
//!
//! They have their own target and the lowest level, so they are created only if the configuration asks
//! for exactly this target; a disabled span builds neither itself nor its fields. Messages and the
//! inputs and outputs of tools are added only if `Settings::capture_content` is on.

use std::{
    collections::HashMap,
    sync::{Arc, OnceLock},
};

use emergent_domain::{
    agent::ModelConfig,
    chat::{Part, Speaker, StopReason, Turn},
    ids::RunId,
    run::{Run, RunEnd, RunStatus, ToolCallStatus},
    run_event::RecordedToolCall,
};
use emergent_llm::{Answer, ChatRequest, Error};
use emergent_tools::Effect;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::time::{Instant, error::Elapsed};
use tracing::{Span, field::Empty, trace_span};
use uuid::Uuid;

/// The open spans that spans of child runs can have as parents, by the id of a run or of a tool call.
/// Empty unless spans are exported. Clones share the same spans.
#[derive(Clone, Default)]
pub(crate) struct OpenSpans(Arc<Mutex<HashMap<Uuid, Span>>>);

impl OpenSpans {
    /// Records the status of runs that somebody else than their driver ended. Must be called before the drivers
    /// are dropped, because their spans end with them.
    pub fn mark_status(&self, runs: &[RunId], status: RunStatus) {
        let open = self.0.lock();
        for span in runs.iter().filter_map(|run| open.get(&run.0)) {
            span.record("emergent.run.status", status.as_str());
        }
    }

    /// Returns the span of the tool call that spawned the run, or of its parent.
    fn parent_of(&self, run: &Run) -> Option<tracing::Id> {
        let open = self.0.lock();
        let call = run.parent_call.and_then(|call| open.get(&call.0));
        call.or_else(|| open.get(&run.parent?.0)).and_then(Span::id)
    }
}

/// A span that child runs use as their parent while this value exists.
pub(crate) struct OpenSpan {
    span: Span,
    /// Where the span is registered; `None` if it is disabled.
    registered: Option<(OpenSpans, Uuid)>,
}

impl OpenSpan {
    fn new(span: Span, open: &OpenSpans, id: Uuid) -> Self {
        if span.is_disabled() {
            return Self { span, registered: None };
        }
        open.0.lock().insert(id, span.clone());
        Self { span, registered: Some((open.clone(), id)) }
    }

    pub fn span(&self) -> Span {
        self.span.clone()
    }
}

impl Drop for OpenSpan {
    fn drop(&mut self) {
        if let Some((open, id)) = &self.registered {
            open.0.lock().remove(id);
        }
    }
}

/// Creates the span for driving a run. Its parent is the tool call that spawned the run, if this
/// process makes that call.
pub(crate) fn run_span(open: &OpenSpans, run: &Run) -> OpenSpan {
    let span = trace_span!(
        target: "gen_ai",
        parent: open.parent_of(run),
        "invoke_agent",
        otel.name = format_args!("invoke_agent {}", run.agent_name),
        otel.status_code = Empty,
        gen_ai.operation.name = "invoke_agent",
        gen_ai.agent.name = run.agent_name,
        gen_ai.agent.id = %run.agent,
        gen_ai.conversation.id = %run.id,
        gen_ai.provider.name = provider_name(&run.model),
        gen_ai.request.model = run.model.name,
        emergent.run.parent_id = run.parent.map(tracing::field::display),
        emergent.run.status = Empty,
        error.type = Empty,
    );
    // A run without a parent in this process belongs to the trace of the request that started it.
    if let (false, Some(context), Some(set_parent)) =
        (span.is_disabled(), &run.terms.traceparent, REMOTE_PARENT.get())
        && open.parent_of(run).is_none()
    {
        set_parent(&span, context);
    }
    OpenSpan::new(span, open, run.id.0)
}

/// Makes a span the child of the span that a `traceparent` names.
pub type SetRemoteParent = fn(&Span, &str);

static REMOTE_PARENT: OnceLock<SetRemoteParent> = OnceLock::new();

/// Sets how spans get a parent of another process. Called once, when spans are exported.
pub fn on_remote_parent(set_parent: SetRemoteParent) {
    let _ = REMOTE_PARENT.set(set_parent);
}

/// Records the end of the run on the current span, which is the span of the run.
pub(crate) fn run_ended(end: &RunEnd) {
    let span = Span::current();
    span.record("emergent.run.status", end.status().as_str());
    if end.status() == RunStatus::Failed {
        mark_failed(&span, end.reason().map_or("_OTHER", |reason| reason.as_str()));
    }
}

/// Marks the span as interrupted. The run continues from its record in a new span.
pub(crate) fn mark_interrupted(span: &OpenSpan) {
    mark_failed(&span.span, "interrupted");
}

fn mark_failed(span: &Span, error: &str) {
    span.record("error.type", error);
    span.record("otel.status_code", "ERROR");
}

/// Creates the span of a model call.
pub(crate) fn chat_span(run: &Run) -> Span {
    let model = &run.model;
    trace_span!(
        target: "gen_ai",
        "chat",
        otel.name = format_args!("chat {}", model.name),
        otel.kind = "client",
        otel.status_code = Empty,
        gen_ai.operation.name = "chat",
        gen_ai.provider.name = provider_name(model),
        gen_ai.request.model = model.name,
        gen_ai.request.temperature = model.temperature,
        gen_ai.request.max_tokens = model.max_tokens.map(i64::from),
        gen_ai.conversation.id = %run.id,
        gen_ai.response.id = Empty,
        gen_ai.response.model = Empty,
        gen_ai.response.finish_reasons = Empty,
        gen_ai.usage.input_tokens = Empty,
        gen_ai.usage.output_tokens = Empty,
        gen_ai.usage.reasoning.output_tokens = Empty,
        gen_ai.usage.cache_read.input_tokens = Empty,
        gen_ai.usage.cache_creation.input_tokens = Empty,
        gen_ai.system_instructions = Empty,
        gen_ai.input.messages = Empty,
        gen_ai.output.messages = Empty,
        error.type = Empty,
    )
}

/// Adds the messages of a request to the span of its call.
pub(crate) fn record_request(span: &Span, request: &ChatRequest<'_>) {
    let system = json!([{ "type": "text", "content": request.system }]);
    span.record("gen_ai.system_instructions", system.to_string());
    let messages: Vec<Value> = request.turns.iter().map(turn_json).collect();
    span.record("gen_ai.input.messages", Value::Array(messages).to_string());
}

/// Creates the span of a tool call. Runs that the call spawns use it as their parent.
pub(crate) fn tool_span(open: &OpenSpans, call: &RecordedToolCall, effect: Option<Effect>) -> OpenSpan {
    let tool_type = match effect {
        Some(Effect::External { .. }) => "extension",
        _ => "function",
    };
    let span = trace_span!(
        target: "gen_ai",
        "execute_tool",
        otel.name = format_args!("execute_tool {}", call.tool),
        otel.status_code = Empty,
        gen_ai.operation.name = "execute_tool",
        gen_ai.tool.name = call.tool,
        gen_ai.tool.call.id = %call.id,
        gen_ai.tool.type = tool_type,
        gen_ai.tool.call.arguments = Empty,
        gen_ai.tool.call.result = Empty,
        error.type = Empty,
    );
    OpenSpan::new(span, open, call.id.0)
}

/// Adds the input of a tool call to its span.
pub(crate) fn record_tool_input(span: &OpenSpan, call: &RecordedToolCall) {
    span.span.record("gen_ai.tool.call.arguments", call.input.to_string());
}

/// Records the outcome of a tool call on its span.
pub(crate) fn tool_ended(span: &Span, status: ToolCallStatus, output: Option<&Value>, capture: bool) {
    if span.is_disabled() {
        return;
    }
    if status == ToolCallStatus::Error {
        mark_failed(span, "tool_error");
    }
    if capture && let Some(output) = output {
        span.record("gen_ai.tool.call.result", output.to_string());
    }
}

/// Records the outcome of a model call on its span.
pub(crate) fn record_chat_outcome(span: &Span, error: Option<&str>, answer: Option<&Answer>, capture: bool) {
    if let Some(error) = error {
        mark_failed(span, error);
    }
    let Some(answer) = answer else { return };
    // Only `i64` values stay numbers when spans are exported.
    let count = |tokens: u64| i64::try_from(tokens).unwrap_or(i64::MAX);
    let usage = &answer.usage;
    span.record("gen_ai.usage.input_tokens", count(usage.input));
    span.record("gen_ai.usage.output_tokens", count(usage.output));
    span.record("gen_ai.usage.reasoning.output_tokens", count(usage.reasoning));
    span.record("gen_ai.usage.cache_read.input_tokens", count(usage.cache_read));
    span.record("gen_ai.usage.cache_creation.input_tokens", count(usage.cache_write));
    span.record("gen_ai.response.finish_reasons", finish_reason(&answer.stop));
    for (field, value) in
        [("gen_ai.response.id", &answer.response.id), ("gen_ai.response.model", &answer.response.model)]
    {
        if let Some(value) = value {
            span.record(field, value.as_str());
        }
    }
    if capture {
        let messages = json!([{
            "role": "assistant",
            "parts": answer.parts.iter().map(part_json).collect::<Vec<_>>(),
            "finish_reason": finish_reason(&answer.stop),
        }]);
        span.record("gen_ai.output.messages", messages.to_string());
    }
}

/// Returns the name of a provider in the conventions, or its name in the definition if they have none.
pub fn provider_name(model: &ModelConfig) -> &str {
    match model.provider.as_str() {
        "google" => "gcp.gemini",
        "vertex" => "gcp.vertex_ai",
        other => other,
    }
}

/// Returns the class of a failed model call, from a small fixed set; `None` if the model answered. An error
/// after the deadline is a timeout too.
pub(crate) fn error_class(
    reply: &Result<Result<Answer, Error>, Elapsed>,
    deadline: Instant,
) -> Option<&'static str> {
    match reply {
        Ok(Ok(_)) => None,
        Err(_) => Some("timeout"),
        Ok(Err(_)) if Instant::now() >= deadline => Some("timeout"),
        Ok(Err(error)) => Some(match error {
            Error::RateLimited { .. } => "rate_limited",
            Error::Overloaded { .. } => "unavailable",
            Error::Auth { .. } => "auth",
            Error::BadRequest { .. } => "bad_request",
            Error::ContextTooLong { .. } => "context_too_long",
            Error::Malformed { .. } => "malformed",
            Error::Config(_) | Error::Local { .. } => "configuration",
        }),
    }
}

fn finish_reason(stop: &StopReason) -> &str {
    match stop {
        StopReason::End => "stop",
        StopReason::ToolCalls => "tool_call",
        StopReason::MaxTokens => "length",
        StopReason::Refused(_) => "content_filter",
        StopReason::Other(reason) => reason,
    }
}

fn turn_json(turn: &Turn) -> Value {
    let role = match turn.speaker {
        Speaker::User => "user",
        Speaker::Assistant => "assistant",
        Speaker::Tools => "tool",
    };
    json!({ "role": role, "parts": turn.parts.iter().map(part_json).collect::<Vec<_>>() })
}

fn part_json(part: &Part) -> Value {
    match part {
        Part::Text { text, .. } => json!({ "type": "text", "content": text }),
        Part::Thought { text, .. } => json!({ "type": "reasoning", "content": text }),
        Part::Call(call) => {
            json!({ "type": "tool_call", "id": call.id, "name": call.name, "arguments": call.input })
        }
        Part::Result(result) => {
            json!({ "type": "tool_call_response", "id": result.id, "response": result.output })
        }
    }
}

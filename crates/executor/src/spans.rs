//! Spans of runs, model calls and tool calls, named after OpenTelemetry's GenAI conventions.
//!
//! They have their own target and the lowest level, so they are created only if the configuration asks
//! for exactly this target; a disabled span builds neither itself nor its fields. Messages and the
//! inputs and outputs of tools are added only if `Settings::capture_content` is on.

use emergent_domain::{
    agent::ModelConfig,
    chat::{Part, Speaker, StopReason, Turn},
    run::{Run, RunEnd, RunStatus, ToolCallStatus},
    run_event::RecordedToolCall,
};
use emergent_llm::{Answer, ChatRequest, Delta, Error};
use emergent_tools::Effect;
use serde_json::{Value, json};
use tokio::time::{Instant, error::Elapsed, timeout_at};
use tracing::{Instrument, Span, field::Empty, trace_span};
use uuid::Uuid;

use crate::{Executor, run_driver::RunDriver, telemetry::ModelCall};

/// A span that child runs use as their parent while this value exists.
pub(crate) struct OpenSpan {
    span: Span,
    registered: Option<(Executor, Uuid)>,
}

impl OpenSpan {
    fn new(span: Span, executor: &Executor, id: Uuid) -> Self {
        if span.is_disabled() {
            return Self { span, registered: None };
        }
        executor.telemetry().open_spans.lock().insert(id, span.clone());
        Self { span, registered: Some((executor.clone(), id)) }
    }

    pub fn span(&self) -> Span {
        self.span.clone()
    }
}

impl Drop for OpenSpan {
    fn drop(&mut self) {
        if let Some((executor, id)) = &self.registered {
            executor.telemetry().open_spans.lock().remove(id);
        }
    }
}

/// Creates the span for driving a run. Its parent is the tool call that spawned the run, if this
/// process makes that call.
pub(crate) fn run_span(executor: &Executor, run: &Run) -> OpenSpan {
    let span = trace_span!(
        target: "gen_ai",
        parent: parent_span(executor, run),
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
    OpenSpan::new(span, executor, run.id.0)
}

fn parent_span(executor: &Executor, run: &Run) -> Option<tracing::Id> {
    let open = executor.telemetry().open_spans.lock();
    let call = run.parent_call.and_then(|call| open.get(&call.0));
    call.or_else(|| open.get(&run.parent?.0)).and_then(Span::id)
}

/// Records the end of the run on the current span, which is the span of the run.
pub(crate) fn run_ended(end: &RunEnd) {
    let span = Span::current();
    span.record("emergent.run.status", end.status().as_str());
    if end.status() == RunStatus::Failed {
        mark_failed(&span, end.reason().map_or("_OTHER", |reason| reason.as_str()));
    }
}

pub(crate) fn mark_cancelled(span: &Span) {
    span.record("emergent.run.status", RunStatus::Cancelled.as_str());
}

/// Marks the span as interrupted. The run continues from its record in a new span.
pub(crate) fn mark_interrupted(span: &OpenSpan) {
    mark_failed(&span.span, "interrupted");
}

fn mark_failed(span: &Span, error: &str) {
    span.record("error.type", error);
    span.record("otel.status_code", "ERROR");
}

impl RunDriver {
    /// Calls the model and records the call in the metrics.
    pub(crate) async fn chat(
        &self,
        request: ChatRequest<'_>,
        limit: Instant,
        tell: &mut (dyn FnMut(Delta) + Send),
    ) -> Result<Result<Answer, Error>, Elapsed> {
        let (model, models) = (&self.run.model, self.executor.models());
        let span = trace_span!(
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
            gen_ai.conversation.id = %self.run.id,
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
        );
        let capture = !span.is_disabled() && self.executor.settings().capture_content;
        if capture {
            let system = json!([{ "type": "text", "content": request.system }]);
            span.record("gen_ai.system_instructions", system.to_string());
            let messages: Vec<Value> = request.turns.iter().map(turn_json).collect();
            span.record("gen_ai.input.messages", Value::Array(messages).to_string());
        }
        let started_at = Instant::now();
        let asked =
            timeout_at(limit, models.chat(model, request, limit, tell)).instrument(span.clone()).await;
        let answer = asked.as_ref().ok().and_then(|asked| asked.as_ref().ok());
        let usage = answer.map(|answer| answer.usage);
        let call = ModelCall {
            model,
            took: started_at.elapsed(),
            error: error_class(&asked, limit),
            usage,
            cost: usage.and_then(|usage| models.cost(model, &usage)),
        };
        self.executor.telemetry().record_model_call(&call);
        if !span.is_disabled() {
            record_chat_span(&span, &call, answer, capture);
        }
        asked
    }

    /// Creates the span of a tool call.
    pub(crate) fn tool_span(&self, index: usize) -> OpenSpan {
        let call = &self.calls[index];
        let span = trace_span!(
            target: "gen_ai",
            "execute_tool",
            otel.name = format_args!("execute_tool {}", call.tool),
            otel.status_code = Empty,
            gen_ai.operation.name = "execute_tool",
            gen_ai.tool.name = call.tool,
            gen_ai.tool.call.id = %call.id,
            gen_ai.tool.type = self.tool_type(&call.tool),
            gen_ai.tool.call.arguments = Empty,
            gen_ai.tool.call.result = Empty,
            error.type = Empty,
        );
        if !span.is_disabled() && self.executor.settings().capture_content {
            span.record("gen_ai.tool.call.arguments", call.input.to_string());
        }
        OpenSpan::new(span, &self.executor, call.id.0)
    }

    fn tool_type(&self, name: &str) -> &'static str {
        match self.tools.get(name).map(|tool| tool.info().effect) {
            Some(Effect::External { .. }) => "extension",
            _ => "function",
        }
    }

    /// Records the outcome of a tool call on its span.
    pub(crate) fn record_tool_span(&self, span: &OpenSpan, call: &RecordedToolCall) {
        tool_ended(&span.span, call.status, call.output.as_ref(), self.executor.settings().capture_content);
    }
}

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

fn record_chat_span(span: &Span, call: &ModelCall<'_>, answer: Option<&Answer>, capture: bool) {
    if let Some(error) = call.error {
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
    if capture {
        let messages = json!([{
            "role": "assistant",
            "parts": answer.parts.iter().map(part_json).collect::<Vec<_>>(),
            "finish_reason": finish_reason(&answer.stop),
        }]);
        span.record("gen_ai.output.messages", messages.to_string());
    }
}

/// Returns the provider name of the conventions, or our own name for a provider they do not have.
pub fn provider_name(model: &ModelConfig) -> &str {
    match model.provider.as_str() {
        "google" => "gcp.gemini",
        "vertex" => "gcp.vertex_ai",
        other => other,
    }
}

/// Returns the class of an error, from a small fixed set.
fn error_class(asked: &Result<Result<Answer, Error>, Elapsed>, limit: Instant) -> Option<&'static str> {
    match asked {
        Ok(Ok(_)) => None,
        Err(_) => Some("timeout"),
        Ok(Err(_)) if Instant::now() >= limit => Some("timeout"),
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
        StopReason::Other(word) => word,
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

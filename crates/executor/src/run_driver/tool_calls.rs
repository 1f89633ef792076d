//! Executes the tool calls of one answer: read-only calls concurrently, all others one after the other.
//! Each result is recorded as soon as it arrives.

use emergent_domain::{
    agent::REMOTE_AGENT_PROVIDER, artifact::ARTIFACT_TOOL, run::ToolCallStatus, run_event::RecordedToolCall,
};
use emergent_graph::judged_names::JudgedNames;
use emergent_rules::run::NextAction;
use emergent_tools::{Effect, GuardedOutput, ToolContext};
use futures_util::{StreamExt, stream::FuturesUnordered};
use serde_json::Value;
use tokio::time::{Duration, Instant, timeout_at};
use tracing::Instrument;

use super::{RunDriver, approvals::Judged, error_output, input_requests::input_channel};
use crate::{
    Error, Result,
    recorder::{RecordBatch, elapsed_ms},
    spans::{self, OpenSpan, tool_ended},
};

pub(super) const INTERRUPTED_MESSAGE: &str = "This call was interrupted: the time of the run is up.";
const UNKNOWN_OUTCOME_MESSAGE: &str = "This call was interrupted while it was being made. Whether it took effect is not known, and \
                        it was not made again. Find out before you repeat it.";

/// The field of a failed call, and its value, that says that nobody knows whether the call took effect.
const OUTCOME: &str = "outcome";
const UNKNOWN: &str = "unknown";

/// How long an answer may stay unwritten while its first calls run, so that both are committed together.
const BUFFER_TIME: Duration = Duration::from_millis(5);

impl RunDriver {
    /// Executes all open calls of the newest answer. The held ones among them are decided, or the caller of the run
    /// is asked for their results when all others have theirs.
    pub async fn run_tool_calls(&mut self) -> Result<NextAction> {
        self.apply_decisions().await?;
        while self.calls.iter().any(|call| !call.status.is_terminal()) {
            if Instant::now() >= self.deadline {
                self.interrupt_remaining_calls().await?;
                continue;
            }
            let is_open =
                |call: &RecordedToolCall| !call.status.is_terminal() && call.status != ToolCallStatus::Held;
            let Some(index) = self.calls.iter().position(is_open) else {
                return self.ask_client().await;
            };
            let Judged::Make(names) = self.judge_again(index).await? else { continue };
            match self.call_effect(index) {
                Some(Effect::Reads) if self.is_counted_call(index) => {
                    self.run_read_calls(index, vec![names]).await?;
                }
                Some(Effect::Reads) => {
                    let reads = self.calls[index..].iter().take_while(|call| !call.status.is_terminal());
                    let runs_with_others = |index| {
                        self.call_effect(index) == Some(Effect::Reads) && !self.is_counted_call(index)
                    };
                    let count =
                        reads.enumerate().take_while(|(offset, _)| runs_with_others(index + offset)).count();
                    let mut names = vec![names];
                    for other in index + 1..index + count {
                        // A refused call has its result, and those after it follow in the next round.
                        let Judged::Make(of_other) = self.judge_again(other).await? else { break };
                        names.push(of_other);
                    }
                    self.run_read_calls(index, names).await?;
                }
                Some(effect) => {
                    if effect == Effect::Coordinates {
                        self.recorder.flush(self.machine.steps()).await?;
                    }
                    let span = self.tool_span(index);
                    self.run_tool_call(index, effect, names).instrument(span.span()).await?;
                    self.record_tool_span(&span, &self.calls[index]);
                }
                // The tool was removed from the definition while nobody drove the run, or its server cannot be
                // used any more.
                None => {
                    let RecordedToolCall { tool, status, .. } = &self.calls[index];
                    let reason = match status {
                        // It was being made when the server stopped, so the other system may have got it.
                        ToolCallStatus::Running => UNKNOWN_OUTCOME_MESSAGE.to_owned(),
                        _ => self
                            .tools
                            .explain_missing(tool)
                            .unwrap_or_else(|| format!("tool not found: there is no tool `{tool}` any more")),
                    };
                    self.record_result(index, ToolCallStatus::Error, error_output(reason), Instant::now())
                        .await?;
                }
            }
        }
        Ok(self.push_tool_results())
    }

    /// `names` is what the names in the input meant when it was decided that the call may be made.
    async fn run_tool_call(&mut self, index: usize, effect: Effect, names: Vec<JudgedNames>) -> Result<()> {
        match effect {
            Effect::Reads => self.run_read_calls(index, vec![names]).await,
            Effect::Writes { .. } => self.run_write_call(index, names).await,
            Effect::External { read_only, idempotent } => {
                self.run_external_call(index, read_only || idempotent).await
            }
            Effect::Coordinates => self.run_spawn_call(index).await,
            // Such a call is held, and its decision is its result. This one was recorded as another tool's.
            Effect::Asks => {
                let output = error_output("the question was not asked: ask it again");
                self.record_result(index, ToolCallStatus::Error, output, Instant::now()).await
            }
        }
    }

    /// Whether the first open call stays inside this process. Its result may then arrive within
    /// [`BUFFER_TIME`], and is committed together with the answer.
    pub(crate) fn first_call_is_local(&self) -> bool {
        let first = self.calls.iter().position(|call| !call.status.is_terminal());
        let effect = first.and_then(|index| self.call_effect(index));
        matches!(effect, Some(Effect::Reads | Effect::Writes { .. }))
    }

    /// Waits for a result. If that takes longer than `BUFFER_TIME`, the buffered answer is written
    /// meanwhile.
    async fn flush_if_slow<T>(&mut self, work: impl Future<Output = T>) -> Result<T> {
        let mut work = std::pin::pin!(work);
        if self.recorder.has_buffered() {
            if let Ok(output) = tokio::time::timeout(BUFFER_TIME, work.as_mut()).await {
                return Ok(output);
            }
            self.recorder.flush(self.machine.steps()).await?;
        }
        Ok(work.await)
    }

    fn call_effect(&self, index: usize) -> Option<Effect> {
        self.tools.get(&self.calls[index].tool).map(|tool| tool.info().effect)
    }

    /// Whether the limits of a call depend on the results of earlier ones, so that it runs after they are recorded.
    fn is_counted_call(&self, index: usize) -> bool {
        self.tools.get(&self.calls[index].tool).is_some_and(|tool| tool.info().name == ARTIFACT_TOOL)
    }

    /// Creates the span of a tool call.
    fn tool_span(&self, index: usize) -> OpenSpan {
        let call = &self.calls[index];
        let span = spans::tool_span(self.executor.open_spans(), call, self.call_effect(index));
        if !span.span().is_disabled() && self.executor.settings().capture_content {
            spans::record_tool_input(&span, call);
        }
        span
    }

    /// Records the outcome of a tool call on its span.
    fn record_tool_span(&self, span: &OpenSpan, call: &RecordedToolCall) {
        let capture = self.executor.settings().capture_content;
        tool_ended(&span.span(), call.status, call.output.as_ref(), capture);
    }

    fn tool_context(&self) -> ToolContext {
        ToolContext::new(self.executor.graph().clone(), self.run.project, Some(self.run.id))
    }

    /// Executes read-only calls concurrently, the first of them at `from`. `names` is for each what the names in its input
    /// meant when it was decided that it may be made. Results that arrive together are recorded in one transaction.
    async fn run_read_calls(&mut self, from: usize, names: Vec<Vec<JudgedNames>>) -> Result<()> {
        let guard = self.executor.settings().guard.clone();
        let context = self.tool_context();
        let (deadline, capture) = (self.deadline, self.executor.settings().capture_content);
        let mut running: FuturesUnordered<_> = (from..)
            .zip(names)
            .filter_map(|(index, names)| {
                let tool = self.tools.get(&self.calls[index].tool).cloned()?;
                Some((index, tool, ToolContext { judged: names.into(), ..context.clone() }))
            })
            .map(|(index, tool, context)| {
                let (guard, input) = (guard.clone(), self.calls[index].input.clone());
                let span = self.tool_span(index).span();
                async move {
                    let started_at = Instant::now();
                    let call = timeout_at(deadline, guard.call(tool.as_ref(), &context, input));
                    let (status, output) = recorded_outcome(call.instrument(span.clone()).await.ok());
                    tool_ended(&span, status, Some(&output), capture);
                    (index, (status, output), started_at)
                }
            })
            .collect();
        while let Some(first) = self.flush_if_slow(running.next()).await? {
            let mut ready = vec![first];
            while let Some(Some(next)) = futures_util::FutureExt::now_or_never(running.next()) {
                ready.push(next);
            }
            let mut batch = RecordBatch::default();
            for (index, (status, output), started_at) in ready {
                let call = self.finished_call(index, status, output, started_at);
                self.calls[index] = self.recorder.add_result(&mut batch, call);
            }
            self.recorder.commit(batch, self.machine.steps()).await?;
        }
        Ok(())
    }

    /// Executes a change of the graph: it is prepared outside the transaction, and applied in the
    /// transaction that records it.
    async fn run_write_call(&mut self, index: usize, names: Vec<JudgedNames>) -> Result<()> {
        let Some(tool) = self.tools.get(&self.calls[index].tool).cloned() else { return Ok(()) };
        let guard = self.executor.settings().guard.clone();
        let (context, input, started_at) =
            (self.tool_context(), self.calls[index].input.clone(), Instant::now());
        let prepared = timeout_at(self.deadline, guard.call(tool.as_ref(), &context, input));
        let prepared = self.flush_if_slow(prepared).await?;
        let change = match prepared {
            Ok(GuardedOutput::Change(change)) => change,
            other => {
                let (status, output) = recorded_outcome(other.ok());
                return self.record_result(index, status, output, started_at).await;
            }
        };
        let steps = self.machine.steps();
        let change = (change, names);
        match self.recorder.commit_change(change, self.calls[index].clone(), &tool, started_at, steps).await {
            Ok(call) => {
                self.executor.telemetry().record_tool_call(&call.tool, call.status, started_at.elapsed());
                self.calls[index] = call;
                Ok(())
            }
            Err(error) => match change_error(&error) {
                Some(message) => {
                    self.record_result(index, ToolCallStatus::Error, error_output(message), started_at).await
                }
                None => {
                    // The model's answer is written even if its call failed, so that the model is not asked
                    // again.
                    self.recorder.flush(self.machine.steps()).await?;
                    Err(error)
                }
            },
        }
    }

    /// Executes a call to an external tool. The call is recorded before it is made; one that was in
    /// progress when the process crashed is repeated only if that is harmless.
    async fn run_external_call(&mut self, index: usize, repeatable: bool) -> Result<()> {
        let Some(tool) = self.tools.get(&self.calls[index].tool).cloned() else { return Ok(()) };
        if self.calls[index].status == ToolCallStatus::Running && !repeatable {
            return self
                .record_result(
                    index,
                    ToolCallStatus::Error,
                    error_output(UNKNOWN_OUTCOME_MESSAGE),
                    Instant::now(),
                )
                .await;
        }
        if self.calls[index].status == ToolCallStatus::Pending {
            self.recorder.mark_call_started(self.calls[index].seq, self.machine.steps()).await?;
            self.calls[index].status = ToolCallStatus::Running;
        }
        let guard = self.executor.settings().guard.clone();
        let (call_input, requests) = input_channel();
        let (reporter, mut reports) = self.call_reports();
        let call = Some(self.calls[index].seq);
        let (input, reporter) = (Some(call_input), Some(reporter));
        let context = ToolContext { call, input, reporter, ..self.tool_context() };
        let (input, started_at, deadline) = (self.calls[index].input.clone(), Instant::now(), self.deadline);
        let call = guard.call(tool.as_ref(), &context, input);
        let output = self.wait_for_external_call(index, call, requests, &mut reports).await?;
        self.record_unavailable_server(&mut reports).await?;
        let (status, output) = match output {
            Some(output) => {
                let (status, mut output) = recorded_outcome(Some(output));
                if status == ToolCallStatus::Error && reports.has_unknown_outcome() {
                    output[OUTCOME] = UNKNOWN.into();
                }
                (status, output)
            }
            // The call was in progress, so its effect outside is unknown.
            None => (ToolCallStatus::Error, error_output(UNKNOWN_OUTCOME_MESSAGE)),
        };
        // The time that the run waited for a person was added to its deadline. It is no time of the call.
        let waited = self.deadline.saturating_duration_since(deadline);
        self.record_result(index, status, output, started_at + waited).await
    }

    /// Whether an agent of another system executes this run, and nobody knows what came of its last message.
    pub(super) fn is_interrupted_message(&self) -> bool {
        self.run.model.provider == REMOTE_AGENT_PROVIDER && self.has_unknown_outcome
    }

    async fn interrupt_remaining_calls(&mut self) -> Result<()> {
        let mut batch = RecordBatch::default();
        for index in 0..self.calls.len() {
            if !self.calls[index].status.is_terminal() {
                let outcome_unknown = self.calls[index].status == ToolCallStatus::Running;
                let reason = if outcome_unknown { UNKNOWN_OUTCOME_MESSAGE } else { INTERRUPTED_MESSAGE };
                let call =
                    self.finished_call(index, ToolCallStatus::Error, error_output(reason), Instant::now());
                self.calls[index] = self.recorder.add_result(&mut batch, call);
            }
        }
        self.recorder.commit(batch, self.machine.steps()).await
    }

    /// Records the result of one call in a transaction of its own, as the model gets it: a recovered run shows the
    /// model the same. An external tool has removed the secrets that its server was sent; a placeholder for any
    /// other would confirm a guess of the server. Values in the graph belong to the user and are not redacted.
    pub(crate) async fn record_result(
        &mut self,
        index: usize,
        status: ToolCallStatus,
        output: Value,
        started_at: Instant,
    ) -> Result<()> {
        let call = self.finished_call(index, status, output, started_at);
        let mut batch = RecordBatch::default();
        self.calls[index] = self.recorder.add_result(&mut batch, call);
        self.recorder.commit(batch, self.machine.steps()).await
    }

    /// Returns a call with its result, scrubbed as it is recorded.
    fn finished_call(
        &self,
        index: usize,
        status: ToolCallStatus,
        mut output: Value,
        started_at: Instant,
    ) -> RecordedToolCall {
        crate::scrub::scrub_value(&mut output);
        self.executor.telemetry().record_tool_call(&self.calls[index].tool, status, started_at.elapsed());
        RecordedToolCall {
            status,
            output: Some(output),
            duration_ms: Some(elapsed_ms(started_at)),
            ..self.calls[index].clone()
        }
    }
}

/// Whether one of these calls was interrupted while it was being made, or failed after another system got it.
pub(super) fn has_unknown_outcome(calls: &[RecordedToolCall]) -> bool {
    let unknown = error_output(UNKNOWN_OUTCOME_MESSAGE);
    let is_unknown = |output: &Value| *output == unknown || output[OUTCOME] == UNKNOWN;
    calls
        .iter()
        .any(|call| call.status == ToolCallStatus::Error && call.output.as_ref().is_some_and(is_unknown))
}

/// Converts the result of a guarded call to its recorded form. `None` means that the run's deadline
/// came first.
fn recorded_outcome(output: Option<GuardedOutput>) -> (ToolCallStatus, Value) {
    match output {
        Some(GuardedOutput::Answer(value)) => (ToolCallStatus::Completed, value),
        Some(GuardedOutput::Error(reason)) => (ToolCallStatus::Error, error_output(reason)),
        // A tool that declares itself read-only may not write.
        Some(GuardedOutput::Change(_)) => {
            (ToolCallStatus::Error, error_output("the tool tried to write, which it may not"))
        }
        None => (ToolCallStatus::Error, error_output(INTERRUPTED_MESSAGE)),
    }
}

/// Returns what the model is told about a change that was refused or stopped; nothing of it was written.
/// `None` for an error that has another cause than the change: the run continues from its record.
fn change_error(error: &Error) -> Option<String> {
    use emergent_store::Error as StoreError;
    let store = match error {
        Error::Graph(emergent_graph::Error::Store(store)) | Error::Store(store) => store,
        Error::Graph(refused) => return Some(refused.to_string()),
        _ => return None,
    };
    match store {
        // The same change would take as long again, so repeating it would never end.
        StoreError::TooSlow { limit } => Some(format!(
            "The change took longer than the limit of {} seconds. It was stopped, and nothing was written. \
             Make it in several smaller calls.",
            limit.as_secs_f32()
        )),
        StoreError::Panicked { .. } => Some(
            "The change could not be made: the tool failed with an internal error. Nothing was written."
                .into(),
        ),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_that_is_too_slow_is_told_to_the_model() {
        let too_slow = || emergent_store::Error::TooSlow { limit: Duration::from_millis(2_500) };
        for error in [Error::Store(too_slow()), Error::Graph(too_slow().into())] {
            let message = change_error(&error).expect("a message for the model");
            assert!(message.contains("2.5 seconds") && message.contains("smaller"), "{message}");
        }
        assert_eq!(
            change_error(&Error::Store(emergent_store::Error::Closed)),
            None,
            "the run continues later"
        );
    }
}

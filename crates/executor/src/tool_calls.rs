//! Makes the calls of one answer: those that only read beside each other, those that change
//! something one after the other, each result recorded as it comes.

use std::time::Instant as Began;

use emergent_domain::run::ToolCallStatus;
use emergent_domain::run_event::RecordedToolCall;
use emergent_rules::run::NextAction;
use emergent_tools::{Effect, GuardedOutput, ToolContext};
use futures_util::{StreamExt, stream::FuturesUnordered};
use serde_json::Value;
use tokio::time::{Duration, Instant, timeout_at};
use tracing::Instrument;

use crate::{
    Error, Result,
    recorder::{RecordBatch, elapsed_ms},
    run_driver::{RunDriver, error_output},
    spans::tool_ended,
};

const INTERRUPTED_MESSAGE: &str = "This call was interrupted: the time of the run is up.";
const UNKNOWN_OUTCOME_MESSAGE: &str = "This call was interrupted while it was being made. Whether it took effect is not known, and \
                        it was not made again. Find out before you repeat it.";

/// How long an answer may wait to be written together with the results of its calls.
const BUFFER_TIME: Duration = Duration::from_millis(5);

impl RunDriver {
    pub async fn run_tool_calls(&mut self) -> Result<NextAction> {
        while let Some(at) = self.calls.iter().position(|call| !call.status.is_terminal()) {
            if Instant::now() >= self.deadline {
                self.interrupt_remaining_calls().await?;
                continue;
            }
            match self.call_effect(at) {
                Some(Effect::Reads) => {
                    let reads = self.calls[at..].iter().take_while(|call| !call.status.is_terminal());
                    let count = reads
                        .enumerate()
                        .take_while(|(i, _)| self.call_effect(at + i) == Some(Effect::Reads))
                        .count();
                    self.run_read_calls(at, at + count).await?;
                }
                Some(effect) => {
                    if effect == Effect::Coordinates {
                        self.recorder.flush(self.machine.steps()).await?;
                    }
                    let span = self.tool_span(at);
                    self.run_tool_call(at, effect).instrument(span.span()).await?;
                    self.record_tool_span(&span, &self.calls[at]);
                }
                // The definition lost the tool while nobody drove the run.
                None => {
                    let why = format!("tool not found: there is no tool `{}` any more", self.calls[at].tool);
                    self.record_result(at, ToolCallStatus::Error, error_output(why), Began::now()).await?;
                }
            }
        }
        Ok(self.push_tool_results())
    }

    async fn run_tool_call(&mut self, at: usize, effect: Effect) -> Result<()> {
        match effect {
            Effect::Reads => self.run_read_calls(at, at + 1).await,
            Effect::Writes { .. } => self.run_write_call(at).await,
            Effect::External { read_only, idempotent } => {
                self.run_external_call(at, read_only || idempotent).await
            }
            Effect::Coordinates => self.run_spawn_call(at).await,
        }
    }

    /// Whether the first call that is to be made stays in the house, so that its result may be there
    /// before the answer has to be written.
    pub(crate) fn first_call_is_local(&self) -> bool {
        let first = self.calls.iter().position(|call| !call.status.is_terminal());
        let effect = first.and_then(|at| self.call_effect(at));
        matches!(effect, Some(Effect::Reads | Effect::Writes { .. }))
    }

    /// Waits for a result; when that takes more than a moment, the answer is written meanwhile.
    async fn flush_if_slow<T>(&mut self, work: impl Future<Output = T>) -> Result<T> {
        let mut work = std::pin::pin!(work);
        if self.recorder.has_buffered() {
            if let Ok(done) = tokio::time::timeout(BUFFER_TIME, work.as_mut()).await {
                return Ok(done);
            }
            self.recorder.flush(self.machine.steps()).await?;
        }
        Ok(work.await)
    }

    fn call_effect(&self, at: usize) -> Option<Effect> {
        self.tools.get(&self.calls[at].tool).map(|tool| tool.info().effect)
    }

    fn tool_context(&self) -> ToolContext {
        ToolContext {
            graph: self.executor.graph().clone(),
            project: self.run.project,
            run: Some(self.run.id),
        }
    }

    /// Calls that change nothing run beside each other; what is ready together is recorded together.
    async fn run_read_calls(&mut self, from: usize, to: usize) -> Result<()> {
        let guard = self.executor.settings().guard.clone();
        let context = self.tool_context();
        let (deadline, capture) = (self.deadline, self.executor.settings().capture_content);
        let mut running: FuturesUnordered<_> = (from..to)
            .filter_map(|at| self.tools.get(&self.calls[at].tool).cloned().map(|tool| (at, tool)))
            .map(|(at, tool)| {
                let (guard, context, input) = (guard.clone(), context.clone(), self.calls[at].input.clone());
                let span = self.tool_span(at).span();
                async move {
                    let began = Began::now();
                    let call = timeout_at(deadline, guard.call(tool.as_ref(), &context, input));
                    let (status, output) = recorded_outcome(call.instrument(span.clone()).await.ok());
                    tool_ended(&span, status, Some(&output), capture);
                    (at, (status, output), began)
                }
            })
            .collect();
        while let Some(first) = self.flush_if_slow(running.next()).await? {
            let mut ready = vec![first];
            while let Some(Some(more)) = futures_util::FutureExt::now_or_never(running.next()) {
                ready.push(more);
            }
            let mut batch = RecordBatch::default();
            for (at, (status, output), began) in ready {
                let call = self.finished_call(at, status, output, began);
                self.calls[at] = self.recorder.add_result(&mut batch, call);
            }
            self.recorder.commit(batch, self.machine.steps()).await?;
        }
        Ok(())
    }

    /// A change to the graph: prepared outside, done in the transaction that records it.
    async fn run_write_call(&mut self, at: usize) -> Result<()> {
        let Some(tool) = self.tools.get(&self.calls[at].tool).cloned() else { return Ok(()) };
        let guard = self.executor.settings().guard.clone();
        let (context, input, began) = (self.tool_context(), self.calls[at].input.clone(), Began::now());
        let prepared = timeout_at(self.deadline, guard.call(tool.as_ref(), &context, input));
        let prepared = self.flush_if_slow(prepared).await?;
        let change = match prepared {
            Ok(GuardedOutput::Change(change)) => change,
            other => {
                let (status, output) = recorded_outcome(other.ok());
                return self.record_result(at, status, output, began).await;
            }
        };
        let steps = self.machine.steps();
        match self.recorder.commit_change(change, self.calls[at].clone(), &tool, began, steps).await {
            Ok(call) => {
                self.executor.telemetry().record_tool_call(&call.tool, call.status, began.elapsed());
                self.calls[at] = call;
                Ok(())
            }
            Err(Error::Graph(error)) if !matches!(error, emergent_graph::Error::Store(_)) => {
                self.record_result(at, ToolCallStatus::Error, error_output(error.to_string()), began).await
            }
            Err(other) => {
                // What the model said is kept whatever became of its call: it is not asked again.
                self.recorder.flush(self.machine.steps()).await?;
                Err(other)
            }
        }
    }

    /// A call that leaves the house: recorded before it is made. One that was being made when the
    /// process died is made again only if that does no harm.
    async fn run_external_call(&mut self, at: usize, repeatable: bool) -> Result<()> {
        let Some(tool) = self.tools.get(&self.calls[at].tool).cloned() else { return Ok(()) };
        if self.calls[at].status == ToolCallStatus::Running && !repeatable {
            return self
                .record_result(at, ToolCallStatus::Error, error_output(UNKNOWN_OUTCOME_MESSAGE), Began::now())
                .await;
        }
        if self.calls[at].status == ToolCallStatus::Pending {
            self.recorder.mark_call_started(self.calls[at].seq, self.machine.steps()).await?;
            self.calls[at].status = ToolCallStatus::Running;
        }
        let guard = self.executor.settings().guard.clone();
        let (context, input, began) = (self.tool_context(), self.calls[at].input.clone(), Began::now());
        let done = timeout_at(self.deadline, guard.call(tool.as_ref(), &context, input)).await;
        let (status, output) = match done {
            Ok(done) => recorded_outcome(Some(done)),
            // It was under way: what it did elsewhere is not known.
            Err(_) => (ToolCallStatus::Error, error_output(UNKNOWN_OUTCOME_MESSAGE)),
        };
        self.record_result(at, status, output, began).await
    }

    async fn interrupt_remaining_calls(&mut self) -> Result<()> {
        let mut batch = RecordBatch::default();
        for at in 0..self.calls.len() {
            if !self.calls[at].status.is_terminal() {
                let doubt = self.calls[at].status == ToolCallStatus::Running;
                let why = if doubt { UNKNOWN_OUTCOME_MESSAGE } else { INTERRUPTED_MESSAGE };
                let call = self.finished_call(at, ToolCallStatus::Error, error_output(why), Began::now());
                self.calls[at] = self.recorder.add_result(&mut batch, call);
            }
        }
        self.recorder.commit(batch, self.machine.steps()).await
    }

    pub(crate) async fn record_result(
        &mut self,
        at: usize,
        status: ToolCallStatus,
        output: Value,
        began: Began,
    ) -> Result<()> {
        let call = self.finished_call(at, status, output, began);
        let mut batch = RecordBatch::default();
        self.calls[at] = self.recorder.add_result(&mut batch, call);
        self.recorder.commit(batch, self.machine.steps()).await
    }

    fn finished_call(
        &self,
        at: usize,
        status: ToolCallStatus,
        mut output: Value,
        began: Began,
    ) -> RecordedToolCall {
        crate::scrub::scrub_value(&mut output);
        // Secrets come back from where they were sent. What is in the graph is the user's own, and an
        // agent that were shown a placeholder for it would write that back.
        if matches!(self.call_effect(at), Some(Effect::External { .. })) {
            self.executor.settings().redactor.for_project(self.run.project).redact_value(&mut output);
        }
        self.executor.telemetry().record_tool_call(&self.calls[at].tool, status, began.elapsed());
        RecordedToolCall {
            status,
            output: Some(output),
            duration_ms: Some(elapsed_ms(began)),
            ..self.calls[at].clone()
        }
    }
}

/// A guarded call as it is recorded; `None` when the run's time was up first.
fn recorded_outcome(done: Option<GuardedOutput>) -> (ToolCallStatus, Value) {
    match done {
        Some(GuardedOutput::Answer(value)) => (ToolCallStatus::Completed, value),
        Some(GuardedOutput::Error(why)) => (ToolCallStatus::Error, error_output(why)),
        // A tool that says it only reads does not get to write.
        Some(GuardedOutput::Change(_)) => {
            (ToolCallStatus::Error, error_output("the tool tried to write, which it may not"))
        }
        None => (ToolCallStatus::Error, error_output(INTERRUPTED_MESSAGE)),
    }
}

//! Makes the calls of one answer: those that only read beside each other, those that change
//! something one after the other, each result recorded as it comes.

use std::time::Instant as Began;

use emergent_domain::run::CallStatus;
use emergent_domain::run_event::RecordedCall;
use emergent_tools::{Effect, Guarded, ToolContext};
use futures_util::{StreamExt, stream::FuturesUnordered};
use serde_json::Value;
use tokio::time::{Duration, Instant, timeout_at};
use tracing::Instrument;

use crate::{
    Error, Result,
    driver::{Driver, error_output},
    machine::Next,
    recorder::{Batch, millis},
    spans::tool_ended,
};

const OUT_OF_TIME: &str = "This call was interrupted: the time of the run is up.";
const IN_DOUBT: &str = "This call was interrupted while it was being made. Whether it took effect is not known, and \
                        it was not made again. Find out before you repeat it.";

/// How long an answer may wait to be written together with the results of its calls.
const A_MOMENT: Duration = Duration::from_millis(5);

impl Driver {
    pub async fn make_calls(&mut self) -> Result<Next> {
        while let Some(at) = self.calls.iter().position(|call| !call.status.is_over()) {
            if Instant::now() >= self.deadline {
                self.interrupt_the_rest().await?;
                continue;
            }
            match self.effect_of(at) {
                Some(Effect::Reads) => {
                    let reads = self.calls[at..].iter().take_while(|call| !call.status.is_over());
                    let count = reads
                        .enumerate()
                        .take_while(|(i, _)| self.effect_of(at + i) == Some(Effect::Reads))
                        .count();
                    self.make_reads(at, at + count).await?;
                }
                Some(effect) => {
                    if effect == Effect::Coordinates {
                        self.recorder.flush(self.machine.steps()).await?;
                    }
                    let span = self.tool_span(at);
                    self.make_one(at, effect).instrument(span.span()).await?;
                    self.tool_told(&span, &self.calls[at]);
                }
                // The definition lost the tool while nobody drove the run.
                None => {
                    let why = format!("tool not found: there is no tool `{}` any more", self.calls[at].tool);
                    self.finish(at, CallStatus::Error, error_output(why), Began::now()).await?;
                }
            }
        }
        Ok(self.results_are_in())
    }

    async fn make_one(&mut self, at: usize, effect: Effect) -> Result<()> {
        match effect {
            Effect::Reads => self.make_reads(at, at + 1).await,
            Effect::Writes { .. } => self.make_write(at).await,
            Effect::External { read_only, idempotent } => {
                self.make_external(at, read_only || idempotent).await
            }
            Effect::Coordinates => self.spawn(at).await,
        }
    }

    /// Whether the first call that is to be made stays in the house, so that its result may be there
    /// before the answer has to be written.
    pub(crate) fn answers_at_once(&self) -> bool {
        let first = self.calls.iter().position(|call| !call.status.is_over());
        let effect = first.and_then(|at| self.effect_of(at));
        matches!(effect, Some(Effect::Reads | Effect::Writes { .. }))
    }

    /// Waits for a result; when that takes more than a moment, the answer is written meanwhile.
    async fn soon<T>(&mut self, work: impl Future<Output = T>) -> Result<T> {
        let mut work = std::pin::pin!(work);
        if self.recorder.holds() {
            if let Ok(done) = tokio::time::timeout(A_MOMENT, work.as_mut()).await {
                return Ok(done);
            }
            self.recorder.flush(self.machine.steps()).await?;
        }
        Ok(work.await)
    }

    fn effect_of(&self, at: usize) -> Option<Effect> {
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
    async fn make_reads(&mut self, from: usize, to: usize) -> Result<()> {
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
                    let (status, output) = settled(call.instrument(span.clone()).await.ok());
                    tool_ended(&span, status, Some(&output), capture);
                    (at, (status, output), began)
                }
            })
            .collect();
        while let Some(first) = self.soon(running.next()).await? {
            let mut ready = vec![first];
            while let Some(Some(more)) = futures_util::FutureExt::now_or_never(running.next()) {
                ready.push(more);
            }
            let mut batch = Batch::default();
            for (at, (status, output), began) in ready {
                let call = self.ended(at, status, output, began);
                self.calls[at] = self.recorder.result(&mut batch, call);
            }
            self.recorder.commit(batch, self.machine.steps()).await?;
        }
        Ok(())
    }

    /// A change to the graph: prepared outside, done in the transaction that records it.
    async fn make_write(&mut self, at: usize) -> Result<()> {
        let Some(tool) = self.tools.get(&self.calls[at].tool).cloned() else { return Ok(()) };
        let guard = self.executor.settings().guard.clone();
        let (context, input, began) = (self.tool_context(), self.calls[at].input.clone(), Began::now());
        let prepared = timeout_at(self.deadline, guard.call(tool.as_ref(), &context, input));
        let prepared = self.soon(prepared).await?;
        let change = match prepared {
            Ok(Guarded::Change(change)) => change,
            other => {
                let (status, output) = settled(other.ok());
                return self.finish(at, status, output, began).await;
            }
        };
        let steps = self.machine.steps();
        match self.recorder.commit_change(change, self.calls[at].clone(), &tool, began, steps).await {
            Ok(call) => {
                self.executor.telemetry().tool_called(&call.tool, call.status, began.elapsed());
                self.calls[at] = call;
                Ok(())
            }
            Err(Error::Graph(error)) if !matches!(error, emergent_graph::Error::Store(_)) => {
                self.finish(at, CallStatus::Error, error_output(error.to_string()), began).await
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
    async fn make_external(&mut self, at: usize, repeatable: bool) -> Result<()> {
        let Some(tool) = self.tools.get(&self.calls[at].tool).cloned() else { return Ok(()) };
        if self.calls[at].status == CallStatus::Running && !repeatable {
            return self.finish(at, CallStatus::Error, error_output(IN_DOUBT), Began::now()).await;
        }
        if self.calls[at].status == CallStatus::Pending {
            self.recorder.call_begins(self.calls[at].seq, self.machine.steps()).await?;
            self.calls[at].status = CallStatus::Running;
        }
        let guard = self.executor.settings().guard.clone();
        let (context, input, began) = (self.tool_context(), self.calls[at].input.clone(), Began::now());
        let done = timeout_at(self.deadline, guard.call(tool.as_ref(), &context, input)).await;
        let (status, output) = match done {
            Ok(done) => settled(Some(done)),
            // It was under way: what it did elsewhere is not known.
            Err(_) => (CallStatus::Error, error_output(IN_DOUBT)),
        };
        self.finish(at, status, output, began).await
    }

    async fn interrupt_the_rest(&mut self) -> Result<()> {
        let mut batch = Batch::default();
        for at in 0..self.calls.len() {
            if !self.calls[at].status.is_over() {
                let doubt = self.calls[at].status == CallStatus::Running;
                let why = if doubt { IN_DOUBT } else { OUT_OF_TIME };
                let call = self.ended(at, CallStatus::Error, error_output(why), Began::now());
                self.calls[at] = self.recorder.result(&mut batch, call);
            }
        }
        self.recorder.commit(batch, self.machine.steps()).await
    }

    pub(crate) async fn finish(
        &mut self,
        at: usize,
        status: CallStatus,
        output: Value,
        began: Began,
    ) -> Result<()> {
        let call = self.ended(at, status, output, began);
        let mut batch = Batch::default();
        self.calls[at] = self.recorder.result(&mut batch, call);
        self.recorder.commit(batch, self.machine.steps()).await
    }

    fn ended(&self, at: usize, status: CallStatus, mut output: Value, began: Began) -> RecordedCall {
        crate::scrub::value(&mut output);
        // Secrets come back from where they were sent. What is in the graph is the user's own, and an
        // agent that were shown a placeholder for it would write that back.
        if matches!(self.effect_of(at), Some(Effect::External { .. })) {
            self.executor.settings().redactor.of(self.run.project).value(&mut output);
        }
        self.executor.telemetry().tool_called(&self.calls[at].tool, status, began.elapsed());
        RecordedCall {
            status,
            output: Some(output),
            duration_ms: Some(millis(began)),
            ..self.calls[at].clone()
        }
    }
}

/// A guarded call as it is recorded; `None` when the run's time was up first.
fn settled(done: Option<Guarded>) -> (CallStatus, Value) {
    match done {
        Some(Guarded::Answer(value)) => (CallStatus::Completed, value),
        Some(Guarded::Error(why)) => (CallStatus::Error, error_output(why)),
        // A tool that says it only reads does not get to write.
        Some(Guarded::Change(_)) => {
            (CallStatus::Error, error_output("the tool tried to write, which it may not"))
        }
        None => (CallStatus::Error, error_output(OUT_OF_TIME)),
    }
}

//! One model call of a run: its budget, its retries, its span and its metrics.

use emergent_domain::{
    agent::REMOTE_AGENT_PROVIDER,
    ids::RunId,
    output_schema::OutputSchema,
    run::Run,
    run_event::{RunEvent, RunEventBody},
};
use emergent_llm::{Answer, ChatRequest, Delta, Error, RequestMeta};
use emergent_rules::run::NextAction;
use emergent_tools::MissingAgent;
use tokio::{
    sync::mpsc,
    time::{Instant, error::Elapsed, timeout_at},
};
use tracing::Instrument;

use super::{RunDriver, model_budget::BudgetCheck};
use crate::{
    Executor,
    budget::{CallOutcome, Reservation, StreamMeter},
    recorder::{RecordBatch, Recorder},
    retry_notices, scrub, spans,
    streamed_text::StreamedText,
    telemetry::ModelCall,
};

/// The error of a run whose agent of another system had not answered when the time of the run was up.
const NOT_FINISHED: &str = "the agent of the other system had not finished when the time of the run was up, so its task was \
                            cancelled there. Whether it took effect is not known.";

impl RunDriver {
    /// Returns the deadline of a model call. The final summary, which has no tools, gets extra time.
    fn call_deadline(&self, tools: bool) -> Instant {
        if tools { self.deadline } else { self.deadline + self.executor.settings().grace }
    }

    /// Reserves, makes and records one model call. Without `tools`, the call asks for the final summary.
    pub(super) async fn call_model(&mut self, tools: bool) -> crate::Result<NextAction> {
        // A run that is paused at a limit, or fails for another reason, is resumed or repeated, which would send the
        // message again.
        let is_late = Instant::now() >= self.deadline;
        if tools && self.is_interrupted_message() && (is_late || self.missing_remote_agent().is_some()) {
            return Ok(self.machine.on_unknown_outcome(NOT_FINISHED.to_owned()));
        }
        if tools && is_late {
            return Ok(self.machine.on_deadline());
        }
        if let Some(missing) = self.missing_remote_agent().filter(|_| tools) {
            let error =
                format!("the remote agent `{}` cannot be used: it {}", self.run.model.name, missing.reason);
            return Ok(match missing.needs_person {
                true => self.machine.on_unusable_agent(error),
                false => self.machine.on_model_error(error),
            });
        }
        let deadline = self.call_deadline(tools);
        self.compact(false, deadline).await?;
        let reservation = match self.reserve_call(|driver| driver.estimate_call(tools), deadline).await? {
            BudgetCheck::Granted(reservation) => reservation,
            BudgetCheck::Denied => return Ok(self.machine.on_budget_exhausted()),
            BudgetCheck::TimedOut => return Ok(self.on_timeout(tools)),
        };
        let (mut meter, mut streamed) = (StreamMeter::default(), StreamedText::default());
        match self.call_model_once(tools, &reservation, &mut meter, &mut streamed).await? {
            ModelReply::Answer(answer) => self.record_answer(*answer, &reservation, &meter).await,
            ModelReply::TimedOut => {
                self.executor.hub().drop_answer(self.run.id);
                self.record_unfinished_answer(streamed);
                self.settle_without_answer(&reservation, &CallOutcome::Abandoned, &meter).await?;
                Ok(self.on_timeout(tools))
            }
            ModelReply::Failed(error) => {
                self.executor.hub().drop_answer(self.run.id);
                self.record_unfinished_answer(streamed);
                self.settle_without_answer(&reservation, &CallOutcome::Failed(&error), &meter).await?;
                let too_long = matches!(error, emergent_llm::Error::ContextTooLong { .. });
                if too_long && self.compact(true, deadline).await? {
                    return Ok(NextAction::CallModel { tools });
                }
                if matches!(error, emergent_llm::Error::BadRequest { .. }) && self.drops_schema(tools) {
                    return Ok(NextAction::CallModel { tools });
                }
                match self.is_interrupted_message() {
                    true => Ok(self.machine.on_unknown_outcome(error.to_string())),
                    false => Ok(self.machine.on_model_error(error.to_string())),
                }
            }
        }
    }

    /// Why the agent of another system that executes this run is not there, if one executes it.
    fn missing_remote_agent(&self) -> Option<MissingAgent> {
        let model = &self.run.model;
        (model.provider == REMOTE_AGENT_PROVIDER)
            .then(|| self.tools.explain_missing_agent(&model.name))
            .flatten()
    }

    /// Stops to send the output schema to the provider after it refused a request with it: providers support
    /// different parts of JSON Schema, and older models none. Returns whether the next request is another one.
    fn drops_schema(&mut self, tools: bool) -> bool {
        let was_sent = tools && self.sends_schema && self.output_schema.is_some();
        self.sends_schema = false;
        was_sent
    }

    fn record_unfinished_answer(&mut self, streamed: StreamedText) {
        let mut text = streamed.into_text();
        scrub::scrub_text(&mut text);
        self.machine.record_unfinished_answer(&text);
    }

    fn on_timeout(&mut self, tools: bool) -> NextAction {
        if tools { self.machine.on_deadline() } else { self.machine.on_grace_expired() }
    }

    /// Calls the model, and publishes its answer while it arrives.
    async fn call_model_once(
        &mut self,
        tools: bool,
        reservation: &Reservation,
        meter: &mut StreamMeter,
        streamed: &mut StreamedText,
    ) -> crate::Result<ModelReply> {
        let deadline = self.call_deadline(tools);
        let steps = self.machine.steps();
        let step = self.run.steps_before + self.machine.step();
        // A final summary is a text. Whatever the provider does with the schema, the answer is validated.
        let output_schema = self.output_schema.as_ref().filter(|_| tools && self.sends_schema);
        let request = ChatRequest {
            model: &self.run.model.name,
            system: &self.system_prompt,
            turns: self.context.turns(),
            tools: if tools { &self.specs } else { &[] },
            temperature: self.run.model.temperature,
            max_tokens: reservation.max_output().or(self.run.model.max_tokens),
            output_schema: output_schema.map(OutputSchema::as_value),
            cache: Some(self.context.request_cache()),
            meta: RequestMeta { agent: &self.run.agent_name, step, run: Some(self.run.id) },
        };
        let (executor, run, after_seq) = (&self.executor, &self.run, self.recorder.last_seq());
        let mut on_delta = |delta: Delta| {
            meter.record(&delta);
            streamed.record(&delta);
            publish_delta(executor, run.id, step, after_seq, delta);
        };
        let caller = ModelCaller { executor, run, recorder: &mut self.recorder, steps };
        let reply = caller.chat_with_retries(request, deadline, &mut on_delta).await?;
        Ok(match reply {
            Err(_) => ModelReply::TimedOut,
            Ok(Ok(answer)) => ModelReply::Answer(Box::new(answer)),
            Ok(Err(_)) if Instant::now() >= deadline => ModelReply::TimedOut,
            Ok(Err(error)) => ModelReply::Failed(error),
        })
    }
}

/// The run for which a model is called, and the recorder of what happens meanwhile.
pub(super) struct ModelCaller<'a> {
    pub executor: &'a Executor,
    pub run: &'a Run,
    pub recorder: &'a mut Recorder,
    /// The steps that the run has taken.
    pub steps: i64,
}

impl ModelCaller<'_> {
    /// Calls the model, and records each failure that is retried while the call waits. `on_delta` receives
    /// everything else. The inner error means that the deadline came first.
    pub async fn chat_with_retries(
        self,
        request: ChatRequest<'_>,
        deadline: Instant,
        on_delta: &mut (dyn FnMut(Delta) + Send),
    ) -> crate::Result<Result<Result<Answer, Error>, Elapsed>> {
        let Self { executor, run, recorder, steps } = self;
        let step = request.meta.step;
        let (retries, mut failed_attempts) = mpsc::unbounded_channel();
        let mut on_delta = |delta: Delta| match delta {
            // The receiver lives as long as the call.
            Delta::Retry(retry) => drop(retries.send(retry)),
            delta => on_delta(delta),
        };
        let mut chat = std::pin::pin!(chat(executor, run, request, deadline, &mut on_delta));
        loop {
            tokio::select! {
                biased;
                Some(retry) = failed_attempts.recv() => {
                    let mut batch = RecordBatch::default();
                    recorder.add_model_retry(&mut batch, step, &retry);
                    recorder.commit(batch, steps).await?;
                    retry_notices::tell_followers(executor, run, step, &retry).await;
                }
                reply = &mut chat => return Ok(reply),
            }
        }
    }
}

/// Calls the model and records the call in the metrics. The outer error means that the deadline came
/// first.
async fn chat(
    executor: &Executor,
    run: &Run,
    request: ChatRequest<'_>,
    deadline: Instant,
    on_delta: &mut (dyn FnMut(Delta) + Send),
) -> Result<Result<Answer, Error>, Elapsed> {
    let (model, models) = (&run.model, executor.models());
    let span = spans::chat_span(run);
    let capture = !span.is_disabled() && executor.settings().capture_content;
    if capture {
        spans::record_request(&span, &request);
    }
    let started_at = tokio::time::Instant::now();
    let reply =
        timeout_at(deadline, models.chat(model, request, deadline, on_delta)).instrument(span.clone()).await;
    let answer = reply.as_ref().ok().and_then(|reply| reply.as_ref().ok());
    let usage = answer.map(|answer| answer.usage);
    let call = ModelCall {
        model,
        took: started_at.elapsed(),
        error: spans::error_class(&reply, deadline),
        usage,
        cost: usage.and_then(|usage| models.cost(model, &usage)),
    };
    executor.telemetry().record_model_call(&call);
    if !span.is_disabled() {
        spans::record_chat_outcome(&span, call.error, answer, capture);
    }
    reply
}

enum ModelReply {
    Answer(Box<Answer>),
    TimedOut,
    Failed(emergent_llm::Error),
}

/// Publishes a part of the answer to the followers of the run while the model writes it. The hub holds the text also
/// for those that come later.
fn publish_delta(executor: &Executor, run: RunId, step: i64, after_seq: i64, delta: Delta) {
    let hub = executor.hub();
    let body = match delta {
        Delta::Text(text) => RunEventBody::TextDelta { step, text },
        Delta::Thought(_) if !hub.has_subscribers(run) => return,
        Delta::Thought(text) => RunEventBody::ThoughtDelta { step, text },
        Delta::Restart { why } => RunEventBody::StepRestarted { step, why },
        // The driver records it.
        Delta::Retry(_) => return,
    };
    hub.publish_delta(RunEvent { run, seq: None, at: executor.clock().now(), body }, after_seq);
}

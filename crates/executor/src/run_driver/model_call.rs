//! One model call of a run, with its span and its metrics.

use emergent_llm::{Answer, ChatRequest, Delta, Error};
use tokio::time::{Instant, error::Elapsed, timeout_at};
use tracing::Instrument;

use super::RunDriver;
use crate::{spans, telemetry::ModelCall};

impl RunDriver {
    /// Calls the model and records the call in the metrics. The outer error means that the deadline came
    /// first.
    pub(super) async fn chat(
        &self,
        request: ChatRequest<'_>,
        deadline: Instant,
        on_delta: &mut (dyn FnMut(Delta) + Send),
    ) -> Result<Result<Answer, Error>, Elapsed> {
        let (model, models) = (&self.run.model, self.executor.models());
        let span = spans::chat_span(&self.run);
        let capture = !span.is_disabled() && self.executor.settings().capture_content;
        if capture {
            spans::record_request(&span, &request);
        }
        let started_at = tokio::time::Instant::now();
        let reply = timeout_at(deadline, models.chat(model, request, deadline, on_delta))
            .instrument(span.clone())
            .await;
        let answer = reply.as_ref().ok().and_then(|reply| reply.as_ref().ok());
        let usage = answer.map(|answer| answer.usage);
        let call = ModelCall {
            model,
            took: started_at.elapsed(),
            error: spans::error_class(&reply, deadline),
            usage,
            cost: usage.and_then(|usage| models.cost(model, &usage)),
        };
        self.executor.telemetry().record_model_call(&call);
        if !span.is_disabled() {
            spans::record_chat_outcome(&span, call.error, answer, capture);
        }
        reply
    }
}

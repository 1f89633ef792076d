//! Model calls outside any run, for example to choose an agent or to evaluate a result. Their cost is
//! reserved and settled like that of a run's call, for the workflow and the task they are about.

use std::{pin::pin, time::Duration};

use emergent_domain::{
    agent::ModelConfig,
    chat::Turn,
    ids::{ObjectId, ProjectId, WorkflowId},
    run_event::ModelRetry,
    workflow_event::WorkflowEventBody,
};
use emergent_llm::{Answer, ChatRequest, Delta, RequestMeta};
use emergent_net::backoff::Backoff;
use emergent_store::{
    Tx,
    budget::NewModelCall,
    workflows::{self, NewWorkflowEvent},
};
use serde_json::Value;
use tokio::{
    sync::mpsc,
    time::{Instant, sleep},
};
use tracing::warn;
use uuid::Uuid;

use crate::{
    Error, Executor,
    budget::{self, CallEstimate, CallOutcome, CallPrices, Reservation, ReserveOutcome, StreamMeter},
    telemetry::ModelCall,
};

const BACKOFF: Backoff = Backoff::new(Duration::from_millis(20), budget::MAX_RETRY_DELAY);

/// A single model call outside a run.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelQuery {
    pub project: ProjectId,
    pub workflow: Option<WorkflowId>,
    pub task: Option<ObjectId>,
    /// The name of the asker in spend reports, such as `selector` or `evaluator`.
    pub agent: String,
    pub model: ModelConfig,
    pub system: String,
    pub prompt: String,
    /// The JSON schema of the answer.
    pub output_schema: Option<Value>,
    pub max_tokens: u32,
    pub timeout: Duration,
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum ModelQueryError {
    #[error("{0}")]
    Budget(String),
    #[error("the model did not answer in time")]
    TimedOut,
    #[error(transparent)]
    Model(#[from] emergent_llm::Error),
    #[error(transparent)]
    Failed(#[from] Error),
}

impl From<emergent_store::Error> for ModelQueryError {
    fn from(error: emergent_store::Error) -> Self {
        Self::Failed(error.into())
    }
}

impl Executor {
    /// Calls the model and returns the text of its answer. The call continues if the caller is dropped,
    /// because it costs money anyway and has to be settled.
    pub async fn query_model(&self, query: ModelQuery) -> Result<String, ModelQueryError> {
        let executor = self.clone();
        #[expect(clippy::disallowed_methods, reason = "awaited here; it ends at the timeout of the query")]
        let answer = tokio::spawn(async move { executor.run_query(query).await });
        match answer.await {
            Ok(answer) => answer,
            Err(_) => Err(ModelQueryError::TimedOut),
        }
    }

    async fn run_query(&self, query: ModelQuery) -> Result<String, ModelQueryError> {
        let model = self.models().choose(Some(&query.model))?;
        let deadline = Instant::now() + query.timeout.min(budget::MAX_QUERY_TIME);
        let turns = [Turn::user(&query.prompt)];
        let max_output = model.max_tokens.map_or(query.max_tokens, |limit| limit.min(query.max_tokens));
        let estimate = CallEstimate {
            input: budget::estimate_tokens(&query.system, &[], &turns),
            max_output,
            min_output: max_output,
        };
        let reservation = self.reserve_query(&query, &model, estimate, deadline).await?;
        let request = ChatRequest {
            model: &model.name,
            system: &query.system,
            turns: &turns,
            tools: &[],
            temperature: model.temperature,
            max_tokens: Some(max_output),
            output_schema: query.output_schema.as_ref(),
            cache: None,
            meta: RequestMeta { agent: &query.agent, step: 1, run: None },
        };
        let (started_at, mut meter) = (Instant::now(), StreamMeter::default());
        let answer = self.ask_model(&query, &model, request, deadline, &mut meter).await;
        let timed_out = Instant::now() >= deadline;
        let usage = answer.as_ref().ok().map(|answer| answer.usage);
        self.telemetry().record_model_call(&ModelCall {
            model: &model,
            took: started_at.elapsed(),
            error: answer.is_err().then_some(if timed_out { "timeout" } else { "failed" }),
            usage,
            cost: usage.and_then(|usage| self.models().cost(&model, &usage)),
        });
        let outcome = match &answer {
            Ok(answer) => CallOutcome::Answered(&answer.usage),
            Err(_) if timed_out => CallOutcome::Abandoned,
            Err(error) => CallOutcome::Failed(error),
        };
        let settlement =
            reservation.settle(CallPrices { models: self.models(), model: &model }, &outcome, &meter);
        self.db().write(move |tx| settlement.write(tx)).await?;
        match answer {
            Ok(answer) => Ok(answer.text()),
            Err(_) if timed_out => Err(ModelQueryError::TimedOut),
            Err(error) => Err(error.into()),
        }
    }

    /// Calls the model, and records each failure that is retried while the call waits.
    async fn ask_model(
        &self,
        query: &ModelQuery,
        model: &ModelConfig,
        request: ChatRequest<'_>,
        deadline: Instant,
        meter: &mut StreamMeter,
    ) -> Result<Answer, emergent_llm::Error> {
        let (retries, mut failed_attempts) = mpsc::unbounded_channel();
        let mut on_delta = |delta: Delta| match delta {
            // The receiver lives as long as the call.
            Delta::Retry(retry) => drop(retries.send(retry)),
            delta => meter.record(&delta),
        };
        let mut chat = pin!(self.models().chat(model, request, deadline, &mut on_delta));
        loop {
            tokio::select! {
                biased;
                Some(retry) = failed_attempts.recv() => self.record_query_retry(query, retry).await,
                answer = &mut chat => return answer,
            }
        }
    }

    /// Records a retry as an event of the workflow that the query is for, so that its followers see why it waits.
    /// A failure to record it does not end the query.
    async fn record_query_retry(&self, query: &ModelQuery, retry: ModelRetry) {
        let Some(workflow) = query.workflow else { return };
        let ModelRetry { model, error, attempt, wait_ms } = retry;
        let asker = query.agent.clone();
        let body = WorkflowEventBody::ModelRetry { asker, agent: None, model, error, attempt, wait_ms };
        let (kind, data, at) = (body.kind(), body.data(), self.clock().now());
        let event = NewWorkflowEvent { kind, task: query.task, run: None, data, at };
        let append =
            move |tx: &mut Tx<'_>| workflows::append_own_events(tx, workflow, std::slice::from_ref(&event));
        let written: Result<(), emergent_store::Error> = self.db().write(append).await;
        if let Err(error) = written {
            warn!(workflow.id = %workflow, error = %error, "could not record that a model is asked again");
        }
    }

    /// Reserves the cost of a query. If other calls hold the rest of the budget, it retries until they
    /// settle.
    async fn reserve_query(
        &self,
        query: &ModelQuery,
        model: &ModelConfig,
        estimate: CallEstimate,
        deadline: Instant,
    ) -> Result<Reservation, ModelQueryError> {
        let mut retries = 0;
        loop {
            let pause = BACKOFF.delay(retries);
            let call = NewModelCall {
                id: Uuid::now_v7(),
                project: query.project,
                workflow: query.workflow,
                task: query.task,
                agent: query.agent.clone(),
                run: None,
                budget_runs: Vec::new(),
                at: self.clock().now(),
            };
            let (models, model) = (self.models().clone(), model.clone());
            let work = move |tx: &mut Tx<'_>| {
                budget::reserve(tx, CallPrices { models: &models, model: &model }, &call, estimate)
            };
            match self.db().write(work).await? {
                ReserveOutcome::Reserved(reservation) => return Ok(reservation),
                ReserveOutcome::Refused(reason) => return Err(ModelQueryError::Budget(reason)),
                ReserveOutcome::Retry if Instant::now() + pause >= deadline => {
                    return Err(ModelQueryError::TimedOut);
                }
                ReserveOutcome::Retry => sleep(pause).await,
            }
            retries += 1;
        }
    }
}

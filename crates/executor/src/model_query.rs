//! Model calls outside any run, for example to choose an agent or to evaluate a result. Their cost is
//! reserved and settled like that of a run's call, for the workflow and the task they are about.

use std::time::Duration;

use emergent_domain::{
    agent::ModelConfig,
    chat::Turn,
    ids::{ObjectId, ProjectId, WorkflowId},
};
use emergent_llm::{ChatRequest, RequestMeta};
use emergent_net::backoff::Backoff;
use emergent_store::{Tx, budget::NewModelCall};
use serde_json::Value;
use tokio::time::{Instant, sleep};
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
        let answer = self.models().chat(&model, request, deadline, &mut |delta| meter.record(&delta)).await;
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

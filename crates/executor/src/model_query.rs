//! One question to a model outside any run: who should do a task, whether what came will do. It is
//! counted like a run's, for the workflow and the task it is asked about.

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

/// A question, and what it is asked for.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelQuery {
    pub project: ProjectId,
    pub workflow: Option<WorkflowId>,
    pub task: Option<ObjectId>,
    /// Who asks, as spending is told apart: `selector`, `evaluator`.
    pub agent: String,
    pub model: ModelConfig,
    pub system: String,
    pub prompt: String,
    /// What the answer has to be an instance of.
    pub output_schema: Option<Value>,
    pub max_tokens: u32,
    pub timeout: Duration,
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum ModelQueryError {
    #[error("{0}")]
    Budget(String),
    #[error("no answer in the time there was")]
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
    /// Asks, and answers with the text. Whoever stops waiting does not stop the call, which is paid
    /// for anyway and has to be settled.
    pub async fn query_model(&self, ask: ModelQuery) -> Result<String, ModelQueryError> {
        let executor = self.clone();
        #[expect(clippy::disallowed_methods, reason = "awaited here; it ends at the timeout of the query")]
        let answer = tokio::spawn(async move { executor.run_query(ask).await });
        match answer.await {
            Ok(answer) => answer,
            Err(_) => Err(ModelQueryError::TimedOut),
        }
    }

    async fn run_query(&self, ask: ModelQuery) -> Result<String, ModelQueryError> {
        let model = self.models().choose(Some(&ask.model))?;
        let end = Instant::now() + ask.timeout.min(budget::MAX_QUERY_TIME);
        let turns = [Turn::user(&ask.prompt)];
        let output = model.max_tokens.map_or(ask.max_tokens, |most| most.min(ask.max_tokens));
        let wish = CallEstimate {
            input: budget::estimate_tokens(&ask.system, &[], &turns),
            max_output: output,
            min_output: output,
        };
        let bill = self.reserve_query(&ask, &model, wish, end).await?;
        let request = ChatRequest {
            model: &model.name,
            system: &ask.system,
            turns: &turns,
            tools: &[],
            temperature: model.temperature,
            max_tokens: Some(output),
            output_schema: ask.output_schema.as_ref(),
            cache: None,
            meta: RequestMeta { agent: &ask.agent, step: 1, run: None },
        };
        let (began, mut heard) = (Instant::now(), StreamMeter::default());
        let answer = self.models().chat(&model, request, end, &mut |delta| heard.record(&delta)).await;
        let late = Instant::now() >= end;
        let usage = answer.as_ref().ok().map(|answer| answer.usage);
        self.telemetry().record_model_call(&ModelCall {
            model: &model,
            took: began.elapsed(),
            error: answer.is_err().then_some(if late { "timeout" } else { "failed" }),
            usage,
            cost: usage.and_then(|usage| self.models().cost(&model, &usage)),
        });
        let outcome = match &answer {
            Ok(answer) => CallOutcome::Answered(&answer.usage),
            Err(_) if late => CallOutcome::Abandoned,
            Err(error) => CallOutcome::Failed(error),
        };
        let settlement = bill.settle(CallPrices { models: self.models(), model: &model }, &outcome, &heard);
        self.db().write(move |tx| settlement.write(tx)).await?;
        match answer {
            Ok(answer) => Ok(answer.text()),
            Err(_) if late => Err(ModelQueryError::TimedOut),
            Err(error) => Err(error.into()),
        }
    }

    async fn reserve_query(
        &self,
        ask: &ModelQuery,
        model: &ModelConfig,
        wish: CallEstimate,
        end: Instant,
    ) -> Result<Reservation, ModelQueryError> {
        let mut waits = 0;
        loop {
            let pause = BACKOFF.delay(waits);
            let call = NewModelCall {
                id: Uuid::now_v7(),
                project: ask.project,
                workflow: ask.workflow,
                task: ask.task,
                agent: ask.agent.clone(),
                run: None,
                at: self.clock().now(),
            };
            let (models, model) = (self.models().clone(), model.clone());
            let work = move |tx: &mut Tx<'_>| {
                budget::reserve(tx, CallPrices { models: &models, model: &model }, &call, wish)
            };
            match self.db().write(work).await? {
                ReserveOutcome::Reserved(bill) => return Ok(bill),
                ReserveOutcome::Refused(why) => return Err(ModelQueryError::Budget(why)),
                ReserveOutcome::Retry if Instant::now() + pause >= end => {
                    return Err(ModelQueryError::TimedOut);
                }
                ReserveOutcome::Retry => sleep(pause).await,
            }
            waits += 1;
        }
    }
}

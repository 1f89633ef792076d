//! One question to a model outside any run: who should do a task, whether what came will do. It is
//! counted like a run's, for the workflow and the task it is asked about.

use std::time::Duration;

use emergent_domain::{
    agent::ModelConfig,
    chat::Turn,
    ids::{ObjectId, ProjectId, WorkflowId},
};
use emergent_llm::{About, ChatRequest};
use emergent_store::{Tx, budget::NewCall};
use serde_json::Value;
use tokio::time::{Instant, sleep};
use uuid::Uuid;

use crate::{
    Error, Executor,
    budget::{self, Bill, Heard, Outcome, Prices, Reserved, Wish},
    telemetry::ModelCall,
};

/// A question, and what it is asked for.
#[derive(Debug, Clone, PartialEq)]
pub struct AskOnce {
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
pub enum NoAnswer {
    #[error("{0}")]
    Budget(String),
    #[error("no answer in the time there was")]
    TooLate,
    #[error(transparent)]
    Model(#[from] emergent_llm::Error),
    #[error(transparent)]
    Failed(#[from] Error),
}

impl From<emergent_store::Error> for NoAnswer {
    fn from(error: emergent_store::Error) -> Self {
        Self::Failed(error.into())
    }
}

impl Executor {
    /// Asks, and answers with the text. Whoever stops waiting does not stop the call, which is paid
    /// for anyway and has to be settled.
    pub async fn ask_once(&self, ask: AskOnce) -> Result<String, NoAnswer> {
        let executor = self.clone();
        match tokio::spawn(async move { executor.ask(ask).await }).await {
            Ok(answer) => answer,
            Err(_) => Err(NoAnswer::TooLate),
        }
    }

    async fn ask(&self, ask: AskOnce) -> Result<String, NoAnswer> {
        let model = self.models().choose(Some(&ask.model))?;
        let end = Instant::now() + ask.timeout.min(budget::LONGEST_QUESTION);
        let turns = [Turn::user(&ask.prompt)];
        let output = model.max_tokens.map_or(ask.max_tokens, |most| most.min(ask.max_tokens));
        let wish = Wish { input: budget::tokens_of(&ask.system, &[], &turns), output, least: output };
        let bill = self.afford(&ask, &model, wish, end).await?;
        let request = ChatRequest {
            model: &model.name,
            system: &ask.system,
            turns: &turns,
            tools: &[],
            temperature: model.temperature,
            max_tokens: Some(output),
            output_schema: ask.output_schema.as_ref(),
            kept: None,
            about: About { agent: &ask.agent, step: 1, run: None },
        };
        let (began, mut heard) = (Instant::now(), Heard::default());
        let answer = self.models().chat(&model, request, end, &mut |delta| heard.hear(&delta)).await;
        let late = Instant::now() >= end;
        let usage = answer.as_ref().ok().map(|answer| answer.usage);
        self.telemetry().model_called(&ModelCall {
            model: &model,
            took: began.elapsed(),
            error: answer.is_err().then_some(if late { "timeout" } else { "failed" }),
            usage,
            cost: usage.and_then(|usage| self.models().cost(&model, &usage)),
        });
        let outcome = match &answer {
            Ok(answer) => Outcome::Answered(&answer.usage),
            Err(_) if late => Outcome::GivenUp,
            Err(error) => Outcome::Failed(error),
        };
        let settlement = bill.settle(Prices { models: self.models(), model: &model }, &outcome, &heard);
        self.db().write(move |tx| settlement.write(tx)).await?;
        match answer {
            Ok(answer) => Ok(answer.text()),
            Err(_) if late => Err(NoAnswer::TooLate),
            Err(error) => Err(error.into()),
        }
    }

    async fn afford(
        &self,
        ask: &AskOnce,
        model: &ModelConfig,
        wish: Wish,
        end: Instant,
    ) -> Result<Bill, NoAnswer> {
        let mut pause = Duration::from_millis(20);
        loop {
            let call = NewCall {
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
                budget::reserve(tx, Prices { models: &models, model: &model }, &call, wish)
            };
            match self.db().write(work).await? {
                Reserved::Go(bill) => return Ok(bill),
                Reserved::Refused(why) => return Err(NoAnswer::Budget(why)),
                Reserved::Later if Instant::now() + pause >= end => return Err(NoAnswer::TooLate),
                Reserved::Later => sleep(pause).await,
            }
            pause = (pause * 2).min(budget::LONGEST_PAUSE);
        }
    }
}

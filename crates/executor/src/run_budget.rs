//! The budget of a run: whether the next model call is affordable, and what it cost.

use emergent_domain::{
    agent::ModelConfig,
    chat::{Part, Turn},
    run::{Reason, RunEnd},
};
use emergent_llm::Answer;
use emergent_store::budget::{self as rows, NewModelCall};
use tokio::time::{Duration, Instant, sleep};
use uuid::Uuid;

use crate::{
    Result,
    budget::{
        self, CallEstimate, CallOutcome, CallPrices, MAX_RETRY_DELAY, Reservation, ReserveOutcome,
        Settlement, StreamMeter,
    },
    machine::BUDGET_EXHAUSTED,
    recorder::RecordBatch,
    run_driver::RunDriver,
};

/// How long a run may assume that no budget limits it. A limit set in the meantime is noticed after
/// this time.
const RECHECK_AFTER: Duration = Duration::from_secs(2);

/// The budget state that a run remembers between its model calls.
pub(crate) struct RunBudget {
    limited: bool,
    checked_at: Instant,
    /// The reason why the last model call was refused.
    refused: Option<String>,
}

impl RunBudget {
    pub fn new(limited: bool) -> Self {
        Self { limited, checked_at: Instant::now(), refused: None }
    }
}

/// Whether a model call may be made.
pub(crate) enum BudgetCheck {
    /// Contains a reservation if the call has to be recorded.
    Granted(Option<Reservation>),
    Denied,
    /// The deadline passed before other calls had settled.
    TimedOut,
}

impl RunDriver {
    /// Estimates the next call. Its answer is shorter once the run only writes a summary.
    pub fn estimate_call(&self, tools: bool) -> CallEstimate {
        let specs = if tools { self.specs.as_slice() } else { &[] };
        let system = &self.definition.system_prompt;
        let input = match self.context.uncounted() {
            (Some(counted), rest) => counted + budget::estimate_tokens("", &[], rest),
            (None, all) => budget::estimate_tokens(system, specs, all),
        };
        let estimate = CallEstimate::for_answer(input, &self.run.model);
        match self.machine.wrap_up_reason() {
            None => estimate,
            Some(Reason::Budget) => estimate.for_final_summary(),
            Some(_) => estimate.for_summary(),
        }
    }

    /// Reserves the next call, and waits for other calls to settle if it has to.
    pub async fn reserve_call(
        &mut self,
        estimate: impl Fn(&Self) -> CallEstimate,
        until: Instant,
    ) -> Result<BudgetCheck> {
        if !self.is_limited().await? {
            let workflow = self.run.workflow_link.workflow;
            let reservation =
                workflow.map(|_| Reservation::unlimited(self.new_model_call(), estimate(self).input));
            return Ok(BudgetCheck::Granted(reservation));
        }
        let (estimate, mut pause, mut waited) = (estimate(self), Duration::from_millis(10), false);
        let check = loop {
            let call = self.new_model_call();
            let reserved =
                self.recorder.reserve(call, self.run.model.clone(), estimate, self.machine.steps()).await?;
            match reserved {
                ReserveOutcome::Reserved(reservation) => break BudgetCheck::Granted(Some(reservation)),
                ReserveOutcome::Refused(reason) => {
                    self.budget.refused = Some(reason);
                    break BudgetCheck::Denied;
                }
                ReserveOutcome::Retry if Instant::now() >= until => break BudgetCheck::TimedOut,
                ReserveOutcome::Retry => {}
            }
            // While it waits, the run leaves its slot to the runs whose calls it waits for.
            self.slot.release();
            waited = true;
            sleep(pause.min(until.saturating_duration_since(Instant::now()))).await;
            pause = (pause * 2).min(MAX_RETRY_DELAY);
        };
        if waited {
            self.slot.acquire().await;
        }
        Ok(check)
    }

    async fn is_limited(&mut self) -> Result<bool> {
        if !self.budget.limited && self.budget.checked_at.elapsed() >= RECHECK_AFTER {
            let (project, workflow) = (self.run.project, self.run.workflow_link.workflow);
            let agent = self.run.agent_name.clone();
            let limits = self.executor.db().read(move |tx| rows::limits_for(tx, project, workflow, &agent));
            self.budget.limited = !limits.await?.kinds().is_empty();
            self.budget.checked_at = Instant::now();
        }
        Ok(self.budget.limited)
    }

    fn new_model_call(&self) -> NewModelCall {
        NewModelCall {
            id: Uuid::now_v7(),
            project: self.run.project,
            workflow: self.run.workflow_link.workflow,
            task: self.run.workflow_link.task,
            agent: self.run.agent_name.clone(),
            run: Some(self.run.id),
            at: self.executor.clock().now(),
        }
    }

    /// Returns the settlement of a call, which is written together with its answer.
    pub fn settlement(
        &self,
        reservation: &Reservation,
        outcome: &CallOutcome<'_>,
        meter: &StreamMeter,
    ) -> Settlement {
        reservation.settle(call_prices(self.executor.models(), &self.run.model), outcome, meter)
    }

    /// Settles a call that produced nothing to record.
    pub async fn settle_without_answer(
        &mut self,
        reservation: Option<&Reservation>,
        outcome: &CallOutcome<'_>,
        meter: &StreamMeter,
    ) -> Result<()> {
        let Some(reservation) = reservation else { return Ok(()) };
        let settlement = self.settlement(reservation, outcome, meter);
        if settlement.is_empty() {
            return Ok(());
        }
        let mut batch = RecordBatch::default();
        batch.set_settlement(settlement);
        self.recorder.commit(batch, self.machine.steps()).await
    }

    /// Adds to an end by the budget which limit it was, and a summary of the progress if the model could
    /// not write one.
    pub fn explain_budget_end(&self, end: RunEnd) -> RunEnd {
        match end {
            RunEnd::Failed { reason: Reason::Budget, error, summary } => {
                let reason = self.budget.refused.clone().filter(|_| error == BUDGET_EXHAUSTED);
                let summary = if summary.trim().is_empty() { self.progress_summary() } else { summary };
                RunEnd::Failed { reason: Reason::Budget, error: reason.unwrap_or(error), summary }
            }
            other => other,
        }
    }

    fn progress_summary(&self) -> String {
        let steps = self.run.steps_before + self.machine.steps();
        let mut tools: Vec<(&str, usize)> = Vec::new();
        for part in self.context.turns().iter().flat_map(|turn: &Turn| &turn.parts) {
            let Part::Result(result) = part else { continue };
            match tools.iter_mut().find(|(name, _)| *name == result.name) {
                Some((_, count)) => *count += 1,
                None => tools.push((&result.name, 1)),
            }
        }
        let steps = format!("{steps} step{}", if steps == 1 { "" } else { "s" });
        let called = match tools.is_empty() {
            true => "called no tool".to_owned(),
            false => {
                let tools: Vec<String> =
                    tools.iter().map(|(name, count)| format!("`{name}` ({count})")).collect();
                format!("called {}", tools.join(", "))
            }
        };
        format!(
            "The budget ended this run before it could sum up. It took {steps} and {called}; the record of the run \
             has everything."
        )
    }
}

pub(crate) fn call_prices<'a>(models: &'a emergent_llm::Models, model: &'a ModelConfig) -> CallPrices<'a> {
    CallPrices { models, model }
}

/// Whether the budget truncated an answer: the answer was allowed fewer tokens than usual, and used all
/// of them.
pub(crate) fn is_truncated_by_budget(reservation: Option<&Reservation>, answer: &Answer) -> bool {
    reservation.is_some_and(|reservation| reservation.truncated)
        && answer.stop == emergent_domain::chat::StopReason::MaxTokens
}

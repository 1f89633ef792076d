//! The budget of a run: reserves each model call before it is made, and settles it afterwards.

use emergent_domain::run::Reason;
use emergent_llm::Answer;
use emergent_net::backoff::Backoff;
use emergent_store::budget::{self as rows, NewModelCall};
use tokio::time::{Duration, Instant, sleep};
use uuid::Uuid;

use super::RunDriver;
use crate::{
    Result,
    budget::{
        self, CallEstimate, CallOutcome, CallPrices, MAX_RETRY_DELAY, Reservation, ReserveOutcome,
        Settlement, StreamMeter,
    },
    recorder::RecordBatch,
};

/// How long a run may assume that no budget limits it. A limit set in the meantime is noticed after this
/// time.
const RECHECK_AFTER: Duration = Duration::from_secs(2);
const BACKOFF: Backoff = Backoff::new(Duration::from_millis(10), MAX_RETRY_DELAY);

/// Whether budget limits apply to a run, as it last checked.
pub(crate) struct RunBudget {
    limited: bool,
    checked_at: Instant,
}

impl RunBudget {
    pub fn new(limited: bool) -> Self {
        Self { limited, checked_at: Instant::now() }
    }
}

/// Whether the next model call may be made.
pub(crate) enum BudgetCheck {
    /// The call may be made.
    Granted(Reservation),
    /// A limit does not allow the call.
    Denied,
    /// The deadline passed before other calls were settled.
    TimedOut,
}

impl RunDriver {
    /// Estimates the next call. A call that only writes the final summary needs less output.
    pub fn estimate_call(&self, tools: bool) -> CallEstimate {
        let specs = if tools { self.specs.as_slice() } else { &[] };
        let system = &self.system_prompt;
        let input = match self.context.uncounted() {
            (Some(counted), uncounted_turns) => counted + budget::estimate_tokens("", &[], uncounted_turns),
            (None, turns) => budget::estimate_tokens(system, specs, turns),
        };
        let estimate = CallEstimate::for_answer(input, &self.run.model);
        match self.machine.wrap_up_reason() {
            None => estimate,
            Some(Reason::Budget) => estimate.for_final_summary(),
            Some(_) => estimate.for_summary(),
        }
    }

    /// Reserves the next call. If others have reserved the rest of the budget, it retries until they settle.
    pub async fn reserve_call(
        &mut self,
        estimate: impl Fn(&Self) -> CallEstimate,
        deadline: Instant,
    ) -> Result<BudgetCheck> {
        if !self.is_limited().await? {
            let reservation = Reservation::unlimited(self.new_model_call(), estimate(self).input);
            return Ok(BudgetCheck::Granted(reservation));
        }
        let (estimate, mut retries) = (estimate(self), 0);
        let check = loop {
            let call = self.new_model_call();
            let reserved =
                self.recorder.reserve(call, self.run.model.clone(), estimate, self.machine.steps()).await?;
            match reserved {
                ReserveOutcome::Reserved(reservation) => break BudgetCheck::Granted(reservation),
                ReserveOutcome::Refused(reason) => {
                    self.machine.record_budget_refusal(reason);
                    break BudgetCheck::Denied;
                }
                ReserveOutcome::Retry if Instant::now() >= deadline => break BudgetCheck::TimedOut,
                ReserveOutcome::Retry => {}
            }
            // The runs that hold reservations may need the slot to settle them.
            self.slot.release();
            let pause = BACKOFF.delay(retries);
            sleep(pause.min(deadline.saturating_duration_since(Instant::now()))).await;
            retries += 1;
        };
        if retries > 0 {
            self.slot.acquire().await;
        }
        Ok(check)
    }

    async fn is_limited(&mut self) -> Result<bool> {
        if !self.budget.limited && self.budget.checked_at.elapsed() >= RECHECK_AFTER {
            let (project, workflow) = (self.run.project, self.run.workflow_link.workflow);
            let (agent, runs) = (self.run.agent_name.clone(), self.run.terms.budget_runs.clone());
            let limits =
                self.executor.db().read(move |tx| rows::limits_for(tx, project, workflow, &agent, &runs));
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
            budget_runs: self.run.terms.budget_runs.clone(),
            at: self.executor.clock().now(),
        }
    }

    /// Returns the settlement of a call, which is written with its answer.
    pub fn settlement(
        &self,
        reservation: &Reservation,
        outcome: &CallOutcome<'_>,
        meter: &StreamMeter,
    ) -> Settlement {
        let prices = CallPrices { models: self.executor.models(), model: &self.run.model };
        reservation.settle(prices, outcome, meter)
    }

    /// Settles a call without an answer to record.
    pub async fn settle_without_answer(
        &mut self,
        reservation: &Reservation,
        outcome: &CallOutcome<'_>,
        meter: &StreamMeter,
    ) -> Result<()> {
        let settlement = self.settlement(reservation, outcome, meter);
        if settlement.is_empty() {
            return Ok(());
        }
        let mut batch = RecordBatch::default();
        batch.set_settlement(settlement);
        self.recorder.commit(batch, self.machine.steps()).await
    }
}

/// Whether the budget truncated an answer: it allowed less output than usual, and the model used all of it.
pub(crate) fn is_truncated_by_budget(reservation: &Reservation, answer: &Answer) -> bool {
    reservation.truncated && answer.stop == emergent_domain::chat::StopReason::MaxTokens
}

//! A run's side of its budget: whether the next question can be afforded, and what it came to.

use emergent_domain::{
    agent::ModelConfig,
    chat::{Part, Turn},
    run::{Reason, RunEnd},
};
use emergent_llm::Answer;
use emergent_store::budget::{self as rows, NewCall};
use tokio::time::{Duration, Instant, sleep};
use uuid::Uuid;

use crate::{
    Result,
    budget::{self, Bill, Heard, LONGEST_PAUSE, Outcome, Prices, Reserved, Settlement, Wish},
    driver::Driver,
    machine::BUDGET_IS_USED_UP,
    recorder::Batch,
};

/// For how long it holds that no limit concerns a run: one that is set meanwhile is found then.
const LOOK_AGAIN: Duration = Duration::from_secs(2);

/// What a run knows of its budget.
pub(crate) struct Purse {
    limited: bool,
    looked: Instant,
    /// Why the last question was refused.
    refused: Option<String>,
}

impl Purse {
    pub fn new(limited: bool) -> Self {
        Self { limited, looked: Instant::now(), refused: None }
    }
}

/// Whether a question can be asked.
pub(crate) enum Afforded {
    /// With a bill, if the call has to be written down.
    Yes(Option<Bill>),
    No,
    /// The time was up before others had settled.
    TooLate,
}

impl Driver {
    /// What the next answer may be: less once the run only sums up.
    pub fn wish(&self, tools: bool) -> Wish {
        let specs = if tools { self.specs.as_slice() } else { &[] };
        let system = &self.definition.system_prompt;
        let input = match self.context.uncounted() {
            (Some(known), rest) => known + budget::tokens_of("", &[], rest),
            (None, all) => budget::tokens_of(system, specs, all),
        };
        let wish = Wish::answer(input, &self.run.model);
        match self.machine.is_wrapping() {
            None => wish,
            Some(Reason::Budget) => wish.last_words(),
            Some(_) => wish.summary(),
        }
    }

    /// Reserves the next call, waiting for others to settle when it has to.
    pub async fn afford(&mut self, wish: impl Fn(&Self) -> Wish, until: Instant) -> Result<Afforded> {
        if !self.is_limited().await? {
            let workflow = self.run.duty.workflow;
            let bill = workflow.map(|_| Bill::unlimited(self.new_call(), wish(self).input));
            return Ok(Afforded::Yes(bill));
        }
        let (wish, mut pause, mut waited) = (wish(self), Duration::from_millis(10), false);
        let afforded = loop {
            let call = self.new_call();
            let reserved =
                self.recorder.reserve(call, self.run.model.clone(), wish, self.machine.steps()).await?;
            match reserved {
                Reserved::Go(bill) => break Afforded::Yes(Some(bill)),
                Reserved::Refused(why) => {
                    self.purse.refused = Some(why);
                    break Afforded::No;
                }
                Reserved::Later if Instant::now() >= until => break Afforded::TooLate,
                Reserved::Later => {}
            }
            // Whoever waits gives its place to those who are waited for.
            self.slot.leave();
            waited = true;
            sleep(pause.min(until.saturating_duration_since(Instant::now()))).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        };
        if waited {
            self.slot.enter().await;
        }
        Ok(afforded)
    }

    async fn is_limited(&mut self) -> Result<bool> {
        if !self.purse.limited && self.purse.looked.elapsed() >= LOOK_AGAIN {
            let (project, workflow) = (self.run.project, self.run.duty.workflow);
            let agent = self.run.agent_name.clone();
            let limits = self.executor.db().read(move |tx| rows::limits_for(tx, project, workflow, &agent));
            self.purse.limited = !limits.await?.scopes().is_empty();
            self.purse.looked = Instant::now();
        }
        Ok(self.purse.limited)
    }

    fn new_call(&self) -> NewCall {
        NewCall {
            id: Uuid::now_v7(),
            project: self.run.project,
            workflow: self.run.duty.workflow,
            task: self.run.duty.task,
            agent: self.run.agent_name.clone(),
            run: Some(self.run.id),
            at: self.executor.clock().now(),
        }
    }

    /// What a call came to, to be written with its answer.
    pub fn settlement(&self, bill: &Bill, outcome: &Outcome<'_>, heard: &Heard) -> Settlement {
        bill.settle(prices(self.executor.models(), &self.run.model), outcome, heard)
    }

    /// Settles a call that brought nothing to record.
    pub async fn close(&mut self, bill: Option<&Bill>, outcome: &Outcome<'_>, heard: &Heard) -> Result<()> {
        let Some(bill) = bill else { return Ok(()) };
        let settlement = self.settlement(bill, outcome, heard);
        if settlement.is_nothing() {
            return Ok(());
        }
        let mut batch = Batch::default();
        batch.settles(settlement);
        self.recorder.commit(batch, self.machine.steps()).await
    }

    /// Says of an end by the budget which one it was, and what was done when the model could not
    /// say so itself.
    pub fn account(&self, end: RunEnd) -> RunEnd {
        match end {
            RunEnd::Failed { reason: Reason::Budget, error, summary } => {
                let why = self.purse.refused.clone().filter(|_| error == BUDGET_IS_USED_UP);
                let summary = if summary.trim().is_empty() { self.what_was_done() } else { summary };
                RunEnd::Failed { reason: Reason::Budget, error: why.unwrap_or(error), summary }
            }
            other => other,
        }
    }

    fn what_was_done(&self) -> String {
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

pub(crate) fn prices<'a>(models: &'a emergent_llm::Models, model: &'a ModelConfig) -> Prices<'a> {
    Prices { models, model }
}

/// Whether the budget cut an answer short: it was allowed less than it would have been otherwise,
/// and used all of that.
pub(crate) fn was_cut(bill: Option<&Bill>, answer: &Answer) -> bool {
    bill.is_some_and(|bill| bill.short) && answer.stop == emergent_domain::chat::Stop::MaxTokens
}

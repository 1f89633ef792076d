//! The cost of model calls: it is estimated before a call, reserved against every limit that applies,
//! and settled at the real cost afterwards.
//!
//! A call that does not fit only because other calls hold reservations waits for them: most calls
//! settle for far less than they reserved. If it would not fit even then, it gets a shorter answer or
//! is refused.

use std::{
    collections::{HashMap, hash_map::Entry},
    time::Duration,
};

use emergent_domain::{
    agent::ModelConfig,
    chat::{Turn, Usage},
    ids::{ProjectId, WorkflowId},
    text::counted,
    workflow::{Amount, Limit, to_microusd},
};
use emergent_llm::{Delta, Error, Models, ToolSpec};
use emergent_store::{
    Tx,
    budget::{self, BUDGET_KINDS, BudgetKind, Counters, DayLimits, Limits, NewModelCall},
};

use crate::{Result, context};

/// The maximum length of an answer under a limit, if neither the definition nor the start request sets
/// one. An unlimited answer could not be reserved.
pub(crate) const DEFAULT_MAX_OUTPUT: u32 = 8_192;
/// A call that can afford less output than this is refused.
const MIN_OUTPUT: u32 = 512;
/// The maximum and minimum length of the final summary once the budget is exhausted.
const MAX_SUMMARY_OUTPUT: u32 = 1_024;
const MIN_SUMMARY_OUTPUT: u32 = 64;
/// The maximum time of a model call outside a run.
pub(crate) const MAX_QUERY_TIME: Duration = Duration::from_secs(600);
/// A model call outside a run that is still open after this time belongs to a server that crashed, because
/// it is longer than [`MAX_QUERY_TIME`].
const ABANDONED_AFTER: Duration = Duration::from_secs(660);
/// The maximum delay between two attempts to reserve.
pub(crate) const MAX_RETRY_DELAY: Duration = Duration::from_millis(500);
/// A pessimistic ratio for text that no provider has counted yet: ids and non-Latin scripts have few
/// bytes per token.
const BYTES_PER_TOKEN: usize = 2;
/// What a provider's format adds to each part of a message.
const PART_OVERHEAD_BYTES: usize = 16;

/// The estimated input tokens of a call, and the output tokens it may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CallEstimate {
    pub input: u64,
    pub max_output: u32,
    pub min_output: u32,
}

impl CallEstimate {
    /// The estimate of a call whose answer may have the usual length.
    pub fn for_answer(input: u64, model: &ModelConfig) -> Self {
        let max_output = model.max_tokens.unwrap_or(DEFAULT_MAX_OUTPUT);
        Self { input, max_output, min_output: MIN_OUTPUT.min(max_output) }
    }

    /// A summary is useful even if it is short, so a call that can afford only a little output is made.
    pub fn for_summary(self) -> Self {
        Self { min_output: MIN_SUMMARY_OUTPUT.min(self.max_output), ..self }
    }

    /// The final summary of a run whose budget is exhausted.
    pub fn for_final_summary(self) -> Self {
        Self { max_output: self.max_output.min(MAX_SUMMARY_OUTPUT), ..self.for_summary() }
    }
}

/// Estimates the tokens of a request, rather too high than too low.
pub(crate) fn estimate_tokens(system: &str, tools: &[ToolSpec], turns: &[Turn]) -> u64 {
    let tools =
        tools.iter().map(|tool| tool.name.len() + tool.description.len() + tool.input_schema.as_str().len());
    let turns = turns.iter().flat_map(|turn| &turn.parts).map(context::part_bytes);
    let bytes =
        system.len() + tools.sum::<usize>() + turns.map(|bytes| bytes + PART_OVERHEAD_BYTES).sum::<usize>();
    bytes.div_ceil(BYTES_PER_TOKEN) as u64
}

/// The prices of a model. The cost of a model without a known price is counted as zero dollars.
#[derive(Clone, Copy)]
pub(crate) struct CallPrices<'a> {
    pub models: &'a Models,
    pub model: &'a ModelConfig,
}

impl CallPrices<'_> {
    /// Whether the price of the model is known.
    pub fn is_priced(&self) -> bool {
        self.models.cost(self.model, &Usage::default()).is_some()
    }

    pub fn cost(&self, usage: &Usage) -> Amount {
        let dollars = self.models.cost(self.model, usage).unwrap_or(0.0);
        let tokens = usage.input.saturating_add(usage.output);
        Amount { microusd: to_microusd(dollars), tokens: i64::try_from(tokens).unwrap_or(i64::MAX) }
    }

    /// Returns the highest possible cost of the tokens, whatever the provider's cache does.
    pub fn max_cost(&self, input: u64, output: u64) -> Amount {
        let plain = Usage { input, output, ..Usage::default() };
        let (plain, cached) = (self.cost(&plain), self.cost(&Usage { cache_write: input, ..plain }));
        Amount { microusd: plain.microusd.max(cached.microusd), ..plain }
    }
}

/// Whether the budget allows a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum BudgetFit {
    /// The call fits with an answer of this length.
    Fits(u32),
    /// The call fits only after calls in progress have settled.
    AfterSettlement,
    /// The call does not fit because of this limit.
    Exceeds(BudgetKind),
}

/// Decides whether a call fits all limits, and how long its answer may be. `cost` returns the cost of input
/// and output tokens.
pub(crate) fn fit_call(
    limits: &Limits,
    counters: &Counters,
    estimate: CallEstimate,
    cost: &dyn Fn(u64, u64) -> Amount,
) -> BudgetFit {
    let exceeded_limit = |output: u32, with_reserved: bool| {
        let amount = cost(estimate.input, output.into());
        BUDGET_KINDS.into_iter().find(|kind| {
            let used = counters.get(*kind);
            let used = if with_reserved { used.spent + used.reserved } else { used.spent };
            !limits.get(*kind).allows(used + amount)
        })
    };
    if exceeded_limit(estimate.max_output, true).is_none() {
        return BudgetFit::Fits(estimate.max_output);
    }
    if let Some(kind) = exceeded_limit(estimate.min_output, false) {
        return BudgetFit::Exceeds(kind);
    }
    let fitting_now = max_fitting_output(estimate, |output| exceeded_limit(output, true).is_none());
    let fitting_without_reserved =
        max_fitting_output(estimate, |output| exceeded_limit(output, false).is_none());
    match fitting_now {
        Some(output) if fitting_now == fitting_without_reserved => BudgetFit::Fits(output),
        _ => BudgetFit::AfterSettlement,
    }
}

/// Finds the longest answer that fits by binary search: if a length does not fit, no greater length
/// does.
fn max_fitting_output(estimate: CallEstimate, fits: impl Fn(u32) -> bool) -> Option<u32> {
    if !fits(estimate.min_output) {
        return None;
    }
    let (mut fitting, mut too_long) = (estimate.min_output, estimate.max_output.saturating_add(1));
    while too_long - fitting > 1 {
        let middle = fitting + (too_long - fitting) / 2;
        if fits(middle) { fitting = middle } else { too_long = middle }
    }
    Some(fitting)
}

/// A model call in progress whose cost has to be recorded.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Reservation {
    call: NewModelCall,
    input: u64,
    /// The reserved amount and the length of answer it pays for; `None` if no limit applies.
    reserved: Option<(Amount, u32)>,
    /// Whether the budget made the answer shorter than it would otherwise be allowed to be.
    pub truncated: bool,
}

/// The result of an attempt to reserve.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum ReserveOutcome {
    Reserved(Reservation),
    /// The call fits after other calls have settled.
    Retry,
    /// A limit does not allow the call; the text says which.
    Refused(String),
}

/// Reserves a call under every limit that applies now, or says why it cannot. Without a limit nothing
/// is reserved, but the call is still recorded.
pub(crate) fn reserve(
    tx: &mut Tx<'_>,
    prices: CallPrices<'_>,
    call: &NewModelCall,
    estimate: CallEstimate,
) -> Result<ReserveOutcome, emergent_store::Error> {
    let limits = budget::limits_for(tx, call.project, call.workflow, &call.agent, &call.budget_runs)?;
    let kinds = limits.kinds();
    if kinds.is_empty() {
        return Ok(ReserveOutcome::Reserved(Reservation::unlimited(call.clone(), estimate.input)));
    }
    let counters = budget::lock_counters(tx, call, &kinds)?;
    Ok(match fit_call(&limits, &counters, estimate, &|input, output| prices.max_cost(input, output)) {
        BudgetFit::AfterSettlement => {
            // Calls outside a run that a crashed server left open have no owner that could settle them.
            budget::mark_lost_before(tx, call.project, call.at - ABANDONED_AFTER)?;
            ReserveOutcome::Retry
        }
        BudgetFit::Exceeds(kind) => {
            let spent = counters.get(kind).spent;
            let needed = prices.max_cost(estimate.input, estimate.min_output.into());
            ReserveOutcome::Refused(refusal_message(kind, limits.get(kind), spent, &call.agent, needed))
        }
        BudgetFit::Fits(output) => {
            let amount = prices.max_cost(estimate.input, output.into());
            budget::reserve(tx, call, &counters, amount, prices.is_priced())?;
            let (call, input) = (call.clone(), estimate.input);
            ReserveOutcome::Reserved(Reservation {
                call,
                input,
                reserved: Some((amount, output)),
                truncated: output < estimate.max_output,
            })
        }
    })
}

/// Limits that one transaction has read already. They are good for this transaction only.
#[derive(Debug, Default)]
pub(crate) struct KnownLimits {
    /// The limit of a workflow whose row the transaction has locked.
    pub workflow: Option<(WorkflowId, Limit)>,
    days: HashMap<(ProjectId, String), DayLimits>,
}

impl KnownLimits {
    /// The limits that apply to a call.
    fn limits_for(&mut self, tx: &mut Tx<'_>, call: &NewModelCall) -> Result<Limits, emergent_store::Error> {
        let day = match self.days.entry((call.project, call.agent.clone())) {
            Entry::Occupied(known) => *known.get(),
            Entry::Vacant(unknown) => *unknown.insert(budget::day_limits(tx, call.project, &call.agent)?),
        };
        let workflow = match (call.workflow, self.workflow) {
            (Some(id), Some((known, limit))) if id == known => limit,
            (Some(id), _) => budget::workflow_limit(tx, call.project, id)?,
            (None, _) => Limit::default(),
        };
        let runs = budget::run_limits(tx, call.project, &call.budget_runs)?;
        Ok(Limits { workflow, runs, ..Limits::from_day(day) })
    }
}

/// Whether budgets apply to a run, and whether one of them is exhausted.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct BudgetStatus {
    /// Whether any limit applies to the run.
    pub limited: bool,
    /// The reason why the run is not admitted. A limit that is merely too low for another answer does not
    /// prevent admission: the run detects it later and can still write a summary.
    pub exhausted: Option<String>,
}

/// Checks the budgets that apply to a run before it is admitted. `known` are limits that the transaction has read.
pub(crate) fn budget_status(
    tx: &mut Tx<'_>,
    call: &NewModelCall,
    known: &mut KnownLimits,
) -> Result<BudgetStatus, emergent_store::Error> {
    let limits = known.limits_for(tx, call)?;
    let kinds = limits.kinds();
    if kinds.is_empty() {
        return Ok(BudgetStatus::default());
    }
    let counters = budget::read_counters(tx, call)?;
    let is_exhausted = |kind: &BudgetKind| {
        let (Limit { microusd, tokens }, spent) = (limits.get(*kind), counters.get(*kind).spent);
        microusd.is_some_and(|limit| spent.microusd >= limit)
            || tokens.is_some_and(|limit| spent.tokens >= limit)
    };
    let exhausted_kind = kinds.into_iter().find(is_exhausted);
    let exhausted = exhausted_kind
        .map(|kind| used_up_message(kind, limits.get(kind), counters.get(kind).spent, &call.agent));
    Ok(BudgetStatus { limited: true, exhausted })
}

/// Says that a limit is used up, how much of it is spent, and what to do.
fn used_up_message(kind: BudgetKind, limit: Limit, spent: Amount, agent: &str) -> String {
    let (name, remedy) = name_and_remedy(kind, limit, agent);
    let (allowed, spent) = (limited_amounts(limit, limit), limited_amounts(limit, amounts(spent)));
    format!("{name} ({allowed}) is used up: {spent} spent so far; {remedy}")
}

/// Says what a call needed at least, what was left of the limit that does not allow it, and what to do. What is left may be
/// spent on a summary afterwards.
fn refusal_message(kind: BudgetKind, limit: Limit, spent: Amount, agent: &str, needed: Amount) -> String {
    let (name, remedy) = name_and_remedy(kind, limit, agent);
    let left = |limit: Option<i64>, spent: i64| limit.map(|limit| (limit - spent).max(0));
    let left =
        Limit { microusd: left(limit.microusd, spent.microusd), tokens: left(limit.tokens, spent.tokens) };
    format!(
        "the next call needed at least {}, and {} were left of {name} ({}); {remedy}",
        limited_amounts(limit, amounts(needed)),
        limited_amounts(limit, left),
        limited_amounts(limit, limit),
    )
}

fn amounts(amount: Amount) -> Limit {
    Limit { microusd: Some(amount.microusd), tokens: Some(amount.tokens) }
}

/// The amounts of what the limit limits.
fn limited_amounts(limit: Limit, amount: Limit) -> String {
    let microusd = amount.microusd.filter(|_| limit.microusd.is_some());
    let tokens = amount.tokens.filter(|_| limit.tokens.is_some());
    let amounts = [microusd.map(dollars), tokens.map(|tokens| counted(tokens, "token"))];
    amounts.into_iter().flatten().collect::<Vec<_>>().join(" and ")
}

/// How messages name a budget, and how it is raised.
fn name_and_remedy(kind: BudgetKind, limit: Limit, agent: &str) -> (String, String) {
    // A budget that is set takes the place of the old one, so both of its limits are named.
    let flags = |usd: &str, tokens: &str| {
        let flags =
            [limit.microusd.map(|_| format!(" {usd} N")), limit.tokens.map(|_| format!(" {tokens} N"))];
        flags.into_iter().flatten().collect::<String>()
    };
    match kind {
        BudgetKind::Workflow => (
            "the workflow's budget".to_owned(),
            format!(
                "raise it with `emergent workflow resume ID{}`",
                flags("--budget-usd", "--budget-tokens")
            ),
        ),
        BudgetKind::ProjectDay => (
            "the project's budget for the day".to_owned(),
            format!(
                "raise it with `emergent budget set{}`, or wait for the next day (UTC)",
                flags("--usd", "--tokens")
            ),
        ),
        BudgetKind::AgentDay => (
            format!("the budget of agent `{agent}` for the day"),
            format!(
                "raise it with `emergent budget set --agent {agent}{}`, or wait for the next day (UTC)",
                flags("--usd", "--tokens")
            ),
        ),
        BudgetKind::Run(_) => {
            // The error of a run is read in the terminal and by programs.
            let names = [
                limit.microusd.map(|_| "`maxCostUsd`, `--max-cost-usd`"),
                limit.tokens.map(|_| "`maxTotalTokens`, `--max-total-tokens`"),
            ];
            let names = names.into_iter().flatten().collect::<Vec<_>>().join("; ");
            ("the limit of the run".to_owned(), format!("start it again with a higher limit ({names})"))
        }
    }
}

/// Writes an amount in dollars with at least two digits after the point, and no more than it needs.
fn dollars(microusd: i64) -> String {
    let text = format!("${:.6}", microusd as f64 / 1e6);
    let digits = text.trim_end_matches('0').len().max(text.len() - 4);
    text[..digits].to_owned()
}

/// How a model call ended, which decides what it costs.
pub(crate) enum CallOutcome<'a> {
    Answered(&'a Usage),
    Failed(&'a Error),
    /// The caller stopped waiting while the provider was still working.
    Abandoned,
}

/// The final cost of a call. It is written in the transaction that records the result of the call.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Settlement {
    call: NewModelCall,
    reserved: bool,
    priced: bool,
    /// `None` settles the full reserved amount.
    amount: Option<Amount>,
}

impl Reservation {
    /// A call that no limit applies to: nothing is reserved. Its cost is recorded when it ends, because a limit may be
    /// set until then.
    pub fn unlimited(call: NewModelCall, input: u64) -> Self {
        Self { call, input, reserved: None, truncated: false }
    }

    /// Returns the maximum length of the answer, if it is limited.
    pub fn max_output(&self) -> Option<u32> {
        self.reserved.map(|(_, output)| output)
    }

    /// Returns the final cost of the call. The provider's own count is used even if it exceeds the
    /// reservation. Output of attempts that broke off is known only roughly, and counts at most up to the
    /// reservation. A call that failed before any output costs nothing.
    pub fn settle(
        &self,
        prices: CallPrices<'_>,
        outcome: &CallOutcome<'_>,
        meter: &StreamMeter,
    ) -> Settlement {
        let answer_cost = match outcome {
            CallOutcome::Answered(usage) => prices.cost(usage),
            _ => Amount::default(),
        };
        let uncounted = match outcome {
            CallOutcome::Answered(_) => meter.uncounted_tokens(self.input, false),
            // The provider sent an answer, although it could not be parsed.
            CallOutcome::Failed(Error::Malformed { .. }) => meter.uncounted_tokens(self.input, true),
            CallOutcome::Failed(_) | CallOutcome::Abandoned => {
                meter.uncounted_tokens(self.input, meter.bytes > 0)
            }
        };
        let total = answer_cost + prices.max_cost(uncounted.0, uncounted.1);
        let amount = match (self.reserved, outcome) {
            (Some(_), CallOutcome::Abandoned) => None,
            (Some((reserved, _)), _) => Some(Amount {
                microusd: total.microusd.min(reserved.microusd).max(answer_cost.microusd),
                tokens: total.tokens.min(reserved.tokens).max(answer_cost.tokens),
            }),
            (None, _) => Some(total),
        };
        Settlement {
            call: self.call.clone(),
            reserved: self.reserved.is_some(),
            priced: prices.is_priced(),
            amount,
        }
    }
}

impl Settlement {
    /// The cost of a call outside a workflow is in the messages of its run. It has a row of its own only if a limit
    /// was set meanwhile.
    fn is_in_messages(&self) -> bool {
        self.call.run.is_some() && self.call.workflow.is_none()
    }

    /// An unlimited call without any cost needs no ledger entry.
    pub fn is_empty(&self) -> bool {
        !self.reserved && self.amount.is_none_or(|amount| amount == Amount::default())
    }

    /// Writes the cost to the ledger, and releases the reservation if there is one.
    pub fn write(&self, tx: &mut Tx<'_>) -> Result<(), emergent_store::Error> {
        match (self.reserved, self.amount) {
            (true, Some(amount)) => budget::settle(tx, self.call.id, amount).map(|_| ()),
            (true, None) => budget::mark_lost(tx, self.call.id),
            _ if self.is_empty() => Ok(()),
            (false, amount) if self.is_in_messages() => {
                budget::insert_if_counted(tx, &self.call, amount.unwrap_or_default(), self.priced)
            }
            (false, amount) => {
                budget::insert_settled(tx, &self.call, amount.unwrap_or_default(), self.priced)
            }
        }
    }
}

/// Counts the bytes of an answer while it is streamed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct StreamMeter {
    bytes: u64,
    /// The bytes of attempts that broke off and were restarted.
    discarded_bytes: u64,
    attempts: u64,
}

impl StreamMeter {
    pub fn record(&mut self, delta: &Delta) {
        match delta {
            Delta::Text(text) | Delta::Thought(text) => self.bytes += text.len() as u64,
            Delta::Restart { .. } => {
                self.discarded_bytes += self.bytes;
                self.bytes = 0;
                self.attempts += 1;
            }
            Delta::Retry(_) => {}
        }
    }

    /// Estimates input and output tokens that no provider counted: those of earlier attempts, and of the
    /// last attempt if it `failed` too.
    fn uncounted_tokens(&self, input: u64, failed: bool) -> (u64, u64) {
        let (attempts, bytes) = if failed {
            (self.attempts + 1, self.discarded_bytes + self.bytes)
        } else {
            (self.attempts, self.discarded_bytes)
        };
        (input.saturating_mul(attempts), bytes.div_ceil(4))
    }
}

#[cfg(test)]
#[path = "budget_tests.rs"]
mod tests;

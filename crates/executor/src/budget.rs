//! What a model call may cost: worked out before it is made, held against every limit it is under,
//! settled at what it came to.
//!
//! A call that does not fit because others are under way waits for them: most settle at far less
//! than they reserved. One that would not fit even then is given what there is, or refused.

use std::time::Duration;

use emergent_domain::{
    agent::ModelConfig,
    chat::{Turn, Usage},
    workflow::{Amount, Limit},
};
use emergent_llm::{Delta, Error, Models, ToolSpec};
use emergent_store::{
    Tx,
    budget::{self, BUDGET_KINDS, BudgetKind, Counters, Limits, NewModelCall},
};

use crate::{Result, context};

/// What an answer may be long under a limit, when neither the definition nor whoever started the
/// run says: an answer without end could not be reserved.
pub(crate) const DEFAULT_MAX_OUTPUT: u32 = 8_192;
/// A shorter answer than this is not worth asking for.
const MIN_OUTPUT: u32 = 512;
/// What a summary may be long once the budget is used up, and what it must be.
const MAX_SUMMARY_OUTPUT: u32 = 1_024;
const MIN_SUMMARY_OUTPUT: u32 = 64;
/// A question outside a run takes at most this long, so that one which is still open some time later
/// is known to be nobody's.
pub(crate) const MAX_QUERY_TIME: Duration = Duration::from_secs(600);
const ABANDONED_AFTER: Duration = Duration::from_secs(660);
/// How long to wait at most before looking again whether others have settled.
pub(crate) const MAX_RETRY_DELAY: Duration = Duration::from_millis(500);
/// Text that no provider has counted yet: ids and other scripts have few bytes to a token.
const BYTES_PER_TOKEN: usize = 2;

/// What a call is to be given: tokens in, as estimated, and out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CallEstimate {
    pub input: u64,
    pub max_output: u32,
    pub min_output: u32,
}

impl CallEstimate {
    pub fn for_answer(input: u64, model: &ModelConfig) -> Self {
        let max_output = model.max_tokens.unwrap_or(DEFAULT_MAX_OUTPUT);
        Self { input, max_output, min_output: MIN_OUTPUT.min(max_output) }
    }

    /// A summary is worth having at any length.
    pub fn for_summary(self) -> Self {
        Self { min_output: MIN_SUMMARY_OUTPUT.min(self.max_output), ..self }
    }

    /// The last words of a run whose budget is used up.
    pub fn for_final_summary(self) -> Self {
        Self { max_output: self.max_output.min(MAX_SUMMARY_OUTPUT), ..self.for_summary() }
    }
}

/// About how many tokens this is, rather too many.
pub(crate) fn estimate_tokens(system: &str, tools: &[ToolSpec], turns: &[Turn]) -> u64 {
    let tools =
        tools.iter().map(|tool| tool.name.len() + tool.description.len() + tool.input_schema.as_str().len());
    let turns = turns.iter().flat_map(|turn| &turn.parts).map(context::part_bytes);
    let bytes = system.len() + tools.sum::<usize>() + turns.map(|bytes| bytes + 16).sum::<usize>();
    bytes.div_ceil(BYTES_PER_TOKEN) as u64
}

/// What tokens of a model cost; without a price that is no money.
#[derive(Clone, Copy)]
pub(crate) struct CallPrices<'a> {
    pub models: &'a Models,
    pub model: &'a ModelConfig,
}

impl CallPrices<'_> {
    pub fn is_priced(&self) -> bool {
        self.models.cost(self.model, &Usage::default()).is_some()
    }

    pub fn cost(&self, usage: &Usage) -> Amount {
        let dollars = self.models.cost(self.model, usage).unwrap_or(0.0);
        let tokens = usage.input.saturating_add(usage.output);
        Amount { microusd: to_microusd(dollars), tokens: i64::try_from(tokens).unwrap_or(i64::MAX) }
    }

    /// The most that many tokens can cost, whatever the provider's cache does with them.
    pub fn max_cost(&self, input: u64, output: u64) -> Amount {
        let plain = Usage { input, output, ..Usage::default() };
        let (plain, cached) = (self.cost(&plain), self.cost(&Usage { cache_write: input, ..plain }));
        Amount { microusd: plain.microusd.max(cached.microusd), ..plain }
    }
}

/// Whole micro-dollars, rounded up; what is smaller than floating point is exact is not a part.
fn to_microusd(dollars: f64) -> i64 {
    (dollars * 1e6 - 1e-6).ceil().max(0.0) as i64
}

/// Whether there is room for a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum BudgetFit {
    /// For an answer of this length.
    Fits(u32),
    /// Not before calls that are under way have settled.
    AfterSettlement,
    /// The limit that stands against it.
    Exceeds(BudgetKind),
}

pub(crate) fn fit_call(
    limits: &Limits,
    held: &Counters,
    wish: CallEstimate,
    cost: &dyn Fn(u64, u64) -> Amount,
) -> BudgetFit {
    let over = |output: u32, with_reserved: bool| {
        let amount = cost(wish.input, output.into());
        BUDGET_KINDS.into_iter().find(|scope| {
            let used = held.get(*scope);
            let used = if with_reserved { used.spent + used.reserved } else { used.spent };
            !limits.get(*scope).allows(used + amount)
        })
    };
    if over(wish.max_output, true).is_none() {
        return BudgetFit::Fits(wish.max_output);
    }
    if let Some(scope) = over(wish.min_output, false) {
        return BudgetFit::Exceeds(scope);
    }
    let now = max_fitting_output(wish, |output| over(output, true).is_none());
    let alone = max_fitting_output(wish, |output| over(output, false).is_none());
    match now {
        Some(output) if now == alone => BudgetFit::Fits(output),
        _ => BudgetFit::AfterSettlement,
    }
}

/// The longest answer that fits; more never fits where less does not.
fn max_fitting_output(wish: CallEstimate, fits: impl Fn(u32) -> bool) -> Option<u32> {
    if !fits(wish.min_output) {
        return None;
    }
    let (mut fitting, mut over) = (wish.min_output, wish.max_output.saturating_add(1));
    while over - fitting > 1 {
        let middle = fitting + (over - fitting) / 2;
        if fits(middle) { fitting = middle } else { over = middle }
    }
    Some(fitting)
}

/// A call that is being made and has to be paid for.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Reservation {
    call: NewModelCall,
    input: u64,
    /// What was reserved, and how long the answer may be for it; `None` where nothing limits it.
    reserved: Option<(Amount, u32)>,
    /// Whether the answer would have been allowed to be longer, had there been the budget.
    pub truncated: bool,
}

/// What came of asking for a reservation.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum ReserveOutcome {
    Reserved(Reservation),
    Retry,
    Refused(String),
}

/// Reserves a call under every limit there is now, or says why not. Without a limit it is only
/// noted that the call has to be written down.
pub(crate) fn reserve(
    tx: &mut Tx<'_>,
    prices: CallPrices<'_>,
    call: &NewModelCall,
    wish: CallEstimate,
) -> Result<ReserveOutcome, emergent_store::Error> {
    let limits = budget::limits_for(tx, call.project, call.workflow, &call.agent)?;
    let scopes = limits.kinds();
    if scopes.is_empty() {
        return Ok(ReserveOutcome::Reserved(Reservation::unlimited(call.clone(), wish.input)));
    }
    let held = budget::lock_counters(tx, call, &scopes)?;
    Ok(match fit_call(&limits, &held, wish, &|input, output| prices.max_cost(input, output)) {
        BudgetFit::AfterSettlement => {
            // What a server that is gone left open outside a run is nobody's to settle.
            budget::mark_lost_before(tx, call.project, call.at - ABANDONED_AFTER)?;
            ReserveOutcome::Retry
        }
        BudgetFit::Exceeds(scope) => {
            ReserveOutcome::Refused(limit_message(scope, limits.get(scope), &call.agent))
        }
        BudgetFit::Fits(output) => {
            let amount = prices.max_cost(wish.input, output.into());
            budget::reserve(tx, call, &held, amount, prices.is_priced())?;
            let (call, input) = (call.clone(), wish.input);
            ReserveOutcome::Reserved(Reservation {
                call,
                input,
                reserved: Some((amount, output)),
                truncated: output < wish.max_output,
            })
        }
    })
}

/// How a run stands towards the budgets it would be under.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct BudgetStatus {
    /// Whether any concerns it.
    pub limited: bool,
    /// Why it is not admitted. A limit that only does not hold another answer is for the run to find
    /// out, which can still say something.
    pub exhausted: Option<String>,
}

pub(crate) fn budget_status(
    tx: &mut Tx<'_>,
    call: &NewModelCall,
) -> Result<BudgetStatus, emergent_store::Error> {
    let limits = budget::limits_for(tx, call.project, call.workflow, &call.agent)?;
    let scopes = limits.kinds();
    if scopes.is_empty() {
        return Ok(BudgetStatus::default());
    }
    let used = budget::read_counters(tx, call)?;
    let over = |scope: &BudgetKind| {
        let (Limit { microusd, tokens }, spent) = (limits.get(*scope), used.get(*scope).spent);
        microusd.is_some_and(|most| spent.microusd >= most) || tokens.is_some_and(|most| spent.tokens >= most)
    };
    let over = scopes.into_iter().find(over);
    let used_up = over.map(|scope| limit_message(scope, limits.get(scope), &call.agent));
    Ok(BudgetStatus { limited: true, exhausted: used_up })
}

fn limit_message(scope: BudgetKind, limit: Limit, agent: &str) -> String {
    let money = limit.microusd.map(|micros| format!("${:.6}", micros as f64 / 1e6));
    let tokens = limit.tokens.map(|tokens| format!("{tokens} tokens"));
    let limit = [money, tokens].into_iter().flatten().collect::<Vec<_>>().join(" and ");
    let whose = match scope {
        BudgetKind::Workflow => "the workflow's budget".to_owned(),
        BudgetKind::ProjectDay => "the project's budget for the day".to_owned(),
        BudgetKind::AgentDay => format!("the budget of agent `{agent}` for the day"),
    };
    format!("{whose} ({limit}) does not allow another model call")
}

/// How a call ended.
pub(crate) enum CallOutcome<'a> {
    Answered(&'a Usage),
    Failed(&'a Error),
    /// Given up while the provider was still at it.
    Abandoned,
}

/// A bill as it is to be written, in the transaction that records what came of the call.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Settlement {
    call: NewModelCall,
    reserved: bool,
    priced: bool,
    /// `None`: in full.
    amount: Option<Amount>,
}

impl Reservation {
    pub fn unlimited(call: NewModelCall, input: u64) -> Self {
        Self { call, input, reserved: None, truncated: false }
    }

    /// How long the answer may be, where that is limited.
    pub fn max_output(&self) -> Option<u32> {
        self.reserved.map(|(_, output)| output)
    }

    /// What the call came to. The provider's count is taken as it is, even if it is more than was
    /// reserved. What was said in attempts that broke off is known only roughly, and counts as far
    /// as the reservation goes. One that failed without a word costs nothing.
    pub fn settle(
        &self,
        prices: CallPrices<'_>,
        outcome: &CallOutcome<'_>,
        heard: &StreamMeter,
    ) -> Settlement {
        let answered = match outcome {
            CallOutcome::Answered(usage) => prices.cost(usage),
            _ => Amount::default(),
        };
        let broken = match outcome {
            CallOutcome::Answered(_) => heard.uncounted_tokens(self.input, false),
            // An answer came, only not one that can be read.
            CallOutcome::Failed(Error::Malformed { .. }) => heard.uncounted_tokens(self.input, true),
            CallOutcome::Failed(_) | CallOutcome::Abandoned => {
                heard.uncounted_tokens(self.input, heard.bytes > 0)
            }
        };
        let known = answered + prices.max_cost(broken.0, broken.1);
        let amount = match (self.reserved, outcome) {
            (Some(_), CallOutcome::Abandoned) => None,
            (Some((reserved, _)), _) => Some(Amount {
                microusd: known.microusd.min(reserved.microusd).max(answered.microusd),
                tokens: known.tokens.min(reserved.tokens).max(answered.tokens),
            }),
            (None, _) => Some(known),
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
    /// A call that nothing limits and that came to nothing is no line in anybody's book.
    pub fn is_empty(&self) -> bool {
        !self.reserved && self.amount.is_none_or(|amount| amount == Amount::default())
    }

    pub fn write(&self, tx: &mut Tx<'_>) -> Result<(), emergent_store::Error> {
        match (self.reserved, self.amount) {
            (true, Some(amount)) => budget::settle(tx, self.call.id, amount).map(|_| ()),
            (true, None) => budget::mark_lost(tx, self.call.id),
            _ if self.is_empty() => Ok(()),
            (false, amount) => {
                budget::insert_settled(tx, &self.call, amount.unwrap_or_default(), self.priced)
            }
        }
    }
}

/// What was heard of an answer while it was spoken, in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct StreamMeter {
    bytes: u64,
    /// Of attempts that broke off and were begun anew.
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
        }
    }

    /// Tokens in and out of what no provider counted: the attempts before, and the last one too
    /// when it `failed` as well.
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

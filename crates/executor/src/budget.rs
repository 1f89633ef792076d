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
    budget::{self, Held, Limits, NewCall, SCOPES, Scope},
};

use crate::{Result, context};

/// What an answer may be long under a limit, when neither the definition nor whoever started the
/// run says: an answer without end could not be reserved.
pub(crate) const USUAL_OUTPUT: u32 = 8_192;
/// A shorter answer than this is not worth asking for.
const LEAST_OUTPUT: u32 = 512;
/// What a summary may be long once the budget is used up, and what it must be.
const SUMMARY_OUTPUT: u32 = 1_024;
const LEAST_SUMMARY: u32 = 64;
/// A question outside a run takes at most this long, so that one which is still open some time later
/// is known to be nobody's.
pub(crate) const LONGEST_QUESTION: Duration = Duration::from_secs(600);
const FORGOTTEN: Duration = Duration::from_secs(660);
/// How long to wait at most before looking again whether others have settled.
pub(crate) const LONGEST_PAUSE: Duration = Duration::from_millis(500);
/// Text that no provider has counted yet: ids and other scripts have few bytes to a token.
const BYTES_A_TOKEN: usize = 2;

/// What a call is to be given: tokens in, as estimated, and out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Wish {
    pub input: u64,
    pub output: u32,
    pub least: u32,
}

impl Wish {
    pub fn answer(input: u64, model: &ModelConfig) -> Self {
        let output = model.max_tokens.unwrap_or(USUAL_OUTPUT);
        Self { input, output, least: LEAST_OUTPUT.min(output) }
    }

    /// A summary is worth having at any length.
    pub fn summary(self) -> Self {
        Self { least: LEAST_SUMMARY.min(self.output), ..self }
    }

    /// The last words of a run whose budget is used up.
    pub fn last_words(self) -> Self {
        Self { output: self.output.min(SUMMARY_OUTPUT), ..self.summary() }
    }
}

/// About how many tokens this is, rather too many.
pub(crate) fn tokens_of(system: &str, tools: &[ToolSpec], turns: &[Turn]) -> u64 {
    let tools =
        tools.iter().map(|tool| tool.name.len() + tool.description.len() + tool.input_schema.text().len());
    let turns = turns.iter().flat_map(|turn| &turn.parts).map(context::bytes);
    let bytes = system.len() + tools.sum::<usize>() + turns.map(|bytes| bytes + 16).sum::<usize>();
    bytes.div_ceil(BYTES_A_TOKEN) as u64
}

/// What tokens of a model cost; without a price that is no money.
#[derive(Clone, Copy)]
pub(crate) struct Prices<'a> {
    pub models: &'a Models,
    pub model: &'a ModelConfig,
}

impl Prices<'_> {
    pub fn are_known(&self) -> bool {
        self.models.cost(self.model, &Usage::default()).is_some()
    }

    pub fn of(&self, usage: &Usage) -> Amount {
        let dollars = self.models.cost(self.model, usage).unwrap_or(0.0);
        let tokens = usage.input.saturating_add(usage.output);
        Amount { microusd: micros(dollars), tokens: i64::try_from(tokens).unwrap_or(i64::MAX) }
    }

    /// The most that many tokens can cost, whatever the provider's cache does with them.
    pub fn most(&self, input: u64, output: u64) -> Amount {
        let plain = Usage { input, output, ..Usage::default() };
        let (plain, cached) = (self.of(&plain), self.of(&Usage { cache_write: input, ..plain }));
        Amount { microusd: plain.microusd.max(cached.microusd), ..plain }
    }
}

/// Whole micro-dollars, rounded up; what is smaller than floating point is exact is not a part.
fn micros(dollars: f64) -> i64 {
    (dollars * 1e6 - 1e-6).ceil().max(0.0) as i64
}

/// Whether there is room for a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Room {
    /// For an answer of this length.
    For(u32),
    /// Not before calls that are under way have settled.
    Later,
    /// The limit that stands against it.
    None(Scope),
}

pub(crate) fn room(limits: &Limits, held: &Held, wish: Wish, cost: &dyn Fn(u64, u64) -> Amount) -> Room {
    let over = |output: u32, with_reserved: bool| {
        let amount = cost(wish.input, output.into());
        SCOPES.into_iter().find(|scope| {
            let used = held.get(*scope);
            let used = if with_reserved { used.spent + used.reserved } else { used.spent };
            !limits.get(*scope).holds(used + amount)
        })
    };
    if over(wish.output, true).is_none() {
        return Room::For(wish.output);
    }
    if let Some(scope) = over(wish.least, false) {
        return Room::None(scope);
    }
    let now = longest(wish, |output| over(output, true).is_none());
    let alone = longest(wish, |output| over(output, false).is_none());
    match now {
        Some(output) if now == alone => Room::For(output),
        _ => Room::Later,
    }
}

/// The longest answer that fits; more never fits where less does not.
fn longest(wish: Wish, fits: impl Fn(u32) -> bool) -> Option<u32> {
    if !fits(wish.least) {
        return None;
    }
    let (mut fitting, mut over) = (wish.least, wish.output.saturating_add(1));
    while over - fitting > 1 {
        let middle = fitting + (over - fitting) / 2;
        if fits(middle) { fitting = middle } else { over = middle }
    }
    Some(fitting)
}

/// A call that is being made and has to be paid for.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Bill {
    call: NewCall,
    input: u64,
    /// What was reserved, and how long the answer may be for it; `None` where nothing limits it.
    reserved: Option<(Amount, u32)>,
    /// Whether the answer would have been allowed to be longer, had there been the budget.
    pub short: bool,
}

/// What came of asking for a reservation.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Reserved {
    Go(Bill),
    Later,
    Refused(String),
}

/// Reserves a call under every limit there is now, or says why not. Without a limit it is only
/// noted that the call has to be written down.
pub(crate) fn reserve(
    tx: &mut Tx<'_>,
    prices: Prices<'_>,
    call: &NewCall,
    wish: Wish,
) -> Result<Reserved, emergent_store::Error> {
    let limits = budget::limits_for(tx, call.project, call.workflow, &call.agent)?;
    let scopes = limits.scopes();
    if scopes.is_empty() {
        return Ok(Reserved::Go(Bill::unlimited(call.clone(), wish.input)));
    }
    let held = budget::hold(tx, call, &scopes)?;
    Ok(match room(&limits, &held, wish, &|input, output| prices.most(input, output)) {
        Room::Later => {
            // What a server that is gone left open outside a run is nobody's to settle.
            budget::lose_older(tx, call.project, call.at - FORGOTTEN)?;
            Reserved::Later
        }
        Room::None(scope) => Reserved::Refused(refusal(scope, limits.get(scope), &call.agent)),
        Room::For(output) => {
            let amount = prices.most(wish.input, output.into());
            budget::reserve(tx, call, &held, amount, prices.are_known())?;
            let (call, input) = (call.clone(), wish.input);
            Reserved::Go(Bill { call, input, reserved: Some((amount, output)), short: output < wish.output })
        }
    })
}

/// How a run stands towards the budgets it would be under.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Standing {
    /// Whether any concerns it.
    pub limited: bool,
    /// Why it is not admitted. A limit that only does not hold another answer is for the run to find
    /// out, which can still say something.
    pub used_up: Option<String>,
}

pub(crate) fn standing(tx: &mut Tx<'_>, call: &NewCall) -> Result<Standing, emergent_store::Error> {
    let limits = budget::limits_for(tx, call.project, call.workflow, &call.agent)?;
    let scopes = limits.scopes();
    if scopes.is_empty() {
        return Ok(Standing::default());
    }
    let used = budget::look(tx, call)?;
    let over = |scope: &Scope| {
        let (Limit { microusd, tokens }, spent) = (limits.get(*scope), used.get(*scope).spent);
        microusd.is_some_and(|most| spent.microusd >= most) || tokens.is_some_and(|most| spent.tokens >= most)
    };
    let over = scopes.into_iter().find(over);
    let used_up = over.map(|scope| refusal(scope, limits.get(scope), &call.agent));
    Ok(Standing { limited: true, used_up })
}

fn refusal(scope: Scope, limit: Limit, agent: &str) -> String {
    let money = limit.microusd.map(|micros| format!("${:.6}", micros as f64 / 1e6));
    let tokens = limit.tokens.map(|tokens| format!("{tokens} tokens"));
    let limit = [money, tokens].into_iter().flatten().collect::<Vec<_>>().join(" and ");
    let whose = match scope {
        Scope::Workflow => "the workflow's budget".to_owned(),
        Scope::ProjectDay => "the project's budget for the day".to_owned(),
        Scope::AgentDay => format!("the budget of agent `{agent}` for the day"),
    };
    format!("{whose} ({limit}) does not allow another model call")
}

/// How a call ended.
pub(crate) enum Outcome<'a> {
    Answered(&'a Usage),
    Failed(&'a Error),
    /// Given up while the provider was still at it.
    GivenUp,
}

/// A bill as it is to be written, in the transaction that records what came of the call.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Settlement {
    call: NewCall,
    reserved: bool,
    priced: bool,
    /// `None`: in full.
    amount: Option<Amount>,
}

impl Bill {
    pub fn unlimited(call: NewCall, input: u64) -> Self {
        Self { call, input, reserved: None, short: false }
    }

    /// How long the answer may be, where that is limited.
    pub fn longest_answer(&self) -> Option<u32> {
        self.reserved.map(|(_, output)| output)
    }

    /// What the call came to. The provider's count is taken as it is, even if it is more than was
    /// reserved. What was said in attempts that broke off is known only roughly, and counts as far
    /// as the reservation goes. One that failed without a word costs nothing.
    pub fn settle(&self, prices: Prices<'_>, outcome: &Outcome<'_>, heard: &Heard) -> Settlement {
        let answered = match outcome {
            Outcome::Answered(usage) => prices.of(usage),
            _ => Amount::default(),
        };
        let broken = match outcome {
            Outcome::Answered(_) => heard.broken(self.input, false),
            // An answer came, only not one that can be read.
            Outcome::Failed(Error::Malformed { .. }) => heard.broken(self.input, true),
            Outcome::Failed(_) | Outcome::GivenUp => heard.broken(self.input, heard.said > 0),
        };
        let known = answered + prices.most(broken.0, broken.1);
        let amount = match (self.reserved, outcome) {
            (Some(_), Outcome::GivenUp) => None,
            (Some((reserved, _)), _) => Some(Amount {
                microusd: known.microusd.min(reserved.microusd).max(answered.microusd),
                tokens: known.tokens.min(reserved.tokens).max(answered.tokens),
            }),
            (None, _) => Some(known),
        };
        Settlement {
            call: self.call.clone(),
            reserved: self.reserved.is_some(),
            priced: prices.are_known(),
            amount,
        }
    }
}

impl Settlement {
    /// A call that nothing limits and that came to nothing is no line in anybody's book.
    pub fn is_nothing(&self) -> bool {
        !self.reserved && self.amount.is_none_or(|amount| amount == Amount::default())
    }

    pub fn write(&self, tx: &mut Tx<'_>) -> Result<(), emergent_store::Error> {
        match (self.reserved, self.amount) {
            (true, Some(amount)) => budget::settle(tx, self.call.id, amount).map(|_| ()),
            (true, None) => budget::lose(tx, self.call.id),
            _ if self.is_nothing() => Ok(()),
            (false, amount) => budget::settled(tx, &self.call, amount.unwrap_or_default(), self.priced),
        }
    }
}

/// What was heard of an answer while it was spoken, in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Heard {
    said: u64,
    /// Of attempts that broke off and were begun anew.
    void: u64,
    attempts: u64,
}

impl Heard {
    pub fn hear(&mut self, delta: &Delta) {
        match delta {
            Delta::Text(text) | Delta::Thought(text) => self.said += text.len() as u64,
            Delta::Restart { .. } => {
                self.void += self.said;
                self.said = 0;
                self.attempts += 1;
            }
        }
    }

    /// Tokens in and out of what no provider counted: the attempts before, and the last one too
    /// when it `failed` as well.
    fn broken(&self, input: u64, failed: bool) -> (u64, u64) {
        let (attempts, bytes) =
            if failed { (self.attempts + 1, self.void + self.said) } else { (self.attempts, self.void) };
        (input.saturating_mul(attempts), bytes.div_ceil(4))
    }
}

#[cfg(test)]
#[path = "budget_tests.rs"]
mod tests;

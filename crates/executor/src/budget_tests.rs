//! Tests of how budgets fit, reserve and settle model calls.

use emergent_domain::{
    chat::Turn,
    ids::ProjectId,
    time::Timestamp,
    workflow::{Amount, Limit},
};
use emergent_llm::Models;
use emergent_store::budget::Counter;
use proptest::prelude::*;
use uuid::Uuid;

use super::*;

fn tokens(tokens: i64) -> Amount {
    Amount { microusd: 0, tokens }
}

/// The cost of a model without a price: only tokens count.
fn free_cost(input: u64, output: u64) -> Amount {
    tokens((input + output) as i64)
}

/// Limits and counters of a workflow with a token budget.
fn budget_of(limit: i64, spent: i64, reserved: i64) -> (Limits, Counters) {
    let limits = Limits { workflow: Limit { microusd: None, tokens: Some(limit) }, ..Limits::default() };
    let counter = Counter { spent: tokens(spent), reserved: tokens(reserved) };
    (limits, Counters::from_iter([(BudgetKind::Workflow, counter)]))
}

#[track_caller]
fn check(limit: i64, spent: i64, reserved: i64, estimate: (u64, u32, u32), expected: BudgetFit) {
    let (limits, counters) = budget_of(limit, spent, reserved);
    let (input, max_output, min_output) = estimate;
    assert_eq!(
        fit_call(&limits, &counters, CallEstimate { input, max_output, min_output }, &free_cost),
        expected
    );
}

#[test]
fn a_call_that_fits_gets_its_maximum_output() {
    check(1_000, 0, 0, (400, 600, 100), BudgetFit::Fits(600));
    check(1_000, 300, 100, (300, 300, 100), BudgetFit::Fits(300));
}

#[test]
fn without_reservations_of_others_a_call_gets_the_rest_of_the_budget() {
    check(1_000, 400, 0, (300, 600, 100), BudgetFit::Fits(300));
    check(1_000, 600, 0, (300, 600, 100), BudgetFit::Fits(100));
}

#[test]
fn a_call_waits_for_settlements_rather_than_being_shortened_or_refused() {
    check(1_000, 0, 700, (300, 600, 100), BudgetFit::AfterSettlement);
    check(1_000, 0, 1_000, (300, 600, 100), BudgetFit::AfterSettlement);
}

#[test]
fn a_call_that_would_not_fit_even_without_reservations_is_refused() {
    check(1_000, 700, 0, (300, 600, 100), BudgetFit::Exceeds(BudgetKind::Workflow));
    check(1_000, 700, 300, (300, 600, 100), BudgetFit::Exceeds(BudgetKind::Workflow));
    check(100, 0, 0, (101, 1, 1), BudgetFit::Exceeds(BudgetKind::Workflow));
}

proptest! {
    #[test]
    fn the_granted_output_fits_and_is_the_longest_that_does(
        limits in prop::array::uniform3((prop::option::of(0i64..5_000), prop::option::of(0i64..5_000))),
        used in prop::array::uniform3((0i64..2_000, 0i64..2_000, 0i64..2_000, 0i64..2_000)),
        input in 0u64..2_000, min_output in 1u32..500, more in 0u32..2_000, price in 0i64..4,
    ) {
        let cost = |input: u64, output: u64| {
            let tokens = (input + output) as i64;
            Amount { microusd: (input as i64 + 3 * output as i64) * price, tokens }
        };
        let limit = |(microusd, tokens)| Limit { microusd, tokens };
        let limits = Limits { workflow: limit(limits[0]), project_day: limit(limits[1]), agent_day: limit(limits[2]), ..Limits::default() };
        let counter = |(a, b, c, d)| Counter {
            spent: Amount { microusd: a, tokens: b }, reserved: Amount { microusd: c, tokens: d },
        };
        let counters: Counters = BUDGET_KINDS.into_iter().zip(used.map(counter)).collect();
        let estimate = CallEstimate { input, max_output: min_output + more, min_output };
        let fits = |output: u32, reserved: bool| BUDGET_KINDS.into_iter().all(|scope| {
            let used = counters.get(scope);
            let used = if reserved { used.spent + used.reserved } else { used.spent };
            limits.get(scope).allows(used + cost(input, output.into()))
        });
        match fit_call(&limits, &counters, estimate, &cost) {
            BudgetFit::Fits(output) => {
                prop_assert!((min_output..=estimate.max_output).contains(&output) && fits(output, true));
                prop_assert!(output == estimate.max_output || !fits(output + 1, false), "no longer answer would have fit");
            }
            BudgetFit::AfterSettlement => prop_assert!(fits(min_output, false) && !fits(estimate.max_output, true)),
            BudgetFit::Exceeds(scope) => {
                let used = counters.get(scope).spent + cost(input, min_output.into());
                prop_assert!(!limits.get(scope).allows(used));
            }
        }
    }
}

#[test]
fn money_is_whole_micro_dollars_rounded_up() {
    assert_eq!(to_microusd(0.0), 0);
    assert_eq!(to_microusd(0.000_001), 1);
    assert_eq!(to_microusd(0.000_001_2), 2);
    assert_eq!(to_microusd(3.0 * 0.1 / 1e6), 1);
    assert_eq!(to_microusd(0.3), 300_000, "floating point noise must not add a micro-dollar");
}

fn reservation(reserved: Option<Amount>) -> Reservation {
    let call = NewModelCall {
        id: Uuid::now_v7(),
        project: ProjectId::new(),
        workflow: None,
        task: None,
        agent: "a".into(),
        run: None,
        budget_runs: Vec::new(),
        at: Timestamp::from_micros(0),
    };
    Reservation { call, input: 100, reserved: reserved.map(|amount| (amount, 400)), truncated: false }
}

/// Returns the settled tokens of a call with this outcome, after these deltas were received.
fn settled_tokens(reserved: Option<i64>, outcome: &CallOutcome<'_>, deltas: &[Delta]) -> Option<i64> {
    let (models, model) = (Models::default(), "rehearsal/echo".parse().unwrap());
    let mut meter = StreamMeter::default();
    deltas.iter().for_each(|delta| meter.record(delta));
    let settled = reservation(reserved.map(tokens)).settle(
        CallPrices { models: &models, model: &model },
        outcome,
        &meter,
    );
    settled.amount.map(|amount| amount.tokens)
}

fn text(bytes: usize) -> Delta {
    Delta::Text("x".repeat(bytes))
}

#[test]
fn an_answer_costs_what_the_provider_counted() {
    let usage = Usage { input: 90, output: 20, ..Usage::default() };
    assert_eq!(settled_tokens(Some(500), &CallOutcome::Answered(&usage), &[text(80)]), Some(110));
    assert_eq!(
        settled_tokens(Some(50), &CallOutcome::Answered(&usage), &[]),
        Some(110),
        "also if it exceeds the reservation"
    );
}

#[test]
fn interrupted_attempts_count_up_to_the_reservation() {
    let usage = Usage { input: 90, output: 20, ..Usage::default() };
    let deltas = [text(40), Delta::Restart { why: "cut".into() }, text(80)];
    assert_eq!(settled_tokens(Some(500), &CallOutcome::Answered(&usage), &deltas), Some(220));
    assert_eq!(settled_tokens(Some(150), &CallOutcome::Answered(&usage), &deltas), Some(150));
    assert_eq!(settled_tokens(None, &CallOutcome::Answered(&usage), &deltas), Some(220));
}

#[test]
fn a_failed_call_costs_what_was_received_of_it() {
    let error = Error::Overloaded { model: "m".into(), message: "gone".into(), source: None };
    assert_eq!(settled_tokens(Some(500), &CallOutcome::Failed(&error), &[]), Some(0));
    assert_eq!(settled_tokens(Some(500), &CallOutcome::Failed(&error), &[text(40)]), Some(110));
    let error = Error::Malformed { model: "m".into(), message: "no JSON".into() };
    assert_eq!(
        settled_tokens(Some(500), &CallOutcome::Failed(&error), &[]),
        Some(100),
        "the provider sent an answer that could not be parsed"
    );
}

#[test]
fn an_abandoned_call_costs_its_full_reservation() {
    assert_eq!(settled_tokens(Some(500), &CallOutcome::Abandoned, &[text(40)]), None);
    assert_eq!(
        settled_tokens(None, &CallOutcome::Abandoned, &[text(40)]),
        Some(110),
        "or the received output"
    );
}

#[test]
fn an_estimate_is_too_high_rather_than_too_low() {
    let turns = [Turn::user("019b7c1e-8c1e-7a52-b1a5-6f5d2f0c9a11")];
    assert!(estimate_tokens("", &[], &turns) >= 23, "an id consists of many tokens");
    assert_eq!(estimate_tokens("four", &[], &[]), 2);
}

#[test]
fn a_refusal_says_what_is_needed_and_what_is_left_of_which_limit_and_what_to_do() {
    let limit = Limit { microusd: Some(5_000_000), tokens: None };
    let spent = Amount { microusd: 4_987_650, tokens: 70_000 };
    assert_eq!(
        used_up_message(BudgetKind::AgentDay, limit, spent, "writer"),
        "the budget of agent `writer` for the day ($5.00) is used up: $4.98765 spent so far; raise it with `emergent \
         budget set --agent writer --usd N`, or wait for the next day (UTC)"
    );
    let tokens = Limit { microusd: None, tokens: Some(600) };
    let (spent, needed) = (Amount { microusd: 9, tokens: 135 }, Amount { microusd: 9, tokens: 627 });
    assert_eq!(
        refusal_message(BudgetKind::Workflow, tokens, spent, "writer", needed),
        "the next call needed at least 627 tokens, and 465 tokens were left of the workflow's budget (600 tokens); \
         raise it with `emergent workflow resume ID --budget-tokens N`"
    );
    let both = Limit { microusd: Some(120), tokens: Some(9) };
    assert_eq!(
        refusal_message(BudgetKind::Run(0), both, spent, "writer", needed),
        "the next call needed at least $0.000009 and 627 tokens, and $0.000111 and 0 tokens were left of the limit of \
         the run ($0.00012 and 9 tokens); start it again with a higher limit (`maxCostUsd`, `--max-cost-usd`; \
         `maxTotalTokens`, `--max-total-tokens`)"
    );
}

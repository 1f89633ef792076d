use emergent_domain::{
    chat::{Call, Stop},
    ids::ToolCallId,
    run::{MOST_STEPS, Reason, RunEnd, RunStatus},
};
use proptest::prelude::*;
use serde_json::json;

use super::*;

/// Each letter of an answer is a call of that name.
fn calls(names: &str) -> Vec<Call> {
    names
        .chars()
        .map(|name| Call { id: ToolCallId::new(), name: name.to_string(), input: json!({}), provider: None })
        .collect()
}

fn answer(machine: &mut Machine, text: &str, names: &str) -> Next {
    let calls = calls(names);
    machine.answered(&Said { text, calls: calls.iter().collect(), stop: &Stop::End })
}

fn made(next: &Next) -> usize {
    match next {
        Next::Call(verdicts) => verdicts.iter().filter(|one| matches!(one, Verdict::Make(_))).count(),
        _ => 0,
    }
}

#[test]
fn an_answer_without_calls_ends_the_run_with_its_text() {
    let mut machine = Machine::new(None, 0);
    assert_eq!(machine.go_on(), Next::Ask { tools: true });
    let next = answer(&mut machine, "done", "");
    assert_eq!(next, Next::End { end: RunEnd::Completed { summary: "done".into() }, refused: vec![] });
}

#[test]
fn n_steps_with_tools_are_allowed_and_then_one_answer_without() {
    let mut machine = Machine::new(Some(2), 0);
    for names in ["a", "b"] {
        assert_eq!(machine.go_on(), Next::Ask { tools: true });
        assert_eq!(made(&answer(&mut machine, "", names)), 1);
    }
    assert!(matches!(machine.calls_done(), Next::WrapUp { reason: Reason::StepLimit, .. }));
    assert_eq!(machine.go_on(), Next::Ask { tools: false });
    let Next::End { end, refused } = answer(&mut machine, "so far", "") else { panic!() };
    assert_eq!(end, RunEnd::Paused { reason: Reason::StepLimit, summary: "so far".into() });
    assert!(refused.is_empty());
    assert_eq!(machine.steps(), 2, "the summary is no step");
}

#[test]
fn a_call_in_the_summary_is_refused() {
    let mut machine = Machine::new(Some(1), 0);
    answer(&mut machine, "thinking", "a");
    machine.calls_done();
    let Next::End { end, refused } = answer(&mut machine, "", "ab") else { panic!() };
    assert_eq!(end.summary(), "thinking", "the newest text there is");
    assert_eq!(refused.len(), 2);
    assert!(refused.iter().all(|one| matches!(one, Verdict::Refuse { .. })));
}

#[test]
fn a_chain_shares_the_total_cap_and_a_resumed_run_has_fresh_steps() {
    let mut machine = Machine::new(Some(50), 40);
    assert_eq!(machine.go_on(), Next::Ask { tools: true });
    let mut machine = Machine::new(None, MOST_STEPS - 1);
    assert_eq!(machine.go_on(), Next::Ask { tools: true });
    answer(&mut machine, "", "a");
    assert!(matches!(machine.calls_done(), Next::WrapUp { reason: Reason::StepLimit, .. }));
    assert!(matches!(Machine::new(None, MOST_STEPS).go_on(), Next::WrapUp { .. }));
}

#[test]
fn at_the_deadline_the_model_is_asked_to_sum_up_and_has_until_the_grace_is_over() {
    let mut machine = Machine::new(None, 0);
    answer(&mut machine, "I looked at two", "a");
    assert!(matches!(machine.time_is_up(), Next::WrapUp { reason: Reason::Timeout, .. }));
    assert_eq!(machine.go_on(), Next::Ask { tools: false });
    let Next::End { end, .. } = machine.grace_is_over() else { panic!() };
    assert_eq!(end, RunEnd::Paused { reason: Reason::Timeout, summary: "I looked at two".into() });
}

#[test]
fn a_run_whose_budget_is_used_up_sums_up_and_has_failed() {
    let mut machine = Machine::new(None, 0);
    answer(&mut machine, "I looked at two", "a");
    assert!(matches!(machine.over_budget(), Next::WrapUp { reason: Reason::Budget, .. }));
    assert_eq!(machine.go_on(), Next::Ask { tools: false });
    let Next::End { end, .. } = answer(&mut machine, "two of three", "") else { panic!() };
    assert_eq!((end.status(), end.reason()), (RunStatus::Failed, Some(Reason::Budget)));
    assert_eq!(end.summary(), "two of three");
}

#[test]
fn a_summary_the_budget_does_not_allow_either_ends_the_run_with_what_is_known() {
    let mut machine = Machine::new(None, 0);
    answer(&mut machine, "I looked at two", "a");
    machine.over_budget();
    let Next::End { end, .. } = machine.over_budget() else { panic!() };
    assert_eq!((end.status(), end.reason()), (RunStatus::Failed, Some(Reason::Budget)));
    assert_eq!(end.summary(), "I looked at two");
}

#[test]
fn a_limit_that_was_reached_before_the_budget_stays_the_reason() {
    let mut machine = Machine::new(Some(1), 0);
    answer(&mut machine, "one", "a");
    assert!(matches!(machine.calls_done(), Next::WrapUp { reason: Reason::StepLimit, .. }));
    let Next::End { end, .. } = machine.over_budget() else { panic!() };
    assert_eq!(end, RunEnd::Paused { reason: Reason::StepLimit, summary: "one".into() });
}

#[test]
fn an_answer_that_the_budget_cut_is_a_failure_with_its_text() {
    let mut machine = Machine::new(None, 0);
    let said = Said { text: "half of a", calls: vec![], stop: &Stop::MaxTokens };
    machine.answered(&said);
    let Next::End { end, .. } = machine.cut_by_budget() else { panic!() };
    assert_eq!((end.reason(), end.summary()), (Some(Reason::Budget), "half of a"));
}

#[test]
fn the_third_identical_call_is_refused_and_the_fourth_ends_the_run() {
    let mut machine = Machine::new(None, 0);
    assert_eq!(made(&answer(&mut machine, "", "a")), 1);
    assert_eq!(made(&answer(&mut machine, "", "a")), 1);
    let Next::Call(verdicts) = answer(&mut machine, "", "a") else { panic!() };
    let [Verdict::Refuse { text, looped: Some(3), .. }] = &verdicts[..] else { panic!("{verdicts:?}") };
    assert!(text.starts_with("LOOP DETECTED: You have called a with identical arguments 3 times."));
    let mut other = machine.clone();
    assert_eq!(made(&answer(&mut other, "", "ba")), 2, "something else in between starts afresh");
    let Next::End { end, refused } = answer(&mut machine, "", "a") else { panic!() };
    assert_eq!((end.status(), end.reason()), (RunStatus::Failed, Some(Reason::DoomLoop)));
    assert_eq!(refused.len(), 1);
}

#[test]
fn identical_calls_inside_one_message_count_too() {
    let mut machine = Machine::new(None, 0);
    let Next::Call(verdicts) = answer(&mut machine, "", "aaa") else { panic!() };
    assert!(matches!(verdicts[..], [Verdict::Make(_), Verdict::Make(_), Verdict::Refuse { .. }]));
    let Next::End { end, refused } = answer(&mut machine, "", "a") else { panic!() };
    assert_eq!((end.status(), end.reason()), (RunStatus::Failed, Some(Reason::DoomLoop)));
    assert_eq!(refused.len(), 1);
}

#[test]
fn a_provider_that_refuses_is_a_failure_with_its_word() {
    let mut machine = Machine::new(None, 0);
    let stop = Stop::Refused("SAFETY".into());
    let Next::End { end, .. } = machine.answered(&Said { text: "", calls: vec![], stop: &stop }) else {
        panic!()
    };
    assert_eq!(end.reason(), Some(Reason::Provider));
    assert!(end.error().unwrap().contains("SAFETY"));
}

/// What a model may do in one answer.
#[derive(Debug, Clone)]
enum Whim {
    Answer { text: bool, calls: Vec<u8> },
    Fails,
    TimeIsUp,
    OverBudget,
}

fn whims() -> impl Strategy<Value = Whim> {
    prop_oneof![
        8 => (any::<bool>(), prop::collection::vec(0u8..6, 1..5)).prop_map(|(text, calls)| Whim::Answer { text, calls }),
        1 => Just(Whim::Answer { text: true, calls: vec![] }),
        1 => Just(Whim::Fails),
        1 => Just(Whim::TimeIsUp),
        1 => Just(Whim::OverBudget),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_sequence_of_answers_ends_within_its_bounds(
        behaviour in prop::collection::vec(whims(), 1..40),
        max_steps in prop::option::of(1i64..12),
        before in 0i64..MOST_STEPS,
    ) {
        let mut machine = Machine::new(max_steps, before);
        let mut next = machine.go_on();
        let mut whims = behaviour.iter().cycle();
        let (mut asked, mut wrapped) = (0, false);
        let mut limit = None;
        let end = loop {
            next = match next {
                Next::End { end, .. } => break end,
                Next::WrapUp { reason, .. } => {
                    prop_assert!(!wrapped, "summed up twice");
                    (wrapped, limit) = (true, Some(reason));
                    machine.go_on()
                }
                Next::Call(verdicts) => {
                    prop_assert!(!wrapped, "no tool runs after the wrap-up");
                    prop_assert!(!verdicts.is_empty());
                    machine.calls_done()
                }
                Next::Ask { tools } => {
                    asked += 1;
                    prop_assert_eq!(tools, !wrapped);
                    match whims.next().unwrap() {
                        Whim::Fails => machine.not_answered("broken".into()),
                        Whim::TimeIsUp if wrapped => machine.grace_is_over(),
                        Whim::TimeIsUp => machine.time_is_up(),
                        Whim::OverBudget => machine.over_budget(),
                        Whim::Answer { text, calls: names } => {
                            let calls: Vec<Call> = names.iter().map(|n| Call {
                                id: ToolCallId::new(), name: n.to_string(), input: json!({ "n": n % 3 }), provider: None,
                            }).collect();
                            let text = if *text { "text" } else { "" };
                            let said = Said { text, calls: calls.iter().collect(), stop: &Stop::End };
                            let next = machine.answered(&said);
                            // Every call has a verdict, in its order.
                            let verdicts = match &next {
                                Next::Call(verdicts) => verdicts.clone(),
                                Next::End { refused, .. } => refused.clone(),
                                other => panic!("{other:?}"),
                            };
                            let ids: Vec<ToolCallId> = verdicts.iter().map(|verdict| match verdict {
                                Verdict::Make(id) => *id,
                                Verdict::Refuse { call, .. } => *call,
                            }).collect();
                            prop_assert_eq!(ids, calls.iter().map(|call| call.id).collect::<Vec<_>>());
                            next
                        }
                    }
                }
            };
        };
        let allowed = max_steps.unwrap_or(i64::MAX).min(MOST_STEPS - before);
        prop_assert!(machine.steps() <= allowed);
        prop_assert!(asked <= allowed + 2);
        prop_assert!(end.status().is_terminal());
        // The limit that was reached first is the reason; only money cannot be had by resuming.
        if let Some(limit) = limit {
            prop_assert_eq!(end.reason(), Some(limit));
            let status = if limit == Reason::Budget { RunStatus::Failed } else { RunStatus::Paused };
            prop_assert_eq!(end.status(), status);
        }
    }

    #[test]
    fn a_machine_put_back_from_the_record_goes_on_as_if_nothing_had_happened(
        behaviour in prop::collection::vec(prop::collection::vec(0u8..4, 1..4), 1..30),
        cut in 0usize..30,
        max_steps in prop::option::of(1i64..12),
    ) {
        let answers: Vec<Vec<Call>> = behaviour.iter().map(|names| names.iter().map(|n| Call {
            id: ToolCallId::new(), name: n.to_string(), input: json!({}), provider: None,
        }).collect()).collect();
        let mut whole = Machine::new(max_steps, 0);
        let mut history = Vec::new();
        for answer in &answers {
            let said = Said { text: "", calls: answer.iter().collect(), stop: &Stop::ToolCalls };
            if !matches!(whole.answered(&said), Next::Call(_)) || !matches!(whole.calls_done(), Next::Ask { tools: true }) {
                break;
            }
            history.push(answer);
        }
        let cut = cut.min(history.len());
        let mut again = Machine::new(max_steps, 0);
        for answer in &history[..cut] {
            again.replay_answer(&Said { text: "", calls: answer.iter().collect(), stop: &Stop::ToolCalls });
        }
        // The one that was never interrupted is asked what is next after every answer.
        let mut first = Machine::new(max_steps, 0);
        let mut next = first.go_on();
        for answer in &history[..cut] {
            first.answered(&Said { text: "", calls: answer.iter().collect(), stop: &Stop::ToolCalls });
            next = first.calls_done();
        }
        prop_assert_eq!(again.go_on(), next);
        // On to the end, past the warning, the limit or whatever comes first.
        for answer in &answers[cut..] {
            let said = Said { text: "", calls: answer.iter().collect(), stop: &Stop::ToolCalls };
            let next = first.answered(&said);
            prop_assert_eq!(again.answered(&said), next.clone());
            if matches!(next, Next::End { .. }) {
                break;
            }
            prop_assert_eq!(again.calls_done(), first.calls_done());
        }
    }
}

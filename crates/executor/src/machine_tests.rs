use emergent_domain::{
    chat::{StopReason, ToolCall},
    ids::ToolCallId,
    run::{MAX_STEPS, Reason, RunEnd, RunStatus},
};
use proptest::prelude::*;
use serde_json::json;

use super::*;

/// Each letter of `names` is a tool call of that name.
fn calls(names: &str) -> Vec<ToolCall> {
    names
        .chars()
        .map(|name| ToolCall {
            id: ToolCallId::new(),
            name: name.to_string(),
            input: json!({}),
            provider: None,
        })
        .collect()
}

fn answer(machine: &mut Machine, text: &str, names: &str) -> NextAction {
    let calls = calls(names);
    machine.on_answer(&AnswerView { text, calls: calls.iter().collect(), stop: &StopReason::End })
}

fn made(next: &NextAction) -> usize {
    match next {
        NextAction::CallTools(verdicts) => {
            verdicts.iter().filter(|one| matches!(one, CallDecision::Make(_))).count()
        }
        _ => 0,
    }
}

#[test]
fn an_answer_without_calls_ends_the_run_with_its_text() {
    let mut machine = Machine::new(None, 0);
    assert_eq!(machine.next_action(), NextAction::CallModel { tools: true });
    let next = answer(&mut machine, "done", "");
    assert_eq!(next, NextAction::End { end: RunEnd::Completed { summary: "done".into() }, refused: vec![] });
}

#[test]
fn n_steps_with_tools_are_allowed_and_then_one_answer_without() {
    let mut machine = Machine::new(Some(2), 0);
    for names in ["a", "b"] {
        assert_eq!(machine.next_action(), NextAction::CallModel { tools: true });
        assert_eq!(made(&answer(&mut machine, "", names)), 1);
    }
    assert!(matches!(machine.on_tool_results(), NextAction::WrapUp { reason: Reason::StepLimit, .. }));
    assert_eq!(machine.next_action(), NextAction::CallModel { tools: false });
    let NextAction::End { end, refused } = answer(&mut machine, "so far", "") else { panic!() };
    assert_eq!(end, RunEnd::Paused { reason: Reason::StepLimit, summary: "so far".into() });
    assert!(refused.is_empty());
    assert_eq!(machine.steps(), 2, "the summary does not count as a step");
}

#[test]
fn a_call_in_the_summary_is_refused() {
    let mut machine = Machine::new(Some(1), 0);
    answer(&mut machine, "thinking", "a");
    machine.on_tool_results();
    let NextAction::End { end, refused } = answer(&mut machine, "", "ab") else { panic!() };
    assert_eq!(end.summary(), "thinking", "the newest text");
    assert_eq!(refused.len(), 2);
    assert!(refused.iter().all(|one| matches!(one, CallDecision::Refuse { .. })));
}

#[test]
fn a_chain_shares_the_total_cap_and_a_resumed_run_has_fresh_steps() {
    let mut machine = Machine::new(Some(50), 40);
    assert_eq!(machine.next_action(), NextAction::CallModel { tools: true });
    let mut machine = Machine::new(None, MAX_STEPS - 1);
    assert_eq!(machine.next_action(), NextAction::CallModel { tools: true });
    answer(&mut machine, "", "a");
    assert!(matches!(machine.on_tool_results(), NextAction::WrapUp { reason: Reason::StepLimit, .. }));
    assert!(matches!(Machine::new(None, MAX_STEPS).next_action(), NextAction::WrapUp { .. }));
}

#[test]
fn at_the_deadline_the_model_is_asked_to_sum_up_and_has_until_the_grace_is_over() {
    let mut machine = Machine::new(None, 0);
    answer(&mut machine, "I looked at two", "a");
    assert!(matches!(machine.on_deadline(), NextAction::WrapUp { reason: Reason::Timeout, .. }));
    assert_eq!(machine.next_action(), NextAction::CallModel { tools: false });
    let NextAction::End { end, .. } = machine.on_grace_expired() else { panic!() };
    assert_eq!(end, RunEnd::Paused { reason: Reason::Timeout, summary: "I looked at two".into() });
}

#[test]
fn a_run_whose_budget_is_used_up_sums_up_and_has_failed() {
    let mut machine = Machine::new(None, 0);
    answer(&mut machine, "I looked at two", "a");
    assert!(matches!(machine.on_budget_exhausted(), NextAction::WrapUp { reason: Reason::Budget, .. }));
    assert_eq!(machine.next_action(), NextAction::CallModel { tools: false });
    let NextAction::End { end, .. } = answer(&mut machine, "two of three", "") else { panic!() };
    assert_eq!((end.status(), end.reason()), (RunStatus::Failed, Some(Reason::Budget)));
    assert_eq!(end.summary(), "two of three");
}

#[test]
fn a_summary_the_budget_does_not_allow_either_ends_the_run_with_what_is_known() {
    let mut machine = Machine::new(None, 0);
    answer(&mut machine, "I looked at two", "a");
    machine.on_budget_exhausted();
    let NextAction::End { end, .. } = machine.on_budget_exhausted() else { panic!() };
    assert_eq!((end.status(), end.reason()), (RunStatus::Failed, Some(Reason::Budget)));
    assert_eq!(end.summary(), "I looked at two");
}

#[test]
fn a_limit_that_was_reached_before_the_budget_stays_the_reason() {
    let mut machine = Machine::new(Some(1), 0);
    answer(&mut machine, "one", "a");
    assert!(matches!(machine.on_tool_results(), NextAction::WrapUp { reason: Reason::StepLimit, .. }));
    let NextAction::End { end, .. } = machine.on_budget_exhausted() else { panic!() };
    assert_eq!(end, RunEnd::Paused { reason: Reason::StepLimit, summary: "one".into() });
}

#[test]
fn an_answer_that_the_budget_cut_is_a_failure_with_its_text() {
    let mut machine = Machine::new(None, 0);
    let answer_view = AnswerView { text: "half of a", calls: vec![], stop: &StopReason::MaxTokens };
    machine.on_answer(&answer_view);
    let NextAction::End { end, .. } = machine.on_truncated_answer() else { panic!() };
    assert_eq!((end.reason(), end.summary()), (Some(Reason::Budget), "half of a"));
}

#[test]
fn the_third_identical_call_is_refused_and_the_fourth_ends_the_run() {
    let mut machine = Machine::new(None, 0);
    assert_eq!(made(&answer(&mut machine, "", "a")), 1);
    assert_eq!(made(&answer(&mut machine, "", "a")), 1);
    let NextAction::CallTools(verdicts) = answer(&mut machine, "", "a") else { panic!() };
    let [CallDecision::Refuse { text, looped: Some(3), .. }] = &verdicts[..] else { panic!("{verdicts:?}") };
    assert!(text.starts_with("LOOP DETECTED: You have called a with identical arguments 3 times."));
    let mut other = machine.clone();
    assert_eq!(made(&answer(&mut other, "", "ba")), 2, "another call in between resets the count");
    let NextAction::End { end, refused } = answer(&mut machine, "", "a") else { panic!() };
    assert_eq!((end.status(), end.reason()), (RunStatus::Failed, Some(Reason::DoomLoop)));
    assert_eq!(refused.len(), 1);
}

#[test]
fn identical_calls_inside_one_message_count_too() {
    let mut machine = Machine::new(None, 0);
    let NextAction::CallTools(verdicts) = answer(&mut machine, "", "aaa") else { panic!() };
    assert!(matches!(
        verdicts[..],
        [CallDecision::Make(_), CallDecision::Make(_), CallDecision::Refuse { .. }]
    ));
    let NextAction::End { end, refused } = answer(&mut machine, "", "a") else { panic!() };
    assert_eq!((end.status(), end.reason()), (RunStatus::Failed, Some(Reason::DoomLoop)));
    assert_eq!(refused.len(), 1);
}

#[test]
fn a_provider_that_refuses_is_a_failure_with_its_word() {
    let mut machine = Machine::new(None, 0);
    let stop = StopReason::Refused("SAFETY".into());
    let NextAction::End { end, .. } = machine.on_answer(&AnswerView { text: "", calls: vec![], stop: &stop })
    else {
        panic!()
    };
    assert_eq!(end.reason(), Some(Reason::Provider));
    assert!(end.error().unwrap().contains("SAFETY"));
}

/// What the model does in one answer.
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
        before in 0i64..MAX_STEPS,
    ) {
        let mut machine = Machine::new(max_steps, before);
        let mut next = machine.next_action();
        let mut whims = behaviour.iter().cycle();
        let (mut asked, mut wrapped) = (0, false);
        let mut limit = None;
        let end = loop {
            next = match next {
                NextAction::End { end, .. } => break end,
                NextAction::WrapUp { reason, .. } => {
                    prop_assert!(!wrapped, "summed up twice");
                    (wrapped, limit) = (true, Some(reason));
                    machine.next_action()
                }
                NextAction::CallTools(verdicts) => {
                    prop_assert!(!wrapped, "no tool runs after the wrap-up");
                    prop_assert!(!verdicts.is_empty());
                    machine.on_tool_results()
                }
                NextAction::CallModel { tools } => {
                    asked += 1;
                    prop_assert_eq!(tools, !wrapped);
                    match whims.next().unwrap() {
                        Whim::Fails => machine.on_model_error("broken".into()),
                        Whim::TimeIsUp if wrapped => machine.on_grace_expired(),
                        Whim::TimeIsUp => machine.on_deadline(),
                        Whim::OverBudget => machine.on_budget_exhausted(),
                        Whim::Answer { text, calls: names } => {
                            let calls: Vec<ToolCall> = names.iter().map(|n| ToolCall {
                                id: ToolCallId::new(), name: n.to_string(), input: json!({ "n": n % 3 }), provider: None,
                            }).collect();
                            let text = if *text { "text" } else { "" };
                            let answer_view = AnswerView { text, calls: calls.iter().collect(), stop: &StopReason::End };
                            let next = machine.on_answer(&answer_view);
                            // Every call has a decision, in order.
                            let verdicts = match &next {
                                NextAction::CallTools(verdicts) => verdicts.clone(),
                                NextAction::End { refused, .. } => refused.clone(),
                                other => panic!("{other:?}"),
                            };
                            let ids: Vec<ToolCallId> = verdicts.iter().map(|verdict| match verdict {
                                CallDecision::Make(id) => *id,
                                CallDecision::Refuse { call, .. } => *call,
                            }).collect();
                            prop_assert_eq!(ids, calls.iter().map(|call| call.id).collect::<Vec<_>>());
                            next
                        }
                    }
                }
            };
        };
        let allowed = max_steps.unwrap_or(i64::MAX).min(MAX_STEPS - before);
        prop_assert!(machine.steps() <= allowed);
        prop_assert!(asked <= allowed + 2);
        prop_assert!(end.status().is_terminal());
        // The limit that was reached first is the reason; resuming helps against every limit except the
        // budget.
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
        let answers: Vec<Vec<ToolCall>> = behaviour.iter().map(|names| names.iter().map(|n| ToolCall {
            id: ToolCallId::new(), name: n.to_string(), input: json!({}), provider: None,
        }).collect()).collect();
        let mut whole = Machine::new(max_steps, 0);
        let mut history = Vec::new();
        for answer in &answers {
            let answer_view = AnswerView { text: "", calls: answer.iter().collect(), stop: &StopReason::ToolCalls };
            if !matches!(whole.on_answer(&answer_view), NextAction::CallTools(_)) || !matches!(whole.on_tool_results(), NextAction::CallModel { tools: true }) {
                break;
            }
            history.push(answer);
        }
        let cut = cut.min(history.len());
        let mut again = Machine::new(max_steps, 0);
        for answer in &history[..cut] {
            again.replay_answer(&AnswerView { text: "", calls: answer.iter().collect(), stop: &StopReason::ToolCalls });
        }
        // The uninterrupted machine is asked for its next action after every answer.
        let mut first = Machine::new(max_steps, 0);
        let mut next = first.next_action();
        for answer in &history[..cut] {
            first.on_answer(&AnswerView { text: "", calls: answer.iter().collect(), stop: &StopReason::ToolCalls });
            next = first.on_tool_results();
        }
        prop_assert_eq!(again.next_action(), next);
        // The remaining answers lead to the end, past the warning or a limit.
        for answer in &answers[cut..] {
            let answer_view = AnswerView { text: "", calls: answer.iter().collect(), stop: &StopReason::ToolCalls };
            let next = first.on_answer(&answer_view);
            prop_assert_eq!(again.on_answer(&answer_view), next.clone());
            if matches!(next, NextAction::End { .. }) {
                break;
            }
            prop_assert_eq!(again.on_tool_results(), first.on_tool_results());
        }
    }
}

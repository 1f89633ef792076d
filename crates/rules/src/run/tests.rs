use emergent_domain::{
    chat::{StopReason, ToolCall},
    ids::ToolCallId,
    loops::CallEffect,
    run::{MAX_STEPS, Reason, RunEnd, RunStatus},
};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

/// Each letter of an answer is a call of that name.
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

/// An answer as the machine sees it. All its calls are reads.
fn view<'a>(text: &'a str, calls: &'a [ToolCall], stop: &'a StopReason) -> AnswerView<'a> {
    let calls: Vec<CallView<'_>> =
        calls.iter().map(|call| CallView { call, effect: CallEffect::Reads }).collect();
    AnswerView { text, ends_in_call: !calls.is_empty(), calls, stop }
}

fn answer(machine: &mut Machine, text: &str, names: &str) -> NextAction {
    machine.on_answer(&view(text, &calls(names), &StopReason::End))
}

/// An answer that reached the maximum length.
fn truncated(machine: &mut Machine, text: &str, names: &str) -> NextAction {
    machine.on_answer(&view(text, &calls(names), &StopReason::MaxTokens))
}

/// The results of the calls, which are always the same.
fn results<'a>(calls: &'a [ToolCall], output: &'a Value) -> Vec<ResultView<'a>> {
    calls.iter().map(|call| ResultView { call: call.id, output, failed: false }).collect()
}

fn made(next: &NextAction) -> usize {
    match next {
        NextAction::CallTools(decisions) => {
            decisions.iter().filter(|one| matches!(one, CallDecision::Make(_))).count()
        }
        _ => 0,
    }
}

#[test]
fn an_answer_without_calls_ends_the_run_with_its_text() {
    let mut machine = Machine::new(None, 0);
    assert_eq!(machine.next_action(), NextAction::CallModel { tools: true });
    let next = answer(&mut machine, "done", "");
    assert_eq!(next, NextAction::End { end: RunEnd::completed("done"), refused: vec![] });
}

#[test]
fn n_steps_with_tools_are_allowed_and_then_one_answer_without() {
    let mut machine = Machine::new(Some(2), 0);
    for names in ["a", "b"] {
        assert_eq!(machine.next_action(), NextAction::CallModel { tools: true });
        assert_eq!(made(&answer(&mut machine, "", names)), 1);
    }
    assert!(matches!(machine.on_tool_results(&[]), NextAction::WrapUp { reason: Reason::StepLimit, .. }));
    assert_eq!(machine.next_action(), NextAction::CallModel { tools: false });
    let NextAction::End { end, refused } = answer(&mut machine, "so far", "") else { panic!() };
    assert_eq!(end, RunEnd::Paused { reason: Reason::StepLimit, summary: "so far".into() });
    assert!(refused.is_empty());
    assert_eq!(machine.steps(), 2, "the summary is no step");
}

#[test]
fn a_run_that_its_budget_ends_names_the_call_that_was_refused_and_not_its_summary() {
    let mut machine = Machine::new(None, 0);
    machine.record_budget_refusal("a shorter conversation needed 900 tokens".into());
    machine.record_budget_refusal("the call needed 521 tokens".into());
    machine.on_budget_exhausted();
    machine.record_budget_refusal("the summary needed 231 tokens".into());
    let NextAction::End { end, .. } = machine.on_budget_exhausted() else { panic!() };
    let error = "the call needed 521 tokens".to_owned();
    assert!(end.summary().contains("ended at its budget"), "{}", end.summary());
    assert_eq!((end.reason(), end.error()), (Some(Reason::Budget), Some(error.as_str())));
}

#[test]
fn a_call_in_the_summary_is_refused() {
    let mut machine = Machine::new(Some(1), 0);
    answer(&mut machine, "thinking", "a");
    machine.on_tool_results(&[]);
    let NextAction::End { end, refused } = answer(&mut machine, "", "ab") else { panic!() };
    assert_eq!(end.summary(), "thinking", "the newest text there is");
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
    assert!(matches!(machine.on_tool_results(&[]), NextAction::WrapUp { reason: Reason::StepLimit, .. }));
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
    assert!(matches!(machine.on_tool_results(&[]), NextAction::WrapUp { reason: Reason::StepLimit, .. }));
    let NextAction::End { end, .. } = machine.on_budget_exhausted() else { panic!() };
    assert_eq!(end, RunEnd::Paused { reason: Reason::StepLimit, summary: "one".into() });
}

#[test]
fn an_answer_that_the_budget_cut_is_a_failure_with_its_text() {
    let mut machine = Machine::new(None, 0);
    let said = view("half of a", &[], &StopReason::MaxTokens);
    machine.on_answer(&said);
    let NextAction::End { end, .. } = machine.on_truncated_answer() else { panic!() };
    assert_eq!((end.reason(), end.summary()), (Some(Reason::Budget), "half of a"));
}

#[test]
fn the_third_identical_call_is_refused_and_the_fourth_ends_the_run() {
    let mut machine = Machine::new(None, 0);
    assert_eq!(made(&answer(&mut machine, "", "a")), 1);
    assert_eq!(made(&answer(&mut machine, "", "a")), 1);
    let NextAction::CallTools(decisions) = answer(&mut machine, "", "a") else { panic!() };
    let [CallDecision::Refuse { text, looped: Some(3), .. }] = &decisions[..] else {
        panic!("{decisions:?}")
    };
    assert!(text.starts_with("LOOP DETECTED: You have called a with identical arguments 3 times."));
    let mut other = machine.clone();
    let next = answer(&mut other, "", "ba");
    assert!(matches!(next, NextAction::End { .. }), "something else in between changes nothing: {next:?}");
    let NextAction::End { end, refused } = answer(&mut machine, "", "a") else { panic!() };
    assert_eq!((end.status(), end.reason()), (RunStatus::Failed, Some(Reason::DoomLoop)));
    assert_eq!(refused.len(), 1);
}

#[test]
fn identical_calls_inside_one_message_count_too() {
    let mut machine = Machine::new(None, 0);
    let NextAction::CallTools(decisions) = answer(&mut machine, "", "aaa") else { panic!() };
    assert!(matches!(
        decisions[..],
        [CallDecision::Make(_), CallDecision::Make(_), CallDecision::Refuse { .. }]
    ));
    let NextAction::End { end, refused } = answer(&mut machine, "", "a") else { panic!() };
    assert_eq!((end.status(), end.reason()), (RunStatus::Failed, Some(Reason::DoomLoop)));
    assert_eq!(refused.len(), 1);
}

#[test]
fn a_poll_whose_results_change_is_not_ended() {
    let mut machine = Machine::new(None, 0);
    for progress in 0..20 {
        let calls = calls("a");
        let next = machine.on_answer(&view("", &calls, &StopReason::ToolCalls));
        assert!(matches!(next, NextAction::CallTools(_)), "{progress}: {next:?}");
        machine.on_tool_results(&results(&calls, &json!({ "progress": progress })));
    }
}

#[test]
fn a_truncated_answer_is_continued_and_its_parts_are_joined() {
    let mut machine = Machine::new(Some(1), 0);
    let next = truncated(&mut machine, "one, two, ", "");
    assert!(matches!(next, NextAction::AskAgain { reason: Reason::Truncated, .. }), "{next:?}");
    assert_eq!((machine.next_action(), machine.step()), (NextAction::CallModel { tools: true }, 1));
    truncated(&mut machine, "three, ", "");
    let NextAction::End { end, .. } = answer(&mut machine, "four", "") else { panic!() };
    assert_eq!(end, RunEnd::completed("one, two, three, four"));
    assert_eq!(machine.steps(), 1, "the parts of one answer are one step");
}

#[test]
fn an_answer_that_is_truncated_again_and_again_is_a_failure_with_its_text() {
    let mut machine = Machine::new(None, 0);
    for _ in 0..3 {
        assert!(matches!(truncated(&mut machine, "a", ""), NextAction::AskAgain { .. }));
    }
    let NextAction::End { end, .. } = truncated(&mut machine, "a", "") else { panic!() };
    assert_eq!((end.status(), end.reason()), (RunStatus::Failed, Some(Reason::Truncated)));
    assert_eq!(end.summary(), "aaaa");
}

#[test]
fn a_truncated_answer_that_is_not_continued_is_asked_for_once_more_and_then_a_failure() {
    let mut machine = Machine::new(None, 0);
    truncated(&mut machine, "one, ", "");
    let next = answer(&mut machine, "", "");
    assert!(matches!(next, NextAction::AskAgain { reason: Reason::Empty, .. }), "{next:?}");
    let mut other = machine.clone();
    let NextAction::End { end, .. } = answer(&mut other, "two", "") else { panic!() };
    assert_eq!(end, RunEnd::completed("one, two"));
    let NextAction::End { end, .. } = answer(&mut machine, " ", "") else { panic!() };
    assert_eq!((end.status(), end.reason()), (RunStatus::Failed, Some(Reason::Truncated)));
    assert_eq!(end.summary(), "one, ", "what is known is kept");
    assert_eq!(machine.steps(), 1, "all of it is one step");
}

#[test]
fn a_call_with_truncated_arguments_is_not_made() {
    let mut machine = Machine::new(None, 0);
    let NextAction::CallTools(decisions) = truncated(&mut machine, "", "ab") else { panic!() };
    let [CallDecision::Make(_), CallDecision::Refuse { text, looped: None, .. }] = &decisions[..] else {
        panic!("{decisions:?}")
    };
    assert!(text.contains("arguments are incomplete"), "{text}");
    for _ in 0..2 {
        assert!(matches!(truncated(&mut machine, "", "b"), NextAction::CallTools(_)));
    }
    let NextAction::End { end, refused } = truncated(&mut machine, "", "b") else { panic!() };
    assert_eq!((end.reason(), refused.len()), (Some(Reason::Truncated), 1));
}

#[test]
fn after_an_empty_answer_the_model_is_asked_once_more() {
    let mut machine = Machine::new(None, 0);
    let next = answer(&mut machine, " \n", "");
    assert!(matches!(next, NextAction::AskAgain { reason: Reason::Empty, .. }), "{next:?}");
    let mut other = machine.clone();
    let NextAction::End { end, .. } = answer(&mut other, "here it is", "") else { panic!() };
    assert_eq!(end, RunEnd::completed("here it is"));
    let NextAction::End { end, .. } = answer(&mut machine, "", "") else { panic!() };
    assert_eq!((end.status(), end.reason()), (RunStatus::Failed, Some(Reason::Empty)));
}

#[test]
fn a_provider_that_refuses_is_a_failure_with_its_word() {
    let mut machine = Machine::new(None, 0);
    let stop = StopReason::Refused("SAFETY".into());
    let NextAction::End { end, .. } = machine.on_answer(&view("", &[], &stop)) else { panic!() };
    assert_eq!(end.reason(), Some(Reason::Provider));
    assert!(end.error().unwrap().contains("SAFETY"));
}

/// What a model may do in one answer.
#[derive(Debug, Clone)]
enum Whim {
    Answer { text: bool, calls: Vec<u8> },
    Truncated { text: bool, calls: Vec<u8> },
    Fails,
    TimeIsUp,
    OverBudget,
}

fn whims() -> impl Strategy<Value = Whim> {
    prop_oneof![
        8 => (any::<bool>(), prop::collection::vec(0u8..6, 1..5)).prop_map(|(text, calls)| Whim::Answer { text, calls }),
        1 => any::<bool>().prop_map(|text| Whim::Answer { text, calls: vec![] }),
        1 => (any::<bool>(), prop::collection::vec(0u8..6, 0..3)).prop_map(|(text, calls)| Whim::Truncated { text, calls }),
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
        let (mut asked, mut asked_again, mut wrapped) = (0, 0, false);
        let mut limit = None;
        let end = loop {
            next = match next {
                NextAction::End { end, .. } => break end,
                NextAction::WrapUp { reason, .. } => {
                    prop_assert!(!wrapped, "summed up twice");
                    (wrapped, limit) = (true, Some(reason));
                    machine.next_action()
                }
                NextAction::AskAgain { .. } => {
                    asked_again += 1;
                    machine.next_action()
                }
                NextAction::CallTools(decisions) => {
                    prop_assert!(!wrapped, "no tool runs after the wrap-up");
                    prop_assert!(!decisions.is_empty());
                    machine.on_tool_results(&[])
                }
                NextAction::CallModel { tools } => {
                    asked += 1;
                    prop_assert_eq!(tools, !wrapped);
                    match whims.next().unwrap() {
                        Whim::Fails => machine.on_model_error("broken".into()),
                        Whim::TimeIsUp if wrapped => machine.on_grace_expired(),
                        Whim::TimeIsUp => machine.on_deadline(),
                        Whim::OverBudget => machine.on_budget_exhausted(),
                        whim @ (Whim::Answer { text, calls: names } | Whim::Truncated { text, calls: names }) => {
                            let is_truncated = matches!(whim, Whim::Truncated { .. });
                            let stop = if is_truncated { StopReason::MaxTokens } else { StopReason::End };
                            let calls: Vec<ToolCall> = names.iter().map(|n| ToolCall {
                                id: ToolCallId::new(), name: n.to_string(), input: json!({ "n": n % 3 }), provider: None,
                            }).collect();
                            let text = if *text { "text" } else { "" };
                            let said = view(text, &calls, &stop);
                            let next = machine.on_answer(&said);
                            // Every call has a verdict, in its order.
                            let decisions = match &next {
                                NextAction::CallTools(decisions) => decisions.clone(),
                                NextAction::End { refused, .. } => refused.clone(),
                                NextAction::AskAgain { .. } => Vec::new(),
                                other => panic!("{other:?}"),
                            };
                            let ids: Vec<ToolCallId> = decisions.iter().map(|decision| match decision {
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
        prop_assert!(asked <= allowed + 2 + asked_again);
        prop_assert!(asked_again <= 4 * (allowed + 2));
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
        let answers: Vec<Vec<ToolCall>> = behaviour.iter().map(|names| names.iter().map(|n| ToolCall {
            id: ToolCallId::new(), name: n.to_string(), input: json!({}), provider: None,
        }).collect()).collect();
        let output = json!({ "same": true });
        let mut whole = Machine::new(max_steps, 0);
        let mut history = Vec::new();
        for answer in &answers {
            let said = view("", answer, &StopReason::ToolCalls);
            if !matches!(whole.on_answer(&said), NextAction::CallTools(_)) || !matches!(whole.on_tool_results(&results(answer, &output)), NextAction::CallModel { tools: true }) {
                break;
            }
            history.push(answer);
        }
        let cut = cut.min(history.len());
        let mut again = Machine::new(max_steps, 0);
        for answer in &history[..cut] {
            again.replay_answer(&view("", answer, &StopReason::ToolCalls));
            again.replay_tool_results(&results(answer, &output));
        }
        // The one that was never interrupted is asked what is next after every answer.
        let mut first = Machine::new(max_steps, 0);
        let mut next = first.next_action();
        for answer in &history[..cut] {
            first.on_answer(&view("", answer, &StopReason::ToolCalls));
            next = first.on_tool_results(&results(answer, &output));
        }
        prop_assert_eq!(again.next_action(), next);
        // On to the end, past the warning, the limit or whatever comes first.
        for answer in &answers[cut..] {
            let said = view("", answer, &StopReason::ToolCalls);
            let next = first.on_answer(&said);
            prop_assert_eq!(again.on_answer(&said), next.clone());
            if matches!(next, NextAction::End { .. }) {
                break;
            }
            let results = results(answer, &output);
            prop_assert_eq!(again.on_tool_results(&results), first.on_tool_results(&results));
        }
    }
}

#[test]
fn four_equal_calls_of_one_answer_are_warned_about_and_the_next_answer_ends_the_run() {
    let mut machine = Machine::new(None, 0);
    let (first, output) = (calls("aaaa"), json!("same"));
    let next = machine.on_answer(&view("", &first, &StopReason::ToolCalls));
    let NextAction::CallTools(decisions) = next else { panic!("{next:?}") };
    let warned: Vec<bool> =
        decisions.iter().map(|one| matches!(one, CallDecision::Refuse { looped: Some(_), .. })).collect();
    assert_eq!(warned, [false, false, true, true]);
    machine.on_tool_results(&results(&first, &output));
    let NextAction::End { end, .. } = answer(&mut machine, "", "a") else { panic!("the model was warned") };
    assert_eq!((end.status(), end.reason()), (RunStatus::Failed, Some(Reason::DoomLoop)));
}

#[test]
fn an_unfinished_answer_is_the_summary_of_a_run_that_no_answer_follows() {
    let mut machine = Machine::new(None, 0);
    machine.record_unfinished_answer("Half a sen");
    machine.on_deadline();
    let NextAction::End { end, .. } = machine.on_grace_expired() else { panic!() };
    assert_eq!(end, RunEnd::Paused { reason: Reason::Timeout, summary: "Half a sen".into() });
    let NextAction::End { end, .. } = answer(&mut machine, "A whole summary.", "") else { panic!() };
    assert_eq!(end.summary(), "A whole summary.");
}

#[test]
fn an_unfinished_answer_follows_the_text_before_it_or_continues_a_truncated_one() {
    let mut machine = Machine::new(None, 0);
    answer(&mut machine, "I begin.", "a");
    machine.record_unfinished_answer("Now I");
    let NextAction::End { end, .. } = machine.on_grace_expired() else { panic!() };
    assert_eq!(end.summary(), "I begin.\n\nNow I");
    let mut machine = Machine::new(None, 0);
    truncated(&mut machine, "One, ", "");
    machine.record_unfinished_answer("two");
    let NextAction::End { end, .. } = machine.on_grace_expired() else { panic!() };
    assert_eq!(end.summary(), "One, two");
}

#[test]
fn an_unfinished_summary_follows_the_answer_that_the_deadline_dropped() {
    let summary_of = |machine: &Machine| {
        let NextAction::End { end, .. } = machine.on_grace_expired() else { panic!() };
        end.summary().to_owned()
    };
    let mut machine = Machine::new(None, 0);
    answer(&mut machine, "I begin.", "a");
    machine.record_unfinished_answer("finding0 finding1");
    machine.on_deadline();
    machine.record_unfinished_answer("To");
    assert_eq!(summary_of(&machine), "I begin.\n\nfinding0 finding1\n\nTo");
    // The summary is asked for once more, after a model call that failed.
    machine.record_unfinished_answer("In sum");
    assert_eq!(summary_of(&machine), "I begin.\n\nfinding0 finding1\n\nIn sum");
    let NextAction::End { end, .. } = answer(&mut machine, "A whole summary.", "") else { panic!() };
    assert_eq!(end.summary(), "A whole summary.");
    let mut machine = Machine::new(None, 0);
    truncated(&mut machine, "One, ", "");
    machine.record_unfinished_answer("tw");
    machine.on_deadline();
    machine.record_unfinished_answer("To");
    assert_eq!(summary_of(&machine), "One, tw\n\nTo");
}

#[test]
fn a_run_whose_model_wrote_nothing_ends_at_its_limit_with_what_it_did() {
    let mut machine = Machine::new(None, 0);
    answer(&mut machine, "", "ab");
    machine.on_deadline();
    let NextAction::End { end, .. } = machine.on_grace_expired() else { panic!() };
    assert!(end.summary().contains("took 1 step and called `a` (1), `b` (1);"), "{}", end.summary());
}

use emergent_domain::{
    chat::StopReason,
    run::{Reason, RunEnd, RunStatus},
};

use super::*;

/// A machine that was told to sum up because of this limit.
fn summing_up(limit: Reason) -> Machine {
    let mut machine = Machine::new(Some(if limit == Reason::StepLimit { 0 } else { 5 }), 0);
    let next = match limit {
        Reason::Timeout => machine.on_deadline(),
        Reason::Budget => machine.on_budget_exhausted(),
        _ => machine.next_action(),
    };
    assert!(matches!(next, NextAction::WrapUp { reason, .. } if reason == limit), "{next:?}");
    machine
}

fn answer(machine: &mut Machine, text: &str, stop: &StopReason) -> NextAction {
    machine.on_answer(&AnswerView { text, calls: Vec::new(), stop, ends_in_call: false })
}

fn asked_again(next: &NextAction) -> Option<Reason> {
    if let NextAction::AskAgain { reason, .. } = next { Some(*reason) } else { None }
}

#[track_caller]
fn ended(next: NextAction) -> RunEnd {
    let NextAction::End { end, .. } = next else { panic!("{next:?}") };
    end
}

#[test]
fn a_truncated_summary_is_continued_and_its_parts_are_joined() {
    for limit in [Reason::StepLimit, Reason::Timeout, Reason::Budget] {
        let mut machine = summing_up(limit);
        let next = answer(&mut machine, "One, ", &StopReason::MaxTokens);
        assert_eq!(asked_again(&next), Some(Reason::Truncated));
        assert_eq!(machine.next_action(), NextAction::CallModel { tools: false });
        let end = ended(answer(&mut machine, "two.", &StopReason::End));
        assert_eq!((end.summary(), end.reason()), ("One, two.", Some(limit)));
        assert_eq!(machine.incomplete_summary(), None);
    }
}

#[test]
fn a_summary_that_is_truncated_again_and_again_counts_as_far_as_it_goes() {
    let mut machine = summing_up(Reason::StepLimit);
    for _ in 0..MAX_CONTINUATIONS {
        let next = answer(&mut machine, "on ", &StopReason::MaxTokens);
        assert_eq!(asked_again(&next), Some(Reason::Truncated));
    }
    let end = ended(answer(&mut machine, "on ", &StopReason::MaxTokens));
    assert_eq!((end.status(), end.reason()), (RunStatus::Paused, Some(Reason::StepLimit)));
    assert_eq!(end.summary(), "on on on on ");
    assert_eq!(machine.incomplete_summary(), Some(Reason::Truncated));
}

#[test]
fn an_empty_summary_is_asked_for_once_more() {
    let mut machine = summing_up(Reason::Timeout);
    let next = answer(&mut machine, " ", &StopReason::End);
    assert_eq!(asked_again(&next), Some(Reason::Empty));
    let NextAction::AskAgain { text, .. } = next else { panic!() };
    assert!(text.contains("Tools are disabled"), "{text}");
    assert_eq!(ended(answer(&mut machine, "So far: one.", &StopReason::End)).summary(), "So far: one.");
    assert_eq!(machine.incomplete_summary(), None);

    let mut machine = summing_up(Reason::Timeout);
    answer(&mut machine, "", &StopReason::End);
    let end = ended(answer(&mut machine, "", &StopReason::End));
    assert_eq!((end.status(), end.reason()), (RunStatus::Paused, Some(Reason::Timeout)));
    assert!(!end.summary().is_empty(), "there is always a summary");
    assert_eq!(machine.incomplete_summary(), Some(Reason::Empty));
}

#[test]
fn a_truncated_summary_that_is_not_continued_is_asked_for_once_more() {
    let mut machine = summing_up(Reason::StepLimit);
    answer(&mut machine, "One, ", &StopReason::MaxTokens);
    let next = answer(&mut machine, "", &StopReason::End);
    assert_eq!(asked_again(&next), Some(Reason::Empty));
    let end = ended(answer(&mut machine, "", &StopReason::End));
    assert_eq!((end.summary(), end.reason()), ("One, ", Some(Reason::StepLimit)));
    assert_eq!(machine.incomplete_summary(), Some(Reason::Truncated));
}

#[test]
fn what_is_there_counts_if_the_continuation_does_not_fit_in_the_time_or_the_budget() {
    for limit in [Reason::StepLimit, Reason::Timeout] {
        let ends: [fn(&mut Machine) -> NextAction; 3] = [
            |machine| machine.on_grace_expired(),
            |machine| machine.on_budget_exhausted(),
            |machine| machine.on_model_error("broken".into()),
        ];
        for end in ends {
            let mut machine = summing_up(limit);
            answer(&mut machine, "One, ", &StopReason::MaxTokens);
            machine.record_unfinished_answer("tw");
            let end = ended(end(&mut machine));
            assert_eq!((end.summary(), end.reason()), ("One, tw", Some(limit)));
        }
        // The budget itself has cut the summary.
        let mut machine = summing_up(limit);
        answer(&mut machine, "One, ", &StopReason::MaxTokens);
        let end = ended(machine.on_truncated_answer());
        assert_eq!((end.summary(), end.reason()), ("One, ", Some(limit)));
        assert_eq!(machine.incomplete_summary(), Some(Reason::Truncated));
    }
}

#[test]
fn a_provider_that_refuses_to_sum_up_is_not_asked_again() {
    let mut machine = summing_up(Reason::StepLimit);
    let end = ended(answer(&mut machine, "", &StopReason::Refused("SAFETY".into())));
    assert_eq!((end.status(), end.reason()), (RunStatus::Paused, Some(Reason::StepLimit)));
    assert_eq!(machine.incomplete_summary(), Some(Reason::Empty));
}

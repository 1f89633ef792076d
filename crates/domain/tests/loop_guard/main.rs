//! The labelled set of call traces that the loop guard is measured with, and its figures.
//!
//! `cargo test -p emergent-domain --test loop_guard -- --nocapture` prints them.

mod traces;

use emergent_domain::{
    ids::ToolCallId,
    loops::{LoopCheck, LoopGuard, ObservedCall},
};
use traces::{Label, Trace, TracedCall};

const DOCS: &str = include_str!("../../../../docs/runs.md");

/// What the guard did with a trace.
#[derive(Debug, Default)]
struct Outcome {
    warned_at: Option<usize>,
    ended_at: Option<usize>,
}

fn observe(guard: &mut LoopGuard, call: &TracedCall) -> LoopCheck {
    let id = ToolCallId::new();
    let observed = ObservedCall { id, tool: &call.tool, input: &call.input, effect: call.effect };
    let check = guard.observe_answer([observed])[0];
    guard.record_result(id, &call.result, call.failed);
    check
}

/// Plays a trace whose calls come several in one answer. Returns whether the guard ends the run.
fn is_ended_in_answers_of(trace: &Trace, size: usize) -> bool {
    let mut guard = LoopGuard::default();
    trace.calls.chunks(size).any(|answer| {
        let ids: Vec<ToolCallId> = answer.iter().map(|_| ToolCallId::new()).collect();
        let observed = ids.iter().zip(answer).map(|(id, call)| ObservedCall {
            id: *id,
            tool: &call.tool,
            input: &call.input,
            effect: call.effect,
        });
        let checks = guard.observe_answer(observed);
        for (id, call) in ids.iter().zip(answer) {
            guard.record_result(*id, &call.result, call.failed);
        }
        checks.iter().any(|check| matches!(check, LoopCheck::End { .. }))
    })
}

fn play(trace: &Trace) -> Outcome {
    let (mut guard, mut outcome) = (LoopGuard::default(), Outcome::default());
    for (index, call) in trace.calls.iter().enumerate() {
        match observe(&mut guard, call) {
            LoopCheck::None => {}
            LoopCheck::Warn { .. } => outcome.warned_at = outcome.warned_at.or(Some(index)),
            LoopCheck::End { .. } => {
                outcome.ended_at = Some(index);
                break;
            }
        }
    }
    outcome
}

/// Whether a loop was ended within two repetitions after its warning.
fn is_ended_in_time(trace: &Trace, outcome: &Outcome) -> bool {
    let Label::Loop { length } = trace.label else { return false };
    match (outcome.warned_at, outcome.ended_at) {
        (Some(warned_at), Some(ended_at)) => ended_at <= warned_at + 2 * length,
        _ => false,
    }
}

#[test]
fn no_honest_trace_is_ended_and_loops_are_ended_within_two_repetitions() {
    let traces = traces::labelled_set();
    assert!(traces.len() >= 200, "{}", traces.len());
    let outcomes: Vec<(&Trace, Outcome)> = traces.iter().map(|trace| (trace, play(trace))).collect();
    let is_loop = |trace: &Trace| matches!(trace.label, Label::Loop { .. });
    let loops = outcomes.iter().filter(|(trace, _)| is_loop(trace)).count();
    let in_time = outcomes.iter().filter(|(trace, outcome)| is_ended_in_time(trace, outcome)).count();
    let ended = outcomes.iter().filter(|(_, outcome)| outcome.ended_at.is_some()).count();
    let wrongly: Vec<&str> = outcomes
        .iter()
        .filter(|(trace, outcome)| !is_loop(trace) && outcome.ended_at.is_some())
        .map(|(trace, _)| trace.name.as_str())
        .collect();
    let late: Vec<String> = outcomes
        .iter()
        .filter(|(trace, outcome)| is_loop(trace) && !is_ended_in_time(trace, outcome))
        .map(|(trace, outcome)| format!("{}, {:?}: {outcome:?}", trace.name, trace.label))
        .collect();
    let honest_warned =
        outcomes.iter().filter(|(trace, outcome)| !is_loop(trace) && outcome.warned_at.is_some()).count();
    let percent = |part: usize, whole: usize| 100.0 * part as f64 / whole.max(1) as f64;
    println!("traces: {}, of them loops: {loops}, honest: {}", traces.len(), traces.len() - loops);
    println!("precision: {:.1} % of the ended traces are loops", percent(ended - wrongly.len(), ended));
    println!(
        "recall: {:.1} % of the loops ended within two repetitions after the warning",
        percent(in_time, loops)
    );
    println!("honest traces with a warning, which were not ended: {honest_warned}");
    println!("not ended in time: {late:?}");
    assert!(wrongly.is_empty(), "honest traces that were ended: {wrongly:?}");
    assert!(percent(in_time, loops) >= 95.0, "loops that were not ended in time: {late:?}");
    // The documentation has these figures.
    let honest = traces.len() - loops;
    let recall = percent(in_time, loops);
    for (row, figure) in [
        (format!("| {loops} loops |"), format!("(recall {recall:.0} %)")),
        (format!("| {honest} honest traces |"), format!("(precision 100 %); {honest_warned} get a warning")),
    ] {
        let line = DOCS.lines().find(|line| line.starts_with(&row));
        assert!(line.is_some_and(|line| line.contains(&figure)), "docs/runs.md has no `{row} … {figure}`");
    }
}

#[test]
fn writes_and_reads_of_one_answer_are_loops_and_honest_as_they_are_one_by_one() {
    let traces = traces::set_beside_own_writes();
    for size in [2, 3] {
        let (loops, honest): (Vec<&Trace>, Vec<&Trace>) =
            traces.iter().partition(|trace| matches!(trace.label, Label::Loop { .. }));
        let is_ended = |trace: &&&Trace| is_ended_in_answers_of(trace, size);
        let wrongly: Vec<&str> = honest.iter().filter(is_ended).map(|trace| trace.name.as_str()).collect();
        let ended = loops.iter().filter(is_ended).count();
        println!(
            "{size} calls in an answer: {ended} of {} loops ended, {} of {} honest traces",
            loops.len(),
            wrongly.len(),
            honest.len()
        );
        assert!(wrongly.is_empty(), "honest traces that were ended: {wrongly:?}");
        assert!(ended * 100 >= loops.len() * 95, "{ended} of {}", loops.len());
    }
}

#[test]
fn a_guard_that_is_rebuilt_from_the_record_decides_the_same() {
    for trace in traces::labelled_set() {
        let mut guard = LoopGuard::default();
        for (index, call) in trace.calls.iter().enumerate() {
            // Long traces are rebuilt less often, because each time replays all of it.
            if index % (7 + index / 4) == 3 {
                // The record has the calls and their results, but not what the guard decided.
                let mut rebuilt = LoopGuard::default();
                for earlier in &trace.calls[..index] {
                    observe(&mut rebuilt, earlier);
                }
                assert_eq!(
                    observe(&mut rebuilt, call),
                    observe(&mut guard.clone(), call),
                    "{} at {index}",
                    trace.name
                );
            }
            if matches!(observe(&mut guard, call), LoopCheck::End { .. }) {
                break;
            }
        }
    }
}

use serde_json::{Value, json};

use super::*;

/// Plays a run that is written as text: a letter is a read, a capital letter a write, and a digit after it
/// is its result. In the outcome `.` means that the call is made, `!` that it is warned about and `#` that
/// it ends the run.
fn play(calls: &str) -> String {
    let mut guard = LoopGuard::default();
    let mut outcomes = String::new();
    let mut calls = calls.chars().filter(|c| !c.is_whitespace()).peekable();
    while let Some(call) = calls.next() {
        let result = calls.next_if(char::is_ascii_digit);
        let effect = if call.is_uppercase() { CallEffect::Writes } else { CallEffect::Reads };
        let (id, input) = (ToolCallId::new(), json!({ "call": call.to_string() }));
        outcomes.push(match guard.observe(ObservedCall { id, tool: "tool", input: &input, effect }) {
            LoopCheck::None => '.',
            LoopCheck::Warn { .. } => '!',
            LoopCheck::End { .. } => '#',
        });
        guard.record_result(id, &json!({ "result": result.map(String::from) }), false);
    }
    outcomes
}

#[track_caller]
fn check(calls: &str, expected: &str) {
    assert_eq!(play(calls), expected, "{calls}");
}

#[test]
fn the_third_identical_call_is_warned_about_and_the_fourth_ends_the_run() {
    check("aaaa", "..!#");
    check("xaaaa", "...!#");
    check("aabaab", "......");
}

#[test]
fn the_same_call_after_the_warning_ends_the_run_whatever_lies_between() {
    check("aaaba", "..!.#");
    check("aaabcdefga", "..!......#");
    check("aaab aaac", "..!.###.");
}

#[test]
fn the_same_cycle_after_the_warning_ends_the_run_whatever_lies_between() {
    check("abababab", ".....!.#");
    check("abcabcabcabc", "........!..#");
    check("ababab xyz ab", ".....!....#");
    check("ababab xaybz", ".....!...#.");
}

#[test]
fn long_cycles_are_found() {
    let cycle: String = ('a'..='x').collect();
    let outcomes = play(&cycle.repeat(5));
    let warned_at = outcomes.find('!').unwrap();
    assert!(warned_at < cycle.len() * 3, "{outcomes}");
    assert!(outcomes.find('#').unwrap() <= warned_at + cycle.len(), "{outcomes}");
}

#[test]
fn a_loop_without_an_order_is_found_by_its_results() {
    let outcomes = play("abc bca cab acb bac cba abc bca");
    assert!(outcomes.contains('!') && outcomes.contains('#'), "{outcomes}");
}

#[test]
fn a_cycle_that_changes_is_no_loop() {
    check("abacabad", "........");
    check("abcabdabe", ".........");
}

#[test]
fn polling_is_not_ended_while_its_results_change() {
    check("a1a2a3a4a5a6", "..!...");
    check("a1a2a3a4a4a5a5a6", "..!.....");
    check("a1a2a3a4a4a4a4", "..!...#");
    check("a1b1a1b2a1b3a1b4a1b5", ".....!....");
}

#[test]
fn a_result_that_alternates_is_no_progress() {
    assert!(play("a1a2a1a2a1a2a1a2").contains('#'));
}

#[test]
fn a_call_may_be_repeated_once_after_a_change_and_again_if_its_result_is_new() {
    check("a1a1a1 W a1a1", "..!..#");
    check("a1a1a1 W a2 X a3 Y a4", "..!......");
    check("a1a1a1 W a1 X a1", "..!...#");
}

#[test]
fn a_write_that_is_repeated_is_a_loop_although_it_returns_another_id() {
    check("W1W2W3W4", "..!#");
    check("W1aW2aW3aW4a", ".....!.#");
}

#[test]
fn a_question_in_other_spellings_is_the_same_question() {
    let mut guard = LoopGuard::default();
    let mut outcomes = Vec::new();
    for query in ["bees", "Bees", "bees ", "BEES?", "bees.", "bees!"] {
        let (id, input) = (ToolCallId::new(), json!({ "query": query }));
        let call = ObservedCall { id, tool: "search", input: &input, effect: CallEffect::Reads };
        outcomes.push(guard.observe(call));
        guard.record_result(id, &json!({ "items": [], "took_ms": outcomes.len() }), false);
    }
    assert_eq!(outcomes[..4], [LoopCheck::None; 4]);
    assert_eq!(outcomes[4..], [LoopCheck::Warn { count: 5 }, LoopCheck::End { count: 1 }]);
}

#[test]
fn a_run_that_finds_a_new_loop_after_every_warning_ends() {
    check("aaabbbcccdddeeefff", "..!..!..!..!..!..#");
}

#[test]
fn arguments_are_compared_by_value() {
    let mut guard = LoopGuard::default();
    let mut observe = |input: Value| {
        let id = ToolCallId::new();
        guard.observe(ObservedCall { id, tool: "t", input: &input, effect: CallEffect::Reads })
    };
    observe(serde_json::from_str(r#"{"a":1,"b":[1,{"x":2,"y":3}]}"#).unwrap());
    observe(serde_json::from_str(r#"{"b":[1.0,{"y":3,"x":2}],"a":1}"#).unwrap());
    assert_eq!(observe(json!({ "b": [1, { "x": 2, "y": 3 }], "a": 1 })), LoopCheck::Warn { count: 3 });
}

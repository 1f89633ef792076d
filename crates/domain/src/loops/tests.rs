use serde_json::{Value, json};

use super::*;

/// Plays a run that is written as text: a letter is a read, a capital letter a write, and a digit after it
/// is its result. Each call is an answer of its own, and calls in brackets are one answer. In the outcome `.` means that the call is made, `!` that it is warned about and `#` that
/// it ends the run.
fn play(calls: &str) -> String {
    let mut guard = LoopGuard::default();
    let mut outcomes = String::new();
    let mut chars = calls.chars().filter(|c| !c.is_whitespace()).peekable();
    let mut answer = Vec::new();
    let mut is_open = false;
    while let Some(next) = chars.next() {
        match next {
            '[' => is_open = true,
            ']' => is_open = false,
            call => answer.push((call, chars.next_if(char::is_ascii_digit))),
        }
        if !is_open {
            outcomes.extend(play_answer(&mut guard, &std::mem::take(&mut answer)));
        }
    }
    outcomes
}

fn play_answer(guard: &mut LoopGuard, answer: &[(char, Option<char>)]) -> Vec<char> {
    let calls: Vec<(ToolCallId, Value, CallEffect)> = answer
        .iter()
        .map(|(call, _)| {
            let effect = if call.is_uppercase() { CallEffect::Writes } else { CallEffect::Reads };
            (ToolCallId::new(), json!({ "call": call.to_string() }), effect)
        })
        .collect();
    let observed = calls.iter().map(|(id, input, effect)| ObservedCall {
        id: *id,
        tool: "tool",
        input,
        effect: *effect,
    });
    let checks = guard.observe_answer(observed);
    for ((id, ..), (_, result)) in calls.iter().zip(answer) {
        guard.record_result(*id, &json!({ "result": result.map(String::from) }), false);
    }
    let outcome = |check| match check {
        LoopCheck::None => '.',
        LoopCheck::Warn { .. } => '!',
        LoopCheck::End { .. } => '#',
    };
    checks.into_iter().map(outcome).collect()
}

/// Plays an answer with this one call.
fn observe(guard: &mut LoopGuard, call: ObservedCall<'_>) -> LoopCheck {
    guard.observe_answer([call])[0]
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
fn calls_of_the_answer_that_is_warned_do_not_end_the_run() {
    check("[aaaa]", "..!!");
    check("[aaaaaa] b", "..!!!!.");
    check("[abababab]", ".....!!!");
    check("aa[aab]", "..!!.");
    check("[aaabbbcccdddeeefff]", "..!..!..!..!..!..!");
}

#[test]
fn a_call_of_the_answer_after_the_warning_ends_the_run() {
    check("[aaaa] a", "..!!#");
    check("[aaaa] [bab]", "..!!.#.");
    check("[abababab] ab", ".....!!!.#");
    check("[aaabbbcccdddeee] fff", "..!..!..!..!..!..#");
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
    assert!(outcomes.find('#').unwrap() <= warned_at + cycle.len() * 2, "{outcomes}");
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
        outcomes.push(observe(&mut guard, call));
        guard.record_result(id, &json!({ "items": [], "took_ms": outcomes.len() }), false);
    }
    assert_eq!(outcomes[..4], [LoopCheck::None; 4]);
    assert_eq!(
        outcomes[4..],
        [
            LoopCheck::Warn { count: 5, kind: LoopKind::SameQuestion },
            LoopCheck::End { count: 6, kind: LoopKind::SameQuestion }
        ]
    );
    let error = loop_error("search", 6, LoopKind::SameQuestion);
    assert!(
        error.contains("it called `search` 6 times with arguments that differ only in spelling"),
        "{error}"
    );
}

#[test]
fn a_call_again_and_again_between_others_that_bring_nothing_new_is_a_loop() {
    check("abacadaeafag", "........!.#.");
    check("abacadae a b1 acad", "........!.....");
}

#[test]
fn thirty_calls_without_news_are_warned_about_and_thirty_more_end_the_run() {
    let letters: String = ('a'..='z').chain('α'..='ω').chain('а'..='я').collect();
    let outcomes = play(&letters);
    // The result of the first call is new, and all others return the same.
    assert_eq!(outcomes.find('!'), Some(31), "{outcomes}");
    assert_eq!(outcomes.find('#'), Some(62), "{outcomes}");
    assert_eq!(outcomes.matches('!').count(), 1, "{outcomes}");
}

#[test]
fn anything_new_after_the_warning_starts_the_count_anew() {
    let letters: Vec<char> = ('a'..='z').chain('α'..='ω').chain('а'..='я').collect();
    let (first, second) = letters.split_at(40);
    for news in ["z1", "W"] {
        let calls: String = first.iter().copied().chain(news.chars()).chain(second.iter().copied()).collect();
        assert!(!play(&calls).contains('#'), "{calls}");
    }
}

#[test]
fn a_tool_that_was_not_called_and_a_first_write_are_made_after_any_number_of_idle_calls() {
    let mut guard = LoopGuard::default();
    let mut last = |tool: &str, n: usize, effect: CallEffect| {
        let (id, input) = (ToolCallId::new(), json!({ "n": n }));
        let check = observe(&mut guard, ObservedCall { id, tool, input: &input, effect });
        guard.record_result(id, &json!([]), false);
        check
    };
    assert!((0..31).all(|n| last("look", n, CallEffect::Reads) == LoopCheck::None));
    assert_eq!(last("submit", 0, CallEffect::Reads), LoopCheck::None);
    let checks: Vec<LoopCheck> = (31..95).map(|n| last("look", n, CallEffect::Reads)).collect();
    assert_eq!(checks[30], LoopCheck::Warn { count: 30, kind: LoopKind::Idle });
    assert_eq!(checks[61], LoopCheck::End { count: 60, kind: LoopKind::Idle });
    assert_eq!(last("write", 0, CallEffect::Writes), LoopCheck::None);
}

#[test]
fn a_run_that_finds_a_new_loop_after_every_warning_ends() {
    check("aaabbbcccdddeeefff", "..!..!..!..!..!..#");
}

#[test]
fn arguments_are_compared_by_value() {
    let mut guard = LoopGuard::default();
    let mut observe_input = |input: Value| {
        let id = ToolCallId::new();
        observe(&mut guard, ObservedCall { id, tool: "t", input: &input, effect: CallEffect::Reads })
    };
    observe_input(serde_json::from_str(r#"{"a":1,"b":[1,{"x":2,"y":3}]}"#).unwrap());
    observe_input(serde_json::from_str(r#"{"b":[1.0,{"y":3,"x":2}],"a":1}"#).unwrap());
    let warning = LoopCheck::Warn { count: 3, kind: LoopKind::SameCall };
    assert_eq!(observe_input(json!({ "b": [1, { "x": 2, "y": 3 }], "a": 1 })), warning);
}

/// Returns the first warning about these calls, each a letter that is the name of its tool. The results of all calls
/// are the same.
fn first_warning(calls: &str) -> String {
    let (mut guard, input) = (LoopGuard::default(), json!({}));
    for tool in calls.chars().map(String::from) {
        let id = ToolCallId::new();
        let call = ObservedCall { id, tool: &tool, input: &input, effect: CallEffect::Reads };
        match observe(&mut guard, call) {
            LoopCheck::Warn { count, kind } => return loop_warning(&tool, count, kind),
            _ => guard.record_result(id, &json!("same"), false),
        }
    }
    String::new()
}

#[test]
fn the_warning_says_what_is_repeated_and_what_follows() {
    let same = first_warning("aaa");
    assert!(
        same.contains("You have called a with identical arguments 3 times. This tool call will not"),
        "{same}"
    );
    let cycle = first_warning("abcabcabc");
    assert!(cycle.contains("in a cycle of 3 tool calls"), "{cycle}");
    let known = first_warning("abcdbadcdabcbdacabdc");
    assert!(known.contains("your last 8 tool calls returned nothing"), "{known}");
    let similar = loop_warning("search", 5, LoopKind::SameQuestion);
    assert!(similar.contains("differ only in spelling") && !similar.contains("identical"), "{similar}");
    let revisited = first_warning("abcabdabeabfabgabh");
    assert!(revisited.is_empty(), "each of the tools brings something new: {revisited}");
    let nothing_new = loop_warning("search", 5, LoopKind::NothingNew);
    assert!(nothing_new.contains("no other tool call in between returned anything new"), "{nothing_new}");
    let failing = loop_warning("search", 9, LoopKind::SameFailure);
    assert!(failing.contains("9 times, and it always failed with the same error"), "{failing}");
    let idle = loop_warning("search", 30, LoopKind::Idle);
    assert!(idle.contains("Your last 30 tool calls brought nothing new"), "{idle}");
    for warning in [same, cycle, known, similar, nothing_new, failing, idle] {
        assert!(warning.starts_with("LOOP DETECTED: ") && warning.ends_with("your run ends."), "{warning}");
    }
}

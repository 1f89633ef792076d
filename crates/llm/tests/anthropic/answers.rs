use emergent_domain::chat::{Part, StopReason, Usage};
use serde_json::{Value, json};

use super::{
    answer, arguments,
    conversation::{class, outline, spoken},
    events, hears, message, said,
    support::{pieces, streamed},
    text, tool_use,
};

#[tokio::test]
async fn an_answer_is_the_same_however_its_bytes_are_cut() {
    let plain = events(&message(&[(text(), &[said("Grüße aus "), said("東京 🦀, \"ja\".")])], "end_turn"));
    let crlf = plain.replace('\n', "\r\n");
    for text in [&plain, &crlf] {
        for size in [1, 2, 7, 100, usize::MAX] {
            let (answer, deltas) = hears(streamed(pieces(text, size))).await;
            let answer = answer.unwrap();
            assert_eq!(answer.text(), "Grüße aus 東京 🦀, \"ja\".", "in pieces of {size}");
            assert_eq!(spoken(&deltas), answer.text());
            assert_eq!(deltas.len(), 2);
            assert_eq!(answer.stop, StopReason::End);
        }
    }
}

#[tokio::test]
async fn usage_counts_the_whole_prompt_and_the_last_sum_of_the_output() {
    let answer = answer(&message(&[(text(), &[said("Hm.")])], "end_turn")).await.unwrap();
    let expected = Usage { input: 3211, output: 42, reasoning: 0, cache_read: 3000, cache_write: 200 };
    assert_eq!(answer.usage, expected);
}

#[tokio::test]
async fn parallel_calls_come_with_what_was_said_before_them() {
    let blocks: [(Value, &[Value]); 3] = [
        (text(), &[said("I look.")]),
        (tool_use("get_weather"), &[arguments(""), arguments("{\"ci"), arguments("ty\":\"Oslo\"}")]),
        (tool_use("get_time"), &[arguments("{\"zone\":\"CET\"}")]),
    ];
    let answer = answer(&message(&blocks, "tool_use")).await.unwrap();
    let expected = [
        json!("I look."),
        json!(["get_weather", { "city": "Oslo" }]),
        json!(["get_time", { "zone": "CET" }]),
    ];
    assert_eq!(outline(&answer.parts), expected);
    assert_eq!(answer.stop, StopReason::ToolCalls);
    let [_, Part::Call(one), Part::Call(two)] = &answer.parts[..] else { panic!("two calls") };
    assert_ne!(one.id, two.id);
}

#[tokio::test]
async fn blocks_may_grow_side_by_side() {
    let mut list = message(&[(text(), &[]), (tool_use("one"), &[])], "tool_use");
    let delta = |index, delta| json!({ "type": "content_block_delta", "index": index, "delta": delta });
    let pieces = [
        delta(1, arguments("{\"a\"")),
        delta(0, said("I ")),
        delta(1, arguments(":1}")),
        delta(0, said("look.")),
    ];
    let ends = list.len() - 2;
    list.splice(ends..ends, pieces);
    let answer = answer(&list).await.unwrap();
    assert_eq!(outline(&answer.parts), [json!("I look."), json!(["one", { "a": 1 }])]);
}

#[tokio::test]
async fn arguments_that_are_no_object_are_kept_as_they_were_written() {
    for (pieces, input) in [
        (vec![], json!({})),
        (vec![arguments("")], json!({})),
        (vec![arguments("{\"city\": Os")], json!("{\"city\": Os")),
        (vec![arguments("[1]")], json!("[1]")),
    ] {
        let answer = answer(&message(&[(tool_use("one"), &pieces)], "tool_use")).await.unwrap();
        assert_eq!(outline(&answer.parts), [json!(["one", input])]);
    }
}

#[tokio::test]
async fn arguments_sent_in_one_piece_are_read_too() {
    let block = json!({ "type": "tool_use", "id": "x", "name": "one", "input": { "a": 1 } });
    let answer = answer(&message(&[(block, &[])], "tool_use")).await.unwrap();
    assert_eq!(outline(&answer.parts), [json!(["one", { "a": 1 }])]);
}

#[tokio::test]
async fn thoughts_keep_what_the_provider_wants_to_see_again() {
    let thinking = json!({ "type": "thinking", "thinking": "", "signature": "" });
    let thought = |piece: &str| json!({ "type": "thinking_delta", "thinking": piece });
    let redacted = json!({ "type": "redacted_thinking", "data": "EmwKAhgB" });
    let signature = |piece: &str| json!({ "type": "signature_delta", "signature": piece });
    let blocks: [(Value, &[Value]); 3] = [
        (thinking, &[thought("Let me "), thought("see."), signature("EqQB"), signature("CgIY")]),
        (redacted.clone(), &[]),
        (text(), &[said("Sunny.")]),
    ];
    let (answer, deltas) = hears(streamed(pieces(&events(&message(&blocks, "end_turn")), 13))).await;
    let answer = answer.unwrap();
    let signed = json!({ "type": "thinking", "signature": "EqQBCgIY" });
    let expected = [
        json!({ "thought": "Let me see.", "provider": signed }),
        json!({ "thought": "", "provider": redacted }),
        json!("Sunny."),
    ];
    assert_eq!(outline(&answer.parts), expected);
    assert_eq!(spoken(&deltas), "[Let me ][see.]Sunny.");
}

#[tokio::test]
async fn what_is_newer_than_this_code_is_passed_over() {
    let citation = json!({ "type": "citations_delta", "citation": {} });
    let blocks: [(Value, &[Value]); 2] = [
        (
            json!({ "type": "server_tool_use", "id": "s", "name": "web_search", "input": {} }),
            &[arguments("{}")],
        ),
        (text(), &[said("Sunny."), citation]),
    ];
    let mut list = message(&blocks, "end_turn");
    list.insert(1, json!({ "type": "something_new", "index": 7 }));
    let answer = answer(&list).await.unwrap();
    assert_eq!(outline(&answer.parts), [json!("Sunny.")]);
}

#[tokio::test]
async fn the_reason_to_stop_is_told_in_our_words() {
    for (reason, stop) in [
        ("end_turn", StopReason::End),
        ("stop_sequence", StopReason::End),
        ("max_tokens", StopReason::MaxTokens),
        ("refusal", StopReason::Refused("refusal".into())),
        ("pause_turn", StopReason::Other("pause_turn".into())),
    ] {
        let answer = answer(&message(&[(text(), &[said("Hm.")])], reason)).await.unwrap();
        assert_eq!(answer.stop, stop);
    }
    let full = answer(&message(&[(text(), &[said("Hm.")])], "model_context_window_exceeded")).await;
    assert_eq!(class(&full.unwrap_err()), "context too long");
}

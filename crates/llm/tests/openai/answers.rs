use std::time::Duration;

use emergent_domain::chat::{Part, StopReason, Usage};
use serde_json::{Value, json};

use super::{
    answer,
    conversation::{outline, spoken},
    delta, events, finish, hears,
    support::{Step, pieces, streamed},
    usage, whole,
};

fn said(text: &str) -> Value {
    delta(json!({ "content": text }))
}

fn calls(calls: Value) -> Value {
    delta(json!({ "tool_calls": calls }))
}

fn greeting() -> Vec<Value> {
    vec![
        delta(json!({ "role": "assistant", "content": "", "refusal": null })),
        said("Grüße aus "),
        said("東京 🦀, \"ja\"."),
        finish("stop"),
        usage(json!({
            "prompt_tokens": 1200, "completion_tokens": 30, "total_tokens": 1230,
            "prompt_tokens_details": { "cached_tokens": 1024, "audio_tokens": 0 },
            "completion_tokens_details": { "reasoning_tokens": 12 },
        })),
    ]
}

#[tokio::test]
async fn an_answer_is_the_same_however_its_bytes_are_cut() {
    let plain = whole(&greeting());
    let crlf = plain.replace('\n', "\r\n");
    for text in [&plain, &crlf] {
        for size in [1, 2, 7, 100, usize::MAX] {
            let (answer, deltas) = hears(streamed(pieces(text, size))).await;
            let answer = answer.unwrap();
            assert_eq!(answer.text(), "Grüße aus 東京 🦀, \"ja\".", "in pieces of {size}");
            assert_eq!(spoken(&deltas), answer.text());
            assert_eq!(answer.stop, StopReason::End);
            let usage = Usage { input: 1200, output: 30, reasoning: 12, cache_read: 1024, cache_write: 0 };
            assert_eq!(answer.usage, usage);
        }
    }
}

#[tokio::test]
async fn deltas_arrive_while_the_model_speaks() {
    let (_, deltas) = hears(streamed(pieces(&whole(&greeting()), 5))).await;
    assert_eq!(deltas.len(), 2);
}

#[tokio::test]
async fn keep_alive_comments_hold_a_slow_stream_open() {
    let pause = || Step::Pause(Duration::from_millis(120));
    let mut steps = vec![];
    for _ in 0..4 {
        steps.extend([pause(), Step::Send(b": OPENROUTER PROCESSING\n\n".to_vec())]);
    }
    steps.extend(pieces(&whole(&greeting()), 9));
    // The four pauses together are longer than the idle timeout.
    assert!(hears(streamed(steps)).await.0.is_ok());
}

#[tokio::test]
async fn parallel_calls_are_put_together_by_their_number() {
    let answer = answer(&[
        said("I look."),
        calls(json!([{ "index": 0, "id": "call_a", "type": "function",
            "function": { "name": "get_weather", "arguments": "" } }])),
        calls(json!([{ "index": 0, "function": { "arguments": "{\"ci" } }])),
        calls(json!([{ "index": 1, "id": "call_b", "type": "function",
            "function": { "name": "get_time", "arguments": "" } }])),
        // A call may continue after the next one has started.
        calls(json!([
            { "index": 0, "function": { "arguments": "ty\":\"Oslo\"}" } },
            { "index": 1, "function": { "arguments": "{\"zone\":\"CET\"}" } },
        ])),
        finish("tool_calls"),
    ])
    .await;
    let expected = [
        json!("I look."),
        json!(["get_weather", { "city": "Oslo" }]),
        json!(["get_time", { "zone": "CET" }]),
    ];
    assert_eq!(outline(&answer.parts), expected);
    assert_eq!(answer.stop, StopReason::ToolCalls);
    let ids = answer.parts.iter().filter_map(|part| match part {
        Part::Call(call) => Some(call.id),
        _ => None,
    });
    let ids: Vec<_> = ids.collect();
    assert_ne!(ids[0], ids[1]);
}

/// Checks the calls that these pieces produce.
async fn check(chunks: &[Value], expected: &[Value]) {
    let chunks: Vec<Value> = chunks.iter().cloned().map(calls).chain([finish("stop")]).collect();
    let answer = answer(&chunks).await;
    assert_eq!(outline(&answer.parts), expected);
    // Compatible servers always report `stop`.
    assert_eq!(answer.stop, StopReason::ToolCalls);
}

#[tokio::test]
async fn calls_of_servers_that_number_them_badly_are_still_told_apart() {
    let one = json!({ "name": "one", "arguments": "{\"a\":1}" });
    let two = json!({ "name": "two", "arguments": "{\"b\":2}" });
    let both = [json!(["one", { "a": 1 }]), json!(["two", { "b": 2 }])];
    // All calls have the same index, and each is complete.
    let same = [
        json!([{ "index": 0, "id": "x", "function": one }]),
        json!([{ "index": 0, "id": "y", "function": two }]),
    ];
    check(&same, &both).await;
    // The calls have no index, are complete and in one chunk; with ids and without.
    check(&[json!([{ "id": "x", "function": one }, { "id": "y", "function": two }])], &both).await;
    check(&[json!([{ "function": one }, { "function": two }])], &both).await;
    // The calls have no index and arrive in pieces.
    let pieces = [
        json!([{ "id": "x", "function": { "name": "one", "arguments": "{\"a\"" } }]),
        json!([{ "function": { "arguments": ":1}" } }]),
    ];
    check(&pieces, &both[..1]).await;
    // The id and the name are in every piece.
    let repeated = [
        json!([{ "index": 0, "id": "x", "function": { "name": "one", "arguments": "{\"a\"" } }]),
        json!([{ "index": 0, "id": "x", "function": { "name": "one", "arguments": ":1}" } }]),
    ];
    check(&repeated, &both[..1]).await;
    // The arguments are an object instead of a string.
    check(&[json!([{ "index": 0, "function": { "name": "one", "arguments": { "a": 1 } } }])], &both[..1])
        .await;
}

#[tokio::test]
async fn arguments_that_are_no_object_are_kept_as_they_were_written() {
    for (arguments, input) in [
        ("", json!({})),
        ("{\"city\": Os", json!("{\"city\": Os")),
        ("[1]", json!("[1]")),
        ("\"Oslo\"", json!("\"Oslo\"")),
    ] {
        let chunk = json!([{ "index": 0, "id": "x", "function": { "name": "one", "arguments": arguments } }]);
        check(&[chunk], &[json!(["one", input])]).await;
    }
}

#[tokio::test]
async fn thoughts_stand_apart_from_the_answer() {
    for name in ["reasoning_content", "reasoning"] {
        let chunks = [
            delta(json!({ name: "Let me " })),
            delta(json!({ name: "see.", "content": null })),
            said("Sunny."),
            finish("stop"),
        ];
        let (answer, deltas) = hears(streamed(pieces(&whole(&chunks), 50))).await;
        let answer = answer.unwrap();
        let thought = json!({ "thought": "Let me see.", "provider": null });
        assert_eq!(outline(&answer.parts), [thought, json!("Sunny.")]);
        assert_eq!(answer.text(), "Sunny.");
        assert_eq!(spoken(&deltas), "[Let me ][see.]Sunny.");
    }
}

#[tokio::test]
async fn the_reason_to_stop_is_told_in_our_words() {
    for (reason, stop) in [
        ("stop", StopReason::End),
        ("length", StopReason::MaxTokens),
        ("content_filter", StopReason::Refused("content_filter".into())),
        ("something_new", StopReason::Other("something_new".into())),
    ] {
        assert_eq!(answer(&[said("Hm."), finish(reason)]).await.stop, stop);
    }
    let refused = answer(&[delta(json!({ "refusal": "I cannot." })), finish("stop")]).await;
    assert_eq!(refused.stop, StopReason::Refused("refusal".into()));
    assert_eq!(refused.text(), "I cannot.");
}

#[tokio::test]
async fn a_finished_answer_needs_no_closing_mark() {
    let text = events(&[said("Sunny."), finish("stop")]);
    let (answer, _) = hears(streamed(pieces(&text, usize::MAX))).await;
    assert_eq!(answer.unwrap().text(), "Sunny.");
}

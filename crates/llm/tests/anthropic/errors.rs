use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{
    answer,
    conversation::{class, spoken},
    events, hears, message, said,
    support::{Reply, Step, pieces, status, streamed},
    text,
};

fn failure(kind: &str, message: &str) -> Value {
    json!({ "type": "error", "error": { "type": kind, "message": message }, "request_id": "req_1" })
}

/// The first events of an answer: the text so far is `Sun`, more follows.
fn started_answer() -> Vec<Value> {
    let mut list = message(&[(text(), &[said("Sun")])], "end_turn");
    list.truncate(4);
    list
}

#[tokio::test]
async fn a_refusal_says_what_can_be_done() {
    for (code, kind, expected) in [
        (400, "invalid_request_error", "bad request"),
        (401, "authentication_error", "auth"),
        (403, "permission_error", "auth"),
        (404, "not_found_error", "bad request"),
        (429, "rate_limit_error", "rate limited"),
        (500, "api_error", "overloaded"),
        (529, "overloaded_error", "overloaded"),
    ] {
        let error = hears(status(code, failure(kind, "so it is"))).await.0.unwrap_err();
        assert_eq!(class(&error), expected, "{code}");
        assert!(error.to_string().ends_with("so it is"), "{error}");
        // The same error after the answer has started.
        let mut list = started_answer();
        list.push(failure(kind, "so it is"));
        let (result, deltas) = hears(streamed(pieces(&events(&list), 17))).await;
        assert_eq!(class(&result.unwrap_err()), expected, "{kind}");
        assert_eq!(spoken(&deltas), "Sun");
    }
}

#[tokio::test]
async fn the_wait_a_provider_asks_for_is_passed_on() {
    let busy =
        Reply { headers: "retry-after: 7\r\n", ..status(429, failure("rate_limit_error", "slow down")) };
    let error = hears(busy).await.0.unwrap_err();
    assert_eq!(error.retry_after(), Some(Duration::from_secs(7)));
}

#[tokio::test]
async fn a_conversation_that_has_grown_too_long_is_told_from_a_bad_request() {
    let body = failure("invalid_request_error", "prompt is too long: 210000 tokens > 200000 maximum");
    let error = hears(status(400, body)).await.0.unwrap_err();
    assert_eq!(class(&error), "context too long");
    assert!(!error.is_retryable());
}

#[tokio::test]
async fn a_stream_that_ends_early_is_worth_another_try() {
    let text = events(&started_answer());
    for text in [text.clone(), text[..text.len() - 20].to_owned()] {
        let ended = hears(streamed(pieces(&text, usize::MAX))).await.0.unwrap_err();
        assert!(ended.is_retryable() && ended.to_string().contains("cut off"), "{ended}");

        let mut steps = pieces(&text, usize::MAX);
        steps.push(Step::HangUp);
        let hung_up = hears(streamed(steps)).await.0.unwrap_err();
        assert!(hung_up.is_retryable() && hung_up.to_string().contains("cut off"), "{hung_up}");
    }
    // A last event without a stop reason is not an end either.
    let mut list = started_answer();
    list.push(json!({ "type": "message_stop" }));
    assert!(answer(&list).await.unwrap_err().is_retryable());
}

#[tokio::test]
async fn silence_ends_a_call_and_pings_break_it() {
    let start = Instant::now();
    let mut steps = pieces(&events(&started_answer()), usize::MAX);
    steps.push(Step::Pause(Duration::from_secs(60)));
    let error = hears(streamed(steps)).await.0.unwrap_err();
    assert!(error.is_retryable() && error.to_string().contains("silent for 300ms"), "{error}");
    assert!(start.elapsed() < Duration::from_secs(10));

    let mut steps = vec![];
    for _ in 0..4 {
        steps.push(Step::Pause(Duration::from_millis(120)));
        steps.push(Step::Send(events(&[json!({ "type": "ping" })]).into_bytes()));
    }
    steps.extend(pieces(&events(&message(&[(text(), &[said("Sunny.")])], "end_turn")), 9));
    assert_eq!(hears(streamed(steps)).await.0.unwrap().text(), "Sunny.");
}

#[tokio::test]
async fn what_cannot_be_put_together_is_malformed() {
    let broken = "event: content_block_delta\ndata: {\"type\": \n\n";
    let error = hears(streamed(pieces(broken, usize::MAX))).await.0.unwrap_err();
    assert_eq!(class(&error), "malformed");
    let orphan = json!({ "type": "content_block_delta", "index": 3, "delta": said("?") });
    assert_eq!(class(&answer(&[orphan]).await.unwrap_err()), "malformed");
}

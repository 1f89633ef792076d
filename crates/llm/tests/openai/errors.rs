use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{
    conversation::{class, spoken},
    delta, error, events, finish, hears,
    support::{Reply, Step, ok, pieces, status, streamed},
};

fn refusal(message: &str, kind: &str, code: Value) -> Value {
    json!({ "error": { "message": message, "type": kind, "param": null, "code": code } })
}

async fn refused(code: u16, body: impl ToString) -> emergent_llm::Error {
    hears(status(code, body)).await.0.unwrap_err()
}

#[tokio::test]
async fn a_refusal_says_what_can_be_done() {
    let wrong_key = refusal("Incorrect API key provided", "invalid_request_error", json!("invalid_api_key"));
    let error = refused(401, wrong_key).await;
    assert_eq!(error.to_string(), "`openai/model-1` refused the credentials: Incorrect API key provided");

    let no_credit = refusal("You exceeded your quota", "insufficient_quota", json!("insufficient_quota"));
    assert_eq!(class(&refused(429, no_credit).await), "auth");
    assert_eq!(class(&refused(500, "<html>").await), "overloaded");
    assert_eq!(class(&refused(503, "").await), "overloaded");
    let unknown = refusal("The model does not exist", "invalid_request_error", json!("model_not_found"));
    assert_eq!(class(&refused(404, unknown).await), "bad request");
}

#[tokio::test]
async fn the_wait_a_provider_asks_for_is_passed_on() {
    let busy = Reply { headers: "retry-after: 7\r\n", ..status(429, r#"{"error":{"message":"slow down"}}"#) };
    let error = hears(busy).await.0.unwrap_err();
    assert_eq!(class(&error), "rate limited");
    assert_eq!(error.retry_after(), Some(Duration::from_secs(7)));
}

#[tokio::test]
async fn a_conversation_that_has_grown_too_long_is_told_from_a_bad_request() {
    let openai = refusal(
        "This model's maximum context length is 128000 tokens.",
        "invalid_request_error",
        json!("context_length_exceeded"),
    );
    assert_eq!(class(&refused(400, &openai).await), "context too long");
    assert_eq!(class(&error(&events(&[openai])).await), "context too long");
    let llama = json!({ "error": { "code": 400, "type": "exceed_context_size_error",
        "message": "the request exceeds the available context size" } });
    assert_eq!(class(&refused(400, llama).await), "context too long");
}

#[tokio::test]
async fn an_error_in_the_middle_has_the_class_of_its_status() {
    for (body, expected) in [
        (refusal("The server had an error", "server_error", Value::Null), "overloaded"),
        (refusal("Rate limit reached", "tokens", json!("rate_limit_exceeded")), "rate limited"),
        (json!({ "error": { "code": 429, "message": "upstream is busy" } }), "rate limited"),
        (json!({ "error": { "code": 502, "message": "upstream is down" } }), "overloaded"),
        (refusal("No such parameter", "invalid_request_error", Value::Null), "bad request"),
        (json!({ "error": "out of memory" }), "overloaded"),
    ] {
        let text = events(&[delta(json!({ "content": "Sun" })), body.clone()]);
        let (result, deltas) = hears(streamed(pieces(&text, 11))).await;
        assert_eq!(class(&result.unwrap_err()), expected, "{body}");
        assert_eq!(spoken(&deltas), "Sun");
    }
}

#[tokio::test]
async fn a_stream_that_ends_early_is_worth_another_try() {
    let text = events(&[delta(json!({ "content": "Sun" }))]);
    // The stream is cut between two events, and inside one.
    for text in [text.clone(), text[..text.len() - 20].to_owned(), String::new()] {
        let ended = error(&text).await;
        assert!(ended.is_retryable() && ended.to_string().contains("cut off"), "{ended}");

        let mut steps = pieces(&text, usize::MAX);
        steps.push(Step::HangUp);
        let hung_up = hears(streamed(steps)).await.0.unwrap_err();
        assert!(hung_up.is_retryable() && hung_up.to_string().contains("cut off"), "{hung_up}");
    }
}

#[tokio::test]
async fn silence_ends_a_call() {
    let start = Instant::now();
    let mut steps = pieces(&events(&[delta(json!({ "content": "Sun" }))]), usize::MAX);
    steps.push(Step::Pause(Duration::from_secs(60)));
    let (result, deltas) = hears(streamed(steps)).await;
    let error = result.unwrap_err();
    assert!(error.is_retryable() && error.to_string().contains("silent for 300ms"), "{error}");
    assert_eq!(spoken(&deltas), "Sun");
    assert!(start.elapsed() < Duration::from_secs(10));
}

#[tokio::test]
async fn what_is_no_json_is_malformed() {
    assert_eq!(class(&error("data: {\"choices\": [}\n\n").await), "malformed");
    assert_eq!(class(&error("data: [DONE]\n\n").await), "malformed");
}

#[tokio::test]
async fn an_answer_in_one_piece_is_no_stream() {
    let json = |body: Value| Reply { headers: "content-type: application/json\r\n", ..ok(body) };
    let whole = json(json!({ "choices": [{ "message": { "content": "Sunny." } }] }));
    assert_eq!(class(&hears(whole).await.0.unwrap_err()), "malformed");
    // Some gateways report a failure with a success status.
    let failed = json(json!({ "error": { "code": 503, "message": "no workers" } }));
    assert_eq!(class(&hears(failed).await.0.unwrap_err()), "overloaded");
}

#[tokio::test]
async fn what_follows_the_end_is_not_read() {
    let text =
        events(&[delta(json!({ "content": "Sun" })), finish("stop")]) + "data: [DONE]\n\ndata: nonsense\n\n";
    assert!(hears(streamed(pieces(&text, 1))).await.0.is_ok());
}

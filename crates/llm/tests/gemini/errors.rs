//! Errors, classified by what the caller can do about them.

use std::time::Duration;

use emergent_llm::{ChatSettings, Delta, Error, Gemini};
use serde_json::{Value, json};

use super::{answer, finish, google::*, hears, parts};

fn refusal(code: u16, status: &str, message: &str, details: Value) -> Value {
    json!({ "error": { "code": code, "message": message, "status": status, "details": details } })
}

fn retry_info() -> Value {
    json!([
        { "@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": [] },
        { "@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "17.5s" },
    ])
}

const TOO_LONG: &str =
    "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).";

/// Checks that an error has the same class as a status, as a list, and in the middle of a stream.
async fn each_way(code: u16, status: &str, message: &str, details: Value, check: impl Fn(&Error) -> bool) {
    let body = refusal(code, status, message, details);
    let late = events(&[parts(json!([{ "text": "Well, " }])), body.clone()], "\r\n\r\n");
    for reply in [json(code, &body), json(code, json!([body])), stream(&late, 7)] {
        let error = hears(reply).await.0.unwrap_err();
        assert!(check(&error), "{error:?}");
        assert!(error.to_string().contains("`google/gemini-2.5-flash`"), "{error}");
        assert!(error.to_string().contains(message), "{error}");
    }
}

#[tokio::test]
async fn a_limit_carries_googles_wait() {
    each_way(429, "RESOURCE_EXHAUSTED", "You exceeded your current quota", retry_info(), |error| {
        matches!(error, Error::RateLimited { .. })
            && error.retry_after() == Some(Duration::from_millis(17_500))
    })
    .await;
}

#[tokio::test]
async fn a_failure_of_google_may_be_tried_again() {
    for (code, status) in [(500, "INTERNAL"), (503, "UNAVAILABLE"), (504, "DEADLINE_EXCEEDED")] {
        each_way(code, status, "Please retry", json!([]), |error| matches!(error, Error::Overloaded { .. }))
            .await;
    }
}

#[tokio::test]
async fn a_wrong_key_is_about_credentials_though_google_calls_it_a_bad_request() {
    let details =
        json!([{ "@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "API_KEY_INVALID" }]);
    each_way(400, "INVALID_ARGUMENT", "API key not valid", details, |error| {
        matches!(error, Error::Auth { .. })
    })
    .await;
    each_way(403, "PERMISSION_DENIED", "No access", json!([]), |error| matches!(error, Error::Auth { .. }))
        .await;
}

#[tokio::test]
async fn a_conversation_past_the_window_has_a_class_of_its_own() {
    each_way(400, "INVALID_ARGUMENT", TOO_LONG, json!([]), |error| {
        matches!(error, Error::ContextTooLong { .. }) && !error.is_retryable()
    })
    .await;
}

#[tokio::test]
async fn other_refusals_are_final() {
    each_way(404, "NOT_FOUND", "models/x is not found", json!([]), |error| {
        matches!(error, Error::BadRequest { status: 404, .. })
    })
    .await;
    each_way(400, "INVALID_ARGUMENT", "Unknown name", json!([]), |error| {
        matches!(error, Error::BadRequest { status: 400, .. })
    })
    .await;
}

#[tokio::test]
async fn an_answer_that_ends_without_a_finish_reason_was_cut_off() {
    let text = events(&[parts(json!([{ "text": "Half an" }]))], "\r\n\r\n");
    let unfinished = format!("{text}data: {}", finish("STOP"));
    for reply in [
        stream(&text, 9),
        stream(&unfinished, 9),
        Reply { broken: true, ..stream(&text, 9) },
        stream("\n", 1),
    ] {
        let (result, deltas) = hears(reply).await;
        let error = result.unwrap_err();
        assert!(matches!(error, Error::Overloaded { .. }), "{error:?}");
        assert!(deltas.is_empty() || deltas == [Delta::Text("Half an".into())]);
    }
}

#[tokio::test]
async fn a_model_that_slipped_while_writing_a_call_may_be_asked_again() {
    for reason in ["MALFORMED_FUNCTION_CALL", "MALFORMED_RESPONSE"] {
        let mut chunk = finish(reason);
        chunk["candidates"][0]["finishMessage"] = json!("Malformed function call: print(");
        let error = answer(&[chunk]).await.unwrap_err();
        assert!(matches!(error, Error::Overloaded { .. }), "{error:?}");
        assert!(error.to_string().contains(reason) && error.to_string().contains("print("), "{error}");
    }
}

#[tokio::test]
async fn what_is_no_stream_cannot_be_used() {
    for reply in [json(200, "{}"), stream("data: {\"cand\n\n", 20)] {
        let error = hears(reply).await.0.unwrap_err();
        assert!(matches!(error, Error::Malformed { .. }), "{error:?}");
    }
}

#[test]
fn a_missing_key_names_the_settings() {
    let Err(Error::Config(message)) = Gemini::google(&ChatSettings::default()) else { panic!("needs a key") };
    assert!(message.contains("`GEMINI_API_KEY`") && message.contains("`EMERGENT_GOOGLE_BASE_URL`"));
}

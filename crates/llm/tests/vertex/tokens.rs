//! How long a token is used, and which caller fetches the next one.

use std::{sync::Arc, time::Duration};

use emergent_llm::Error;
use serde_json::json;
use tokio::task::JoinSet;

use super::{ask, bearers, google::*, hello, service_account, token, vertex};

#[tokio::test]
async fn a_token_is_used_until_four_minutes_before_it_ends() {
    let replies = [token("long", 300), hello(), hello()];
    let google = Google::replying(replies).await;
    let (_dir, settings) = service_account(&google);
    let provider = vertex(&google, &settings);
    ask(&provider).await.unwrap();
    ask(&provider).await.unwrap();
    assert_eq!(bearers(&google), ["-", "long", "long"]);

    let replies = [token("short", 239), hello(), token("next", 3599), hello(), hello()];
    let google = Google::replying(replies).await;
    let (_dir, settings) = service_account(&google);
    let provider = vertex(&google, &settings);
    for _ in 0..3 {
        ask(&provider).await.unwrap();
    }
    assert_eq!(bearers(&google), ["-", "short", "-", "next", "next"]);
}

#[tokio::test]
async fn callers_at_the_same_time_share_one_request_for_a_token() {
    let chats = (0..8).map(|_| hello());
    let google = Google::replying([token("shared", 3599)].into_iter().chain(chats)).await;
    let (_dir, settings) = service_account(&google);
    let provider = Arc::new(vertex(&google, &settings));
    let mut callers = JoinSet::new();
    for _ in 0..8 {
        let provider = provider.clone();
        callers.spawn(async move { ask(&provider).await.unwrap() });
    }
    callers.join_all().await;
    assert_eq!(bearers(&google), [["-"; 1].as_slice(), &["shared"; 8]].concat());
}

#[tokio::test]
async fn callers_at_the_same_time_share_a_refusal_too() {
    let refusal =
        || json(400, json!({ "error": "invalid_grant", "error_description": "Invalid JWT Signature." }));
    let google = Google::replying([refusal(), refusal()]).await;
    let (_dir, settings) = service_account(&google);
    let provider = vertex(&google, &settings);
    let (first, second, third) = tokio::join!(ask(&provider), ask(&provider), ask(&provider));
    for result in [first, second, third] {
        let error = result.unwrap_err();
        assert!(matches!(error, Error::Auth { .. }), "{error:?}");
        assert!(error.to_string().contains("invalid_grant: Invalid JWT Signature."), "{error}");
    }
    assert_eq!(google.asked().len(), 1);
    // A later caller tries again, because the cause may be fixed by then.
    ask(&provider).await.unwrap_err();
    assert_eq!(google.asked().len(), 2);
}

#[tokio::test]
async fn a_caller_who_leaves_does_not_take_the_token_along() {
    let google = Google::replying([token("first", 3599), hello()]).await;
    let (_dir, settings) = service_account(&google);
    let provider = vertex(&google, &settings);
    let gone = tokio::time::timeout(Duration::ZERO, ask(&provider)).await;
    assert!(gone.is_err());
    ask(&provider).await.unwrap();
    assert_eq!(bearers(&google), ["-", "first"]);
}

#[tokio::test]
async fn a_failure_of_the_token_server_is_tried_again() {
    let google = Google::replying([json(503, ""), json(500, "{}"), token("third", 3599), hello()]).await;
    let (_dir, settings) = service_account(&google);
    ask(&vertex(&google, &settings)).await.unwrap();
    assert_eq!(bearers(&google), ["-", "-", "-", "third"]);
}

#[tokio::test]
async fn an_old_token_serves_on_while_no_new_one_is_to_be_had() {
    let google = Google::replying([token("old", 120), hello(), json(403, "{}"), hello()]).await;
    let (_dir, settings) = service_account(&google);
    let provider = vertex(&google, &settings);
    ask(&provider).await.unwrap();
    ask(&provider).await.unwrap();
    assert_eq!(bearers(&google), ["-", "old", "-", "old"]);
}

#[tokio::test]
async fn a_token_that_is_refused_is_not_used_again() {
    let refused =
        json(401, json!({ "error": { "code": 401, "status": "UNAUTHENTICATED", "message": "expired" } }));
    let replies = [token("revoked", 3599), refused, token("fresh", 3599), hello()];
    let google = Google::replying(replies).await;
    let (_dir, settings) = service_account(&google);
    let provider = vertex(&google, &settings);
    let error = ask(&provider).await.unwrap_err();
    assert!(matches!(error, Error::Auth { .. }), "{error:?}");
    ask(&provider).await.unwrap();
    assert_eq!(bearers(&google), ["-", "revoked", "-", "fresh"]);
}

#[tokio::test]
async fn an_answer_without_a_token_is_not_quoted() {
    let google = Google::replying([json(200, r#"{"id_token":"s3cret"}"#)]).await;
    let (_dir, settings) = service_account(&google);
    let error = ask(&vertex(&google, &settings)).await.unwrap_err();
    assert!(matches!(error, Error::Malformed { .. }) && !error.to_string().contains("s3cret"), "{error:?}");
}

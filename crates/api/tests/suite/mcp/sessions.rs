//! Whose a session is, and when what it has open ends.

use std::time::Duration;

use axum::{
    body::{Body, to_bytes},
    http::Method,
    response::Response,
};
use emergent_domain::token::Scope;
use emergent_testkit::both_engines;
use futures_util::StreamExt;
use serde_json::json;
use tokio::time::timeout;

use crate::mcp::{common::Server, peer::Peer};

/// Reads a stream to its end, which has to come within seconds.
async fn assert_ends(stream: Response) {
    assert_eq!(stream.status(), 200);
    let rest = timeout(Duration::from_secs(20), to_bytes(stream.into_body(), usize::MAX)).await;
    assert!(rest.is_ok(), "the stream goes on");
}

both_engines! {
    async fn the_session_of_another_token_cannot_be_followed_used_or_ended(db: TestDb) {
        let server = Server::start(&db).await;
        let project = Some(server.default_project);
        let owner = server.client(Some(&server.token(Scope::ALL, project).await));
        let other = server.client(Some(&server.token(Scope::ALL, project).await));
        let peer = Peer::legacy(owner).await;
        let mut open = peer.stream().await.into_body().into_data_stream();
        assert!(open.next().await.is_some(), "the stream is open");

        let thief = peer.with(other.clone());
        assert_eq!(thief.send("tools/list", json!({})).await.status, 404);
        assert_eq!(thief.stream().await.status(), 404);
        assert_eq!(thief.try_tell("notifications/cancelled", json!({ "requestId": 1 })).await, 404);
        assert_eq!(thief.end().await, 404);
        // Streams cannot be resumed, so the id of an event opens none of another session either.
        let resumed = other
            .request(Method::GET, "/mcp")
            .header("mcp-session-id", peer.session_id())
            .header("last-event-id", "1")
            .body(Body::empty())
            .unwrap();
        assert_eq!(other.send(resumed).await.status, 404);

        peer.asks("tools/list", json!({})).await;
        let still = timeout(Duration::from_millis(200), open.next()).await;
        assert!(!matches!(still, Ok(None)), "nobody else closed the stream");
    }

    async fn a_revoked_token_ends_its_streams_and_its_session(db: TestDb) {
        let server = Server::start(&db).await;
        let body = json!({ "name": "listener", "scopes": ["graph:read"], "project": "default" });
        let answer = server.admin().post("/api/tokens", body).await;
        let made = answer.is(201);
        let client = server.client(Some(made["token"].as_str().unwrap()));
        let (modern, legacy) = (Peer::modern(client.clone()), Peer::legacy(client).await);
        let listening = modern.open("subscriptions/listen", json!({ "notifications": { "toolsListChanged": true } })).await;
        let of_session = legacy.stream().await;
        server.admin().delete(&format!("/api/tokens/{}", made["id"].as_str().unwrap())).await.is(200);
        assert_ends(listening).await;
        assert_ends(of_session).await;
        assert_eq!(legacy.send("tools/list", json!({})).await.status, 401);
        assert_eq!(legacy.stream().await.status(), 401);
    }
}

//! A stream no longer counts as a request, but as a stream; its permit is released when it is dropped.

use axum::{
    body::Body,
    http::{Method, StatusCode, header},
    response::Response,
};
use emergent_api::{App, AppOptions, Capacity};
use emergent_testkit::{TestDb, both_engines};
use serde_json::json;

use crate::mcp::{common::Server, peer::Peer};

/// Starts a server with limits on requests and streams.
async fn server(db: &TestDb, requests: usize, streams: usize) -> Server {
    let server = Server::start(db).await;
    let options = AppOptions {
        requests: Capacity::unshared(requests),
        streams: Capacity::unshared(streams),
        ..Default::default()
    };
    let app = App::with_options(server.executor.clone(), server.app.secrets.clone(), options);
    Server { router: emergent_api::router(app.clone()), app, ..server }
}

async fn open(server: &Server, path: &str) -> Response {
    let client = server.admin();
    client.open(client.request(Method::GET, path).body(Body::empty()).expect("a request")).await
}

#[track_caller]
fn is_stream(response: &Response) {
    assert_eq!(response.status(), StatusCode::OK);
    assert_eq!(response.headers()[header::CONTENT_TYPE], "text/event-stream");
}

both_engines! {
    async fn one_stream_too_many_is_told_the_limit_and_has_room_when_another_ends(db: TestDb) {
        let server = server(&db, 2, 3).await;
        let (modern, legacy) = (Peer::modern(server.admin()), Peer::legacy(server.admin()).await);
        let listening = modern.open("subscriptions/listen", json!({ "notifications": {} })).await;
        let (of_session, feed) = (legacy.stream().await, open(&server, "/api/graph/changes").await);
        for stream in [&listening, &of_session, &feed] {
            is_stream(stream);
        }
        let figures = server.admin().get("/metrics").await;
        assert!(figures.text.contains("\nemergent_event_streams 3\n"), "{}", figures.text);

        let listen = modern.send("subscriptions/listen", json!({ "notifications": {} })).await;
        let error = listen.refused(429, "overloaded");
        assert_eq!((&error["details"]["limit"], error["message"].as_str().unwrap().contains("3 streams")), (&json!(3), true));
        assert_eq!(listen.headers["retry-after"], "1");
        assert_eq!(open(&server, "/api/graph/changes").await.status(), 429);
        // The session keeps its existing stream.
        assert_eq!(legacy.stream().await.status(), 429);
        assert_eq!(modern.asks("tools/list", json!({})).await["resultType"], "complete", "requests are answered");

        drop(listening);
        let again = modern.open("subscriptions/listen", json!({ "notifications": {} })).await;
        is_stream(&again);
        drop((again, of_session, feed));
        let figures = server.admin().get("/metrics").await;
        assert!(figures.text.contains("\nemergent_event_streams 0\n"), "{}", figures.text);
    }
}

/// No runner drives runs here, so the calls wait; after five seconds each becomes a stream.
#[tokio::test]
async fn a_call_that_becomes_a_stream_gives_its_place_to_others_as_long_as_there_is_room_for_it() {
    let db = TestDb::sqlite().await;
    let server = server(&db, 1, 1).await;
    let admin = server.admin();
    admin
        .agent(
            "slow",
            json!({ "visibility": "external", "model": { "provider": "rehearsal", "name": "echo" } }),
        )
        .await;
    let peer = Peer::modern(admin.clone());
    let call = || peer.open("tools/call", json!({ "name": "agent_slow", "arguments": { "input": "Go." } }));

    let first = call().await;
    is_stream(&first);
    admin.get("/api/admin/runs").await.is(200);
    let second = call().await;
    is_stream(&second);
    // The stream limit is reached, so the call continues and still counts as a request.
    let full = admin.get("/api/admin/runs").await;
    assert!(
        full.refused(429, "overloaded")["message"].as_str().unwrap().contains("1 requests"),
        "{}",
        full.text
    );
    drop(second);
    let runs = admin.get("/api/admin/runs").await;
    assert_eq!(runs.is(200).as_array().map(Vec::len), Some(2));
    drop(first);
    is_stream(&open(&server, "/api/graph/changes").await);
}

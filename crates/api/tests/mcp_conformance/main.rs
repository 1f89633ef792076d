//! The official conformance suite against `/mcp`, for both eras. The endpoint, its authentication
//! and its limits are the product's; behind it stands a host of the suite's fixtures. The suite
//! sends no token, so one is added on the way in.

#[path = "../suite/common/mod.rs"]
mod common;
mod fixtures;
mod questions;

use std::{path::Path, process::Stdio, sync::Arc};

use axum::{
    extract::Request,
    http::header,
    middleware::{self, Next},
};
use common::Server;
use emergent_api::{App, AppOptions};
use emergent_testkit::TestDb;
use fixtures::Fixtures;

/// A server on a free port, for as long as the test runs.
async fn serve(db: &TestDb) -> String {
    let Server { executor, app, admin, .. } = Server::start(db).await;
    let options = AppOptions { mcp_host: Some(Arc::new(Fixtures::default())), ..Default::default() };
    let app = App::with_options(executor, app.secrets.clone(), options);
    let bearer: axum::http::HeaderValue = format!("Bearer {admin}").parse().expect("a header");
    let add_token = move |mut request: Request, next: Next| {
        request.headers_mut().entry(header::AUTHORIZATION).or_insert(bearer.clone());
        next.run(request)
    };
    let router = emergent_api::router(app).layer(middleware::from_fn(add_token));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    tokio::spawn(async move { axum::serve(listener, router).await });
    format!("http://{address}/mcp")
}

async fn passes(revision: &str) {
    let db = TestDb::sqlite().await;
    let url = serve(&db).await;
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/mcp-conformance");
    let mut suite = tokio::process::Command::new(script);
    let suite = suite.args([&url, revision]).stdin(Stdio::null()).kill_on_drop(true);
    let output = suite.output().await.expect("scripts/mcp-conformance runs");
    let text =
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{text}");
    // One that ran nothing must not pass for one that passed.
    assert!(text.contains("scored scenarios passed"), "{text}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_server_passes_every_scored_scenario_of_the_stateless_era() {
    passes("2026-07-28").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_server_passes_every_scored_scenario_of_the_era_of_sessions() {
    passes("2025-11-25").await;
}

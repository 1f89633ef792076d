//! What a server says about itself: the start page, and the diagnostics for an operator.

use crate::common;

use axum::{body::Body, http::Method};
use common::Server;
use emergent_domain::token::Scope;
use emergent_testkit::TestDb;

#[tokio::test]
async fn a_browser_gets_a_page_with_a_strict_policy_and_a_program_gets_json() {
    let db = TestDb::sqlite().await;
    let server = Server::start(&db).await;
    let client = server.client(None);
    let answer = client.get("/").await;
    assert_eq!(
        (&answer.is(200)["name"], &answer.body["data"]["docs"]),
        (&"emergent".into(), &"/api/docs".into())
    );

    let request = client.request(Method::GET, "/").header("accept", "text/html,*/*;q=0.8");
    let response = client.open(request.body(Body::empty()).unwrap()).await;
    assert_eq!(response.status(), 200);
    let headers = response.headers().clone();
    assert!(headers["content-type"].to_str().unwrap().starts_with("text/html"));
    let policy = headers["content-security-policy"].to_str().unwrap();
    assert!(policy.starts_with("default-src 'none'") && !policy.contains("unsafe"), "{policy}");
    let bytes = axum::body::to_bytes(response.into_body(), 1 << 20).await.unwrap();
    let page = String::from_utf8(bytes.to_vec()).unwrap();
    assert!(page.contains("/api/docs") && page.contains("/health") && !page.contains("<script"), "{page}");
}

#[tokio::test]
async fn an_answer_in_json_ends_with_a_line_break() {
    let db = TestDb::sqlite().await;
    let server = Server::start(&db).await;
    let client = server.client(None);
    for (path, status) in [("/", 200), ("/health", 200), ("/api/graph/objects", 401)] {
        let answer = client.get(path).await;
        assert_eq!(answer.status, status, "{path}");
        assert!(answer.text.ends_with("}\n"), "{path}: {:?}", answer.text);
    }
}

#[tokio::test]
async fn everything_that_the_start_page_names_without_a_token_answers_without_one() {
    let db = TestDb::sqlite().await;
    let server = Server::start(&db).await;
    let client = server.client(None);
    let home = client.get("/").await.is(200).clone();
    for name in ["openapi", "docs", "health", "ready"] {
        let path = home[name].as_str().unwrap();
        assert_eq!(client.get(path).await.status, 200, "{path}");
    }
    let document = client.get("/api/openapi.json").await;
    assert_eq!(document.body["info"]["title"], "Emergent");
    let tag = document.headers["etag"].to_str().unwrap();
    let known = client.request(Method::GET, "/api/openapi.json").header("if-none-match", tag);
    let again = client.send(known.body(Body::empty()).unwrap()).await;
    assert_eq!((again.status.as_u16(), again.text.as_str()), (304, ""));
    assert_eq!(again.headers["etag"], tag);
}

#[tokio::test]
async fn the_page_of_a_program_without_the_web_ui_says_who_is_logged_in_and_until_when() {
    let db = TestDb::sqlite().await;
    let server = Server::start(&db).await;
    let client = server.client(None);
    let login = serde_json::json!({ "token": server.admin });
    let answer = client.post("/api/session", login).await;
    answer.is(201);
    let cookie = answer.headers["set-cookie"].to_str().unwrap().split(';').next().unwrap().to_owned();
    let page = async |cookie: &str| {
        let request = client.request(Method::GET, "/").header("accept", "text/html").header("cookie", cookie);
        let response = client.open(request.body(Body::empty()).unwrap()).await;
        let bytes = axum::body::to_bytes(response.into_body(), 1 << 20).await.unwrap();
        String::from_utf8(bytes.to_vec()).unwrap()
    };
    let shown = page(&cookie).await;
    assert!(shown.contains("You are logged in as <strong>admin</strong> until 20"), "{shown}");
    assert!(shown.contains("<code>make build</code>"), "it says how to get the UI: {shown}");
    let stranger = page("emergent_session=unknown").await;
    assert!(stranger.contains("<h1>Emergent</h1>") && !stranger.contains("You are logged in"), "{stranger}");
}

#[tokio::test]
async fn an_operator_is_told_what_works_and_a_project_token_is_refused() {
    let db = TestDb::sqlite().await;
    let server = Server::start(&db).await;
    let client = server.admin();
    let found = client.get("/api/admin/diagnostics").await.is(200).clone();
    assert_eq!(
        (&found["database"]["engine"], &found["database"]["probe"]["status"]),
        (&"sqlite".into(), &"ok".into())
    );
    let models = found["models"].as_array().unwrap();
    assert!(
        models.iter().any(|model| model["provider"] == "openai" && model["configured"] == false),
        "{found}"
    );
    assert!(
        models.iter().all(|model| model["probe"]["status"] == "not_probed"),
        "nothing is configured: {found}"
    );
    let quiet = client.get("/api/admin/diagnostics?probe=false").await.is(200).clone();
    assert_eq!(quiet["database"]["probe"]["status"], "not_probed");

    let project = server.project("own").await;
    let bound = server.token(&[Scope::AdminRead], Some(project)).await;
    server.client(Some(&bound)).get("/api/admin/diagnostics").await.refused(403, "forbidden");
    client.get("/api/admin/diagnostics?probe=maybe").await.refused(400, "invalid");
}

//! The web UI over HTTP: its pages, its files, and what stays with programs.

use axum::{
    body::{Body, to_bytes},
    http::{HeaderMap, Method, header},
};
use emergent_api::AppOptions;
use emergent_llm::Models;
use emergent_testkit::TestDb;
use emergent_web::WebUi;

use crate::common::Server;

const BROWSER: (header::HeaderName, &str) = (header::ACCEPT, "text/html,*/*;q=0.8");
const FILES: &[(&str, &[u8])] = &[
    ("index.html", b"<title>The UI</title>"),
    ("assets/app-1.js", b"plain"),
    ("assets/app-1.js.br", b"brotli"),
    ("icon.svg", b"<svg/>"),
];

async fn server() -> (TestDb, Server) {
    let db = TestDb::sqlite().await;
    let options = AppOptions { web_ui: WebUi::of_files(FILES), ..AppOptions::default() };
    let server = Server::with_options(&db, Models::default(), options).await;
    (db, server)
}

async fn send(
    server: &Server,
    method: Method,
    path: &str,
    headers: &[(header::HeaderName, &str)],
) -> (u16, HeaderMap, String) {
    let client = server.client(None);
    let mut request = client.request(method, path);
    for (name, value) in headers {
        request = request.header(name, *value);
    }
    let response = client.open(request.body(Body::empty()).unwrap()).await;
    let (status, headers) = (response.status().as_u16(), response.headers().clone());
    let bytes = to_bytes(response.into_body(), 1 << 20).await.unwrap();
    (status, headers, String::from_utf8(bytes.to_vec()).unwrap())
}

#[tokio::test]
async fn a_browser_gets_the_ui_at_its_pages_and_programs_get_json() {
    let (_db, server) = server().await;
    for path in ["/", "/runs", "/runs/0190d3a1", "/graph/objects/1", "/healthy", "/apis"] {
        let (status, headers, text) = send(&server, Method::GET, path, &[BROWSER]).await;
        assert_eq!((status, text.as_str()), (200, "<title>The UI</title>"), "{path}");
        let policy = headers[header::CONTENT_SECURITY_POLICY].to_str().unwrap();
        assert!(
            policy.starts_with("default-src 'none'; script-src 'self'") && !policy.contains("unsafe"),
            "{policy}"
        );
        assert_eq!(headers[header::CACHE_CONTROL], "no-cache", "{path}");
        assert_eq!(headers[header::X_CONTENT_TYPE_OPTIONS], "nosniff", "{path}");
        let etag = headers[header::ETAG].to_str().unwrap();
        let again = send(&server, Method::GET, path, &[BROWSER, (header::IF_NONE_MATCH, etag)]).await;
        assert_eq!((again.0, again.2.as_str()), (304, ""), "{path}");
        let (_, headers, text) = send(&server, Method::GET, path, &[]).await;
        assert!(
            headers[header::CONTENT_TYPE].to_str().unwrap().starts_with("application/json"),
            "{path}: {text}"
        );
    }
}

#[tokio::test]
async fn paths_of_programs_are_never_pages() {
    let (_db, server) = server().await;
    for path in [
        "/api/nothing",
        "/v1/nothing",
        "/a2a/x",
        "/mcp/x",
        "/.well-known/x",
        "/metrics/x",
        "/assets/gone-1.js",
    ] {
        let (status, _, text) = send(&server, Method::GET, path, &[BROWSER]).await;
        assert!(status == 404 && text.contains("\"success\":false"), "{path}: {status} {text}");
    }
    let (status, _, text) = send(&server, Method::POST, "/runs", &[BROWSER]).await;
    assert!(status == 404 && text.contains("\"success\":false"), "{status} {text}");
    assert_eq!(send(&server, Method::GET, "/health", &[BROWSER]).await.0, 200);
    assert!(send(&server, Method::GET, "/login", &[BROWSER]).await.2.contains("<form"));
}

#[tokio::test]
async fn a_file_is_sent_in_the_encoding_of_the_browser_and_kept_for_good() {
    let (_db, server) = server().await;
    let encoded = (header::ACCEPT_ENCODING, "gzip, br");
    let (status, headers, text) = send(&server, Method::GET, "/assets/app-1.js", &[encoded]).await;
    assert_eq!(
        (status, text.as_str(), &headers[header::CONTENT_ENCODING]),
        (200, "brotli", &"br".parse().unwrap())
    );
    assert_eq!(headers[header::CACHE_CONTROL], "public, max-age=31536000, immutable");
    assert_eq!(headers[header::CONTENT_TYPE], "text/javascript; charset=utf-8");
    let (_, headers, text) = send(&server, Method::GET, "/assets/app-1.js", &[]).await;
    assert!(text == "plain" && !headers.contains_key(header::CONTENT_ENCODING), "{text}");
    let (status, headers, _) = send(&server, Method::GET, "/icon.svg", &[]).await;
    assert_eq!((status, &headers[header::CACHE_CONTROL]), (200, &"no-cache".parse().unwrap()));
    assert_eq!(send(&server, Method::GET, "/assets/app-1.js.br", &[]).await.0, 404);
}

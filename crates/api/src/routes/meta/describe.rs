//! The OpenAPI document, as JSON and as an HTML page. Both are public: they say what the program can do, and nothing
//! about what is stored.

use std::sync::LazyLock;

use axum::{
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse, Response},
};

use crate::{docs_page, etag, html_page, openapi};

static DOCUMENT: LazyLock<String> = LazyLock::new(|| openapi().to_json().unwrap_or_default());
static DOCUMENT_TAG: LazyLock<String> = LazyLock::new(|| etag::content_tag(DOCUMENT.as_bytes()));
static PAGE: LazyLock<String> = LazyLock::new(|| docs_page::render(&openapi()));
static POLICY: LazyLock<String> = LazyLock::new(|| html_page::policy(docs_page::STYLE, "'none'"));

/// Clients ask each time whether the document is another one, which it is after an update of the server.
const CACHE_CONTROL: &str = "public, no-cache";

/// Returns this document.
#[utoipa::path(
    get, path = "/api/openapi.json", tag = "server", operation_id = "openapi",
    responses(
        (status = 200, description = "OpenAPI 3.1", body = Object, content_type = "application/json"),
        (status = 304, description = "The document is the one of `If-None-Match`"),
    ),
)]
pub(super) async fn document(headers: HeaderMap) -> Response {
    let (document, tag) = (DOCUMENT.as_str(), DOCUMENT_TAG.as_str());
    let caching = [(header::ETAG, tag), (header::CACHE_CONTROL, CACHE_CONTROL)];
    match etag::is_known(&headers, tag) {
        true => (StatusCode::NOT_MODIFIED, caching).into_response(),
        false => (caching, [(header::CONTENT_TYPE, "application/json")], document).into_response(),
    }
}

/// Returns this document as an HTML page.
#[utoipa::path(
    get, path = "/api/docs", tag = "server", operation_id = "docs",
    responses((status = 200, description = "A page", body = String, content_type = "text/html")),
)]
pub(super) async fn page() -> Response {
    html_page::respond(PAGE.clone(), &POLICY, "no-referrer")
}

//! The OpenAPI document, as JSON and as an HTML page.

use std::sync::LazyLock;

use axum::{
    http::header,
    response::{IntoResponse, Response},
};

use crate::{docs_page, html_page, openapi};

static DOCUMENT: LazyLock<String> = LazyLock::new(|| openapi().to_json().unwrap_or_default());
static PAGE: LazyLock<String> = LazyLock::new(|| docs_page::render(&openapi()));
static POLICY: LazyLock<String> = LazyLock::new(|| html_page::policy(docs_page::STYLE, "'none'"));

/// Returns this document.
#[utoipa::path(
    get, path = "/api/openapi.json", tag = "server", operation_id = "openapi",
    responses((status = 200, description = "OpenAPI 3.1", body = Object, content_type = "application/json")),
)]
pub(super) async fn document() -> impl IntoResponse {
    ([(header::CONTENT_TYPE, "application/json")], DOCUMENT.as_str())
}

/// Returns this document as an HTML page.
#[utoipa::path(
    get, path = "/api/docs", tag = "server", operation_id = "docs",
    responses((status = 200, description = "A page", body = String, content_type = "text/html")),
)]
pub(super) async fn page() -> Response {
    html_page::respond(PAGE.clone(), &POLICY, "no-referrer")
}

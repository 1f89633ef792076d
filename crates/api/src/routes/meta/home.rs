//! The start of the server: a page for people, and the same as JSON for programs.

use std::sync::LazyLock;

use axum::{
    http::{HeaderMap, HeaderName, HeaderValue, header},
    response::{Html, IntoResponse, Response},
};
use base64::{Engine as _, prelude::BASE64_STANDARD};
use serde::Serialize;
use sha2::{Digest, Sha256};
use utoipa::ToSchema;

use crate::response::{Envelope, ok};

const STYLE: &str = include_str!("home.css");

static PAGE: LazyLock<String> = LazyLock::new(|| {
    include_str!("home.html").replace("{{style}}", STYLE).replace("{{version}}", env!("CARGO_PKG_VERSION"))
});

/// Nothing may be loaded or run, and no other page may frame this one. The style of the page is allowed by its
/// digest.
static POLICY: LazyLock<String> = LazyLock::new(|| {
    format!(
        "default-src 'none'; style-src 'sha256-{}'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
        BASE64_STANDARD.encode(Sha256::digest(STYLE))
    )
});

/// Where a program goes from here.
#[derive(Serialize, ToSchema)]
#[schema(as = Home)]
pub(super) struct HomeView {
    #[schema(example = "emergent")]
    name: &'static str,
    version: &'static str,
    /// The OpenAPI document; needs a token.
    openapi: &'static str,
    /// The same as a page.
    docs: &'static str,
    health: &'static str,
    ready: &'static str,
    /// The Model Context Protocol; needs a token.
    mcp: &'static str,
}

const HOME: HomeView = HomeView {
    name: "emergent",
    version: env!("CARGO_PKG_VERSION"),
    openapi: "/api/openapi.json",
    docs: "/api/docs",
    health: "/health",
    ready: "/ready",
    mcp: "/mcp",
};

/// Says what this server is and where to go: as a page for a client that accepts HTML, else as JSON.
#[utoipa::path(
    get, path = "/", tag = "server", operation_id = "home",
    responses((
        status = 200, description = "What this server is",
        content((Envelope<HomeView> = "application/json"), (String = "text/html")),
    )),
)]
pub(super) async fn home(headers: HeaderMap) -> Response {
    let mut response = if accepts_html(&headers) { page() } else { ok(HOME).into_response() };
    response.headers_mut().insert(header::VARY, HeaderValue::from_static("accept"));
    response
}

fn page() -> Response {
    let mut response = Html(PAGE.as_str()).into_response();
    let headers = response.headers_mut();
    if let Ok(policy) = HeaderValue::from_str(&POLICY) {
        headers.insert(header::CONTENT_SECURITY_POLICY, policy);
    }
    let fixed: [(HeaderName, &str); 2] =
        [(header::X_CONTENT_TYPE_OPTIONS, "nosniff"), (header::REFERRER_POLICY, "no-referrer")];
    for (name, value) in fixed {
        headers.insert(name, HeaderValue::from_static(value));
    }
    response
}

/// Whether the client names HTML. A program that accepts anything (`*/*`) gets JSON.
fn accepts_html(headers: &HeaderMap) -> bool {
    headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok()).any(|value| {
        value.split(',').filter_map(|range| range.split(';').next()).any(|kind| {
            let kind = kind.trim();
            kind.eq_ignore_ascii_case("text/html") || kind.eq_ignore_ascii_case("application/xhtml+xml")
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_browser_gets_the_page_and_a_program_gets_json() {
        let accepts = |value: &'static str| {
            accepts_html(&HeaderMap::from_iter([(header::ACCEPT, HeaderValue::from_static(value))]))
        };
        assert!(accepts("text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"));
        assert!(!accepts("*/*") && !accepts("application/json") && !accepts_html(&HeaderMap::new()));
    }

    #[test]
    fn the_page_loads_nothing_and_its_style_is_what_the_policy_allows() {
        for fetches in ["src=", "href=\"http", "href=\"//", "url(", "@import", "<script", "style=\"", "{{"] {
            assert!(!PAGE.contains(fetches), "{fetches}");
        }
        let style = PAGE.split("<style>").nth(1).and_then(|rest| rest.split("</style>").next()).unwrap();
        let digest = BASE64_STANDARD.encode(Sha256::digest(style));
        assert!(POLICY.contains(&format!("'sha256-{digest}'")) && !POLICY.contains("unsafe"), "{}", *POLICY);
    }
}

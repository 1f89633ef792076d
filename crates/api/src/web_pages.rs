//! The web UI in responses: its files, and its start page at every path that only the browser knows.

use axum::{
    body::Body,
    http::{HeaderMap, HeaderValue, Method, StatusCode, header},
    response::{IntoResponse, Response},
};
use emergent_web::{Asset, Encodings, WebUi};

/// What the pages of the UI may do: load and call this server, and nothing else.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
                      img-src 'self' data:; font-src 'self'; worker-src 'self'; manifest-src 'self'; \
                      base-uri 'none'; form-action 'self'; frame-ancestors 'none'";
const IMMUTABLE: &str = "public, max-age=31536000, immutable";
const NO_CACHE: &str = "no-cache";

/// The first parts of paths that belong to programs. An unknown path below them is never a page.
const OF_PROGRAMS: &[&str] =
    &["api", "v1", "a2a", "mcp", ".well-known", "health", "ready", "metrics", "login", "assets"];

/// Returns the response to a request that no route takes, if it is for the UI.
pub(crate) fn find(ui: &WebUi, method: &Method, path: &str, headers: &HeaderMap) -> Option<Response> {
    if !matches!(*method, Method::GET | Method::HEAD) {
        return None;
    }
    let path = path.strip_prefix('/')?;
    if let Some(file) = ui.file(path, encodings(headers)) {
        return Some(respond(file, headers));
    }
    let first = path.split('/').next().unwrap_or_default();
    let is_page = accepts_html(headers) && !OF_PROGRAMS.contains(&first);
    is_page.then(|| start_page(ui, headers)).flatten()
}

/// Returns the page that starts the UI; `None` if the program was built without it.
pub(crate) fn start_page(ui: &WebUi, headers: &HeaderMap) -> Option<Response> {
    ui.start_page(encodings(headers)).map(|page| respond(page, headers))
}

fn respond(asset: Asset, request: &HeaderMap) -> Response {
    let etag = HeaderValue::from_str(&asset.etag).ok();
    let is_known = etag.as_ref().is_some_and(|etag| {
        request.get_all(header::IF_NONE_MATCH).iter().filter_map(|value| value.to_str().ok()).any(|value| {
            let known = value.split(',').map(|one| one.trim().trim_start_matches("W/"));
            known.into_iter().any(|one| one.as_bytes() == etag.as_bytes())
        })
    });
    let mut response = if is_known {
        StatusCode::NOT_MODIFIED.into_response()
    } else {
        let content_type = [(header::CONTENT_TYPE, asset.media_type)];
        (content_type, Body::from(asset.bytes)).into_response()
    };
    let headers = response.headers_mut();
    if let (Some(encoding), false) = (asset.encoding, is_known) {
        headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static(encoding));
    }
    if let Some(etag) = etag {
        headers.insert(header::ETAG, etag);
    }
    let caching = if asset.is_immutable { IMMUTABLE } else { NO_CACHE };
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static(caching));
    headers.insert(header::VARY, HeaderValue::from_static("accept, accept-encoding"));
    headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("same-origin"));
    response
}

/// Whether the client names HTML. A program that accepts anything (`*/*`) gets JSON.
pub(crate) fn accepts_html(headers: &HeaderMap) -> bool {
    headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok()).any(|value| {
        value.split(',').filter_map(|range| range.split(';').next()).any(|kind| {
            let kind = kind.trim();
            kind.eq_ignore_ascii_case("text/html") || kind.eq_ignore_ascii_case("application/xhtml+xml")
        })
    })
}

/// Returns the compressions that the client names. One with the weight 0 is one that it refuses.
fn encodings(headers: &HeaderMap) -> Encodings {
    let mut found = Encodings::default();
    for value in headers.get_all(header::ACCEPT_ENCODING).iter().filter_map(|value| value.to_str().ok()) {
        for one in value.split(',') {
            let (name, weight) = one.split_once(';').unwrap_or((one, ""));
            let weight = weight.trim().strip_prefix("q=").and_then(|weight| weight.parse::<f32>().ok());
            let accepted = weight.is_none_or(|weight| weight > 0.0);
            match name.trim() {
                "br" => found.brotli = accepted,
                "gzip" => found.gzip = accepted,
                _ => {}
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(name: header::HeaderName, value: &'static str) -> HeaderMap {
        HeaderMap::from_iter([(name, HeaderValue::from_static(value))])
    }

    #[test]
    fn a_browser_gets_the_page_and_a_program_gets_json() {
        let accepts = |value| accepts_html(&headers(header::ACCEPT, value));
        assert!(accepts("text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"));
        assert!(!accepts("*/*") && !accepts("application/json") && !accepts_html(&HeaderMap::new()));
    }

    #[test]
    fn a_compression_that_the_client_refuses_is_not_used() {
        let read = |value| encodings(&headers(header::ACCEPT_ENCODING, value));
        assert_eq!(read("gzip, deflate, br, zstd"), Encodings { brotli: true, gzip: true });
        assert_eq!(read("br;q=0, gzip;q=0.5"), Encodings { brotli: false, gzip: true });
        assert_eq!(read("identity"), Encodings::default());
    }
}

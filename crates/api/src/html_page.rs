//! The HTML pages of the server. They load nothing, run no script, and no other page may frame them.

use axum::{
    http::{HeaderName, HeaderValue, header},
    response::{Html, IntoResponse, Response},
};
use base64::{Engine as _, prelude::BASE64_STANDARD};
use sha2::{Digest, Sha256};

/// The policy of responses that are no pages: a browser that shows one anyway loads and runs nothing.
pub(crate) const DEFAULT_POLICY: &str =
    "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// Returns the policy of a page. Its style is allowed by its digest; `form_action` is where its forms may be sent.
pub(crate) fn policy(style: &str, form_action: &str) -> String {
    format!(
        "default-src 'none'; style-src 'sha256-{}'; base-uri 'none'; form-action {form_action}; frame-ancestors 'none'",
        BASE64_STANDARD.encode(Sha256::digest(style))
    )
}

/// Returns a page with its policy.
pub(crate) fn respond(html: String, policy: &str, referrer: &'static str) -> Response {
    let mut response = Html(html).into_response();
    let headers = response.headers_mut();
    if let Ok(policy) = HeaderValue::from_str(policy) {
        headers.insert(header::CONTENT_SECURITY_POLICY, policy);
    }
    headers.insert(header::REFERRER_POLICY, HeaderValue::from_static(referrer));
    response
}

/// Adds the headers that every response has.
pub(crate) fn add_security_headers(response: &mut Response) {
    const NO_SNIFFING: (HeaderName, HeaderValue) =
        (header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    let headers = response.headers_mut();
    headers.insert(NO_SNIFFING.0, NO_SNIFFING.1);
    headers
        .entry(header::CONTENT_SECURITY_POLICY)
        .or_insert_with(|| HeaderValue::from_static(DEFAULT_POLICY));
}

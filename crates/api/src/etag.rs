//! Tags of contents: a client that has the content already gets none again.

use axum::http::{HeaderMap, header};
use sha2::{Digest, Sha256};

/// The tag of a content, with its quotes.
pub(crate) fn content_tag(content: &[u8]) -> String {
    let digest: String = Sha256::digest(content).iter().take(16).map(|byte| format!("{byte:02x}")).collect();
    format!("\"{digest}\"")
}

/// Whether the client has the content with this tag, as it says in `If-None-Match`.
pub(crate) fn is_known(request: &HeaderMap, tag: &str) -> bool {
    request.get_all(header::IF_NONE_MATCH).iter().any(|value| {
        let known = value.to_str().unwrap_or_default().split(',');
        known.map(|one| one.trim().trim_start_matches("W/")).any(|one| one == tag || one == "*")
    })
}

//! The metadata for a client without a token (RFC 9728). Tokens are created with `emergent token
//! create`; there is no authorisation server that issues them.

use axum::{
    Json,
    extract::Request,
    http::{HeaderMap, HeaderValue, StatusCode, header},
    middleware::Next,
    response::Response,
};
use emergent_domain::token::Scope;
use serde::Serialize;
use utoipa::ToSchema;

/// The path of the metadata for `/mcp`, as RFC 9728 defines it.
const WELL_KNOWN: &str = "/.well-known/oauth-protected-resource/mcp";

/// The metadata of the protected resource `/mcp`.
#[derive(Serialize, ToSchema)]
#[schema(as = ProtectedResource)]
pub(super) struct ProtectedResource {
    #[schema(example = "http://127.0.0.1:4400/mcp")]
    resource: String,
    resource_name: &'static str,
    bearer_methods_supported: [&'static str; 1],
    #[schema(value_type = Vec<String>)]
    scopes_supported: &'static [Scope],
}

/// Describes how `/mcp` is protected: bearer tokens and their scopes.
#[utoipa::path(
    get, path = "/.well-known/oauth-protected-resource", tag = "mcp", operation_id = "protectedResource",
    responses((status = 200, description = "Metadata of RFC 9728", body = ProtectedResource)),
)]
pub(super) async fn server_metadata(headers: HeaderMap) -> Json<ProtectedResource> {
    Json(ProtectedResource {
        resource: format!("{}/mcp", base_url(&headers, false)),
        resource_name: "Emergent",
        bearer_methods_supported: ["header"],
        scopes_supported: Scope::ALL,
    })
}

/// The same metadata at the path that RFC 9728 defines for the resource `/mcp`.
#[utoipa::path(
    get, path = "/.well-known/oauth-protected-resource/mcp", tag = "mcp", operation_id = "protectedMcp",
    responses((status = 200, description = "Metadata of RFC 9728", body = ProtectedResource)),
)]
pub(super) async fn mcp_metadata(headers: HeaderMap) -> Json<ProtectedResource> {
    server_metadata(headers).await
}

/// Adds the address of the metadata to a response that refuses a request without a token.
pub(super) async fn challenge(request: Request, next: Next) -> Response {
    let base = base_url(request.headers(), false);
    let mut response = next.run(request).await;
    if response.status() == StatusCode::UNAUTHORIZED {
        let text = format!("Bearer resource_metadata=\"{base}{WELL_KNOWN}\"");
        if let Ok(value) = HeaderValue::from_str(&text) {
            response.headers_mut().insert(header::WWW_AUTHENTICATE, value);
        }
    }
    response
}

/// Returns the address of this server as the caller or its proxy names it.
pub(crate) fn base_url(headers: &HeaderMap, is_tls: bool) -> String {
    let host_like = |name: &str| {
        let text = headers.get(name).and_then(|value| value.to_str().ok())?;
        let is_allowed = |c: char| c.is_ascii_alphanumeric() || "-.:[]_".contains(c);
        (!text.is_empty() && text.chars().all(is_allowed)).then_some(text)
    };
    let is_https = is_tls || host_like("x-forwarded-proto") == Some("https");
    let scheme = if is_https { "https" } else { "http" };
    format!("{scheme}://{}", host_like("host").unwrap_or("localhost"))
}

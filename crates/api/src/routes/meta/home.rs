//! The start of the server: the web UI for people, and where to go as JSON for programs. A program that was built
//! without the web UI has a page that says how to get it.

use std::{net::IpAddr, sync::LazyLock};

use axum::{
    Extension,
    extract::State,
    http::{HeaderMap, HeaderValue, header},
    response::{IntoResponse, Response},
};
use emergent_domain::browser_session::Login;
use emergent_graph::Credential;
use serde::Serialize;
use utoipa::ToSchema;

use crate::{
    App,
    docs_page::escape,
    html_page, login_cookie,
    response::{Envelope, ok},
    server::Peer,
    web_pages::{self, accepts_html},
};

const STYLE: &str = include_str!("home.css");
/// The length of a timestamp up to its minutes: `2026-01-31T00:00`.
const MINUTES_LENGTH: usize = 16;

static PAGE: LazyLock<String> = LazyLock::new(|| {
    include_str!("home.html").replace("{{style}}", STYLE).replace("{{version}}", env!("CARGO_PKG_VERSION"))
});

static POLICY: LazyLock<String> = LazyLock::new(|| html_page::policy(STYLE, "'none'"));

/// Where a program goes from here.
#[derive(Serialize, ToSchema)]
#[schema(as = Home)]
pub(super) struct HomeView {
    #[schema(example = "emergent")]
    name: &'static str,
    version: &'static str,
    /// The OpenAPI document.
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
pub(super) async fn home(
    State(app): State<App>,
    peer: Option<Extension<Peer>>,
    headers: HeaderMap,
) -> Response {
    let mut response = match accepts_html(&headers) {
        true => match web_pages::start_page(&app.web_ui, &headers) {
            Some(page) => return page,
            None => {
                let login = find_login(&app, &headers, peer.map(|Extension(peer)| peer.address)).await;
                let page = login.map_or_else(|| PAGE.clone(), |login| page_with_login(&login));
                html_page::respond(page, &POLICY, "no-referrer")
            }
        },
        false => ok(HOME).into_response(),
    };
    response.headers_mut().insert(header::VARY, HeaderValue::from_static("accept, cookie"));
    response
}

/// Returns the login of the cookie; `None` without a valid one. The page is shown in any case.
async fn find_login(app: &App, headers: &HeaderMap, address: Option<IpAddr>) -> Option<Login> {
    let secret = login_cookie::read(headers, app.listen_address.is_tls())?;
    app.log_in(&Credential::Session(secret.into()), address).await.ok()
}

/// The page, with who is logged in, until when, and what for.
fn page_with_login(login: &Login) -> String {
    let name = escape(&login.token.name);
    let until = login.session.map(|session| session.expires_at.to_string());
    let until = until.and_then(|until| until.get(..MINUTES_LENGTH).map(|until| until.replace('T', " ")));
    let until = until.map(|until| format!(" until {until} UTC")).unwrap_or_default();
    let note = format!(
        "<p>You are logged in as <strong>{name}</strong>{until}. Pages of this address can now call the API from this \
         browser without a token.</p>\n<dl>"
    );
    PAGE.replacen("<dl>", &note, 1)
}

#[cfg(test)]
mod tests {
    use base64::{Engine as _, prelude::BASE64_STANDARD};
    use sha2::{Digest, Sha256};

    use super::*;

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

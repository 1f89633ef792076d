//! `/login`: a page on which a person logs in with a link or a token. The page itself uses nothing up: only
//! sending its form does, so a program that previews links cannot use up a code.

use std::sync::LazyLock;

use axum::{
    Extension,
    extract::{Request, State},
    http::{HeaderMap, HeaderValue, StatusCode, Uri, header},
    response::{IntoResponse, Response},
};
use emergent_net::percent;
use serde::Deserialize;
use utoipa::{IntoParams, ToSchema};

use super::{LoginProof, start_session, with_cookie};
use crate::{
    ApiError, App,
    docs_page::escape,
    error::Failure,
    extract::{Query, has_content_type, read_limited},
    html_page,
    server::Peer,
    views::session::CreateSession,
};

const STYLE: &str = include_str!("login.css");
const FORM: &str = "application/x-www-form-urlencoded";
/// The maximum size of the form in bytes.
const MAX_FORM_BYTES: usize = 8 << 10;

static POLICY: LazyLock<String> = LazyLock::new(|| html_page::policy(STYLE, "'self'"));

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct LoginQuery {
    /// A one-time code. Without it, the page asks for a token.
    code: Option<String>,
}

/// The form of the page.
#[derive(ToSchema)]
#[allow(dead_code, reason = "it describes the form, which is read by `read_form`")]
pub(super) struct LoginForm {
    token: Option<String>,
    code: Option<String>,
}

/// Shows the page with a form that logs in.
#[utoipa::path(
    get, path = "/login", tag = "session", operation_id = "loginPage", params(LoginQuery),
    responses((status = 200, description = "A page", body = String, content_type = "text/html")),
)]
pub(super) async fn show(Query(query): Query<LoginQuery>) -> Response {
    page(StatusCode::OK, query.code.as_deref(), None)
}

/// Logs in with the form of the page, sets the cookie and leads to `/`.
#[utoipa::path(
    post, path = "/login", tag = "session", operation_id = "submitLoginPage",
    request_body(content = LoginForm, content_type = "application/x-www-form-urlencoded"),
    responses(
        (status = 303, description = "Logged in"),
        (status = 400, description = "The page, with what is wrong; or `malformed`",
            content((String = "text/html"), (Failure = "application/json"))),
        (status = 401, description = "The page: the token or code is not valid", body = String, content_type = "text/html"),
        (status = 403, description = "The page: another server's page sent the form", body = String, content_type = "text/html"),
        (status = 429, description = "The page: too many failed logins; or `overloaded`",
            content((String = "text/html"), (Failure = "application/json"))),
        (status = 503, description = "The page, or an error: the database cannot be reached",
            content((String = "text/html"), (Failure = "application/json"))),
    ),
)]
pub(super) async fn log_in(
    State(app): State<App>,
    peer: Option<Extension<Peer>>,
    headers: HeaderMap,
    uri: Uri,
    request: Request,
) -> Result<Response, ApiError> {
    if !has_content_type(&headers, FORM) {
        return Err(ApiError::wrong_content_type(FORM));
    }
    let (parts, body) = request.into_parts();
    let form = read_limited(&parts, body, MAX_FORM_BYTES, "the form").await?;
    let address = peer.map(|Extension(peer)| peer.address);
    let started = match LoginProof::from_body(read_form(&String::from_utf8_lossy(&form))) {
        Ok(proof) => start_session(&app, proof, address, &headers, &uri).await,
        Err(error) => Err(error),
    };
    Ok(match started {
        Ok(started) => {
            let home = (StatusCode::SEE_OTHER, [(header::LOCATION, HeaderValue::from_static("/"))]);
            with_cookie(home.into_response(), &started, &headers, app.listen_address.is_tls())
        }
        Err(error) => page(error.status, None, Some(error.into_body().message)),
    })
}

/// Reads the fields of a form. Empty ones were not filled in.
fn read_form(text: &str) -> CreateSession {
    let mut fields = CreateSession::default();
    for (name, value) in text.split('&').filter_map(|pair| pair.split_once('=')) {
        let value = percent::decode_lossy(&value.replace('+', " "));
        let value = Some(value.trim().to_owned()).filter(|value| !value.is_empty());
        match name {
            "token" => fields.token = value,
            "code" => fields.code = value,
            _ => {}
        }
    }
    fields
}

/// Returns the page. With a code, its form sends the code; otherwise it asks for a token.
fn page(status: StatusCode, code: Option<&str>, problem: Option<String>) -> Response {
    let (message, field) = match code {
        Some(code) => (
            "<p>This link logs this browser in, once.</p>".to_owned(),
            format!("<input type=\"hidden\" name=\"code\" value=\"{}\">", escape(code)),
        ),
        None => (
            match problem {
                Some(problem) => format!("<p role=\"alert\">{}</p>", escape(&problem)),
                None => "<p>Log in with a token, or with the link that <code>emergent login-link</code> prints.</p>"
                    .to_owned(),
            },
            "<label for=\"token\">Token</label>\
             <input type=\"password\" id=\"token\" name=\"token\" autocomplete=\"off\" required>"
                .to_owned(),
        ),
    };
    let html = include_str!("login.html").replace("{{style}}", STYLE);
    let html = html.replace("{{message}}", &message).replace("{{field}}", &field);
    // The form has to name its origin, so the policy is not `no-referrer`.
    let mut response = html_page::respond(html, &POLICY, "same-origin");
    *response.status_mut() = status;
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_form_is_read_with_its_escapes() {
        let form = read_form("code=&token=a%2Bb+c&other=1");
        assert_eq!((form.token.as_deref(), form.code), (Some("a+b c"), None));
    }
}

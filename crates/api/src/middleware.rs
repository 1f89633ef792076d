//! The middleware of every request: the request id, the limit of concurrent requests, the check of the host
//! name, metrics, and the conversion of panics into responses.

use std::{any::Any, panic::AssertUnwindSafe, time::Duration};

use axum::{
    Extension, Router,
    extract::{DefaultBodyLimit, MatchedPath, Request, State},
    http::{HeaderName, HeaderValue},
    middleware::{self, Next},
    response::{IntoResponse, Response},
};
use futures_util::FutureExt;
use tokio::time::Instant;
use tracing::Instrument;
use uuid::Uuid;

use crate::{
    ApiError, App, hosts::AllowedHosts, html_page, request_context::RequestContext, routes::a2a,
    server::Peer, web_pages,
};

/// A longer request id is replaced.
const MAX_REQUEST_ID_BYTES: usize = 128;
/// The header with the id of a request, which the response repeats.
const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// Adds the middleware and the app to the routes.
pub(crate) fn wrap(routes: Router<App>, app: App) -> Router {
    routes
        .fallback(no_route)
        .method_not_allowed_fallback(wrong_method)
        .layer(Extension(app.clone()))
        // Each extractor has its own limit.
        .layer(DefaultBodyLimit::disable())
        .layer(middleware::from_fn_with_state(app.clone(), observe))
        .with_state(app)
}

/// Serves the files of the web UI and its pages, whose paths only the browser knows. Everything else is unknown.
async fn no_route(State(app): State<App>, request: Request) -> Response {
    let path = request.uri().path();
    let found = web_pages::find(&app.web_ui, request.method(), path, request.headers());
    found.unwrap_or_else(|| a2a::shape_error(path, request.headers(), ApiError::no_route()))
}

async fn wrong_method(request: Request) -> Response {
    a2a::shape_error(request.uri().path(), request.headers(), ApiError::wrong_method())
}

/// The outermost middleware.
async fn observe(State(app): State<App>, mut request: Request, next: Next) -> Response {
    let started = Instant::now();
    let id = request_id(&request);
    let method = request.method().clone();
    let route = request.extensions().get::<MatchedPath>().cloned();
    let span = tracing::info_span!("request", id = id.to_str().unwrap_or_default(), %method, path = request.uri().path());

    // Health checks bypass the limits, so that a busy server is not taken for a dead one and restarted.
    let is_health_check = is_health_check(&request);
    let peer = request.extensions().get::<Peer>();
    // A command that works on a data folder calls the router without a connection.
    let has_connection = peer.is_some();
    let reserved_connection = peer.is_some_and(|peer| peer.reserved);
    let permit = match is_health_check {
        true => app.requests.try_acquire(),
        false => app.requests.acquire().await,
    };
    let context = match permit {
        Some(permit) => {
            Some(RequestContext::new(permit, reserved_connection || app.requests.only_reserved_left()))
        }
        None if is_health_check => Some(RequestContext::default()),
        None => None,
    };
    let known_host = is_health_check || app.allowed_hosts.as_ref().is_none_or(|hosts| hosts.allow(&request));
    let checks_host = has_connection && app.allowed_hosts.is_some() && !is_health_check;
    let lacks_host = checks_host && AllowedHosts::is_missing(&request);
    let mut response = match &context {
        None => app.requests.refuse().into_response(),
        Some(_) if lacks_host => ApiError::malformed("the header `Host` is missing").into_response(),
        Some(_) if !known_host => {
            let name = app.allowed_hosts.as_ref().and_then(|hosts| hosts.refused_name(&request));
            ApiError::unknown_host(name).into_response()
        }
        Some(context) => {
            request.extensions_mut().insert(context.clone());
            match AssertUnwindSafe(next.run(request).instrument(span.clone())).catch_unwind().await {
                Ok(response) => response,
                Err(panic) => span.in_scope(|| panic_response(&*panic)),
            }
        }
    };
    response.headers_mut().insert(REQUEST_ID, id);
    html_page::add_security_headers(&mut response);
    let route = route.as_ref().map_or("unmatched", MatchedPath::as_str);
    let took = started.elapsed();
    app.metrics.record(&method, route, response.status(), took);
    span.in_scope(|| tracing::debug!(status = response.status().as_u16(), ?took, "the request was handled"));
    response
}

/// Whether a request asks if the server works.
pub(crate) fn is_health_check(request: &Request) -> bool {
    matches!(request.uri().path(), "/health" | "/ready")
}

/// Returns the request id that the caller sent, so that the logs of both sides can be joined. Without one, or
/// if it is not plain text, a new id is generated.
fn request_id(request: &Request) -> HeaderValue {
    let is_plain = |value: &&HeaderValue| {
        let bytes = value.as_bytes();
        (1..=MAX_REQUEST_ID_BYTES).contains(&bytes.len())
            && bytes.iter().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(b))
    };
    match request.headers().get(REQUEST_ID).filter(is_plain) {
        Some(sent) => sent.clone(),
        None => {
            let mut text = [0; uuid::fmt::Hyphenated::LENGTH];
            let text = Uuid::now_v7().hyphenated().encode_lower(&mut text);
            // A UUID consists of hexadecimal digits and hyphens, so it is a valid header value.
            HeaderValue::from_str(text).unwrap_or_else(|_| HeaderValue::from_static("none"))
        }
    }
}

fn panic_response(panic: &(dyn Any + Send)) -> Response {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message");
    ApiError::internal_text(&format!("a handler panicked: {text}")).into_response()
}

/// How much of the name of an unknown parameter an error repeats.
const MAX_NAME_CHARS: usize = 64;

/// Limits the time until a response starts; a stream may take longer after that.
pub(crate) async fn limit_time(State(limit): State<Duration>, request: Request, next: Next) -> Response {
    match tokio::time::timeout(limit, next.run(request)).await {
        Ok(response) => response,
        Err(_) => ApiError::timed_out(limit.as_secs()).into_response(),
    }
}

/// Refuses the query of a request to a route that has no query parameters. A list that is always complete ignores
/// the parameters of pages.
pub(crate) async fn refuse_query(request: Request, next: Next) -> Response {
    let names = request.uri().query().unwrap_or_default().split('&');
    let names = names.map(|parameter| parameter.split('=').next().unwrap_or_default());
    match names.into_iter().find(|name| !matches!(*name, "" | "limit" | "cursor")) {
        None => next.run(request).await,
        Some(name) => {
            let name: String = name.chars().take(MAX_NAME_CHARS).collect();
            ApiError::invalid(name, "is not a known parameter; this route has none").into_response()
        }
    }
}

#[cfg(test)]
mod tests {
    use axum::{
        body::{Body, to_bytes},
        routing::get,
    };
    use emergent_domain::{redact::Redactor, time::Clock};
    use emergent_executor::{Executor, Settings};
    use emergent_graph::Graph;
    use emergent_llm::Models;
    use emergent_secrets::{KeySource, Keyring, Secrets};
    use emergent_testkit::TestDb;
    use emergent_tools::ToolPool;
    use tower::ServiceExt;

    use super::*;

    /// Sends a request to these routes. Returns the status, the request id and the body of the response.
    async fn get_response(routes: Router<App>, path: &str) -> (u16, HeaderValue, String) {
        let db = TestDb::sqlite().await;
        let graph = Graph::new(db.db.clone(), Clock::system(), None);
        let keys = KeySource::Environment(Keyring::generate().unwrap());
        let secrets = Secrets::open(db.db.clone(), Clock::system(), keys, Redactor::default()).await.unwrap();
        let executor = Executor::new(graph, Models::default(), ToolPool::default(), Settings::default());
        let app = App::new(executor, secrets);
        let request = Request::builder().uri(path).header(REQUEST_ID, "mine-1").body(Body::empty()).unwrap();
        let response = wrap(routes, app).oneshot(request).await.unwrap();
        let (status, id) = (response.status().as_u16(), response.headers()[REQUEST_ID].clone());
        let bytes = to_bytes(response.into_body(), usize::MAX).await.unwrap();
        (status, id, String::from_utf8(bytes.into()).unwrap())
    }

    async fn boom() {
        panic!("a secret");
    }

    #[tokio::test]
    async fn a_panic_becomes_an_error_without_its_message() {
        let (status, id, text) = get_response(Router::new().route("/boom", get(boom)), "/boom").await;
        assert_eq!((status, id.to_str().unwrap()), (500, "mine-1"));
        assert!(text.contains("\"internal\"") && !text.contains("secret"), "{text}");
    }

    #[tokio::test]
    async fn a_response_that_takes_too_long_is_a_timeout() {
        let slow = get(async || tokio::time::sleep(Duration::from_secs(60)).await);
        let limited = slow.route_layer(middleware::from_fn_with_state(Duration::from_millis(10), limit_time));
        let (status, _, text) = get_response(Router::new().route("/slow", limited), "/slow").await;
        assert_eq!(status, 503);
        assert!(text.contains("\"timeout\""), "{text}");
    }
}

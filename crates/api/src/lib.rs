//! The HTTP API of Emergent.
//!
//! `routes` has one handler per endpoint. Each handler has three parts: extractors validate the request, one
//! call of `graph`, `executor`, `coordination` or `products` does the work, and a view from `views` is the
//! response. Who may call a route is declared where the route is registered (`access`), and nowhere else. All
//! responses share one envelope (`response`, `error`), and the OpenAPI document is generated from the
//! handlers. `/mcp` serves the same project to clients of the Model Context Protocol. The crate contains no
//! SQL and no business rules.

#![cfg_attr(not(test), warn(clippy::disallowed_methods, clippy::expect_used, clippy::unwrap_used))]

mod access;
mod answer_memory;
mod app;
mod auth;
mod byte_budget;
mod diagnostics;
mod docs_page;
mod endpoint;
mod error;
mod etag;
mod extract;
mod failed_logins;
mod hosts;
mod html_page;
mod idempotency;
mod invoke_rate;
mod login_cookie;
mod login_rate;
mod metrics;
mod middleware;
mod openapi;
mod public_requests;
mod rate_limit;
mod readiness;
mod request_context;
mod response;
mod routes;
mod same_origin;
pub mod server;
mod shares;
mod sse;
mod stream_limit;
mod token_lookups;
mod ttl_cache;
mod views;
mod waited_run;
mod waiting;
mod web_pages;

pub use app::{App, AppOptions};
pub use diagnostics::ServerDescription;
pub use error::ApiError;
pub use hosts::{AllowedHosts, is_loopback};
pub use openapi::openapi;
pub use routes::mcp::McpCaller;
pub use shares::Capacity;

/// Returns the router of the whole API.
pub fn router(app: App) -> axum::Router {
    middleware::wrap(routes::routes().0, app)
}

/// The limits of requests. An error that enforces a limit names it.
pub mod limits {
    use std::time::Duration;

    /// The maximum size of a JSON body in bytes.
    pub const BODY: usize = 8 << 20;
    /// The maximum size of a JSON body in bytes, where a small one is sufficient: searches, decisions and messages.
    pub const SMALL_BODY: usize = 512 << 10;
    /// The maximum size of the JSON body of a login in bytes.
    pub const LOGIN_BODY: usize = 16 << 10;
    /// The maximum number of values in a JSON body.
    pub const JSON_VALUES: usize = 200_000;
    /// The maximum number of values in a JSON body with many objects or relationships.
    pub const BULK_JSON_VALUES: usize = 500_000;
    /// The maximum number of bytes of request bodies that are in memory, with what their values need. One project
    /// may use half of them.
    pub const REQUEST_BODIES: usize = 256 << 20;
    /// The maximum number of cards that are made at the same time: anybody may ask for one, without a token.
    pub const CARD_READS: usize = 2;
    /// The maximum number of requests without a token that are handled concurrently.
    pub const PUBLIC_REQUESTS: usize = 64;
    /// The maximum number of requests without a token that one address may have at once.
    pub const PUBLIC_REQUESTS_PER_ADDRESS: usize = 16;
    /// The time within which the whole body of a request without a token has to arrive.
    pub const PUBLIC_BODY_TIME: Duration = Duration::from_secs(5);
    /// The maximum size of an uploaded document in bytes.
    pub const UPLOAD: usize = 64 << 20;
    /// The maximum number of objects, or relationships, in one bulk request.
    pub const BULK: usize = 1_000;
    /// The maximum number of requests that are handled concurrently.
    pub const CONCURRENT: usize = 1_024;
    /// The maximum number of open event streams.
    pub const STREAMS: usize = 4_096;
    /// The maximum number of exports at once.
    pub const EXPORTS: usize = 64;
    /// The maximum number of bytes of answers that are in memory until their clients have received them. One
    /// project may use half of them.
    pub const UNREAD_ANSWERS: usize = 256 << 20;
    /// The maximum number of bytes of rows that requests have in memory until their answers are built. One project may
    /// use a quarter of them.
    pub const ROWS: usize = 64 << 20;
    /// The timeout of a request.
    pub const TIME: Duration = Duration::from_secs(60);
    /// The timeout of a request that waits for the end of a run, or for the first start of a program.
    pub const WAIT_TIME: Duration = Duration::from_secs(660);
    /// The timeout of an upload.
    pub const UPLOAD_TIME: Duration = Duration::from_secs(600);
}

//! The HTTP side of Emergent: what can be asked, by whom, and how the answer is written.
//!
//! A handler reads as a sentence: extractors check, one call of the graph works, a view answers.
//! Who may call a route is said where the route is registered (`access`), and nowhere else.

mod access;
mod app;
mod auth;
mod docs_page;
mod error;
mod extract;
mod metrics;
mod middleware;
mod openapi;
mod request_context;
mod response;
mod routes;
mod sse;
mod stream_limit;
mod ttl_cache;
mod views;

pub use app::{App, AppOptions};
pub use error::ApiError;
pub use openapi::openapi;
pub use routes::mcp::McpCaller;

/// The whole API over one graph.
pub fn router(app: App) -> axum::Router {
    middleware::wrap(routes::routes().0, app)
}

/// Limits of every request; each is named in the error that enforces it.
pub mod limits {
    use std::time::Duration;

    /// Bytes of a JSON body.
    pub const BODY: usize = 8 << 20;
    /// Bytes of an uploaded document.
    pub const UPLOAD: usize = 64 << 20;
    /// Objects, or relationships, in one bulk request.
    pub const BULK: usize = 1_000;
    /// Requests being answered at once.
    pub const CONCURRENT: usize = 1_024;
    /// Event streams open at once.
    pub const STREAMS: usize = 4_096;
    pub const TIME: Duration = Duration::from_secs(60);
    pub const UPLOAD_TIME: Duration = Duration::from_secs(600);
}

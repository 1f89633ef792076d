//! What every request shares.

use std::sync::Arc;

use emergent_coordination::Dispatcher;
use emergent_domain::{ids::ProjectId, token::Token};
use emergent_executor::Executor;
use emergent_graph::Graph;
use emergent_mcp::server::{Host, Server};
use emergent_products::Products;
use emergent_secrets::Secrets;
use tokio::sync::{Semaphore, watch};

use crate::{
    limits,
    metrics::Metrics,
    routes::mcp::{self, McpCaller},
    stream_limit::StreamLimit,
    ttl_cache::TtlCache,
};

/// A handle on the running API; clones share it.
#[derive(Clone)]
pub struct App(Arc<Inner>);

pub struct Inner {
    pub graph: Graph,
    pub executor: Executor,
    pub dispatcher: Dispatcher,
    pub products: Products,
    pub secrets: Secrets,
    pub(crate) tokens: TtlCache<String, Arc<Token>>,
    pub(crate) projects: TtlCache<String, ProjectId>,
    pub(crate) metrics: Metrics,
    pub(crate) mcp: mcp::Endpoint,
    pub(crate) request_permits: Arc<Semaphore>,
    pub(crate) max_requests: usize,
    pub(crate) streams: StreamLimit,
    closing: watch::Sender<bool>,
}

impl std::ops::Deref for App {
    type Target = Inner;
    fn deref(&self) -> &Inner {
        &self.0
    }
}

impl App {
    pub fn new(executor: Executor, secrets: Secrets) -> Self {
        Self::with_request_limit(executor, secrets, limits::CONCURRENT)
    }

    /// As [`App::new`], answering at most `concurrent` requests at once and 429 to the rest.
    pub fn with_request_limit(executor: Executor, secrets: Secrets, concurrent: usize) -> Self {
        Self(Arc::new(Inner {
            graph: executor.graph().clone(),
            mcp: mcp::endpoint(&executor),
            dispatcher: Dispatcher::new(executor.clone(), emergent_coordination::Settings::default()),
            products: Products::new(executor.clone(), emergent_products::Settings::default()),
            executor,
            secrets,
            tokens: TtlCache::default(),
            projects: TtlCache::default(),
            metrics: Metrics::default(),
            request_permits: Arc::new(Semaphore::new(concurrent)),
            max_requests: concurrent,
            streams: StreamLimit::new(limits::STREAMS),
            closing: watch::channel(false).0,
        }))
    }

    /// With products under other settings. For an app that nobody shares yet.
    #[must_use]
    pub fn with_products(mut self, products: Products) -> Self {
        if let Some(inner) = Arc::get_mut(&mut self.0) {
            inner.products = products;
        }
        self
    }

    /// With a dispatcher under other settings. For an app that nobody shares yet.
    #[must_use]
    pub fn with_dispatcher(mut self, dispatcher: Dispatcher) -> Self {
        if let Some(inner) = Arc::get_mut(&mut self.0) {
            inner.dispatcher = dispatcher;
        }
        self
    }

    /// With at most `most` event streams open at once. For an app that nobody shares yet.
    #[must_use]
    pub fn with_stream_limit(mut self, most: usize) -> Self {
        if let Some(inner) = Arc::get_mut(&mut self.0) {
            inner.streams = StreamLimit::new(most);
        }
        self
    }

    /// With another host behind `/mcp` than the project's own. For an app that nobody shares yet:
    /// one that is in use stays as it is.
    #[must_use]
    pub fn with_mcp_host(mut self, host: Arc<dyn Host<Caller = McpCaller>>) -> Self {
        if let Some(inner) = Arc::get_mut(&mut self.0) {
            inner.mcp = Server::new(host);
        }
        self
    }

    /// Ends every open event stream, so that a server that stops does not wait for them.
    pub fn close(&self) {
        self.closing.send_replace(true);
    }

    /// Resolves once [`App::close`] was called.
    pub(crate) fn closed(&self) -> impl Future<Output = ()> + Send + 'static {
        let mut closing = self.closing.subscribe();
        async move {
            // The sender lives as long as the app: an error means that it is gone, too.
            let _ = closing.wait_for(|closing| *closing).await;
        }
    }
}

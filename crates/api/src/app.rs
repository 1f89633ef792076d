//! The state that all requests share.

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

/// The running API. Clones share the same state.
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

    /// Like [`App::new`], but handles at most `concurrent` requests at once and refuses the rest with 429.
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

    /// Replaces the products. Only for an app that is not shared yet.
    #[must_use]
    pub fn with_products(mut self, products: Products) -> Self {
        if let Some(inner) = Arc::get_mut(&mut self.0) {
            inner.products = products;
        }
        self
    }

    /// Replaces the dispatcher. Only for an app that is not shared yet.
    #[must_use]
    pub fn with_dispatcher(mut self, dispatcher: Dispatcher) -> Self {
        if let Some(inner) = Arc::get_mut(&mut self.0) {
            inner.dispatcher = dispatcher;
        }
        self
    }

    /// Limits the number of open event streams. Only for an app that is not shared yet.
    #[must_use]
    pub fn with_stream_limit(mut self, max_streams: usize) -> Self {
        if let Some(inner) = Arc::get_mut(&mut self.0) {
            inner.streams = StreamLimit::new(max_streams);
        }
        self
    }

    /// Replaces the host behind `/mcp`. An app that is already shared stays unchanged.
    #[must_use]
    pub fn with_mcp_host(mut self, host: Arc<dyn Host<Caller = McpCaller>>) -> Self {
        if let Some(inner) = Arc::get_mut(&mut self.0) {
            inner.mcp = Server::new(host);
        }
        self
    }

    /// Closes all open event streams, so that a server that shuts down does not wait for them.
    pub fn close(&self) {
        self.closing.send_replace(true);
    }

    /// Resolves once [`App::close`] was called.
    pub(crate) fn closed(&self) -> impl Future<Output = ()> + Send + 'static {
        let mut closing = self.closing.subscribe();
        async move {
            // The sender exists as long as the app, so an error means that the app was dropped.
            let _ = closing.wait_for(|closing| *closing).await;
        }
    }
}

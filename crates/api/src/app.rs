//! The state that all requests share: the services, caches and limits of the API.

use std::{
    net::{IpAddr, SocketAddr},
    sync::Arc,
};

use axum::body::Bytes;
use emergent_chat::Chat;
use emergent_coordination::Dispatcher;
use emergent_domain::{
    browser_session::Login,
    ids::{ProjectId, TokenId},
};
use emergent_executor::Executor;
use emergent_graph::{Credential, Graph};
use emergent_mcp::server::{Host, Server};
use emergent_products::Products;
use emergent_secrets::Secrets;
use emergent_store::{read_memory::ReadMemory, requester::Requester};
use emergent_web::WebUi;
use tokio::sync::{Semaphore, watch};

use crate::{
    answer_memory::AnswerMemory,
    byte_budget::ByteBudget,
    diagnostics::{ListenAddress, ServerDescription},
    failed_logins::failed_logins,
    hosts::AllowedHosts,
    idempotency::KeysInProgress,
    invoke_rate::{self, InvokeRate},
    limits,
    login_rate::login_rate,
    metrics::Metrics,
    public_requests::PublicRequests,
    rate_limit::RateLimit,
    readiness::Readiness,
    routes::mcp::{self, McpCaller},
    shares::{Capacity, Limiter},
    token_lookups::TokenLookups,
    ttl_cache::TtlCache,
};

/// A handle on the state of the API; clones share it.
#[derive(Clone)]
pub struct App(Arc<Inner>);

/// The card of a project as it is sent. All answers share its bytes, so that callers who read slowly take no memory.
#[derive(Clone)]
pub(crate) struct CachedCard {
    pub json: Bytes,
    pub is_empty: bool,
}

pub struct Inner {
    pub graph: Graph,
    pub executor: Executor,
    pub chat: Chat,
    pub dispatcher: Dispatcher,
    pub products: Products,
    pub secrets: Secrets,
    /// Valid tokens and sessions by their secret.
    pub(crate) logins: TtlCache<Credential, Login>,
    /// Projects by the id or name in a request.
    pub(crate) projects: TtlCache<String, ProjectId>,
    pub(crate) metrics: Metrics,
    pub(crate) mcp: mcp::Endpoint,
    pub(crate) requests: Limiter,
    pub(crate) streams: Limiter,
    pub(crate) exports: Limiter,
    pub(crate) answers: AnswerMemory,
    /// The rows that requests have read, until their answers are built.
    pub(crate) read_memory: Arc<ReadMemory>,
    /// The bodies of requests that are in memory.
    pub(crate) bodies: ByteBudget,
    pub(crate) public_requests: PublicRequests,
    pub(crate) readiness: Readiness,
    pub(crate) failed_logins: RateLimit<IpAddr>,
    pub(crate) login_rate: RateLimit<TokenId>,
    /// Runs that callers from outside start.
    pub(crate) invoke_rate: Arc<InvokeRate>,
    /// The cards of projects, which anybody may ask for.
    pub(crate) cards: TtlCache<ProjectId, CachedCard>,
    /// Reads of agents for cards. Whoever waits mostly finds the card when its turn comes.
    pub(crate) card_reads: Semaphore,
    /// First lookups of tokens, and those from addresses that presented too many unknown ones.
    pub(crate) first_lookups: TokenLookups,
    pub(crate) doubted_lookups: TokenLookups,
    pub(crate) keys_in_progress: KeysInProgress,
    pub(crate) allowed_hosts: Option<AllowedHosts>,
    pub(crate) web_ui: WebUi,
    pub(crate) description: ServerDescription,
    pub(crate) listen_address: ListenAddress,
    closing: watch::Sender<bool>,
}

impl std::ops::Deref for App {
    type Target = Inner;
    fn deref(&self) -> &Inner {
        &self.0
    }
}

/// The options of a new [`App`]. They cannot be changed later, because the app is shared.
pub struct AppOptions {
    /// `None` means a dispatcher with default settings.
    pub dispatcher: Option<Dispatcher>,
    /// `None` means products with default settings.
    pub products: Option<Products>,
    /// The host behind `/mcp`; `None` means the one that offers the tools of the caller's project.
    pub mcp_host: Option<Arc<dyn Host<Caller = McpCaller>>>,
    /// The limits of concurrent requests; further requests get 429.
    pub requests: Capacity,
    /// The limits of open streams: events, exports and imports.
    pub streams: Capacity,
    /// How many runs a minute one token may start of one external agent.
    pub invoke_rate: usize,
    /// The accepted values of the header `Host`; `None` means any.
    pub allowed_hosts: Option<AllowedHosts>,
    /// The files of the web UI; without them, `/` is a page that says how to get it.
    pub web_ui: WebUi,
    /// How the server was built and configured.
    pub description: ServerDescription,
}

impl Default for AppOptions {
    fn default() -> Self {
        Self {
            dispatcher: None,
            products: None,
            mcp_host: None,
            requests: Capacity::new(limits::CONCURRENT),
            streams: Capacity::new(limits::STREAMS),
            invoke_rate: invoke_rate::DEFAULT_PER_MINUTE,
            allowed_hosts: None,
            web_ui: WebUi::default(),
            description: ServerDescription::default(),
        }
    }
}

impl App {
    pub fn new(executor: Executor, secrets: Secrets) -> Self {
        Self::with_options(executor, secrets, AppOptions::default())
    }

    pub fn with_options(executor: Executor, secrets: Secrets, options: AppOptions) -> Self {
        let AppOptions {
            dispatcher,
            products,
            mcp_host,
            requests,
            streams,
            invoke_rate,
            allowed_hosts,
            web_ui,
            description,
        } = options;
        let dispatcher = dispatcher.unwrap_or_else(|| Dispatcher::new(executor.clone(), Default::default()));
        let products = products.unwrap_or_else(|| Products::new(executor.clone(), Default::default()));
        let invoke_rate = Arc::new(InvokeRate::per_minute(invoke_rate));
        let mcp = mcp_host.map_or_else(|| mcp::endpoint(&executor, Arc::clone(&invoke_rate)), Server::new);
        Self(Arc::new(Inner {
            graph: executor.graph().clone(),
            mcp,
            chat: Chat::new(executor.clone()),
            dispatcher,
            products,
            executor,
            secrets,
            logins: TtlCache::default(),
            projects: TtlCache::default(),
            metrics: Metrics::default(),
            requests: Limiter::new("requests", requests),
            streams: Limiter::new("streams", streams),
            exports: Limiter::new("exports", Capacity::new(limits::EXPORTS)),
            answers: AnswerMemory::new(limits::UNREAD_ANSWERS),
            read_memory: ReadMemory::new(limits::ROWS),
            bodies: ByteBudget::new(limits::REQUEST_BODIES),
            public_requests: PublicRequests::default(),
            readiness: Readiness::default(),
            failed_logins: failed_logins(),
            login_rate: login_rate(),
            invoke_rate,
            cards: TtlCache::default(),
            card_reads: Semaphore::new(limits::CARD_READS),
            first_lookups: TokenLookups::new(Requester::Authentication),
            doubted_lookups: TokenLookups::new(Requester::DoubtedAuthentication),
            keys_in_progress: KeysInProgress::default(),
            allowed_hosts,
            web_ui,
            description,
            listen_address: ListenAddress::default(),
            closing: watch::channel(false).0,
        }))
    }

    /// Tells the app where its server listens.
    pub fn set_listen_address(&self, address: SocketAddr, tls: bool) {
        self.listen_address.set(address, tls);
    }

    /// Closes every open event stream, so that a server that stops does not wait for them.
    pub fn close(&self) {
        self.closing.send_replace(true);
    }

    /// Whether [`App::close`] was called.
    pub(crate) fn is_closing(&self) -> bool {
        *self.closing.borrow()
    }

    /// Resolves once [`App::close`] was called.
    pub(crate) fn closed(&self) -> impl Future<Output = ()> + Send + 'static {
        let mut closing = self.closing.subscribe();
        async move {
            // An error means that the app was dropped, which is also the end.
            let _ = closing.wait_for(|closing| *closing).await;
        }
    }
}

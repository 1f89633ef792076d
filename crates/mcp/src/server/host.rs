//! The interface to the application behind the protocol: its tools, prompts and resources.

use std::{collections::BTreeMap, hash::Hash, sync::Arc};

use async_trait::async_trait;
use futures_util::{StreamExt, stream, stream::BoxStream};
use serde_json::Value;
use tokio::sync::watch;
use uuid::Uuid;

use super::{Era, Fault, JsonFields, RequestChannel, ToolList};

/// The server's description of itself.
#[derive(Debug, Clone)]
pub struct ServerInfo {
    /// `{ name, title?, version }`
    pub server: Value,
    pub capabilities: Value,
    /// Instructions for the model that uses this server.
    pub instructions: Option<String>,
}

/// The lists whose changes a client can be notified of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ListKind {
    Tools,
    Prompts,
    Resources,
}

/// The subscribed resources by URI, each with the fingerprint of its content at the time of the
/// subscription.
pub type SubscribedResources = BTreeMap<String, u64>;

/// A call of a tool, or a request for a prompt.
pub struct HostCall<C> {
    pub caller: C,
    pub era: Era,
    pub name: String,
    /// Null if there are no arguments.
    pub arguments: Value,
    /// The client's answers to an earlier [`CallOutcome::NeedsInput`].
    pub answers: Value,
    /// The state that the earlier outcome passed to the client. Clients can change it, so the host has to
    /// verify it.
    pub state: Option<String>,
    pub channel: RequestChannel,
}

/// The result of a call, or the input that the call needs first.
pub enum CallOutcome {
    Done(JsonFields),
    /// The client has to call again with the answers. Legacy clients are asked with [`RequestChannel::ask`]
    /// instead.
    NeedsInput {
        requests: Value,
        state: Option<String>,
    },
}

/// The application behind the protocol. The futures of a host may be dropped at any await point, which is how
/// a request is cancelled.
#[async_trait]
pub trait Host: Send + Sync + 'static {
    /// The identity of the client. A session is accessible only to a caller equal to its creator.
    type Caller: Clone + Eq + Hash + Send + Sync + 'static;

    fn server_info(&self) -> &ServerInfo;

    /// The project of a caller. All callers of a project together have a share of the sessions.
    fn project(&self, _caller: &Self::Caller) -> Uuid {
        Uuid::nil()
    }

    async fn tools(&self, caller: &Self::Caller) -> Result<Arc<ToolList>, Fault>;
    async fn call(&self, call: HostCall<Self::Caller>) -> Result<CallOutcome, Fault>;

    /// Returns `prompts`.
    async fn prompts(&self, caller: &Self::Caller) -> Result<JsonFields, Fault>;
    async fn prompt(&self, call: HostCall<Self::Caller>) -> Result<CallOutcome, Fault>;

    /// Returns `resources`, and `nextCursor` if there are more.
    async fn resources(&self, caller: &Self::Caller, cursor: Option<&str>) -> Result<JsonFields, Fault>;
    /// Returns `resourceTemplates`.
    async fn templates(&self, caller: &Self::Caller) -> Result<JsonFields, Fault>;
    /// Returns `contents`.
    async fn read(&self, caller: &Self::Caller, uri: &str) -> Result<JsonFields, Fault>;

    /// Returns `completion`.
    async fn complete(&self, _caller: &Self::Caller, _params: Value) -> Result<JsonFields, Fault> {
        Err(Fault::MethodNotFound)
    }

    /// Checks that the caller may subscribe to a resource, and returns a fingerprint of its current
    /// content.
    async fn subscribe(&self, _caller: &Self::Caller, _uri: &str) -> Result<u64, Fault> {
        Err(Fault::MethodNotFound)
    }

    /// Streams the URIs of subscribed resources whose fingerprint has changed.
    fn updates(
        &self,
        _caller: &Self::Caller,
        _subscribed: watch::Receiver<SubscribedResources>,
    ) -> BoxStream<'static, String> {
        stream::empty().boxed()
    }

    /// Streams changes of the lists until it is dropped.
    fn changes(&self, caller: &Self::Caller) -> BoxStream<'static, ListKind>;
}

//! Who stands behind the protocol: what there is to list, to call and to read.

use std::{collections::BTreeMap, hash::Hash, sync::Arc};

use async_trait::async_trait;
use futures_util::{StreamExt, stream, stream::BoxStream};
use serde_json::Value;
use tokio::sync::watch;

use super::{Era, Fault, JsonFields, RequestChannel, ToolList};

/// What a server says of itself.
#[derive(Debug, Clone)]
pub struct ServerInfo {
    /// `{ name, title?, version }`
    pub server: Value,
    pub capabilities: Value,
    /// For the model that uses what is offered here.
    pub instructions: Option<String>,
}

/// What has changed, so that a client reads it again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ListKind {
    Tools,
    Prompts,
    Resources,
}

/// The resources a client wants to hear of, by their URIs, each with what it read like when it was
/// asked for.
pub type SubscribedResources = BTreeMap<String, u64>;

/// A call of a tool, or a prompt that is asked for.
pub struct HostCall<C> {
    pub caller: C,
    pub era: Era,
    pub name: String,
    /// Null when there are none.
    pub arguments: Value,
    /// What the client answers to the questions of an earlier [`Outcome::Ask`].
    pub answers: Value,
    /// What that question gave it to bring back. Whoever gave it checks it: clients can change it.
    pub state: Option<String>,
    pub channel: RequestChannel,
}

pub enum CallOutcome {
    Done(JsonFields),
    /// To be called again with the answers. Clients of the old era are asked by [`Link::ask`].
    NeedsInput {
        requests: Value,
        state: Option<String>,
    },
}

/// Futures of a host may be dropped at any await: that is how a request is cancelled.
#[async_trait]
pub trait Host: Send + Sync + 'static {
    /// Who asks. A session is its maker's: nobody who is not equal gets at it.
    type Caller: Clone + Eq + Hash + Send + Sync + 'static;

    fn server_info(&self) -> &ServerInfo;

    async fn tools(&self, caller: &Self::Caller) -> Result<Arc<ToolList>, Fault>;
    async fn call(&self, call: HostCall<Self::Caller>) -> Result<CallOutcome, Fault>;

    /// `prompts`.
    async fn prompts(&self, caller: &Self::Caller) -> Result<JsonFields, Fault>;
    async fn prompt(&self, call: HostCall<Self::Caller>) -> Result<CallOutcome, Fault>;

    /// `resources`, and `nextCursor` when there are more.
    async fn resources(&self, caller: &Self::Caller, cursor: Option<&str>) -> Result<JsonFields, Fault>;
    /// `resourceTemplates`.
    async fn templates(&self, caller: &Self::Caller) -> Result<JsonFields, Fault>;
    /// `contents`.
    async fn read(&self, caller: &Self::Caller, uri: &str) -> Result<JsonFields, Fault>;

    /// `completion`.
    async fn complete(&self, _caller: &Self::Caller, _params: Value) -> Result<JsonFields, Fault> {
        Err(Fault::MethodNotFound)
    }

    /// Whether the caller may hear of a resource, and what that reads like now: a number that is
    /// another when the resource is.
    async fn subscribe(&self, _caller: &Self::Caller, _uri: &str) -> Result<u64, Fault> {
        Err(Fault::MethodNotFound)
    }

    /// The URIs of resources that no longer read as they did, while anybody wants to hear of them.
    fn updates(
        &self,
        _caller: &Self::Caller,
        _of: watch::Receiver<SubscribedResources>,
    ) -> BoxStream<'static, String> {
        stream::empty().boxed()
    }

    /// Goes on until it is dropped.
    fn changes(&self, caller: &Self::Caller) -> BoxStream<'static, ListKind>;
}

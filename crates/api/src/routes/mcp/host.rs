//! The MCP host: connects the protocol to the tools, prompts and resources of the caller's project.

use std::{
    hash::{Hash, Hasher},
    sync::Arc,
};

use async_trait::async_trait;
use emergent_domain::{
    ids::ProjectId,
    token::{Scope, Token},
};
use emergent_executor::Executor;
use emergent_mcp::server::{
    CallOutcome, Fault, Host, HostCall, JsonFields, ListKind, Server, ServerInfo, SubscribedResources,
    ToolList,
};
use futures_util::stream::BoxStream;
use serde_json::{Value, json};
use tokio::sync::watch::Receiver;
use uuid::Uuid;

use super::{
    agents, catalog::CatalogEntry, catalog_cache::CatalogCache, catalog_watch, complete, resource_watch,
    resources, tool_calls,
};
use crate::invoke_rate::InvokeRate;

/// The caller over MCP: a token in a project. Two callers are equal if both have the same ids.
#[derive(Debug, Clone)]
pub struct McpCaller {
    pub project: ProjectId,
    pub token: Arc<Token>,
}

impl PartialEq for McpCaller {
    fn eq(&self, other: &Self) -> bool {
        self.project == other.project && self.token.id == other.token.id
    }
}

impl Eq for McpCaller {}

impl Hash for McpCaller {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.project, self.token.id).hash(state);
    }
}

impl McpCaller {
    pub(super) fn has_scope(&self, scope: Scope) -> bool {
        self.token.scopes.contains(&scope)
    }

    pub(super) fn require_scope(&self, scope: Scope) -> Result<(), Fault> {
        if self.has_scope(scope) { Ok(()) } else { Err(Fault::Forbidden { scope: scope.to_string() }) }
    }
}

/// The MCP endpoint with any host: [`ProjectHost`], or the host of a test.
pub(crate) type Endpoint = Server<dyn Host<Caller = McpCaller>>;

/// Returns the endpoint that serves projects.
pub(crate) fn endpoint(executor: &Executor, invoke_rate: Arc<InvokeRate>) -> Endpoint {
    Endpoint::new(Arc::new(ProjectHost::new(executor.clone(), invoke_rate)))
}

/// The instructions for the client's model.
const INSTRUCTIONS: &str = "A knowledge graph: typed entities with properties, and typed relationships between them. \
Look with `schema_list_types` before you write; find things with `search_hybrid` or `entities_query`; entities are \
named by their id or as `Type/key`. Every change is a version that stays readable.";

/// The host that serves the project of each caller.
struct ProjectHost {
    executor: Executor,
    server_info: ServerInfo,
    catalog_cache: CatalogCache,
    invoke_rate: Arc<InvokeRate>,
}

impl ProjectHost {
    fn new(executor: Executor, invoke_rate: Arc<InvokeRate>) -> Self {
        let server_info = ServerInfo {
            server: json!({ "name": "emergent", "title": "Emergent", "version": env!("CARGO_PKG_VERSION") }),
            capabilities: json!({
                "tools": { "listChanged": true },
                "prompts": { "listChanged": true },
                "resources": { "subscribe": true },
                "completions": {},
                "logging": {},
            }),
            instructions: Some(INSTRUCTIONS.to_owned()),
        };
        Self { catalog_cache: CatalogCache::new(executor.clone()), executor, server_info, invoke_rate }
    }
}

#[async_trait]
impl Host for ProjectHost {
    type Caller = McpCaller;

    fn server_info(&self) -> &ServerInfo {
        &self.server_info
    }

    fn project(&self, caller: &McpCaller) -> Uuid {
        caller.project.0
    }

    async fn tools(&self, caller: &McpCaller) -> Result<Arc<ToolList>, Fault> {
        Ok(Arc::clone(&self.catalog_cache.get(caller).await?.tools))
    }

    async fn call(&self, call: HostCall<McpCaller>) -> Result<CallOutcome, Fault> {
        let catalog = self.catalog_cache.get(&call.caller).await?;
        match catalog.find(&call.name)? {
            CatalogEntry::Tool(tool) => {
                tool_calls::call(&self.executor, &call.caller, tool, call.arguments).await
            }
            CatalogEntry::Agent(agent) => agents::call(&self.executor, &self.invoke_rate, agent, call).await,
        }
    }

    async fn prompts(&self, caller: &McpCaller) -> Result<JsonFields, Fault> {
        resources::prompts(&self.executor, caller).await
    }

    async fn prompt(&self, call: HostCall<McpCaller>) -> Result<CallOutcome, Fault> {
        resources::prompt(&self.executor, &call).await
    }

    async fn resources(&self, caller: &McpCaller, cursor: Option<&str>) -> Result<JsonFields, Fault> {
        resources::list(&self.executor, caller, cursor).await
    }

    async fn templates(&self, caller: &McpCaller) -> Result<JsonFields, Fault> {
        resources::templates(caller)
    }

    async fn read(&self, caller: &McpCaller, uri: &str) -> Result<JsonFields, Fault> {
        resources::read(&self.executor, caller, uri).await
    }

    async fn complete(&self, caller: &McpCaller, params: Value) -> Result<JsonFields, Fault> {
        complete::complete(&self.executor, caller, params).await
    }

    async fn subscribe(&self, caller: &McpCaller, uri: &str) -> Result<u64, Fault> {
        resource_watch::subscribe(&self.executor, caller, uri).await
    }

    fn updates(
        &self,
        caller: &McpCaller,
        subscribed: Receiver<SubscribedResources>,
    ) -> BoxStream<'static, String> {
        resource_watch::updates(&self.executor, caller.clone(), subscribed)
    }

    fn changes(&self, caller: &McpCaller) -> BoxStream<'static, ListKind> {
        catalog_watch::list_changes(&self.executor, self.catalog_cache.clone(), caller.clone())
    }
}

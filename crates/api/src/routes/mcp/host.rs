//! What a project offers over MCP, to a token: the host behind the protocol.

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
use emergent_mcp::server::{About, Call, Changed, Fault, Fields, Host, Offer, Outcome, Server, Subscribed};
use futures_util::stream::BoxStream;
use serde_json::{Value, json};
use tokio::sync::watch::Receiver;

use super::{agents, answers, complete, offering::Entry, resources, shelf::Shelf, updates, watch};

/// Who asks over MCP: a token, in a project.
#[derive(Debug, Clone)]
pub struct Who {
    pub project: ProjectId,
    pub token: Arc<Token>,
}

impl PartialEq for Who {
    fn eq(&self, other: &Self) -> bool {
        self.project == other.project && self.token.id == other.token.id
    }
}

impl Eq for Who {}

impl Hash for Who {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.project, self.token.id).hash(state);
    }
}

impl Who {
    pub(super) fn has(&self, scope: Scope) -> bool {
        self.token.scopes.contains(&scope)
    }

    pub(super) fn must_have(&self, scope: Scope) -> Result<(), Fault> {
        if self.has(scope) { Ok(()) } else { Err(Fault::Forbidden { scope: scope.to_string() }) }
    }
}

/// `/mcp` over any host: a project's own, or another that a test brings.
pub(crate) type Endpoint = Server<dyn Host<Caller = Who>>;

pub(crate) fn endpoint(executor: &Executor) -> Endpoint {
    Endpoint::new(Arc::new(ProjectHost::new(executor.clone())))
}

const INSTRUCTIONS: &str = "A knowledge graph: typed entities with properties, and typed relationships between them. \
Look with `schema_list_types` before you write; find things with `search_hybrid` or `entities_query`; entities are \
named by their id or as `Type/key`. Every change is a version that stays readable.";

/// What a project offers.
struct ProjectHost {
    executor: Executor,
    about: About,
    shelf: Shelf,
}

impl ProjectHost {
    fn new(executor: Executor) -> Self {
        let about = About {
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
        Self { shelf: Shelf::new(executor.clone()), executor, about }
    }
}

#[async_trait]
impl Host for ProjectHost {
    type Caller = Who;

    fn about(&self) -> &About {
        &self.about
    }

    async fn tools(&self, who: &Who) -> Result<Arc<Offer>, Fault> {
        Ok(Arc::clone(&self.shelf.get(who).await?.offer))
    }

    async fn call(&self, call: Call<Who>) -> Result<Outcome, Fault> {
        let offering = self.shelf.get(&call.caller).await?;
        match offering.find(&call.name)? {
            Entry::Tool(tool) => answers::call(&self.executor, &call.caller, tool, call.arguments).await,
            Entry::Agent(agent) => agents::call(&self.executor, agent, call).await,
        }
    }

    async fn prompts(&self, who: &Who) -> Result<Fields, Fault> {
        resources::prompts(&self.executor, who).await
    }

    async fn prompt(&self, call: Call<Who>) -> Result<Outcome, Fault> {
        resources::prompt(&self.executor, &call).await
    }

    async fn resources(&self, who: &Who, cursor: Option<&str>) -> Result<Fields, Fault> {
        resources::list(&self.executor, who, cursor).await
    }

    async fn templates(&self, who: &Who) -> Result<Fields, Fault> {
        resources::templates(who)
    }

    async fn read(&self, who: &Who, uri: &str) -> Result<Fields, Fault> {
        resources::read(&self.executor, who, uri).await
    }

    async fn complete(&self, who: &Who, params: Value) -> Result<Fields, Fault> {
        complete::complete(&self.executor, who, params).await
    }

    async fn subscribe(&self, who: &Who, uri: &str) -> Result<u64, Fault> {
        updates::subscribe(&self.executor, who, uri).await
    }

    fn updates(&self, who: &Who, of: Receiver<Subscribed>) -> BoxStream<'static, String> {
        updates::updates(&self.executor, who.clone(), of)
    }

    fn changes(&self, who: &Who) -> BoxStream<'static, Changed> {
        watch::changes(&self.executor, self.shelf.clone(), who.clone())
    }
}

//! A request to an agent: who sends it, in which project, and to which agent.

use axum::{
    extract::{FromRequestParts, RawPathParams},
    http::{HeaderMap, request::Parts},
};
use emergent_domain::{agent::Agent, author::Author};
use emergent_executor::Error;
use emergent_graph::Actor;
use emergent_surfaces::a2a::version::check_version;

use super::failure::{A2aFailure, Result};
use crate::{
    ApiError, App,
    auth::Caller,
    request_context::RequestContext,
    routes::{external::invoke::check_external, mcp::base_url},
    stream_limit::StreamPermit,
    waiting,
};

/// The header, or the parameter, with the version of the protocol.
pub(super) const VERSION: &str = "a2a-version";

/// A request to an external agent, whose caller may invoke it.
pub(super) struct AgentCall {
    pub app: App,
    pub caller: Caller,
    pub actor: Actor,
    pub agent: Agent,
    /// The address of the agent, as the caller names it.
    pub endpoint: String,
    context: Option<RequestContext>,
    version: Option<String>,
}

impl AgentCall {
    /// Checks the version of the protocol. The JSON-RPC binding does so when it knows the id of the request.
    pub(super) fn check_version(&self) -> Result<()> {
        Ok(check_version(self.version.as_deref())?)
    }

    /// The permit of a request that waits for a run.
    pub(super) fn permit(&self) -> Result<StreamPermit> {
        Ok(waiting::permit(&self.app, &self.caller, self.context.as_ref())?)
    }
}

impl FromRequestParts<App> for AgentCall {
    type Rejection = A2aFailure;
    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self> {
        let params = RawPathParams::from_request_parts(parts, app).await;
        let params = params.map_err(|_| ApiError::no_route())?;
        let param = |name: &str| {
            let found = params.iter().find(|(key, _)| *key == name);
            found.map(|(_, value)| value.to_owned()).unwrap_or_default()
        };
        let (named_project, named_agent) = (param("project"), param("agent"));
        let caller = Caller::from_request_parts(parts, app).await?;
        let project = app.project(&named_project).await?;
        let caller = caller.in_project(project, &named_project)?;
        let agent = find_agent(app, &caller, project, &named_agent).await?;
        check_external(agent.definition.visibility, &agent.definition.name)?;
        let actor = Actor { project, author: Author::Token { id: caller.token.id } };
        let context = parts.extensions.get::<RequestContext>().cloned();
        let version = version(&parts.headers).or_else(|| version_parameter(parts.uri.query()));
        // Below the address of the agent are the paths of the HTTP+JSON binding.
        let path: Vec<&str> = parts.uri.path().split('/').take(4).collect();
        let endpoint = format!("{}{}", base_url(&parts.headers, app.listen_address.is_tls()), path.join("/"));
        Ok(Self { app: app.clone(), caller, actor, agent, endpoint, context, version })
    }
}

async fn find_agent(
    app: &App,
    caller: &Caller,
    project: emergent_domain::ids::ProjectId,
    named: &str,
) -> Result<Agent> {
    let unknown = || ApiError::not_found("agent", named.chars().take(100).collect::<String>());
    if named.contains('\0') {
        return Err(unknown().into());
    }
    let found = app.executor.find_agent(project, named);
    match emergent_store::requester::on_behalf_of(caller.requester(), found).await {
        // The suggestion of a similar name is for those who may list agents.
        Err(Error::NotFound { .. }) => Err(unknown().into()),
        found => Ok(found?),
    }
}

fn version(headers: &HeaderMap) -> Option<String> {
    headers.get(VERSION).map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned())
}

/// A client may name the version as a parameter instead of a header.
fn version_parameter(query: Option<&str>) -> Option<String> {
    let pairs = query?.split('&').filter_map(|pair| pair.split_once('='));
    let mut named = pairs.filter(|(name, _)| name.eq_ignore_ascii_case(VERSION));
    named.next().map(|(_, value)| value.to_owned())
}

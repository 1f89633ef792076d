//! Extracts the agent that a path names: by its id or by its name.

use axum::{extract::FromRequestParts, http::request::Parts};
use emergent_domain::{
    agent::is_valid_name,
    ids::{AgentId, InvalidId},
    run::Run,
    token::Scope::AgentsRead,
};
use emergent_executor::Error;
use serde::Deserialize;

use super::Path;
use crate::{
    ApiError, App,
    auth::{Caller, InProject},
};

/// The id or the name of an agent. What looks like an id is an id.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(from = "String")]
pub(crate) enum AgentRef {
    Id(AgentId),
    Name(String),
}

impl From<String> for AgentRef {
    fn from(text: String) -> Self {
        text.parse().map_or(Self::Name(text), Self::Id)
    }
}

impl AgentRef {
    /// Whether a run is one of this agent. A run has the name that its agent had when it was started.
    pub fn has_run(&self, run: &Run) -> bool {
        match self {
            Self::Id(id) => run.agent == *id,
            Self::Name(name) => run.agent_name == *name,
        }
    }
}

/// The id of the agent that the path names. A name names an agent that is not deleted. An id is not looked up, so that
/// the handler answers for agents that do not exist.
pub(crate) struct AgentPath(pub AgentId);

impl FromRequestParts<App> for AgentPath {
    type Rejection = ApiError;
    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, ApiError> {
        let InProject(project) = InProject::from_request_parts(parts, app).await?;
        match Path::<AgentRef>::from_request_parts(parts, app).await?.0 {
            AgentRef::Id(id) => Ok(Self(id)),
            AgentRef::Name(name) if !is_valid_name(&name) => {
                Err(ApiError::invalid("agentId", format!("{InvalidId}, or the name of an agent")))
            }
            AgentRef::Name(name) => match app.executor.find_agent(project, &name).await {
                Ok(agent) => Ok(Self(agent.id)),
                // The suggestion is the name of another agent, which only tokens that can list agents may see.
                Err(Error::NotFound { what, id, .. })
                    if !Caller::from_request_parts(parts, app).await?.token.scopes.contains(&AgentsRead) =>
                {
                    Err(ApiError::not_found(what, id))
                }
                Err(error) => Err(error.into()),
            },
        }
    }
}

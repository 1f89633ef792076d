//! Finds and lists agents, their versions, and what is probably a mistake in them.

use emergent_domain::{
    agent::{Agent, AgentVersion, AvailableNames, ShownNames, default_agent},
    cursor::{Page, ResultPage},
    ids::{AgentId, ProjectId},
    invalid::Problem,
};
use emergent_store::{Tx, agents as rows};

use super::{find, withheld::builtin_names};
use crate::{Error, Executor, Result};

/// The maximum number of external agents in a list, which anybody may ask for.
const MAX_EXTERNAL_AGENTS: usize = 500;

impl Executor {
    /// Returns what is probably a mistake in each of the agents, such as a pattern that matches no
    /// tool, or a model without its script.
    pub async fn agent_warnings(&self, project: ProjectId, agents: &[Agent]) -> Vec<Vec<Problem>> {
        self.warnings_showing(ShownNames::All, project, agents).await
    }

    /// Like [`Executor::agent_warnings`] for one agent, for somebody who may not read which agents, tools and MCP servers
    /// the project has.
    pub async fn agent_warnings_unread(&self, project: ProjectId, agent: &Agent) -> Vec<Problem> {
        let shown = builtin_names(self.tools());
        self.warnings_showing(shown, project, std::slice::from_ref(agent)).await.pop().unwrap_or_default()
    }

    async fn warnings_showing(
        &self,
        shown: ShownNames,
        project: ProjectId,
        agents: &[Agent],
    ) -> Vec<Vec<Problem>> {
        let mut warnings = vec![Vec::new(); agents.len()];
        let names_tools =
            |agent: &Agent| !agent.definition.tools.is_empty() || !agent.definition.approvals.is_empty();
        if agents.iter().any(names_tools) {
            let available = self.tools().available_names(project, Vec::new()).await;
            let available = AvailableNames { shown, ..available };
            warnings = agents.iter().map(|agent| agent.definition.warnings(&available)).collect();
        }
        for (agent, warnings) in agents.iter().zip(&mut warnings) {
            let definition = &agent.definition;
            if let Err(error) = self.models().check_name(definition.model.as_ref(), definition.pins_model()) {
                warnings.push(Problem::new("model", error.to_string()));
            }
        }
        warnings
    }

    /// Returns an agent that is not deleted.
    pub async fn get_agent(&self, project: ProjectId, id: AgentId) -> Result<Agent> {
        let agent = self.db().read(move |tx| rows::get(tx, project, id)).await?;
        agent.ok_or_else(|| Error::not_found("agent", id))
    }

    /// Returns an agent, or the tombstone of a deleted one whose runs are still readable.
    pub async fn get_agent_including_deleted(&self, project: ProjectId, id: AgentId) -> Result<Agent> {
        let agent = self.db().read(move |tx| rows::get_including_deleted(tx, project, id)).await?;
        agent.ok_or_else(|| Error::not_found("agent", id))
    }

    /// Lists the versions of an agent, newest first, also of a deleted one.
    pub async fn agent_history(
        &self,
        project: ProjectId,
        id: AgentId,
        page: Page,
    ) -> Result<ResultPage<AgentVersion>> {
        self.db()
            .snapshot(move |tx| {
                rows::get_including_deleted(tx, project, id)?.ok_or_else(|| Error::not_found("agent", id))?;
                Ok(rows::list_versions(tx, project, id, &page)?)
            })
            .await
    }

    /// Finds a live agent by its id or its name. A name may look like an id, so ids are tried first. The error for
    /// a misspelt name suggests the nearest one; internal agents are not suggested.
    pub async fn find_agent(&self, project: ProjectId, name_or_id: &str) -> Result<Agent> {
        let key = name_or_id.to_owned();
        let read = move |tx: &mut Tx<'_>| match find(tx, project, &key)? {
            Some(agent) => Ok(agent),
            None => Err(Error::unknown_agent(&key, &rows::list_visible_names(tx, project)?)),
        };
        self.db().read(read).await
    }

    /// Finds the agent of runs by its id or its name. An id also finds a deleted agent, whose runs still exist. The error
    /// for a misspelt name suggests the nearest one, as that of [`Executor::find_agent`] does.
    pub async fn find_agent_of_runs(&self, project: ProjectId, name_or_id: &str) -> Result<AgentId> {
        let key = name_or_id.to_owned();
        let find = move |tx: &mut Tx<'_>| {
            let by_id = match key.parse() {
                Ok(id) => rows::get_including_deleted(tx, project, id)?,
                Err(_) => None,
            };
            let agent = match by_id {
                Some(agent) => Some(agent),
                // No name contains NUL, and PostgreSQL would reject it as a parameter.
                None if key.contains('\0') => None,
                None => rows::get_by_name(tx, project, &key)?,
            };
            match agent {
                Some(agent) => Ok(agent.id),
                None => Err(Error::unknown_agent(&key, &rows::list_visible_names(tx, project)?)),
            }
        };
        self.db().read(find).await
    }

    /// Lists agents, newest first; internal agents are included only on request.
    pub async fn list_agents(
        &self,
        project: ProjectId,
        include_internal: bool,
        page: Page,
    ) -> Result<ResultPage<Agent>> {
        Ok(self.db().read(move |tx| rows::list(tx, project, include_internal, &page)).await?)
    }

    /// Lists the agents that callers from outside may start, by name. The list has at most `MAX_EXTERNAL_AGENTS`.
    pub async fn list_external_agents(&self, project: ProjectId) -> Result<Vec<Agent>> {
        Ok(self.db().read(move |tx| rows::list_external(tx, project, MAX_EXTERNAL_AGENTS)).await?)
    }

    /// Returns the agent that is used when a request names none.
    pub async fn default_agent(&self, project: ProjectId) -> Result<Option<Agent>> {
        let agents = self.db().read(move |tx| rows::list_defaults(tx, project)).await?;
        Ok(default_agent(&agents).cloned())
    }
}

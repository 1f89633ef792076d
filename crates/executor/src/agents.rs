//! Agents of a project: made, changed, taken away, each change a version. A run keeps the version
//! it started with, so nothing here reaches a run that is under way.

use std::time::Duration;

use emergent_domain::{
    agent::{Agent, AgentDefinition, AvailableNames, Visibility, default_agent},
    author::Author,
    cursor::{Page, ResultPage},
    ids::{AgentId, ProjectId},
};
use emergent_graph::{Actor, WriteContext};
use emergent_store::{Tx, agents as rows, projects, schedules};

use crate::{Error, Executor, Result, triggers};

impl Executor {
    pub async fn create_agent(&self, actor: Actor, definition: AgentDefinition) -> Result<Agent> {
        let around = self.tools().available_names(actor.project, Vec::new()).await;
        self.change_agents(actor, move |tx, writer| create(tx, writer, &definition, &around)).await
    }

    /// When nothing would change, the agent is returned as it is.
    pub async fn update_agent(
        &self,
        actor: Actor,
        id: AgentId,
        expected_version: Option<i64>,
        change: impl Fn(AgentDefinition) -> AgentDefinition + Send + 'static,
    ) -> Result<Agent> {
        let around = self.tools().available_names(actor.project, Vec::new()).await;
        self.change_agents(actor, move |tx, writer| {
            update(tx, writer, id, expected_version, &change, &around)
        })
        .await
    }

    /// Returns the tombstone. Its runs stay readable, and those that wait go on with the version
    /// they were admitted with. An agent that a product's job starts is not taken from it.
    pub async fn delete_agent(&self, actor: Actor, id: AgentId) -> Result<Agent> {
        self.change_agents(actor, move |tx, writer| delete(tx, writer, id, None)).await
    }

    /// Gives agents that were saved before there were schedules and event triggers (up to schema
    /// version 2) what their definitions say. It counts from now; asked again, and by servers that
    /// start together, it changes nothing.
    pub async fn backfill_triggers(&self) -> Result<()> {
        let projects = self.db().read(rows::projects_missing_triggers).await?;
        for project in projects {
            let (graph, actor) = (self.graph().clone(), Actor { project, author: Author::System });
            let adopt = move |tx: &mut Tx<'_>| {
                // Who waited here finds nothing left to do.
                if projects::lock(tx, project)?.is_none() {
                    return Ok(());
                }
                let writer = graph.write_context(tx, actor)?;
                for agent in rows::list_missing_triggers(tx, project)? {
                    if agent.definition.visibility != Visibility::Internal {
                        triggers::resave(tx, &writer, &agent)?;
                    }
                }
                Ok::<_, Error>(())
            };
            self.db().write(adopt).await?;
        }
        Ok(())
    }

    /// A living agent.
    pub async fn get_agent(&self, project: ProjectId, id: AgentId) -> Result<Agent> {
        let found = self.db().read(move |tx| rows::get(tx, project, id)).await?;
        found.ok_or_else(|| Error::not_found("agent", id))
    }

    /// A living agent, or the tombstone of one whose runs are still asked for.
    pub async fn get_agent_including_deleted(&self, project: ProjectId, id: AgentId) -> Result<Agent> {
        let found = self.db().read(move |tx| rows::get_including_deleted(tx, project, id)).await?;
        found.ok_or_else(|| Error::not_found("agent", id))
    }

    /// A living agent by its id or its name. A name may look like an id, so ids go first.
    pub async fn find_agent(&self, project: ProjectId, name_or_id: &str) -> Result<Agent> {
        let wanted = name_or_id.to_owned();
        let found = self.db().read(move |tx| find(tx, project, &wanted)).await?;
        found.ok_or_else(|| Error::not_found("agent", name_or_id))
    }

    /// Newest first; internal ones only when they are asked for.
    pub async fn list_agents(
        &self,
        project: ProjectId,
        include_internal: bool,
        page: Page,
    ) -> Result<ResultPage<Agent>> {
        Ok(self.db().read(move |tx| rows::list(tx, project, include_internal, &page)).await?)
    }

    /// The agent that answers when none is named.
    pub async fn default_agent(&self, project: ProjectId) -> Result<Option<Agent>> {
        let agents = self.db().read(move |tx| rows::list_defaults(tx, project)).await?;
        Ok(default_agent(&agents).cloned())
    }

    async fn change_agents<F>(&self, actor: Actor, work: F) -> Result<Agent>
    where
        F: Fn(&mut Tx<'_>, &WriteContext) -> Result<Agent> + Send + 'static,
    {
        let graph = self.graph().clone();
        self.db()
            .write(move |tx| {
                let writer = graph.write_context(tx, actor)?;
                work(tx, &writer)
            })
            .await
    }
}

/// Makes an agent. `around` has the tools of the project; its agents are those that the caller
/// is about to make in the same transaction, the others are looked up here.
pub fn create(
    tx: &mut Tx<'_>,
    writer: &WriteContext,
    definition: &AgentDefinition,
    around: &AvailableNames,
) -> Result<Agent> {
    lock_agents(tx, writer)?;
    check(tx, writer, definition, around)?;
    let id = AgentId::new();
    check_name_free(tx, writer, id, &definition.name)?;
    if definition.is_default {
        clear_other_defaults(tx, writer, id, definition)?;
    }
    let agent = Agent {
        id,
        project: writer.project.id,
        version: 1,
        definition: definition.clone(),
        created_at: writer.now,
        updated_at: writer.now,
        deleted_at: None,
    };
    rows::insert(tx, &agent, writer.author)?;
    triggers::save(tx, writer, &agent)?;
    Ok(agent)
}

/// Changes an agent; when nothing would change, it is returned as it is.
pub fn update(
    tx: &mut Tx<'_>,
    writer: &WriteContext,
    id: AgentId,
    expected_version: Option<i64>,
    change: impl Fn(AgentDefinition) -> AgentDefinition,
    around: &AvailableNames,
) -> Result<Agent> {
    lock_agents(tx, writer)?;
    let before = get(tx, writer, id)?;
    if let Some(expected) = expected_version.filter(|expected| *expected != before.version) {
        let (name, current) = (before.definition.name, before.version);
        return Err(Error::VersionConflict { name, expected, current });
    }
    let definition = change(before.definition.clone());
    if definition == before.definition {
        triggers::resave(tx, writer, &before)?;
        return Ok(before);
    }
    check(tx, writer, &definition, around)?;
    check_name_free(tx, writer, id, &definition.name)?;
    if definition.is_default {
        clear_other_defaults(tx, writer, id, &definition)?;
    }
    next_version(tx, writer, before, |agent| agent.definition = definition)
}

/// Takes an agent away; returns the tombstone, which is a version with an author as well. Not while
/// a job starts it: only a product that takes its own agent away sees to its own jobs by itself,
/// before or after, in the same transaction.
pub fn delete(tx: &mut Tx<'_>, writer: &WriteContext, id: AgentId, product: Option<&str>) -> Result<Agent> {
    lock_agents(tx, writer)?;
    let before = get(tx, writer, id)?;
    let jobs = schedules::list(tx, writer.project.id)?.into_iter().filter(|job| job.agent == id);
    let of_others = jobs.filter_map(|job| Some((job.product?, job.name)));
    let of_others: Vec<String> = of_others
        .filter(|(owner, _)| Some(owner.as_str()) != product)
        .map(|(owner, job)| format!("the job `{job}` of the product `{owner}`"))
        .collect();
    if !of_others.is_empty() {
        return Err(Error::Conflict(format!(
            "the agent `{}` is started by {}: uninstall or upgrade that product first",
            before.definition.name,
            of_others.join(" and ")
        )));
    }
    next_version(tx, writer, before, |agent| agent.deleted_at = Some(agent.updated_at))
}

/// What an agent was at a version, whether it still lives or not.
pub fn get_version(tx: &mut Tx<'_>, id: AgentId, version: i64) -> Result<Option<AgentDefinition>> {
    Ok(rows::get_version(tx, id, version)?)
}

/// A living agent by its id or its name.
pub fn find(tx: &mut Tx<'_>, project: ProjectId, name_or_id: &str) -> emergent_store::Result<Option<Agent>> {
    // No name has it, and PostgreSQL would not even take the question.
    if name_or_id.contains('\0') {
        return Ok(None);
    }
    if let Ok(id) = name_or_id.parse()
        && let Some(agent) = rows::get(tx, project, id)?
    {
        return Ok(Some(agent));
    }
    rows::get_by_name(tx, project, name_or_id)
}

fn get(tx: &mut Tx<'_>, writer: &WriteContext, id: AgentId) -> Result<Agent> {
    rows::get(tx, writer.project.id, id)?.ok_or_else(|| Error::not_found("agent", id))
}

/// Decisions about a project's agents (who has a name, who is the default) wait for one another.
fn lock_agents(tx: &mut Tx<'_>, writer: &WriteContext) -> Result<()> {
    let project = writer.project.id;
    projects::lock(tx, project)?.map(|_| ()).ok_or_else(|| Error::not_found("project", project))
}

fn check(
    tx: &mut Tx<'_>,
    writer: &WriteContext,
    definition: &AgentDefinition,
    around: &AvailableNames,
) -> Result<()> {
    let mut around = around.clone();
    around.agents.extend(rows::list_names(tx, writer.project.id)?);
    Ok(definition.check(&around)?)
}

fn check_name_free(tx: &mut Tx<'_>, writer: &WriteContext, id: AgentId, name: &str) -> Result<()> {
    match rows::get_by_name(tx, writer.project.id, name)? {
        Some(holder) if holder.id != id => Err(Error::Conflict(format!(
            "the name `{name}` belongs to the agent `{}`: change that one, or choose another name",
            holder.id
        ))),
        _ => Ok(()),
    }
}

/// A project has one default agent: the flag is taken from whoever has it.
fn clear_other_defaults(
    tx: &mut Tx<'_>,
    writer: &WriteContext,
    id: AgentId,
    definition: &AgentDefinition,
) -> Result<()> {
    for holder in rows::list_defaults(tx, writer.project.id)? {
        if holder.id == id {
            continue;
        }
        let theirs = holder.definition.visibility;
        if theirs == Visibility::External && definition.visibility != Visibility::External {
            return Err(Error::Conflict(format!(
                "the external agent `{}` is the default agent, and only another external one can take its place: \
                 change the visibility of `{}` to `external`, or clear `isDefault` of `{}` first",
                holder.definition.name, definition.name, holder.definition.name
            )));
        }
        next_version(tx, writer, holder, |agent| agent.definition.is_default = false)?;
    }
    Ok(())
}

fn next_version(
    tx: &mut Tx<'_>,
    writer: &WriteContext,
    before: Agent,
    change: impl FnOnce(&mut Agent),
) -> Result<Agent> {
    // Two versions never share a moment, whatever the clocks of several servers say.
    let now = writer.now.max(before.updated_at + Duration::from_micros(1));
    let mut next = Agent { version: before.version + 1, updated_at: now, ..before };
    change(&mut next);
    if !rows::update(tx, &next, writer.author)? {
        return Err(tx.retry_error("the agent changed although its project was held").into());
    }
    triggers::save(tx, writer, &next)?;
    Ok(next)
}

//! The agents of a project: create, change and delete them, each change as a new version. A run keeps
//! the version it started with, so a change never affects an active run.

mod lookup;
mod withheld;

use std::{collections::BTreeSet, time::Duration};

use emergent_domain::{
    agent::{Agent, AgentDefinition, AvailableNames, Visibility},
    audit::{AuditAction, NewAuditEntry},
    author::Author,
    ids::{AgentId, ProjectId},
    trigger::Schedule,
};
use emergent_graph::{Actor, WriteContext};
use emergent_store::{Tx, agents as rows, audit, projects, schedules};

use self::withheld::Shown;
use crate::{
    Error, Executor, Result,
    agent_rights::AgentsBefore,
    triggers::{self, TriggerLimits},
};

pub use crate::dry_run::Save;

/// What happens to a schedule that is suspended, or that has no next time any more, if the definition of its
/// agent does not change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnchangedTrigger {
    Keep,
    /// The request names the trigger, so it is activated again.
    Reactivate,
}

/// A change of an agent that a request asks for.
#[derive(Debug, Clone)]
pub struct AgentPatch<F> {
    /// The version that the agent must have.
    pub expected_version: Option<i64>,
    pub trigger: UnchangedTrigger,
    /// The fields that the request has, by their names in it; `None` if it may have any. The errors tell somebody who may
    /// not read agents of no others.
    pub sent: Option<BTreeSet<String>>,
    pub apply: F,
}

impl Executor {
    pub async fn create_agent(&self, actor: Actor, definition: AgentDefinition) -> Result<Agent> {
        self.create_agent_with(actor, definition, Save::Commit).await
    }

    /// Like [`Executor::create_agent`]; a dry run makes every check and writes nothing.
    pub async fn create_agent_with(
        &self,
        actor: Actor,
        definition: AgentDefinition,
        save: Save,
    ) -> Result<Agent> {
        self.compile_output_schema(actor.project, &definition).await?;
        let available = self.tools().available_names(actor.project, Vec::new()).await;
        let (scopes, tools) = (self.tools().builtin_scopes(), self.tools().clone());
        self.change_agents(actor, save, move |tx, ctx| {
            let before = AgentsBefore::load(tx, ctx, None)?;
            let shown = Shown::to_author(&before);
            let agent = create_for(tx, ctx, &definition, &shown.names(&available, &tools), shown)?;
            before.check_change(tx, ctx, &agent, &scopes)?;
            record_change(tx, ctx, AuditAction::AgentCreate, &agent)?;
            Ok(agent)
        })
        .await
    }

    /// Returns the agent unchanged if the change has no effect. Its triggers then stay as they are, too.
    pub async fn update_agent(
        &self,
        actor: Actor,
        id: AgentId,
        expected_version: Option<i64>,
        change: impl Fn(AgentDefinition) -> AgentDefinition + Send + 'static,
    ) -> Result<Agent> {
        let patch =
            AgentPatch { expected_version, trigger: UnchangedTrigger::Keep, sent: None, apply: change };
        self.update_agent_with(actor, id, patch, Save::Commit).await
    }

    /// Like [`Executor::update_agent`], for a request that may name the trigger without changing it. A dry run makes
    /// every check and writes nothing. For an author who may not read agents, each change is a version, also one without
    /// effect: neither the answer nor a later one tells whether the agent had the values already.
    pub async fn update_agent_with<F>(
        &self,
        actor: Actor,
        id: AgentId,
        patch: AgentPatch<F>,
        save: Save,
    ) -> Result<Agent>
    where
        F: Fn(AgentDefinition) -> AgentDefinition + Send + 'static,
    {
        let AgentPatch { expected_version, trigger, sent, apply: change } = patch;
        let available = self.tools().available_names(actor.project, Vec::new()).await;
        let (scopes, tools) = (self.tools().builtin_scopes(), self.tools().clone());
        // What is wrong is reported by the transaction, which reads the agent again.
        if let Some(current) = self.db().read(move |tx| rows::get(tx, actor.project, id)).await? {
            let _ = self.compile_output_schema(actor.project, &change(current.definition)).await;
        }
        self.change_agents(actor, save, move |tx, ctx| {
            let current = rows::get(tx, ctx.project.id, id)?;
            let before = AgentsBefore::load(tx, ctx, current)?;
            before.check_unread(tx, ctx, &scopes)?;
            let shown = Shown::to_author(&before);
            let available = shown.names(&available, &tools);
            let updated = update_for(tx, ctx, id, expected_version, &change, &available, shown);
            let agent = shown.outcome(updated, sent.as_ref())?;
            if before.version() != Some(agent.version) {
                before.check_change(tx, ctx, &agent, &scopes)?;
                record_change(tx, ctx, AuditAction::AgentUpdate, &agent)?;
            } else if trigger == UnchangedTrigger::Reactivate && has_inactive_schedule(tx, &agent)? {
                // Whoever reactivates the schedule makes the agent start, like whoever saves it.
                before.check_change(tx, ctx, &agent, &scopes)?;
                triggers::resave(tx, ctx, &agent)?;
                record_change(tx, ctx, AuditAction::AgentUpdate, &agent)?;
            }
            Ok(agent)
        })
        .await
    }

    /// Deletes an agent and returns its tombstone. Its runs stay readable, and queued runs continue with
    /// the version they were admitted with. An agent that a product's job starts cannot be deleted.
    pub async fn delete_agent(&self, actor: Actor, id: AgentId) -> Result<Agent> {
        let scopes = self.tools().builtin_scopes();
        self.change_agents(actor, Save::Commit, move |tx, ctx| {
            let current = rows::get(tx, ctx.project.id, id)?;
            let before = AgentsBefore::load(tx, ctx, current)?;
            before.check_unread(tx, ctx, &scopes)?;
            let agent = delete_for(tx, ctx, id, None, Shown::to_author(&before))?;
            before.check_change(tx, ctx, &agent, &scopes)?;
            record_change(tx, ctx, AuditAction::AgentDelete, &agent)?;
            Ok(agent)
        })
        .await
    }

    /// Creates the schedules and event triggers of agents that were saved before triggers existed (up to
    /// schema version 2). Their times count from now. Calling it again, or on several servers at once,
    /// changes nothing.
    pub async fn backfill_triggers(&self) -> Result<()> {
        let projects = self.db().read(rows::projects_missing_triggers).await?;
        for project in projects {
            let (graph, actor) = (self.graph().clone(), Actor { project, author: Author::System });
            let backfill = move |tx: &mut Tx<'_>| {
                // A server that waited for this lock finds nothing left to do.
                if projects::lock(tx, project)?.is_none() {
                    return Ok(());
                }
                let ctx = graph.write_context(tx, actor)?;
                for agent in rows::list_missing_triggers(tx, project)? {
                    if agent.definition.visibility != Visibility::Internal {
                        triggers::resave(tx, &ctx, &agent)?;
                    }
                }
                Ok::<_, Error>(())
            };
            self.db().write(backfill).await?;
        }
        Ok(())
    }

    /// Compiles the output schema of a definition before the transaction that checks it, which then only finds it.
    async fn compile_output_schema(&self, project: ProjectId, definition: &AgentDefinition) -> Result<()> {
        let schema = definition.output_schema.clone().map(|schema| ("outputSchema".to_owned(), schema));
        Ok(self.graph().compile_output_schemas(project, schema.into_iter().collect()).await?)
    }

    async fn change_agents<F>(&self, actor: Actor, save: Save, work: F) -> Result<Agent>
    where
        F: Fn(&mut Tx<'_>, &WriteContext) -> Result<Agent> + Send + 'static,
    {
        let graph = self.graph().clone();
        self.write_or_try(save, move |tx| {
            let ctx = graph.write_context(tx, actor)?;
            lock_agents(tx, &ctx)?;
            let limits = TriggerLimits::before_change(tx, ctx.project.id)?;
            let agent = work(tx, &ctx)?;
            limits.check(tx, "trigger", "config.trigger")?;
            Ok(agent)
        })
        .await
    }
}

/// Creates an agent. `available` has the tools of the project and the agents that the caller creates in
/// the same transaction; existing agents are looked up here.
pub fn create(
    tx: &mut Tx<'_>,
    ctx: &WriteContext,
    definition: &AgentDefinition,
    available: &AvailableNames,
) -> Result<Agent> {
    create_for(tx, ctx, definition, available, Shown::Everything)
}

fn create_for(
    tx: &mut Tx<'_>,
    ctx: &WriteContext,
    definition: &AgentDefinition,
    available: &AvailableNames,
    shown: Shown,
) -> Result<Agent> {
    lock_agents(tx, ctx)?;
    check(tx, ctx, definition, available)?;
    let id = AgentId::new();
    check_name_free(tx, ctx, id, &definition.name)?;
    if definition.is_default {
        clear_other_defaults(tx, ctx, id, definition, shown)?;
    }
    let agent = Agent {
        id,
        project: ctx.project.id,
        version: 1,
        definition: definition.clone(),
        created_at: ctx.now,
        updated_at: ctx.now,
        deleted_at: None,
    };
    rows::insert(tx, &agent, ctx.author)?;
    triggers::save(tx, ctx, &agent)?;
    Ok(agent)
}

/// Changes an agent. Returns it unchanged if the change has no effect.
pub fn update(
    tx: &mut Tx<'_>,
    ctx: &WriteContext,
    id: AgentId,
    expected_version: Option<i64>,
    change: impl Fn(AgentDefinition) -> AgentDefinition,
    available: &AvailableNames,
) -> Result<Agent> {
    update_for(tx, ctx, id, expected_version, change, available, Shown::Everything)
}

fn update_for(
    tx: &mut Tx<'_>,
    ctx: &WriteContext,
    id: AgentId,
    expected_version: Option<i64>,
    change: impl Fn(AgentDefinition) -> AgentDefinition,
    available: &AvailableNames,
    shown: Shown,
) -> Result<Agent> {
    lock_agents(tx, ctx)?;
    let current = get(tx, ctx, id)?;
    if let Some(expected) = expected_version.filter(|expected| *expected != current.version) {
        let (name, current) = (current.definition.name, current.version);
        return Err(Error::VersionConflict { name, expected, current });
    }
    let definition = change(current.definition.clone());
    if definition == current.definition && shown == Shown::Everything {
        return Ok(current);
    }
    check(tx, ctx, &definition, available)?;
    check_name_free(tx, ctx, id, &definition.name)?;
    if definition.is_default {
        clear_other_defaults(tx, ctx, id, &definition, shown)?;
    }
    next_version(tx, ctx, current, |agent| agent.definition = definition)
}

/// Deletes an agent and returns its tombstone, which is a version with an author as well. An agent that
/// a job starts cannot be deleted, except by the product that owns the job: the product removes the job
/// in the same transaction.
pub fn delete(tx: &mut Tx<'_>, ctx: &WriteContext, id: AgentId, product: Option<&str>) -> Result<Agent> {
    delete_for(tx, ctx, id, product, Shown::Everything)
}

fn delete_for(
    tx: &mut Tx<'_>,
    ctx: &WriteContext,
    id: AgentId,
    product: Option<&str>,
    shown: Shown,
) -> Result<Agent> {
    lock_agents(tx, ctx)?;
    let agent = get(tx, ctx, id)?;
    let jobs = schedules::list(tx, ctx.project.id)?.into_iter().filter(|job| job.agent == id);
    let foreign_jobs = jobs.filter_map(|job| Some((job.product?, job.name)));
    let foreign_jobs: Vec<String> = foreign_jobs
        .filter(|(owner, _)| Some(owner.as_str()) != product)
        .map(|(owner, job)| format!("the job `{job}` of the product `{owner}`"))
        .collect();
    if !foreign_jobs.is_empty() {
        if shown == Shown::Sent {
            let reason =
                "the agent is started by a job of a product: uninstall or upgrade that product first";
            return Err(Error::Conflict(reason.to_owned()));
        }
        return Err(Error::Conflict(format!(
            "the agent `{}` is started by {}: uninstall or upgrade that product first",
            agent.definition.name,
            foreign_jobs.join(" and ")
        )));
    }
    next_version(tx, ctx, agent, |next| next.deleted_at = Some(next.updated_at))
}

/// Returns the definition of an agent at a version, also if the agent is deleted by now.
pub fn get_version(tx: &mut Tx<'_>, id: AgentId, version: i64) -> Result<Option<AgentDefinition>> {
    Ok(rows::get_version(tx, id, version)?)
}

/// Finds a live agent by its id or its name.
pub fn find(tx: &mut Tx<'_>, project: ProjectId, name_or_id: &str) -> emergent_store::Result<Option<Agent>> {
    // No agent name contains NUL, and PostgreSQL rejects such a parameter.
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

fn get(tx: &mut Tx<'_>, ctx: &WriteContext, id: AgentId) -> Result<Agent> {
    rows::get(tx, ctx.project.id, id)?.ok_or_else(|| Error::not_found("agent", id))
}

/// Locks the project, so that changes of its agents happen one after the other: names are unique, and there
/// is one default agent.
fn lock_agents(tx: &mut Tx<'_>, ctx: &WriteContext) -> Result<()> {
    let project = ctx.project.id;
    projects::lock(tx, project)?.map(|_| ()).ok_or_else(|| Error::not_found("project", project))
}

fn check(
    tx: &mut Tx<'_>,
    ctx: &WriteContext,
    definition: &AgentDefinition,
    available: &AvailableNames,
) -> Result<()> {
    let mut available = available.clone();
    available.agents.extend(rows::list_names(tx, ctx.project.id)?);
    Ok(definition.check(&available)?)
}

fn has_inactive_schedule(tx: &mut Tx<'_>, agent: &Agent) -> Result<bool> {
    let schedule = schedules::lock_agent_schedule(tx, agent.id)?;
    // A schedule that a person paused has no next time either, and stays paused.
    let is_inactive = |schedule: Schedule| {
        schedule.error.is_some() || (schedule.next_at.is_none() && schedule.paused_at.is_none())
    };
    Ok(agent.definition.trigger.is_some() && schedule.is_some_and(is_inactive))
}

fn record_change(tx: &mut Tx<'_>, ctx: &WriteContext, action: AuditAction, agent: &Agent) -> Result<()> {
    let run = match ctx.author {
        Author::Run { run_id, .. } => Some(run_id),
        Author::Token { .. } | Author::System => None,
    };
    let entry = NewAuditEntry::new(action, Some(ctx.project.id), &agent.definition.name)
        .id(agent.id)
        .run(run)
        .detail("version", agent.version)
        .detail("tools", agent.definition.tools.clone())
        .detail("trigger", agent.definition.trigger.clone())
        .detail("visibility", agent.definition.visibility.as_str())
        .detail("isDefault", agent.definition.is_default);
    Ok(audit::record(tx, &entry, ctx.now)?)
}

fn check_name_free(tx: &mut Tx<'_>, ctx: &WriteContext, id: AgentId, name: &str) -> Result<()> {
    match rows::get_by_name(tx, ctx.project.id, name)? {
        Some(other) if other.id != id => Err(Error::Conflict(format!(
            "the name `{name}` belongs to the agent `{}`: change that one, or choose another name",
            other.id
        ))),
        _ => Ok(()),
    }
}

/// A project has one default agent: removes `is_default` from the current one before another gets it.
fn clear_other_defaults(
    tx: &mut Tx<'_>,
    ctx: &WriteContext,
    id: AgentId,
    definition: &AgentDefinition,
    shown: Shown,
) -> Result<()> {
    for current in rows::list_defaults(tx, ctx.project.id)? {
        if current.id == id {
            continue;
        }
        if current.definition.visibility == Visibility::External
            && definition.visibility != Visibility::External
        {
            if shown == Shown::Sent {
                let reason =
                    "an external agent is the default agent, and only another external agent can replace it";
                return Err(Error::Conflict(reason.to_owned()));
            }
            return Err(Error::Conflict(format!(
                "the external agent `{}` is the default agent, and only another external agent can replace it: \
                 change the visibility of `{}` to `external`, or clear `isDefault` of `{}` first",
                current.definition.name, definition.name, current.definition.name
            )));
        }
        let cleared = next_version(tx, ctx, current, |agent| agent.definition.is_default = false)?;
        record_change(tx, ctx, AuditAction::AgentUpdate, &cleared)?;
    }
    Ok(())
}

/// Writes the next version of an agent, changed by `change`, and saves its triggers.
fn next_version(
    tx: &mut Tx<'_>,
    ctx: &WriteContext,
    before: Agent,
    change: impl FnOnce(&mut Agent),
) -> Result<Agent> {
    // Two versions never share a timestamp, even if the clocks of several servers differ.
    let now = ctx.now.max(before.updated_at + Duration::from_micros(1));
    let mut next = Agent { version: before.version + 1, updated_at: now, ..before };
    change(&mut next);
    if !rows::update(tx, &next, ctx.author)? {
        return Err(tx.retry_error("the agent changed although its project was locked").into());
    }
    triggers::save(tx, ctx, &next)?;
    Ok(next)
}

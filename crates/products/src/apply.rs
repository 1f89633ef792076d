//! Executes a plan in the transaction that made it: completely or not at all.

use emergent_domain::{
    agent::{AgentDefinition, AvailableNames},
    ids::{AgentId, ProductId},
    invalid::Problem,
    mcp_server::ConfiguredBy,
};
use emergent_executor::{
    agents,
    triggers::{JobRow, TriggerLimits, delete_job, save_job, save_workflow_trigger},
};
use emergent_graph::{WriteContext, packs};
use emergent_secrets::bindings;
use emergent_store::{
    Tx, agents as agent_rows,
    installed_products::{self, InstalledProduct},
    mcp_servers, packs as pack_rows, prompts, secret_bindings,
};

use crate::{
    Error, Result,
    manifest::{Manifest, ManifestJob},
    plan::{Action, Direction, Plan},
    problem::ManifestProblem,
    source::ManifestSource,
    state::{Product, ProjectState},
};

/// Executes every step of the plan, then records the installation. `available` holds the tools of
/// the project, and all agents that the manifest names.
pub(crate) fn apply(
    tx: &mut Tx<'_>,
    ctx: &WriteContext,
    before: &ProjectState,
    plan: &Plan,
    after: Option<(&Manifest, Option<&ManifestSource>)>,
    available: &AvailableNames,
) -> Result<Option<Product>> {
    let manifest = after.map(|(manifest, _)| manifest);
    let target = StepTarget { by: before.by, product: &plan.name, manifest, available };
    let limits = TriggerLimits::before_change(tx, ctx.project.id)?;
    for step in &plan.steps {
        apply_step(tx, ctx, &target, &step.name, &step.action)?;
    }
    check_triggers(tx, limits, plan)?;
    bind_secrets(tx, ctx, before, plan)?;
    record_installation(tx, ctx, before.product(&plan.name), plan, after)
}

/// Refuses a product with which the project has more triggers than it may.
fn check_triggers(tx: &mut Tx<'_>, limits: TriggerLimits, plan: &Plan) -> Result<()> {
    let has_jobs = plan.steps.iter().any(|step| matches!(step.action, Action::UpsertJob(_)));
    let pointer = if has_jobs { "/jobs" } else { "/agents" };
    limits.check(tx, pointer, pointer).map_err(|error| match error {
        emergent_executor::Error::Invalid(invalid) => {
            let problem = |problem: Problem| ManifestProblem::new(problem.field, problem.reason);
            Error::Manifest(invalid.problems.into_iter().map(problem).collect())
        }
        other => other.into(),
    })
}

/// What every step of a plan refers to.
struct StepTarget<'a> {
    by: ConfiguredBy,
    product: &'a str,
    /// The manifest of the product after the change.
    manifest: Option<&'a Manifest>,
    available: &'a AvailableNames,
}

/// Records that the secrets that were accepted with this plan may be sent where the plan says. Those that
/// were accepted before are not repeated: whoever applies this plan was not asked about them.
fn bind_secrets(tx: &mut Tx<'_>, ctx: &WriteContext, before: &ProjectState, plan: &Plan) -> Result<()> {
    let (project, owner) = (ctx.project.id, secret_bindings::product_owner(&plan.name));
    if plan.direction == Direction::Uninstall {
        return Ok(secret_bindings::delete_for_owner(tx, project, &owner)?);
    }
    for server in before.servers.iter().filter(|server| server.product.as_ref() == Some(&plan.name)) {
        bindings::keep_for_next_version(tx, server, ctx.now)?;
    }
    bindings::bind(tx, project, &owner, &plan.added.secrets, before.by, ctx.now)?;
    let accepted = before.product(&plan.name).map(|product| product.accepted.secrets.clone());
    let unused = &accepted.unwrap_or_default() - &plan.uses.secrets;
    Ok(bindings::remove(tx, project, &owner, &unused, before.by)?)
}

fn apply_step(
    tx: &mut Tx<'_>,
    ctx: &WriteContext,
    target: &StepTarget<'_>,
    name: &str,
    action: &Action,
) -> Result<()> {
    let (project, now) = (ctx.project.id, ctx.now);
    let StepTarget { by, product, manifest, available } = *target;
    match action {
        Action::None => {}
        Action::AddPack(pack) => {
            let created = packs::create(tx, project, pack, now)?;
            pack_rows::set_product(tx, project, created.id, Some(product))?;
            packs::assign_for(tx, project, created.id, product, now)?;
        }
        Action::AssignPack(id) => {
            packs::assign_for(tx, project, *id, product, now)?;
        }
        Action::DeletePack { id, assigned } => {
            if *assigned {
                packs::unassign(tx, project, *id, now)?;
            }
            packs::delete(tx, project, *id, now)?;
        }
        Action::UnassignPack(id) => {
            packs::unassign(tx, project, *id, now)?;
        }
        Action::TransferPack { id, to, brought, assigned } => {
            if *brought {
                pack_rows::set_product(tx, project, *id, to.as_deref())?;
            }
            if *assigned {
                pack_rows::set_assigned_by(tx, project, *id, to.as_deref())?;
            }
        }
        Action::AddAgent(definition) => {
            agents::create(tx, ctx, definition, available)?;
        }
        Action::UpdateAgent { id, to } => {
            let to = to.clone();
            agents::update(tx, ctx, *id, None, move |_| (*to).clone(), available)?;
        }
        Action::DeleteAgent(id) => {
            agents::delete(tx, ctx, *id, Some(product))?;
        }
        Action::SetDefault { id, is_default } => set_default_flag(tx, ctx, *id, *is_default)?,
        Action::UpsertServer(spec) => {
            let server = manifest.and_then(|manifest| manifest.servers().find(|one| one.spec.name() == name));
            let filter = server.map_or(&[][..], |server| server.tool_filter);
            let put = mcp_servers::upsert_for_product(tx, project, product, spec, filter, by, now)?;
            put.ok_or_else(|| {
                Error::Conflict(format!(
                    "the server `{name}` was created concurrently; repeat the installation"
                ))
            })?;
        }
        Action::DeleteServer => {
            mcp_servers::delete_for_product(tx, project, product, name)?;
        }
        Action::UpsertPrompt(prompt) => prompts::upsert_for_product(tx, project, product, prompt)?,
        Action::DeletePrompt => prompts::delete_for_product(tx, project, product, name)?,
        Action::UpsertJob(job) => upsert_job(tx, ctx, product, job)?,
        Action::DeleteJob => delete_job(tx, ctx, product, name)?,
    }
    Ok(())
}

/// Changes only the flag of the default agent. The rest of the definition is not validated again,
/// because it may have become invalid in the meantime.
fn set_default_flag(tx: &mut Tx<'_>, ctx: &WriteContext, id: AgentId, is_default: bool) -> Result<()> {
    let agent = agent_rows::get(tx, ctx.project.id, id)?;
    let flow_agents = agent.and_then(|agent| agent.definition.flow_config).map(|flow| flow.agents);
    let available = AvailableNames { agents: flow_agents.unwrap_or_default(), ..AvailableNames::default() };
    let change = move |definition| AgentDefinition { is_default, ..definition };
    agents::update(tx, ctx, id, None, change, &available)?;
    Ok(())
}

fn upsert_job(tx: &mut Tx<'_>, ctx: &WriteContext, product: &str, job: &ManifestJob) -> Result<()> {
    if let Some(trigger) = job.workflow_trigger() {
        return Ok(save_workflow_trigger(tx, ctx, product, &trigger)?);
    }
    let agent = agent_rows::get_by_name(tx, ctx.project.id, &job.agent)?;
    let agent =
        agent.ok_or_else(|| Error::Conflict(format!("the agent `{}` no longer exists", job.agent)))?;
    let row = JobRow {
        name: job.name.clone(),
        cron: job.cron.clone(),
        agent: agent.id,
        config: job.config.clone(),
    };
    Ok(save_job(tx, ctx, product, &row)?)
}

fn record_installation(
    tx: &mut Tx<'_>,
    ctx: &WriteContext,
    before: Option<&Product>,
    plan: &Plan,
    after: Option<(&Manifest, Option<&ManifestSource>)>,
) -> Result<Option<Product>> {
    let project = ctx.project.id;
    let Some((manifest, source)) = after else {
        if let Some(before) = before {
            installed_products::delete(tx, project, before.id)?;
        }
        return Ok(None);
    };
    let row = InstalledProduct {
        id: before.map_or_else(ProductId::new, |before| before.id),
        project,
        name: plan.name.clone(),
        version: manifest.version.to_string(),
        manifest: manifest.raw.to_string(),
        source: ManifestSource::to_json(source).to_string(),
        accepted: Some(serde_json::to_value(&plan.uses).unwrap_or_default().to_string()),
        revision: before.map_or(1, |before| before.revision + 1),
        installed_at: before.map_or(ctx.now, |before| before.installed_at),
        updated_at: ctx.now,
    };
    match before {
        None => installed_products::insert(tx, &row, ctx.author)?,
        Some(_) if installed_products::update(tx, &row, ctx.author)? => {}
        Some(_) => return Err(tx.retry_error("the product changed although its project was locked").into()),
    }
    Ok(Some(row.into()))
}

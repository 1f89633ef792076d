//! Saves triggers that start a workflow: jobs of products, and triggers that people save by name.

use emergent_domain::{
    agent::config_size_problem,
    audit::{AuditAction, NewAuditEntry},
    ids::{AgentId, NAME_IS_ID, is_id},
    invalid::Invalid,
    trigger::{EventConfig, EventTrigger, ScheduleConfig, Trigger},
    workflow_template::{WorkflowTemplate, check_event_config, check_schedule_config},
};
use emergent_graph::{Actor, WriteContext};
use emergent_store::{Tx, audit, projects, schedules, triggers as rows};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{
    limits::TriggerLimits,
    save::{ScheduleSpec, delete_event_trigger, start_reading, upsert_schedule},
    start_rights::check_may_start,
};
use crate::{Error, Executor, Result};

/// A trigger that starts a workflow.
#[derive(Debug, Clone, PartialEq)]
pub struct WorkflowTriggerSpec {
    pub name: String,
    /// A cron expression or the name of an event.
    pub trigger: Trigger,
    /// The settings of the schedule or of the event.
    pub config: Value,
    pub dispatch: WorkflowTemplate,
}

impl WorkflowTriggerSpec {
    /// Checks everything that needs no project. The fields are `name`, `config` and `dispatch`.
    pub fn check(&self) -> Result<(), Invalid> {
        let is_allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
        let starts_well = self.name.starts_with(|c: char| c.is_ascii_alphanumeric());
        if self.name.len() > 100 || !starts_well || !self.name.chars().all(is_allowed) {
            let reason =
                "must have 1 to 100 letters, digits, `_`, `-` and `.`, and begin with a letter or digit";
            return Err(Invalid::new("name", reason));
        }
        if is_id(&self.name) {
            return Err(Invalid::new("name", NAME_IS_ID));
        }
        // Every pass over the events of the project reads the settings, and a message about them quotes them.
        if let Some(reason) = config_size_problem(&self.config) {
            return Err(Invalid::new("config", reason));
        }
        let config = match &self.trigger {
            Trigger::Cron(_) => {
                self.parse_config::<ScheduleConfig>().and_then(|config| check_schedule_config(&config))
            }
            Trigger::Event(event) => {
                self.parse_config::<EventConfig>().and_then(|config| check_event_config(*event, &config))
            }
        };
        config.map_err(|invalid| invalid.prefixed("config"))?;
        self.dispatch.check().map_err(|invalid| invalid.prefixed("dispatch"))
    }

    fn parse_config<T: DeserializeOwned + Default>(&self) -> Result<T, Invalid> {
        match &self.config {
            Value::Null => Ok(T::default()),
            config => T::deserialize(config).map_err(|error| Invalid::new("", error.to_string())),
        }
    }
}

/// Adds a trigger that starts a workflow, or changes the one of that name. The product is empty for the trigger of a
/// person. The caller checks the workflow with [`Executor::check_workflow_template`].
pub fn save_workflow_trigger(
    tx: &mut Tx<'_>,
    ctx: &WriteContext,
    product: &str,
    spec: &WorkflowTriggerSpec,
) -> Result<()> {
    spec.check()?;
    let project = ctx.project.id;
    let schedule = schedules::lock_job(tx, project, product, &spec.name)?;
    match &spec.trigger {
        Trigger::Cron(cron) => {
            delete_event_trigger(tx, ctx, product, &spec.name)?;
            let config: ScheduleConfig = spec.parse_config()?;
            let declared = ScheduleSpec {
                agent: None,
                dispatch: Some(&spec.dispatch),
                product: Some(product).filter(|product| !product.is_empty()),
                name: &spec.name,
                cron,
                config: &config,
            };
            upsert_schedule(tx, ctx, schedule, &declared)
        }
        Trigger::Event(event) => {
            if let Some(schedule) = schedule {
                schedules::delete(tx, schedule.id)?;
            }
            let existing = rows::get_by_name(tx, project, product, &spec.name)?;
            let since = start_reading(tx, ctx, existing.as_ref(), *event)?;
            let trigger = EventTrigger {
                agent: existing.map_or_else(AgentId::new, |existing| existing.agent),
                dispatch: Some(spec.dispatch.clone()),
                name: Some(spec.name.clone()),
                product: Some(product.to_owned()),
                project,
                event: *event,
                config: spec.parse_config()?,
                since,
            };
            rows::upsert(tx, &trigger)?;
            Ok(tx.wake(schedules::CHANGED_CHANNEL)?)
        }
    }
}

/// Deletes the trigger of this name that starts a workflow; false if there is none.
pub fn delete_workflow_trigger(
    tx: &mut Tx<'_>,
    ctx: &WriteContext,
    product: &str,
    name: &str,
) -> Result<bool> {
    let mut deleted = delete_event_trigger(tx, ctx, product, name)?;
    let schedule = schedules::lock_job(tx, ctx.project.id, product, name)?;
    if let Some(schedule) = schedule.filter(|schedule| schedule.dispatch.is_some()) {
        schedules::delete(tx, schedule.id)?;
        deleted = true;
    }
    if deleted {
        tx.wake(schedules::CHANGED_CHANNEL)?;
    }
    Ok(deleted)
}

/// Records that a person changed a trigger. Those of agents and products are recorded with these.
fn record_change(tx: &mut Tx<'_>, ctx: &WriteContext, action: AuditAction, name: &str) -> Result<()> {
    Ok(audit::record(tx, &NewAuditEntry::new(action, Some(ctx.project.id), name), ctx.now)?)
}

impl Executor {
    /// Saves a person's trigger that starts a workflow, which needs the right to start agents.
    pub async fn put_workflow_trigger(&self, actor: Actor, spec: WorkflowTriggerSpec) -> Result<()> {
        let tasks = spec.dispatch.tasks.iter().flatten().enumerate();
        let schemas = tasks.filter_map(|(index, task)| {
            Some((format!("dispatch.tasks[{index}].outputSchema"), task.output_schema.clone()?))
        });
        // The checks below find the compiled schemas.
        self.graph().compile_output_schemas(actor.project, schemas.collect()).await?;
        spec.check()?;
        let texts = (serde_json::to_string(&spec.config), serde_json::to_string(&spec.dispatch));
        let larger_field = match texts {
            (Ok(config), Ok(dispatch)) if config.len() > dispatch.len() => "config",
            _ => "dispatch",
        };
        let executor = self.clone();
        let work = move |tx: &mut Tx<'_>| {
            // The lock makes changes of the same name follow one another.
            projects::lock(tx, actor.project)?.ok_or_else(|| Error::not_found("project", actor.project))?;
            check_may_start(tx, actor.author, "saving a trigger of a workflow")?;
            let ctx = executor.graph().write_context(tx, actor)?;
            let checked = executor.check_workflow_template(tx, actor.project, actor.author, &spec.dispatch);
            checked.map_err(|error| match error {
                Error::Invalid(invalid) => Error::Invalid(invalid.prefixed("dispatch")),
                other => other,
            })?;
            let limits = TriggerLimits::before_change(tx, actor.project)?;
            save_workflow_trigger(tx, &ctx, "", &spec)?;
            limits.check(tx, "name", larger_field)?;
            record_change(tx, &ctx, AuditAction::TriggerPut, &spec.name)
        };
        self.db().write(work).await
    }

    /// Deletes a person's trigger that starts a workflow. Workflows that it started go on.
    pub async fn delete_workflow_trigger(&self, actor: Actor, name: String) -> Result<()> {
        let executor = self.clone();
        let work = move |tx: &mut Tx<'_>| {
            projects::lock(tx, actor.project)?.ok_or_else(|| Error::not_found("project", actor.project))?;
            let ctx = executor.graph().write_context(tx, actor)?;
            match delete_workflow_trigger(tx, &ctx, "", &name)? {
                true => record_change(tx, &ctx, AuditAction::TriggerDelete, &name),
                false => Err(Error::not_found("trigger", &name)),
            }
        };
        self.db().write(work).await
    }
}

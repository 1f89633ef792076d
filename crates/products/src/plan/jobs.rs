//! Plans the jobs of a product.

use emergent_domain::{cron::Cron, trigger::EventTrigger};
use serde_json::{Value, json};

use super::{Action, ItemKind, PlanBuilder, StepChange, update_change};
use crate::{manifest::ManifestJob, state::ProjectState};

impl<'a> PlanBuilder<'a> {
    pub(super) fn plan_job_removals(&mut self) {
        let planned = self.manifest_jobs();
        let before: &'a ProjectState = self.before;
        let ours = before.schedules.iter().filter(|schedule| schedule.product.as_deref() == Some(self.name));
        let events =
            before.event_triggers.iter().filter(|trigger| trigger.product.as_deref() == Some(self.name));
        let names = ours.map(|schedule| schedule.name.as_str());
        let names = names.chain(events.filter_map(|trigger| trigger.name.as_deref()));
        let removed: Vec<&str> = names.filter(|name| !planned.iter().any(|job| job.name == **name)).collect();
        for name in removed {
            self.push_step(ItemKind::Job, name, StepChange::Remove, Action::DeleteJob);
        }
    }

    pub(super) fn plan_jobs(&mut self) {
        let before: &'a ProjectState = self.before;
        for job in self.manifest_jobs() {
            let existing = before
                .schedules
                .iter()
                .find(|schedule| schedule.product.as_deref() == Some(self.name) && schedule.name == job.name);
            let event = before
                .event_triggers
                .iter()
                .find(|trigger| {
                    trigger.product.as_deref() == Some(self.name) && trigger.name.as_ref() == Some(&job.name)
                })
                .map(|trigger| update_change(&event_json(trigger), &job_json(job)));
            let change = existing.map_or(event.unwrap_or(StepChange::Add), |existing| {
                if let Some(dispatch) = &existing.dispatch {
                    let config = serde_json::to_value(&existing.config).unwrap_or_default();
                    let stored = json!({ "cron": existing.cron, "dispatch": dispatch, "config": config });
                    return update_change(&stored, &job_json(job));
                }
                let agent = before.agents.iter().find(|agent| agent.id == existing.agent);
                // An agent that is created again is a different one, although it has the same name.
                let agent = agent.map_or(Value::Null, |agent| Value::from(agent.definition.name.as_str()));
                let config = serde_json::to_value(&existing.config).unwrap_or_default();
                update_change(
                    &json!({ "cron": existing.cron, "agent": agent, "config": config }),
                    &job_json(job),
                )
            });
            let keeps = change == StepChange::Keep;
            let action = if keeps { Action::None } else { Action::UpsertJob(Box::new(job.clone())) };
            self.push_step(ItemKind::Job, &job.name, change, action);
        }
    }

    fn manifest_jobs(&self) -> &'a [ManifestJob] {
        self.after.map_or(&[], |manifest| &manifest.jobs)
    }
}

fn event_json(trigger: &EventTrigger) -> Value {
    json!({ "event": trigger.event, "dispatch": trigger.dispatch, "event_config": trigger.config })
}

fn job_json(job: &ManifestJob) -> Value {
    if let Some(event) = job.event {
        return json!({ "event": event, "dispatch": job.dispatch, "event_config": job.event_config });
    }
    let config = serde_json::to_value(&job.config).unwrap_or_default();
    // The expression is compared in its stored form, regardless of the whitespace between the
    // fields.
    let cron = job.cron.parse::<Cron>().map_or_else(|_| job.cron.clone(), |cron| cron.to_string());
    match &job.dispatch {
        Some(dispatch) => json!({ "cron": cron, "dispatch": dispatch, "config": config }),
        None => json!({ "cron": cron, "agent": job.agent, "config": config }),
    }
}

//! Plans the MCP servers, prompts and jobs of a product.

use emergent_domain::{
    cron::Cron,
    mcp_server::{ServerSpec, TransportKind},
};
use serde_json::{Value, json};

use super::{Action, ItemKind, PlanBuilder, StepChange, Warning};
use crate::{
    diff::diff,
    manifest::{ManifestJob, ManifestMcp},
    state::ProjectState,
};

impl<'a> PlanBuilder<'a> {
    pub(super) fn plan_servers(&mut self) {
        let before: &'a ProjectState = self.before;
        let mcp = self.mcp();
        let specs = mcp.map_or(&[][..], |mcp| &mcp.servers);
        let ours = before.servers.iter().filter(|server| server.product.as_deref() == Some(self.name));
        for removed in ours.filter(|server| !specs.iter().any(|spec| spec.name() == server.name())) {
            self.push_step(ItemKind::Server, removed.name(), StepChange::Remove, Action::DeleteServer);
        }
        for (index, spec) in specs.iter().enumerate() {
            let filter = mcp.map_or(&[][..], |mcp| &mcp.tool_filter);
            let action = Action::UpsertServer(Box::new(spec.clone()));
            match before.servers.iter().find(|server| server.name() == spec.name()) {
                None => self.push_step(ItemKind::Server, spec.name(), StepChange::Add, action),
                Some(existing) if existing.product.as_deref() == Some(self.name) => {
                    let fields =
                        diff(&server_json(&existing.spec, &existing.tool_filter), &server_json(spec, filter));
                    if fields.is_empty() {
                        self.push_step(ItemKind::Server, spec.name(), StepChange::Keep, Action::None);
                    } else {
                        self.push_step(ItemKind::Server, spec.name(), StepChange::Update(fields), action);
                    }
                    if existing.listed_at.is_some() {
                        continue;
                    }
                }
                Some(existing) => {
                    let pointer = format!("/mcp/servers/{index}/name");
                    self.push_conflict(pointer, "server", spec.name(), existing.product.as_deref());
                    continue;
                }
            }
            self.warn_of_server(spec);
        }
    }

    fn warn_of_server(&mut self, spec: &ServerSpec) {
        let server = spec.name().to_owned();
        for secret in secret_references(spec) {
            if !self.before.secrets.contains(&secret) {
                self.warnings.push(Warning::SecretMissing { server: server.clone(), secret });
            }
        }
        self.warnings.push(if spec.transport() == TransportKind::Stdio && !self.before.allow_stdio {
            Warning::ServerBlocked { server }
        } else {
            Warning::NotReachedYet { server }
        });
    }

    pub(super) fn plan_prompts(&mut self) {
        let before: &'a ProjectState = self.before;
        let prompts = self.mcp().map_or(&[][..], |mcp| &mcp.prompts);
        let ours = || {
            before
                .prompts
                .iter()
                .filter(|prompt_row| prompt_row.product == self.name)
                .map(|prompt_row| &prompt_row.prompt)
        };
        let removed: Vec<_> =
            ours().filter(|old| !prompts.iter().any(|prompt| prompt.name == old.name)).collect();
        let planned: Vec<_> =
            prompts.iter().map(|prompt| (prompt, ours().find(|old| old.name == prompt.name))).collect();
        for prompt in removed {
            self.push_step(ItemKind::Prompt, &prompt.name, StepChange::Remove, Action::DeletePrompt);
        }
        for (prompt, existing) in planned {
            let value = |prompt| serde_json::to_value(prompt).unwrap_or_default();
            let change =
                existing.map_or(StepChange::Add, |existing| update_change(&value(existing), &value(prompt)));
            let keeps = change == StepChange::Keep;
            let action = if keeps { Action::None } else { Action::UpsertPrompt(Box::new(prompt.clone())) };
            self.push_step(ItemKind::Prompt, &prompt.name, change, action);
        }
    }

    pub(super) fn plan_job_removals(&mut self) {
        let planned = self.wanted_jobs();
        let before: &'a ProjectState = self.before;
        let ours = before.schedules.iter().filter(|schedule| schedule.product.as_deref() == Some(self.name));
        for removed in ours.filter(|schedule| !planned.iter().any(|job| job.name == schedule.name)) {
            self.push_step(ItemKind::Job, &removed.name, StepChange::Remove, Action::DeleteJob);
        }
    }

    pub(super) fn plan_jobs(&mut self) {
        let before: &'a ProjectState = self.before;
        for job in self.wanted_jobs() {
            let existing = before
                .schedules
                .iter()
                .find(|schedule| schedule.product.as_deref() == Some(self.name) && schedule.name == job.name);
            let change = existing.map_or(StepChange::Add, |existing| {
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

    fn wanted_jobs(&self) -> &'a [ManifestJob] {
        self.after.map_or(&[], |manifest| &manifest.jobs)
    }

    fn mcp(&self) -> Option<&'a ManifestMcp> {
        self.after.map(|manifest| &manifest.mcp)
    }
}

fn update_change(before: &Value, after: &Value) -> StepChange {
    let fields = diff(before, after);
    if fields.is_empty() { StepChange::Keep } else { StepChange::Update(fields) }
}

fn job_json(job: &ManifestJob) -> Value {
    let config = serde_json::to_value(&job.config).unwrap_or_default();
    // The expression is compared in its stored form, regardless of the whitespace between the
    // fields.
    let cron = job.cron.parse::<Cron>().map_or_else(|_| job.cron.clone(), |cron| cron.to_string());
    json!({ "cron": cron, "agent": job.agent, "config": config })
}

fn server_json(spec: &ServerSpec, filter: &[String]) -> Value {
    let mut value = serde_json::to_value(spec).unwrap_or_default();
    value["tool_filter"] = json!(filter);
    value
}

/// Returns the secrets that the settings of a server refer to.
fn secret_references(spec: &ServerSpec) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for (field, text) in spec.templates() {
        let plain = text.replace("$${", "");
        for (open, close) in [("${", "}"), ("{{secrets.", "}}")] {
            let mut rest = plain.as_str();
            while let Some((_, opened)) = rest.split_once(open) {
                let Some((name, after)) = opened.split_once(close) else { break };
                // A header may also refer to a variable of the server's own `env`.
                let of_env = field.starts_with("headers.") && spec.env().contains_key(name.trim());
                if !of_env && !names.iter().any(|existing| existing == name.trim()) {
                    names.push(name.trim().to_owned());
                }
                rest = after;
            }
        }
    }
    names
}

//! Servers, prompts and jobs of a plan.

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
        for gone in ours.filter(|server| !specs.iter().any(|spec| spec.name() == server.name())) {
            self.push_step(ItemKind::Server, gone.name(), StepChange::Remove, Action::DeleteServer);
        }
        for (index, spec) in specs.iter().enumerate() {
            let filter = mcp.map_or(&[][..], |mcp| &mcp.tool_filter);
            let action = Action::UpsertServer(Box::new(spec.clone()));
            match before.servers.iter().find(|server| server.name() == spec.name()) {
                None => self.push_step(ItemKind::Server, spec.name(), StepChange::Add, action),
                Some(found) if found.product.as_deref() == Some(self.name) => {
                    let fields =
                        diff(&server_json(&found.spec, &found.tool_filter), &server_json(spec, filter));
                    if fields.is_empty() {
                        self.push_step(ItemKind::Server, spec.name(), StepChange::Keep, Action::None);
                    } else {
                        self.push_step(ItemKind::Server, spec.name(), StepChange::Update(fields), action);
                    }
                    if found.listed_at.is_some() {
                        continue;
                    }
                }
                Some(other) => {
                    let pointer = format!("/mcp/servers/{index}/name");
                    self.push_conflict(pointer, "server", spec.name(), other.product.as_deref());
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
        let ours = || before.prompts.iter().filter(|one| one.product == self.name).map(|one| &one.prompt);
        let gone: Vec<_> =
            ours().filter(|one| !prompts.iter().any(|prompt| prompt.name == one.name)).collect();
        let found: Vec<_> =
            prompts.iter().map(|prompt| (prompt, ours().find(|one| one.name == prompt.name))).collect();
        for prompt in gone {
            self.push_step(ItemKind::Prompt, &prompt.name, StepChange::Remove, Action::DeletePrompt);
        }
        for (prompt, found) in found {
            let value = |prompt| serde_json::to_value(prompt).unwrap_or_default();
            let change = found.map_or(StepChange::Add, |found| update_change(&value(found), &value(prompt)));
            let keeps = change == StepChange::Keep;
            let action = if keeps { Action::None } else { Action::UpsertPrompt(Box::new(prompt.clone())) };
            self.push_step(ItemKind::Prompt, &prompt.name, change, action);
        }
    }

    pub(super) fn plan_job_removals(&mut self) {
        let wanted = self.wanted_jobs();
        let before: &'a ProjectState = self.before;
        let ours = before.schedules.iter().filter(|one| one.product.as_deref() == Some(self.name));
        for gone in ours.filter(|one| !wanted.iter().any(|job| job.name == one.name)) {
            self.push_step(ItemKind::Job, &gone.name, StepChange::Remove, Action::DeleteJob);
        }
    }

    pub(super) fn plan_jobs(&mut self) {
        let before: &'a ProjectState = self.before;
        for job in self.wanted_jobs() {
            let found = before
                .schedules
                .iter()
                .find(|one| one.product.as_deref() == Some(self.name) && one.name == job.name);
            let change = found.map_or(StepChange::Add, |found| {
                let agent = before.agents.iter().find(|agent| agent.id == found.agent);
                // An agent that is made anew is another one, although it has the same name.
                let agent = agent.map_or(Value::Null, |agent| Value::from(agent.definition.name.as_str()));
                let config = serde_json::to_value(&found.config).unwrap_or_default();
                update_change(
                    &json!({ "cron": found.cron, "agent": agent, "config": config }),
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
    // As it is kept, whatever the spaces between the fields.
    let cron = job.cron.parse::<Cron>().map_or_else(|_| job.cron.clone(), |cron| cron.to_string());
    json!({ "cron": cron, "agent": job.agent, "config": config })
}

fn server_json(spec: &ServerSpec, filter: &[String]) -> Value {
    let mut value = serde_json::to_value(spec).unwrap_or_default();
    value["tool_filter"] = json!(filter);
    value
}

/// The secrets that a server's settings refer to.
fn secret_references(spec: &ServerSpec) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for (field, text) in spec.templates() {
        let plain = text.replace("$${", "");
        for (open, close) in [("${", "}"), ("{{secrets.", "}}")] {
            let mut rest = plain.as_str();
            while let Some((_, opened)) = rest.split_once(open) {
                let Some((name, after)) = opened.split_once(close) else { break };
                // A header may also use what the server's own `env` gives a name.
                let of_env = field.starts_with("headers.") && spec.env().contains_key(name.trim());
                if !of_env && !names.iter().any(|known| known == name.trim()) {
                    names.push(name.trim().to_owned());
                }
                rest = after;
            }
        }
    }
    names
}

//! Plans what an installed product lacks, because somebody deleted it. Everything that exists stays as it is, also if
//! somebody changed it: only an upgrade replaces manual changes.

use emergent_domain::agent::default_agent;

use super::{Action, Direction, ItemKind, Plan, PlanBuilder, StepChange, Warning, added_uses};
use crate::{
    manifest::{Manifest, ManifestServer},
    problem::ManifestProblem,
    state::ProjectState,
    uses::Uses,
};

/// Plans the steps that add what the project lacks of `manifest`, which is the installed one. A name that belongs to
/// somebody else by now is not missing.
pub fn plan_missing(before: &ProjectState, manifest: &Manifest) -> Result<Plan, Vec<ManifestProblem>> {
    let name = manifest.name.as_str();
    let (steps, warnings, problems) = (Vec::new(), Vec::new(), Vec::new());
    let mut draft = PlanBuilder { name, before, after: Some(manifest), steps, warnings, problems };
    draft.plan_missing_packs(manifest);
    draft.plan_missing_agents(manifest);
    draft.plan_missing_servers(manifest);
    draft.plan_missing_prompts(manifest);
    draft.plan_missing_jobs(manifest);
    if !draft.problems.is_empty() {
        return Err(draft.problems);
    }
    let (steps, warnings) = (draft.steps, draft.warnings);
    let version = Some(manifest.version.clone());
    let uses = Uses::of_manifest(manifest);
    let added = added_uses(before, before.product(name), &uses);
    let (name, from, to) = (name.to_owned(), version.clone(), version);
    Ok(Plan { name, from, to, direction: Direction::Same, steps, warnings, uses, added })
}

impl PlanBuilder<'_> {
    fn plan_missing_packs(&mut self, manifest: &Manifest) {
        for (index, pack) in manifest.template_packs.iter().enumerate() {
            let is_assigned =
                self.before.packs.iter().any(|stored| stored.assigned && stored.pack.name == pack.name);
            if !is_assigned {
                self.plan_pack(index, pack);
            }
        }
    }

    fn plan_missing_agents(&mut self, manifest: &Manifest) {
        let has_default = default_agent(self.before.agents.iter()).is_some();
        for mut definition in manifest.definitions() {
            if self.before.agents.iter().any(|agent| agent.definition.name == definition.name) {
                continue;
            }
            // Whoever became the default agent in the meantime remains it.
            definition.is_default &= !has_default;
            let name = definition.name.clone();
            self.warnings.push(Warning::OwnDeletion { agent: name.clone() });
            self.push_step(ItemKind::Agent, name, StepChange::Add, Action::AddAgent(Box::new(definition)));
        }
    }

    fn plan_missing_servers(&mut self, manifest: &Manifest) {
        for ManifestServer { spec, .. } in manifest.servers() {
            if self.before.servers.iter().any(|server| server.name() == spec.name()) {
                continue;
            }
            let action = Action::UpsertServer(Box::new(spec.clone()));
            self.push_step(ItemKind::Server, spec.name(), StepChange::Add, action);
            self.warn_of_program(spec);
            self.warn_of_server(spec);
        }
    }

    fn plan_missing_prompts(&mut self, manifest: &Manifest) {
        for prompt in &manifest.mcp.prompts {
            let exists = self
                .before
                .prompts
                .iter()
                .any(|row| row.product == self.name && row.prompt.name == prompt.name);
            if !exists {
                let action = Action::UpsertPrompt(Box::new(prompt.clone()));
                self.push_step(ItemKind::Prompt, &prompt.name, StepChange::Add, action);
            }
        }
    }

    fn plan_missing_jobs(&mut self, manifest: &Manifest) {
        let before = self.before;
        for job in &manifest.jobs {
            let is_ours = |product: Option<&str>, name: Option<&str>| {
                product == Some(self.name) && name == Some(job.name.as_str())
            };
            let scheduled =
                before.schedules.iter().any(|row| is_ours(row.product.as_deref(), Some(&row.name)));
            let triggered =
                before.event_triggers.iter().any(|row| is_ours(row.product.as_deref(), row.name.as_deref()));
            if !scheduled && !triggered {
                let action = Action::UpsertJob(Box::new(job.clone()));
                self.push_step(ItemKind::Job, &job.name, StepChange::Add, action);
            }
        }
    }
}

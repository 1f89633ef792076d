//! Plans the agents of a product: which are created, updated and removed, and which becomes the
//! default agent. Agents of the project itself and of other products remain unchanged.

use emergent_domain::agent::{Agent, AgentDefinition, Visibility, default_agent};
use serde_json::Value;

use super::{Action, ItemKind, PlanBuilder, StepChange, Warning};
use crate::{
    diff::{FieldDiff, diff},
    manifest::{Manifest, ManifestAgent},
    problem::ManifestProblem,
    state::ProjectState,
};

/// A manual change of an agent that a product installed.
#[derive(Debug, Clone, PartialEq)]
pub struct OwnChange {
    pub agent: String,
    /// The differences from the manifest, as pointers into the definition. Empty if `deleted`.
    pub fields: Vec<FieldDiff>,
    pub deleted: bool,
}

/// Returns how the agents of an installed product differ from its manifest. The default flag is
/// ignored, because it moves automatically. A renamed agent appears twice: as deleted under its old
/// name, and as changed under its new name.
pub fn own_changes(manifest: &Manifest, agents: &[Agent]) -> Vec<OwnChange> {
    let own = |agent: &&Agent| agent.definition.product.as_deref() == Some(manifest.name.as_str());
    let changed = |expected: AgentDefinition| {
        let agent = agents.iter().filter(own).find(|agent| agent.definition.name == expected.name);
        let Some(agent) = agent else {
            return Some(OwnChange { agent: expected.name, fields: Vec::new(), deleted: true });
        };
        let fields = without_default(diff(&definition_json(&expected), &definition_json(&agent.definition)));
        (!fields.is_empty()).then_some(OwnChange { agent: expected.name, fields, deleted: false })
    };
    let renamed = agents.iter().filter(own).map(|agent| &agent.definition.name);
    let renamed = renamed.filter(|name| !manifest.agents.iter().any(|agent| agent.name == **name));
    let renamed = renamed.map(|name| {
        let after = Some(Value::from(name.as_str()));
        let field = FieldDiff { pointer: "/name".to_owned(), before: None, after };
        OwnChange { agent: name.clone(), fields: vec![field], deleted: false }
    });
    manifest.definitions().filter_map(changed).chain(renamed).collect()
}

fn definition_json(definition: &AgentDefinition) -> Value {
    serde_json::to_value(definition).unwrap_or_default()
}

fn without_default(mut fields: Vec<FieldDiff>) -> Vec<FieldDiff> {
    fields.retain(|field| field.pointer != "/is_default");
    fields
}

/// Returns whether one pointer equals the other or is a prefix of it.
fn overlap(left: &str, right: &str) -> bool {
    let is_within = |inner: &str, outer: &str| {
        inner.strip_prefix(outer).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    is_within(left, right) || is_within(right, left)
}

impl<'a> PlanBuilder<'a> {
    pub(super) fn plan_agents(&mut self) {
        let before: &'a ProjectState = self.before;
        let planned: &'a [ManifestAgent] = self.after.map_or(&[], |manifest| &manifest.agents);
        let changes = before
            .product(self.name)
            .and_then(|installed| installed.manifest.as_ref())
            .map(|manifest| own_changes(manifest, &before.agents))
            .unwrap_or_default();
        let ours: Vec<&'a Agent> = before.agents.iter().filter(|agent| self.owns_agent(agent)).collect();
        for agent in
            ours.iter().filter(|agent| !planned.iter().any(|entry| entry.name == agent.definition.name))
        {
            self.plan_agent_removal(agent, &changes);
        }
        let default = self.becomes_default(planned);
        let mut in_order: Vec<(usize, &'a ManifestAgent)> = planned.iter().enumerate().collect();
        // The agent that loses the default flag comes before the agent that receives it, because a
        // non-external agent cannot take the flag from an external one.
        in_order.sort_by_key(|(_, agent)| agent.is_default);
        for (index, agent) in in_order {
            let mut to = agent.definition(self.name);
            to.is_default = agent.is_default && default;
            match before.agents.iter().find(|agent| agent.definition.name == to.name) {
                Some(existing) if self.owns_agent(existing) => self.plan_agent_change(existing, to, &changes),
                Some(existing) => {
                    let product = existing.definition.product.as_deref();
                    self.push_conflict(format!("/agents/{index}/name"), "agent", &to.name, product);
                }
                None => {
                    if changes.iter().any(|change| change.deleted && change.agent == to.name) {
                        self.warnings.push(Warning::OwnDeletion { agent: to.name.clone() });
                    }
                    self.push_step(
                        ItemKind::Agent,
                        to.name.clone(),
                        StepChange::Add,
                        Action::AddAgent(Box::new(to)),
                    );
                }
            }
        }
        self.pass_on_default(&ours, planned);
    }

    fn owns_agent(&self, agent: &Agent) -> bool {
        agent.definition.product.as_deref() == Some(self.name)
    }

    fn plan_agent_change(&mut self, current: &Agent, to: AgentDefinition, changes: &[OwnChange]) {
        let fields = diff(&definition_json(&current.definition), &definition_json(&to));
        if fields.is_empty() {
            self.push_step(ItemKind::Agent, to.name, StepChange::Keep, Action::None);
            return;
        }
        if let Some(change) = changes.iter().find(|change| change.agent == to.name) {
            // A manual change to the same value that the new manifest has is not lost.
            let lost = |own: &&FieldDiff| fields.iter().any(|field| overlap(&field.pointer, &own.pointer));
            let lost: Vec<String> =
                change.fields.iter().filter(lost).map(|own| own.pointer.clone()).collect();
            if !lost.is_empty() {
                let agent = to.name.clone();
                self.warnings.push(Warning::OwnChange { agent, fields: lost, removed: false });
            }
        }
        let action = Action::UpdateAgent { id: current.id, to: Box::new(to.clone()) };
        self.push_step(ItemKind::Agent, to.name, StepChange::Update(fields), action);
    }

    fn plan_agent_removal(&mut self, agent: &Agent, changes: &[OwnChange]) {
        let name = &agent.definition.name;
        if let Some(change) = changes.iter().find(|change| change.agent == *name) {
            let fields = change.fields.iter().map(|own| own.pointer.clone()).collect();
            self.warnings.push(Warning::OwnChange { agent: name.clone(), fields, removed: true });
        }
        let uses = |other: &&Agent| {
            let parts = other.definition.flow_config.as_ref().map_or(&[][..], |flow| &flow.agents);
            !self.owns_agent(other) && parts.contains(name)
        };
        let agents = self.before.agents.iter().filter(uses);
        let by: Vec<String> = agents.map(|other| format!("the agent `{}`", other.definition.name)).collect();
        self.refuse_if_started_by_others(agent);
        if !by.is_empty() {
            self.warnings.push(Warning::StillUsed { agent: name.clone(), by });
        }
        self.push_step(ItemKind::Agent, name.clone(), StepChange::Remove, Action::DeleteAgent(agent.id));
    }

    /// Rejects the removal of an agent that a job of another product starts, because the job would
    /// be deleted with the agent.
    fn refuse_if_started_by_others(&mut self, agent: &Agent) {
        let before = self.before;
        let pointer = self.list_pointer("/agents");
        for job in before.schedules.iter().filter(|job| job.agent == agent.id) {
            let Some(product) = job.product.as_deref().filter(|product| *product != self.name) else {
                continue;
            };
            let (name, job) = (&agent.definition.name, &job.name);
            let message = format!(
                "the agent `{name}` would be removed, but the job `{job}` of the product `{product}` starts it"
            );
            let fix = format!("uninstall `{product}` first, or upgrade it to a version without that job");
            self.problems.push(ManifestProblem::new(pointer.clone(), message).with_fix(fix));
        }
    }

    /// Decides whether the agent that requests the default flag receives it. The current default
    /// agent keeps the flag, unless it belongs to another product and the requesting agent is
    /// external.
    fn becomes_default(&mut self, planned: &[ManifestAgent]) -> bool {
        let Some(requesting) = planned.iter().find(|agent| agent.is_default) else { return false };
        let others = self.before.agents.iter().filter(|agent| !self.owns_agent(agent));
        let Some(holder) = default_agent(others) else { return true };
        let (theirs, name) = (holder.definition.visibility, holder.definition.name.clone());
        let outranked = requesting.visibility == Visibility::External && theirs != Visibility::External;
        if holder.definition.product.is_none() || !outranked {
            let agent = requesting.name.clone();
            self.warnings.push(Warning::DefaultNotTaken { agent, holder: name });
            return false;
        }
        self.warnings.push(Warning::DefaultTaken { agent: requesting.name.clone(), from: name.clone() });
        self.plan_default_flag(holder.id, name, false);
        true
    }

    /// When the default agent is removed, the flag returns to the product that requested it before.
    fn pass_on_default(&mut self, ours: &[&Agent], planned: &[ManifestAgent]) {
        let before = self.before;
        let had = ours.iter().any(|agent| agent.definition.is_default);
        let others = before.agents.iter().filter(|agent| !self.owns_agent(agent));
        if !had || planned.iter().any(|agent| agent.is_default) || default_agent(others).is_some() {
            return;
        }
        let asking =
            before.installed.iter().filter(|installed| installed.name != self.name).filter_map(|installed| {
                let requesting = installed.manifest.as_ref()?.agents.iter().find(|agent| agent.is_default)?;
                let product = Some(installed.name.as_str());
                let is_it = |agent: &&Agent| {
                    agent.definition.name == requesting.name && agent.definition.product.as_deref() == product
                };
                before.agents.iter().find(is_it)
            });
        let next = asking.min_by_key(|agent| agent.definition.visibility != Visibility::External);
        if let Some(next) = next {
            self.plan_default_flag(next.id, next.definition.name.clone(), true);
        }
    }

    fn plan_default_flag(&mut self, id: emergent_domain::ids::AgentId, name: String, is_default: bool) {
        let field = FieldDiff {
            pointer: "/is_default".to_owned(),
            before: Some(Value::Bool(!is_default)),
            after: Some(Value::Bool(is_default)),
        };
        self.push_step(
            ItemKind::Agent,
            name,
            StepChange::Update(vec![field]),
            Action::SetDefault { id, is_default },
        );
    }
}

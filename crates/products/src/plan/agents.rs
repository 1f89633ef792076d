//! Agents of a plan: which are made, overwritten and taken away, and which of them answers when
//! nobody is named. Agents of the project's own, and of other products, are left alone.

use emergent_domain::agent::{Agent, AgentDefinition, Visibility, default_agent};
use serde_json::Value;

use super::{Action, ItemKind, PlanBuilder, StepChange, Warning};
use crate::{
    diff::{FieldDiff, diff},
    manifest::{Manifest, ManifestAgent},
    problem::ManifestProblem,
    state::ProjectState,
};

/// What somebody changed by hand of an agent that a product brought.
#[derive(Debug, Clone, PartialEq)]
pub struct OwnChange {
    pub agent: String,
    /// Where it differs from the manifest, as pointers into the definition. Empty when `deleted`.
    pub fields: Vec<FieldDiff>,
    pub deleted: bool,
}

/// How the agents of an installed product differ from its manifest. Who is the default agent is
/// left out: that moves by itself. One that was given another name is there twice: as deleted by
/// its old name, and as changed by its new one.
pub fn own_changes(manifest: &Manifest, agents: &[Agent]) -> Vec<OwnChange> {
    let own = |agent: &&Agent| agent.definition.product.as_deref() == Some(manifest.name.as_str());
    let changed = |wanted: AgentDefinition| {
        let found = agents.iter().filter(own).find(|agent| agent.definition.name == wanted.name);
        let Some(found) = found else {
            return Some(OwnChange { agent: wanted.name, fields: Vec::new(), deleted: true });
        };
        let fields = without_default(diff(&definition_json(&wanted), &definition_json(&found.definition)));
        (!fields.is_empty()).then_some(OwnChange { agent: wanted.name, fields, deleted: false })
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

/// Whether one of two pointers leads to the other's place or into it.
fn overlap(one: &str, other: &str) -> bool {
    let into = |deep: &str, place: &str| {
        deep.strip_prefix(place).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    into(one, other) || into(other, one)
}

impl<'a> PlanBuilder<'a> {
    pub(super) fn plan_agents(&mut self) {
        let before: &'a ProjectState = self.before;
        let wanted: &'a [ManifestAgent] = self.after.map_or(&[], |manifest| &manifest.agents);
        let changes = before
            .product(self.name)
            .and_then(|installed| installed.manifest.as_ref())
            .map(|manifest| own_changes(manifest, &before.agents))
            .unwrap_or_default();
        let ours: Vec<&'a Agent> = before.agents.iter().filter(|agent| self.owns_agent(agent)).collect();
        for agent in ours.iter().filter(|agent| !wanted.iter().any(|one| one.name == agent.definition.name)) {
            self.plan_agent_removal(agent, &changes);
        }
        let default = self.becomes_default(wanted);
        let mut in_order: Vec<(usize, &'a ManifestAgent)> = wanted.iter().enumerate().collect();
        // Who gives the flag of the default agent up comes before who takes it: the flag is not
        // taken from an external agent by one that is not.
        in_order.sort_by_key(|(_, agent)| agent.is_default);
        for (index, agent) in in_order {
            let mut to = agent.definition(self.name);
            to.is_default = agent.is_default && default;
            match before.agents.iter().find(|one| one.definition.name == to.name) {
                Some(found) if self.owns_agent(found) => self.plan_agent_change(found, to, &changes),
                Some(other) => {
                    let product = other.definition.product.as_deref();
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
        self.pass_on_default(&ours, wanted);
    }

    fn owns_agent(&self, agent: &Agent) -> bool {
        agent.definition.product.as_deref() == Some(self.name)
    }

    fn plan_agent_change(&mut self, found: &Agent, to: AgentDefinition, changes: &[OwnChange]) {
        let fields = diff(&definition_json(&found.definition), &definition_json(&to));
        if fields.is_empty() {
            self.push_step(ItemKind::Agent, to.name, StepChange::Keep, Action::None);
            return;
        }
        if let Some(change) = changes.iter().find(|change| change.agent == to.name) {
            // What somebody changed to what is coming anyway is in nobody's way.
            let lost = |own: &&FieldDiff| fields.iter().any(|field| overlap(&field.pointer, &own.pointer));
            let lost: Vec<String> =
                change.fields.iter().filter(lost).map(|own| own.pointer.clone()).collect();
            if !lost.is_empty() {
                let agent = to.name.clone();
                self.warnings.push(Warning::OwnChange { agent, fields: lost, removed: false });
            }
        }
        let action = Action::UpdateAgent { id: found.id, to: Box::new(to.clone()) };
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

    /// Another product's job would have nothing left to start, and would be gone with the agent.
    fn refuse_if_started_by_others(&mut self, agent: &Agent) {
        let before = self.before;
        let pointer = self.list_pointer("/agents");
        for job in before.schedules.iter().filter(|job| job.agent == agent.id) {
            let Some(product) = job.product.as_deref().filter(|product| *product != self.name) else {
                continue;
            };
            let (name, job) = (&agent.definition.name, &job.name);
            let message = format!(
                "the agent `{name}` would go, and the job `{job}` of the product `{product}` starts it"
            );
            let fix = format!("uninstall `{product}` first, or upgrade it to a version without that job");
            self.problems.push(ManifestProblem::new(pointer.clone(), message).with_fix(fix));
        }
    }

    /// Whether the agent that asks for it becomes the default one. Who has the flag keeps it,
    /// unless it is another product's and the one that asks is external.
    fn becomes_default(&mut self, wanted: &[ManifestAgent]) -> bool {
        let Some(asks) = wanted.iter().find(|agent| agent.is_default) else { return false };
        let others = self.before.agents.iter().filter(|agent| !self.owns_agent(agent));
        let Some(holder) = default_agent(others) else { return true };
        let (theirs, name) = (holder.definition.visibility, holder.definition.name.clone());
        let outranked = asks.visibility == Visibility::External && theirs != Visibility::External;
        if holder.definition.product.is_none() || !outranked {
            let agent = asks.name.clone();
            self.warnings.push(Warning::DefaultNotTaken { agent, holder: name });
            return false;
        }
        self.warnings.push(Warning::DefaultTaken { agent: asks.name.clone(), from: name.clone() });
        self.plan_default_flag(holder.id, name, false);
        true
    }

    /// When the default agent goes, the flag returns to the product that asked for it before.
    fn pass_on_default(&mut self, ours: &[&Agent], wanted: &[ManifestAgent]) {
        let before = self.before;
        let had = ours.iter().any(|agent| agent.definition.is_default);
        let others = before.agents.iter().filter(|agent| !self.owns_agent(agent));
        if !had || wanted.iter().any(|agent| agent.is_default) || default_agent(others).is_some() {
            return;
        }
        let asking = before.installed.iter().filter(|one| one.name != self.name).filter_map(|installed| {
            let wanted = installed.manifest.as_ref()?.agents.iter().find(|agent| agent.is_default)?;
            let product = Some(installed.name.as_str());
            let is_it = |agent: &&Agent| {
                agent.definition.name == wanted.name && agent.definition.product.as_deref() == product
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

//! Decides one change of the products of a project: what stands against it, its plan, and its entry in the audit log.

use emergent_domain::{
    agent::AvailableNames,
    audit::{AuditAction, NewAuditEntry},
    ids::{ProductId, ProjectId},
    mcp_server::{ConfiguredBy, ProgramPatterns},
};
use emergent_executor::Executor;
use emergent_graph::Actor;
use emergent_store::Tx;

use crate::{
    Error, Result,
    manifest::Manifest,
    plan::{Plan, StepChange, plan, plan_missing},
    problem::ManifestProblem,
    source::ManifestSource,
    state::ProjectState,
    tool_forecast::ToolForecast,
    validate::{InstallContext, core_version, validate},
};

/// The most steps of a change that the audit log lists.
const MAX_AUDITED_STEPS: usize = 200;

/// The state that the transaction must find.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ExpectedState {
    Absent,
    Present,
    /// The product with this revision. A product that was installed again starts at revision 1.
    At(ProductId, i64),
    /// The same, of which only what is missing is added.
    Incomplete(ProductId, i64),
}

/// A change of the products of a project, decided in the transaction that makes it.
pub(crate) struct ChangeRequest {
    pub name: String,
    pub after: Option<(Manifest, Option<ManifestSource>)>,
    pub expected: ExpectedState,
    /// All names of the built-in tools.
    pub builtin_tools: Vec<String>,
    pub providers: Vec<String>,
    pub allow_stdio: bool,
    pub programs: ProgramPatterns,
    pub by: ConfiguredBy,
}

impl ChangeRequest {
    pub fn decide(&self, tx: &mut Tx<'_>, project: ProjectId) -> Result<(ProjectState, Plan)> {
        let state = ProjectState {
            allow_stdio: self.allow_stdio,
            programs: self.programs.clone(),
            by: self.by,
            is_builtin: matches!(&self.after, Some((_, Some(ManifestSource::Builtin(_))))),
            ..ProjectState::read(tx, project)?
        };
        match (self.expected, state.product(&self.name)) {
            (ExpectedState::Absent, Some(installed)) => {
                let (name, version) = (installed.name.clone(), installed.version.clone());
                return Err(Error::AlreadyInstalled { name, version });
            }
            (ExpectedState::Present | ExpectedState::At(..) | ExpectedState::Incomplete(..), None) => {
                return Err(Error::NotInstalled(self.name.chars().take(100).collect()));
            }
            (ExpectedState::At(id, revision) | ExpectedState::Incomplete(id, revision), Some(installed))
                if (installed.id, installed.revision) != (id, revision) =>
            {
                return Err(Error::Conflict(format!(
                    "the product `{}` was changed by somebody else just now, to version {}: look again, and \
                     repeat the upgrade if it is still needed",
                    installed.name, installed.version
                )));
            }
            _ => {}
        }
        let manifest = self.after.as_ref().map(|(manifest, _)| manifest);
        let planned = match (self.expected, manifest) {
            (ExpectedState::Incomplete(..), Some(manifest)) => plan_missing(&state, manifest),
            _ => plan(&self.name, &state, manifest),
        };
        // What is complete is not validated again: what it needs may have changed since, and nothing is written.
        if let Ok(plan) = &planned
            && self.is_complete(plan)
        {
            return Ok((state, plan.clone()));
        }
        let mut problems = manifest
            .map_or_else(Vec::new, |manifest| validate(manifest, &self.install_context(&state, manifest)));
        match planned {
            Ok(mut plan) if problems.is_empty() => {
                if let Some(manifest) = manifest {
                    let tools = ToolForecast::after_change(&self.builtin_tools, &state, manifest);
                    plan.warnings.extend(tools.warnings(manifest));
                }
                Ok((state, plan))
            }
            Ok(_) => Err(Error::Manifest(problems)),
            Err(conflicts) if manifest.is_none() => Err(Error::cannot_remove(&self.name, &conflicts)),
            Err(conflicts) if problems.is_empty() => Err(Error::Incompatible(conflicts)),
            // The author of a manifest sees its own problems and the conflicts together.
            Err(mut conflicts) => {
                conflicts.retain(|conflict| {
                    manifest.is_none_or(|manifest| !manifest.is_unread(&conflict.pointer))
                });
                problems.extend(conflicts);
                Err(Error::Manifest(problems))
            }
        }
    }

    /// Whether nothing of an installed product is missing.
    pub fn is_complete(&self, plan: &Plan) -> bool {
        matches!(self.expected, ExpectedState::Incomplete(..)) && plan.steps.is_empty()
    }

    /// The entry of the audit log: the versions, and each thing that is added, changed or removed.
    pub fn audit_entry(&self, project: ProjectId, plan: &Plan) -> NewAuditEntry {
        let action = match (self.expected, &self.after) {
            (_, None) => AuditAction::ProductUninstall,
            (ExpectedState::Absent | ExpectedState::Incomplete(..), Some(_)) => AuditAction::ProductInstall,
            (_, Some(_)) => AuditAction::ProductUpgrade,
        };
        let source = self.after.as_ref().and_then(|(_, source)| source.as_ref());
        let manifest = self.after.as_ref().map(|(manifest, _)| manifest);
        let changed = plan.steps.iter().filter(|step| step.change != StepChange::Keep);
        let steps: Vec<String> = changed
            .take(MAX_AUDITED_STEPS)
            .map(|step| format!("{} {} {}", step.change.as_str(), step.kind.as_str(), step.name))
            .collect();
        NewAuditEntry::new(action, Some(project), &self.name)
            .detail("from", plan.from.as_ref().map(ToString::to_string))
            .detail("to", plan.to.as_ref().map(ToString::to_string))
            .detail("source", source.map(ToString::to_string))
            .detail("steps", steps)
            .detail("accepted", plan.added.audit_json(manifest, MAX_AUDITED_STEPS))
    }

    fn install_context(&self, state: &ProjectState, manifest: &Manifest) -> InstallContext {
        let tools =
            ToolForecast::after_change(&self.builtin_tools, state, manifest).available_names(manifest);
        let (agents, providers) = (state.other_agents(&self.name), self.providers.clone());
        InstallContext { core: core_version(), tools, agents, providers }
    }

    /// Returns the names for definitions that are written one after the other, and that may refer
    /// to each other.
    pub fn available_names(&self, state: &ProjectState) -> AvailableNames {
        let Some((manifest, _)) = &self.after else { return AvailableNames::default() };
        let tools =
            ToolForecast::after_change(&self.builtin_tools, state, manifest).available_names(manifest);
        let agents = manifest.agents.iter().map(|agent| agent.name.clone()).collect();
        AvailableNames { agents, ..tools }
    }
}

/// Checks the workflows that the jobs of a product start.
pub(crate) fn check_workflows(
    tx: &mut Tx<'_>,
    executor: &Executor,
    actor: Actor,
    manifest: &Manifest,
) -> Result<()> {
    let mut problems = Vec::new();
    for (index, job) in manifest.jobs.iter().enumerate() {
        let Some(template) = &job.dispatch else { continue };
        match executor.check_workflow_template(tx, actor.project, actor.author, template) {
            Ok(()) => {}
            Err(emergent_executor::Error::Invalid(invalid)) => {
                let base = format!("/jobs/{index}/dispatch");
                let locate = |problem| ManifestProblem::from_field(&manifest.raw, &base, problem);
                problems.extend(invalid.problems.into_iter().map(locate));
            }
            Err(other) => return Err(other.into()),
        }
    }
    if problems.is_empty() { Ok(()) } else { Err(Error::Manifest(problems)) }
}

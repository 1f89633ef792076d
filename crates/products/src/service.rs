//! Installs, upgrades and uninstalls products. Manifests are fetched first; then one transaction
//! reads the project, plans the change and applies it.

use std::sync::Arc;

use emergent_domain::{
    agent::AvailableNames,
    audit::{AuditAction, NewAuditEntry},
    ids::{ProductId, ProjectId},
    mcp_server::{ConfiguredBy, ProgramPatterns},
};
use emergent_executor::Executor;
use emergent_graph::Actor;
use emergent_store::{Tx, agents as agent_rows, audit, installed_products as rows, projects};
use serde_json::Value;

use crate::{
    Error, Result,
    apply::apply,
    builtin,
    fetch::Fetcher,
    manifest::Manifest,
    plan::{Direction, OwnChange, Plan, StepChange, own_changes, plan, plan_missing},
    problem::ManifestProblem,
    source::ManifestSource,
    state::{Product, ProjectState},
    tool_forecast::ToolForecast,
    uses::{Consent, Uses},
    validate::{self, InstallContext, core_version, validate},
};

/// The most steps of a change that the audit log lists.
const MAX_AUDITED_STEPS: usize = 200;

#[derive(Debug, Clone)]
pub struct Settings {
    /// Whether this installation starts local programs as MCP servers.
    pub allow_stdio: bool,
    /// The programs that tokens of one project may configure.
    pub programs: ProgramPatterns,
    /// Whether manifests may be fetched from loopback, link-local and private addresses.
    pub allow_private_hosts: bool,
    /// Replaces the URL of GitHub.
    pub github_url: Option<String>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            allow_stdio: true,
            programs: ProgramPatterns::default(),
            allow_private_hosts: false,
            github_url: None,
        }
    }
}

/// A handle to the products of all projects. Clones share their state.
#[derive(Clone)]
pub struct Products(Arc<Inner>);

struct Inner {
    executor: Executor,
    settings: Settings,
    fetcher: Fetcher,
}

/// What to install: a manifest, or its source.
#[derive(Debug, Clone)]
pub enum ManifestInput {
    Manifest(Box<Value>),
    Source(ManifestSource),
}

/// Who asks for a change, what they accept, and whether it is only to be shown.
#[derive(Debug, Clone, Default)]
pub struct ChangeOptions {
    pub by: ConfiguredBy,
    pub consent: Consent,
    pub dry_run: bool,
}

/// The result of a change, or of its dry run.
#[derive(Debug, Clone)]
pub struct ProductOutcome {
    /// The current product. None after an uninstall, and for the dry run of an installation.
    pub product: Option<Product>,
    pub plan: Plan,
}

impl Products {
    pub fn new(executor: Executor, settings: Settings) -> Self {
        let fetcher = Fetcher::new(settings.allow_private_hosts, settings.github_url.as_deref());
        Self(Arc::new(Inner { executor, settings, fetcher }))
    }

    /// Installs a product. If it is installed with the same manifest, only what somebody deleted of it is added again;
    /// the plan has no steps if nothing is missing. With another manifest, it has to be upgraded.
    pub async fn install(
        &self,
        actor: Actor,
        input: ManifestInput,
        options: ChangeOptions,
    ) -> Result<ProductOutcome> {
        let (manifest, source) = self.load_manifest(input).await?;
        let (name, raw) = (manifest.name.clone(), manifest.raw.clone());
        let after = Some((manifest, source));
        match self.change(actor, name.clone(), after, ExpectedState::Absent, options.clone()).await {
            Err(refused @ Error::AlreadyInstalled { .. }) => {
                let installed = self.find(actor.project, &name).await?;
                if installed.raw == raw {
                    self.add_missing(actor, installed, options).await
                } else {
                    Err(refused)
                }
            }
            done => done,
        }
    }

    /// Upgrades to the given manifest, which may be newer, older or the same version. Without one,
    /// upgrades to the newest version at the source of the installation, and never to an older one.
    pub async fn upgrade(
        &self,
        actor: Actor,
        name: &str,
        input: Option<ManifestInput>,
        options: ChangeOptions,
    ) -> Result<ProductOutcome> {
        let installed = self.find(actor.project, name).await?;
        let explicit = input.is_some();
        let input = match input {
            Some(input) => input,
            None => ManifestInput::Source(installed.source.clone().ok_or_else(|| {
                Error::Source(format!(
                    "`{name}` came from a file, so newer versions cannot be found: name the file or the folder of the \
                     new version, as in `emergent product upgrade {name} ./{name}`"
                ))
            })?),
        };
        let (manifest, source) = self.load_manifest(input).await?;
        if manifest.name != name {
            return Err(Error::NameMismatch { name: name.to_owned(), found: manifest.name });
        }
        if !explicit {
            if manifest.version < installed.version {
                return Err(Error::Conflict(format!(
                    "version {} is installed, and the newest at its source is {}: to downgrade, name the source",
                    installed.version, manifest.version
                )));
            }
            if manifest.version == installed.version {
                return Ok(up_to_date(installed));
            }
        }
        // The decisions above refer to the product as it was read, so its revision must still be
        // the same.
        let expected = ExpectedState::At(installed.id, installed.revision);
        self.change(actor, name.to_owned(), Some((manifest, source)), expected, options).await
    }

    pub async fn uninstall(&self, actor: Actor, name: &str, dry_run: bool) -> Result<ProductOutcome> {
        let options = ChangeOptions { dry_run, ..ChangeOptions::default() };
        self.change(actor, name.to_owned(), None, ExpectedState::Present, options).await
    }

    /// Installs the built-in memory product in the version of this server. Repeating it adds what somebody deleted of
    /// it, and has no further effect.
    pub async fn install_default_agents(&self, actor: Actor) -> Result<ProductOutcome> {
        let input = ManifestInput::Source(ManifestSource::Builtin(builtin::MEMORY.to_owned()));
        match self.install(actor, input.clone(), ChangeOptions::default()).await {
            Err(Error::AlreadyInstalled { .. }) => {}
            done => return done,
        }
        let installed = self.find(actor.project, builtin::MEMORY).await?;
        let (manifest, _) = self.load_manifest(input.clone()).await?;
        if manifest.version <= installed.version {
            return self.add_missing(actor, installed, ChangeOptions::default()).await;
        }
        let upgrade = self.upgrade(actor, builtin::MEMORY, Some(input), ChangeOptions::default());
        let failed = match upgrade.await {
            Err(failed @ Error::Conflict(_)) => failed,
            done => return done,
        };
        // A concurrent request may have done the same.
        let installed = self.find(actor.project, builtin::MEMORY).await?;
        if manifest.version <= installed.version { Ok(up_to_date(installed)) } else { Err(failed) }
    }

    /// Adds what somebody deleted of an installed product, and leaves alone what is there.
    async fn add_missing(
        &self,
        actor: Actor,
        installed: Product,
        options: ChangeOptions,
    ) -> Result<ProductOutcome> {
        // A manifest that this version cannot read says nothing about what is missing.
        let Some(manifest) = installed.manifest.clone() else { return Ok(up_to_date(installed)) };
        let (name, after) = (installed.name.clone(), Some((manifest, installed.source.clone())));
        let expected = ExpectedState::Incomplete(installed.id, installed.revision);
        match self.change(actor, name.clone(), after, expected, options).await {
            // A concurrent request has done the same, or has changed the product.
            Err(Error::Conflict(_)) => Ok(up_to_date(self.find(actor.project, &name).await?)),
            done => done,
        }
    }

    /// Lists the products in the order of their installation.
    pub async fn list(&self, project: ProjectId) -> Result<Vec<Product>> {
        let rows_found = self.db().read(move |tx| rows::list_all(tx, project)).await?;
        Ok(rows_found.into_iter().map(Product::from).collect())
    }

    /// Returns a product, and the manual changes of its agents.
    pub async fn get(&self, project: ProjectId, name: &str) -> Result<(Product, Vec<OwnChange>)> {
        let installed = self.find(project, name).await?;
        let agents = self.db().read(move |tx| agent_rows::list_all(tx, project)).await?;
        let changes = installed.manifest.as_ref().map(|manifest| own_changes(manifest, &agents));
        Ok((installed, changes.unwrap_or_default()))
    }

    async fn find(&self, project: ProjectId, name: &str) -> Result<Product> {
        let missing = || Error::NotInstalled(name.chars().take(100).collect());
        // No name contains NUL, and PostgreSQL would reject it as a parameter.
        if name.contains('\0') {
            return Err(missing());
        }
        let input = name.to_owned();
        let product = self.db().read(move |tx| rows::get(tx, project, &input)).await?;
        product.map(Product::from).ok_or_else(missing)
    }

    /// Loads a manifest, which may have problems: [`ChangeRequest::decide`] reports them with those of the
    /// project.
    pub(crate) async fn load_manifest(
        &self,
        input: ManifestInput,
    ) -> Result<(Manifest, Option<ManifestSource>)> {
        match input {
            ManifestInput::Manifest(value) => {
                Ok((validate::parse_with_problems(*value).map_err(Error::Manifest)?, None))
            }
            ManifestInput::Source(source) => {
                let text = self.0.fetcher.fetch(&source).await?;
                let value = validate::parse_json(&text).map_err(Error::Manifest)?;
                Ok((validate::parse_with_problems(value).map_err(Error::Manifest)?, Some(source)))
            }
        }
    }

    async fn change(
        &self,
        actor: Actor,
        name: String,
        after: Option<(Manifest, Option<ManifestSource>)>,
        expected: ExpectedState,
        options: ChangeOptions,
    ) -> Result<ProductOutcome> {
        if name.contains('\0') {
            return Err(Error::NotInstalled("?".to_owned()));
        }
        if let Some((manifest, _)) = &after {
            // Output schemas are compiled before the transaction, which reports their problems with all others.
            let graph = self.0.executor.graph();
            let _ = graph.compile_output_schemas(actor.project, manifest.output_schemas()).await;
        }
        let builtin_tools = self.0.executor.tools().builtin_names();
        let Settings { allow_stdio, programs, .. } = self.0.settings.clone();
        let ChangeOptions { by, consent, dry_run } = options;
        let providers = self.0.executor.models().status().into_iter().map(|status| status.name).collect();
        let change =
            ChangeRequest { name, after, expected, builtin_tools, providers, allow_stdio, programs, by };
        if dry_run {
            let look = move |tx: &mut Tx<'_>| {
                let (state, plan) = change.decide(tx, actor.project)?;
                Ok::<_, Error>(ProductOutcome { product: state.product(&change.name).cloned(), plan })
            };
            return self.db().read(look).await;
        }
        let (graph, executor) = (self.0.executor.graph().clone(), self.0.executor.clone());
        let changed = self
            .db()
            .write(move |tx| {
                // Locks the project, so that concurrent changes of its agents, packs and servers
                // wait.
                projects::lock(tx, actor.project)?
                    .ok_or_else(|| Error::NoProject(actor.project.to_string()))?;
                let (state, plan) = change.decide(tx, actor.project)?;
                if change.is_complete(&plan) {
                    return Ok(ProductOutcome { product: state.product(&change.name).cloned(), plan });
                }
                if let Some(refused) = plan.refused_program() {
                    return Err(Error::ProgramNotAllowed { command: refused.to_owned() });
                }
                if !consent.covers(&plan.uses, &plan.added) {
                    let (uses, added) = (Box::new(plan.uses), Box::new(plan.added));
                    return Err(Error::ConsentRequired { name: plan.name, uses, added });
                }
                let ctx = graph.write_context(tx, actor)?;
                let after = change.after.as_ref().map(|(manifest, source)| (manifest, source.as_ref()));
                let product = apply(tx, &ctx, &state, &plan, after, &change.available_names(&state))?;
                // The agents that tasks name exist only now.
                if let Some((manifest, _)) = after {
                    check_workflows(tx, &executor, actor.project, manifest)?;
                }
                audit::record(tx, &change.audit_entry(actor.project, &plan), ctx.now)?;
                Ok(ProductOutcome { product, plan })
            })
            .await;
        self.0.executor.graph().reload_packs(actor.project);
        changed
    }

    pub(crate) fn db(&self) -> &emergent_store::Db {
        self.0.executor.graph().db()
    }
}

/// Checks the workflows that the jobs of a product start.
fn check_workflows(
    tx: &mut Tx<'_>,
    executor: &Executor,
    project: ProjectId,
    manifest: &Manifest,
) -> Result<()> {
    let mut problems = Vec::new();
    for (index, job) in manifest.jobs.iter().enumerate() {
        let Some(template) = &job.dispatch else { continue };
        match executor.check_workflow_template(tx, project, template) {
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

/// The result if the newest version is already installed.
fn up_to_date(installed: Product) -> ProductOutcome {
    let version = Some(installed.version.clone());
    let plan = Plan {
        uses: installed.accepted.clone(),
        added: Uses::default(),
        name: installed.name.clone(),
        from: version.clone(),
        to: version,
        direction: Direction::Same,
        steps: Vec::new(),
        warnings: Vec::new(),
    };
    ProductOutcome { product: Some(installed), plan }
}

/// The state that the transaction must find.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ExpectedState {
    Absent,
    Present,
    /// The product with this revision. A product that was installed again starts at revision 1.
    At(ProductId, i64),
    /// The same, of which only what is missing is added.
    Incomplete(ProductId, i64),
}

struct ChangeRequest {
    name: String,
    after: Option<(Manifest, Option<ManifestSource>)>,
    expected: ExpectedState,
    /// All names of the built-in tools.
    builtin_tools: Vec<String>,
    providers: Vec<String>,
    allow_stdio: bool,
    programs: ProgramPatterns,
    by: ConfiguredBy,
}

impl ChangeRequest {
    fn decide(&self, tx: &mut Tx<'_>, project: ProjectId) -> Result<(ProjectState, Plan)> {
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
            Ok(plan) if problems.is_empty() => Ok((state, plan)),
            Ok(_) => Err(Error::Manifest(problems)),
            Err(conflicts) if manifest.is_none() => Err(Error::cannot_remove(&self.name, &conflicts)),
            Err(conflicts) if problems.is_empty() => Err(Error::Incompatible(conflicts)),
            // The author of a manifest sees its own problems and the conflicts together.
            Err(conflicts) => {
                problems.extend(conflicts);
                Err(Error::Manifest(problems))
            }
        }
    }

    /// Whether nothing of an installed product is missing.
    fn is_complete(&self, plan: &Plan) -> bool {
        matches!(self.expected, ExpectedState::Incomplete(..)) && plan.steps.is_empty()
    }

    /// The entry of the audit log: the versions, and each thing that is added, changed or removed.
    fn audit_entry(&self, project: ProjectId, plan: &Plan) -> NewAuditEntry {
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
    fn available_names(&self, state: &ProjectState) -> AvailableNames {
        let Some((manifest, _)) = &self.after else { return AvailableNames::default() };
        let tools =
            ToolForecast::after_change(&self.builtin_tools, state, manifest).available_names(manifest);
        let agents = manifest.agents.iter().map(|agent| agent.name.clone()).collect();
        AvailableNames { agents, ..tools }
    }
}

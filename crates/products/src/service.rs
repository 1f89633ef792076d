//! Installs, upgrades and uninstalls products. Manifests are fetched first; then one transaction
//! reads the project, plans the change and applies it.

use std::sync::Arc;

use emergent_domain::{
    ids::ProjectId,
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
    change::{ChangeRequest, ExpectedState, check_workflows},
    fetch::Fetcher,
    manifest::Manifest,
    plan::{Direction, OwnChange, Plan, own_changes},
    source::ManifestSource,
    state::Product,
    uses::{Consent, Uses},
    validate,
};

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
        let (manifest, source) = self.load_manifest(actor.project, input).await?;
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
        let (mut manifest, source) = self.load_manifest(actor.project, input).await?;
        if manifest.is_unread("/name") {
            // Its problems are reported below, with those of the project.
            name.clone_into(&mut manifest.name);
        }
        if manifest.name != name {
            return Err(Error::NameMismatch { name: name.to_owned(), found: manifest.name });
        }
        if !explicit && !manifest.is_unread("/version") {
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
        let (manifest, _) = self.load_manifest(actor.project, input.clone()).await?;
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
    /// project. A large manifest takes seconds to check, so this happens where a project has one thread at a time, and
    /// not on those that answer requests.
    pub(crate) async fn load_manifest(
        &self,
        project: ProjectId,
        input: ManifestInput,
    ) -> Result<(Manifest, Option<ManifestSource>)> {
        let graph = self.0.executor.graph();
        let (parsed, source) = match input {
            ManifestInput::Manifest(value) => {
                (graph.run_validation(project, move || validate::parse_with_problems(*value)).await?, None)
            }
            ManifestInput::Source(source) => {
                let text = self.0.fetcher.fetch(&source).await?;
                let parse = move || validate::parse_with_problems(validate::parse_json(&text)?);
                (graph.run_validation(project, parse).await?, Some(source))
            }
        };
        Ok((parsed.map_err(Error::Manifest)?, source))
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
                if let Some((command, variables)) = plan.refused_program() {
                    let (command, variables) = (command.to_owned(), variables.to_owned());
                    return Err(Error::ProgramNotAllowed { command, variables });
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
                    check_workflows(tx, &executor, actor, manifest)?;
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

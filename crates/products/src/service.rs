//! Installing, upgrading and uninstalling. Whatever has to be fetched is fetched first; then one
//! transaction looks at the project, decides, and does it.

use std::sync::Arc;

use emergent_domain::{
    agent::AvailableNames,
    ids::{ProductId, ProjectId},
};
use emergent_executor::Executor;
use emergent_graph::Actor;
use emergent_store::{Tx, agents as agent_rows, installed_products as rows, projects};
use serde_json::Value;

use crate::{
    Error, Result,
    apply::apply,
    builtin,
    fetch::Fetcher,
    manifest::Manifest,
    plan::{Direction, OwnChange, Plan, own_changes, plan},
    source::ManifestSource,
    state::{Product, ProjectState},
    tool_forecast::ToolForecast,
    validate::{self, InstallContext, core_version, validate},
};

#[derive(Debug, Clone)]
pub struct Settings {
    /// Whether this installation starts programs as MCP servers.
    pub allow_stdio: bool,
    /// Whether manifests may be fetched from loopback, link-local and private addresses.
    pub allow_private_hosts: bool,
    /// In place of GitHub itself.
    pub github_url: Option<String>,
}

impl Default for Settings {
    fn default() -> Self {
        Self { allow_stdio: true, allow_private_hosts: false, github_url: None }
    }
}

/// A handle on the products of every project; clones share it.
#[derive(Clone)]
pub struct Products(Arc<Inner>);

struct Inner {
    executor: Executor,
    settings: Settings,
    fetcher: Fetcher,
}

/// What is to be installed: a manifest, or where one is.
#[derive(Debug, Clone)]
pub enum ManifestInput {
    Manifest(Box<Value>),
    Source(ManifestSource),
}

/// What was done, or what would be.
#[derive(Debug, Clone)]
pub struct ProductOutcome {
    /// The product as it is now; none after an uninstall, and of one that a dry run would install.
    pub product: Option<Product>,
    pub plan: Plan,
}

impl Products {
    pub fn new(executor: Executor, settings: Settings) -> Self {
        let fetcher = Fetcher::new(settings.allow_private_hosts, settings.github_url.as_deref());
        Self(Arc::new(Inner { executor, settings, fetcher }))
    }

    pub async fn install(
        &self,
        actor: Actor,
        wanted: ManifestInput,
        dry_run: bool,
    ) -> Result<ProductOutcome> {
        let (manifest, source) = self.load_manifest(wanted).await?;
        let name = manifest.name.clone();
        self.change(actor, name, Some((manifest, source)), ExpectedState::Absent, dry_run).await
    }

    /// To what is wanted, be it newer, older or the same; without that, to what is newest at the
    /// source it was installed from, and never to anything older.
    pub async fn upgrade(
        &self,
        actor: Actor,
        name: &str,
        wanted: Option<ManifestInput>,
        dry_run: bool,
    ) -> Result<ProductOutcome> {
        let installed = self.find(actor.project, name).await?;
        let explicit = wanted.is_some();
        let wanted = match wanted {
            Some(wanted) => wanted,
            None => ManifestInput::Source(installed.source.clone().ok_or_else(|| {
                Error::Source(format!(
                    "`{name}` was installed from a manifest by itself, so nobody knows where a newer one is: \
                     give a manifest or a source"
                ))
            })?),
        };
        let (manifest, source) = self.load_manifest(wanted).await?;
        if manifest.name != name {
            return Err(Error::NameMismatch { name: name.to_owned(), found: manifest.name });
        }
        if !explicit {
            if manifest.version < installed.version {
                return Err(Error::Conflict(format!(
                    "version {} is installed, and the newest at its source is {}: to go back, name the source",
                    installed.version, manifest.version
                )));
            }
            if manifest.version == installed.version {
                return Ok(up_to_date(installed));
            }
        }
        // What was decided above is about what was installed then.
        let expected = ExpectedState::At(installed.id, installed.revision);
        self.change(actor, name.to_owned(), Some((manifest, source)), expected, dry_run).await
    }

    pub async fn uninstall(&self, actor: Actor, name: &str, dry_run: bool) -> Result<ProductOutcome> {
        self.change(actor, name.to_owned(), None, ExpectedState::Present, dry_run).await
    }

    /// Gives a project the memory product in the version of this program. Asked again, it changes
    /// nothing.
    pub async fn install_default_agents(&self, actor: Actor) -> Result<ProductOutcome> {
        let wanted = ManifestInput::Source(ManifestSource::Builtin(builtin::MEMORY.to_owned()));
        match self.install(actor, wanted.clone(), false).await {
            Err(Error::AlreadyInstalled { .. }) => {}
            done => return done,
        }
        let installed = self.find(actor.project, builtin::MEMORY).await?;
        let (manifest, _) = self.load_manifest(wanted.clone()).await?;
        if manifest.version <= installed.version {
            return Ok(up_to_date(installed));
        }
        let failed = match self.upgrade(actor, builtin::MEMORY, Some(wanted), false).await {
            Err(failed @ Error::Conflict(_)) => failed,
            done => return done,
        };
        // Whoever was faster may have done the same.
        let installed = self.find(actor.project, builtin::MEMORY).await?;
        if manifest.version <= installed.version { Ok(up_to_date(installed)) } else { Err(failed) }
    }

    /// In the order they came.
    pub async fn list(&self, project: ProjectId) -> Result<Vec<Product>> {
        let found = self.db().read(move |tx| rows::list_all(tx, project)).await?;
        Ok(found.into_iter().map(Product::from).collect())
    }

    /// A product, and what was changed of its agents by hand.
    pub async fn get(&self, project: ProjectId, name: &str) -> Result<(Product, Vec<OwnChange>)> {
        let installed = self.find(project, name).await?;
        let agents = self.db().read(move |tx| agent_rows::list_all(tx, project)).await?;
        let changes = installed.manifest.as_ref().map(|manifest| own_changes(manifest, &agents));
        Ok((installed, changes.unwrap_or_default()))
    }

    async fn find(&self, project: ProjectId, name: &str) -> Result<Product> {
        let missing = || Error::NotInstalled(name.chars().take(100).collect());
        // No name has it, and PostgreSQL would not even take the question.
        if name.contains('\0') {
            return Err(missing());
        }
        let wanted = name.to_owned();
        let found = self.db().read(move |tx| rows::get(tx, project, &wanted)).await?;
        found.map(Product::from).ok_or_else(missing)
    }

    pub(crate) async fn load_manifest(
        &self,
        wanted: ManifestInput,
    ) -> Result<(Manifest, Option<ManifestSource>)> {
        match wanted {
            ManifestInput::Manifest(value) => {
                Ok((validate::parse_value(*value).map_err(Error::Manifest)?, None))
            }
            ManifestInput::Source(source) => {
                let text = self.0.fetcher.fetch(&source).await?;
                Ok((validate::parse(&text).map_err(Error::Manifest)?, Some(source)))
            }
        }
    }

    async fn change(
        &self,
        actor: Actor,
        name: String,
        after: Option<(Manifest, Option<ManifestSource>)>,
        expected: ExpectedState,
        dry_run: bool,
    ) -> Result<ProductOutcome> {
        if name.contains('\0') {
            return Err(Error::NotInstalled("?".to_owned()));
        }
        let builtin_tools = self.0.executor.tools().builtin_names();
        let allow_stdio = self.0.settings.allow_stdio;
        let change = ChangeRequest { name, after, expected, builtin_tools, allow_stdio };
        if dry_run {
            let look = move |tx: &mut Tx<'_>| {
                let (state, plan) = change.decide(tx, actor.project)?;
                Ok::<_, Error>(ProductOutcome { product: state.product(&change.name).cloned(), plan })
            };
            return self.db().read(look).await;
        }
        let graph = self.0.executor.graph().clone();
        self.db()
            .write(move |tx| {
                // Whatever else changes agents, packs or servers of the project waits here.
                projects::lock(tx, actor.project)?
                    .ok_or_else(|| Error::NoProject(actor.project.to_string()))?;
                let (state, plan) = change.decide(tx, actor.project)?;
                let writer = graph.write_context(tx, actor)?;
                let after = change.after.as_ref().map(|(manifest, source)| (manifest, source.as_ref()));
                let product = apply(tx, &writer, &state, &plan, after, &change.available_names(&state))?;
                Ok(ProductOutcome { product, plan })
            })
            .await
    }

    pub(crate) fn db(&self) -> &emergent_store::Db {
        self.0.executor.graph().db()
    }
}

/// Nothing to do, since the newest is there.
fn up_to_date(installed: Product) -> ProductOutcome {
    let version = Some(installed.version.clone());
    let plan = Plan {
        name: installed.name.clone(),
        from: version.clone(),
        to: version,
        direction: Direction::Same,
        steps: Vec::new(),
        warnings: Vec::new(),
    };
    ProductOutcome { product: Some(installed), plan }
}

/// What must be the case when the transaction looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ExpectedState {
    Absent,
    Present,
    /// The one that somebody looked at, at that revision: one that was installed anew counts from 1.
    At(ProductId, i64),
}

struct ChangeRequest {
    name: String,
    after: Option<(Manifest, Option<ManifestSource>)>,
    expected: ExpectedState,
    /// Every name of the built-in tools.
    builtin_tools: Vec<String>,
    allow_stdio: bool,
}

impl ChangeRequest {
    fn decide(&self, tx: &mut Tx<'_>, project: ProjectId) -> Result<(ProjectState, Plan)> {
        let state = ProjectState::read(tx, project, self.allow_stdio)?;
        match (self.expected, state.product(&self.name)) {
            (ExpectedState::Absent, Some(there)) => {
                let (name, version) = (there.name.clone(), there.version.clone());
                return Err(Error::AlreadyInstalled { name, version });
            }
            (ExpectedState::Present | ExpectedState::At(..), None) => {
                return Err(Error::NotInstalled(self.name.chars().take(100).collect()));
            }
            (ExpectedState::At(id, revision), Some(there))
                if (there.id, there.revision) != (id, revision) =>
            {
                return Err(Error::Conflict(format!(
                    "the product `{}` was changed by somebody else just now, to version {}: look again, and \
                     repeat the upgrade if it is still wanted",
                    there.name, there.version
                )));
            }
            _ => {}
        }
        let manifest = self.after.as_ref().map(|(manifest, _)| manifest);
        if let Some(manifest) = manifest {
            let problems = validate(manifest, &self.install_context(&state, manifest));
            if !problems.is_empty() {
                return Err(Error::Manifest(problems));
            }
        }
        let plan = plan(&self.name, &state, manifest).map_err(|problems| match manifest {
            Some(_) => Error::Incompatible(problems),
            None => Error::cannot_remove(&self.name, &problems),
        })?;
        Ok((state, plan))
    }

    fn install_context(&self, state: &ProjectState, manifest: &Manifest) -> InstallContext {
        let tools =
            ToolForecast::after_change(&self.builtin_tools, state, manifest).available_names(manifest);
        InstallContext { core: core_version(), tools, agents: state.other_agents(&self.name) }
    }

    /// For the definitions that are written one after the other: they may name each other.
    fn available_names(&self, state: &ProjectState) -> AvailableNames {
        let Some((manifest, _)) = &self.after else { return AvailableNames::default() };
        let tools =
            ToolForecast::after_change(&self.builtin_tools, state, manifest).available_names(manifest);
        let agents = manifest.agents.iter().map(|agent| agent.name.clone()).collect();
        AvailableNames { agents, ..tools }
    }
}

//! The contents of a project that matter for products. They are read in the transaction that
//! changes them.

use std::collections::{BTreeMap, BTreeSet};

use emergent_domain::{
    agent::{Agent, Visibility},
    ids::{McpServerId, ProductId, ProjectId},
    mcp_server::{ConfiguredBy, McpServer, ProgramPatterns, ServerSpec},
    stored_json,
    time::Timestamp,
    trigger::{EventTrigger, Schedule},
};
use emergent_store::{
    Result, Tx, agents,
    installed_products::{self, InstalledProduct},
    mcp_servers, mcp_tools,
    packs::{self, StoredPack},
    prompts::{self, ProductPrompt},
    schedules, secrets, triggers,
};
use semver::Version;
use serde_json::Value;

use crate::{manifest::Manifest, source::ManifestSource, uses::Uses};

#[derive(Debug, Clone, Default)]
pub struct ProjectState {
    /// The products in the order of their installation.
    pub installed: Vec<Product>,
    pub agents: Vec<Agent>,
    pub packs: Vec<StoredPack>,
    pub servers: Vec<McpServer>,
    /// The tools that the servers listed most recently, including those that are held back.
    pub tools: Vec<(McpServerId, String)>,
    /// Those of `tools` that are held back.
    pub held_tools: BTreeSet<(McpServerId, String)>,
    pub schedules: Vec<Schedule>,
    /// The event triggers that start workflows.
    pub event_triggers: Vec<EventTrigger>,
    pub prompts: Vec<ProductPrompt>,
    /// The names of the project's secrets.
    pub secrets: BTreeSet<String>,
    /// Whether this installation starts local programs as MCP servers.
    pub allow_stdio: bool,
    /// The programs that tokens of one project may configure.
    pub programs: ProgramPatterns,
    /// Who asks for the change.
    pub by: ConfiguredBy,
    /// Whether the manifest comes with the server.
    pub is_builtin: bool,
}

impl ProjectState {
    /// Whether whoever asks for the change may have this server run the program of `spec`.
    pub fn allows_program(&self, spec: &ServerSpec) -> bool {
        self.programs.allow_spec(spec, self.by)
    }
}

/// An installed product.
#[derive(Debug, Clone, PartialEq)]
pub struct Product {
    pub id: ProductId,
    pub name: String,
    pub version: Version,
    /// The manifest as it was installed, unchanged.
    pub raw: Value,
    /// The parsed manifest. `None` if this version of the server can no longer read it.
    pub manifest: Option<Manifest>,
    /// `None` if the manifest was provided directly. Newer versions cannot be found then.
    pub source: Option<ManifestSource>,
    /// What was accepted that the product uses.
    pub accepted: Uses,
    pub revision: i64,
    pub installed_at: Timestamp,
    pub updated_at: Timestamp,
}

impl From<InstalledProduct> for Product {
    fn from(row: InstalledProduct) -> Self {
        let manifest = Manifest::from_stored(&row.manifest);
        let accepted = match &row.accepted {
            // What cannot be read was not accepted: an upgrade asks again.
            Some(text) => {
                let accepted: Uses = stored_json::from_str(text).unwrap_or_default();
                match &manifest {
                    Some(manifest) => accepted.completed_from(manifest),
                    None => accepted,
                }
            }
            // It was installed before anybody was asked, and works as it is.
            None => manifest.as_ref().map(Uses::of_manifest).unwrap_or_default(),
        };
        Self {
            id: row.id,
            version: row.version.parse().unwrap_or(Version::new(0, 0, 0)),
            manifest,
            accepted,
            raw: stored_json::from_str(&row.manifest).unwrap_or_default(),
            source: ManifestSource::from_stored(&row.source),
            name: row.name,
            revision: row.revision,
            installed_at: row.installed_at,
            updated_at: row.updated_at,
        }
    }
}

fn workflow_triggers(tx: &mut Tx<'_>, project: ProjectId) -> Result<Vec<EventTrigger>> {
    let mut all = triggers::list(tx, project)?;
    all.retain(|trigger| trigger.dispatch.is_some());
    Ok(all)
}

impl ProjectState {
    pub fn read(tx: &mut Tx<'_>, project: ProjectId) -> Result<Self> {
        Ok(Self {
            installed: installed_products::list_all(tx, project)?.into_iter().map(Product::from).collect(),
            agents: agents::list_all(tx, project)?,
            packs: packs::list_all(tx, project)?,
            servers: mcp_servers::list_all(tx, project)?,
            tools: mcp_tools::list_names(tx, project)?,
            held_tools: mcp_tools::list_held_names(tx, project)?.into_iter().collect(),
            schedules: schedules::list(tx, project)?,
            event_triggers: workflow_triggers(tx, project)?,
            prompts: prompts::list_all(tx, project)?,
            secrets: secrets::list(tx, project)?.into_iter().map(|secret| secret.name).collect(),
            ..Self::default()
        })
    }

    pub fn product(&self, name: &str) -> Option<&Product> {
        self.installed.iter().find(|installed| installed.name == name)
    }

    /// Returns the agents that do not belong to the product, with their visibility.
    pub fn other_agents(&self, product: &str) -> BTreeMap<String, Visibility> {
        let others = self.agents.iter().filter(|agent| agent.definition.product.as_deref() != Some(product));
        others.map(|agent| (agent.definition.name.clone(), agent.definition.visibility)).collect()
    }

    /// Returns the names of the tools that a server listed most recently, each with whether it is held back.
    pub fn tools_of(&self, server: McpServerId) -> impl Iterator<Item = (&str, bool)> {
        let tools = self.tools.iter().filter(move |(id, _)| *id == server);
        tools.map(move |tool| (tool.1.as_str(), self.held_tools.contains(tool)))
    }
}

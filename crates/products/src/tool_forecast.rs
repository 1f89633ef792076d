//! The tools that a project will have after a product is changed: the built-in tools, those of the
//! remaining servers, and those of the manifest's servers that match its filter. Disabled servers
//! and held-back tools are included, because they exist and can be enabled again.

use std::collections::{BTreeMap, BTreeSet};

use emergent_domain::{
    agent::AvailableNames,
    tool_name::{self, external},
};

use crate::{manifest::Manifest, state::ProjectState};

/// The known tools, and the servers that may have further ones.
#[derive(Debug, Clone, Default)]
pub struct ToolForecast {
    /// All names that a whitelist may use, including `server.tool`.
    names: BTreeSet<String>,
    /// The filters of the servers that have not listed their tools yet. Such a server may have any
    /// tool that its filter matches.
    unlisted_servers: BTreeMap<String, Vec<String>>,
}

impl ToolForecast {
    /// Computes the tools after the product of this manifest is installed or changed. `builtin`
    /// holds all names of the built-in tools.
    pub fn after_change(builtin: &[String], before: &ProjectState, manifest: &Manifest) -> Self {
        let mut pool = Self { names: builtin.iter().cloned().collect(), ..Self::default() };
        let product = Some(manifest.name.as_str());
        for server in before.servers.iter().filter(|server| server.product.as_deref() != product) {
            let tools = server.listed_at.map(|_| before.tools_of(server.id));
            pool.add(server.name(), &server.tool_filter, tools);
        }
        for spec in &manifest.mcp.servers {
            // If the settings of a server change, its tools must be listed again.
            let mut ours = before.servers.iter().filter(|server| server.product.as_deref() == product);
            let same = ours.find(|server| server.spec == *spec && server.listed_at.is_some());
            let tools = same.map(|server| before.tools_of(server.id));
            pool.add(spec.name(), &manifest.mcp.tool_filter, tools);
        }
        pool
    }

    fn add<'a>(&mut self, server: &str, filter: &[String], tools: Option<impl Iterator<Item = &'a str>>) {
        let Some(tools) = tools else {
            self.unlisted_servers.insert(server.to_owned(), filter.to_vec());
            return;
        };
        for tool in tools.filter(|tool| external::filter_allows(filter, server, tool)) {
            let name = external::escape(tool);
            self.names.insert(external::qualified(server, &name));
            self.names.insert(name.into_owned());
        }
    }

    /// Returns whether a whitelist may name the tool: it exists, or its absence cannot be
    /// determined.
    fn may_exist(&self, name: &str) -> bool {
        let Some((server, tool)) = external::split_qualified(name) else {
            let is_known = self.names.contains(name) || self.names.contains(tool_name::canonical(name));
            let mut unlisted = self.unlisted_servers.iter();
            return is_known
                || unlisted.any(|(server, filter)| external::filter_allows(filter, server, name));
        };
        let announced = name.split_once('.').map_or(name, |(_, announced)| announced);
        self.names.contains(&external::qualified(server, &tool))
            || self
                .unlisted_servers
                .get(server)
                .is_some_and(|filter| external::filter_allows(filter, server, announced))
    }

    /// Returns the names against which a definition of this manifest is validated.
    pub fn available_names(&self, manifest: &Manifest) -> AvailableNames {
        let listed = manifest.agents.iter().flat_map(|agent| &agent.tools);
        let unseen = listed.filter(|name| !self.names.contains(*name) && self.may_exist(name));
        let tools = self.names.iter().chain(unseen).cloned().collect();
        AvailableNames { tools, tools_complete: true, agents: Vec::new() }
    }
}

//! The tools that a project will have once a product is changed: the built-in ones, those of the
//! servers that stay, and those of the manifest's servers within its own filter. A server that is
//! switched off and a tool that is held back count: they are there, and can be let in again.

use std::collections::{BTreeMap, BTreeSet};

use emergent_domain::{agent::AvailableNames, tool_name};

use crate::{manifest::Manifest, state::ProjectState};

/// What is known of those tools, and which servers may have more.
#[derive(Debug, Clone, Default)]
pub struct ToolForecast {
    /// Every name a whitelist may use, `server.tool` included.
    names: BTreeSet<String>,
    /// The servers that were asked for their tools: what they did not list, they do not have.
    listed_servers: BTreeSet<String>,
    /// The filters of the servers that were not: within it, they may have any tool.
    unlisted_servers: BTreeMap<String, Vec<String>>,
}

impl ToolForecast {
    /// After the product of this manifest is installed or changed. `builtin` has every name of the
    /// built-in tools.
    pub fn after_change(builtin: &[String], before: &ProjectState, manifest: &Manifest) -> Self {
        let mut pool = Self { names: builtin.iter().cloned().collect(), ..Self::default() };
        let product = Some(manifest.name.as_str());
        for server in before.servers.iter().filter(|server| server.product.as_deref() != product) {
            let tools = server.listed_at.map(|_| before.tools_of(server.id));
            pool.add(server.name(), &server.tool_filter, tools);
        }
        for spec in &manifest.mcp.servers {
            // One that becomes another server is asked anew.
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
        self.listed_servers.insert(server.to_owned());
        for tool in tools.filter(|tool| filter_allows(filter, server, tool)) {
            self.names.insert(tool.to_owned());
            self.names.insert(format!("{server}.{tool}"));
        }
    }

    /// Whether a whitelist may name it: it is there, or nobody can say that it will not be.
    fn may_exist(&self, name: &str) -> bool {
        if self.names.contains(name) || self.names.contains(tool_name::canonical(name)) {
            return true;
        }
        let of = |server: &str| name.strip_prefix(server).and_then(|rest| rest.strip_prefix('.'));
        if self.listed_servers.iter().any(|server| of(server).is_some()) {
            return false;
        }
        self.unlisted_servers.iter().any(|(server, filter)| {
            filter_allows(filter, server, name)
                || of(server).is_some_and(|tool| filter_allows(filter, server, tool))
        })
    }

    /// As a definition of this manifest is checked against it.
    pub fn available_names(&self, manifest: &Manifest) -> AvailableNames {
        let listed = manifest.agents.iter().flat_map(|agent| &agent.tools);
        let unseen = listed.filter(|name| !self.names.contains(*name) && self.may_exist(name));
        let tools = self.names.iter().chain(unseen).cloned().collect();
        AvailableNames { tools, tools_complete: true, agents: Vec::new() }
    }
}

/// Whether a server's filter lets a tool into the project.
fn filter_allows(filter: &[String], server: &str, tool: &str) -> bool {
    tool_name::grant_for(filter, tool, Some(server)).is_some()
}

//! The tools that a project will have after a product is changed: the built-in tools, those of the
//! remaining servers, and those of the manifest's servers that match its filter. Disabled servers
//! and held-back tools are included, because they exist and can be enabled again.

use std::collections::{BTreeMap, BTreeSet};

use emergent_domain::{
    agent::AvailableNames,
    tool_name::{self, external},
};

use crate::{
    manifest::{Manifest, ManifestServer},
    state::ProjectState,
};

/// The known tools, and the servers that may have further ones.
#[derive(Debug, Clone, Default)]
pub struct ToolForecast {
    /// All names that a whitelist may use, including `server.tool`.
    names: BTreeSet<String>,
    /// Those of `names` that somebody accepted, and those of built-in tools.
    accepted: BTreeSet<String>,
    /// The filters of the servers that have not listed their tools yet. Such a server may have any
    /// tool that its filter matches.
    unlisted_servers: BTreeMap<String, Vec<String>>,
}

impl ToolForecast {
    /// Computes the tools after the product of this manifest is installed or changed. `builtin`
    /// holds all names of the built-in tools.
    pub fn after_change(builtin: &[String], before: &ProjectState, manifest: &Manifest) -> Self {
        let builtin: BTreeSet<String> = builtin.iter().cloned().collect();
        let mut pool = Self { names: builtin.clone(), accepted: builtin, ..Self::default() };
        let product = Some(manifest.name.as_str());
        for server in before.servers.iter().filter(|server| server.product.as_deref() != product) {
            let tools = server.listed_at.map(|_| before.tools_of(server.id));
            pool.add(server.name(), &server.tool_filter, tools);
        }
        for ManifestServer { spec, tool_filter, .. } in manifest.servers() {
            // If the settings of a server change, its tools must be listed again.
            let mut ours = before.servers.iter().filter(|server| server.product.as_deref() == product);
            let same = ours.find(|server| server.spec == *spec && server.listed_at.is_some());
            let tools = same.map(|server| before.tools_of(server.id));
            pool.add(spec.name(), tool_filter, tools);
        }
        pool
    }

    /// Adds the tools of a server, each with whether it is held back.
    fn add<'a>(
        &mut self,
        server: &str,
        filter: &[String],
        tools: Option<impl Iterator<Item = (&'a str, bool)>>,
    ) {
        let Some(tools) = tools else {
            self.unlisted_servers.insert(server.to_owned(), filter.to_vec());
            return;
        };
        for (tool, is_held) in tools.filter(|(tool, _)| external::filter_allows(filter, server, tool)) {
            let name = external::escape(tool);
            let names = [external::qualified(server, &name), name.into_owned()];
            if !is_held {
                self.accepted.extend(names.clone());
            }
            self.names.extend(names);
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
        let tools: Vec<String> = self.names.iter().chain(unseen).cloned().collect();
        let unaccepted_tools = tools.iter().filter(|name| !self.accepted.contains(*name)).cloned().collect();
        AvailableNames { tools, tools_complete: true, unaccepted_tools, ..AvailableNames::default() }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::validate::parse_value;

    #[test]
    fn a_tool_that_is_held_back_can_be_named_and_is_not_suggested() {
        let mut pool = ToolForecast::default();
        pool.add("hub", &["*".to_owned()], Some([("find", false), ("fetch_all", true)].into_iter()));
        let manifest = json!({ "name": "p", "version": "1.0.0", "agents": [{ "name": "a" }] });
        let names = pool.available_names(&parse_value(manifest).unwrap());
        assert!(names.tools.contains(&"fetch_all".to_owned()) && names.tools.contains(&"find".to_owned()));
        let unaccepted: Vec<&str> = names.unaccepted_tools.iter().map(String::as_str).collect();
        assert_eq!(unaccepted, ["fetch_all", "hub.fetch_all"]);
    }
}

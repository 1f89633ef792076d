//! The tools that a project will have after a product is changed: the built-in tools, those of the
//! remaining servers, and those of the manifest's servers that match its filter. Disabled servers
//! and held-back tools are included, because they exist and can be enabled again.

use std::collections::{BTreeMap, BTreeSet};

use emergent_domain::{
    agent::{AgentDefinition, AvailableNames},
    tool_name::{self, external},
};

use crate::{
    manifest::{Manifest, ManifestServer},
    plan::Warning,
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
    /// Those of them that the manifest has.
    own_unlisted: BTreeSet<String>,
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
            if tools.is_none() {
                pool.own_unlisted.insert(spec.name().to_owned());
            }
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

    /// Returns what is probably a mistake in the tools of the agents, although the product can be installed: the same
    /// warnings as for an agent that is saved. What a server of the product itself may bring is none, because its agents
    /// come with it, unless a known tool has nearly the name.
    pub fn warnings(&self, manifest: &Manifest) -> Vec<Warning> {
        let unaccepted = self.names.difference(&self.accepted).cloned().collect();
        let known = AvailableNames {
            tools: self.names.iter().cloned().collect(),
            tools_complete: self.unlisted_servers.is_empty(),
            unreached_servers: self.unlisted_servers.keys().cloned().collect(),
            unaccepted_tools: unaccepted,
            ..AvailableNames::default()
        };
        let of_agent = |mut definition: AgentDefinition| -> Vec<Warning> {
            let of_rules = definition.approvals.drain(..).flat_map(|rule| rule.tools);
            // A tool that the agent and its rules list is named once.
            let listed: BTreeSet<String> = definition.tools.drain(..).chain(of_rules).collect();
            definition.tools = listed.into_iter().filter(|tool| !self.is_expected(tool, &known)).collect();
            let warnings = definition.warnings(&known).into_iter();
            warnings
                .map(|warning| Warning::ToolUnknown {
                    agent: definition.name.clone(),
                    reason: warning.reason,
                })
                .collect()
        };
        manifest.definitions().flat_map(of_agent).collect()
    }

    /// Returns whether a server of the manifest that nobody has reached is the probable reason why the tool is not known.
    fn is_expected(&self, tool: &str, known: &AvailableNames) -> bool {
        let mut own = self.own_unlisted.iter();
        match tool.split_once('.') {
            Some((server, _)) => own.any(|own| tool_name::glob_matches(server, own)),
            None if tool_name::is_glob(tool) => !self.own_unlisted.is_empty(),
            None => {
                let allows = |server: &String| {
                    self.unlisted_servers
                        .get(server)
                        .is_some_and(|filter| external::filter_allows(filter, server, tool))
                };
                tool_name::nearest_tool(tool, known).is_none() && own.any(allows)
            }
        }
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

//! Names of tools: their aliases, and the whitelist patterns that match them. The names of external tools are
//! in [`external`].

pub mod external;

use crate::agent::{AvailableNames, Suggestions, unknown_name};

/// Aliases of built-in tools. An alias is accepted wherever a tool can be named. Glob patterns
/// match canonical names only, so that a pattern never grants more than it shows.
const ALIASES: &[(&str, &str)] = &[
    ("create_entity", "entities_create"),
    ("create_entities", "entities_create"),
    ("get_entity", "entities_get"),
    ("update_entity", "entities_update"),
    ("delete_entity", "entities_delete"),
    ("restore_entity", "entities_restore"),
    ("get_entity_history", "entities_history"),
    ("query_entities", "entities_query"),
    ("list_objects", "entities_query"),
    ("search_entities", "entities_search"),
    ("create_relationship", "relationships_create"),
    ("get_relationship", "relationships_get"),
    ("update_relationship", "relationships_update"),
    ("delete_relationship", "relationships_delete"),
    ("list_relationships", "relationships_list"),
    ("hybrid_search", "search_hybrid"),
    ("semantic_search", "search_semantic"),
    ("fts_search", "search_fts"),
    ("find_similar", "search_similar"),
    ("traverse_graph", "graph_traverse"),
    ("get_entity_edges", "graph_neighbors"),
    ("find_path", "graph_path"),
    ("list_entity_types", "schema_list_types"),
    ("get_entity_type", "schema_get_type"),
    ("query_tasks", "tasks_list"),
    ("list_tasks", "tasks_list"),
    ("create_task", "tasks_create"),
    ("update_task", "tasks_update"),
    ("complete_task", "tasks_update"),
    ("get_available_tasks", "tasks_available"),
    ("get_task_dependencies", "tasks_dependencies"),
];

/// Tools that only agents can use. A spawned agent can use them only if it may delegate.
pub const COORDINATION_TOOLS: [&str; 2] = ["list_available_agents", "spawn_agents"];

/// Returns the tool that an alias stands for. Any other name is returned unchanged.
pub fn canonical(name: &str) -> &str {
    ALIASES.iter().find(|(alias, _)| *alias == name).map_or(name, |(_, name)| name)
}

/// Returns the aliases of a tool.
pub fn aliases(canonical: &str) -> impl Iterator<Item = &'static str> + '_ {
    ALIASES.iter().filter(move |(_, name)| *name == canonical).map(|(alias, _)| *alias)
}

/// Returns all names of the tool that has this name or alias. A name that is no built-in tool's has no others.
pub fn all_names(name: &str) -> Vec<String> {
    let canonical = canonical(name);
    let others = aliases(canonical).map(str::to_owned);
    std::iter::once(canonical.to_owned()).chain(others).collect()
}

/// Returns whether an entry of a whitelist is a glob pattern.
pub fn is_glob(pattern: &str) -> bool {
    pattern.contains('*')
}

/// Matches a glob pattern, in which `*` stands for any number of characters.
pub fn glob_matches(pattern: &str, name: &str) -> bool {
    let mut pieces = pattern.split('*');
    let first = pieces.next().unwrap_or_default();
    let Some(mut rest) = name.strip_prefix(first) else { return false };
    let mut last = None;
    for piece in pieces {
        if let Some(piece) = last.replace(piece) {
            match rest.find(piece) {
                Some(index) => rest = &rest[index + piece.len()..],
                None => return false,
            }
        }
    }
    match last {
        None => rest.is_empty(),
        Some(tail) => rest.ends_with(tail),
    }
}

/// How a whitelist grants a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Grant {
    /// The whitelist contains the name or an alias.
    Named,
    /// A pattern of the whitelist matches.
    Matched,
}

/// The names by which a whitelist can grant a tool.
#[derive(Debug, Clone, Copy)]
pub struct GrantNames<'a> {
    /// The server of an external tool, and the escaped name of the tool, which together are `server.tool`.
    pub qualified: Option<(&'a str, &'a str)>,
    /// The bare name that grants the tool, if no other tool has it.
    pub bare: Option<&'a str>,
    /// The name that patterns of bare names are compared with.
    pub pattern: &'a str,
}

impl<'a> GrantNames<'a> {
    pub fn builtin(name: &'a str) -> Self {
        Self { qualified: None, bare: Some(name), pattern: name }
    }

    /// An external tool whose bare name means this tool.
    pub fn external(server: &'a str, name: &'a str) -> Self {
        Self { qualified: Some((server, name)), bare: Some(name), pattern: name }
    }

    /// Returns how one entry of a whitelist grants the tool. An entry with a dot means the tools of the
    /// servers that it names, and an entry without a dot means bare names: neither is ever compared with
    /// the other form.
    fn granted_by(&self, entry: &str) -> Option<Grant> {
        let is_granted = match (external::split_qualified(entry), self.qualified) {
            (Some((server_glob, glob)), Some((server, name))) => {
                glob_matches(server_glob, server) && glob_matches(&glob, name)
            }
            (Some(_), None) => false,
            (None, _) if is_glob(entry) => glob_matches(entry, self.pattern),
            (None, Some(_)) => self.bare == Some(entry),
            (None, None) => self.bare == Some(canonical(entry)),
        };
        is_granted.then(|| if is_glob(entry) { Grant::Matched } else { Grant::Named })
    }
}

/// Returns how a whitelist grants a tool, or `None` if it does not.
pub fn grant_for(whitelist: &[String], tool: &GrantNames<'_>) -> Option<Grant> {
    let mut grants = whitelist.iter().filter_map(|entry| tool.granted_by(entry));
    let first = grants.next()?;
    Some(if grants.any(|grant| grant == Grant::Named) { Grant::Named } else { first })
}

/// Returns whether a pattern grants a known tool, or names a server that was never reached, which may have the tool. As
/// in a whitelist, a pattern with a dot is compared with `server.tool`, and one without a dot with bare names. Aliases do
/// not count, because a pattern never grants a tool by its alias.
pub(crate) fn matches_any(pattern: &str, available: &AvailableNames) -> bool {
    let mut names = available.tools.iter();
    match external::split_qualified(pattern) {
        Some((server_glob, glob)) => {
            available.unreached_servers.iter().any(|server| glob_matches(server_glob, server))
                || names
                    .filter_map(|name| name.split_once('.'))
                    .any(|(server, tool)| glob_matches(server_glob, server) && glob_matches(&glob, tool))
        }
        None => names.any(|name| {
            !name.contains('.') && canonical(name) == name.as_str() && glob_matches(pattern, name)
        }),
    }
}

/// Returns whether a known tool has this name.
pub(crate) fn is_available(name: &str, available: &AvailableNames) -> bool {
    let normalized = external::normalize(name);
    available.tools.iter().any(|tool| tool == name || *tool == normalized || tool == canonical(name))
}

/// Validates an entry of a whitelist: a well-formed pattern, or the name of an existing tool.
pub(crate) fn check_pattern(
    pattern: &str,
    available: &AvailableNames,
    suggestions: &Suggestions,
) -> Result<(), String> {
    let fine = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | ':' | '/' | '%' | '*');
    if pattern.is_empty() || pattern.len() > 128 || !pattern.chars().all(fine) {
        return Err(format!(
            "`{}` is not a tool name or pattern: use letters, digits, `_`, `-`, `.`, and `*` for any characters",
            pattern.chars().take(128).collect::<String>()
        ));
    }
    if is_glob(pattern) || !available.tools_complete {
        return Ok(());
    }
    if is_available(pattern, available) {
        return Ok(());
    }
    Err(unknown_name("tool", pattern, suggestions.nearest_tool(pattern, available)))
}

/// The name of a tool that was probably meant.
pub fn nearest_tool<'a>(name: &str, available: &'a AvailableNames) -> Option<&'a str> {
    let shown = available.tools.iter().filter(|name| available.may_suggest(name));
    let names = shown.map(String::as_str).chain(ALIASES.iter().map(|(alias, _)| *alias));
    crate::pack::nearest_name(name, names)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grants(whitelist: &[&str], name: &str, server: Option<&str>) -> Option<Grant> {
        let whitelist: Vec<String> = whitelist.iter().map(|entry| (*entry).to_owned()).collect();
        let tool = match server {
            Some(server) => GrantNames::external(server, name),
            None => GrantNames::builtin(name),
        };
        grant_for(&whitelist, &tool)
    }

    #[test]
    fn a_tool_is_found_by_each_of_its_names() {
        let names = ["tasks_list", "query_tasks", "list_tasks"];
        for name in names {
            assert_eq!(all_names(name), names);
        }
        assert_eq!(all_names("github.search"), ["github.search"]);
    }

    #[test]
    fn a_star_stands_for_any_characters() {
        for (pattern, name, matches) in [
            ("*", "entities_get", true),
            ("entities_*", "entities_get", true),
            ("entities_*", "entities_", true),
            ("entities_*", "relationships_get", false),
            ("*_get", "entities_get", true),
            ("*_get", "entities_get_all", false),
            ("e*s_*t", "entities_get", true),
            ("ab*ba", "aba", false),
            ("a*b*c", "a1b2b3c", true),
            ("entities_get", "entities_get", true),
            ("entities_get", "entities_gets", false),
        ] {
            assert_eq!(glob_matches(pattern, name), matches, "{pattern} {name}");
        }
    }

    #[test]
    fn an_empty_whitelist_grants_nothing() {
        assert_eq!(grants(&[], "entities_get", None), None);
        assert_eq!(grants(&[""], "entities_get", None), None);
    }

    #[test]
    fn an_alias_grants_its_tool_and_no_other() {
        assert_eq!(grants(&["create_entity"], "entities_create", None), Some(Grant::Named));
        assert_eq!(grants(&["create_entity"], "entities_update", None), None);
        assert_eq!(grants(&["create_*"], "entities_create", None), None, "patterns match canonical names");
    }

    #[test]
    fn a_servers_tool_is_granted_by_either_name_and_never_by_an_alias_of_a_built_in() {
        assert_eq!(grants(&["web_search"], "web_search", Some("web")), Some(Grant::Named));
        assert_eq!(grants(&["web.web_search"], "web_search", Some("web")), Some(Grant::Named));
        assert_eq!(grants(&["web.*"], "web_search", Some("web")), Some(Grant::Matched));
        assert_eq!(grants(&["other.web_search"], "web_search", Some("web")), None);
        assert_eq!(grants(&["create_entity"], "entities_create", Some("web")), None);
    }

    #[test]
    fn an_announced_name_never_stands_for_a_tool_of_another_server() {
        let announced = external::escape("github.create_issue");
        for entry in ["github.create_issue", "github.*", "git*.create_issue"] {
            assert_eq!(grants(&[entry], &announced, Some("rogue")), None, "{entry}");
            assert!(grants(&[entry], "create_issue", Some("github")).is_some(), "{entry}");
        }
        assert_eq!(grants(&["rogue.github.create_issue"], &announced, Some("rogue")), Some(Grant::Named));
        assert_eq!(grants(&["rogue.github.*"], &announced, Some("rogue")), Some(Grant::Matched));
        assert_eq!(grants(&["github%2Ecreate_issue"], &announced, Some("rogue")), Some(Grant::Named));
        assert_eq!(
            grants(&["git*"], "create_issue", Some("github")),
            None,
            "a bare pattern is about bare names"
        );
        assert_eq!(grants(&["*.create_issue"], "create_issue", Some("github")), Some(Grant::Matched));
        assert_eq!(grants(&["*.*"], "entities_get", None), None, "a built-in tool has no server");
    }

    #[test]
    fn an_entry_with_the_exact_name_counts_more_than_a_pattern() {
        assert_eq!(grants(&["*", "entities_get"], "entities_get", None), Some(Grant::Named));
        assert_eq!(grants(&["entities_get", "*"], "entities_get", None), Some(Grant::Named));
    }

    #[test]
    fn a_bare_name_of_another_tool_grants_only_by_pattern() {
        let shared = GrantNames { bare: None, ..GrantNames::external("web", "fetch") };
        assert_eq!(grant_for(&["fetch".to_owned()], &shared), None);
        assert_eq!(grant_for(&["web.fetch".to_owned()], &shared), Some(Grant::Named));
        assert_eq!(grant_for(&["f*".to_owned()], &shared), Some(Grant::Matched));
    }

    #[test]
    fn every_alias_means_a_canonical_name() {
        for (alias, name) in ALIASES {
            assert_ne!(canonical(name), *alias);
            assert_eq!(canonical(name), *name, "{name} is itself an alias");
        }
    }
}

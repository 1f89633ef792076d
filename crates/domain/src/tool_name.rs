//! Names of tools: their aliases, and the whitelist patterns that match them.

use crate::agent::{AvailableNames, unknown_name};

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

/// Returns how a whitelist grants a tool, or `None` if it does not. `server` is the server that
/// provides the tool; such a tool may also be listed as `server.tool`.
pub fn grant_for(whitelist: &[String], name: &str, server: Option<&str>) -> Option<Grant> {
    let qualified = server.map(|server| format!("{server}.{name}"));
    let is = |entry: &str| entry == name || qualified.as_deref() == Some(entry);
    if whitelist.iter().any(|entry| is(entry) || (server.is_none() && canonical(entry) == name)) {
        return Some(Grant::Named);
    }
    let matches = |glob: &str| {
        glob_matches(glob, name) || qualified.as_deref().is_some_and(|name| glob_matches(glob, name))
    };
    whitelist.iter().any(|entry| is_glob(entry) && matches(entry)).then_some(Grant::Matched)
}

/// Validates an entry of a whitelist: a well-formed pattern, or the name of an existing tool.
pub(crate) fn check_pattern(pattern: &str, available: &AvailableNames) -> Result<(), String> {
    let fine = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | ':' | '/' | '*');
    if pattern.is_empty() || pattern.len() > 128 || !pattern.chars().all(fine) {
        return Err(format!(
            "`{}` is not a tool name or pattern: use letters, digits, `_`, `-`, `.`, and `*` for any characters",
            pattern.chars().take(128).collect::<String>()
        ));
    }
    if is_glob(pattern) || !available.tools_complete {
        return Ok(());
    }
    if available.tools.iter().any(|tool| tool == pattern || tool == canonical(pattern)) {
        return Ok(());
    }
    let names = available.tools.iter().map(String::as_str).chain(ALIASES.iter().map(|(alias, _)| *alias));
    Err(unknown_name("tool", pattern, crate::pack::nearest_name(pattern, names)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grants(whitelist: &[&str], name: &str, server: Option<&str>) -> Option<Grant> {
        grant_for(&whitelist.iter().map(|entry| (*entry).to_owned()).collect::<Vec<_>>(), name, server)
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
    fn every_alias_means_a_canonical_name() {
        for (alias, name) in ALIASES {
            assert_ne!(canonical(name), *alias);
            assert_eq!(canonical(name), *name, "{name} is itself an alias");
        }
    }
}

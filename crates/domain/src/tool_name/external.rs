//! Names of the tools of external servers. A whitelist names such a tool as `server.tool`. Names of servers
//! have no dot, so the first dot of an entry ends the name of the server. Dots in the name that a server
//! announces are escaped as `%2E`, and no announced name contains `%`: an announced name can therefore never
//! look like `server.tool` of another server.

use std::borrow::Cow;

use super::glob_matches;

const ESCAPED_DOT: &str = "%2E";

/// Returns the name of a tool in Emergent: the name that its server announces, with dots escaped.
pub fn escape(announced: &str) -> Cow<'_, str> {
    match announced.contains('.') {
        true => Cow::Owned(announced.replace('.', ESCAPED_DOT)),
        false => Cow::Borrowed(announced),
    }
}

/// Returns whether a server may announce a tool of this name: it has up to 128 letters, digits and
/// `_ - . : /`.
pub fn is_announceable(name: &str) -> bool {
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | ':' | '/');
    !name.is_empty() && name.len() <= 128 && name.chars().all(is_allowed)
}

/// Returns `server.tool`. The name of the tool is escaped.
pub fn qualified(server: &str, name: &str) -> String {
    format!("{server}.{name}")
}

/// Splits an entry `server.tool` into the server and the escaped tool; both may be patterns. `None` for an
/// entry that is a bare name or a pattern of bare names. Dots after the first one belong to the tool.
pub fn split_qualified(entry: &str) -> Option<(&str, Cow<'_, str>)> {
    entry.split_once('.').map(|(server, tool)| (server, escape(tool)))
}

/// Returns an entry with the dots of its tool escaped: `a.b.c` is `a.b%2Ec`.
pub(super) fn normalize(entry: &str) -> Cow<'_, str> {
    match split_qualified(entry) {
        Some((server, Cow::Owned(tool))) => Cow::Owned(qualified(server, &tool)),
        _ => Cow::Borrowed(entry),
    }
}

/// Returns whether the filter of a server lets a tool of that server through. A pattern matches the announced
/// name, or `server.tool` if it has a dot. Without the dot, `read*` would let all tools of a server `reader` through.
pub fn filter_allows(filter: &[String], server: &str, announced: &str) -> bool {
    let matches_qualified = |pattern: &str| {
        let parts = pattern.split_once('.');
        parts.is_some_and(|(server_glob, glob)| {
            glob_matches(server_glob, server) && glob_matches(glob, announced)
        })
    };
    filter.iter().any(|pattern| glob_matches(pattern, announced) || matches_qualified(pattern))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_escaped_name_has_no_dot_and_belongs_to_one_announced_name() {
        let names = ["a", "a.b", "a_b", "a.b.c", ".", "..", "a/b", "a-2E", "a2Eb"];
        let mut escaped: Vec<_> = names.iter().map(|name| escape(name).into_owned()).collect();
        assert!(escaped.iter().all(|name| !name.contains('.')));
        assert_eq!(escaped[1], "a%2Eb");
        escaped.sort();
        escaped.dedup();
        assert_eq!(escaped.len(), names.len());
        assert!(!is_announceable("a%2Eb"), "no server can announce a name that looks escaped");
    }

    #[test]
    fn the_first_dot_of_an_entry_ends_the_server() {
        assert_eq!(split_qualified("github.create_issue"), Some(("github", "create_issue".into())));
        assert_eq!(split_qualified("hub.repo.search"), Some(("hub", "repo%2Esearch".into())));
        assert_eq!(split_qualified("create_issue"), None);
        assert_eq!(normalize("hub.repo.search"), "hub.repo%2Esearch");
        assert_eq!(normalize("repo%2Esearch"), "repo%2Esearch");
    }

    #[test]
    fn a_filter_is_about_the_names_that_its_own_server_announces() {
        let filter = ["repo.*".to_owned(), "hub.read_*".to_owned()];
        assert!(filter_allows(&filter, "hub", "repo.search"));
        assert!(filter_allows(&filter, "hub", "read_file"));
        assert!(!filter_allows(&filter, "hub", "write_file"));
        let bare = ["hub*".to_owned()];
        assert!(filter_allows(&bare, "hub", "hub_read") && filter_allows(&bare, "other", "hub_read"));
        assert!(
            !filter_allows(&bare, "hub", "write_file"),
            "a pattern without a dot is about announced names"
        );
        assert!(filter_allows(&["*".to_owned()], "hub", "write_file"));
        assert!(filter_allows(&["h*.write_*".to_owned()], "hub", "write_file"));
        assert!(
            !filter_allows(&["h*.file".to_owned()], "hub", "write.file"),
            "the first dot ends the server"
        );
    }
}

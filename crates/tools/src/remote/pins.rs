//! Decides which tools of MCP servers are accepted. The tools of the first listing are accepted, and each is
//! pinned with its digest. A tool that comes later, and one whose digest changes, is held back. The functions
//! do no I/O: they compute the rows to write from the stored tools and a listing.

use std::collections::{HashMap, HashSet};

use emergent_domain::{
    foreign_json,
    mcp_server::{PinPolicy, ToolStatus},
    time::Timestamp,
};
use emergent_mcp::client::RemoteTool;
use emergent_store::mcp_tools::StoredTool;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

/// Limits for the stored tools of one server. Tools that the server no longer has stay stored: without its
/// pin, a tool could disappear and return with other behaviour.
const MAX_TOOLS: usize = 10_000;
const MAX_TOOL_BYTES: usize = 64 << 20;

/// The digest of everything about a tool that affects a model or the handling of calls: its description,
/// input schema, annotations and title. The order of keys and white space do not matter.
pub fn digest(tool: &RemoteTool) -> String {
    let schema: Value = foreign_json::from_str(tool.input_schema.get()).unwrap_or_default();
    let mut content = json!({
        "description": tool.description, "inputSchema": schema, "annotations": tool.annotations,
    });
    // The title is shown to the model if there is no description.
    if let Some(title) = &tool.title {
        content["title"] = Value::from(title.as_str());
    }
    // A `Value` is written with sorted keys.
    let hash = Sha256::digest(content.to_string());
    hash.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// How a listing is treated.
#[derive(Debug, Clone, Copy)]
pub struct Acceptance {
    /// Whether tools that were never accepted are accepted now: the listing is the first one since somebody
    /// configured the server, or the server is trusted.
    pub accept_new: bool,
    /// What happens to tools that differ from what was accepted.
    pub policy: PinPolicy,
}

/// The rows to write after a listing: new tools, changed tools, and tools that the server no longer has.
pub fn updates_for_listing(
    stored_tools: &[StoredTool],
    listed: &[RemoteTool],
    acceptance: Acceptance,
    now: Timestamp,
) -> Vec<StoredTool> {
    let mut updates = Vec::new();
    let stored_by_name: HashMap<&str, &StoredTool> =
        stored_tools.iter().map(|tool| (tool.name.as_str(), tool)).collect();
    let mut seen: HashSet<&str> = HashSet::new();
    for tool in listed {
        // If a name is listed twice, the first tool counts.
        if !seen.insert(&tool.name) {
            continue;
        }
        let digest = digest(tool);
        let stored = stored_by_name.get(tool.name.as_str()).copied();
        let updated = updated_tool(stored, tool, digest, acceptance, now);
        if stored != Some(&updated) {
            updates.push(updated);
        }
    }
    let gone = stored_tools
        .iter()
        .filter(|tool| tool.status != ToolStatus::Gone && !seen.contains(tool.name.as_str()));
    updates.extend(gone.map(|tool| StoredTool {
        status: ToolStatus::Gone,
        changed_at: Some(now),
        ..tool.clone()
    }));
    updates
}

/// Whether the stored tools of a server are within the limits after these updates.
pub fn within_limits(stored_tools: &[StoredTool], updates: &[StoredTool]) -> bool {
    let bytes = |tool: &StoredTool| tool.tool.len() + tool.pinned_tool.len();
    // An update comes later in the chain, so it replaces the stored size of its tool.
    let sizes: HashMap<&str, usize> =
        stored_tools.iter().chain(updates).map(|tool| (tool.name.as_str(), bytes(tool))).collect();
    sizes.len() <= MAX_TOOLS && sizes.values().sum::<usize>() <= MAX_TOOL_BYTES
}

/// The row of a listed tool. A tool that was never accepted is accepted now, or is `New`. A known tool whose
/// digest differs from its pin becomes `Changed`, unless the policy is `Off`.
fn updated_tool(
    stored: Option<&StoredTool>,
    tool: &RemoteTool,
    digest: String,
    acceptance: Acceptance,
    now: Timestamp,
) -> StoredTool {
    let text = tool.text.get();
    let mut updated = match stored {
        Some(stored) => StoredTool { tool: text.to_owned(), ..stored.clone() },
        None => StoredTool {
            name: tool.name.clone(),
            tool: text.to_owned(),
            digest: digest.clone(),
            pinned_digest: String::new(),
            pinned_tool: String::new(),
            status: ToolStatus::New,
            first_seen: now,
            changed_at: None,
            accepted_by: None,
            accepted_at: None,
        },
    };
    // An earlier version of Emergent accepted the tool, and recorded no time.
    if updated.accepted_at.is_none() && updated.status == ToolStatus::Live {
        updated.accepted_at = Some(updated.first_seen);
    }
    let is_accepted = match updated.accepted_at {
        None => acceptance.accept_new,
        Some(_) => acceptance.policy == PinPolicy::Off || digest == updated.pinned_digest,
    };
    if digest != updated.digest {
        updated.changed_at = Some(now);
    }
    updated.digest = digest;
    match (is_accepted, updated.accepted_at) {
        (true, accepted_at) => accept(&mut updated, accepted_at.unwrap_or(now)),
        (false, None) => updated.status = ToolStatus::New,
        (false, Some(_)) => updated.status = ToolStatus::Changed,
    }
    updated
}

/// Pins the current definition of a tool.
pub fn accept(tool: &mut StoredTool, accepted_at: Timestamp) {
    tool.pinned_digest.clone_from(&tool.digest);
    tool.pinned_tool.clone_from(&tool.tool);
    tool.status = ToolStatus::Live;
    tool.accepted_at = Some(accepted_at);
}

/// Whether the tool is offered to the project.
pub fn is_offered(tool: &StoredTool, policy: PinPolicy) -> bool {
    match tool.status {
        ToolStatus::Live => true,
        ToolStatus::Changed => policy != PinPolicy::Pin,
        ToolStatus::New | ToolStatus::Gone => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::value::to_raw_value;

    use super::*;

    fn remote_tool(name: &str, description: &str) -> RemoteTool {
        let text = json!({ "name": name, "description": description, "inputSchema": { "type": "object" } });
        RemoteTool::parse(to_raw_value(&text).unwrap()).unwrap()
    }

    /// Applies listings one after the other, and compares the tools that are offered after each. The first
    /// one is accepted as it is.
    fn check(policy: PinPolicy, trust: bool, listings: &[&[(&str, &str)]], expected: &[&[&str]]) {
        let now = Timestamp::from_micros(0);
        let mut stored_tools: Vec<StoredTool> = Vec::new();
        for (index, (listing, expected)) in listings.iter().zip(expected).enumerate() {
            let policy_now = Acceptance { accept_new: trust || index == 0, policy };
            let listed: Vec<_> = listing.iter().map(|(name, text)| remote_tool(name, text)).collect();
            for written in updates_for_listing(&stored_tools, &listed, policy_now, now) {
                stored_tools.retain(|tool| tool.name != written.name);
                stored_tools.push(written);
            }
            stored_tools.sort_by(|a, b| a.name.cmp(&b.name));
            let offered: Vec<_> = stored_tools
                .iter()
                .filter(|tool| is_offered(tool, policy))
                .map(|tool| tool.name.as_str())
                .collect();
            assert_eq!(&offered, expected, "{listing:?} under {policy}");
            assert_eq!(
                updates_for_listing(&stored_tools, &listed, policy_now, now),
                vec![],
                "the same listing again changes nothing"
            );
        }
    }

    #[test]
    fn a_changed_tool_is_held_back_until_it_has_its_pinned_digest_again() {
        let (old, new) = (&[("a", "reads"), ("b", "x")][..], &[("a", "deletes everything"), ("b", "x")][..]);
        check(PinPolicy::Pin, false, &[old, new, old], &[&["a", "b"], &["b"], &["a", "b"]]);
        check(PinPolicy::Warn, false, &[old, new], &[&["a", "b"], &["a", "b"]]);
        check(PinPolicy::Off, false, &[old, new], &[&["a", "b"], &["a", "b"]]);
    }

    #[test]
    fn a_tool_that_disappears_and_returns_changed_is_held_back() {
        check(
            PinPolicy::Pin,
            false,
            &[&[("a", "reads")], &[], &[("a", "writes")], &[("a", "reads")]],
            &[&["a"], &[], &[], &["a"]],
        );
    }

    #[test]
    fn a_tool_that_comes_after_the_first_listing_is_held_back_unless_the_server_is_trusted() {
        let (first, more) = (&[("a", "x")][..], &[("a", "x"), ("b", "y")][..]);
        for policy in [PinPolicy::Pin, PinPolicy::Warn, PinPolicy::Off] {
            check(policy, false, &[first, more, first, more], &[&["a"], &["a"], &["a"], &["a"]]);
            check(policy, true, &[first, more], &[&["a"], &["a", "b"]]);
        }
        // A server that had no tools at first was listed all the same.
        check(PinPolicy::Pin, false, &[&[], first], &[&[], &[]]);
    }

    #[test]
    fn the_time_of_the_first_acceptance_stays() {
        let (early, late) = (Timestamp::from_micros(1), Timestamp::from_micros(2));
        let list = |stored: &[StoredTool], text: &str, now| {
            let acceptance = Acceptance { accept_new: true, policy: PinPolicy::Off };
            updates_for_listing(stored, &[remote_tool("a", text)], acceptance, now).remove(0)
        };
        let first = list(&[], "reads", early);
        assert_eq!((first.accepted_at, first.status), (Some(early), ToolStatus::Live));
        let changed = list(&[first], "writes", late);
        assert_eq!((changed.accepted_at, changed.status), (Some(early), ToolStatus::Live));
        // A row of an earlier version.
        let earlier = StoredTool { accepted_at: None, ..changed };
        assert_eq!(list(&[earlier], "reads", late).accepted_at, Some(early));
    }

    #[test]
    fn the_stored_tools_of_a_server_are_limited_in_number_and_size() {
        let acceptance = Acceptance { accept_new: true, policy: PinPolicy::Pin };
        let template =
            updates_for_listing(&[], &[remote_tool("t", "x")], acceptance, Timestamp::from_micros(0))
                .remove(0);
        let tools = |from: usize, count: usize, bytes: usize| -> Vec<StoredTool> {
            let numbered =
                |n| StoredTool { name: format!("t{n}"), tool: "x".repeat(bytes), ..template.clone() };
            (from..from + count).map(numbered).collect()
        };
        let stored_tools = tools(0, 6_000, 1);
        assert!(within_limits(&stored_tools, &stored_tools), "updates of known tools do not count twice");
        assert!(within_limits(&stored_tools, &tools(6_000, 4_000, 1)));
        assert!(!within_limits(&stored_tools, &tools(6_000, 4_001, 1)));
        assert!(within_limits(&[], &tools(0, 3, 16 << 20)) && !within_limits(&[], &tools(0, 4, 16 << 20)));
    }

    #[test]
    fn a_digest_depends_on_the_content_and_not_on_key_order_or_white_space() {
        let parse = |text: &str| RemoteTool::parse(serde_json::from_str(text).unwrap()).unwrap();
        let plain = parse(r#"{"name":"a","inputSchema":{"type":"object","properties":{}}}"#);
        let reordered = parse(r#"{"inputSchema": {"properties": {}, "type": "object"}, "name": "a"}"#);
        let with_property = parse(r#"{"name":"a","inputSchema":{"type":"object","properties":{"x":{}}}}"#);
        let titled = |title: &str| {
            parse(&format!(
                r#"{{"name":"a","title":"{title}","inputSchema":{{"type":"object","properties":{{}}}}}}"#
            ))
        };
        let annotated = parse(
            r#"{"name":"a","inputSchema":{"type":"object","properties":{}},"annotations":{"readOnlyHint":true}}"#,
        );
        assert_eq!(digest(&plain), digest(&reordered));
        assert_ne!(digest(&plain), digest(&with_property));
        assert_ne!(digest(&plain), digest(&annotated));
        assert_ne!(digest(&plain), digest(&titled("Reads")));
        assert_ne!(digest(&titled("Deletes")), digest(&titled("Reads")));
    }
}

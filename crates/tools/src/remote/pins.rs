//! What a server's tools are held to: each is pinned as it was first seen, and one that changes is
//! noticed. Pure: what is known and what is listed in, what is to be written out.

use std::collections::{HashMap, HashSet};

use emergent_domain::{
    mcp_server::{PinPolicy, ToolStatus},
    time::Timestamp,
};
use emergent_mcp::client::RemoteTool;
use emergent_store::mcp_tools::StoredTool;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

/// What is kept of one server, tools that are gone included: without its pin, a tool could go and come
/// back as something else.
const MAX_TOOLS: usize = 10_000;
const MAX_TOOL_BYTES: usize = 64 << 20;

/// Of what a model is told, and of what the server promises: the order of keys and spaces do not
/// count.
pub fn digest(tool: &RemoteTool) -> String {
    let schema: Value = serde_json::from_str(tool.input_schema.get()).unwrap_or_default();
    let mut told = json!({
        "description": tool.description, "inputSchema": schema, "annotations": tool.annotations,
    });
    // Told where there is no description.
    if let Some(title) = &tool.title {
        told["title"] = Value::from(title.as_str());
    }
    // The text of a value has its keys in order.
    let hash = Sha256::digest(told.to_string());
    hash.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// What is to be written after a listing; what is as it was is not in it.
pub fn updates_for_listing(
    known: &[StoredTool],
    listed: &[RemoteTool],
    policy: PinPolicy,
    now: Timestamp,
) -> Vec<StoredTool> {
    let mut write = Vec::new();
    let before: HashMap<&str, &StoredTool> = known.iter().map(|one| (one.name.as_str(), one)).collect();
    let mut seen: HashSet<&str> = HashSet::new();
    for tool in listed {
        // The first of two with one name counts.
        if !seen.insert(&tool.name) {
            continue;
        }
        let digest = digest(tool);
        let before = before.get(tool.name.as_str()).copied();
        let next = updated_tool(before, tool, digest, policy, now);
        if before != Some(&next) {
            write.push(next);
        }
    }
    let gone = known.iter().filter(|one| one.status != ToolStatus::Gone && !seen.contains(one.name.as_str()));
    write.extend(gone.map(|one| StoredTool {
        status: ToolStatus::Gone,
        changed_at: Some(now),
        ..one.clone()
    }));
    write
}

/// Whether what is known can be kept once this is written.
pub fn within_limits(known: &[StoredTool], write: &[StoredTool]) -> bool {
    let bytes = |tool: &StoredTool| tool.tool.len() + tool.pinned_tool.len();
    // What is written comes last, in the place of what it was.
    let after: HashMap<&str, usize> =
        known.iter().chain(write).map(|tool| (tool.name.as_str(), bytes(tool))).collect();
    after.len() <= MAX_TOOLS && after.values().sum::<usize>() <= MAX_TOOL_BYTES
}

fn updated_tool(
    before: Option<&StoredTool>,
    tool: &RemoteTool,
    digest: String,
    policy: PinPolicy,
    now: Timestamp,
) -> StoredTool {
    let text = tool.text.get();
    let Some(before) = before else {
        return StoredTool {
            name: tool.name.clone(),
            tool: text.to_owned(),
            pinned_digest: digest.clone(),
            digest,
            pinned_tool: text.to_owned(),
            status: ToolStatus::Live,
            first_seen: now,
            changed_at: None,
            accepted_by: None,
        };
    };
    let mut next = StoredTool { tool: text.to_owned(), ..before.clone() };
    if policy == PinPolicy::Off || digest == before.pinned_digest {
        next.pinned_digest = digest.clone();
        next.pinned_tool = text.to_owned();
        next.status = ToolStatus::Live;
    } else {
        next.status = ToolStatus::Changed;
    }
    if digest != before.digest {
        next.changed_at = Some(now);
    }
    next.digest = digest;
    next
}

/// Whether a project gets to use it.
pub fn is_offered(tool: &StoredTool, policy: PinPolicy) -> bool {
    match tool.status {
        ToolStatus::Live => true,
        ToolStatus::Changed => policy != PinPolicy::Pin,
        ToolStatus::Gone => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::value::to_raw_value;

    use super::*;

    fn tool(name: &str, description: &str) -> RemoteTool {
        let text = json!({ "name": name, "description": description, "inputSchema": { "type": "object" } });
        RemoteTool::parse(to_raw_value(&text).unwrap()).unwrap()
    }

    /// Listings one after the other, and what is offered after each.
    fn check(policy: PinPolicy, listings: &[&[(&str, &str)]], expected: &[&[&str]]) {
        let now = Timestamp::from_micros(0);
        let mut known: Vec<StoredTool> = Vec::new();
        for (listing, expected) in listings.iter().zip(expected) {
            let listed: Vec<_> = listing.iter().map(|(name, text)| tool(name, text)).collect();
            for written in updates_for_listing(&known, &listed, policy, now) {
                known.retain(|one| one.name != written.name);
                known.push(written);
            }
            known.sort_by(|a, b| a.name.cmp(&b.name));
            let offered: Vec<_> =
                known.iter().filter(|one| is_offered(one, policy)).map(|one| one.name.as_str()).collect();
            assert_eq!(&offered, expected, "{listing:?} under {policy}");
            assert_eq!(
                updates_for_listing(&known, &listed, policy, now),
                vec![],
                "the same again changes nothing"
            );
        }
    }

    #[test]
    fn a_changed_tool_is_held_back_until_it_is_as_it_was() {
        let (old, new) = (&[("a", "reads"), ("b", "x")][..], &[("a", "deletes everything"), ("b", "x")][..]);
        check(PinPolicy::Pin, &[old, new, old], &[&["a", "b"], &["b"], &["a", "b"]]);
        check(PinPolicy::Warn, &[old, new], &[&["a", "b"], &["a", "b"]]);
        check(PinPolicy::Off, &[old, new], &[&["a", "b"], &["a", "b"]]);
    }

    #[test]
    fn a_tool_that_goes_and_comes_back_different_is_held_back() {
        check(
            PinPolicy::Pin,
            &[&[("a", "reads")], &[], &[("a", "writes")], &[("a", "reads")]],
            &[&["a"], &[], &[], &["a"]],
        );
    }

    #[test]
    fn names_that_never_come_again_are_kept_up_to_a_bound() {
        let one =
            updates_for_listing(&[], &[tool("t", "x")], PinPolicy::Pin, Timestamp::from_micros(0)).remove(0);
        let new = |from: usize, many: usize, bytes: usize| -> Vec<StoredTool> {
            let named = |n| StoredTool { name: format!("t{n}"), tool: "x".repeat(bytes), ..one.clone() };
            (from..from + many).map(named).collect()
        };
        let known = new(0, 6_000, 1);
        assert!(within_limits(&known, &known), "the same names are no more");
        assert!(within_limits(&known, &new(6_000, 4_000, 1)));
        assert!(!within_limits(&known, &new(6_000, 4_001, 1)));
        assert!(within_limits(&[], &new(0, 3, 16 << 20)) && !within_limits(&[], &new(0, 4, 16 << 20)));
    }

    #[test]
    fn a_digest_does_not_depend_on_how_it_is_written() {
        let parse = |text: &str| RemoteTool::parse(serde_json::from_str(text).unwrap()).unwrap();
        let one = parse(r#"{"name":"a","inputSchema":{"type":"object","properties":{}}}"#);
        let same = parse(r#"{"inputSchema": {"properties": {}, "type": "object"}, "name": "a"}"#);
        let other = parse(r#"{"name":"a","inputSchema":{"type":"object","properties":{"x":{}}}}"#);
        let titled = |title: &str| {
            parse(&format!(
                r#"{{"name":"a","title":"{title}","inputSchema":{{"type":"object","properties":{{}}}}}}"#
            ))
        };
        let annotated = parse(
            r#"{"name":"a","inputSchema":{"type":"object","properties":{}},"annotations":{"readOnlyHint":true}}"#,
        );
        assert_eq!(digest(&one), digest(&same));
        assert_ne!(digest(&one), digest(&other));
        assert_ne!(digest(&one), digest(&annotated));
        assert_ne!(digest(&one), digest(&titled("Reads")));
        assert_ne!(digest(&titled("Deletes")), digest(&titled("Reads")));
    }
}

//! What a server's tools are held to: each is pinned as it was first seen, and one that changes is
//! noticed. Pure: what is known and what is listed in, what is to be written out.

use std::collections::HashMap;

use emergent_domain::{
    mcp_server::{PinPolicy, ToolStatus},
    time::Timestamp,
};
use emergent_mcp::client::RemoteTool;
use emergent_store::mcp_tools::KnownTool;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

/// Of what a model is told, and of what the server promises: the order of keys and spaces do not
/// count.
pub fn digest(tool: &RemoteTool) -> String {
    let schema: Value = serde_json::from_str(tool.input_schema.get()).unwrap_or_default();
    let told = json!({
        "description": tool.description, "inputSchema": schema, "annotations": tool.annotations,
    });
    // The text of a value has its keys in order.
    let hash = Sha256::digest(told.to_string());
    hash.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// What is to be written after a listing; what is as it was is not in it.
pub fn compare(
    known: &[KnownTool],
    listed: &[RemoteTool],
    policy: PinPolicy,
    now: Timestamp,
) -> Vec<KnownTool> {
    let mut write = Vec::new();
    let mut seen: HashMap<&str, ()> = HashMap::new();
    for tool in listed {
        // The first of two with one name counts.
        if seen.insert(&tool.name, ()).is_some() {
            continue;
        }
        let digest = digest(tool);
        let before = known.iter().find(|one| one.name == tool.name);
        let next = next(before, tool, digest, policy, now);
        if before != Some(&next) {
            write.push(next);
        }
    }
    let gone =
        known.iter().filter(|one| one.status != ToolStatus::Gone && !seen.contains_key(one.name.as_str()));
    write.extend(gone.map(|one| KnownTool {
        status: ToolStatus::Gone,
        changed_at: Some(now),
        ..one.clone()
    }));
    write
}

fn next(
    before: Option<&KnownTool>,
    tool: &RemoteTool,
    digest: String,
    policy: PinPolicy,
    now: Timestamp,
) -> KnownTool {
    let text = tool.text.get();
    let Some(before) = before else {
        return KnownTool {
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
    let mut next = KnownTool { tool: text.to_owned(), ..before.clone() };
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
pub fn is_offered(tool: &KnownTool, policy: PinPolicy) -> bool {
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
        let mut known: Vec<KnownTool> = Vec::new();
        for (listing, expected) in listings.iter().zip(expected) {
            let listed: Vec<_> = listing.iter().map(|(name, text)| tool(name, text)).collect();
            for written in compare(&known, &listed, policy, now) {
                known.retain(|one| one.name != written.name);
                known.push(written);
            }
            known.sort_by(|a, b| a.name.cmp(&b.name));
            let offered: Vec<_> =
                known.iter().filter(|one| is_offered(one, policy)).map(|one| one.name.as_str()).collect();
            assert_eq!(&offered, expected, "{listing:?} under {policy}");
            assert_eq!(compare(&known, &listed, policy, now), vec![], "the same again changes nothing");
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
    fn a_digest_does_not_depend_on_how_it_is_written() {
        let parse = |text: &str| RemoteTool::parse(serde_json::from_str(text).unwrap()).unwrap();
        let one = parse(r#"{"name":"a","inputSchema":{"type":"object","properties":{}}}"#);
        let same =
            parse(r#"{"inputSchema": {"properties": {}, "type": "object"}, "name": "a", "title": "A"}"#);
        let other = parse(r#"{"name":"a","inputSchema":{"type":"object","properties":{"x":{}}}}"#);
        let annotated = parse(
            r#"{"name":"a","inputSchema":{"type":"object","properties":{}},"annotations":{"readOnlyHint":true}}"#,
        );
        assert_eq!(digest(&one), digest(&same));
        assert_ne!(digest(&one), digest(&other));
        assert_ne!(digest(&one), digest(&annotated));
    }
}

//! Finds what a person names: by id, by the end of an id, by a name where that is unique, or as `last`, the
//! newest. What is not found is answered with the nearest name and the command that lists what there is.

use emergent_domain::time::Timestamp;
use serde_json::Value;
use uuid::Uuid;

use super::{encode, newest};
use crate::{
    client::Client,
    error::{Error, Result},
    hints,
    text::{is_id, short_id},
};

/// How a person names the newest item.
pub const LAST: &str = "last";
/// How many of the newest items are searched for a name or for the end of an id.
pub(super) const MAX_SEARCHED: usize = 1_000;
/// How many deleted items are searched for the one that was deleted last. The lists are in the order of creation.
const MAX_DELETED: usize = 10_000;
/// Shorter ends of an id are not accepted: they would name something else tomorrow.
const MIN_SUFFIX_CHARS: usize = 4;
/// How similar a name has to be to be suggested, from 0 to 1.
const MIN_SIMILARITY: f64 = 0.75;
/// How many candidates a message lists.
const MAX_LISTED: usize = 5;

/// A list of the API in which people name items.
#[derive(Debug, Clone, Copy)]
pub struct Resource {
    /// What one item is called in messages.
    noun: &'static str,
    /// The path of the list, newest first.
    path: &'static str,
    /// The field with the name; empty when items have no name.
    name_field: &'static str,
    /// The command that lists the items.
    list_command: &'static str,
}

impl Resource {
    /// The path of the list.
    pub fn path(&self) -> &'static str {
        self.path
    }
}

const fn resource(
    noun: &'static str,
    path: &'static str,
    name_field: &'static str,
    list_command: &'static str,
) -> Resource {
    Resource { noun, path, name_field, list_command }
}

pub const AGENTS: Resource =
    resource("agent", "/api/admin/agents?include_internal=true", "name", "agent list --internal");
pub const CONVERSATIONS: Resource =
    resource("conversation", "/api/chat/conversations", "", "conversation list");
/// Of tasks and other objects of the system, which are deleted by the thousand, only those that a person names by an id.
pub const DELETED_OBJECTS: Resource = resource(
    "deleted object",
    "/api/graph/objects?deleted=true&includeSystem=false",
    "key",
    "object list --deleted",
);
pub const DELETED_RELATIONSHIPS: Resource = resource(
    "deleted relationship",
    "/api/graph/relationships?deleted=true",
    "",
    "relationship list --deleted",
);
pub const DISCUSSIONS: Resource =
    resource("discussion", "/api/coordination/discussions", "", "discussion list");
pub const DOCUMENTS: Resource = resource("document", "/api/documents", "title", "document list");
pub const INBOX: Resource = resource("request", "/api/approvals", "", "inbox list");
pub const MCP_SERVERS: Resource = resource("MCP server", "/api/admin/mcp-servers", "name", "mcp-server list");
pub const OBJECTS: Resource = resource("object", "/api/graph/objects", "key", "graph search QUERY");
pub const PACKS: Resource = resource("template pack", "/api/template-packs", "name", "pack list");
pub const PROJECTS: Resource = resource("project", "/api/projects", "name", "project list");
pub const RELATIONSHIPS: Resource =
    resource("relationship", "/api/graph/relationships", "", "relationship list OBJECT");
pub const RUNS: Resource = resource("run", "/api/admin/runs", "", "run list");
pub const TASKS: Resource = resource("task", "/api/coordination/tasks", "key", "task list");
pub const TOKENS: Resource = resource("token", "/api/tokens", "name", "token list");
pub const WORKFLOWS: Resource = resource("workflow", "/api/coordination/workflows", "", "workflow list");

/// The id of the item that a person names. A whole id is not checked.
pub async fn resolve_id(client: &Client, resource: &Resource, reference: &str) -> Result<String> {
    if is_id(reference) {
        return Ok(reference.to_ascii_lowercase());
    }
    let is_last = reference == LAST;
    if is_last && resource.path == RELATIONSHIPS.path {
        return newest::newest_relationship(client).await;
    }
    // `last` is the newest of what `object list` shows. The tasks of a workflow and what agents said may be newer. The
    // last run is what somebody started, and not what it started in turn.
    let path = match resource.path {
        path if is_last && path == OBJECTS.path => newest::LISTED_OBJECTS,
        path if is_last && path == RUNS.path => newest::STARTED_RUNS,
        path => path,
    };
    let is_newest = is_last && resource.name_field.is_empty();
    let items: Vec<Value> = client.get_newest(path, if is_newest { 1 } else { MAX_SEARCHED }).await?;
    let candidates: Vec<Candidate> =
        items.iter().filter_map(|item| Candidate::from_item(item, resource.name_field)).collect();
    choose(resource, reference, &candidates)
}

/// The id of the deleted item that a person names; `last` is the one that was deleted last. A whole id is not checked.
pub async fn resolve_deleted(client: &Client, resource: &Resource, reference: &str) -> Result<String> {
    if is_id(reference) {
        return Ok(reference.to_ascii_lowercase());
    }
    let mut items: Vec<Value> = client.get_newest(resource.path, MAX_DELETED).await?;
    if reference == LAST && items.len() >= MAX_DELETED {
        return Err(Error::Usage(format!(
            "there are more than {MAX_DELETED} {}s, and which is the last one is not known: name it by its id",
            resource.noun
        )));
    }
    items.sort_by_key(|item| std::cmp::Reverse(deleted_at(item)));
    let candidates: Vec<Candidate> =
        items.iter().filter_map(|item| Candidate::from_item(item, resource.name_field)).collect();
    choose(resource, reference, &candidates)
}

/// When an item was deleted; `None` if it does not say so in a way that can be compared.
fn deleted_at(item: &Value) -> Option<Timestamp> {
    item.get("deletedAt")?.as_str()?.parse().ok()
}

/// The live object of a type whose id this is, or whose id ends with it; `None` if there is none, or if the text cannot be
/// the end of an id.
pub async fn find_object_of_type(client: &Client, type_: &str, id_or_end: &str) -> Result<Option<Uuid>> {
    if id_or_end.len() < MIN_SUFFIX_CHARS || !is_id_part(id_or_end) {
        return Ok(None);
    }
    let candidates: Vec<Candidate> = if is_id(id_or_end) {
        let path = format!("/api/graph/objects/{}", encode(&format!("{type_}/{id_or_end}")));
        match client.get(&path).await {
            Err(error) if error.is_not_found() => Vec::new(),
            found => Candidate::from_item(&found?.data().await?, "").into_iter().collect(),
        }
    } else {
        let path = format!("{}?type={}", OBJECTS.path, encode(type_));
        let items: Vec<Value> = client.get_newest(&path, MAX_SEARCHED).await?;
        items.iter().filter_map(|item| Candidate::from_item(item, "")).collect()
    };
    let end = id_or_end.to_ascii_lowercase();
    let found: Vec<&Candidate> = candidates.iter().filter(|candidate| candidate.id.ends_with(&end)).collect();
    match found.as_slice() {
        [] => Ok(None),
        [only] => match only.id.parse() {
            Ok(id) => Ok(Some(id)),
            Err(error) => Err(Error::Unexpected(format!("`{}` is not an id: {error}", only.id))),
        },
        several => {
            Err(ambiguous(OBJECTS.noun, &format!("is the end of {} ids", several.len()), id_or_end, several))
        }
    }
}

/// Whether the text may be an id, or the end of one.
fn is_id_part(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-')
}

/// An item that may be meant.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Candidate {
    id: String,
    name: Option<String>,
}

impl Candidate {
    fn from_item(item: &Value, name_field: &str) -> Option<Self> {
        let name = item.get(name_field).and_then(Value::as_str).map(str::to_owned);
        Some(Self { id: item.get("id")?.as_str()?.to_owned(), name })
    }

    /// How a message names it.
    fn label(&self) -> String {
        match &self.name {
            Some(name) => format!("{} ({name})", short_id(&self.id)),
            None => short_id(&self.id).to_owned(),
        }
    }
}

fn choose(resource: &Resource, reference: &str, candidates: &[Candidate]) -> Result<String> {
    let noun = resource.noun;
    let by_name: Vec<_> =
        candidates.iter().filter(|candidate| candidate.name.as_deref() == Some(reference)).collect();
    match by_name.as_slice() {
        [only] => return Ok(only.id.clone()),
        [] => {}
        several => {
            return Err(ambiguous(
                noun,
                &format!("is the name of {} {noun}s", several.len()),
                reference,
                several,
            ));
        }
    }
    if reference == LAST {
        return match candidates.first() {
            Some(newest) => Ok(newest.id.clone()),
            None => Err(Error::Usage(format!("there is no {noun} yet, so there is no last one"))),
        };
    }
    let suffix = reference.to_ascii_lowercase();
    let is_suffix = is_id_part(&suffix);
    let is_end = |candidate: &Candidate| is_suffix && candidate.id.ends_with(&suffix);
    if suffix.len() < MIN_SUFFIX_CHARS && candidates.iter().any(is_end) {
        return Err(Error::Usage(format!(
            "`{reference}` is too short for the end of an id, which has at least {MIN_SUFFIX_CHARS} characters; \
             `{}` lists the {noun}s",
            hints::command(resource.list_command)
        )));
    }
    let by_suffix: Vec<_> = candidates.iter().filter(|candidate| is_end(candidate)).collect();
    match by_suffix.as_slice() {
        [only] => Ok(only.id.clone()),
        [] => Err(not_found(resource, reference, candidates)),
        several => Err(ambiguous(noun, &format!("is the end of {} ids", several.len()), reference, several)),
    }
}

fn ambiguous(noun: &str, problem: &str, reference: &str, candidates: &[&Candidate]) -> Error {
    let labels: Vec<_> = candidates.iter().take(MAX_LISTED).map(|candidate| candidate.label()).collect();
    let more = if candidates.len() > MAX_LISTED { ", and more" } else { "" };
    Error::Usage(format!("`{reference}` {problem}; name the {noun} by its id: {}{more}", labels.join(", ")))
}

fn not_found(resource: &Resource, reference: &str, candidates: &[Candidate]) -> Error {
    let Resource { noun, list_command, .. } = resource;
    let names = candidates.iter().filter_map(|candidate| candidate.name.as_deref());
    let suggestion = suggestion(reference, names);
    let searched = if candidates.len() >= MAX_SEARCHED {
        format!(" among the newest {MAX_SEARCHED}")
    } else {
        String::new()
    };
    let list = hints::command(list_command);
    Error::Usage(format!("there is no {noun} `{reference}`{searched}{suggestion} (`{list}` lists them)"))
}

/// `; did you mean …?` with the most similar name; empty when none is similar.
pub fn suggestion<'a>(reference: &str, names: impl IntoIterator<Item = &'a str>) -> String {
    let lower = reference.to_lowercase();
    let similar = names.into_iter().map(|name| (strsim::jaro_winkler(&lower, &name.to_lowercase()), name));
    let nearest =
        similar.filter(|(similarity, _)| *similarity >= MIN_SIMILARITY).max_by(|a, b| a.0.total_cmp(&b.0));
    nearest.map(|(_, name)| format!("; did you mean `{name}`?")).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidates() -> Vec<Candidate> {
        let candidate = |end: &str, name: &str| Candidate {
            id: format!("0198c0de-0000-7000-8000-0000{end}"),
            name: Some(name.to_owned()),
        };
        vec![
            candidate("deadbeef", "researcher"),
            candidate("cafebeef", "writer"),
            candidate("00000abc", "twin"),
            candidate("00000def", "twin"),
        ]
    }

    fn chosen(reference: &str) -> Result<String, String> {
        choose(&AGENTS, reference, &candidates()).map_err(|error| error.to_string())
    }

    #[test]
    fn an_item_is_found_by_its_name_the_end_of_its_id_or_as_the_last_one() {
        let ends_with =
            |reference: &str, end: &str| assert!(chosen(reference).unwrap().ends_with(end), "{reference}");
        ends_with("writer", "cafebeef");
        ends_with("deadbeef", "deadbeef");
        ends_with("DBEEF", "deadbeef");
        ends_with("8000-0000cafebeef", "cafebeef");
        ends_with("last", "deadbeef");
    }

    #[test]
    fn what_is_not_unique_is_answered_with_the_candidates() {
        let beef = chosen("beef").unwrap_err();
        assert!(beef.contains("the end of 2 ids") && beef.contains("deadbeef (researcher)"), "{beef}");
        let twin = chosen("twin").unwrap_err();
        assert!(twin.contains("the name of 2 agents") && twin.contains("00000def"), "{twin}");
    }

    #[test]
    fn what_is_not_found_is_answered_with_the_nearest_name() {
        let misspelt = chosen("reseacher").unwrap_err();
        assert_eq!(
            misspelt,
            "there is no agent `reseacher`; did you mean `researcher`? (`emergent agent list --internal` lists them)"
        );
        let unlike = chosen("zzz").unwrap_err();
        assert!(!unlike.contains("did you mean"), "{unlike}");
        for short in ["abc", "bc", "c"] {
            let refused = chosen(short).unwrap_err();
            assert!(refused.contains("too short") && refused.contains("at least 4"), "{refused}");
        }
        assert!(chosen("0abc").unwrap().ends_with("0abc"));
        let none = choose(&RUNS, "last", &[]).unwrap_err().to_string();
        assert!(none.contains("no run yet"), "{none}");
    }
}

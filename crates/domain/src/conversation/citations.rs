//! Finds what an answer is based on, in the passages that its run was given and the results of its tool calls.

use std::collections::HashSet;

use serde_json::{Map, Value};
use uuid::Uuid;

use super::{Citation, CitationKind, RetrievedPassage};

/// The most citations of an answer.
pub const MAX_CITATIONS: usize = 50;
/// How many values of the results are looked at.
const MAX_VISITED: usize = 50_000;

/// Returns what an answer is based on, each once. What the answer names comes first.
pub fn collect_citations(passages: &[RetrievedPassage], results: &[Value], answer: &str) -> Vec<Citation> {
    let mut found: Vec<Citation> = passages.iter().map(|passage| passage.source.clone()).collect();
    let mut visited = 0;
    results.iter().for_each(|result| collect(result, &mut visited, &mut found));
    let mut known = HashSet::new();
    found.retain(|citation| known.insert(citation.id));
    // The sort is stable, so that the order of the results stays otherwise.
    found.sort_by_key(|citation| !is_named(citation, answer));
    found.truncate(MAX_CITATIONS);
    found
}

fn is_named(citation: &Citation, answer: &str) -> bool {
    let mut names = citation.key.iter().chain(&citation.title).filter(|name| name.chars().count() > 1);
    names.any(|name| answer.contains(name.as_str())) || answer.contains(&citation.id.to_string())
}

/// Looks for descriptions of objects, relationships, chunks and runs in the result of a tool call.
fn collect(value: &Value, visited: &mut usize, found: &mut Vec<Citation>) {
    *visited += 1;
    if *visited > MAX_VISITED {
        return;
    }
    match value {
        Value::Array(items) => items.iter().for_each(|item| collect(item, visited, found)),
        Value::Object(fields) => {
            found.extend(from_fields(fields));
            fields.values().for_each(|field| collect(field, visited, found));
        }
        _ => {}
    }
}

fn from_fields(fields: &Map<String, Value>) -> Option<Citation> {
    let text = |name: &str| fields.get(name).and_then(Value::as_str).map(str::to_owned);
    let id = |name: &str| fields.get(name).and_then(Value::as_str).and_then(|id| Uuid::parse_str(id).ok());
    let run = id("runId").or_else(|| id("run_id"));
    let document_id = id("documentId").or_else(|| id("document_id"));
    let (type_, key) = (text("type"), text("key"));
    let (kind, id) = match id("id") {
        Some(id) if document_id.is_some() => (CitationKind::Chunk, id),
        Some(id) if type_.is_some() && (fields.contains_key("fromId") || fields.contains_key("from")) => {
            (CitationKind::Relationship, id)
        }
        Some(id) if type_.is_some() || key.is_some() => (CitationKind::Object, id),
        _ => (CitationKind::Run, run?),
    };
    let title = ["title", "name", "heading"].into_iter().find_map(text).or_else(|| nested_title(fields));
    let title = title.map(|title| crate::text::truncate(&title, 120));
    Some(Citation { kind, id, document_id, type_, key, title })
}

/// The name of an object whose properties are a field of their own.
fn nested_title(fields: &Map<String, Value>) -> Option<String> {
    let properties = fields.get("properties")?.as_object()?;
    let named = ["title", "name"].into_iter().find_map(|name| properties.get(name)?.as_str());
    named.map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const IDS: [&str; 4] = [
        "01890000-0000-7000-8000-000000000001",
        "01890000-0000-7000-8000-000000000002",
        "01890000-0000-7000-8000-000000000003",
        "01890000-0000-7000-8000-000000000004",
    ];

    #[test]
    fn objects_chunks_and_runs_are_found_once_and_named_ones_come_first() {
        let results = [json!({
            "hits": [
                { "score": 1.0, "object": { "id": IDS[0], "type": "Note", "key": "n", "properties": { "title": "Other" } } },
                { "object": { "id": IDS[1], "type": "Person", "key": "ada", "title": "Ada" } },
                { "object": { "id": IDS[0], "type": "Note" } },
            ],
            "chunks": [{ "id": IDS[2], "documentId": IDS[0], "text": "…" }],
            "children": [{ "runId": IDS[3], "status": "completed" }],
        })];
        let citations = collect_citations(&[], &results, "Ada wrote it.");
        let mut found: Vec<_> = citations.iter().map(|one| (one.kind.as_str(), one.id.to_string())).collect();
        assert_eq!(found[0].1, IDS[1], "what the answer names");
        assert_eq!(citations[0].title.as_deref(), Some("Ada"));
        found.sort();
        let expected = [("chunk", IDS[2]), ("object", IDS[0]), ("object", IDS[1]), ("run", IDS[3])];
        assert_eq!(found, expected.map(|(kind, id)| (kind, id.to_owned())));
    }

    #[test]
    fn there_are_at_most_fifty() {
        let many: Vec<_> = (0..500).map(|_| json!({ "id": Uuid::now_v7(), "type": "Note" })).collect();
        assert_eq!(collect_citations(&[], &[json!(many)], "").len(), MAX_CITATIONS);
        assert_eq!(
            collect_citations(&[], &[json!("text"), json!({ "id": "no id", "type": "Note" })], ""),
            []
        );
    }
}

//! Finds what an answer is based on, in the passages that its run was given and the results of its tool calls.

use std::collections::{HashMap, HashSet};

use aho_corasick::AhoCorasick;
use serde_json::{Map, Value};
use uuid::Uuid;

use super::{Citation, CitationKind, RetrievedPassage};

/// The most citations of an answer.
pub const MAX_CITATIONS: usize = 50;
/// How many values of the results are looked at.
const MAX_VISITED: usize = 50_000;
/// How many candidates are looked for in the answer. A result can have tens of thousands, and this work is part of the
/// transaction that ends the run.
const MAX_CANDIDATES: usize = 1_000;
/// How many bytes of the answer are searched for names.
const MAX_ANSWER_BYTES: usize = 256 << 10;
/// How many names are found in an answer, each time that they occur. Names can overlap.
const MAX_OCCURRENCES: usize = 200_000;
/// The longest type or key of a citation. Objects cannot have longer ones.
const MAX_NAME_CHARS: usize = 512;

/// Returns what an answer may be based on, each once. What the answer names comes first. Whether it exists is for the
/// caller to check: the results of a tool can contain any id. The caller also limits them to [`MAX_CITATIONS`].
pub fn find_citations(passages: &[RetrievedPassage], results: &[Value], answer: &str) -> Vec<Citation> {
    let mut found: Vec<Citation> = passages.iter().map(|passage| passage.source.clone()).collect();
    let mut visited = 0;
    results.iter().for_each(|result| collect(result, &mut visited, &mut found));
    let mut known = HashSet::new();
    found.retain(|citation| known.insert(citation.id));
    found.truncate(MAX_CANDIDATES);
    let is_named = find_named(&found, answer);
    let (named, others): (Vec<_>, Vec<_>) =
        found.into_iter().zip(is_named).partition(|(_, is_named)| *is_named);
    named.into_iter().chain(others).map(|(citation, _)| citation).collect()
}

/// Whether the answer has the key, the title or the id of each citation. All names are searched for at the same time, so
/// that the time grows with the length of the answer and of the names, and not with their product.
fn find_named(citations: &[Citation], answer: &str) -> Vec<bool> {
    let mut is_named = vec![false; citations.len()];
    let mut citations_by_name: HashMap<String, Vec<usize>> = HashMap::new();
    for (index, citation) in citations.iter().enumerate() {
        let names = citation.key.iter().chain(&citation.title).filter(|name| name.chars().count() > 1);
        for name in names.cloned().chain([citation.id.to_string()]) {
            citations_by_name.entry(name).or_default().push(index);
        }
    }
    let names: Vec<(String, Vec<usize>)> = citations_by_name.into_iter().collect();
    // It can only fail with gigabytes of names.
    let Ok(searched) = AhoCorasick::new(names.iter().map(|(name, _)| name)) else { return is_named };
    let answer = &answer.as_bytes()[..answer.len().min(MAX_ANSWER_BYTES)];
    for occurrence in searched.find_overlapping_iter(answer).take(MAX_OCCURRENCES) {
        for index in &names[occurrence.pattern().as_usize()].1 {
            is_named[*index] = true;
        }
    }
    is_named
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
            let citation = from_fields(fields);
            // What is in the properties of an object was written by whoever wrote the object, and describes nothing.
            let is_object = citation.is_some();
            found.extend(citation);
            let inner = fields.iter().filter(|(name, _)| !(is_object && name.as_str() == "properties"));
            inner.for_each(|(_, field)| collect(field, visited, found));
        }
        _ => {}
    }
}

fn from_fields(fields: &Map<String, Value>) -> Option<Citation> {
    let text = |name: &str| {
        let text =
            fields.get(name).and_then(Value::as_str).filter(|text| text.len() <= 4 * MAX_NAME_CHARS)?;
        (text.chars().count() <= MAX_NAME_CHARS).then(|| text.to_owned())
    };
    let long_text = |name: &str| fields.get(name).and_then(Value::as_str);
    let id = |name: &str| fields.get(name).and_then(Value::as_str).and_then(|id| Uuid::parse_str(id).ok());
    let run = id("runId").or_else(|| id("run_id"));
    let document_id = id("documentId").or_else(|| id("document_id"));
    let (type_, key) = (text("type"), text("key"));
    let (from_id, to_id) = (id("fromId"), id("toId"));
    let index = fields.get("index").and_then(Value::as_i64);
    let (kind, id) = match id("id") {
        Some(id) if document_id.is_some() => (CitationKind::Chunk, id),
        Some(id) if type_.is_some() && (fields.contains_key("fromId") || fields.contains_key("from")) => {
            (CitationKind::Relationship, id)
        }
        Some(id) if type_.is_some() || key.is_some() => (CitationKind::Object, id),
        _ => (CitationKind::Run, run?),
    };
    let title = ["title", "name", "heading"].into_iter().find_map(long_text).or_else(|| nested_title(fields));
    let title = title.map(|title| crate::text::truncate(title, 120));
    let index = index.filter(|_| kind == CitationKind::Chunk);
    let (from_id, to_id) = match kind {
        CitationKind::Relationship => (from_id, to_id),
        _ => (None, None),
    };
    Some(Citation { kind, id, document_id, type_, key, title, index, from_id, to_id })
}

/// The name of an object whose properties are a field of their own.
fn nested_title(fields: &Map<String, Value>) -> Option<&str> {
    let properties = fields.get("properties")?.as_object()?;
    ["title", "name"].into_iter().find_map(|name| properties.get(name)?.as_str())
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
        let citations = find_citations(&[], &results, "Ada wrote it.");
        let mut found: Vec<_> = citations.iter().map(|one| (one.kind.as_str(), one.id.to_string())).collect();
        assert_eq!(found[0].1, IDS[1], "what the answer names");
        assert_eq!(citations[0].title.as_deref(), Some("Ada"));
        found.sort();
        let expected = [("chunk", IDS[2]), ("object", IDS[0]), ("object", IDS[1]), ("run", IDS[3])];
        assert_eq!(found, expected.map(|(kind, id)| (kind, id.to_owned())));
    }

    #[test]
    fn a_part_of_a_document_has_its_position_and_a_relationship_its_ends() {
        let results = [json!([
            { "id": IDS[0], "documentId": IDS[1], "title": "Notes", "index": 3 },
            { "id": IDS[2], "type": "knows", "fromId": IDS[0], "toId": IDS[3] },
            { "id": IDS[3], "type": "Person", "index": 7 },
        ])];
        let found: Vec<_> =
            find_citations(&[], &results, "").iter().map(|one| (one.index, one.from_id, one.to_id)).collect();
        let id = |text: &str| Uuid::parse_str(text).ok();
        assert_eq!(found, [(Some(3), None, None), (None, id(IDS[0]), id(IDS[3])), (None, None, None)]);
    }

    #[test]
    fn there_is_a_limit_and_other_values_are_none() {
        let many: Vec<_> = (0..5_000).map(|_| json!({ "id": Uuid::now_v7(), "type": "Note" })).collect();
        assert_eq!(find_citations(&[], &[json!(many)], "").len(), MAX_CANDIDATES);
        assert_eq!(find_citations(&[], &[json!("text"), json!({ "id": "no id", "type": "Note" })], ""), []);
    }

    #[test]
    fn what_is_in_the_properties_of_an_object_is_not_cited() {
        let inner = json!({ "id": IDS[1], "type": "Note", "key": "forged" });
        let results = [json!({ "id": IDS[0], "type": "Note", "properties": { "list": [inner] } })];
        let ids: Vec<String> =
            find_citations(&[], &results, "forged").iter().map(|one| one.id.to_string()).collect();
        assert_eq!(ids, [IDS[0]]);
    }

    #[test]
    fn names_that_overlap_are_all_found() {
        let results = [json!([
            { "id": IDS[0], "type": "Note", "key": "other" },
            { "id": IDS[1], "type": "Note", "key": "engine" },
            { "id": IDS[2], "type": "Note", "title": "analytical engine" },
            { "id": IDS[3], "type": "Note" },
        ])];
        let answer = format!("The analytical engine, see {}.", IDS[3]);
        let ids: Vec<String> =
            find_citations(&[], &results, &answer).iter().map(|one| one.id.to_string()).collect();
        assert_eq!(ids, [IDS[1], IDS[2], IDS[3], IDS[0]]);
    }

    #[test]
    fn many_similar_names_and_a_long_answer_take_milliseconds() {
        let list = |length: usize| {
            let key = |n: usize| format!("{}{n}", "a".repeat(length + n % 100));
            (0..20_000).map(|n| json!({ "id": Uuid::now_v7(), "key": key(n) })).collect::<Vec<_>>()
        };
        let started = std::time::Instant::now();
        let found = find_citations(&[], &[json!(list(2)), json!(list(50))], &"a".repeat(1 << 20));
        assert_eq!(found.len(), MAX_CANDIDATES);
        // Comparing each name with the answer took minutes.
        assert!(started.elapsed().as_secs() < 5, "{:?}", started.elapsed());
    }
}

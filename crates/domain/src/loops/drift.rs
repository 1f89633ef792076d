//! What differs in the results of built-in tools although nothing that the call asks for has changed: the scores of a
//! search follow every write to the graph, and a run writes to the graph itself, because its record is there as well.
//! The loop guard compares results without it. The results of external tools are compared as they are.

use std::{borrow::Cow, collections::HashSet};

use serde_json::{Map, Value};

use super::{CallEffect, fingerprint};
use crate::ids::RunId;

/// The type of the objects that are the messages of runs.
const MESSAGE_TYPE: &str = "SessionMessage";
/// The type of the relationships from a session to its messages.
const MESSAGE_EDGE_TYPE: &str = "has_message";
/// The types of objects and relationships in which the server records runs.
const RECORD_TYPES: [&str; 4] = ["Session", MESSAGE_TYPE, "has_session", MESSAGE_EDGE_TYPE];
/// Fields of a run that grow with each of its steps.
const RUN_PROGRESS_FIELDS: [&str; 4] = ["steps", "tokens", "costUsd", "toolCalls"];

/// What may differ in the results of a tool without being news.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Drift {
    Nothing,
    /// Scores, ranks and the order of hits, and whether an embedding was available.
    Hits,
    /// The ids that were not found, which are those of the call.
    Missing,
    /// Messages of the run in a list of objects.
    Objects,
    /// Messages of the run around an object.
    Neighbors,
    /// Relationships to messages of runs.
    Relationships,
    /// Numbers of messages of runs, and numbers that contain them.
    Counts,
    /// The progress of the run itself.
    Runs,
    /// The conversation of the run itself.
    Conversation,
}

impl Drift {
    /// An external tool cannot have the bare name of a built-in one.
    pub(super) fn for_tool(tool: &str, effect: CallEffect) -> Self {
        match tool {
            _ if effect != CallEffect::Reads => Self::Nothing,
            "entities_search" | "search_hybrid" | "search_linked" | "search_semantic" | "search_fts"
            | "search_similar" | "documents_search" => Self::Hits,
            "entities_get" => Self::Missing,
            "entities_query" => Self::Objects,
            "graph_traverse" | "graph_neighbors" => Self::Neighbors,
            "relationships_list" => Self::Relationships,
            "project_info" | "schema_list_types" | "schema_get_type" => Self::Counts,
            "runs_get" | "runs_list" => Self::Runs,
            "runs_messages" => Self::Conversation,
            _ => Self::Nothing,
        }
    }

    /// Returns the result of a call without what is no news. `run` is the run that made the call.
    pub(super) fn remove_from<'a>(
        self,
        output: &'a Value,
        input: &Value,
        run: Option<RunId>,
    ) -> Cow<'a, Value> {
        let (true, Value::Object(fields)) = (self != Self::Nothing, output) else {
            return Cow::Borrowed(output);
        };
        let (mut output, run) = (fields.clone(), run.map(|run| run.to_string()));
        let run = run.as_deref();
        match self {
            Self::Nothing => {}
            Self::Hits => remove_from_hits(&mut output, run),
            Self::Missing => {
                output.remove("missing");
            }
            Self::Objects => {
                let is_asked_for = contains_text(input, MESSAGE_TYPE);
                remove_objects(&mut output, |object| {
                    object["type"] == MESSAGE_TYPE && (!is_asked_for || is_message_of(object, run))
                });
            }
            Self::Neighbors => remove_objects(&mut output, |object| is_message_of(object, run)),
            Self::Relationships if !contains_text(input, MESSAGE_EDGE_TYPE) => {
                remove_objects(&mut output, |edge| edge["type"] == MESSAGE_EDGE_TYPE);
            }
            Self::Relationships => {}
            Self::Counts => remove_counts(&mut output),
            Self::Runs => remove_run_progress(&mut output, run),
            Self::Conversation => {
                if input.get("id").is_none_or(|id| id.as_str() == run) {
                    output.remove("messages");
                }
            }
        }
        Cow::Owned(Value::Object(output))
    }
}

/// Every write to the graph changes the scores, and with them the order of hits that match nearly equally well. So
/// only which hits there are is compared.
fn remove_from_hits(output: &mut Map<String, Value>, run: Option<&str>) {
    for field in ["embedding", "note", "truncated"] {
        output.remove(field);
    }
    // What is left of the texts of a result that was too large depends on the length of the scores.
    let is_shortened = output.remove("_cut").is_some();
    let Some(Value::Array(hits)) = output.get_mut("hits") else { return };
    hits.retain(|hit| !is_message_of(&hit["object"], run));
    for hit in hits.iter_mut().filter_map(Value::as_object_mut) {
        hit.remove("score");
        hit.remove("channels");
        if is_shortened {
            hit.values_mut().filter_map(Value::as_object_mut).for_each(|item| {
                item.retain(|field, _| matches!(field.as_str(), "id" | "version"));
            });
        }
    }
    hits.sort_by_cached_key(fingerprint::value);
}

/// Removes the items of the lists in an answer that are such objects or show one, and the edges between them.
fn remove_objects(output: &mut Map<String, Value>, is_removed: impl Fn(&Value) -> bool) {
    let mut removed = HashSet::new();
    for items in output.values_mut().filter_map(Value::as_array_mut) {
        items.retain(|item| {
            let is_kept = !is_removed(item) && !is_removed(&item["object"]);
            if !is_kept {
                removed.extend(item["id"].as_str().map(str::to_owned));
            }
            is_kept
        });
    }
    let is_end = |id: &Value| id.as_str().is_some_and(|id| removed.contains(id));
    if let Some(Value::Array(edges)) = output.get_mut("edges") {
        edges.retain(|edge| !is_end(&edge["fromId"]) && !is_end(&edge["toId"]));
    }
    // They say where the page ends, which depends on what was removed. A page that nothing was removed from, but that
    // ends at another object, has another object as well.
    for field in ["nextCursor", "truncated", "_cut"] {
        output.remove(field);
    }
}

/// Removes the numbers that the record of the run is counted in. Other types are counted because of their objects, so an
/// agent may wait for these.
fn remove_counts(output: &mut Map<String, Value>) {
    let is_record_type = |name: &str| RECORD_TYPES.contains(&name);
    for total in ["objects", "relationships"] {
        output.remove(total);
    }
    if let Some(Value::Object(embeddings)) = output.get_mut("embeddings") {
        embeddings.remove("done");
    }
    for counts in ["objectsByType", "relationshipsByType"] {
        if let Some(Value::Object(counts)) = output.get_mut(counts) {
            counts.retain(|name, _| !is_record_type(name));
        }
    }
    for types in ["objectTypes", "relationshipTypes"] {
        if let Some(Value::Array(types)) = output.get_mut(types) {
            types.retain(|item| !item["name"].as_str().is_some_and(is_record_type));
        }
    }
    if output.get("name").and_then(Value::as_str).is_some_and(is_record_type) {
        for type_ in ["objectType", "relationshipType"] {
            if let Some(Value::Object(type_)) = output.get_mut(type_) {
                type_.remove("count");
            }
        }
    }
}

/// Removes what each step of the run changes about itself. The progress of other runs is news: an agent may wait for
/// them.
fn remove_run_progress(output: &mut Map<String, Value>, run: Option<&str>) {
    let Some(run) = run else { return };
    let listed = output.values_mut().flat_map(|value| match value {
        Value::Array(items) => items.as_mut_slice(),
        other => std::slice::from_mut(other),
    });
    for shown in listed.filter_map(Value::as_object_mut) {
        if shown.get("id").and_then(Value::as_str) == Some(run) {
            shown.retain(|field, _| !RUN_PROGRESS_FIELDS.contains(&field.as_str()));
        }
    }
}

/// Whether an object is a message of this run.
fn is_message_of(object: &Value, run: Option<&str>) -> bool {
    run.is_some() && object["type"] == MESSAGE_TYPE && object["properties"]["run_id"].as_str() == run
}

fn contains_text(value: &Value, text: &str) -> bool {
    match value {
        Value::String(value) => value == text,
        Value::Array(items) => items.iter().any(|item| contains_text(item, text)),
        Value::Object(map) => map.values().any(|item| contains_text(item, text)),
        _ => false,
    }
}

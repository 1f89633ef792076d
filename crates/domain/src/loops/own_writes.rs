//! What the run itself wrote to the graph. A write that is repeated makes no progress, and neither does a read that shows
//! nothing but its traces: another version of an object, one more equal object, a larger number of them.
//!
//! The guard therefore compares calls and results as if the repeated writes had not been made:
//!
//! - An object that a repeated call created counts as the one that the same call created before: its id is replaced, in
//!   results and in the arguments of later calls.
//! - Versions that repeated writes made are not counted. Those that anybody else made are.
//! - Rows of a list that are equal then count once.
//! - Numbers of objects of a type are reduced by those that repeated calls have added.
//!
//! Everything else is compared as it is. What others change is news, also in an object that the run keeps writing.

use std::{
    borrow::Cow,
    collections::{HashMap, HashSet},
};

use serde_json::{Map, Value};

use super::fingerprint;

/// The built-in tools that change what they return: objects, relationships, documents and tasks with their ids.
const WRITING_TOOLS: [&str; 4] = ["entities_", "relationships_", "documents_", "tasks_"];
/// The times that the server sets. They change with the version.
const SERVER_TIMES: [&str; 3] = ["createdAt", "updatedAt", "deletedAt"];
/// What the ids of its own objects are replaced with begins with this.
const OWN_ID: &str = "own object ";
/// So many objects of its own a run is known to have written. Those after them are compared as they are.
const MAX_ITEMS: usize = 20_000;
/// The numbers of all rows, also of those that a list does not show.
pub(super) const TOTALS: [&str; 2] = ["total", "count"];
/// So many rows of lists are remembered.
const MAX_ROWS: usize = 50_000;

#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct OwnWrites {
    /// The objects and relationships that the run wrote, by the hashes of their ids.
    items: HashMap<u64, OwnItem>,
    /// The newest of them that has a name, by the hash of `Type/key`.
    names: HashMap<u64, u64>,
    /// How many more of a type there are because calls were repeated.
    extra: HashMap<String, i64>,
    /// Whether any write was repeated.
    is_repeated: bool,
    /// The rows of lists that the run has read.
    rows: HashSet<u64>,
}

#[derive(Debug, Clone, PartialEq)]
struct OwnItem {
    /// The call that wrote it first, and which of its results it is.
    alias: u64,
    /// The calls that wrote it, by their fingerprints.
    writers: Vec<u64>,
    /// The versions that the run made, oldest first.
    versions: Vec<i64>,
    /// Those of them that a call made that had written it before.
    repeated_versions: Vec<i64>,
    /// Whether it exists only because a call was repeated.
    is_extra: bool,
}

/// A write, and which of the objects that it returned is meant.
#[derive(Debug, Clone, Copy)]
struct Write {
    call: u64,
    place: usize,
    is_repetition: bool,
}

impl OwnWrites {
    /// Records what a successful write returned. `call` is the fingerprint of the call.
    pub(super) fn record(&mut self, tool: &str, call: u64, output: &Value, is_repetition: bool) {
        if !WRITING_TOOLS.iter().any(|prefix| tool.starts_with(prefix)) {
            return;
        }
        self.is_repeated |= is_repetition;
        let is_deletion = tool.ends_with("_delete");
        let mut write = Write { call, place: 0, is_repetition };
        self.record_items(output, &mut |own, item| {
            let Some(id) = item.get("id").and_then(Value::as_str) else { return };
            write.place += 1;
            own.record_item(fingerprint::text(id), item, write);
            if is_deletion {
                own.record_deletion(fingerprint::text(id), item);
            }
        });
    }

    fn record_items(&mut self, output: &Value, record: &mut impl FnMut(&mut Self, &Map<String, Value>)) {
        match output {
            Value::Array(items) => items.iter().for_each(|item| self.record_items(item, record)),
            Value::Object(fields) => {
                record(self, fields);
                fields
                    .iter()
                    // What a user wrote may look like an object of the graph.
                    .filter(|(name, _)| *name != "properties")
                    .for_each(|(_, value)| self.record_items(value, record));
            }
            _ => {}
        }
    }

    fn record_item(&mut self, id: u64, item: &Map<String, Value>, write: Write) {
        let version = item.get("version").and_then(Value::as_i64);
        let is_full = self.items.len() >= MAX_ITEMS;
        match self.items.get_mut(&id) {
            Some(known) => known.record_version(write.call, version),
            None if is_full => return,
            None => {
                let is_extra = write.is_repetition && version.is_none_or(|version| version == 1);
                let mut new = OwnItem::new(fingerprint::place(write.call, write.place), is_extra);
                new.record_version(write.call, version);
                self.items.insert(id, new);
                if is_extra && let Some(type_) = item.get("type").and_then(Value::as_str) {
                    *self.extra.entry(type_.to_owned()).or_default() += 1;
                }
            }
        }
        let text = |field| item.get(field).and_then(Value::as_str);
        if let (Some(type_), Some(key)) = (text("type"), text("key")) {
            self.names.insert(fingerprint::text(&format!("{type_}/{key}")), id);
        }
    }

    fn record_deletion(&mut self, id: u64, item: &Map<String, Value>) {
        let Some(known) = self.items.get_mut(&id) else { return };
        if std::mem::take(&mut known.is_extra)
            && let Some(count) =
                item.get("type").and_then(Value::as_str).and_then(|type_| self.extra.get_mut(type_))
        {
            *count -= 1;
        }
    }

    fn item(&self, id: &str) -> Option<&OwnItem> {
        self.items.get(&fingerprint::text(id))
    }

    /// Returns the arguments of a call as they were if the writes before it had not been repeated.
    pub(super) fn remove_from_input<'a>(&self, input: &'a Value) -> Cow<'a, Value> {
        if self.items.is_empty() {
            return Cow::Borrowed(input);
        }
        let mut input = input.clone();
        self.remove_from_arguments(&mut input);
        Cow::Owned(input)
    }

    fn remove_from_arguments(&self, value: &mut Value) {
        match value {
            Value::String(text) => {
                if let Some(item) = self.item(text) {
                    *text = item.name();
                }
            }
            Value::Array(items) => items.iter_mut().for_each(|item| self.remove_from_arguments(item)),
            Value::Object(fields) => {
                let named = fields.get("id").and_then(Value::as_str).map(fingerprint::text);
                let item =
                    named.and_then(|id| self.items.get(&id).or_else(|| self.items.get(self.names.get(&id)?)));
                let expected = fields.get("expectedVersion").and_then(Value::as_i64);
                // The object is expected to be as the run left it.
                if item.zip(expected).is_some_and(|(item, version)| item.versions.contains(&version)) {
                    fields.remove("expectedVersion");
                }
                fields.values_mut().for_each(|value| self.remove_from_arguments(value));
            }
            _ => {}
        }
    }

    /// Returns the result of a read without the traces of the writes that were repeated.
    pub(super) fn remove_from<'a>(&self, output: &'a Value) -> Cow<'a, Value> {
        if self.items.is_empty() {
            return Cow::Borrowed(output);
        }
        let mut output = output.clone();
        self.remove_from_result(&mut output);
        Cow::Owned(output)
    }

    fn remove_from_result(&self, value: &mut Value) {
        match value {
            Value::String(text) => {
                if let Some(item) = self.item(text) {
                    *text = item.name();
                }
            }
            Value::Array(items) => items.iter_mut().for_each(|item| self.remove_from_result(item)),
            Value::Object(fields) => {
                self.remove_from_item(fields);
                self.remove_from_counts(fields);
                fields.values_mut().for_each(|value| self.remove_from_result(value));
            }
            _ => {}
        }
    }

    /// Removes the traces from an object or relationship, if it is one.
    fn remove_from_item(&self, fields: &mut Map<String, Value>) {
        let item = |field| fields.get(field).and_then(Value::as_str).and_then(|id| self.item(id));
        let is_rewritten = |item: &OwnItem| !item.repeated_versions.is_empty();
        // Deleting an object and restoring it does the same with its relationships.
        let has_rewritten_end = ["fromId", "toId"].into_iter().filter_map(item).any(is_rewritten);
        match item("id") {
            None if has_rewritten_end => {
                fields.remove("version");
                SERVER_TIMES.iter().for_each(|time| drop(fields.remove(*time)));
            }
            None => {}
            Some(item) => {
                fields.remove("createdAt");
                // Without a version, the time alone says that somebody changed it.
                if fields.contains_key("version") || item.is_extra || is_rewritten(item) {
                    SERVER_TIMES.iter().for_each(|time| drop(fields.remove(*time)));
                }
                if let Some(version) = fields.get_mut("version") {
                    item.remove_from_version(version);
                }
            }
        }
    }

    fn remove_from_counts(&self, fields: &mut Map<String, Value>) {
        if !self.is_repeated {
            return;
        }
        let reduce = |type_: &str, count: &mut Value| {
            if let (Some(extra), Some(number)) = (self.extra.get(type_), count.as_i64()) {
                *count = Value::from(number - extra);
            }
        };
        for counts in ["objectsByType", "relationshipsByType"] {
            if let Some(Value::Object(counts)) = fields.get_mut(counts) {
                counts.iter_mut().for_each(|(type_, count)| reduce(type_, count));
            }
        }
        if let Some(name) = fields.get("name").and_then(Value::as_str).map(str::to_owned) {
            if let Some(count) = fields.get_mut("count") {
                reduce(&name, count);
            }
            for part in ["objectType", "relationshipType"] {
                if let Some(count) = fields.get_mut(part).and_then(|part| part.get_mut("count")) {
                    reduce(&name, count);
                }
            }
        }
    }

    /// Removes all but one of the equal rows of each list that the run wrote itself.
    pub(super) fn merge_equal_rows(&mut self, output: &mut Value) -> MergedRows {
        let mut merged = MergedRows::default();
        let Value::Object(fields) = output else { return merged };
        for rows in fields.values_mut().filter_map(Value::as_array_mut) {
            let mut found = HashSet::new();
            rows.retain(|row| {
                let is_first = found.insert(fingerprint::value(row)) || !is_own(row);
                merged.removed += usize::from(!is_first);
                is_first
            });
            merged.has_new |= found.iter().any(|row| !self.rows.contains(row));
            if self.rows.len() < MAX_ROWS {
                self.rows.extend(found);
            }
        }
        for total in TOTALS {
            if let Some(total) = fields.get_mut(total)
                && let Some(number) = total.as_u64()
            {
                *total = Value::from(number.saturating_sub(merged.removed as u64));
            }
        }
        merged
    }
}

/// What was found in the lists of a result.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct MergedRows {
    /// How many rows were equal to another one.
    pub removed: usize,
    /// Whether there is a row that the run has not read before.
    pub has_new: bool,
}

/// Whether a result has room for some rows only.
pub(super) fn is_limited(output: &Value) -> bool {
    ["nextCursor", "hits", "_cut"].iter().any(|field| output.get(field).is_some())
        || output["truncated"] == Value::Bool(true)
}

/// Whether a row shows an object that the run wrote.
fn is_own(row: &Value) -> bool {
    match row {
        Value::Object(fields) => fields.iter().any(|(name, value)| match value {
            Value::String(text) => name == "id" && text.starts_with(OWN_ID),
            value => is_own(value),
        }),
        Value::Array(items) => items.iter().any(is_own),
        _ => false,
    }
}

impl OwnItem {
    fn new(alias: u64, is_extra: bool) -> Self {
        Self { alias, writers: Vec::new(), versions: Vec::new(), repeated_versions: Vec::new(), is_extra }
    }

    /// A call has written it, and this is the version now.
    fn record_version(&mut self, call: u64, version: Option<i64>) {
        let is_repeated = self.writers.contains(&call);
        if !is_repeated {
            self.writers.push(call);
        }
        let newest = self.versions.last().copied().unwrap_or(0);
        let Some(version) = version.filter(|version| *version > newest) else { return };
        self.versions.push(version);
        if is_repeated {
            self.repeated_versions.push(version);
        }
    }

    fn name(&self) -> String {
        format!("{OWN_ID}{:x}", self.alias)
    }

    /// Reduces a version by those up to it that repeated writes made.
    fn remove_from_version(&self, version: &mut Value) {
        if let Some(number) = version.as_i64() {
            let repeated = self.repeated_versions.partition_point(|made| *made <= number);
            *version = Value::from(number - i64::try_from(repeated).unwrap_or(0));
        }
    }
}

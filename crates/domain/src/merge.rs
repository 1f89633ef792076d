//! Merging two descriptions of the same entity: whether they match, what the merged entity
//! contains, and the reason that is recorded.
//!
//! A merge keeps existing values, fills in missing ones, and reports where the two descriptions differ. It
//! replaces a value only if the new description says that it supersedes this one: two texts that differ may be
//! about the same time, and then nobody knows which of them is right.

use std::{collections::HashSet, fmt::Write};

use serde_json::{Map, Value};

use crate::{
    ids::{ChatMessageId, ChunkId, ConversationId, DocumentId, ObjectId, RunId},
    indexed_text::NAME_PROPERTIES,
    object::{NewObject, Object, ObjectPatch, limits},
    patch::canonical_json,
    relationship::{NewRelationship, Relationship, RelationshipPatch},
    text::is_control,
};

#[cfg(test)]
mod tests;

/// The minimum cosine similarity of two texts that describe the same entity.
pub const MIN_SIMILARITY: f64 = 0.92;
/// The minimum lead over the second most similar candidate. If two candidates are almost equally
/// similar, neither is chosen.
pub const MIN_LEAD: f64 = 0.03;
/// The maximum length of a recorded reason.
pub const MAX_REASON_BYTES: usize = 1_000;
/// The maximum length of the field of a conflict. The names of nested values have no limit of their own, and each of
/// many values below a long name would repeat it.
const MAX_FIELD_BYTES: usize = 512;

/// A chunk of a document that an entity or relationship was extracted from: its citation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    pub chunk: ChunkId,
    pub document: DocumentId,
    /// The title of the document.
    pub title: String,
    /// The index of the chunk in the document, counted from 0.
    pub index: i64,
    pub heading: Option<String>,
    /// True if the document has been deleted since.
    pub deleted: bool,
    /// If the document is a message of a conversation: the message, its conversation, and the run that answered it.
    /// None as well if the conversation was deleted.
    pub message: Option<ChatMessageId>,
    pub conversation: Option<ConversationId>,
    pub run: Option<RunId>,
}

/// The rule by which two objects were recognised as the same.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum MatchedBy {
    Key,
    Name,
    /// Holds the cosine similarity of the two vectors.
    Similar(f64),
}

impl MatchedBy {
    pub fn as_str(self) -> &'static str {
        match self {
            MatchedBy::Key => "key",
            MatchedBy::Name => "name",
            MatchedBy::Similar(_) => "similarity",
        }
    }
}

/// An object that may be the same as the new one, and the rule that suggests it.
#[derive(Debug, Clone, Copy)]
pub struct Candidate<'a> {
    pub object: &'a Object,
    pub by: MatchedBy,
}

/// Chooses the existing object that a new one describes, if there is one: first by key, then by an
/// equal name that no other candidate has, then by a similarity that clearly exceeds all others.
pub fn choose_match(new: &NewObject, candidates: &[Candidate<'_>]) -> Option<(ObjectId, MatchedBy)> {
    let same_type = || candidates.iter().filter(|candidate| candidate.object.type_ == new.type_);
    let key = merge_key(new);
    if key.is_some()
        && let Some(matched) = same_type().find(|candidate| candidate.object.key == key)
    {
        return Some((matched.object.id, MatchedBy::Key));
    }
    let mut named: Vec<ObjectId> = same_type()
        .filter(|candidate| same_name(candidate.object, new))
        .map(|candidate| candidate.object.id)
        .collect();
    named.sort_unstable();
    named.dedup();
    if let [only] = named[..] {
        return Some((only, MatchedBy::Name));
    }
    let mut alike: Vec<(f64, &Object)> = same_type()
        .filter_map(|candidate| match candidate.by {
            MatchedBy::Similar(score) => Some((score, candidate.object)),
            MatchedBy::Key | MatchedBy::Name => None,
        })
        .collect();
    alike.sort_unstable_by(|a, b| b.0.total_cmp(&a.0).then(a.1.id.cmp(&b.1.id)));
    let (score, best) = *alike.first()?;
    let next = alike.get(1).map_or(f64::NEG_INFINITY, |(score, _)| *score);
    // The texts of "Meeting 2023" and "Meeting 2024" are nearly identical, but the meetings are
    // different, so numbers in the names must be equal.
    let counted =
        numbers_in(display_name(&best.properties.to_map())) == numbers_in(display_name(&new.properties));
    (score >= MIN_SIMILARITY && score - next >= MIN_LEAD && counted)
        .then_some((best.id, MatchedBy::Similar(score)))
}

/// Returns whether an object has the same type and name as a new one.
pub fn same_name(object: &Object, new: &NewObject) -> bool {
    let name = |properties| display_name(properties).map(normalized_name).filter(|name| !name.is_empty());
    let expected = name(&new.properties);
    object.type_ == new.type_ && expected.is_some() && name(&object.properties.to_map()) == expected
}

/// Returns the name of the entity, from the first of the naming properties that is set.
pub fn display_name(properties: &Map<String, Value>) -> Option<&str> {
    NAME_PROPERTIES.iter().find_map(|naming| properties.get(*naming)?.as_str())
}

/// Normalises a name, so that names which differ only in case, spaces, hyphens and dots are equal.
/// Other symbols remain, because C, C++ and C# are three different names.
pub fn normalized_name(name: &str) -> String {
    let apart = |c: char| c.is_whitespace() || is_control(c) || "-_.,;:'\"`’‘“”‐‑–—".contains(c);
    let words: Vec<String> =
        name.split(apart).filter(|word| !word.is_empty()).map(str::to_lowercase).collect();
    words.join(" ")
}

/// Returns the key of a new object, or one derived from its name. Two writers who create the same
/// entity concurrently then conflict in the unique index of keys.
pub fn merge_key(new: &NewObject) -> Option<String> {
    let named = || display_name(&new.properties).map(|name| normalized_name(name).replace(' ', "-"));
    new.key.clone().or_else(named).filter(|key| (1..=limits::KEY).contains(&key.len()))
}

fn numbers_in(name: Option<&str>) -> Vec<&str> {
    let digits = name.unwrap_or_default().split(|c: char| !c.is_numeric());
    digits.filter(|number| !number.is_empty()).collect()
}

/// A field on which two descriptions differ: the value that stays, and the value that was offered.
#[derive(Debug, Clone, PartialEq)]
pub struct MergeConflict {
    /// `status`, or the path of a property: `properties.address.city`.
    pub field: String,
    pub kept: Value,
    pub offered: Value,
}

/// A property whose value is no longer true: the value that the versions before have, and the new one.
#[derive(Debug, Clone, PartialEq)]
pub struct Replacement {
    /// The path of the property: `properties.role`.
    pub field: String,
    pub before: Value,
    pub after: Value,
}

/// The result of merging a new description into an existing entity.
#[derive(Debug, Clone, PartialEq)]
pub struct MergeResult<P> {
    /// `None` if the new description adds nothing.
    pub patch: Option<P>,
    pub replaced: Vec<Replacement>,
    pub conflicts: Vec<MergeConflict>,
}

/// Fills missing values of the object, unites lists and labels, replaces the values of the `superseded` properties,
/// and leaves every other value unchanged.
pub fn merge_object(before: &Object, new: &NewObject, superseded: &[String]) -> MergeResult<ObjectPatch> {
    let properties = before.properties.to_map();
    let replaced = replacements(&properties, &new.properties, superseded);
    let mut conflicts = Vec::new();
    let mut patch = ObjectPatch {
        key: fill("key", &before.key, &new.key, &mut conflicts),
        status: fill("status", &before.status, &new.status, &mut conflicts),
        ..ObjectPatch::default()
    };
    if new.labels.iter().any(|label| !before.labels.contains(label)) {
        let mut labels = [before.labels.as_slice(), new.labels.as_slice()].concat();
        labels.sort_unstable();
        labels.dedup();
        patch.labels = Some(labels);
    }
    // What is replaced is not compared.
    let is_replaced = |name: &str| replaced.names.contains(name);
    let rest = new.properties.iter().filter(|(name, _)| !is_replaced(name));
    let mut changes = merge_properties(&properties, rest, &mut conflicts).unwrap_or_default();
    for (name, value) in new.properties.iter().filter(|(name, _)| is_replaced(name)) {
        changes.insert(name.clone(), value.clone());
    }
    patch.properties = (!changes.is_empty()).then_some(changes);
    let replaced = replaced.values;
    MergeResult { patch: (patch != ObjectPatch::default()).then_some(patch), replaced, conflicts }
}

/// The properties whose values are replaced.
#[derive(Default)]
struct Replaced<'a> {
    names: HashSet<&'a str>,
    values: Vec<Replacement>,
}

/// The superseded properties whose value changes. A property that the object does not have yet is not replaced, and
/// one that has the same value already is not changed.
fn replacements<'a>(
    before: &Map<String, Value>,
    new: &Map<String, Value>,
    superseded: &'a [String],
) -> Replaced<'a> {
    let mut replaced = Replaced::default();
    let mut seen = HashSet::new();
    for name in superseded {
        let (Some(current), Some(value)) = (before.get(name), new.get(name)) else { continue };
        if !seen.insert(name) || current.is_null() || value.is_null() {
            continue;
        }
        if canonical_json(current) != canonical_json(value) {
            replaced.names.insert(name);
            let (before, after) = (current.clone(), value.clone());
            replaced.values.push(Replacement { field: property_path(name), before, after });
        }
    }
    replaced
}

fn property_path(name: &str) -> String {
    format!("properties.{name}")
}

/// Merges like [`merge_object`], for a relationship with the same type and ends.
pub fn merge_relationship(before: &Relationship, new: &NewRelationship) -> MergeResult<RelationshipPatch> {
    let mut conflicts = Vec::new();
    let patch = RelationshipPatch {
        weight: fill("weight", &before.weight, &new.weight, &mut conflicts),
        properties: merge_properties(&before.properties.to_map(), &new.properties, &mut conflicts),
        expected_version: None,
    };
    MergeResult {
        patch: (patch != RelationshipPatch::default()).then_some(patch),
        replaced: Vec::new(),
        conflicts,
    }
}

fn fill<T: Clone + PartialEq>(
    field: &str,
    before: &Option<T>,
    new: &Option<T>,
    conflicts: &mut Vec<MergeConflict>,
) -> Option<Option<T>>
where
    Value: From<T>,
{
    match (before, new) {
        (None, Some(_)) => Some(new.clone()),
        (Some(current), Some(offered)) if current != offered => {
            conflicts.push(MergeConflict {
                field: field.to_owned(),
                kept: current.clone().into(),
                offered: offered.clone().into(),
            });
            None
        }
        _ => None,
    }
}

/// Returns the properties that change, each with its complete new value, or `None` if none changes.
fn merge_properties<'a>(
    before: &Map<String, Value>,
    new: impl IntoIterator<Item = (&'a String, &'a Value)>,
    conflicts: &mut Vec<MergeConflict>,
) -> Option<Map<String, Value>> {
    let mut changes = Map::new();
    for (name, offered) in new.into_iter().filter(|(_, offered)| !offered.is_null()) {
        let value = match before.get(name) {
            None | Some(Value::Null) => Some(offered.clone()),
            Some(current) => merge_value(&mut property_path(name), current, offered, conflicts),
        };
        if let Some(value) = value {
            changes.insert(name.clone(), value);
        }
    }
    (!changes.is_empty()).then_some(changes)
}

/// Merges an offered value into the current one. Returns `None` if the current value does not
/// change. The recursion is bounded by [`limits::DEPTH`]. `field` is the same afterwards: one text serves all values,
/// because a copy for each of many values below a long name would take far more than the values.
fn merge_value(
    field: &mut String,
    current: &Value,
    offered: &Value,
    conflicts: &mut Vec<MergeConflict>,
) -> Option<Value> {
    match (current, offered) {
        (Value::Array(current), Value::Array(offered)) => {
            let mut all = current.clone();
            let mut texts: HashSet<String> = current.iter().map(canonical_json).collect();
            all.extend(offered.iter().filter(|item| texts.insert(canonical_json(item))).cloned());
            (all.len() > current.len()).then_some(Value::Array(all))
        }
        (Value::Object(current), Value::Object(offered)) => {
            let mut all = current.clone();
            let mut changed = false;
            for (name, item) in offered {
                let value = match current.get(name) {
                    None | Some(Value::Null) if item.is_null() => None,
                    None | Some(Value::Null) => Some(item.clone()),
                    Some(_) if item.is_null() => None,
                    Some(value) => {
                        let length = field.len();
                        field.push('.');
                        field.push_str(name);
                        let merged = merge_value(field, value, item, conflicts);
                        field.truncate(length);
                        merged
                    }
                };
                if let Some(value) = value {
                    changed = true;
                    all.insert(name.clone(), value);
                }
            }
            changed.then_some(Value::Object(all))
        }
        _ if canonical_json(current) == canonical_json(offered) => None,
        _ => {
            let field = truncate(field, MAX_FIELD_BYTES);
            conflicts.push(MergeConflict { field, kept: current.clone(), offered: offered.clone() });
            None
        }
    }
}

/// The reason that is recorded with a merged version: the matching rule, the source, the values that were replaced,
/// and those that were not taken over. `shared` is the key or the name that both have.
pub fn merge_reason(
    by: MatchedBy,
    shared: &str,
    source: Option<&Source>,
    replaced: &[Replacement],
    conflicts: &[MergeConflict],
) -> String {
    let shared = truncate(shared, 120);
    let mut text = match by {
        MatchedBy::Key => format!("merged by key `{shared}`"),
        MatchedBy::Name => format!("merged by equal name `{shared}`"),
        MatchedBy::Similar(score) => format!("merged by similarity {score:.3} with `{shared}`"),
    };
    append_details(&mut text, source, replaced, conflicts);
    text
}

/// The reason that is recorded with the deletion of a relationship that a text says to have ended.
pub fn ended_reason(source: &Source) -> String {
    let mut text = "ended".to_owned();
    append_details(&mut text, Some(source), &[], &[]);
    text
}

/// The reason for a merged relationship, which is matched by its type and ends.
pub fn relationship_merge_reason(source: Option<&Source>, conflicts: &[MergeConflict]) -> String {
    let mut text = "merged with the relationship of the same type and ends".to_owned();
    append_details(&mut text, source, &[], conflicts);
    text
}

fn append_details(
    text: &mut String,
    source: Option<&Source>,
    replaced: &[Replacement],
    conflicts: &[MergeConflict],
) {
    if let Some(source) = source {
        let title = truncate(&source.title, 120);
        // Writing to a `String` cannot fail.
        let _ = write!(
            text,
            ", from document `{title}` ({}), chunk {} ({})",
            source.document, source.index, source.chunk
        );
    }
    let value = |value: &Value| match value {
        Value::String(text) => truncate(text, 60),
        other => truncate(&other.to_string(), 60),
    };
    let replaced_details = replaced.iter().enumerate().map(|(index, one)| {
        let start = if index == 0 { "; replaced" } else { "," };
        let (field, before, after) = (truncate(&one.field, 80), value(&one.before), value(&one.after));
        format!("{start} {field} `{before}` by `{after}`")
    });
    let kept_details = conflicts.iter().enumerate().map(|(index, one)| {
        let start = if index == 0 { "; kept" } else { "," };
        let (field, kept, offered) = (truncate(&one.field, 80), value(&one.kept), value(&one.offered));
        format!("{start} {field} `{kept}` instead of `{offered}`")
    });
    let count = replaced.len() + conflicts.len();
    for (index, detail) in replaced_details.chain(kept_details).enumerate() {
        let more = format!(" and {} more", count - index);
        if text.len() + detail.len() + more.len() > MAX_REASON_BYTES {
            text.push_str(&more);
            break;
        }
        text.push_str(&detail);
    }
}

/// Truncates a text at a character boundary.
fn truncate(text: &str, max_bytes: usize) -> String {
    if text.len() <= max_bytes {
        return text.to_owned();
    }
    format!("{}…", &text[..text.floor_char_boundary(max_bytes - '…'.len_utf8())])
}

//! Two descriptions of one thing: whether they are of one, what becomes of them, and how that is
//! told. Nothing is replaced: what is there stays, what is missing comes in, and where the two
//! differ it is said.

use std::fmt::Write;

use serde_json::{Map, Value};

use crate::{
    ids::{ChunkId, DocumentId, ObjectId},
    indexed_text::NAME_PROPERTIES,
    object::{NewObject, Object, ObjectPatch, limits},
    patch::canonical_json,
    relationship::{NewRelationship, Relationship, RelationshipPatch},
};

#[cfg(test)]
mod tests;

/// As near as two texts must be to be of one thing …
pub const MIN_SIMILARITY: f64 = 0.92;
/// … and this much nearer than the next: between two that fit equally, nobody should guess.
pub const MIN_LEAD: f64 = 0.03;
/// Bytes of a reason.
pub const MAX_REASON_BYTES: usize = 1_000;

/// A passage that says something: where an entity was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    pub chunk: ChunkId,
    pub document: DocumentId,
    /// The document's.
    pub title: String,
    /// The chunk's place in the document, from 0.
    pub index: i64,
    pub heading: Option<String>,
    /// The document was deleted since.
    pub deleted: bool,
}

/// By what an object was found to be the same.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum MatchedBy {
    Key,
    Name,
    /// With the cosine of the two vectors.
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

/// An object that may be the same, and what speaks for it.
#[derive(Debug, Clone, Copy)]
pub struct Candidate<'a> {
    pub object: &'a Object,
    pub by: MatchedBy,
}

/// The object that a new one is about, if one is: by key, else by an equal name that no other has,
/// else by being far more alike than any other.
pub fn choose_match(new: &NewObject, candidates: &[Candidate<'_>]) -> Option<(ObjectId, MatchedBy)> {
    let same_type = || candidates.iter().filter(|one| one.object.type_ == new.type_);
    let key = merge_key(new);
    if key.is_some()
        && let Some(found) = same_type().find(|one| one.object.key == key)
    {
        return Some((found.object.id, MatchedBy::Key));
    }
    let mut named: Vec<ObjectId> =
        same_type().filter(|one| same_name(one.object, new)).map(|one| one.object.id).collect();
    named.sort_unstable();
    named.dedup();
    if let [only] = named[..] {
        return Some((only, MatchedBy::Name));
    }
    let mut alike: Vec<(f64, &Object)> = same_type()
        .filter_map(|one| match one.by {
            MatchedBy::Similar(score) => Some((score, one.object)),
            MatchedBy::Key | MatchedBy::Name => None,
        })
        .collect();
    alike.sort_unstable_by(|a, b| b.0.total_cmp(&a.0).then(a.1.id.cmp(&b.1.id)));
    let (score, best) = *alike.first()?;
    let next = alike.get(1).map_or(f64::NEG_INFINITY, |(score, _)| *score);
    // Texts of "Meeting 2023" and "Meeting 2024" are nearly the same, the meetings are not.
    let counted =
        numbers_in(display_name(&best.properties.to_map())) == numbers_in(display_name(&new.properties));
    (score >= MIN_SIMILARITY && score - next >= MIN_LEAD && counted)
        .then_some((best.id, MatchedBy::Similar(score)))
}

/// Whether an object has a new one's name.
pub fn same_name(object: &Object, new: &NewObject) -> bool {
    let name = |properties| display_name(properties).map(normalized_name).filter(|name| !name.is_empty());
    let wanted = name(&new.properties);
    object.type_ == new.type_ && wanted.is_some() && name(&object.properties.to_map()) == wanted
}

/// What a thing is called.
pub fn display_name(properties: &Map<String, Value>) -> Option<&str> {
    NAME_PROPERTIES.iter().find_map(|naming| properties.get(*naming)?.as_str())
}

/// One spelling for names that differ in case, spaces, hyphens and dots. Signs that mean something
/// stay: C, C++ and C# are three.
pub fn normalized_name(name: &str) -> String {
    let apart = |c: char| c.is_whitespace() || c.is_control() || "-_.,;:'\"`’‘“”‐‑–—".contains(c);
    let words: Vec<String> =
        name.split(apart).filter(|word| !word.is_empty()).map(str::to_lowercase).collect();
    words.join(" ")
}

/// The key of a new object, or the one its name makes: so that two who find the same thing at once
/// meet in the index of keys.
pub fn merge_key(new: &NewObject) -> Option<String> {
    let named = || display_name(&new.properties).map(|name| normalized_name(name).replace(' ', "-"));
    new.key.clone().or_else(named).filter(|key| (1..=limits::KEY).contains(&key.len()))
}

fn numbers_in(name: Option<&str>) -> Vec<&str> {
    let digits = name.unwrap_or_default().split(|c: char| !c.is_numeric());
    digits.filter(|number| !number.is_empty()).collect()
}

/// Where two descriptions differ: what stays, and what was offered instead.
#[derive(Debug, Clone, PartialEq)]
pub struct MergeConflict {
    /// `status`, or a property: `properties.address.city`.
    pub field: String,
    pub kept: Value,
    pub offered: Value,
}

/// What comes of joining a new description with one that is there.
#[derive(Debug, Clone, PartialEq)]
pub struct MergeResult<P> {
    /// `None` when there is nothing new in it.
    pub patch: Option<P>,
    pub conflicts: Vec<MergeConflict>,
}

/// Fills what the object lacks, unites lists and labels, and keeps every other value it has.
pub fn merge_object(before: &Object, new: &NewObject) -> MergeResult<ObjectPatch> {
    let mut kept = Vec::new();
    let mut patch = ObjectPatch {
        key: fill("key", &before.key, &new.key, &mut kept),
        status: fill("status", &before.status, &new.status, &mut kept),
        ..ObjectPatch::default()
    };
    if new.labels.iter().any(|label| !before.labels.contains(label)) {
        let mut labels = [before.labels.as_slice(), new.labels.as_slice()].concat();
        labels.sort_unstable();
        labels.dedup();
        patch.labels = Some(labels);
    }
    patch.properties = merge_properties(&before.properties.to_map(), &new.properties, &mut kept);
    MergeResult { patch: (patch != ObjectPatch::default()).then_some(patch), conflicts: kept }
}

/// As [`merged`], of a relationship with the same type and ends.
pub fn merge_relationship(before: &Relationship, new: &NewRelationship) -> MergeResult<RelationshipPatch> {
    let mut kept = Vec::new();
    let patch = RelationshipPatch {
        weight: fill("weight", &before.weight, &new.weight, &mut kept),
        properties: merge_properties(&before.properties.to_map(), &new.properties, &mut kept),
        expected_version: None,
    };
    MergeResult { patch: (patch != RelationshipPatch::default()).then_some(patch), conflicts: kept }
}

fn fill<T: Clone + PartialEq>(
    field: &str,
    before: &Option<T>,
    new: &Option<T>,
    kept: &mut Vec<MergeConflict>,
) -> Option<Option<T>>
where
    Value: From<T>,
{
    match (before, new) {
        (None, Some(_)) => Some(new.clone()),
        (Some(there), Some(offered)) if there != offered => {
            kept.push(MergeConflict {
                field: field.to_owned(),
                kept: there.clone().into(),
                offered: offered.clone().into(),
            });
            None
        }
        _ => None,
    }
}

/// The properties that change, each with its whole value; `None` when none does.
fn merge_properties(
    before: &Map<String, Value>,
    new: &Map<String, Value>,
    kept: &mut Vec<MergeConflict>,
) -> Option<Map<String, Value>> {
    let mut changes = Map::new();
    for (name, offered) in new.iter().filter(|(_, offered)| !offered.is_null()) {
        let value = match before.get(name) {
            None | Some(Value::Null) => Some(offered.clone()),
            Some(there) => merge_value(&format!("properties.{name}"), there, offered, kept),
        };
        if let Some(value) = value {
            changes.insert(name.clone(), value);
        }
    }
    (!changes.is_empty()).then_some(changes)
}

/// A value after another was joined to it; `None` when it stays as it is. Depth is bounded by
/// [`limits::DEPTH`].
fn merge_value(field: &str, there: &Value, offered: &Value, kept: &mut Vec<MergeConflict>) -> Option<Value> {
    match (there, offered) {
        (Value::Array(some), Value::Array(others)) => {
            let mut all = some.clone();
            let mut known: Vec<String> = some.iter().map(canonical_json).collect();
            for other in others {
                let text = canonical_json(other);
                if !known.contains(&text) {
                    known.push(text);
                    all.push(other.clone());
                }
            }
            (all.len() > some.len()).then_some(Value::Array(all))
        }
        (Value::Object(some), Value::Object(others)) => {
            let mut all = some.clone();
            let mut changed = false;
            for (name, other) in others {
                let value = match some.get(name) {
                    None | Some(Value::Null) if other.is_null() => None,
                    None | Some(Value::Null) => Some(other.clone()),
                    Some(_) if other.is_null() => None,
                    Some(value) => merge_value(&format!("{field}.{name}"), value, other, kept),
                };
                if let Some(value) = value {
                    changed = true;
                    all.insert(name.clone(), value);
                }
            }
            changed.then_some(Value::Object(all))
        }
        _ if canonical_json(there) == canonical_json(offered) => None,
        _ => {
            let conflict =
                MergeConflict { field: field.to_owned(), kept: there.clone(), offered: offered.clone() };
            kept.push(conflict);
            None
        }
    }
}

/// Why a merge wrote a version: by what the two were found to be one, which passage said it, and
/// what was not taken over. `key` is the key or the name they share.
pub fn merge_reason(by: MatchedBy, shared: &str, source: Option<&Source>, kept: &[MergeConflict]) -> String {
    let shared = truncate(shared, 120);
    let mut text = match by {
        MatchedBy::Key => format!("merged by key `{shared}`"),
        MatchedBy::Name => format!("merged by equal name `{shared}`"),
        MatchedBy::Similar(score) => format!("merged by similarity {score:.3} with `{shared}`"),
    };
    append_details(&mut text, source, kept);
    text
}

/// As [`reason`], of a relationship: it is the same by its type and ends.
pub fn relationship_merge_reason(source: Option<&Source>, kept: &[MergeConflict]) -> String {
    let mut text = "merged with the relationship of the same type and ends".to_owned();
    append_details(&mut text, source, kept);
    text
}

fn append_details(text: &mut String, source: Option<&Source>, kept: &[MergeConflict]) {
    if let Some(source) = source {
        let title = truncate(&source.title, 120);
        // Writing to a string does not fail.
        let _ = write!(
            text,
            ", from document `{title}` ({}), chunk {} ({})",
            source.document, source.index, source.chunk
        );
    }
    for (at, conflict) in kept.iter().enumerate() {
        let value = |value: &Value| match value {
            Value::String(text) => truncate(text, 60),
            other => truncate(&other.to_string(), 60),
        };
        let told = format!(
            "{} {} `{}` instead of `{}`",
            if at == 0 { "; kept" } else { "," },
            truncate(&conflict.field, 80),
            value(&conflict.kept),
            value(&conflict.offered)
        );
        let more = format!(" and {} more", kept.len() - at);
        if text.len() + told.len() + more.len() > MAX_REASON_BYTES {
            text.push_str(&more);
            break;
        }
        text.push_str(&told);
    }
}

/// The beginning of a text, in whole characters.
fn truncate(text: &str, longest: usize) -> String {
    if text.len() <= longest {
        return text.to_owned();
    }
    format!("{}…", &text[..text.floor_char_boundary(longest - '…'.len_utf8())])
}

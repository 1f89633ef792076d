//! Objects: the typed, versioned nodes of a project's graph.

use serde_json::{Map, Value};

use crate::{
    author::Author,
    ids::{ObjectId, ProjectId},
    invalid::Invalid,
    json::JsonObject,
    patch,
    text::is_control,
    time::Timestamp,
};

/// One version of an object. The newest version is the current state; the others are its history.
#[derive(Debug, Clone, PartialEq)]
pub struct Object {
    pub id: ObjectId,
    pub project: ProjectId,
    pub type_: String,
    pub key: Option<String>,
    pub status: Option<String>,
    pub labels: Vec<String>,
    pub properties: JsonObject,
    pub version: i64,
    /// The time when version 1 was written.
    pub created_at: Timestamp,
    /// The time when this version was written.
    pub updated_at: Timestamp,
    /// Set if this version is a tombstone.
    pub deleted_at: Option<Timestamp>,
    pub author: Author,
    /// Explains an automatic change, for example which descriptions a merge combined.
    pub reason: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Default)]
pub struct NewObject {
    pub type_: String,
    pub key: Option<String>,
    pub status: Option<String>,
    pub labels: Vec<String>,
    pub properties: Map<String, Value>,
}

/// The changes of an update. `None` leaves a field unchanged.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ObjectPatch {
    pub type_: Option<String>,
    /// `Some(None)` removes the key.
    pub key: Option<Option<String>>,
    pub status: Option<Option<String>>,
    pub labels: Option<Vec<String>>,
    /// Applied over the current properties. A null deletes a property.
    pub properties: Option<Map<String, Value>>,
    pub expected_version: Option<i64>,
}

/// Limits on one object. The error message states the limit that was exceeded.
pub mod limits {
    pub const TYPE: usize = 128;
    pub const KEY: usize = 512;
    pub const STATUS: usize = 128;
    pub const LABEL: usize = 128;
    pub const LABELS: usize = 64;
    /// The size of the properties as JSON, in bytes.
    pub const PROPERTIES: usize = 1 << 20;
    pub const DEPTH: usize = 64;
}

impl NewObject {
    /// Validates everything that can be checked without a database, and sorts the labels.
    pub fn check(self) -> Result<Self, Invalid> {
        let checked = self.check_stored()?;
        check_names(checked.key.as_deref(), checked.status.as_deref(), &checked.labels)?;
        Ok(checked)
    }

    /// Like [`Self::check`], for an object with names that are stored: an earlier version stored names that a request may
    /// no longer have.
    pub fn check_stored(mut self) -> Result<Self, Invalid> {
        check_type(&self.type_)?;
        check_text("key", self.key.as_deref(), limits::KEY)?;
        check_text("status", self.status.as_deref(), limits::STATUS)?;
        self.labels = check_labels(self.labels)?;
        check_properties(&self.properties)?;
        // A null deletes a property, and a new object has none to delete.
        self.properties.retain(|_, value| !value.is_null());
        Ok(self)
    }
}

impl ObjectPatch {
    pub fn check(self) -> Result<Self, Invalid> {
        let checked = self.check_stored()?;
        let key = checked.key.as_ref().and_then(|key| key.as_deref());
        let status = checked.status.as_ref().and_then(|status| status.as_deref());
        check_names(key, status, checked.labels.as_deref().unwrap_or_default())?;
        Ok(checked)
    }

    /// Like [`Self::check`], for a patch with names that are stored.
    pub fn check_stored(mut self) -> Result<Self, Invalid> {
        if let Some(type_) = &self.type_ {
            check_type(type_)?;
        }
        check_text("key", self.key.as_ref().and_then(|key| key.as_deref()), limits::KEY)?;
        check_text("status", self.status.as_ref().and_then(|status| status.as_deref()), limits::STATUS)?;
        self.labels = self.labels.map(check_labels).transpose()?;
        if let Some(properties) = &self.properties {
            check_properties(properties)?;
        }
        Ok(self)
    }

    /// Returns the object after the update, or `None` if nothing changes.
    pub fn apply(&self, current: &Object) -> Option<NewObject> {
        self.apply_to(current, &current.properties.to_map())
    }

    /// Works like [`Self::apply`], for callers that have already parsed the properties.
    pub fn apply_to(&self, current: &Object, before: &Map<String, Value>) -> Option<NewObject> {
        let after = self.after(current, before);
        let same = after.type_ == current.type_
            && after.key == current.key
            && after.status == current.status
            && after.labels == current.labels
            && self.properties.as_ref().is_none_or(|changes| patch::is_noop(before, changes));
        if same { None } else { Some(after) }
    }

    /// Returns the object after the update, also if nothing changes.
    pub fn after(&self, current: &Object, before: &Map<String, Value>) -> NewObject {
        let properties = match &self.properties {
            Some(changes) => patch::apply_patch(before, changes),
            None => before.clone(),
        };
        NewObject {
            type_: self.type_.clone().unwrap_or_else(|| current.type_.clone()),
            key: self.key.clone().unwrap_or_else(|| current.key.clone()),
            status: self.status.clone().unwrap_or_else(|| current.status.clone()),
            labels: self.labels.clone().unwrap_or_else(|| current.labels.clone()),
            properties,
        }
    }
}

/// Validates a type name. Type names appear in URLs, filters and schemas, so only plain characters
/// are allowed.
pub fn check_type(type_: &str) -> Result<(), Invalid> {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | ':');
    if type_.is_empty() || type_.len() > limits::TYPE {
        return Err(Invalid::new("type", format!("must have 1 to {} characters", limits::TYPE)));
    }
    if !type_.starts_with(|c: char| c.is_ascii_alphabetic()) || !type_.chars().all(plain) {
        return Err(Invalid::new(
            "type",
            "must start with a letter, and may contain letters, digits, `_`, `-`, `.` and `:`",
        ));
    }
    Ok(())
}

pub fn check_text(field: &str, text: Option<&str>, max: usize) -> Result<(), Invalid> {
    let Some(text) = text else { return Ok(()) };
    if text.is_empty() || text.len() > max {
        return Err(Invalid::new(field, format!("must have 1 to {max} bytes")));
    }
    check_chars(field, text)
}

/// Rejects NUL characters, because PostgreSQL cannot store them in a text column.
pub fn check_chars(field: &str, text: &str) -> Result<(), Invalid> {
    if text.contains('\0') {
        return Err(Invalid::new(field, "must not contain a NUL character"));
    }
    Ok(())
}

/// Rejects names that would control a terminal that shows them, or show another name. Marks of a direction, which names in
/// Arabic, Hebrew and Persian have, turn nothing around.
fn check_names(key: Option<&str>, status: Option<&str>, labels: &[String]) -> Result<(), Invalid> {
    let is_mark = |char: char| matches!(char, '\u{61c}' | '\u{200e}' | '\u{200f}');
    let check = |field: &str, name: &str| match name
        .chars()
        .any(|char| char.is_control() || is_control(char) && !is_mark(char))
    {
        true => Err(Invalid::new(
            field,
            "must not contain control characters, such as line breaks and those that reverse the direction of text",
        )),
        false => Ok(()),
    };
    key.map_or(Ok(()), |key| check("key", key))?;
    status.map_or(Ok(()), |status| check("status", status))?;
    labels.iter().enumerate().try_for_each(|(index, label)| check(&format!("labels[{index}]"), label))
}

fn check_labels(mut labels: Vec<String>) -> Result<Vec<String>, Invalid> {
    if labels.len() > limits::LABELS {
        return Err(Invalid::new("labels", format!("must be at most {} labels", limits::LABELS)));
    }
    for (index, label) in labels.iter().enumerate() {
        check_text(&format!("labels[{index}]"), Some(label), limits::LABEL)?;
    }
    // Labels are a set. Sorting makes equal sets equal rows.
    labels.sort_unstable();
    labels.dedup();
    Ok(labels)
}

pub fn check_properties(properties: &Map<String, Value>) -> Result<(), Invalid> {
    for (name, value) in properties {
        if name.is_empty() || name.len() > 256 {
            return Err(Invalid::new("properties", "names must have 1 to 256 bytes"));
        }
        check_chars("properties", name)?;
        let field = format!("properties.{name}");
        patch::check_depth(value, limits::DEPTH).map_err(|problem| problem.prefixed(&field))?;
        check_nul(&field, value)?;
    }
    let bytes = json_bytes(properties);
    if bytes > limits::PROPERTIES {
        return Err(Invalid::new(
            "properties",
            format!("are {bytes} bytes of JSON; the maximum for one object is {}", limits::PROPERTIES),
        ));
    }
    Ok(())
}

/// The size of properties as JSON, which [`limits::PROPERTIES`] limits.
pub fn json_bytes(properties: &Map<String, Value>) -> usize {
    serde_json::to_string(properties).map_or(usize::MAX, |text| text.len())
}

pub(crate) fn check_nul(field: &str, value: &Value) -> Result<(), Invalid> {
    match value {
        Value::String(text) => check_chars(field, text),
        Value::Array(items) => items.iter().try_for_each(|item| check_nul(field, item)),
        Value::Object(map) => map.iter().try_for_each(|(name, item)| {
            check_chars(field, name)?;
            check_nul(field, item)
        }),
        Value::Null | Value::Bool(_) | Value::Number(_) => Ok(()),
    }
}

//! Parses one line of an NDJSON file: an object or a relationship, validated without a database.
//!
//! Unknown fields are rejected by name. Fields that an export adds for information (`version`,
//! `createdAt`, `updatedAt`, `reason`) are accepted and ignored. So are the links of tasks and discussions to
//! workflows and runs.

use emergent_domain::{
    foreign_json,
    ids::{InvalidId, ObjectId},
    invalid::Invalid,
    json_cost::JsonCost,
    object::{NewObject, ObjectPatch, check_chars},
    pack::with_nearest_name,
    parse_message::in_plain_words,
    patch::nullable,
    relationship::{NewRelationship, RelationshipPatch},
    task_links::remove_links,
};
use serde::{Deserialize, Serialize, de::IgnoredAny};
use serde_json::{Map, Value};

use crate::{objects, relationships};

/// Longer lines are rejected without parsing them.
pub(crate) const MAX_LINE: usize = 2 << 20;
/// The maximum memory of the values of a line. A line of small maps takes a hundred times its length.
pub(crate) const MAX_LINE_VALUES: usize = 16 << 20;

/// The error of a single line. It does not affect other lines.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LineError {
    /// The line number, counted from 1.
    pub line: u64,
    /// The path of the field, such as `properties.priority`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub field: Option<String>,
    pub message: String,
}

impl LineError {
    pub(crate) fn new(line: u64, message: impl Into<String>) -> Self {
        Self { line, field: None, message: message.into() }
    }

    pub(crate) fn invalid(line: u64, invalid: &Invalid) -> Self {
        let field = invalid.problems.first().map(|problem| problem.field.clone());
        Self { line, field: field.filter(|field| !field.is_empty()), message: invalid.to_string() }
    }
}

#[derive(Debug, Clone)]
pub(crate) enum Line {
    Object(ObjectLine),
    Edge(EdgeLine),
}

#[derive(Debug, Clone)]
pub(crate) struct ObjectLine {
    pub id: Option<ObjectId>,
    pub draft: objects::ObjectDraft,
    /// The patch for an object that already exists. Fields that the line does not contain remain
    /// unchanged.
    pub patch: ObjectPatch,
}

#[derive(Debug, Clone)]
pub(crate) struct EdgeLine {
    pub from: EndRef,
    pub to: EndRef,
    /// The ends are set when the edge is written, because they are not known before.
    pub draft: relationships::RelationshipDraft,
    pub patch: RelationshipPatch,
}

/// A reference to an end of an edge.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum EndRef {
    Key { type_: String, key: String },
    Id(ObjectId),
}

impl std::fmt::Display for EndRef {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            EndRef::Key { type_, key } => write!(f, "object of type `{type_}` with the key `{key}`"),
            EndRef::Id(id) => write!(f, "object `{id}`"),
        }
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum Kind {
    Object,
    Relationship,
}

/// A line of an export file; the names are those of the file format. Contains the fields of both kinds, because parsing the kind first would mean parsing every line
/// twice.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct RawImportLine {
    kind: Kind,
    #[serde(rename = "type")]
    type_: String,
    id: Option<String>,
    #[serde(default, deserialize_with = "nullable")]
    key: Option<Option<String>>,
    #[serde(default, deserialize_with = "nullable")]
    status: Option<Option<String>>,
    labels: Option<Vec<String>>,
    from: Option<RawEnd>,
    to: Option<RawEnd>,
    #[serde(default, deserialize_with = "nullable")]
    weight: Option<Option<f64>>,
    #[serde(default)]
    properties: Map<String, Value>,
    #[serde(rename = "version")]
    _version: Option<IgnoredAny>,
    #[serde(rename = "createdAt")]
    _created_at: Option<IgnoredAny>,
    #[serde(rename = "updatedAt")]
    _updated_at: Option<IgnoredAny>,
    #[serde(rename = "reason")]
    _reason: Option<IgnoredAny>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawEnd {
    #[serde(rename = "type")]
    type_: Option<String>,
    key: Option<String>,
    id: Option<String>,
}

/// Parses one line. Returns `None` for a blank line.
pub(crate) fn parse(line: u64, bytes: &[u8]) -> Result<Option<Line>, LineError> {
    let text = std::str::from_utf8(bytes).map_err(|error| {
        LineError::new(line, format!("is not UTF-8 from byte {} on", error.valid_up_to() + 1))
    })?;
    let text = if line == 1 { text.trim_start_matches('\u{feff}') } else { text };
    if text.trim().is_empty() {
        return Ok(None);
    }
    // Serde would parse a list as the fields in their order.
    if text.trim_start().starts_with('[') {
        return Err(LineError::new(line, "is a list, not a JSON object"));
    }
    let memory = JsonCost::estimate(bytes).bytes;
    if memory > MAX_LINE_VALUES {
        let reason =
            format!("has too many values: they need {memory} bytes of memory, more than {MAX_LINE_VALUES}");
        return Err(LineError::new(line, reason));
    }
    let wire: RawImportLine = foreign_json::from_str(text).map_err(|error| {
        // The parser counts from the start of this text, so its line number is removed.
        let message = in_plain_words(&with_nearest_name(&error.to_string()));
        let reason = message.replace(" at line 1 column ", " at column ");
        match error.classify() {
            serde_json::error::Category::Data => LineError::new(line, reason),
            _ => LineError::new(line, format!("is not JSON: {reason}")),
        }
    })?;
    let checked = match wire.kind {
        Kind::Object => parse_object(wire).map(Line::Object),
        Kind::Relationship => parse_edge(wire).map(Line::Edge),
    };
    checked.map(Some).map_err(|invalid| LineError::invalid(line, &invalid))
}

fn parse_object(mut wire: RawImportLine) -> Result<ObjectLine, Invalid> {
    for (field, is_there) in
        [("from", wire.from.is_some()), ("to", wire.to.is_some()), ("weight", wire.weight.is_some())]
    {
        if is_there {
            return Err(Invalid::new(field, "belongs to a relationship, not to an object"));
        }
    }
    let id = wire.id.as_deref().map(|id| parse_id("id", id)).transpose()?;
    // An export contains neither workflows nor runs, and a file must not link a task to those of this project.
    remove_links(&wire.type_, &mut wire.properties);
    let patch = ObjectPatch {
        status: wire.status.clone(),
        labels: wire.labels.clone(),
        properties: Some(wire.properties.clone()),
        ..ObjectPatch::default()
    };
    let draft = objects::ObjectDraft::new(NewObject {
        type_: wire.type_,
        key: wire.key.flatten(),
        status: wire.status.flatten(),
        labels: wire.labels.unwrap_or_default(),
        properties: wire.properties,
    })?
    .mark_imported();
    Ok(ObjectLine { id, draft, patch: patch.check()? })
}

fn parse_edge(wire: RawImportLine) -> Result<EdgeLine, Invalid> {
    for (field, is_there) in
        [("key", wire.key.is_some()), ("status", wire.status.is_some()), ("labels", wire.labels.is_some())]
    {
        if is_there {
            return Err(Invalid::new(field, "belongs to an object, not to a relationship"));
        }
    }
    let (from, to) = (parse_end("from", wire.from)?, parse_end("to", wire.to)?);
    let patch = RelationshipPatch {
        properties: Some(wire.properties.clone()),
        weight: wire.weight,
        expected_version: None,
    };
    let nobody = ObjectId(uuid::Uuid::nil());
    let draft = relationships::RelationshipDraft::new(NewRelationship {
        type_: wire.type_,
        from: nobody,
        to: nobody,
        properties: wire.properties,
        weight: wire.weight.flatten(),
    })?;
    Ok(EdgeLine { from, to, draft, patch })
}

fn parse_id(field: &str, text: &str) -> Result<ObjectId, Invalid> {
    text.parse().map_err(|error: InvalidId| Invalid::new(field, error.to_string()))
}

fn parse_end(field: &str, wire: Option<RawEnd>) -> Result<EndRef, Invalid> {
    match wire {
        // The key has precedence, because the id may belong to another object in this project.
        Some(RawEnd { type_: Some(type_), key: Some(key), .. }) => {
            check_chars(&format!("{field}.type"), &type_)?;
            check_chars(&format!("{field}.key"), &key)?;
            Ok(EndRef::Key { type_, key })
        }
        Some(RawEnd { id: Some(id), .. }) => Ok(EndRef::Id(parse_id(&format!("{field}.id"), &id)?)),
        Some(_) => Err(Invalid::new(field, "needs `type` and `key`, or `id`")),
        None => Err(Invalid::new(field, "is required")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(line: &str, field: Option<&str>, message: &str) {
        let error = parse(7, line.as_bytes()).unwrap_err();
        assert_eq!((error.line, error.field.as_deref()), (7, field), "{line}");
        assert!(error.message.contains(message), "{line}: {}", error.message);
    }

    #[test]
    fn what_is_wrong_is_named_with_its_field() {
        refused("{", None, "at column 1");
        refused("not json", None, "is not JSON: expected ident at column 2");
        refused("[1]", None, "is a list");
        refused("1", None, "invalid type");
        refused(r#"{"kind":"thing","type":"T"}"#, None, "unknown variant `thing`");
        refused(r#"{"kind":"object"}"#, None, "missing field `type`");
        refused(r#"{"kind":"object","type":"T","colour":"red"}"#, None, "unknown field `colour`");
        refused(r#"{"kind":"object","typ":"T"}"#, None, "unknown field `typ` (did you mean `type`?)");
        refused(
            r#"{"kind":"object","type":"T","properties":[]}"#,
            None,
            "invalid type: list, expected an object",
        );
        refused(r#"{"kind":"object","type":"9","properties":{}}"#, Some("type"), "must start with a letter");
        refused(r#"{"kind":"object","type":"T","key":""}"#, Some("key"), "1 to 512 bytes");
        refused(r#"{"kind":"object","type":"T","weight":1}"#, Some("weight"), "belongs to a relationship");
        refused(r#"{"kind":"object","type":"T","id":"5"}"#, Some("id"), "must be an id such as");
        refused(
            r#"{"kind":"relationship","type":"T","from":{"id":"x"}}"#,
            Some("from.id"),
            "must be an id such as",
        );
        refused(r#"{"kind":"relationship","type":"T"}"#, Some("from"), "is required");
        refused(r#"{"kind":"relationship","type":"T","from":{"type":"A"}}"#, Some("from"), "or `id`");
        refused("{\"kind\":\"object\",\"type\":\"T\",\"key\":\"a\\u0000\"}", Some("key"), "NUL");
        let deep = format!(
            r#"{{"kind":"object","type":"T","properties":{}1{}}}"#,
            "{\"a\":".repeat(10_000),
            "}".repeat(10_000)
        );
        refused(&deep, None, "recursion limit");
    }

    #[test]
    fn broken_utf_8_is_told_with_its_place() {
        let error = parse(3, b"{\"kind\xff").unwrap_err();
        assert_eq!(error, LineError::new(3, "is not UTF-8 from byte 7 on"));
    }

    #[test]
    fn blank_lines_and_a_byte_order_mark_are_nothing() {
        assert!(parse(2, b"  \r").unwrap().is_none());
        assert!(parse(1, "\u{feff}{\"kind\":\"object\",\"type\":\"T\"}\r".as_bytes()).unwrap().is_some());
    }

    #[test]
    fn what_a_line_does_not_name_stays_as_it_is() {
        let Some(Line::Object(line)) =
            parse(1, br#"{"kind":"object","type":"T","properties":{"a":null}}"#).unwrap()
        else {
            panic!()
        };
        assert_eq!((line.patch.status, line.patch.labels), (None, None));
        assert_eq!(line.patch.properties.unwrap()["a"], Value::Null);
        let Some(Line::Object(line)) =
            parse(1, br#"{"kind":"object","type":"T","status":null,"labels":[]}"#).unwrap()
        else {
            panic!()
        };
        assert_eq!((line.patch.status, line.patch.labels), (Some(None), Some(vec![])));
    }
}

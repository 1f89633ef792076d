//! Extractors. Invalid requests are refused in the common envelope, with the name of the field.

mod agent;
mod body;
mod json;
mod object;
mod params;
mod path;
mod project;
mod query;
mod unknown_fields;

pub(crate) use emergent_wire::fields;

pub(crate) use agent::{AgentPath, AgentRef};
pub(crate) use body::{BodyDeadline, BodyLimits, has_content_type, read_limited};
pub(crate) use json::{Json, OptionalJson, parse_body, parse_body_with};
pub(crate) use object::{AnyObjectPath, ObjectPath, ObjectRefPath, TaskPath};
pub(crate) use params::parameter_names;
pub(crate) use path::Path;
pub(crate) use project::ProjectPath;
pub(crate) use query::{Paging, Query, paged_query};

use emergent_domain::{
    ids::InvalidId,
    pack::{nearest_name, with_nearest_name},
    parse_message::in_plain_words,
};
use serde_path_to_error::{Path as FieldPath, Segment};

/// How deserialisers begin the message about an unknown field.
const UNKNOWN_FIELD: &str = "unknown field `";

/// Returns the invalid field and the reason. Deserialisers name an unknown field only in their message,
/// so it is parsed from there.
pub(crate) fn field_problem(path: &FieldPath, message: &str) -> emergent_domain::invalid::Invalid {
    let mut field = String::new();
    for segment in path {
        match segment {
            Segment::Seq { index } => field.push_str(&format!("[{index}]")),
            Segment::Map { key } if !field.is_empty() => field.push_str(&format!(".{key}")),
            Segment::Map { key } => field.push_str(key),
            Segment::Enum { .. } | Segment::Unknown => {}
        }
    }
    if let Some(missing) = quoted_after(message, "missing field `") {
        let field = if field.is_empty() { missing.to_owned() } else { format!("{field}.{missing}") };
        return emergent_domain::invalid::Invalid::new(field, "is required");
    }
    if let Some(unknown) = quoted_after(message, UNKNOWN_FIELD) {
        // Depending on the deserialiser, the path ends before the unknown field or with it.
        let named = field.rsplit('.').next() == Some(unknown);
        let field = match (named, field.is_empty()) {
            (true, _) => field,
            (false, true) => unknown.to_owned(),
            (false, false) => format!("{field}.{unknown}"),
        };
        let expected = message.split_once("expected ").map(|(_, expected)| expected).unwrap_or("no fields");
        // The names of the fields are between backticks.
        let known = expected.split('`').skip(1).step_by(2);
        let reason = match nearest_name(unknown, known) {
            Some(nearest) => format!("is not a known field; did you mean `{nearest}`?"),
            None => format!("is not a known field; expected {}", truncate(expected)),
        };
        return emergent_domain::invalid::Invalid::new(truncate(&field), reason);
    }
    // Some types of the wire are plain UUIDs, whose parser describes characters.
    if message.starts_with("UUID parsing failed") {
        return emergent_domain::invalid::Invalid::new(truncate(&field), InvalidId.to_string());
    }
    emergent_domain::invalid::Invalid::new(
        truncate(&field),
        truncate(&in_plain_words(&with_nearest_name(message))),
    )
}

fn quoted_after<'a>(message: &'a str, start: &str) -> Option<&'a str> {
    message.strip_prefix(start).and_then(|rest| rest.split('`').next())
}

/// A hostile field name may be megabytes long, so only its beginning is quoted.
fn truncate(text: &str) -> String {
    const MAX_NAME_CHARS: usize = 300;
    emergent_domain::text::truncate(text, MAX_NAME_CHARS)
}

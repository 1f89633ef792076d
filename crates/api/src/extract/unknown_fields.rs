//! Finds all fields of a body that are unknown or of the wrong type. A deserialiser stops at the first one, and who
//! corrects a file wants to see the others as well.

use emergent_domain::{foreign_json, invalid::Invalid};
use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_path_to_error::{Path as FieldPath, Segment};

use super::{UNKNOWN_FIELD, field_problem, fields::JsonMap, quoted_after};

/// The most fields that one error names.
const MAX_FIELDS: usize = 20;
/// How a deserialiser begins what it says about a field that is missing.
const MISSING_FIELD: &str = "missing field `";
/// Of a larger body, only the first field is named: each further one costs another parse.
const MAX_BODY_BYTES: usize = 256 << 10;

/// The invalid field at this path of a body, with the reason, and the other invalid fields after it.
pub(super) fn field_problems<T: DeserializeOwned>(bytes: &[u8], path: &FieldPath, message: &str) -> Invalid {
    let mut invalid = field_problem(path, message);
    if bytes.len() > MAX_BODY_BYTES {
        return invalid;
    }
    let Ok(mut body) = foreign_json::parse_slice::<Value>(bytes) else { return invalid };
    let (mut path, mut message) = (path.clone(), message.to_owned());
    while invalid.problems.len() < MAX_FIELDS && remove_field(&mut body, &path, &message).is_some() {
        let Err(failure) = serde_path_to_error::deserialize::<_, JsonMap<T>>(&body) else { break };
        path = failure.path().clone();
        message = failure.into_inner().to_string();
        // A field that is missing may be one that was removed, or one whose name is misspelt.
        if message.starts_with(MISSING_FIELD) {
            break;
        }
        invalid.problems.extend(field_problem(&path, &message).problems);
    }
    invalid
}

/// Removes the field that a message is about. `None` if the path does not lead to one, as for an item of a list, whose
/// removal would change the positions of others.
fn remove_field(body: &mut Value, path: &FieldPath, message: &str) -> Option<Value> {
    let mut segments: Vec<&Segment> = path.iter().collect();
    // Where a value may have one of several forms, nothing more is known of the path.
    if matches!(segments.last(), Some(Segment::Enum { .. } | Segment::Unknown)) {
        segments.pop();
    }
    let name = match quoted_after(message, UNKNOWN_FIELD) {
        Some(unknown) => {
            // Depending on the deserialiser, the path ends before the unknown field or with it.
            if matches!(segments.last(), Some(Segment::Map { key }) if key == unknown) {
                segments.pop();
            }
            unknown
        }
        None if message.starts_with(MISSING_FIELD) => return None,
        None => match segments.pop()? {
            Segment::Map { key } => key,
            _ => return None,
        },
    };
    let mut value = body;
    for segment in segments {
        value = match segment {
            Segment::Seq { index } => value.get_mut(*index)?,
            Segment::Map { key } => value.get_mut(key)?,
            Segment::Enum { .. } | Segment::Unknown => return None,
        };
    }
    value.as_object_mut()?.remove(name)
}

//! Finds all unknown fields of a body. A deserialiser stops at the first one, and who corrects a file wants to see
//! the others as well.

use emergent_domain::invalid::Invalid;
use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_path_to_error::{Path as FieldPath, Segment};

use super::{UNKNOWN_FIELD, field_problem, fields::JsonMap, quoted_after};

/// The most unknown fields that one error names.
const MAX_UNKNOWN_FIELDS: usize = 20;
/// Of a larger body, only the first unknown field is named: each further one costs another parse.
const MAX_BODY_BYTES: usize = 256 << 10;

/// The invalid field at this path of a body, with the reason. If it is unknown, the other unknown fields follow it.
pub(super) fn field_problems<T: DeserializeOwned>(bytes: &[u8], path: &FieldPath, message: &str) -> Invalid {
    let mut invalid = field_problem(path, message);
    if quoted_after(message, UNKNOWN_FIELD).is_none() || bytes.len() > MAX_BODY_BYTES {
        return invalid;
    }
    let Ok(mut body) = serde_json::from_slice::<Value>(bytes) else { return invalid };
    let (mut path, mut message) = (path.clone(), message.to_owned());
    while invalid.problems.len() < MAX_UNKNOWN_FIELDS && remove_field(&mut body, &path, &message).is_some() {
        let Err(failure) = serde_path_to_error::deserialize::<_, JsonMap<T>>(&body) else { break };
        path = failure.path().clone();
        message = failure.into_inner().to_string();
        // A field that is missing may be the one whose name is misspelt, so only unknown fields are added.
        if quoted_after(&message, UNKNOWN_FIELD).is_none() {
            break;
        }
        invalid.problems.extend(field_problem(&path, &message).problems);
    }
    invalid
}

/// Removes the field that a message calls unknown. `None` if the path does not lead to it.
fn remove_field(body: &mut Value, path: &FieldPath, message: &str) -> Option<Value> {
    let name = quoted_after(message, UNKNOWN_FIELD)?;
    let mut segments: Vec<&Segment> = path.iter().collect();
    // Depending on the deserialiser, the path ends before the unknown field or with it.
    if matches!(segments.last(), Some(Segment::Map { key }) if key == name) {
        segments.pop();
    }
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

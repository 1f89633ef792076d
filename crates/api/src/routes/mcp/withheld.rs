//! What a tool that writes the graph answers a client that may write but not read, as in the answers of the API
//! (`emergent_wire::withheld`): what identifies the result, and nothing that others wrote.

use emergent_domain::token::Scope;
use emergent_tools::ToolInfo;
use serde_json::{Map, Value};

use super::host::McpCaller;

/// The fields that identify what was written, and the server's own words.
const KEPT: [&str; 13] = [
    "id",
    "type",
    "key",
    "name",
    "version",
    "createdAt",
    "updatedAt",
    "deletedAt",
    "fromId",
    "toId",
    CREATED,
    "hint",
    "note",
];
/// The fields that contain what was written.
const WRITTEN: [&str; 8] =
    ["object", "objects", "relationship", "relationships", "deleted", "document", "pack", "task"];
/// What a merge did. Of this only whether it created something is left: `unchanged` would tell that all that was sent was
/// there.
const OUTCOME: &str = "outcome";
const CREATED: &str = "created";
/// The names that the request gives, with the ids of what they name.
const REFS: &str = "refs";

/// Returns the answer of a tool as this client may see it.
pub(super) fn answer_for(caller: &McpCaller, info: &ToolInfo, answer: Value) -> Value {
    if info.scope != Some(Scope::GraphWrite) || caller.token.scopes.contains(&Scope::GraphRead) {
        return answer;
    }
    let mut left = withhold(answer);
    if let Value::Object(fields) = &mut left {
        fields.insert("withheld".to_owned(), Value::Bool(true));
    }
    left
}

fn withhold(value: Value) -> Value {
    match value {
        Value::Array(items) => Value::Array(items.into_iter().map(withhold).collect()),
        Value::Object(fields) => {
            Value::Object(fields.into_iter().filter_map(withhold_field).collect::<Map<_, _>>())
        }
        _ => Value::Null,
    }
}

fn withhold_field((name, value): (String, Value)) -> Option<(String, Value)> {
    if WRITTEN.contains(&name.as_str()) {
        return Some((name, withhold(value)));
    }
    if name == OUTCOME {
        return Some((CREATED.to_owned(), Value::Bool(value == CREATED)));
    }
    let is_scalar = !value.is_object() && !value.is_array();
    ((KEPT.contains(&name.as_str()) && is_scalar) || name == REFS).then_some((name, value))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_what_identifies_the_result_is_left() {
        let answer = json!({
            "objects": [
                { "id": "1", "type": "Note", "key": "a", "version": 2, "status": "open", "labels": ["x"],
                  "properties": { "id": "secret", "name": "secret" }, "kept": { "name": "secret" }, "outcome": "unchanged" },
                { "id": "4", "outcome": "created" },
            ],
            "relationships": [{ "id": "2", "type": "knows", "fromId": "1", "toId": "3", "weight": 0.5 }],
            "refs": { "mine": "1" },
            "other": [{ "id": "secret" }],
        });
        assert_eq!(
            withhold(answer),
            json!({
                "objects": [
                    { "id": "1", "type": "Note", "key": "a", "version": 2, "created": false },
                    { "id": "4", "created": true },
                ],
                "relationships": [{ "id": "2", "type": "knows", "fromId": "1", "toId": "3" }],
                "refs": { "mine": "1" },
            })
        );
    }
}

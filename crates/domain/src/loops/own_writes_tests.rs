use serde_json::{Value, json};

use super::own_writes::OwnWrites;

const CREATE: u64 = 1;
const UPDATE: u64 = 2;

/// What `entities_create` returns.
fn created(id: &str) -> Value {
    json!({ "objects": [{ "id": id, "type": "Note", "version": 1 }], "relationships": [], "refs": {} })
}

fn updated(id: &str, version: i64) -> Value {
    json!({ "object": { "id": id, "type": "Note", "version": version } })
}

fn row(id: &str, version: i64, time: &str) -> Value {
    json!({ "id": id, "type": "Note", "version": version, "createdAt": time, "updatedAt": time, "title": "same" })
}

/// A run that has created two equal objects.
fn with_two() -> OwnWrites {
    let mut own = OwnWrites::default();
    own.record("entities_create", CREATE, &created("a"), false);
    own.record("entities_create", CREATE, &created("b"), true);
    own
}

#[test]
fn objects_that_the_same_call_created_count_as_one() {
    let mut own = with_two();
    let list = json!({ "objects": [row("b", 1, "2"), row("a", 1, "1"), row("x", 1, "0")], "total": 3 });
    let mut shown = own.remove_from(&list).into_owned();
    assert_eq!(own.merge_equal_rows(&mut shown).removed, 1);
    assert_eq!((shown["objects"].as_array().map(Vec::len), &shown["total"]), (Some(2), &json!(2)));
    let by_id = |id: &str| own.remove_from_input(&json!({ "id": id })).into_owned();
    assert_eq!(by_id("a"), by_id("b"));
    assert_ne!(by_id("a"), by_id("x"));
    // An object that somebody has changed is another one.
    let mut changed =
        own.remove_from(&json!({ "objects": [row("b", 2, "2"), row("a", 1, "1")] })).into_owned();
    assert_eq!(own.merge_equal_rows(&mut changed).removed, 0);
}

#[test]
fn only_versions_of_repeated_writes_are_not_counted() {
    let mut own = OwnWrites::default();
    own.record("entities_update", UPDATE, &updated("a", 2), false);
    own.record("entities_update", UPDATE, &updated("a", 3), true);
    // Somebody else makes version 4.
    own.record("entities_update", UPDATE, &updated("a", 5), true);
    let version = |version: i64| own.remove_from(&row("a", version, "1"))["version"].clone();
    assert_eq!([2, 3, 4, 5].map(version), [json!(2), json!(2), json!(3), json!(3)]);
    assert_eq!(
        own.remove_from(&row("x", 7, "1")).into_owned(),
        row("x", 7, "1"),
        "others are compared as they are"
    );
    let expecting = |version: i64| {
        let input = json!({ "id": "a", "expectedVersion": version });
        own.remove_from_input(&input).get("expectedVersion").cloned()
    };
    assert_eq!([3, 4, 5].map(expecting), [None, Some(json!(4)), None]);
}

#[test]
fn numbers_are_reduced_by_what_repeated_calls_added_until_it_is_deleted() {
    let mut own = with_two();
    let notes = |own: &OwnWrites| {
        let shown = own.remove_from(&json!({ "objectsByType": { "Note": 5, "Task": 5 } })).into_owned();
        shown["objectsByType"].clone()
    };
    assert_eq!(notes(&own), json!({ "Note": 4, "Task": 5 }));
    let deleted = json!({ "deleted": { "id": "b", "type": "Note", "version": 2 } });
    own.record("entities_delete", 3, &deleted, false);
    assert_eq!(notes(&own), json!({ "Note": 5, "Task": 5 }));
}

#[test]
fn what_other_tools_return_is_not_written_by_the_run() {
    let mut own = OwnWrites::default();
    own.record("spawn_agents", CREATE, &json!({ "results": [{ "id": "r1" }] }), false);
    assert_eq!(own, OwnWrites::default());
}

use serde_json::{Map, json};

use super::*;

fn pack(json: Value) -> TemplatePack {
    let mut whole = json!({ "name": "test", "version": "1.0.0" });
    whole.as_object_mut().expect("an object").extend(json.as_object().expect("an object").clone());
    serde_json::from_value(whole).expect("a pack")
}

fn map(value: Value) -> Map<String, Value> {
    value.as_object().expect("an object").clone()
}

/// Compiles a set with one object type `T`, which each of these schemas describes in its own pack.
fn set(schemas: impl IntoIterator<Item = Value>) -> PackSet {
    let packs: Vec<TemplatePack> =
        schemas.into_iter().map(|schema| pack(json!({ "objectTypeSchemas": { "T": schema } }))).collect();
    PackSet::compile(&packs).expect("valid schemas")
}

/// Returns the problems of properties under a schema; empty if there are none.
fn said(schema: Value, properties: Value) -> String {
    set([schema])
        .check_object("T", &map(properties), true)
        .err()
        .map(|invalid| invalid.to_string())
        .unwrap_or_default()
}

fn one(property: Value, value: Value) -> String {
    said(json!({ "properties": { "p": property } }), json!({ "p": value }))
}

#[test]
fn problems_are_told_in_plain_words() {
    let check = |property, value, expected: &str| {
        assert_eq!(one(property, value), format!("`properties.p`: {expected}"));
    };
    check(
        json!({ "enum": ["low", "medium", "high", "critical"] }),
        json!("urgent"),
        "\"urgent\" is not one of low, medium, high, critical",
    );
    check(json!({ "type": "integer", "maximum": 10 }), json!(11), "11 is more than the maximum of 10");
    check(json!({ "minimum": 1 }), json!(0), "0 is less than the minimum of 1");
    check(json!({ "exclusiveMinimum": 0 }), json!(0), "0 is not above 0");
    check(json!({ "exclusiveMaximum": 1 }), json!(1.5), "1.5 is not below 1");
    check(json!({ "type": "integer" }), json!("ten"), "\"ten\" is not an integer");
    check(json!({ "type": ["string", "null"] }), json!(5), "5 is not null or a string");
    check(json!({ "type": "string" }), json!({ "a": 1 }), "an object is not a string");
    check(json!({ "const": "a" }), json!("b"), "\"b\" is not \"a\"");
    check(json!({ "minLength": 1 }), json!(""), "must not be empty");
    check(json!({ "minLength": 3 }), json!("é"), "has 1 characters, fewer than the minimum of 3");
    check(json!({ "maxLength": 2 }), json!("abc"), "has 3 characters, more than the maximum of 2");
    check(json!({ "minItems": 1 }), json!([]), "has 0 items, fewer than the minimum of 1");
    check(json!({ "uniqueItems": true }), json!([1, 1]), "has the same item more than once");
    check(json!({ "pattern": "^[a-z]+$" }), json!("A"), "\"A\" does not match the pattern `^[a-z]+$`");
    check(
        json!({ "type": "string", "format": "date-time" }),
        json!("yesterday"),
        "\"yesterday\" is not a date-time such as 2026-01-31T12:00:00Z",
    );
    check(
        json!({ "anyOf": [{ "type": "string" }, { "type": "null" }] }),
        json!(5),
        "matches none of the allowed forms: 5 is not a string, or 5 is not null",
    );
    check(json!(false), json!(5), "is not allowed");
}

#[test]
fn missing_and_unknown_properties_are_named() {
    let schema = json!({
        "properties": { "steps": { "items": { "required": ["result"] } } },
        "required": ["title"],
        "additionalProperties": false,
    });
    assert_eq!(
        said(schema, json!({ "titel": "a", "steps": [{ "result": 1 }, {}] })),
        "`properties.steps[1].result`: is required; \
         `properties.titel`: is not a known property; \
         `properties.title`: is required"
    );
}

#[test]
fn items_are_named_by_index_and_keys_by_name() {
    let items = json!({ "items": { "type": "string" } });
    assert_eq!(one(items, json!(["a", 5])), "`properties.p[1]`: 5 is not a string");
    let keys = json!({ "additionalProperties": { "type": "string" } });
    assert_eq!(one(keys, json!({ "0": 5 })), "`properties.p.0`: 5 is not a string");
}

#[test]
fn every_problem_is_told_up_to_twenty() {
    let schema = json!({ "additionalProperties": { "type": "string" } });
    let many: Map<String, Value> = (0..50).map(|n| (format!("p{n}"), json!(n))).collect();
    let invalid = set([schema]).check_object("T", &many, true).unwrap_err();
    assert_eq!(invalid.problems.len(), 20);
    let schema = json!({ "additionalProperties": false });
    let invalid = set([schema]).check_object("T", &many, true).unwrap_err();
    assert_eq!(invalid.problems.len(), 20);
}

#[test]
fn long_values_are_cut_short_in_messages() {
    let message = one(json!({ "enum": ["a"] }), json!("é".repeat(10_000)));
    assert!(message.chars().count() < 200, "{message}");
    let message = one(json!({ "not": {} }), json!("é".repeat(10_000)));
    assert!(message.chars().count() < 400, "{message}");
}

#[test]
fn well_known_formats_are_asserted() {
    for (format, good, bad) in [
        ("date-time", "2026-01-31T12:00:00Z", "2026-01-31 12:00"),
        ("date", "2026-01-31", "2026-02-30"),
        ("email", "a@example.com", "a at example"),
        ("uuid", "0192e4a8-7c3b-7000-8000-000000000000", "1234"),
        ("uri", "https://example.com/a", "not a uri"),
    ] {
        let property = json!({ "type": "string", "format": format });
        assert_eq!(one(property.clone(), json!(good)), "", "{format}");
        assert_ne!(one(property, json!(bad)), "", "{format}");
    }
}

#[test]
fn an_object_must_satisfy_every_pack_that_describes_its_type() {
    let set = set([
        json!({ "properties": { "a": { "type": "string" } } }),
        json!({ "required": ["b"] }),
        json!({ "required": ["b"] }),
    ]);
    assert_eq!(
        set.check_object("T", &map(json!({ "a": 1 })), false).unwrap_err().to_string(),
        "`properties.a`: 1 is not a string; `properties.b`: is required"
    );
    assert!(set.check_object("T", &map(json!({ "a": "x", "b": 1 })), false).is_ok());
}

#[test]
fn types_nobody_describes_are_free_unless_strict() {
    let set = PackSet::compile([coordination_pack()]).unwrap();
    let none = Map::new();
    assert!(set.check_object("Anything", &none, false).is_ok());
    assert!(set.check_relationship("likes", "A", "B", &none, false).is_ok());
    assert_eq!(
        set.check_object("SpecTsak", &none, true).unwrap_err().to_string(),
        "`type`: no template pack of this project describes the object type `SpecTsak`; \
         did you mean `SpecTask`?"
    );
    assert_eq!(
        set.check_relationship("likes", "A", "B", &none, true).unwrap_err().to_string(),
        "`type`: no template pack of this project describes the relationship type `likes`"
    );
    assert!(PackSet::default().check_object("T", &none, true).is_err());
    assert!(set.describes_object("SpecTask") && !set.describes_object("blocks"));
    assert!(set.describes_relationship("blocks") && !set.describes_relationship("SpecTask"));
}

#[test]
fn relationships_join_only_what_a_pack_allows() {
    let any = json!({ "from": "*", "to": ["Tag", "Topic"] });
    let packs = [
        pack(json!({ "relationshipTypeSchemas": { "about": any, "blocks": { "from": "A", "to": "A" } } })),
        pack(json!({ "relationshipTypeSchemas": { "blocks": { "from": "B", "to": "B" } } })),
    ];
    let set = PackSet::compile(&packs).unwrap();
    let check = |name, from, to| set.check_relationship(name, from, to, &Map::new(), true);
    assert!(check("about", "Whatever", "Topic").is_ok());
    assert!(check("blocks", "A", "A").is_ok());
    assert!(check("blocks", "B", "B").is_ok());
    assert_eq!(
        check("about", "A", "B").unwrap_err().to_string(),
        "`type`: `about` connects anything to Tag or Topic, not A to B"
    );
    assert_eq!(
        check("blocks", "A", "B").unwrap_err().to_string(),
        "`type`: `blocks` connects A to A, or B to B, not A to B"
    );
}

#[test]
fn relationship_properties_are_a_schema_or_only_its_properties() {
    let check = |properties: Value, given: Value, expected: &str| {
        let edge = json!({ "from": "*", "to": "*", "properties": properties });
        let pack = pack(json!({ "relationshipTypeSchemas": { "r": edge } }));
        assert_eq!(pack.check(), Ok(()), "{properties}");
        let result = PackSet::compile([&pack]).unwrap().check_relationship("r", "A", "B", &map(given), true);
        let message = result.err().map(|invalid| invalid.to_string()).unwrap_or_default();
        assert_eq!(message, expected, "{properties}");
    };
    let wrong = "`properties.sequence`: \"x\" is not an integer";
    let sequence = json!({ "sequence": { "type": "integer" } });
    check(sequence.clone(), json!({ "sequence": "x" }), wrong);
    check(json!({ "properties": sequence }), json!({ "sequence": "x" }), wrong);
    check(
        json!({ "type": "object", "required": ["sequence"] }),
        json!({}),
        "`properties.sequence`: is required",
    );
    check(
        json!({ "additionalProperties": false }),
        json!({ "a": 1 }),
        "`properties.a`: is not a known property",
    );
    // Properties may have the names of schema keywords.
    check(
        json!({ "type": { "enum": ["a"] } }),
        json!({ "type": "b" }),
        "`properties.type`: \"b\" is not one of a",
    );
    check(
        json!({ "properties": { "type": "string" } }),
        json!({ "properties": 1 }),
        "`properties.properties`: 1 is not a string",
    );
    check(json!({}), json!({ "anything": 1 }), "");
}

#[test]
fn packs_are_read_in_both_spellings_and_written_in_one() {
    let camel = json!({
        "name": "p", "version": "1.0.0",
        "objectTypeSchemas": { "Tag": { "type": "object" } },
        "relationshipTypeSchemas": { "near": { "from": ["Tag"], "to": "*" } },
        "uiConfigs": { "Tag": { "icon": "tag" } },
        "extractionPrompts": {},
    });
    let snake = json!({
        "name": "p", "version": "1.0.0",
        "object_type_schemas": { "Tag": { "type": "object" } },
        "relationship_type_schemas": { "near": { "source": "Tag", "target": ["*"] } },
        "ui_configs": { "Tag": { "icon": "tag" } },
        "extraction_prompts": {},
    });
    let read = |json: &Value| serde_json::from_value::<TemplatePack>(json.clone()).unwrap();
    assert_eq!(read(&camel), read(&snake));
    assert_eq!(read(&camel).check(), Ok(()));
    let written = serde_json::to_value(read(&snake)).unwrap();
    assert_eq!(written["relationshipTypeSchemas"]["near"], json!({ "from": "Tag", "to": "*" }));
    assert_eq!(read(&written), read(&snake));
}

#[test]
fn unknown_fields_and_odd_ends_are_refused_by_name() {
    let refused = |json: Value, expected: &str| {
        let error = serde_json::from_value::<TemplatePack>(json).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    };
    refused(json!({ "name": "p", "version": "1.0.0", "objectTypes": {} }), "`objectTypes`");
    let relationship =
        |r: Value| json!({ "name": "p", "version": "1.0.0", "relationshipTypeSchemas": { "r": r } });
    refused(relationship(json!({ "from": "A" })), "missing field `to`");
    refused(relationship(json!({ "from": "A", "to": "B", "via": "C" })), "`via`");
    refused(
        relationship(json!({ "from": 1, "to": "B" })),
        "expected a type's name, a list of them, or \"*\" for any",
    );
}

/// Returns the problems that [`TemplatePack::check`] reports; empty if there are none.
fn checked(json: Value) -> String {
    let result = pack(json).check();
    result.err().map(|invalid| invalid.to_string()).unwrap_or_default()
}

#[test]
fn a_pack_has_a_name_and_a_semantic_version() {
    assert_eq!(
        checked(json!({ "version": "1.0" })),
        "`version`: \"1.0\" is not a semantic version such as 1.2.0"
    );
    let name = "`name`: must not be empty, start or end with whitespace, or contain control characters";
    assert_eq!(checked(json!({ "name": "" })), name);
    assert_eq!(checked(json!({ "name": "a\n" })), name);
    assert_ne!(checked(json!({ "name": "a".repeat(129) })), "");
}

#[test]
fn every_schema_of_a_pack_must_be_one() {
    let schema = |schema: Value| checked(json!({ "objectTypeSchemas": { "T": schema } }));
    assert_eq!(
        schema(json!({ "properties": { "a": { "minimum": "x" } } })),
        "`objectTypeSchemas.T.properties.a.minimum`: \
         is not a JSON schema: \"x\" is not a number"
    );
    assert!(schema(json!({ "type": "strng" })).starts_with("`objectTypeSchemas.T.type`: "));
    assert_eq!(
        schema(json!("string")),
        "`objectTypeSchemas.T`: must be a JSON schema, which is a JSON object"
    );
    assert_ne!(schema(json!({ "properties": { "a": { "pattern": "(" } } })), "");
    assert_ne!(schema(json!({ "$schema": "https://example.com/mine" })), "");
    let short = json!({ "from": "*", "to": "*", "properties": { "a": { "minimum": "x" } } });
    assert_eq!(
        checked(json!({ "relationshipTypeSchemas": { "r": short } })),
        "`relationshipTypeSchemas.r.properties.a.minimum`: \
         is not a JSON schema: \"x\" is not a number"
    );
    let two = checked(json!({ "objectTypeSchemas": { "A": { "type": 1 }, "B": { "type": 2 } } }));
    assert!(two.contains("objectTypeSchemas.A") && two.contains("objectTypeSchemas.B"), "{two}");
}

#[test]
fn a_schema_may_name_an_older_draft() {
    let schema = json!({
        "$schema": "http://json-schema.org/draft-07/schema#",
        "definitions": { "n": { "type": "integer" } },
        "properties": { "a": { "$ref": "#/definitions/n" } },
    });
    assert_eq!(checked(json!({ "objectTypeSchemas": { "T": schema.clone() } })), "");
    assert_eq!(said(schema, json!({ "a": "x" })), "`properties.a`: \"x\" is not an integer");
}

#[test]
fn references_stay_inside_the_schema_and_nothing_is_fetched() {
    for reference in [
        "https://example.com/schema.json",
        "http://127.0.0.1:1/schema.json",
        "file:///etc/passwd",
        "other.json",
        "#/$defs/missing",
    ] {
        for schema in [
            json!({ "$ref": reference }),
            json!({ "properties": { "a": { "items": { "$ref": reference } } } }),
            json!({ "$defs": { "unused": { "$ref": reference } } }),
        ] {
            let message = checked(json!({ "objectTypeSchemas": { "T": schema.clone() } }));
            let unused_and_local = schema["$defs"] != Value::Null && reference.starts_with('#');
            assert!(message.contains("`#/$defs/…`") || unused_and_local, "{schema}: {message}");
        }
    }
    let inside = json!({
        "$defs": { "n": { "type": "integer" } },
        "properties": { "a": { "$ref": "#/$defs/n" }, "$ref": { "type": "string" } },
    });
    assert_eq!(checked(json!({ "objectTypeSchemas": { "T": inside } })), "");
}

#[test]
fn schemas_that_refer_to_themselves_come_to_an_end() {
    for schema in [
        json!({ "$ref": "#" }),
        json!({ "allOf": [{ "$ref": "#" }] }),
        json!({ "$defs": { "a": { "$ref": "#/$defs/b" }, "b": { "$ref": "#/$defs/a" } }, "$ref": "#/$defs/a" }),
        json!({ "anyOf": [{ "not": { "$ref": "#" } }] }),
        json!({ "properties": { "p": { "$ref": "#" } } }),
    ] {
        if pack(json!({ "objectTypeSchemas": { "T": schema.clone() } })).check().is_ok() {
            let _ = said(schema, json!({ "p": { "p": {} } }));
        }
    }
}

#[test]
fn a_pattern_that_backtracks_without_end_is_cut_off() {
    let slow = json!({ "pattern": "^(?=(a+)+$)(a|aa)+\\1$" });
    let message = one(slow, json!(format!("{}b", "a".repeat(5_000))));
    assert_ne!(message, "");
}

#[test]
fn names_of_types_are_plain() {
    for name in ["", "1st", "a b", "é", "a/b", "*"] {
        let message = checked(json!({ "objectTypeSchemas": { name: {} } }));
        assert!(message.contains("the type's name"), "{name:?}: {message}");
    }
    let ends = checked(json!({ "relationshipTypeSchemas": { "r": { "from": "a b", "to": [] } } }));
    assert!(ends.contains("`relationshipTypeSchemas.r.from`"), "{ends}");
    assert!(ends.contains("`relationshipTypeSchemas.r.to`: must name 1 to 100 types"), "{ends}");
    assert_eq!(
        checked(json!({ "relationshipTypeSchemas": { "r": { "from": "Elsewhere", "to": "*" } } })),
        ""
    );
}

#[test]
fn packs_are_bounded() {
    let big = json!({ "description": "x".repeat(limits::SCHEMA) });
    assert!(checked(json!({ "objectTypeSchemas": { "T": big } })).contains("more than the maximum"));

    let many: Map<String, Value> = (0..501).map(|n| (format!("T{n}"), json!({}))).collect();
    assert_eq!(
        checked(json!({ "objectTypeSchemas": many })),
        "`objectTypeSchemas`: has 501 types, more than the maximum of 500"
    );

    let mut deep = json!({});
    for _ in 0..100 {
        deep = json!({ "not": deep });
    }
    assert_eq!(
        checked(json!({ "objectTypeSchemas": { "T": deep } })),
        "`objectTypeSchemas.T`: is nested deeper than the maximum of 64 levels"
    );
}

#[test]
fn a_set_can_be_shared_between_threads() {
    fn shared<T: Send + Sync>() {}
    shared::<PackSet>();
}

#[test]
fn the_coordination_pack_is_sound() {
    let pack = coordination_pack();
    assert_eq!(pack.check(), Ok(()));
    assert_eq!((pack.name.as_str(), pack.version.as_str()), ("emergent-coordination", "1.3.0"));
    let types: Vec<&str> = pack.object_type_schemas.keys().map(String::as_str).collect();
    assert_eq!(
        types.join(" "),
        "CodeReview Discussion DiscussionEntry Session SessionMessage SpecTask TestResult"
    );
    let relationships: Vec<&str> = pack.relationship_type_schemas.keys().map(String::as_str).collect();
    assert_eq!(
        relationships.join(" "),
        "assigned_to_agent blocks follows_up has_entry has_message has_result has_session \
         informed_by resulted_in_task spawned_discussion verifies"
    );
    // Every end of a relationship names a type that the pack describes.
    for relationship in pack.relationship_type_schemas.values() {
        for ends in [&relationship.from, &relationship.to] {
            let EndTypes::Only(names) = ends else { panic!("an end is open") };
            assert!(names.iter().all(|name| types.contains(&name.as_str())), "{names:?}");
        }
    }
}

#[test]
fn the_coordination_pack_knows_a_task_and_what_follows_from_it() {
    let set = PackSet::compile([coordination_pack()]).unwrap();
    let check = |object_type, properties| {
        let result = set.check_object(object_type, &map(properties), true);
        result.err().map(|invalid| invalid.to_string()).unwrap_or_default()
    };
    assert_eq!(
        check(
            "SpecTask",
            json!({
                "title": "Test tagging", "status": "paused", "priority": "high", "complexity": 3,
                "kind": "test", "key": "test", "verdict": "test", "verifies": ["implement"],
                "run_id": "r", "workflow_id": "w", "output": { "any": ["thing"] },
                "metrics": { "start_time": "2026-01-31T12:00:00Z", "duration_seconds": 1.5 },
            }),
        ),
        ""
    );
    assert_eq!(
        check("SpecTask", json!({ "priority": "urgent", "complexity": 11 })),
        "`properties.complexity`: 11 is more than the maximum of 10; \
         `properties.priority`: \"urgent\" is not one of low, medium, high, critical"
    );
    assert_eq!(check("Session", json!({ "tokens_in": 1, "tokens_out": 2, "retry_of": "s" })), "");
    assert_eq!(check("Discussion", json!({ "discussion_type": "review_loop" })), "");
    assert_eq!(check("TestResult", json!({})), "`properties.verdict`: is required");
    assert_eq!(check("CodeReview", json!({ "verdict": "APPROVE" })), "");

    let edge =
        |name, from, to, properties| set.check_relationship(name, from, to, &map(properties), true).is_ok();
    assert!(edge("has_message", "Session", "SessionMessage", json!({ "sequence": 1 })));
    assert!(!edge("has_message", "Session", "SessionMessage", json!({ "sequence": "1" })));
    assert!(edge("follows_up", "Session", "Session", json!({})));
    assert!(edge("informed_by", "Session", "Session", json!({})));
    assert!(edge("verifies", "SpecTask", "SpecTask", json!({})));
    assert!(!edge("blocks", "SpecTask", "Session", json!({})));
}

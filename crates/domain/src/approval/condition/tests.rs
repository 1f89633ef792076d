use serde_json::json;

use super::*;
use crate::{approval::MAX_DECISION_STEPS, ids::WorkflowId};

fn holds(action: Action, when: Value, input: Value) -> bool {
    holds_for(action, when, input, &Names::new())
}

fn holds_for(action: Action, when: Value, input: Value, names: &Names) -> bool {
    let (input, steps) = (NormalInput::as_written(&input), Steps::new(MAX_DECISION_STEPS));
    hold(&serde_json::from_value::<Vec<Filter>>(when).unwrap(), action, &Call::new(&input, names, &steps))
}

#[test]
fn a_value_of_another_kind_is_held_and_never_allowed() {
    let cases = [
        (json!({ "op": "gt", "value": 100 }), json!(["500", [500], { "v": 500 }, true])),
        (json!({ "op": "eq", "value": 1000 }), json!(["1000", [1000], {}])),
        (json!({ "op": "in", "value": [1, 2] }), json!(["1", [1]])),
        (json!({ "op": "contains", "value": "secret" }), json!([["my secret"], 7, { "a": "secret" }])),
        (json!({ "op": "lt", "value": "m" }), json!([5])),
    ];
    for (condition, values) in cases {
        let mut when = condition.clone();
        when["path"] = json!("properties.amount");
        for value in values.as_array().unwrap() {
            let input = json!({ "properties": { "amount": value } });
            assert!(holds(Action::Deny, json!([when]), input.clone()), "{condition} {value}");
            assert!(holds(Action::Ask, json!([when]), input.clone()), "{condition} {value}");
            assert!(!holds(Action::Allow, json!([when]), input), "{condition} {value}");
        }
    }
}

#[test]
fn values_of_the_same_kind_are_compared() {
    let when = json!([{ "path": "amount", "op": "gt", "value": 100 }]);
    assert!(!holds(Action::Ask, when.clone(), json!({ "amount": 50 })));
    assert!(holds(Action::Ask, when.clone(), json!({ "amount": 500 })));
    assert!(!holds(Action::Ask, when.clone(), json!({})), "an absent value is not above the limit");
    assert!(!holds(Action::Ask, when, json!({ "amount": null })));
}

#[test]
fn conditions_apply_to_each_item_of_a_list() {
    let when = json!([{ "path": "type", "op": "eq", "value": "Payment" }]);
    let batch = json!({ "objects": [{ "type": "Note" }, { "type": "Payment" }] });
    assert!(holds(Action::Ask, when.clone(), batch.clone()));
    assert!(!holds(Action::Allow, when.clone(), batch));
    let payments = json!({ "objects": [{ "type": "Payment" }, { "type": "Payment" }] });
    assert!(holds(Action::Allow, when.clone(), payments));
    let notes = json!({ "objects": [{ "type": "Note" }] });
    assert!(!holds(Action::Ask, when.clone(), notes));
    // An item does not hide what the input itself says.
    let hidden = json!({ "type": "Payment", "tags": [{ "type": "x" }] });
    assert!(holds(Action::Deny, when.clone(), hidden));
    let other = json!({ "type": "Note", "objects": [{ "type": "Payment" }] });
    assert!(!holds(Action::Allow, when, other));
}

#[test]
fn all_conditions_have_to_hold_for_the_same_item() {
    let when = json!([
        { "path": "type", "op": "eq", "value": "Payment" },
        { "path": "properties.amount", "op": "gt", "value": 100 },
    ]);
    let separate = json!({ "objects": [
        { "type": "Payment", "properties": { "amount": 1 } },
        { "type": "Note", "properties": { "amount": 500 } },
    ] });
    assert!(!holds(Action::Ask, when.clone(), separate));
    let together = json!({ "objects": [{ "type": "Payment", "properties": { "amount": 500 } }] });
    assert!(holds(Action::Ask, when, together));
}

#[test]
fn ne_looks_at_the_items_and_not_at_the_call_around_them() {
    let when = json!([{ "path": "properties.reviewed", "op": "ne", "value": true }]);
    let reviewed = json!({ "objects": [{ "properties": { "reviewed": true } }] });
    assert!(!holds(Action::Ask, when.clone(), reviewed));
    let mixed = json!({ "objects": [{ "properties": { "reviewed": true } }, { "properties": {} }] });
    assert!(holds(Action::Ask, when.clone(), mixed));
    assert!(holds(Action::Ask, when, json!({})));
}

#[test]
fn a_path_crosses_lists() {
    let named = json!([{ "path": "objects.type", "op": "eq", "value": "Payment" }]);
    let numbered = json!([{ "path": "objects.0.type", "op": "eq", "value": "Payment" }]);
    let batch = json!({ "objects": [{ "type": "Payment" }] });
    assert!(holds(Action::Ask, named, batch.clone()));
    assert!(holds(Action::Ask, numbered, batch));
}

#[test]
fn an_input_that_is_no_object_is_held() {
    let when = json!([{ "path": "a", "op": "exists" }]);
    assert!(holds(Action::Deny, when.clone(), json!("text")));
    assert!(!holds(Action::Allow, when, json!("text")));
    assert!(holds(Action::Allow, json!([]), json!("text")), "a rule without conditions matches any input");
}

/// The names of an object that is written as its id in the input, and has had these keys.
fn named(id: ObjectId, keys: &[&str]) -> (String, Vec<ObjectNames>) {
    let keys = keys.iter().map(|key| (*key).to_owned()).collect();
    (id.to_string(), vec![ObjectNames::new(id, "Note", keys)])
}

#[test]
fn all_conditions_of_a_rule_hold_whichever_names_the_objects_have() {
    let (a, b) = (ObjectId::new(), ObjectId::new());
    // They were renamed a different number of times.
    let names = Names::from([
        named(a, &["Note/tmp", "Note/keep"]),
        named(b, &["Note/tmp2", "Note/tmp3", "Note/tmp4", "Note/other"]),
    ]);
    let when = json!([
        { "path": "fromId", "op": "eq", "value": "Note/keep" },
        { "path": "toId", "op": "in", "value": ["Note/other"] },
    ]);
    let edge = |from, to| json!({ "relationships": [{ "fromId": from, "toId": to }] });
    assert!(holds_for(Action::Deny, when.clone(), edge(a, b), &names));
    assert!(!holds_for(Action::Deny, when.clone(), edge(b, a), &names));
    assert!(!holds_for(Action::Allow, when, edge(a, b), &names), "they were called otherwise as well");
    let mixed = json!([
        { "path": "fromId", "op": "eq", "value": a.to_string().to_uppercase() },
        { "path": "toId", "op": "contains", "value": "other" },
    ]);
    assert!(holds_for(Action::Ask, mixed, edge(a, b), &names));
}

#[test]
fn a_comparison_looks_at_the_names_that_can_tell_objects_apart() {
    let (keep, renamed, bare) = (ObjectId::new(), ObjectId::new(), ObjectId::new());
    let names = Names::from([
        named(keep, &["Note/keep"]),
        named(renamed, &["Note/keep", "Note/before"]),
        named(bare, &[]),
    ]);
    let holds = |action, op, value: Value, id: ObjectId| {
        let when = json!([{ "path": "id", "op": op, "value": value }]);
        holds_for(action, when, json!({ "id": id }), &names)
    };
    for value in [json!("Note/keep"), json!(keep)] {
        assert!(
            holds(Action::Allow, "eq", value.clone(), keep)
                && !holds(Action::Deny, "ne", value.clone(), keep)
        );
        assert!(
            !holds(Action::Allow, "ne", value.clone(), keep)
                && holds(Action::Deny, "eq", value.clone(), keep)
        );
        assert!(
            !holds(Action::Allow, "eq", value.clone(), renamed)
                && holds(Action::Deny, "ne", value.clone(), renamed)
        );
        assert!(
            !holds(Action::Allow, "eq", value.clone(), bare)
                && holds(Action::Deny, "ne", value.clone(), bare)
        );
        assert!(holds(Action::Allow, "ne", value.clone(), bare) && !holds(Action::Deny, "eq", value, bare));
    }
    assert!(holds(Action::Allow, "in", json!(["Note/keep", renamed]), keep));
    assert!(holds(Action::Allow, "in", json!(["Note/keep", renamed]), renamed));
    assert!(holds(Action::Allow, "eq", json!(format!("Note/{bare}")), bare));
    assert!(holds(Action::Deny, "eq", json!(format!("Note/{keep}")), keep));
}

#[test]
fn an_object_with_unknown_keys_may_be_meant_by_every_rule() {
    let id = ObjectId::new();
    let (text, objects) = named(id, &["Note/a"]);
    let objects = objects.into_iter().map(ObjectNames::with_unknown_keys).collect();
    let names = Names::from([(text, objects)]);
    for (op, value) in [
        ("eq", json!("Note/keep")),
        ("ne", json!("Note/a")),
        ("in", json!(["Note/keep"])),
        ("contains", json!("keep")),
    ] {
        let when = json!([{ "path": "id", "op": op, "value": value }]);
        assert!(holds_for(Action::Deny, when, json!({ "id": id }), &names), "{op}");
    }
    for (op, value) in [("eq", json!("Note/a")), ("ne", json!("Note/keep"))] {
        let when = json!([{ "path": "id", "op": op, "value": value }]);
        assert!(!holds_for(Action::Allow, when, json!({ "id": id }), &names), "{op}");
    }
    // Its id is known, and it is no other object.
    let other = ObjectId::new();
    for (op, value, is_its_own) in [
        ("eq", json!(id), true),
        ("eq", json!(other), false),
        ("in", json!([id, other]), true),
        ("in", json!([other]), false),
        ("exists", json!(true), true),
        ("exists", json!(false), false),
    ] {
        for action in [Action::Allow, Action::Deny] {
            let when = json!([{ "path": "id", "op": op, "value": value }]);
            assert_eq!(holds_for(action, when, json!({ "id": id }), &names), is_its_own, "{op} {value}");
        }
    }
}

#[test]
fn a_large_input_and_many_conditions_take_time_in_proportion() {
    let objects: Vec<Value> =
        (0..500).map(|number| json!({ "type": "Note", "key": number.to_string() })).collect();
    let edges: Vec<Value> =
        (0..500).map(|number| json!({ "fromId": "Note/a", "properties": { "q": number } })).collect();
    let input = json!({ "objects": objects, "relationships": edges });
    let mut when: Vec<Value> = (0..19)
        .map(|_| json!({ "path": "relationships.properties.missing", "op": "ne", "value": 1 }))
        .collect();
    when.push(json!({ "path": "relationships.properties.q", "op": "eq", "value": -1 }));
    let started = std::time::Instant::now();
    for _ in 0..100 {
        assert!(!holds(Action::Deny, json!(when), input.clone()));
    }
    // It took minutes when each of the thousand items looked at all of the input.
    assert!(started.elapsed().as_secs() < 20, "{:?}", started.elapsed());
}

#[test]
fn a_list_contains_an_object_by_any_of_its_names() {
    let (a, b) = (ObjectId::new(), ObjectId::new());
    let names = Names::from([named(a, &["Note/a"]), named(b, &["Note/tmp", "Note/b"])]);
    let holds = |action, value: Value| {
        let when = json!([{ "path": "startIds", "op": "contains", "value": value }]);
        holds_for(action, when, json!({ "startIds": [a, b] }), &names)
    };
    for value in [json!("Note/a"), json!("Note/b"), json!(b), json!("Note/tm")] {
        assert!(holds(Action::Deny, value));
    }
    assert!(!holds(Action::Deny, json!("Note/c")));
}

#[test]
fn a_rule_that_allows_an_object_in_a_list_allows_no_others_in_it() {
    let (a, b) = (ObjectId::new(), ObjectId::new());
    let names = Names::from([named(a, &["Note/a"]), named(b, &["Note/tmp", "Note/b"])]);
    let holds = |path: &str, value: Value, listed: Value| {
        let when = json!([{ "path": path, "op": "contains", "value": value }]);
        holds_for(Action::Allow, when, json!({ path: listed }), &names)
    };
    for path in ["ids", "startIds", "blockedBy"] {
        assert!(holds(path, json!("Note/a"), json!([a])) && holds(path, json!(b), json!([b, b])), "{path}");
        for listed in [json!([a, b]), json!([a, "Note/unknown"]), json!([b]), json!([])] {
            assert!(!holds(path, json!("Note/a"), listed.clone()), "{path} {listed}");
        }
        assert!(!holds(path, json!("Note/tmp"), json!([b])), "it was called otherwise as well");
    }
    // What names no objects belongs to one thing.
    assert!(holds("labels", json!("draft"), json!(["draft", "new"])));
}

#[test]
fn a_text_that_may_name_several_objects_is_judged_by_each_of_them() {
    let (keep, decoy) = (ObjectId::new(), ObjectId::new());
    let written = format!("Note/{keep}");
    let decoy = ObjectNames::new(decoy, "Note", vec![written.clone()]).deleted();
    let object = ObjectNames::new(keep, "Note", vec!["Note/keep".to_owned()]);
    let names = Names::from([(written.clone(), vec![decoy, object])]);
    let holds = |action, op, value: &str| {
        let when = json!([{ "path": "id", "op": op, "value": value }]);
        holds_for(action, when, json!({ "id": written }), &names)
    };
    for value in ["Note/keep", &keep.to_string(), &written] {
        assert!(holds(Action::Deny, "eq", value) && !holds(Action::Allow, "ne", value), "{value}");
        assert!(holds(Action::Deny, "ne", value) && !holds(Action::Allow, "eq", value), "{value}");
    }
}

#[test]
fn the_key_of_a_task_alone_is_one_of_its_names() {
    let (build, deploy) = (ObjectId::new(), ObjectId::new());
    let task = |id, keys: &[&str]| {
        vec![ObjectNames::new(id, "SpecTask", keys.iter().map(|key| (*key).to_owned()).collect())]
    };
    let names = Names::from([
        ("build".to_owned(), task(build, &["SpecTask/build"])),
        ("SpecTask/build".to_owned(), task(build, &["SpecTask/build"])),
        ("area/deploy".to_owned(), task(deploy, &["SpecTask/area/deploy", "SpecTask/secret"])),
    ]);
    let holds = |action, op, value: Value, written: &str| {
        let when = json!([{ "path": "id", "op": op, "value": value }]);
        holds_for(action, when, json!({ "id": written }), &names)
    };
    for value in [json!("build"), json!("SpecTask/build"), json!(build)] {
        for written in ["build", "SpecTask/build"] {
            assert!(holds(Action::Deny, "eq", value.clone(), written), "{value} {written}");
            assert!(holds(Action::Deny, "in", json!([value, "other"]), written), "{value} {written}");
            assert!(!holds(Action::Deny, "ne", value.clone(), written), "{value} {written}");
            assert!(holds(Action::Allow, "eq", value.clone(), written), "{value} {written}");
            assert!(holds(Action::Allow, "in", json!([value]), written), "{value} {written}");
            assert!(!holds(Action::Allow, "ne", value.clone(), written), "{value} {written}");
        }
        assert!(!holds(Action::Deny, "eq", value.clone(), "area/deploy"), "{value}");
        assert!(holds(Action::Allow, "ne", value, "area/deploy"));
    }
    assert!(holds(Action::Allow, "contains", json!("uil"), "build"));
    assert!(holds(Action::Allow, "contains", json!("SpecTask"), "SpecTask/build"));
    for value in ["secret", "SpecTask/secret", "SpecTask/area/deploy"] {
        assert!(holds(Action::Deny, "eq", json!(value), "area/deploy"), "{value}");
    }
    assert!(
        !holds(Action::Allow, "eq", json!("area/deploy"), "area/deploy"),
        "it was called otherwise as well"
    );
}

#[test]
fn an_id_after_a_type_is_compared_without_regard_to_case() {
    let id = ObjectId::new();
    let typed = format!("Note/{id}");
    let upper = format!("Note/{}", id.to_string().to_uppercase());
    let names = Names::from([named(id, &[])]);
    let when = json!([{ "path": "id", "op": "eq", "value": upper }]);
    assert!(holds_for(Action::Deny, when.clone(), json!({ "id": id }), &names));
    assert!(holds_for(Action::Allow, when.clone(), json!({ "id": id }), &names));
    // Also where the object is not found.
    for written in [&typed, &upper] {
        assert!(holds(Action::Deny, when.clone(), json!({ "id": written })), "{written}");
    }
}

#[test]
fn an_id_in_another_field_is_compared_without_regard_to_case() {
    let (document, other) = (ObjectId::new().to_string(), ObjectId::new().to_string());
    let upper = document.to_uppercase();
    for path in ["documentId", "workflowId"] {
        for (written, ruled) in [(&document, &upper), (&upper, &document), (&upper, &upper)] {
            let holds = |action, op: &str, value: Value, written: &str| {
                let when = json!([{ "path": path, "op": op, "value": value }]);
                holds(action, when, json!({ path: written }))
            };
            for action in [Action::Deny, Action::Allow] {
                assert!(holds(action, "eq", json!(ruled), written), "{path} {written} {ruled}");
                assert!(holds(action, "in", json!([ruled]), written), "{path} {written} {ruled}");
                assert!(!holds(action, "ne", json!(ruled), written), "{path} {written} {ruled}");
                assert!(!holds(action, "eq", json!(ruled), &other), "{path} {written} {ruled}");
                assert!(holds(action, "ne", json!(ruled), &other), "{path} {written} {ruled}");
            }
        }
    }
    // Content is compared as it is written.
    let when = json!([{ "path": "properties.documentId", "op": "eq", "value": document }]);
    assert!(!holds(Action::Deny, when, json!({ "properties": { "documentId": upper } })));
}

#[test]
fn a_rule_with_the_key_of_a_task_in_its_workflow_is_about_the_task() {
    let (review, workflow) = (ObjectId::new(), WorkflowId::new());
    let name = format!("SpecTask/{workflow}/review");
    let task = ObjectNames::new(review, "SpecTask", vec![name.clone()]).with_key_in_workflow("review");
    let texts = ["review".to_owned(), review.to_string(), name.clone(), format!("{workflow}/review")];
    let names: Names = texts.iter().map(|text| (text.clone(), vec![task.clone()])).collect();
    for written in &texts {
        for value in &texts {
            let holds = |action, op, value: Value| {
                let when = json!([{ "path": "id", "op": op, "value": value }]);
                holds_for(action, when, json!({ "id": written }), &names)
            };
            for action in [Action::Deny, Action::Allow] {
                assert!(holds(action, "eq", json!(value)), "{written} {value}");
                assert!(holds(action, "in", json!([value])), "{written} {value}");
                assert!(!holds(action, "ne", json!(value)), "{written} {value}");
            }
            assert!(holds(Action::Allow, "ne", json!("build")) && !holds(Action::Deny, "eq", json!("build")));
        }
    }
}

#[test]
fn null_counts_as_a_value_that_is_removed() {
    for path in ["properties.locked", "objects.properties.locked"] {
        let input = match path.starts_with("objects") {
            true => json!({ "objects": [{ "properties": { "locked": null } }] }),
            false => json!({ "properties": { "locked": null } }),
        };
        for expected in [true, false] {
            let when = json!([{ "path": path, "op": "exists", "value": expected }]);
            assert!(holds(Action::Deny, when.clone(), input.clone()), "{path} {expected}");
            assert!(!holds(Action::Allow, when, input.clone()), "{path} {expected}");
        }
    }
    let exists = |expected: bool| json!([{ "path": "properties.locked", "op": "exists", "value": expected }]);
    let absent = json!({ "properties": {} });
    assert!(!holds(Action::Deny, exists(true), absent.clone()));
    assert!(holds(Action::Allow, exists(false), absent));
}

#[test]
fn id_and_ids_are_compared_as_one_field() {
    let a = ObjectId::new();
    let names = Names::from([named(a, &["Note/a"])]);
    let holds = |action, path: &str, op, input: Value| {
        let when = json!([{ "path": path, "op": op, "value": "Note/a" }]);
        holds_for(action, when, input, &names)
    };
    for (path, op) in [("id", "eq"), ("id", "in"), ("id", "contains"), ("ids", "contains"), ("ids.0", "eq")] {
        let in_list = |ids: Value| match op {
            "in" => {
                let when = json!([{ "path": path, "op": op, "value": ["Note/a"] }]);
                holds_for(Action::Deny, when, json!({ "ids": ids }), &names)
            }
            _ => holds(Action::Deny, path, op, json!({ "ids": ids })),
        };
        assert!(in_list(json!([a, "Note/b"])), "{path} {op}");
        assert!(!in_list(json!(["Note/b"])), "{path} {op}");
        assert!(!in_list(json!([])), "{path} {op}");
    }
    assert!(holds(Action::Deny, "ids", "contains", json!({ "id": a })));
    assert!(holds(Action::Deny, "id", "ne", json!({ "ids": [a, "Note/b"] })));
    assert!(!holds(Action::Deny, "id", "ne", json!({ "ids": [a] })));
    assert!(!holds(Action::Allow, "id", "ne", json!({ "ids": [a] })));
    assert!(holds(Action::Allow, "id", "ne", json!({ "ids": ["Note/b"] })));
    assert!(!holds(Action::Allow, "id", "eq", json!({ "ids": [a] })), "a rule that allows names its field");
    // A rule can still ask for calls that lack a field.
    let absent = json!([{ "path": "id", "op": "exists", "value": false }]);
    assert!(holds_for(Action::Deny, absent, json!({ "ids": [a] }), &names));
}

#[test]
fn content_is_compared_as_it_is_written() {
    let a = ObjectId::new();
    let names = Names::from([named(a, &["Note/a"])]);
    for path in ["text", "properties.id"] {
        let when = json!([{ "path": path, "op": "eq", "value": "Note/a" }]);
        let input = json!({ "id": a, "text": a, "properties": { "id": a } });
        assert!(!holds_for(Action::Deny, when, input, &names), "{path}");
    }
}

#[test]
fn a_template_pack_has_a_name_for_each_version_and_one_for_the_newest() {
    let id: crate::ids::PackId = "0190d3a1-7b2c-7e45-9f3a-5c8d2e1b4f60".parse().unwrap();
    let holds = |action, (op, value): (&str, Value), written: &str, is_newest| {
        let names =
            Names::from([(written.to_owned(), vec![ObjectNames::of_pack(id, "evil", "1.0.0", is_newest)])]);
        holds_for(
            action,
            json!([{ "path": "id", "op": op, "value": value }]),
            json!({ "id": written }),
            &names,
        )
    };
    let texts = ["evil", "evil@1.0.0", "0190d3a1-7b2c-7e45-9f3a-5c8d2e1b4f60"];
    for written in texts {
        for named in texts {
            assert!(holds(Action::Deny, ("eq", json!(named)), written, true), "{written} {named}");
            assert!(holds(Action::Allow, ("eq", json!(named)), written, true), "{written} {named}");
            assert!(holds(Action::Allow, ("in", json!([named])), written, true), "{written} {named}");
            assert!(!holds(Action::Allow, ("ne", json!(named)), written, true), "{written} {named}");
            assert!(!holds(Action::Deny, ("ne", json!(named)), written, true), "{written} {named}");
        }
        assert!(!holds(Action::Deny, ("eq", json!("evil@2.0.0")), written, true), "{written}");
        assert!(!holds(Action::Allow, ("eq", json!("evil@2.0.0")), written, true), "{written}");
    }
    // The name stands for another version.
    for written in &texts[1..] {
        assert!(!holds(Action::Allow, ("eq", json!("evil")), written, false), "{written}");
        assert!(holds(Action::Deny, ("eq", json!("evil")), written, false), "{written}");
    }
}

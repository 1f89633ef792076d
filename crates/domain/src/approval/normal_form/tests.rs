use serde_json::json;

use super::*;
use crate::approval::{
    Action, ApprovalRule, InputNames, MAX_DECISION_STEPS, Steps, ToolFacts, Verdict, decide,
};

fn own() -> OwnWork {
    let id = "0190d3a1-7b2c-7e45-9f3a-5c8d2e1b4f60";
    OwnWork {
        run: Some(id.parse().unwrap()),
        task: Some(id.parse().unwrap()),
        workflow: Some(id.parse().unwrap()),
    }
}

/// Whether a rule with this action and condition matches the input of a tool.
fn matches(action: Action, tool: &str, when: Value, input: &Value) -> bool {
    let name = match action {
        Action::Allow => "allow",
        Action::Ask => "ask",
        Action::Deny => "deny",
    };
    let rules: Vec<ApprovalRule> = serde_json::from_value(json!([
        { "tools": [tool], "when": [when], "action": name },
        { "tools": [tool], "action": if action == Action::Allow { "deny" } else { "allow" } },
    ]))
    .unwrap();
    let facts = ToolFacts { label: tool, name: tool, server: None, is_destructive_external: false };
    let input = NormalInput::new(tool, input, &own());
    let steps = Steps::new(MAX_DECISION_STEPS);
    match decide(&rules, &facts, &input, &InputNames::default(), &steps) {
        Verdict::Allow => action == Action::Allow,
        Verdict::Ask { .. } | Verdict::Deny { .. } => action != Action::Allow,
        Verdict::TooManySteps => panic!("too many steps"),
    }
}

#[test]
fn one_more_item_beside_a_list_is_judged_as_those_in_it() {
    let input = json!({ "tasks": [{ "title": "x" }], "synthesis": { "title": "s", "assignedAgent": "evil", "blockedBy": ["zz"] } });
    for when in [
        json!({ "path": "assignedAgent", "op": "eq", "value": "evil" }),
        json!({ "path": "tasks.assignedAgent", "op": "eq", "value": "evil" }),
        json!({ "path": "synthesis.assignedAgent", "op": "eq", "value": "evil" }),
        json!({ "path": "blockedBy", "op": "contains", "value": "zz" }),
    ] {
        assert!(matches(Action::Deny, "create_subtasks", when.clone(), &input), "{when}");
    }
    let allow = json!({ "path": "assignedAgent", "op": "eq", "value": "good" });
    let mixed = json!({ "tasks": [{ "title": "x", "assignedAgent": "good" }], "synthesis": { "title": "s", "assignedAgent": "evil" } });
    assert!(!matches(Action::Allow, "create_subtasks", allow.clone(), &mixed));
    let good = json!({ "tasks": [{ "title": "x", "assignedAgent": "good" }], "synthesis": { "title": "s", "assignedAgent": "good" } });
    assert!(matches(Action::Allow, "create_subtasks", allow, &good));
}

#[test]
fn a_single_item_is_judged_as_one_in_the_list() {
    for (tool, path, input) in [
        ("entities_create", "objects.type", json!({ "type": "Payment", "properties": {} })),
        (
            "relationships_create",
            "relationships.type",
            json!({ "type": "Payment", "fromId": "A/b", "toId": "A/c" }),
        ),
        ("tasks_create", "tasks.assignedAgent", json!({ "title": "x", "assignedAgent": "Payment" })),
    ] {
        let when = json!({ "path": path, "op": "eq", "value": "Payment" });
        assert!(matches(Action::Deny, tool, when, &input), "{tool}");
        // It is not written in a list.
        let list = path.split('.').next().unwrap();
        let exists = json!({ "path": list, "op": "exists" });
        assert!(!matches(Action::Ask, tool, exists, &input), "{tool}");
    }
    let one = json!({ "type": "Note", "properties": {} });
    assert!(matches(
        Action::Allow,
        "entities_create",
        json!({ "path": "type", "op": "eq", "value": "Note" }),
        &one
    ));
    let several = json!({ "type": "Note", "relationships": [{ "type": "knows" }] });
    assert!(!matches(
        Action::Allow,
        "entities_create",
        json!({ "path": "type", "op": "eq", "value": "Note" }),
        &several
    ));
}

#[test]
fn the_short_form_of_an_item_and_the_full_one_are_the_same() {
    let forms = [json!(["evil", "good"]), json!([{ "agent": "evil", "role": "judge" }, "good"])];
    for participants in forms {
        let input = json!({ "topic": "t", "participants": participants });
        for (path, op) in [
            ("participants.agent", "eq"),
            ("agent", "eq"),
            ("participants", "contains"),
            ("participants.0", "eq"),
        ] {
            let when = |value: &str| json!({ "path": path, "op": op, "value": value });
            assert!(matches(Action::Deny, "discussions_start", when("evil"), &input), "{path} {input}");
            assert!(!matches(Action::Deny, "discussions_start", when("other"), &input), "{path} {input}");
        }
    }
    let when = json!({ "path": "agent", "op": "in", "value": ["evil", "good"] });
    assert!(matches(Action::Allow, "discussions_start", when, &json!({ "participants": ["evil", "good"] })));
}

#[test]
fn what_is_left_out_is_the_own_task_run_or_workflow() {
    let own_id = own().task.unwrap().to_string();
    for (tool, field) in [
        ("tasks_dependencies", "id"),
        ("tasks_dependencies", "workflowId"),
        ("tasks_create", "workflowId"),
        ("tasks_update", "workflowId"),
        ("tasks_list", "workflowId"),
        ("tasks_available", "workflowId"),
        ("discussions_start", "task"),
        ("discussions_get", "task"),
        ("runs_get", "id"),
        ("runs_messages", "id"),
    ] {
        let when = |op: &str, value: &Value| json!({ "path": field, "op": op, "value": value });
        for input in [json!({}), json!({ field: null })] {
            assert!(leaves_out_own(tool, &input), "{tool}");
            assert!(
                matches(Action::Deny, tool, when("eq", &json!(own_id)), &input),
                "{tool} {field} {input}"
            );
            assert!(
                !matches(Action::Deny, tool, when("ne", &json!(own_id)), &input),
                "{tool} {field} {input}"
            );
            assert!(
                !matches(Action::Allow, tool, when("ne", &json!(own_id)), &input),
                "{tool} {field} {input}"
            );
        }
        // `exists` is about what is written.
        assert!(!matches(Action::Deny, tool, when("exists", &json!(true)), &json!({})), "{tool} {field}");
        assert!(matches(Action::Deny, tool, when("exists", &json!(false)), &json!({})), "{tool} {field}");
        let other = json!({ field: "other" });
        assert!(!matches(Action::Deny, tool, when("eq", &json!(own_id)), &other), "{tool} {field}");
    }
    let when = json!({ "path": "workflowId", "op": "eq", "value": own_id });
    assert!(!matches(Action::Deny, "tasks_list", when.clone(), &json!({ "allWorkflows": true })));
    assert!(matches(Action::Deny, "tasks_list", when, &json!({ "allWorkflows": false })));
    let task = json!({ "path": "task", "op": "eq", "value": own_id });
    assert!(!matches(Action::Deny, "discussions_get", task, &json!({ "id": "Discussion/a" })));
}

#[test]
fn what_is_left_out_of_a_call_for_several_items_does_not_make_it_one_about_itself() {
    let input = json!({ "tasks": [{ "title": "x", "assignedAgent": "good" }] });
    let rules: Vec<ApprovalRule> = serde_json::from_value(json!([{
        "tools": ["tasks_create"],
        "when": [
            { "path": "workflowId", "op": "eq", "value": own().workflow.unwrap() },
            { "path": "assignedAgent", "op": "ne", "value": "good" },
        ],
        "action": "deny",
    }]))
    .unwrap();
    let facts = ToolFacts {
        label: "tasks_create",
        name: "tasks_create",
        server: None,
        is_destructive_external: false,
    };
    let judge = |input: &Value| {
        let input = NormalInput::new("tasks_create", input, &own());
        decide(&rules, &facts, &input, &InputNames::default(), &Steps::new(MAX_DECISION_STEPS))
    };
    assert_eq!(judge(&input), Verdict::Allow);
    assert_eq!(judge(&json!({ "tasks": [{ "title": "x" }] })), Verdict::Deny { rule: 1 });
}

#[test]
fn a_task_that_names_nothing_to_judge_judges_what_it_waits_for() {
    let when = json!({ "path": "verifies", "op": "contains", "value": "zz" });
    let judge = json!({ "title": "x", "verdict": "review", "blockedBy": ["zz"] });
    for (tool, input) in [
        ("tasks_create", judge.clone()),
        ("tasks_create", json!({ "tasks": [{ "title": "y" }, judge] })),
        ("create_subtasks", json!({ "tasks": [{ "title": "y" }], "synthesis": judge })),
    ] {
        assert!(matches(Action::Deny, tool, when.clone(), &input), "{tool} {input}");
    }
    for other in [
        json!({ "title": "x", "blockedBy": ["zz"] }),
        json!({ "title": "x", "verdict": "none", "blockedBy": ["zz"] }),
        json!({ "title": "x", "verdict": "review", "blockedBy": ["zz"], "verifies": ["a"] }),
    ] {
        assert!(!matches(Action::Deny, "tasks_create", when.clone(), &other), "{other}");
    }
}

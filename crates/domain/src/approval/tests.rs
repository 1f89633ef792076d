use serde_json::{Value, json};

use super::*;
use crate::{
    ids::{AgentId, ApprovalId, ProjectId, RunId, TokenId, ToolCallId},
    time::Timestamp,
};

fn rules(rules: serde_json::Value) -> Vec<ApprovalRule> {
    serde_json::from_value(rules).unwrap()
}

fn decide(rules: &[ApprovalRule], tool: &ToolFacts<'_>, input: &Value) -> Verdict {
    decide_within(MAX_DECISION_STEPS, rules, tool, &NormalInput::as_written(input))
}

fn decide_within(
    steps: u64,
    rules: &[ApprovalRule],
    tool: &ToolFacts<'_>,
    input: &NormalInput<'_>,
) -> Verdict {
    super::decide(rules, tool, input, &InputNames::default(), &Steps::new(steps))
}

fn builtin(name: &str) -> ToolFacts<'_> {
    ToolFacts { label: name, name, server: None, is_destructive_external: false }
}

fn external<'a>(server: &'a str, name: &'a str) -> ToolFacts<'a> {
    ToolFacts { label: name, name, server: Some(server), is_destructive_external: true }
}

const ASK: Verdict = Verdict::Ask { expires_in: None, on_expiry: OnExpiry::Deny };

#[test]
fn the_first_rule_that_matches_decides() {
    let rules = rules(json!([
        { "tools": ["entities_delete"], "action": "deny" },
        { "tools": ["entities_*"], "action": "ask", "expires_in": 60, "on_expiry": "escalate" },
        { "tools": ["*"], "action": "allow" },
    ]));
    assert_eq!(decide(&rules, &builtin("entities_delete"), &json!({})), Verdict::Deny { rule: 1 });
    assert_eq!(
        decide(&rules, &builtin("entities_update"), &json!({})),
        Verdict::Ask { expires_in: Some(60), on_expiry: OnExpiry::Escalate }
    );
    assert_eq!(decide(&rules, &builtin("search_hybrid"), &json!({})), Verdict::Allow);
}

#[test]
fn without_a_rule_only_destructive_external_tools_ask() {
    assert_eq!(decide(&[], &builtin("entities_delete"), &json!({})), Verdict::Allow);
    assert_eq!(decide(&[], &external("github", "delete_repo"), &json!({})), ASK);
    let allow = rules(json!([{ "tools": ["github.delete_*"], "action": "allow" }]));
    assert_eq!(decide(&allow, &external("github", "delete_repo"), &json!({})), Verdict::Allow);
    assert_eq!(decide(&allow, &external("gitlab", "delete_repo"), &json!({})), ASK);
}

#[test]
fn a_bare_name_asks_for_every_tool_of_that_name_and_allows_only_the_one_that_is_called_by_it() {
    let second = ToolFacts { label: "rogue__delete_repo", ..external("rogue", "delete_repo") };
    let allow = rules(json!([{ "tools": ["delete_repo", "delete_*"], "action": "allow" }]));
    assert_eq!(decide(&allow, &external("github", "delete_repo"), &json!({})), Verdict::Allow);
    assert_eq!(decide(&allow, &second, &json!({})), ASK);
    let deny = rules(json!([{ "tools": ["delete_repo"], "action": "deny" }]));
    assert_eq!(decide(&deny, &second, &json!({})), Verdict::Deny { rule: 1 });
}

#[test]
fn an_alias_in_a_rule_means_its_tool() {
    let rules = rules(json!([{ "tools": ["delete_entity"], "action": "ask" }]));
    assert_eq!(decide(&rules, &builtin("entities_delete"), &json!({})), ASK);
}

#[test]
fn conditions_look_at_the_input_and_all_have_to_match() {
    let rules = rules(json!([{
        "tools": ["entities_update"],
        "when": [
            { "path": "type", "op": "eq", "value": "Invoice" },
            { "path": "properties.amount", "op": "gt", "value": 1000 },
        ],
        "action": "ask",
    }]));
    let input = |amount: i64| json!({ "type": "Invoice", "properties": { "amount": amount } });
    assert_eq!(decide(&rules, &builtin("entities_update"), &input(1_001)), ASK);
    assert_eq!(decide(&rules, &builtin("entities_update"), &input(1_000)), Verdict::Allow);
}

#[test]
fn an_input_that_is_no_object_is_let_through_by_no_condition() {
    let when = json!([{ "path": "a", "op": "exists" }]);
    let ask = rules(json!([{ "tools": ["*"], "when": when, "action": "ask" }]));
    assert_eq!(decide(&ask, &builtin("x"), &json!([1])), ASK);
    let allow = rules(
        json!([{ "tools": ["*"], "when": when, "action": "allow" }, { "tools": ["*"], "action": "deny" }]),
    );
    assert_eq!(decide(&allow, &builtin("x"), &json!("text")), Verdict::Deny { rule: 2 });
}

#[test]
fn every_problem_of_the_rules_is_named() {
    let rules = rules(json!([
        { "tools": [], "action": "ask" },
        { "tools": ["a"], "when": [{ "path": "", "op": "eq", "value": 1 }], "action": "ask", "expires_in": 0 },
        { "tools": ["a"], "action": "allow", "expires_in": 5 },
    ]));
    let invalid = check_rules(&rules, |_| Ok(())).unwrap_err();
    let fields: Vec<&str> = invalid.problems.iter().map(|problem| problem.field.as_str()).collect();
    assert_eq!(
        fields,
        [
            "approvals[0].tools",
            "approvals[1].when[0].path",
            "approvals[1].expiresIn",
            "approvals[2].expiresIn"
        ]
    );
}

#[test]
fn unknown_fields_and_actions_are_refused() {
    for wrong in
        [json!({ "tools": ["a"], "action": "asks" }), json!({ "tools": ["a"], "action": "ask", "x": 1 })]
    {
        assert!(serde_json::from_value::<ApprovalRule>(wrong).is_err());
    }
}

fn pending(kind: ApprovalKind, question: Option<Question>) -> Approval {
    Approval {
        id: ApprovalId::new(),
        project: ProjectId::new(),
        kind,
        run: RunId::new(),
        call: ToolCallId::new(),
        agent: AgentId::new(),
        agent_name: "a".into(),
        tool: "t".into(),
        server: None,
        input: json!({}),
        digest: "d".into(),
        question,
        status: ApprovalStatus::Pending,
        decision: None,
        expires_at: None,
        on_expiry: OnExpiry::Deny,
        is_overdue: false,
        created_at: Timestamp::from_micros(0),
    }
}

fn decision(choice: Choice) -> NewDecision {
    NewDecision { choice, edited_input: None, answer: None, reason: None, digest: None }
}

fn check(approval: &Approval, decision: NewDecision) -> Result<Decision, DecisionError> {
    let schema_check = |schema: &Value, answer: &Value| {
        if schema == answer { Ok(()) } else { Err(Invalid::new("answer", "differs")) }
    };
    let input_check =
        |input: &Value| if input.get("bad").is_none() { Ok(()) } else { Err("`bad` is unknown".to_owned()) };
    decision.check(approval, TokenId::new(), Timestamp::from_micros(0), input_check, schema_check)
}

fn field(result: Result<Decision, DecisionError>) -> String {
    match result {
        Err(DecisionError::Invalid(invalid)) => invalid.problems[0].field.clone(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_choice_has_to_fit_the_kind_of_request() {
    let (call, question) = (pending(ApprovalKind::Approval, None), pending(ApprovalKind::Question, None));
    assert!(check(&call, decision(Choice::Approve)).is_ok());
    assert!(check(&call, decision(Choice::Deny)).is_ok());
    assert!(check(&question, decision(Choice::Deny)).is_ok());
    assert_eq!(field(check(&call, decision(Choice::Answer))), "decision");
    assert_eq!(field(check(&question, decision(Choice::Approve))), "decision");
    assert_eq!(field(check(&question, decision(Choice::Answer))), "answer");
}

#[test]
fn an_edited_input_is_an_object_that_the_schema_accepts_and_belongs_to_an_approval() {
    let call = pending(ApprovalKind::Approval, None);
    let edited = |choice, input| NewDecision { edited_input: Some(input), ..decision(choice) };
    assert!(check(&call, edited(Choice::Approve, json!({ "a": 1 }))).is_ok());
    for wrong in [
        edited(Choice::Approve, json!({ "bad": 1 })),
        edited(Choice::Approve, json!([])),
        edited(Choice::Deny, json!({})),
    ] {
        assert_eq!(field(check(&call, wrong)), "editedInput");
    }
}

#[test]
fn an_answer_is_one_of_the_options_or_matches_the_schema() {
    let question = |options: &[&str], response_schema| {
        let options = options.iter().map(|option| (*option).to_owned()).collect();
        pending(ApprovalKind::Question, Some(Question { text: "which?".into(), options, response_schema }))
    };
    let answer = |answer| NewDecision { answer: Some(answer), ..decision(Choice::Answer) };
    assert!(check(&question(&["a", "b"], None), answer(json!("b"))).is_ok());
    assert_eq!(field(check(&question(&["a", "b"], None), answer(json!("c")))), "answer");
    assert_eq!(field(check(&question(&[], None), answer(json!(1)))), "answer");
    assert!(check(&question(&[], Some(json!(1))), answer(json!(1))).is_ok());
    assert_eq!(field(check(&question(&[], Some(json!(1))), answer(json!(2)))), "answer");
}

#[test]
fn a_decision_counts_for_the_call_that_was_shown_and_only_once() {
    let mut call = pending(ApprovalKind::Approval, None);
    let other = NewDecision { digest: Some("other".into()), ..decision(Choice::Approve) };
    assert_eq!(check(&call, other), Err(DecisionError::OtherCall("d".into())));
    call.status = ApprovalStatus::Decided;
    assert_eq!(check(&call, decision(Choice::Deny)), Err(DecisionError::NotPending(ApprovalStatus::Decided)));
}

#[test]
fn the_text_of_a_call_changes_with_tool_pin_and_input_but_not_with_the_order_of_keys() {
    let call = ToolCallId::new();
    let text = |tool, pin, input: &str| call_text(call, tool, pin, &serde_json::from_str(input).unwrap());
    let first = text("t", Some("p"), r#"{"a":1,"b":2}"#);
    assert_eq!(first, text("t", Some("p"), r#"{"b":2,"a":1}"#));
    for other in [
        text("u", Some("p"), r#"{"a":1,"b":2}"#),
        text("t", None, r#"{"a":1,"b":2}"#),
        text("t", Some("p"), r#"{"a":1}"#),
    ] {
        assert_ne!(first, other);
    }
}

#[test]
fn a_decision_that_takes_too_many_steps_is_none() {
    let when = |number: usize| json!({ "path": "text", "op": "contains", "value": format!("{}{number}", "a".repeat(400)) });
    let conditions: Vec<Value> = (0..20).map(when).collect();
    let input = json!({ "text": "a".repeat(40_000) });
    let input = NormalInput::as_written(&input);
    for action in ["allow", "ask", "deny"] {
        let rules = rules(json!([{ "tools": ["*"], "when": conditions, "action": action }]));
        let decide = |steps| decide_within(steps, &rules, &builtin("x"), &input);
        assert_eq!(decide(IN_PLACE_STEPS), Verdict::TooManySteps, "{action}");
        assert_eq!(decide(MAX_DECISION_STEPS), Verdict::Allow, "none of the rules matches");
    }
    // The same condition is compared once, however many rules have it.
    let same: Vec<Value> =
        (0..100).map(|_| json!({ "tools": ["*"], "when": vec![when(0); 20], "action": "deny" })).collect();
    assert_eq!(decide_within(200_000, &rules(json!(same)), &builtin("x"), &input), Verdict::Allow);
}

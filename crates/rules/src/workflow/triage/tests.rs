use emergent_domain::{agent::AgentDefinition, task::NewTask};
use emergent_testkit::fixtures;

use super::*;

fn task(retries: i64, named: Option<&str>) -> Task {
    let new = NewTask {
        title: "Research it".into(),
        max_retries: Some(retries),
        assigned_agent: named.map(str::to_owned),
        ..NewTask::default()
    };
    fixtures::task(new)
}

fn failure(reason: Option<Reason>) -> Failure {
    Failure { agent: "a".into(), reason, error: "no answer".into(), text: String::new() }
}

fn agents() -> Vec<AgentCard> {
    ["a", "b"].map(|name| AgentCard::from_definition(&AgentDefinition::new(name))).to_vec()
}

#[test]
fn code_tries_again_while_it_may() {
    assert_eq!(
        triage_by_rules(&task(1, None), &failure(Some(Reason::Error))),
        Triage::Retry { note: String::new() }
    );
    let reason = "failed after 1 attempt; the last: no answer".to_owned();
    assert_eq!(triage_by_rules(&task(0, None), &failure(None)), Triage::GiveUp { reason });
    for reason in [Reason::Budget, Reason::Definition, Reason::UnknownOutcome] {
        assert!(matches!(triage_by_rules(&task(5, None), &failure(Some(reason))), Triage::GiveUp { .. }));
    }
}

#[test]
fn a_model_decides_within_the_rules() {
    let decide =
        |answer: &str, task: &Task| parse_triage(answer, task, &failure(Some(Reason::Error)), &agents());
    let free = task(1, None);
    let note = || "try the other".to_owned();
    let to = |agent: &str| {
        format!("{{\"action\": \"reassign\", \"agent\": \"{agent}\", \"note\": \"try the other\"}}")
    };
    assert_eq!(decide(&to("b"), &free), Some(Triage::Reassign { agent: "b".into(), note: note() }));
    assert_eq!(
        decide(&to("a"), &free),
        Some(Triage::Retry { note: note() }),
        "the one that failed is not another"
    );
    assert_eq!(decide(&to("nobody"), &free), Some(Triage::Retry { note: note() }));
    assert_eq!(decide(&to("b"), &task(1, Some("a"))), Some(Triage::Retry { note: note() }));
    assert!(matches!(decide(&to("b"), &task(0, None)), Some(Triage::GiveUp { .. })), "no retry is left");
    let escalate = "{\"action\": \"escalate\", \"note\": \"needs a key\"}";
    assert_eq!(decide(escalate, &free), Some(Triage::Escalate { reason: "needs a key".into() }));
    assert_eq!(decide("retry it", &free), None);
}

#[test]
fn only_what_is_possible_is_offered() {
    let offered = |task: &Task| {
        triage_question(task, &failure(None), &agents()).schema["properties"]["action"]["enum"].clone()
    };
    assert_eq!(offered(&task(1, None)), json!(["retry", "reassign", "escalate"]));
    assert_eq!(offered(&task(1, Some("a"))), json!(["retry", "escalate"]));
}

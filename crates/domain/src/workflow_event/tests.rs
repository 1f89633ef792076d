use serde_json::json;

use super::*;

/// What is stored for an event, and that it is read back as the same event.
fn check(body: &WorkflowEventBody, kind: &str, data: &Value) {
    assert_eq!((body.kind(), &body.data()), (kind, data));
    let stored = serde_json::to_value(body).expect("an event is JSON");
    assert_eq!(stored["kind"], kind, "the name of the variant is the kind");
    assert_eq!(&WorkflowEventBody::from_stored(kind, data).expect("it is read back"), body);
}

#[test]
fn events_are_stored_with_their_kind_and_data() {
    let id = ObjectId::new();
    let run = RunId::new();
    let task_move = TaskMove::new("its run completed");
    check(
        &WorkflowEventBody::WorkflowStarted {
            description: "x".into(),
            status: WorkflowStatus::Running,
            tasks: 2,
        },
        "workflow_started",
        &json!({ "description": "x", "status": "running", "tasks": 2 }),
    );
    check(
        &WorkflowEventBody::TaskAdded {
            key: "api".into(),
            title: "The API".into(),
            kind: "implement".into(),
            assigned_agent: None,
            blocked_by: vec!["design".into()],
        },
        "task_added",
        &json!({
            "key": "api", "title": "The API", "kind": "implement", "assignedAgent": null, "blockedBy": ["design"],
        }),
    );
    check(
        &WorkflowEventBody::ModelRetry {
            asker: "selector".into(),
            agent: None,
            model: "p/m".into(),
            error: "busy".into(),
            attempt: 1,
            wait_ms: 500,
        },
        "model_retry",
        &json!({ "asker": "selector", "model": "p/m", "error": "busy", "attempt": 1, "waitMs": 500 }),
    );
    check(
        &WorkflowEventBody::TaskCompleted(task_move.clone()),
        "task_completed",
        &json!({ "reason": "its run completed" }),
    );
    check(
        &WorkflowEventBody::TaskVerdict(TaskMove { verdict: Some(VerdictWord::Fail), ..task_move.clone() }),
        "task_verdict",
        &json!({ "reason": "its run completed", "verdict": "FAIL" }),
    );
    check(
        &WorkflowEventBody::TaskSkipped(TaskMove { from: Some(TaskStatus::Pending), ..task_move.clone() }),
        "task_skipped",
        &json!({ "reason": "its run completed", "from": "pending" }),
    );
    check(
        &WorkflowEventBody::TaskRetried(TaskMove { by: Some(EventActor::Person), ..task_move }),
        "task_retried",
        &json!({ "reason": "its run completed", "by": "person" }),
    );
    check(
        &WorkflowEventBody::WorkflowResumed { reason: "go on".into(), by: EventActor::Run(run) },
        "workflow_resumed",
        &json!({ "reason": "go on", "by": run }),
    );
    check(
        &WorkflowEventBody::BudgetChanged {
            usd: Some(2.5),
            tokens: None,
            reason: "from no limit to $2.50".into(),
            by: EventActor::Person,
        },
        "budget_changed",
        &json!({ "usd": 2.5, "tokens": null, "reason": "from no limit to $2.50", "by": "person" }),
    );
    check(
        &WorkflowEventBody::DiscussionEntry {
            discussion: id,
            agent: "critic".into(),
            entry_type: "feedback".into(),
            round: 1,
            text: "APPROVED".into(),
        },
        "discussion_entry",
        &json!({ "discussion": id, "agent": "critic", "entryType": "feedback", "round": 1, "text": "APPROVED" }),
    );
    check(
        &WorkflowEventBody::JudgeFailed { role: "evaluator".into(), reason: "no answer".into() },
        "judge_failed",
        &json!({ "role": "evaluator", "reason": "no answer" }),
    );
    check(
        &WorkflowEventBody::DiscussionResolved { discussion: id, consensus_level: 0.75, text: "yes".into() },
        "discussion_resolved",
        &json!({ "discussion": id, "consensusLevel": 0.75, "text": "yes" }),
    );
}

#[test]
fn an_unknown_kind_is_an_error() {
    assert!(WorkflowEventBody::from_stored("task_forgotten", &json!({ "reason": "x" })).is_err());
    assert!(WorkflowEventBody::from_stored("task_waiting", &json!({})).is_err());
}

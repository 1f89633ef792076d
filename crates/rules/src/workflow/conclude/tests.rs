use emergent_domain::{
    ids::{ProjectId, RunId},
    task::NewTask,
    time::Timestamp,
    workflow::{Amount, WorkflowSettings, WorkflowStatus},
};
use emergent_testkit::fixtures;
use serde_json::json;

use super::*;
use crate::workflow::{
    snapshot::DiscussionProgress,
    summary::summary_text,
    transition::{AttemptMode, Change},
    verdicts::parse_verdict,
};

/// A workflow with one task at work, whose run ended like this.
fn ended(on_failure: OnFailure, status: RunStatus, reason: Option<Reason>) -> (Snapshot, ObjectId) {
    let task = Task {
        status: TaskStatus::InProgress,
        ..fixtures::task(NewTask { key: "build".into(), ..NewTask::default() })
    };
    let (id, run) = (task.id, RunId::new());
    let settings = WorkflowSettings { on_failure, ..WorkflowSettings::default() };
    let workflow = fixtures::workflow(ProjectId::new(), settings, Timestamp::from_micros(0));
    let mut snapshot = Snapshot::new(workflow, vec![task], &[], &[]);
    snapshot.apply(&Change::AttemptStarted { task: id, run, agent: "builder", mode: AttemptMode::New });
    let attempt = snapshot.attempts.get_mut(&id).expect("an attempt");
    (attempt.status, attempt.reason) = (status, reason);
    (snapshot, id)
}

/// Concludes the attempt and applies what follows, as the dispatcher does.
fn conclude_and_apply(
    snapshot: &mut Snapshot,
    id: ObjectId,
    judged: Option<&Judgement>,
) -> Option<ConcludedAttempt> {
    let concluded = conclude_attempt(snapshot, id, judged)?;
    let transitions = concluded.transitions.iter().map(|(transition, _)| transition).collect();
    snapshot.apply(&Change::AttemptConcluded { task: id, transitions });
    Some(concluded)
}

/// What becomes of the task, and whether a person is asked.
fn check(
    on_failure: OnFailure,
    (status, reason): (RunStatus, Option<Reason>),
    judged: Option<Judgement>,
    expected: (TaskStatus, bool),
) {
    let (mut snapshot, id) = ended(on_failure, status, reason);
    conclude_and_apply(&mut snapshot, id, judged.as_ref()).expect("it is settled");
    let task = snapshot.get(id).expect("the task");
    assert_eq!(
        (task.status, task.needs_person.is_some()),
        expected,
        "{on_failure} {status} {reason:?} {judged:?}"
    );
}

#[test]
fn a_failure_that_no_retry_mends_goes_to_a_person_unless_failures_are_skipped() {
    let cancelled = (RunStatus::Cancelled, None);
    let penniless = (RunStatus::Failed, Some(Reason::Budget));
    let unusable = (RunStatus::Failed, Some(Reason::Definition));
    let unknown = (RunStatus::Failed, Some(Reason::UnknownOutcome));
    let hopeless = || Some(Judgement::GiveUp { why: "its agent cannot be used".into() });
    for (on_failure, asked) in [(OnFailure::Escalate, true), (OnFailure::Skip, false)] {
        check(on_failure, cancelled, None, (TaskStatus::Failed, asked));
        check(on_failure, penniless, None, (TaskStatus::Failed, asked));
        check(on_failure, unknown, None, (TaskStatus::Failed, asked));
        check(on_failure, unusable, None, (TaskStatus::Failed, asked));
        check(on_failure, penniless, hopeless(), (TaskStatus::Failed, asked));
        check(on_failure, unusable, hopeless(), (TaskStatus::Failed, asked));
    }
}

#[test]
fn who_says_that_a_person_has_to_look_is_heard_either_way() {
    let failed = (RunStatus::Failed, Some(Reason::Error));
    for on_failure in [OnFailure::Escalate, OnFailure::Skip] {
        let said = Judgement::Escalate { why: "the credentials are missing".into() };
        check(on_failure, failed, Some(said), (TaskStatus::Failed, true));
        check(on_failure, failed, None, (TaskStatus::Pending, false));
    }
}

#[test]
fn a_run_that_goes_on_keeps_what_was_discussed_in_it_and_a_new_attempt_does_not() {
    for (status, kept) in
        [(RunStatus::Paused, true), (RunStatus::Failed, false), (RunStatus::Completed, false)]
    {
        let (mut snapshot, id) = ended(OnFailure::Escalate, status, None);
        snapshot.discussions.insert(id, DiscussionProgress::Resolved);
        conclude_and_apply(&mut snapshot, id, None).expect("it is settled");
        assert_eq!(snapshot.discussions.contains_key(&id), kept, "{status}");
    }
}

#[test]
fn who_owes_a_verdict_is_asked_for_it_once_more_and_then_has_failed() {
    for (asked_again, expected, retries) in [(false, TaskStatus::Paused, 0), (true, TaskStatus::Pending, 1)] {
        let (mut snapshot, id) = ended(OnFailure::Escalate, RunStatus::Completed, None);
        snapshot.get_mut(id).expect("the task").verdict = VerdictKind::Test;
        snapshot.attempts.get_mut(&id).expect("an attempt").asked_again = asked_again;
        conclude_and_apply(&mut snapshot, id, None).expect("it is settled");
        let task = snapshot.get(id).expect("the task");
        assert_eq!((task.status, task.retry_count), (expected, retries), "asked again: {asked_again}");
    }
}

#[test]
fn everybody_whom_a_verdict_fails_for_good_needs_a_person() {
    let built = ["a", "b"].map(|key| {
        let new = NewTask { key: key.into(), max_retries: Some(0), ..NewTask::default() };
        Task { status: TaskStatus::Completed, ..fixtures::task(new) }
    });
    let new = NewTask { key: "judge".into(), verdict: VerdictKind::Test, ..NewTask::default() };
    let judge = Task { status: TaskStatus::InProgress, ..fixtures::task(new) };
    let (id, blocks) = (judge.id, [(built[0].id, judge.id), (built[1].id, judge.id)]);
    let settings = WorkflowSettings { on_failure: OnFailure::Skip, ..WorkflowSettings::default() };
    let workflow = fixtures::workflow(ProjectId::new(), settings, Timestamp::from_micros(0));
    let tasks = built.into_iter().chain([judge]).collect();
    let mut snapshot = Snapshot::new(workflow, tasks, &blocks, &[]);
    snapshot.apply(&Change::AttemptStarted {
        task: id,
        run: RunId::new(),
        agent: "tester",
        mode: AttemptMode::New,
    });
    let attempt = snapshot.attempts.get_mut(&id).expect("an attempt");
    attempt.status = RunStatus::Completed;
    let said = json!({ "verdict": "FAIL", "issues": ["it does not start"], "summary": "no" });
    attempt.verdict = parse_verdict(VerdictKind::Test, Some(&said), "");
    conclude_and_apply(&mut snapshot, id, None).expect("it is settled");
    for key in ["a", "b"] {
        let task = snapshot.by_key(key).expect("the task");
        let needs = task.needs_person.as_ref().expect("a person is asked about each");
        assert!(needs.reason.contains(&format!("`{key}` failed: `judge` says FAIL")), "{}", needs.reason);
    }
}

#[test]
fn what_could_not_be_paid_goes_on_with_more_budget() {
    let (mut snapshot, id) = ended(OnFailure::Escalate, RunStatus::Failed, Some(Reason::Budget));
    conclude_and_apply(&mut snapshot, id, None).expect("it is settled");
    let needs = snapshot.get(id).and_then(|task| task.needs_person.clone()).expect("a person is asked");
    assert_eq!(needs.options, ["resume", "skip", "cancel"]);
}

#[test]
fn the_summary_of_a_task_is_that_of_its_newest_attempt() {
    let (mut snapshot, id) = ended(OnFailure::Escalate, RunStatus::Completed, None);
    // The workflow was loaded again after an earlier attempt.
    snapshot.get_mut(id).expect("the task").summary = Some("I forgot it.".to_owned());
    snapshot.attempts.get_mut(&id).expect("an attempt").summary = "It is built.".to_owned();
    conclude_and_apply(&mut snapshot, id, None).expect("it is settled");
    assert_eq!(snapshot.get(id).expect("the task").summary.as_deref(), Some("It is built."));
    let (status, spent, now) = (WorkflowStatus::Completed, Amount::default(), Timestamp::from_micros(0));
    let text = summary_text(&snapshot, status, spent, now);
    assert!(text.contains("- `build` by builder: It is built."), "{text}");
}

#[test]
fn a_result_that_was_not_evaluated_completes_its_task_and_says_so() {
    let (mut snapshot, id) = ended(OnFailure::Escalate, RunStatus::Completed, None);
    let judged = Judgement::NotEvaluated { why: "the evaluator failed: no answer".into() };
    let concluded = conclude_and_apply(&mut snapshot, id, Some(&judged)).expect("it is settled");
    let (transition, _) = &concluded.transitions[0];
    assert!(matches!(transition.to, TransitionTo::Completed { .. }));
    let expected = "its run completed; its result was not evaluated, because the evaluator failed: no answer";
    assert_eq!(transition.reason, expected);
}

#[test]
fn used_up_retries_are_counted_in_words() {
    let why = |max_retries: i64| {
        let (mut snapshot, id) = ended(OnFailure::Skip, RunStatus::Failed, Some(Reason::Error));
        let task = snapshot.get_mut(id).expect("the task");
        (task.max_retries, task.retry_count) = (max_retries, max_retries);
        let concluded = conclude_and_apply(&mut snapshot, id, None).expect("it is settled");
        concluded.transitions.first().map(|(transition, _)| transition.reason.clone()).expect("a reason")
    };
    for (max_retries, end) in
        [(0, "; it has no retries"), (1, "; its 1 retry is used up"), (2, "; its 2 retries are used up")]
    {
        assert!(why(max_retries).ends_with(end), "{}", why(max_retries));
    }
}

#[test]
fn changes_that_a_person_wants_use_up_no_retry_and_go_to_the_same_agent() {
    let (mut snapshot, id) = ended(OnFailure::Escalate, RunStatus::Completed, None);
    {
        let task = snapshot.get_mut(id).expect("the task");
        (task.max_retries, task.verdict) = (0, VerdictKind::Review);
    }
    snapshot.attempts.get_mut(&id).expect("an attempt").summary = "A draft.".into();
    let changes = WantedChanges { reason: "a person asks for dates".into(), suggestions: "- two: no".into() };
    let concluded = conclude_and_apply(&mut snapshot, id, Some(&Judgement::ChangesWanted(changes)));
    let transitions = concluded.expect("it is settled").transitions;
    assert_eq!(transitions.len(), 1, "no verdict counts");
    assert_eq!(transitions[0].0.reason, "a person asks for dates");
    let task = snapshot.get(id).expect("the task");
    assert_eq!((task.status, task.retry_count), (TaskStatus::Pending, 0));
    assert_eq!((task.assigned_agent.as_deref(), task.agent_is_named), (Some("builder"), false));
    let expected =
        "Attempt 1: a person asks for dates\nWhat was suggested:\n- two: no\nWhat it said: A draft.";
    assert_eq!(task.failure_context, expected);
    assert_eq!(snapshot.next_attempt_number(task), 2);
}

use emergent_domain::{
    ids::{ProjectId, RunId, WorkflowId},
    task::NewTask,
    time::Timestamp,
    workflow::WorkflowSettings,
};
use emergent_testkit::fixtures;

use super::*;
use crate::workflow::foreign_blockers::{ForeignBlocker, TAKEN_MANUALLY};
use crate::workflow::transition::{AttemptMode, Change};

/// Tasks of one workflow, one word each: `a!` is completed, `a?` at work, `a-` failed, `a~` skipped.
/// What stands before `>` blocks what stands behind; a blocker in capitals is of another workflow.
fn world(on_failure: OnFailure, tasks: &str, blocks: &[&str], outside: &[ForeignBlocker]) -> Snapshot {
    let made: Vec<Task> = tasks
        .split(' ')
        .map(|word| {
            let key = word.trim_end_matches(['!', '?', '-', '~']);
            let status = match word.strip_prefix(key) {
                Some("!") => TaskStatus::Completed,
                Some("?") => TaskStatus::InProgress,
                Some("-") => TaskStatus::Failed,
                Some("~") => TaskStatus::Skipped,
                _ => TaskStatus::Pending,
            };
            Task { status, ..fixtures::task(NewTask { key: key.into(), ..NewTask::default() }) }
        })
        .collect();
    let id = |name: &str| {
        let here = made.iter().find(|task| task.key == name).map(|task| task.id);
        let there = outside.iter().find(|one| one.name.starts_with(&format!("`{name}`")));
        here.or(there.map(|one| one.id)).unwrap_or_else(|| panic!("there is no `{name}`"))
    };
    let edges: Vec<(ObjectId, ObjectId)> = blocks
        .iter()
        .filter_map(|edge| edge.split_once(" > "))
        .map(|(from, to)| (id(from), id(to)))
        .collect();
    let settings = WorkflowSettings { on_failure, ..WorkflowSettings::default() };
    let workflow = fixtures::workflow(ProjectId::new(), settings, Timestamp::from_micros(0));
    Snapshot::new(workflow, made, &edges, outside)
}

/// A task of another workflow.
fn other(key: &str, status: TaskStatus, workflow: WorkflowStatus) -> ForeignBlocker {
    let task = fixtures::task(NewTask { key: key.into(), title: "The API".into(), ..NewTask::default() });
    ForeignBlocker::new(&Task { status, workflow: Some(WorkflowId::new()), ..task }, Some(workflow))
}

fn key(snapshot: &Snapshot, id: Option<ObjectId>) -> String {
    id.and_then(|id| snapshot.get(id)).map(|task| task.key.clone()).unwrap_or_default()
}

/// Somebody said that a person has to look at this task.
fn asks_about(snapshot: &mut Snapshot, key: &str) {
    let id = snapshot.by_key(key).map(|task| task.id).expect("a task");
    let task = snapshot.get_mut(id).expect("a task");
    task.needs_person = Some(person_needed(task, "the credentials are missing", TASK_OPTIONS));
}

/// What follows at rest, in words.
fn rest(snapshot: &Snapshot) -> Vec<String> {
    let word = |next: Action| match next {
        Action::SkipTask { task, .. } => format!("skip {}", key(snapshot, Some(task))),
        Action::Escalate(trouble) => {
            format!("ask about {}: {}", key(snapshot, trouble.task), trouble.options.join(" "))
        }
        Action::EndWorkflow { status, .. } => status.to_string(),
        other => format!("{other:?}"),
    };
    when_idle(snapshot).into_iter().map(word).collect()
}

#[test]
fn what_waits_for_another_workflow_waits_while_that_may_still_do_it() {
    for status in [TaskStatus::Pending, TaskStatus::InProgress, TaskStatus::Paused] {
        for workflow in [WorkflowStatus::Running, WorkflowStatus::Escalated] {
            let blocker = other("API", status, workflow);
            let snapshot =
                world(OnFailure::Escalate, "a! b", &["API > b", "a > b"], std::slice::from_ref(&blocker));
            assert!(rest(&snapshot).is_empty(), "{status} in a workflow that is {workflow}");
            let waits = foreign_waits(&snapshot);
            assert!(waits[0].1.contains("`API` (The API) of workflow `"), "{waits:?}");
        }
    }
}

#[test]
fn a_person_is_asked_about_what_waits_in_vain_for_another_workflow() {
    let vain = [
        (TaskStatus::Failed, WorkflowStatus::Escalated, "has failed"),
        (TaskStatus::Skipped, WorkflowStatus::Completed, "was skipped"),
        (TaskStatus::Pending, WorkflowStatus::Cancelled, "its workflow is cancelled"),
        (TaskStatus::InProgress, WorkflowStatus::Failed, "its workflow is failed"),
    ];
    for (status, workflow, why) in vain {
        let outside = [other("API", status, workflow)];
        let snapshot = world(OnFailure::Escalate, "a! b c", &["API > b", "b > c"], &outside);
        assert_eq!(rest(&snapshot), ["ask about b: retry skip cancel"]);
        let Some(Action::Escalate(trouble)) = when_idle(&snapshot).pop() else { panic!("nobody is asked") };
        for part in ["`b` waits for `API` (The API) of workflow `", why] {
            assert!(trouble.reason.contains(part), "{part}: {}", trouble.reason);
        }
        assert!(foreign_waits(&snapshot).is_empty(), "it is told by asking");
        let rest_of_it = world(OnFailure::Skip, "a! b c", &["API > b", "b > c"], &outside);
        assert_eq!(rest(&rest_of_it), ["skip b"]);
        let over = world(OnFailure::Skip, "a! b~ c~", &["API > b", "b > c"], &outside);
        assert_eq!(rest(&over), ["failed"], "it did not do what it was for");
    }
}

#[test]
fn a_task_of_no_workflow_is_waited_for_until_it_failed() {
    let task = fixtures::task(NewTask { key: "LOOSE".into(), ..NewTask::default() });
    let check = |status, expected: &[&str]| {
        let blocker = ForeignBlocker::new(&Task { status, ..task.clone() }, None);
        assert!(blocker.name.contains("no workflow"), "{}", blocker.name);
        let outside = [blocker];
        assert_eq!(rest(&world(OnFailure::Escalate, "b", &["LOOSE > b"], &outside)), expected);
    };
    check(TaskStatus::InProgress, &[]);
    check(TaskStatus::Failed, &["ask about b: retry skip cancel"]);
}

#[test]
fn what_goes_on_here_goes_on_before_a_person_is_asked_about_another_workflow() {
    let outside = [other("API", TaskStatus::Failed, WorkflowStatus::Running)];
    assert!(rest(&world(OnFailure::Escalate, "a? b", &["API > b"], &outside)).is_empty());
    assert!(rest(&world(OnFailure::Escalate, "a b", &["API > b"], &outside)).is_empty());
}

#[test]
fn a_task_taken_by_hand_is_waited_for_and_told() {
    let snapshot = world(OnFailure::Escalate, "a? b", &["a > b"], &[]);
    assert!(rest(&snapshot).is_empty());
    let told: Vec<_> =
        foreign_waits(&snapshot).into_iter().map(|(task, why)| (key(&snapshot, Some(task)), why)).collect();
    assert_eq!(told, [("a".to_owned(), TAKEN_MANUALLY.to_owned())]);
}

/// What follows when the attempt at a task has ended, by how far its discussions are.
#[test]
fn what_an_agent_had_discussed_does_not_stand_for_the_review_its_task_wants() {
    let check = |wants: bool, talk: Option<DiscussionProgress>, expected: fn(ObjectId) -> Action| {
        let mut snapshot = world(OnFailure::Escalate, "a?", &[], &[]);
        let id = snapshot.tasks()[0].id;
        snapshot.apply(&Change::AttemptStarted {
            task: id,
            run: RunId::new(),
            agent: "writer",
            mode: AttemptMode::New,
        });
        snapshot.attempts.get_mut(&id).expect("an attempt").status = RunStatus::Completed;
        snapshot.get_mut(id).expect("a task").requires_collaboration = wants;
        snapshot.discussions.extend(talk.map(|talk| (id, talk)));
        assert_eq!(after_ended_runs(&snapshot), [expected(id)], "wants a review: {wants}, has {talk:?}");
    };
    check(true, None, Action::OpenReview);
    check(true, Some(DiscussionProgress::Open), Action::AdvanceDiscussions);
    check(true, Some(DiscussionProgress::Resolved), Action::OpenReview);
    check(true, Some(DiscussionProgress::Reviewed), Action::ConcludeAttempt);
    check(false, None, Action::ConcludeAttempt);
    check(false, Some(DiscussionProgress::Resolved), Action::ConcludeAttempt);
}

#[test]
fn where_failures_are_skipped_the_rest_is_done_and_nobody_is_asked() {
    let mut snapshot = world(OnFailure::Skip, "a- b c!", &["a > b"], &[]);
    assert_eq!(rest(&snapshot), ["skip b"]);
    // Unless somebody said that a person has to look: then what waits for it is not given up.
    asks_about(&mut snapshot, "a");
    assert_eq!(rest(&snapshot), ["ask about a: retry reassign skip cancel"]);
    let mut over = world(OnFailure::Skip, "a- b~ c!", &["a > b"], &[]);
    assert_eq!(rest(&over), ["failed"]);
    let failed = over.by_key("a").map(|task| task.id).and_then(|id| over.get_mut(id));
    failed.expect("a task").failure_context =
        "Attempt 1: no\n\nAttempt 2: the budget is used up\nMore.".into();
    let Some(Action::EndWorkflow { why, .. }) = when_idle(&over).pop() else { panic!("it does not end") };
    assert_eq!(why, "task `a` failed: the budget is used up");
}

#[test]
fn a_failure_does_not_end_what_still_waits_for_another_workflow() {
    let outside = [other("API", TaskStatus::InProgress, WorkflowStatus::Running)];
    assert!(rest(&world(OnFailure::Skip, "a- b", &["API > b"], &outside)).is_empty());
    let asks = ["ask about a: retry reassign skip cancel"];
    assert_eq!(rest(&world(OnFailure::Escalate, "a- b", &["API > b"], &outside)), asks);
}

#[test]
fn each_task_that_needs_a_person_is_asked_about_one_after_the_other() {
    let mut snapshot =
        world(OnFailure::Skip, "a- b- c- judge after", &["a > judge", "b > judge", "c > after"], &[]);
    for key in ["a", "b"] {
        asks_about(&mut snapshot, key);
    }
    assert_eq!(rest(&snapshot), ["skip after"], "what waits for those is not given up");
    let becomes = |snapshot: &mut Snapshot, key: &str, status: TaskStatus| {
        let id = snapshot.by_key(key).map(|task| task.id).expect("a task");
        let task = snapshot.get_mut(id).expect("a task");
        (task.status, task.needs_person) = (status, None);
    };
    becomes(&mut snapshot, "after", TaskStatus::Skipped);
    assert_eq!(rest(&snapshot), ["ask about a: retry reassign skip cancel"]);
    // What was asked before it is none of its business.
    let at = snapshot.by_key("a").map(|task| task.id).expect("a task");
    snapshot.discussions.insert(at, DiscussionProgress::Escalated);
    assert_eq!(rest(&snapshot), ["ask about a: decide cancel"]);
    snapshot.discussions.clear();
    becomes(&mut snapshot, "a", TaskStatus::Completed);
    assert_eq!(rest(&snapshot), ["ask about b: retry reassign skip cancel"]);
}

#[test]
fn the_reason_for_a_person_is_one_line() {
    let task = fixtures::task(NewTask { key: "check".into(), ..NewTask::default() });
    let needs = person_needed(&task, "it said:\n\n  I forgot\tit.\n", TASK_OPTIONS);
    assert_eq!(needs.reason, "task `check` failed: it said: I forgot it.");
}

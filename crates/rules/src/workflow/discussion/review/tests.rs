use std::collections::HashSet;

use emergent_domain::{
    agent::AgentDefinition,
    ids::{ObjectId, RunId},
    run::RunStatus,
    task::NewTask,
};
use emergent_testkit::fixtures;

use super::*;
use crate::workflow::discussion::{DiscussionEnd, DiscussionTurn, TaskDiscussion, TurnResult, advance};

fn attempt() -> Attempt {
    Attempt {
        run: RunId::new(),
        agent: "writer".into(),
        status: RunStatus::Completed,
        reason: None,
        summary: "One table.".into(),
        output: None,
        error: None,
        verdict: None,
        asked_again: false,
    }
}

fn card(name: &str) -> AgentCard {
    let description = "Designs tables".into();
    AgentCard::from_definition(&AgentDefinition { description, ..AgentDefinition::new(name) })
}

/// The review of a result of `writer` that `reader` has to approve, in a project that also has `others`.
pub(in crate::workflow::discussion) fn review(
    task: DiscussionDefaults,
    project: &DiscussionDefaults,
    others: &[&str],
) -> DiscussionSettings {
    planned(task, project, others).settings
}

fn planned(task: DiscussionDefaults, project: &DiscussionDefaults, others: &[&str]) -> PlannedReview {
    let new = NewTask {
        title: "Design".into(),
        description: "Which tables?".into(),
        collaborators: vec!["reader".into()],
        discussion: task,
        ..NewTask::default()
    };
    let cards: Vec<AgentCard> = others.iter().chain(&["writer", "reader"]).map(|name| card(name)).collect();
    let task = fixtures::task(new);
    let planned = plan_review(&task, &attempt(), &cards, &[], project);
    assert_eq!(review_note(&task, "writer", &cards, project), planned.note, "known before the task starts");
    planned
}

pub(in crate::workflow::discussion) fn of_kind(kind: &str) -> DiscussionDefaults {
    DiscussionDefaults { kind: Some(kind.into()), ..DiscussionDefaults::default() }
}

#[test]
fn a_review_is_held_as_its_task_or_else_the_project_says() {
    let project = DiscussionDefaults { rounds: Some(2), quorum: Some(9), ..of_kind("consensus") };
    let plain = review(DiscussionDefaults::default(), &DiscussionDefaults::default(), &[]);
    assert_eq!((plain.kind, plain.context.as_str()), (DiscussionKind::ReviewLoop, "Which tables?"));
    let by_project = review(DiscussionDefaults::default(), &project, &[]);
    assert_eq!((by_project.kind, by_project.rounds), (DiscussionKind::Consensus, Some(2)));
    assert_eq!(by_project.quorum, Some(2), "no more than take part");
    let note = by_project.quorum_note().expect("it was lowered");
    assert_eq!(note, "the quorum of 9 is lowered to 2, because only 2 agents take part");
    assert_eq!(plain.quorum_note(), None);
    assert_eq!(by_project.options, [APPROVED, SUGGEST_CHANGES]);
    assert!(by_project.context.contains("One table."), "{}", by_project.context);
    let own = DiscussionDefaults { rounds: Some(1), threshold: Some(0.5), ..of_kind("review_loop") };
    let by_task = review(own, &project, &[]);
    assert_eq!((by_task.kind, by_task.rounds, by_task.threshold), (DiscussionKind::ReviewLoop, Some(1), 0.5));
}

#[test]
fn a_review_has_as_many_participants_as_its_kind_needs_or_is_a_review_loop() {
    let nothing = DiscussionDefaults::default();
    let debate = review(of_kind("debate"), &nothing, &["third"]);
    let names: Vec<&str> = debate.participants.iter().map(|one| one.agent.as_str()).collect();
    assert_eq!((debate.kind, names), (DiscussionKind::Debate, vec!["writer", "reader", "third"]));
    let lowered = planned(of_kind("debate"), &nothing, &[]);
    assert_eq!(lowered.settings.kind, DiscussionKind::ReviewLoop);
    let note = "the review is a review_loop instead of a debate: a debate needs at least 3 participants";
    assert_eq!(lowered.note.as_deref(), Some(note));
}

/// The planned review of a task that names nobody and has no word in common with any agent.
fn unrelated(kind: Option<&str>, cards: &[AgentCard]) -> PlannedReview {
    let discussion = kind.map(of_kind).unwrap_or_default();
    let new = NewTask { title: "Pay the invoice".into(), discussion, ..NewTask::default() };
    let (task, project) = (fixtures::task(new), DiscussionDefaults::default());
    let planned = plan_review(&task, &attempt(), cards, &[], &project);
    assert_eq!(review_note(&task, "writer", cards, &project), planned.note);
    planned
}

fn names(planned: &PlannedReview) -> Vec<&str> {
    planned.settings.participants.iter().map(|one| one.agent.as_str()).collect()
}

#[test]
fn a_required_review_is_held_although_nothing_points_to_one_agent() {
    let internal = AgentCard { visibility: Visibility::Internal, ..card("auditor") };
    let helper = AgentCard { is_selectable: false, ..card("helper") };
    let cards = [card("writer"), card("reader"), internal, helper, card("lawyer")];
    let loop_of_two = unrelated(None, &cards);
    assert_eq!((names(&loop_of_two), loop_of_two.note.as_deref()), (vec!["writer", "lawyer"], None));
    let debate = unrelated(Some("debate"), &cards);
    assert_eq!(debate.settings.kind, DiscussionKind::Debate);
    assert_eq!(names(&debate), ["writer", "lawyer", "reader"]);
    // An internal agent that may be chosen comes last, and one that may not be chosen never.
    let internal_left = unrelated(None, &cards[2..4]);
    assert_eq!(names(&internal_left), ["writer", "auditor"]);
}

#[test]
fn a_required_review_that_no_other_agent_can_do_asks_a_person() {
    for kind in [None, Some("consensus")] {
        let helper = AgentCard { is_selectable: false, ..card("helper") };
        let planned = unrelated(kind, &[card("writer"), helper]);
        assert_eq!((planned.settings.kind, names(&planned)), (DiscussionKind::ReviewLoop, vec!["writer"]));
        assert!(planned.note.as_deref().is_some_and(|note| note.contains("a person decides")), "{planned:?}");
        let turn = DiscussionTurn {
            index: 0,
            agent: "writer".into(),
            phase: "propose".into(),
            round: 1,
            result: Some(TurnResult { ok: true, text: "Paid.".into(), vote: None }),
        };
        let discussion = TaskDiscussion {
            id: ObjectId::new(),
            attempt: None,
            status: "active".into(),
            settings: planned.settings,
            turns: vec![turn],
            runs: Vec::new(),
            recorded: HashSet::new(),
            absent: Vec::new(),
            required: true,
            person_decision: None,
            escalation: None,
            outcome: String::new(),
        };
        let end = advance(&discussion, |_| None).and_then(|step| step.end);
        let Some(DiscussionEnd::Escalated { reason, options, so_far }) = end else { panic!("{end:?}") };
        assert!(reason.contains("no other agent"), "{reason}");
        assert_eq!(so_far.text, "Paid.");
        assert_eq!(options, ["accept the last proposal", "SUGGEST_CHANGES"]);
    }
}

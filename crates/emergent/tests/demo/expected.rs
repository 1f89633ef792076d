//! The graph the walkthrough promises ("Final Graph State"). Where its picture is loose, this was
//! decided:
//!
//! - It draws no messages at the end. Each session has all of its run's, in their order.
//! - It draws no edges between sessions. A second attempt `follows_up` the first; every session is
//!   `informed_by` those whose results it was told: its task's blockers and the tasks that it verifies, in
//!   their newest attempt. What lies behind them is in its `earlier_sessions`. What a test found wrong is told as the task's own failure, so the
//!   second implementation is not `informed_by` the test.
//! - "(agent created)" is no edge: what an agent made carries the run and the call that made it. The
//!   tree has it under `made`.
//! - Tag, TAGGED_WITH and PARENT_TAG are types, and types live in template packs: no objects.
//! - A verdict hangs on the session of the attempt that gave it, by `has_result`.
//! - It draws no assignments. Each task has an edge to itself with the agent that it was assigned to.
//! - The discussion has the title of its task, and a proposal that was refined is a `proposal` of
//!   the next round.

use serde_json::{Value, json};

const RESEARCH: &str = "session 1 of research-tagging";
const DESIGN: &str = "session 1 of design-tagging";
const IMPLEMENT: [&str; 2] = ["session 1 of implement-tagging", "session 2 of implement-tagging"];
const TEST: [&str; 2] = ["session 1 of test-tagging", "session 2 of test-tagging"];
const REVIEW: &str = "session 1 of review-tagging";

/// What was said in each session, in order. Two calls, or one, and what came of them.
const TWO_CALLS: &[&str] = &["system", "user", "assistant", "tool", "assistant", "tool", "assistant"];
const ONE_CALL: &[&str] = &["system", "user", "assistant", "tool", "assistant"];
const SESSIONS: [(&str, &[&str]); 7] = [
    (RESEARCH, TWO_CALLS),
    (DESIGN, ONE_CALL),
    (IMPLEMENT[0], TWO_CALLS),
    (TEST[0], ONE_CALL),
    (IMPLEMENT[1], TWO_CALLS),
    (TEST[1], ONE_CALL),
    (REVIEW, ONE_CALL),
];

const DISCUSSION: &str = "discussion \"Document tagging schema design\"";
const ENTRIES: [&str; 4] = [
    "proposal by spec-writer in round 1",
    "feedback by research-assistant in round 1",
    "proposal by spec-writer in round 2",
    "feedback by research-assistant in round 2",
];

/// Every object of the project, by name.
pub fn objects() -> Vec<String> {
    let mut names: Vec<String> = [
        "research-tagging",
        "design-tagging",
        "implement-tagging",
        "test-tagging",
        "review-tagging",
        DISCUSSION,
        "TestResult NEEDS_CHANGES",
        "TestResult PASS",
        "CodeReview APPROVE",
        "ResearchReport tagging-research",
        "Spec document-tagging",
    ]
    .map(str::to_owned)
    .to_vec();
    names.extend(ENTRIES.map(str::to_owned));
    for (session, said) in SESSIONS {
        names.push(session.to_owned());
        names.extend(messages(session, said));
    }
    names.sort();
    names
}

/// Every edge of the project, as `from -type-> to`; with its place where it has one.
pub fn edges() -> Vec<String> {
    let mut edges: Vec<String> = [
        ("research-tagging", "blocks", "design-tagging"),
        ("design-tagging", "blocks", "implement-tagging"),
        ("implement-tagging", "blocks", "test-tagging"),
        ("test-tagging", "blocks", "review-tagging"),
        ("research-tagging", "has_session", RESEARCH),
        ("design-tagging", "has_session", DESIGN),
        ("implement-tagging", "has_session", IMPLEMENT[0]),
        ("implement-tagging", "has_session", IMPLEMENT[1]),
        ("test-tagging", "has_session", TEST[0]),
        ("test-tagging", "has_session", TEST[1]),
        ("review-tagging", "has_session", REVIEW),
        (IMPLEMENT[1], "follows_up", IMPLEMENT[0]),
        (TEST[1], "follows_up", TEST[0]),
        (DESIGN, "informed_by", RESEARCH),
        (IMPLEMENT[0], "informed_by", DESIGN),
        (TEST[0], "informed_by", IMPLEMENT[0]),
        (IMPLEMENT[1], "informed_by", DESIGN),
        (TEST[1], "informed_by", IMPLEMENT[1]),
        (REVIEW, "informed_by", TEST[1]),
        (REVIEW, "informed_by", IMPLEMENT[1]),
        (TEST[0], "has_result", "TestResult NEEDS_CHANGES"),
        (TEST[1], "has_result", "TestResult PASS"),
        (REVIEW, "has_result", "CodeReview APPROVE"),
        ("design-tagging", "spawned_discussion", DISCUSSION),
    ]
    .map(|(from, type_, to)| format!("{from} -{type_}-> {to}"))
    .to_vec();
    edges.extend(
        ENTRIES.iter().enumerate().map(|(at, entry)| format!("{DISCUSSION} -has_entry {}-> {entry}", at + 1)),
    );
    // The agents of the specification, which the selection has to find: the plan names none.
    for (task, agent) in [
        ("research-tagging", "research-assistant"),
        ("design-tagging", "spec-writer"),
        ("implement-tagging", "implement-agent"),
        ("test-tagging", "reviewer-agent"),
        ("review-tagging", "reviewer-agent"),
    ] {
        edges.push(format!("{task} -assigned_to_agent {agent}-> {task}"));
    }
    for (session, said) in SESSIONS {
        let said = messages(session, said).into_iter().enumerate();
        edges.extend(said.map(|(at, message)| format!("{session} -has_message {}-> {message}", at + 1)));
    }
    edges.sort();
    edges
}

fn messages(session: &str, said: &[&str]) -> Vec<String> {
    let name = |(at, role): (usize, &&str)| format!("message {} ({role}) of {session}", at + 1);
    said.iter().enumerate().map(name).collect()
}

/// The tasks with everything that hangs on them, as the demo prints them.
pub fn tree() -> Value {
    let session = |agent: &str, results: Value, made: &[&str]| json!({ "agent": agent, "status": "completed", "results": results, "made": made });
    let task = |key: &str, blocked_by: &[&str], sessions: Vec<Value>, discussions: Value| {
        json!({
            "key": key, "status": "completed", "blockedBy": blocked_by,
            "sessions": sessions, "discussions": discussions,
        })
    };
    let entry = |agent: &str, type_: &str, round: i64, content: &str| json!({ "agent": agent, "type": type_, "round": round, "content": content });
    let refined = "Updated. Tag entity with name, color, description and tag_type (user or auto-generated). \
                   TAGGED_WITH from any object. PARENT_TAG between tags for hierarchies. An auto-tagging agent is \
                   defined with it.";
    let discussion = json!([{
        "topic": "Document tagging schema design",
        "status": "resolved",
        "consensusLevel": 1.0,
        "entries": [
            entry("spec-writer", "proposal", 1, "Proposal: Tag entity with name, color, description. TAGGED_WITH relationship from any object."),
            entry("research-assistant", "feedback", 1, "SUGGEST_CHANGES: add a tag_type field (user or auto-generated), and hierarchical tags by a relationship between tags."),
            entry("spec-writer", "proposal", 2, refined),
            entry("research-assistant", "feedback", 2, "APPROVED. Looks complete."),
        ],
    }]);
    let missing = "Missing PARENT_TAG cycle detection. Hierarchical tags could create infinite loops without validation.";
    json!([
        task(
            "research-tagging",
            &[],
            vec![session("research-assistant", json!([]), &["ResearchReport"])],
            json!([])
        ),
        task(
            "design-tagging",
            &["research-tagging"],
            vec![session("spec-writer", json!([]), &["Spec"])],
            discussion
        ),
        task(
            "implement-tagging",
            &["design-tagging"],
            vec![
                session("implement-agent", json!([]), &["document-tagging 1.0.0"]),
                session("implement-agent", json!([]), &["document-tagging 1.1.0"]),
            ],
            json!([])
        ),
        task(
            "test-tagging",
            &["implement-tagging"],
            vec![
                session(
                    "reviewer-agent",
                    json!([{ "type": "TestResult", "verdict": "NEEDS_CHANGES", "remarks": [missing] }]),
                    &[]
                ),
                session(
                    "reviewer-agent",
                    json!([{ "type": "TestResult", "verdict": "PASS", "remarks": [] }]),
                    &[]
                ),
            ],
            json!([])
        ),
        task(
            "review-tagging",
            &["test-tagging"],
            vec![session(
                "reviewer-agent",
                json!([{
                    "type": "CodeReview", "verdict": "APPROVE",
                    "remarks": ["Consider adding tag usage analytics as a follow-up task"],
                }]),
                &[]
            )],
            json!([])
        ),
    ])
}

//! The walkthrough: what it leaves in the graph, object for object and edge for edge, and that a
//! kill at any moment changes nothing of it. `EMERGENT_SOAK_KILLS` says how often it is killed.

mod common;

use std::{
    collections::BTreeMap,
    process::{Command, Stdio},
    time::Duration,
};

use common::{Home, seed};
use rand::{Rng, SeedableRng, rngs::StdRng};
use serde_json::{Value, json};

#[test]
fn the_walkthrough_leaves_the_graph_it_promises() {
    let home = Home::sqlite();
    let told = play(&home);
    assert_eq!(told["graph"], promised(), "{:#}", told["graph"]);
    assert_eq!(counts(&home), promised_counts());
    let again = play(&home);
    assert_eq!(again["workflowId"], told["workflowId"], "a second start shows what is there");
    assert_eq!(counts(&home), promised_counts());
}

#[test]
fn a_demo_that_is_killed_goes_on_and_leaves_the_same_graph() {
    let kills = match std::env::var("EMERGENT_SOAK_KILLS") {
        Ok(text) => text.parse().expect("EMERGENT_SOAK_KILLS is a number"),
        Err(_) => 8,
    };
    let seed = seed();
    let mut dice = StdRng::seed_from_u64(seed);
    let mut done = 0;
    while done < kills {
        let home = Home::sqlite();
        // Some of them in each life, so that a demo is cut more than once.
        for _ in 0..dice.random_range(2..=8) {
            let mut child =
                run(&home, &["demo", "--json"]).stdout(Stdio::null()).spawn().expect("the demo starts");
            std::thread::sleep(Duration::from_millis(dice.random_range(50..2_500)));
            child.kill().expect("the demo is killed");
            child.wait().expect("the demo is gone");
            done += 1;
        }
        let told = play(&home);
        assert_eq!(told["graph"], promised(), "after {done} kills, seed {seed}: {:#}", told["graph"]);
        assert_eq!(counts(&home), promised_counts(), "after {done} kills, seed {seed}");
    }
    println!("{done} kills, seed {seed}");
}

fn run(home: &Home, args: &[&str]) -> Command {
    let mut command = home.command(args);
    command.arg("--data-dir").arg(home.data());
    command
}

/// Plays it to its end; what it says last.
fn play(home: &Home) -> Value {
    let output = run(home, &["demo", "--json"]).output().expect("the demo ends");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}\n{}", String::from_utf8_lossy(&output.stderr));
    // One line for each event, then what is left.
    let last = text.find("{\n").expect("the graph at the end");
    serde_json::from_str(&text[last..]).expect("JSON at the end")
}

/// Objects and edges of the project by type.
fn counts(home: &Home) -> BTreeMap<String, usize> {
    let output = run(home, &["graph", "export"]).output().expect("the graph is exported");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let mut counts = BTreeMap::new();
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        let line: Value = serde_json::from_str(line).expect("a line of JSON");
        let found = ["object", "relationship"].iter().find_map(|kind| line.get(kind)).unwrap_or(&line);
        if let Some(type_) = found["type"].as_str() {
            *counts.entry(type_.to_owned()).or_default() += 1;
        }
    }
    counts
}

fn promised_counts() -> BTreeMap<String, usize> {
    let promised = [
        ("SpecTask", 5),
        ("blocks", 4),
        ("Session", 7),
        ("has_session", 7),
        ("follows_up", 2),
        ("informed_by", 15),
        ("SessionMessage", 41),
        ("has_message", 41),
        ("Discussion", 1),
        ("spawned_discussion", 1),
        ("DiscussionEntry", 4),
        ("has_entry", 4),
        ("TestResult", 2),
        ("CodeReview", 1),
        ("has_result", 3),
        ("ResearchReport", 1),
        ("Spec", 1),
    ];
    promised.into_iter().map(|(type_, count)| (type_.to_owned(), count)).collect()
}

/// The final graph of the walkthrough.
fn promised() -> Value {
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

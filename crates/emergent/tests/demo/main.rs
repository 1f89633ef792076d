//! The walkthrough: what it leaves in the graph, object for object and edge for edge, and that a
//! kill at any moment changes nothing of it. `EMERGENT_SOAK_KILLS` says how often it is killed.

#[path = "../common/mod.rs"]
mod common;

mod actual_graph;
mod expected;

use std::{
    process::{Command, Stdio},
    time::Duration,
};

use actual_graph::check;
use common::{Home, seed};
use rand::{Rng, SeedableRng, rngs::StdRng};
use serde_json::Value;

/// What the agents of the walkthrough say, with the plan.
const SCRIPT: &str = include_str!("../../src/demo/walkthrough.yaml");

#[test]
fn the_walkthrough_names_no_agents_and_leaves_the_graph_it_promises() {
    for hint in ["assigned_agent", "assignedAgent", "kind:"] {
        assert!(!SCRIPT.contains(hint), "the plan says `{hint}`: the selection alone has to find the agents");
    }
    let home = Home::sqlite();
    let told = play(&home);
    check(&home, &told);
    let again = play(&home);
    assert_eq!(again["workflowId"], told["workflowId"], "a second start shows what is there");
    check(&home, &again);
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
        println!("after {done} kills, seed {seed}");
        let told = play(&home);
        check(&home, &told);
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

//! `emergent dispatch`, `workflow`, `task`, `discussion` and `budget`, against a server and against
//! the data folder itself.

mod common;

use std::process::Output;

use common::Home;
use serde_json::{Value, json};

const SCRIPT: &str = r#"
rules:
  - when: { agent: broken }
    fault: auth
  - when: { agent: planner, turn: 1 }
    answer:
      calls:
        - tool: tasks_create
          input:
            tasks:
              - { key: look, title: Look around, assignedAgent: worker }
              - { key: tell, title: Tell about it, assignedAgent: worker, blockedBy: [look] }
  - when: { agent: planner }
    answer: { text: Two tasks. }
  - when: { agent: critic }
    answer: { text: "SUGGEST_CHANGES: it is too short." }
  - answer: { text: Done. }
"#;

const PLAN: &str = "
- key: research
  title: Look for patterns
  assigned_agent: worker
- key: design
  title: Design it
  assigned_agent: worker
  blocked_by: [research]
- key: docs
  title: Write it down
  assigned_agent: worker
  blocked_by: [research]
";

const BAD_PLAN: &str = "
max_concurrent: 1
tasks:
  - { key: bad, title: Cannot be done, assigned_agent: broken, max_retries: 0 }
  - { key: after, title: Comes after, assigned_agent: worker, blocked_by: [bad] }
";

fn home() -> Home {
    let home = Home::sqlite();
    let scripts = home.data().join("rehearsals");
    std::fs::create_dir_all(&scripts).expect("a folder");
    std::fs::write(scripts.join("work.yaml"), SCRIPT).expect("a script");
    std::fs::write(home.folder().join("plan.yaml"), PLAN).expect("a plan");
    std::fs::write(home.folder().join("bad.yaml"), BAD_PLAN).expect("a plan");
    home
}

fn agents(home: &Home) {
    let agents = [
        ("worker", json!([])),
        ("broken", json!([])),
        ("critic", json!([])),
        ("planner", json!(["tasks_create"])),
    ];
    for (name, tools) in agents {
        let model = json!({ "provider": "rehearsal", "name": "work" });
        let definition = json!({ "name": name, "model": model, "tools": tools });
        std::fs::write(home.folder().join("agent.json"), definition.to_string()).expect("a file");
        command_output(home.run(&["agent", "create", "agent.json"]));
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[track_caller]
fn command_output(output: Output) -> String {
    assert!(output.status.success(), "{}\n{}", text(&output.stdout), text(&output.stderr));
    text(&output.stdout)
}

#[track_caller]
fn json_of(output: Output) -> Value {
    serde_json::from_str(&command_output(output)).expect("JSON")
}

/// What was told before it failed, and why it did.
#[track_caller]
fn failed(output: &Output) -> (String, String) {
    assert!(!output.status.success(), "{}", text(&output.stdout));
    (text(&output.stdout), text(&output.stderr))
}

#[track_caller]
fn has(told: &str, parts: &[&str]) {
    for part in parts {
        assert!(told.contains(part), "{part:?} in\n{told}");
    }
}

/// Errors about a file name its fields as the file does, and what was probably meant.
fn misspelt_fields(home: &Home) {
    let refused = |content: &str| {
        std::fs::write(home.folder().join("misspelt.yaml"), content).expect("a file");
        failed(&home.run(&["dispatch", "--tasks", "misspelt.yaml"])).1
    };
    let task = "tasks: [{ key: a, title: Look, assigned_agent: worker }]";
    has(
        &refused(&format!("budjet_usd: 2\n{task}")),
        &["unknown field `budjet_usd`, did you mean `budget_usd`?"],
    );
    let nested = refused("- { key: a, title: Look, asigned_agent: worker }");
    has(&nested, &["`tasks[0]`: unknown field `asigned_agent`, did you mean `assigned_agent`?"]);
    let agent = refused("- { key: a, title: Look, assigned_agent: workr }");
    has(&agent, &["`tasks[0].assigned_agent`", "there is no agent `workr`", "did you mean `worker`?"]);
    let own = refused("budjetUsd: 2\ntasks: [{ key: a, title: Look, assignedAgent: worker }]");
    has(&own, &["`budjetUsd`: is not a known field; did you mean `budgetUsd`?"]);
    let (_, planner) = failed(&home.run(&["dispatch", "Tell what is there", "--planner", "planer"]));
    has(&planner, &["did you mean `planner`? `emergent product install emergent.code"]);

    let definition = r#"{ "name": "writer", "sytem_prompt": "Write.", "max_steps": 3 }"#;
    std::fs::write(home.folder().join("misspelt.json"), definition).expect("a file");
    let (_, told) = failed(&home.run(&["agent", "apply", "misspelt.json"]));
    has(&told, &["unknown field `sytem_prompt`, did you mean `system_prompt`?"]);
}

/// The same tour, wherever the commands go.
fn tour(home: &Home) {
    agents(home);
    let checked = command_output(home.run(&["dispatch", "--tasks", "plan.yaml", "--dry-run"]));
    has(&checked, &["LAYER", "research", "the task names `worker`", "first: research"]);
    assert!(command_output(home.run(&["workflow", "list"])).lines().count() == 1, "nothing was started");

    let settings = ["--budget-tokens", "1000000", "--threading", "llm"];
    let live = command_output(
        home.run(&[&["dispatch", "--tasks", "plan.yaml", "--follow"][..], &settings].concat()),
    );
    has(
        &live,
        &["▸ research  worker", "✓ research", "✓ design", "✓ docs", "3 of 3 done", "3 of 3 tasks completed"],
    );
    has(&live, &["1 ─ ✓ research", "2 ┬ ✓ design", "  └ ✓ docs", "← research"]);
    assert!(!live.contains('\x1b'), "colour is for terminals");

    let all = json_of(home.run(&["workflow", "list", "--status", "completed", "--json"]));
    let id = all[0]["id"].as_str().expect("an id");
    let shown = json_of(home.run(&["workflow", "show", id, "--json"]));
    assert_eq!(shown["settings"]["threading"], "llm");
    has(&command_output(home.run(&["workflow", "list"])), &[id, "completed", "Look for patterns"]);
    has(
        &command_output(home.run(&["workflow", "show", id])),
        &["1 ─ ✓ research", "worker", "the budget is 1000000 tokens"],
    );
    has(
        &command_output(home.run(&["workflow", "events", id])),
        &["▸ Look for patterns", "✓ completed: every task is done"],
    );
    let events = command_output(home.run(&["workflow", "events", id, "--json"]));
    let events: Vec<Value> = events.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!(events.last().expect("an end")["type"], "workflow_ended");
    // What is over is told from its beginning.
    has(&command_output(home.run(&["workflow", "follow", id])), &["▸ docs  worker", "✓ completed"]);
    let tasks = json_of(home.run(&["task", "list", "--workflow", id, "--status", "completed", "--json"]));
    assert_eq!(tasks.as_array().expect("tasks").len(), 3);

    steering(home);

    let loose = json_of(home.run(&["task", "add", "loose-end", "--agent", "worker", "--json"]));
    let loose = loose["id"].as_str().expect("an id");
    for name in [loose, &loose[24..], "loose-end"] {
        let checked = command_output(home.run(&["dispatch", "--from-graph", "--task", name, "--dry-run"]));
        has(&checked, &["loose-end", "worker"]);
        let checked = command_output(home.run(&["dispatch", "--from-graph", "--root", name, "--dry-run"]));
        has(&checked, &["loose-end"]);
    }
    misspelt_fields(home);
    let (_, unknown) = failed(&home.run(&["dispatch", "--from-graph", "--task", "SpecTask/nobody"]));
    has(&unknown, &["SpecTask/nobody"]);

    let planned =
        command_output(home.run(&["dispatch", "Tell what is there", "--planner", "planner", "--follow"]));
    has(&planned, &["▸ planning", "✓ planned", "+ look", "✓ tell", "2 of 2 tasks completed"]);
    let (_, refused) = failed(&home.run(&["dispatch", "Tell what is there"]));
    has(&refused, &["task-planner", "`emergent product install emergent.code`", "--planner", "--tasks FILE"]);

    has(
        &command_output(home.run(&["budget", "set", "--usd", "2.5"])),
        &["(project)", "$2.50", "$0.00 of $2.50"],
    );
    let limited = command_output(home.run(&["budget", "set", "--agent", "worker", "--tokens", "5000"]));
    has(&limited, &["worker", "5000 tokens", " of 5000 tokens"]);
    assert!(!limited.contains(" 0 of 5000 tokens"), "what it spent earlier today counts: {limited}");
    has(&failed(&home.run(&["budget", "set", "--agent", "nobody", "--usd", "1"])).1, &["`nobody`"]);
    has(&command_output(home.run(&["budget", "set", "--none"])), &["no limit"]);
    let shown = json_of(home.run(&["budget", "show", "--json"]));
    assert_eq!(shown["agents"][0]["limit"]["tokens"], 5000);
}

/// A workflow that stops says which commands go on, and they do.
fn steering(home: &Home) {
    let (told, why) = failed(&home.run(&["dispatch", "--tasks", "bad.yaml", "--follow"]));
    has(&told, &["✗ bad", "It waits for you:", "emergent task retry", "emergent workflow cancel"]);
    has(&why, &["waits for a person"]);
    let more = ["workflow", "budget", "last", "--tokens", "900000", "--reason", "it takes longer"];
    has(&command_output(home.run(&more)), &["the budget of workflow", "is 900000 tokens"]);
    has(&failed(&home.run(&["workflow", "budget", "last"])).1, &["--none takes the limit away"]);
    let command = told.lines().find_map(|line| line.trim().strip_prefix("another agent")).expect("a way on");
    let command = command.trim().trim_start_matches("emergent ").replace("AGENT", "worker");
    let words: Vec<&str> = command.split(' ').collect();
    has(&command_output(home.run(&words)), &["task bad", "pending", "for worker"]);
    let id = json_of(home.run(&["workflow", "list", "--limit", "1", "--json"]))[0]["id"].clone();
    let id = id.as_str().expect("an id");
    let live = command_output(home.run(&["workflow", "follow", id]));
    has(&live, &["⚑ a person has to say", "the budget was changed", "▸ goes on", "✓ after", "2 of 2 done"]);

    let (_, why) = failed(&home.run(&["task", "skip", &format!("{id}/bad")]));
    has(&why, &["completed"]);
    has(&failed(&home.run(&["task", "skip", &format!("{id}/zz")])).1, &["`zz`", "bad, after"]);
    has(&failed(&home.run(&["workflow", "resume", id])).1, &["completed"]);
    has(&failed(&home.run(&["workflow", "cancel", id])).1, &["has ended"]);
    has(&failed(&home.run(&["workflow", "budget", id, "--usd", "1"])).1, &["it has ended"]);

    let (_, _) = failed(&home.run(&["dispatch", "--tasks", "bad.yaml", "--follow", "--on-failure", "skip"]));
    let last = json_of(home.run(&["workflow", "list", "--limit", "1", "--json"]))[0].clone();
    assert_eq!(last["status"], "failed");

    let alone =
        command_output(home.run(&["task", "add", "later", "--title", "Some day", "--priority", "low"]));
    has(&alone, &["task later", "pending"]);
    has(&command_output(home.run(&["task", "list", "--available"])), &["later", "Some day"]);
}

#[test]
fn a_data_folder_alone_is_enough_for_a_workflow() {
    let home = home();
    tour(&home);
    // What is only started waits, and says what for.
    let waiting = home.run(&["dispatch", "--tasks", "plan.yaml", "--json"]);
    has(&text(&waiting.stderr), &["emergent workflow follow"]);
    let id = json_of(waiting)["workflowId"].as_str().expect("an id").to_owned();
    has(
        &command_output(home.run(&["workflow", "show", &id])),
        &["1 ─ ◦ research", "2 ┬ · design", "0 of 3 done"],
    );
    has(
        &command_output(home.run(&[
            "task",
            "add",
            "more",
            "--workflow",
            &id,
            "--blocked-by",
            "docs",
            "--agent",
            "worker",
        ])),
        &["more"],
    );
    has(&command_output(home.run(&["workflow", "follow", &id])), &["3 ─ ✓ more", "4 of 4 done"]);
    has(&command_output(home.run(&["dispatch", "--tasks", "plan.yaml"])), &["is started"]);
    let id = json_of(home.run(&["workflow", "list", "--limit", "1", "--json"]))[0]["id"].clone();
    has(&command_output(home.run(&["workflow", "cancel", id.as_str().expect("an id")])), &["cancelled"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commands_watch_workflows_of_a_server() {
    let home = home();
    let _server = home.start().await;
    tour(&home);
}

#[test]
fn discussions_are_listed_shown_and_decided() {
    let home = home();
    agents(&home);
    let plan = "- { key: draft, title: Draft it, assigned_agent: worker, requires_collaboration: true, \
                collaborators: [critic], discussion: { rounds: 1 } }";
    std::fs::write(home.folder().join("draft.yaml"), plan).expect("a plan");
    let (told, _) = failed(&home.run(&["dispatch", "--tasks", "draft.yaml", "--follow"]));
    has(
        &told,
        &[
            "was not approved within 1 round",
            "emergent discussion show",
            "emergent discussion decide",
            "   (accept the last proposal, SUGGEST_CHANGES or your own words)",
        ],
    );
    let listed = command_output(home.run(&["discussion", "list"]));
    has(
        &listed,
        &["escalated", "review_loop", "worker, critic", "Draft it", "emergent discussion decide ID"],
    );
    let of_task =
        json_of(home.run(&["discussion", "list", "--task", "last/draft", "--status", "escalated", "--json"]));
    assert_eq!(of_task.as_array().expect("a list").len(), 1);
    has(
        &command_output(home.run(&["discussion", "show", "last"])),
        &["SUGGEST_CHANGES: it is too short.", "  1. accept the last proposal", "for one more attempt"],
    );
    has(&failed(&home.run(&["discussion", "list", "--status", "open"])).1, &["status", "abandoned"]);
    let decide = ["discussion", "decide", "last", "APPROVED", "--reason", "short is fine"];
    let (_, refused) = failed(&home.run(&decide));
    has(
        &refused,
        &["this would decide on \"APPROVED\" in the discussion \"Draft it\"", "by its id, ", "or add --yes"],
    );
    let escalated = || {
        let listed = json_of(home.run(&["discussion", "list", "--status", "escalated", "--json"]));
        listed.as_array().expect("a list").len()
    };
    assert_eq!(escalated(), 1, "nothing was decided");
    command_output(home.run(&[&decide[..], &["--yes"]].concat()));
    // No server goes on with the workflow, and the person has decided all the same.
    assert_eq!(escalated(), 0);
    let check_resolved = || {
        for options in [&[][..], &["--status", "resolved"]] {
            let listed = command_output(home.run(&[&["discussion", "list"], options].concat()));
            assert_eq!(listed.lines().count(), 2, "{listed}");
            assert!(listed.contains("  resolved  ") && !listed.contains("escalated"), "{listed}");
        }
        let shown = command_output(home.run(&["discussion", "show", "last"]));
        has(&shown, &["review_loop  resolved", "decided by a person: APPROVED"]);
    };
    check_resolved();
    has(&command_output(home.run(&["workflow", "follow", "last"])), &["1 of 1 done"]);
    check_resolved();
    assert!(failed(&home.run(&["discussion", "show", "fffff"])).1.contains("emergent discussion list"));
}

#[test]
fn what_cannot_be_read_or_makes_no_sense_is_told_by_name() {
    let home = home();
    agents(&home);
    std::fs::write(home.folder().join("odd.yaml"), "- { key: a, title: A, blocked_by: [b], surprise: 1 }")
        .expect("a file");
    has(&failed(&home.run(&["dispatch", "--tasks", "odd.yaml"])).1, &["surprise"]);
    std::fs::write(home.folder().join("lost.yaml"), "- { key: a, title: A, blocked_by: [b] }")
        .expect("a file");
    has(&failed(&home.run(&["dispatch", "--tasks", "lost.yaml"])).1, &["`b`"]);
    std::fs::write(home.folder().join("words.yaml"), "just words").expect("a file");
    has(&failed(&home.run(&["dispatch", "--tasks", "words.yaml"])).1, &["words.yaml", "tasks"]);
    has(&failed(&home.run(&["dispatch", "--tasks", "nowhere.yaml"])).1, &["nowhere.yaml"]);
    has(&failed(&home.run(&["dispatch", "x", "--threading", "dice"])).1, &["threading", "dice"]);
    std::fs::write(home.folder().join("one.yaml"), "- { key: a, title: A, assigned_agent: worker }")
        .expect("a file");
    for dry_run in [&["--dry-run"][..], &[]] {
        let typo = ["dispatch", "--tasks", "one.yaml", "--model", "gogle/gemini-2.5-flash"];
        let (_, told) = failed(&home.run(&[&typo[..], dry_run].concat()));
        has(
            &told,
            &["--model: has the unknown provider `gogle`; did you mean `google`? The providers are `google`"],
        );
        let lost = ["dispatch", "--tasks", "one.yaml", "--model", "rehearsal/no-such-script"];
        has(&failed(&home.run(&[&lost[..], dry_run].concat())).1, &["--model: there is no rehearsal script"]);
    }
    assert_eq!(
        json_of(home.run(&["workflow", "list", "--json"])),
        serde_json::json!([]),
        "nothing was written"
    );
    has(&failed(&home.run(&["dispatch"])).1, &["--tasks"]);
    has(&failed(&home.run(&["dispatch", "x", "--tasks", "plan.yaml"])).1, &["cannot be used with"]);
    let nobody = "01890000-0000-7000-8000-000000000000";
    for command in ["workflow show", "workflow cancel", "task retry", "discussion show"] {
        let words: Vec<&str> = command.split(' ').chain([nobody]).collect();
        has(&failed(&home.run(&words)).1, &[nobody]);
    }
    let mut judge = home.command(&["workflow", "list"]);
    judge.env("EMERGENT_JUDGE_MODEL", "nonsense");
    has(&failed(&common::finish(judge)).1, &["EMERGENT_JUDGE_MODEL", "provider/name"]);
    // A provider that there is not is refused when the server starts, as for `EMERGENT_MODEL`.
    let mut judge = home.command(&["workflow", "list"]);
    judge.env("EMERGENT_JUDGE_MODEL", "gogle/gemini-2.5-flash");
    has(&failed(&common::finish(judge)).1, &["EMERGENT_JUDGE_MODEL", "unknown provider `gogle`"]);
}

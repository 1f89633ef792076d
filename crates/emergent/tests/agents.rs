//! Agents from the command line: on a data folder alone, and through a server. A script plays the
//! model, so nothing here needs a key.

mod common;

use common::{Home, command_output, failed, json_of, text};
use serde_json::{Value, json};

const SCRIPT: &str = r#"
rules:
  - when: { agent: lead, turn: 1 }
    answer:
      text: Let me ask.
      calls: [{ tool: spawn_agents, input: { tasks: [{ agent_name: helper, task: look }] } }]
  - when: { agent: lead }
    answer: { text: The helper looked. }
  - when: { agent: helper, turn: 1 }
    answer:
      calls: [{ tool: entities_create, input: { objects: [{ type: Note, key: seen, properties: { title: Looked } }] } }]
  - when: { agent: helper }
    answer: { text: I looked. }
"#;

fn home() -> Home {
    let home = Home::sqlite();
    let scripts = home.data().join("rehearsals");
    std::fs::create_dir_all(&scripts).expect("a folder");
    std::fs::write(scripts.join("tour.yaml"), SCRIPT).expect("a script");
    let write = |name: &str, text: String| std::fs::write(home.folder().join(name), text).expect("a file");
    let model = json!({ "provider": "rehearsal", "name": "tour" });
    // As a manifest writes it, and as the API does.
    write(
        "lead.json",
        json!({ "name": "lead", "system_prompt": "You lead.", "model": model, "tools": ["spawn_agents"] })
            .to_string(),
    );
    write(
        "helper.toml",
        "name = \"helper\"\nvisibility = \"internal\"\ntools = [\"entities_create\"]\nmaxSteps = 5\n\
        [model]\nprovider = \"rehearsal\"\nname = \"tour\"\n"
            .to_owned(),
    );
    home
}

/// The same tour, wherever the commands go.
fn tour(home: &Home) {
    let made = command_output(home.run(&["agent", "create", "helper.toml"]));
    assert_eq!(made, "helper is created (version 1)\n");
    command_output(home.run(&["agent", "create", "lead.json"]));
    let listed = command_output(home.run(&["agent", "list"]));
    assert!(listed.contains("lead") && !listed.contains("helper"), "{listed}");
    assert!(command_output(home.run(&["agent", "list", "--internal"])).contains("helper"));
    let shown = command_output(home.run(&["agent", "show", "lead"]));
    assert!(shown.contains("You lead.") && shown.contains("rehearsal/tour"), "{shown}");

    let live = command_output(home.run(&["agent", "trigger", "lead", "--input", "look around", "--follow"]));
    for line in [
        "Let me ask.\n",
        "▸ spawn_agents  helper\n",
        "helper  completed  2 steps",
        "✓ spawn_agents",
        "The helper looked.\n",
    ] {
        assert!(live.contains(line), "{line:?} in\n{live}");
    }
    let last = live.lines().last().expect("an end");
    assert!(
        last.starts_with("✓ completed  2 steps")
            && last.contains("tokens in")
            && last.contains("  rehearsal  "),
        "{live}"
    );
    assert_eq!(live.matches("The helper looked.").count(), 1, "{live}");
    assert!(!live.contains('\x1b'), "colour is for terminals");

    let runs = json_of(home.run(&["run", "list", "--agent", "lead", "--json"]));
    assert_eq!((&runs[0]["status"], &runs[0]["childRunCount"]), (&json!("completed"), &json!(1)), "{runs}");
    let id = runs[0]["id"].as_str().expect("an id");
    assert!(last.ends_with(id), "the end names the run: {live}");
    let newest = json_of(home.run(&["run", "show", "last", "--json"]));
    assert_eq!(newest["id"], runs[0]["id"], "`last` is what was started, and not the helper");
    let all = command_output(home.run(&["run", "list"]));
    assert!(all.contains("lead") && all.contains("helper") && all.contains("rehearsal"), "{all}");
    let tree = command_output(home.run(&["run", "tree", id]));
    assert!(
        tree.starts_with("lead  completed  2 steps") && tree.contains("\n└─ helper  completed"),
        "{tree}"
    );
    let shown = command_output(home.run(&["run", "show", id]));
    assert!(shown.contains("1 × spawn_agents") && shown.contains("The helper looked."), "{shown}");
    let messages = command_output(home.run(&["run", "messages", id]));
    assert!(messages.contains("look around") && messages.contains("tool_result"), "{messages}");
    // Following what has ended tells it from the beginning.
    let again = command_output(home.run(&["run", "follow", id]));
    assert!(again.contains("Let me ask.\n") && again.contains("✓ spawn_agents"), "{again}");
    let events = command_output(home.run(&["run", "follow", id, "--json"]));
    let events: Vec<Value> =
        events.lines().map(|line| serde_json::from_str(line).expect("a line of JSON")).collect();
    assert_eq!(events.last().expect("an end")["type"], "run_ended");

    // What the helper wrote is undone by its run's id.
    assert!(command_output(home.run(&["graph", "show", "Note/seen"])).contains("Looked"));
    let below = json_of(home.run(&["run", "list", "--agent", "helper", "--json"]));
    let undone = command_output(home.run(&["run", "revert", below[0]["id"].as_str().expect("an id")]));
    assert!(undone.starts_with("undid 1 change\n  "), "{undone}");
    failed(&home.run(&["graph", "show", "Note/seen"]));

    let refused = failed(&home.run(&["agent", "trigger", "helper", "--input", "x"]));
    assert!(refused.contains("only other agents"), "{refused}");
    assert!(failed(&home.run(&["agent", "trigger", "nobody", "--input", "x"])).contains("`nobody`"));
    assert!(failed(&home.run(&["run", "resume", id])).contains("paused"));
    assert!(failed(&home.run(&["run", "cancel", id])).contains("ended"));
    assert!(command_output(home.run(&["agent", "delete", "lead"])).contains("lead"));
    assert!(command_output(home.run(&["run", "show", id])).contains("lead"), "its runs stay readable");
}

#[test]
fn a_data_folder_alone_is_enough_to_run_agents() {
    let home = home();
    tour(&home);
    // What is only triggered waits, and says what for.
    command_output(home.run(&["agent", "create", "lead.json"]));
    let waiting = home.run(&["agent", "trigger", "lead", "--input", "x", "--json"]);
    assert!(text(&waiting.stderr).contains("emergent run follow"), "{}", text(&waiting.stderr));
    let started = json_of(waiting);
    assert_eq!(started["status"], "queued");
    let run = started["runId"].as_str().expect("an id");
    assert!(command_output(home.run(&["run", "list", "--status", "queued"])).contains(run));
    assert!(command_output(home.run(&["run", "follow", run])).contains("✓ completed"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commands_watch_agents_of_a_server() {
    let home = home();
    let _server = home.start().await;
    tour(&home);
}

#[test]
fn a_run_that_pauses_says_how_to_go_on_and_one_that_fails_fails_the_command() {
    let home = home();
    command_output(home.run(&["agent", "create", "helper.toml"]));
    command_output(home.run(&["agent", "create", "lead.json"]));
    let paused = command_output(home.run(&[
        "agent",
        "trigger",
        "lead",
        "--input",
        "x",
        "--max-steps",
        "1",
        "--follow",
    ]));
    assert!(
        paused.contains("the step limit is reached") && paused.contains("⏸ paused (step_limit)"),
        "{paused}"
    );
    let command =
        paused.lines().last().expect("a hint").trim().trim_start_matches("to go on: emergent ").to_owned();
    let mut words: Vec<_> = command.split(' ').collect();
    words.push("--follow");
    let resumed = command_output(home.run(&words));
    assert!(resumed.contains("✓ completed"), "{resumed}");

    let no_script =
        home.run(&["agent", "trigger", "lead", "--input", "x", "--follow", "--model", "rehearsal/nothing"]);
    assert!(failed(&no_script).contains("nothing"), "{}", text(&no_script.stderr));
    let keyless = home.run(&["agent", "trigger", "lead", "--input", "x", "--model", "openai/gpt-4o"]);
    assert!(failed(&keyless).contains("OPENAI_API_KEY"), "{}", text(&keyless.stderr));
}

#[test]
fn doctor_tells_which_models_can_be_asked() {
    let home = home();
    let told = command_output(home.run(&["doctor"]));
    // Ollama asks for no key: it is there or it is not.
    assert!(told.contains("– models         ollama") || told.contains("✓ models         ollama"), "{told}");
    assert!(told.contains("✓ models         rehearsal"), "{told}");
    assert!(told.contains("not configured: google (GEMINI_API_KEY)"), "{told}");
    let mut command = home.command(&["doctor"]);
    command.env("EMERGENT_MODEL", "google/gemini-2.5-flash");
    let wrong = common::finish(command);
    assert!(
        text(&wrong.stdout).contains("✗ models") && text(&wrong.stdout).contains("GEMINI_API_KEY"),
        "{}",
        text(&wrong.stdout)
    );
}

const OUTSIDE: &str = r#"
rules:
  - when: {}
    answer: { text: "You said: {{last}}" }
"#;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_external_agent_is_invoked_with_a_token_that_may_do_nothing_else() {
    let home = home();
    std::fs::write(home.data().join("rehearsals/outside.yaml"), OUTSIDE).expect("a script");
    let model = json!({ "provider": "rehearsal", "name": "outside" });
    let agent = json!({ "name": "guide", "visibility": "external", "model": model });
    std::fs::write(home.folder().join("guide.json"), agent.to_string()).expect("a file");
    command_output(home.run(&["agent", "create", "guide.json"]));
    // On the data folder, the command drives the run itself.
    let said = command_output(home.run(&["agent", "invoke", "guide", "--input", "hello there"]));
    assert_eq!(said, "You said: hello there\n");

    let server = home.start().await;
    let token = command_output(home.run(&["token", "create", "partner", "--scopes", "agents:invoke"]));
    let outside = ["--server", server.url(), "--token", token.trim()];
    let invoke = |more: &[&str]| home.run(&[&["agent", "invoke", "guide"], more, &outside].concat());
    assert_eq!(command_output(invoke(&["--input", "hello"])), "You said: hello\n");
    assert_eq!(command_output(invoke(&["--input", "hello", "--wait", "30"])), "You said: hello\n");
    let result = json_of(invoke(&["--input", "hello", "--wait", "30", "--json"]));
    assert_eq!((&result["status"], &result["text"]), (&json!("completed"), &json!("You said: hello")));
    let conversation = result["conversationId"].as_str().expect("an id");
    let more = ["--input", "more", "--conversation", conversation, "--wait", "30", "--json"];
    assert_eq!(json_of(invoke(&more))["conversationId"], conversation);
    let events = command_output(invoke(&["--input", "hello", "--json"]));
    let last: Value = serde_json::from_str(events.lines().last().expect("an end")).expect("JSON");
    assert_eq!(last["type"], "run_ended");
    for flags in [&["--input", "hello", "--idempotency-key", "k", "--wait", "30", "--json"][..]; 2] {
        json_of(invoke(flags));
    }
    let runs = json_of(home.run(&["run", "list", "--agent", "guide", "--json"]));
    assert_eq!(runs.as_array().map(Vec::len), Some(7), "the repeated request started one run: {runs}");
    let refused = failed(&home.run(&[&["agent", "invoke", "lead", "--input", "x"], &outside[..]].concat()));
    assert!(refused.contains("lead"), "{refused}");
}

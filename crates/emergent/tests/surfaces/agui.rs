//! The client of AG-UI, in the version of today and in the last one before 1.0. Both check every event.

use std::{
    path::Path,
    process::{Command, Stdio},
};

use serde_json::{Value, json};

use crate::{
    clients::{self, installed, with_script},
    common::{Home, command_output, finish},
};

const SCRIPT: &str = r#"
rules:
  - when: { agent: broken }
    fault: auth
  - when: { tool_result: get_weather }
    answer: { text: "It is {{result}}." }
  - when: { tool_result: project_info }
    answer: { text: One project. }
  - when: { tool_result: ask_user }
    answer: { text: Thank you. }
  - when: { contains: weather }
    answer:
      text: Let me see.
      calls:
        - { tool: get_weather, input: { city: Oslo } }
        - { tool: project_info, input: {} }
        - { tool: get_weather, input: { city: Rome } }
  - when: { contains: look }
    answer:
      text: Let me look.
      calls: [{ tool: project_info, input: {} }]
  - when: { contains: ask }
    answer:
      calls: [{ tool: ask_user, input: { question: "Which colour?" } }]
  - when: {}
    answer: { text: "You said: {{last}}" }
"#;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_client_of_agui_talks_to_agents() {
    check("agui").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_client_of_agui_before_1_0_talks_to_agents() {
    check("agui-0").await;
}

/// The clients of `docs/integrations.md`, as they are written there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_clients_of_the_documentation_print_the_answer() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/integrations.md");
    let page = std::fs::read_to_string(page).expect("the page");
    let blocks = page.split("```").skip(1).step_by(2).filter_map(|block| block.split_once('\n'));
    let programs: Vec<&str> =
        blocks.map(|(_, text)| text).filter(|text| text.contains("@ag-ui/client")).collect();
    let home = home();
    let server = home.start().await;
    create_agent(&home, "greeter", "external", &json!([]));
    let token = command_output(home.run(&["token", "create", "partner", "--scopes", "agents:invoke"]));
    let modules = installed("agui").join("node_modules");
    std::os::unix::fs::symlink(modules, home.folder().join("node_modules")).expect("a link");
    let expected = ["You said: Hello", "It is sunny in Rome."];
    assert_eq!(programs.len(), expected.len());
    for (program, expected) in programs.iter().zip(expected) {
        let file = home.folder().join("client.mjs");
        std::fs::write(&file, program.replace("http://127.0.0.1:4400", server.url())).expect("a file");
        let mut command = Command::new("node");
        command.arg(file).env("OPENAI_API_KEY", token.trim()).current_dir(home.folder()).stdin(Stdio::null());
        let output = finish(command);
        let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success() && out.contains(expected), "{out}{err}");
    }
}

/// A folder with the script of the agents.
fn home() -> Home {
    with_script(Home::sqlite(), "outside", SCRIPT)
}

fn create_agent(home: &Home, name: &str, visibility: &str, approvals: &Value) {
    let model = json!({ "provider": "rehearsal", "name": "outside" });
    let tools = ["project_info", "ask_user"];
    let agent = json!({ "name": name, "visibility": visibility, "model": model, "approvals": approvals, "tools": tools });
    clients::create_agent(home, &agent);
}

async fn check(set: &str) {
    let home = home();
    let server = home.start().await;
    let ask = json!([{ "tools": ["project_info"], "action": "ask" }]);
    for (name, visibility, approvals) in [
        ("assistant", "external", json!([])),
        ("careful", "external", ask),
        ("curious", "external", json!([])),
        ("broken", "external", json!([])),
        ("worker", "project", json!([])),
    ] {
        create_agent(&home, name, visibility, &approvals);
    }
    let scopes = "agents:invoke,approvals:decide";
    let token = command_output(home.run(&["token", "create", "partner", "--scopes", scopes]));

    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/surfaces/clients/agui_client.mjs");
    let mut command = Command::new("node");
    command.arg(program).arg(installed(set)).arg(server.url()).arg(token.trim());
    command.current_dir(home.folder()).stdin(Stdio::null());
    let output = finish(command);
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{out}{err}");
    let seen: Value = serde_json::from_str(out.trim()).unwrap_or_else(|_| panic!("{out}{err}"));

    // The agent reads the state of the client below the message.
    let first = seen["first"]["result"]["text"].as_str().expect("a text");
    assert!(first.starts_with("You said: Hello\n\nContext:") && first.contains("\"order\": 7"), "{first}");
    assert_eq!((&seen["first"]["text"], &seen["first"]["outcome"]), (&json!([first]), &json!("success")));
    assert_eq!(seen["second"]["text"], json!(["Let me look.", "One project."]), "{seen}");
    assert_eq!(seen["second"]["results"], 1);
    assert_eq!(
        (&seen["state"]["order"], &seen["state"]["emergent"]["status"]),
        (&json!(7), &json!("completed"))
    );

    let asked = &seen["asked"];
    assert_eq!(
        (&asked["outcome"], &asked["text"]),
        (&json!("interrupt"), &json!(["Let me look."])),
        "{asked}"
    );
    let call = &seen["toolCalls"][0];
    assert_eq!(asked["interrupts"], json!([["tool_call", call[0]]]));
    assert_eq!((&call[1], &call[2], &asked["results"]), (&json!("project_info"), &json!("{}"), &json!(0)));
    let resumed = &seen["resumed"];
    assert_eq!((&resumed["text"], &resumed["results"]), (&json!(["One project."]), &json!(1)), "{resumed}");
    let types = resumed["types"].as_array().expect("types");
    assert!(!types.contains(&json!("TOOL_CALL_START")), "{types:?}");
    assert_eq!(
        (&seen["areIdsUnique"], &seen["roles"]),
        (&json!(true), &json!(["user", "assistant", "tool", "assistant"]))
    );
    assert_eq!(seen["questioned"], json!([["input_required", "Which colour?"]]));
    assert_eq!(seen["answered"]["text"], json!(["Thank you."]));
    assert_eq!(
        (&seen["failed"], &seen["notExternal"], &seen["wrongToken"]),
        (&json!("provider"), &json!(403), &json!(401))
    );
    let called = &seen["called"];
    assert_eq!(
        (&called["outcome"], &called["text"]),
        (&json!("success"), &json!(["Let me see."])),
        "{called}"
    );
    assert_eq!(
        (&called["pending"], &called["results"]),
        (&json!([["get_weather", "{\"city\":\"Oslo\"}"], ["get_weather", "{\"city\":\"Rome\"}"]]), &json!(1))
    );
    let continued = &seen["continued"];
    assert_eq!(
        (&continued["text"], &continued["results"]),
        (&json!(["It is sunny in Rome."]), &json!(0)),
        "{continued}"
    );
    assert_eq!(
        (&seen["toolRoles"], &seen["areToolIdsUnique"]),
        (&json!(["user", "assistant", "tool", "assistant", "tool", "tool", "assistant"]), &json!(true))
    );
    assert_eq!(seen["taken"], 400, "the name of a tool of the agent");
    // One run each: two of the talk, one that waited, one that asked, one with tools of the client, one that failed.
    let runs = server.api.get("/api/admin/runs").await;
    assert_eq!(runs.data().as_array().expect("runs").len(), 6);
}

//! The official Python SDK of OpenAI.

use std::{
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use serde_json::{Value, json};

use crate::common::{Home, command_output, finish};

const SCRIPT: &str = r#"
rules:
  - when: { agent: broken }
    fault: auth
  - when: { agent: assistant, tool_result: project_info }
    answer: { text: One project. }
  - when: { agent: assistant, contains: look }
    answer:
      text: Let me look.
      calls: [{ tool: project_info, input: {} }]
  - when: {}
    answer: { text: "You said: {{last}}" }
"#;

/// The folder of the SDK, which `scripts/surface-clients` installs if it is missing.
fn installed() -> PathBuf {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/surface-clients");
    let output = Command::new(script).arg("openai").stderr(Stdio::inherit()).output().expect("it runs");
    assert!(output.status.success(), "scripts/surface-clients openai failed");
    PathBuf::from(String::from_utf8(output.stdout).expect("a path").trim())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_python_sdk_of_openai_talks_to_an_agent() {
    let home = Home::sqlite();
    let scripts = home.data().join("rehearsals");
    std::fs::create_dir_all(&scripts).expect("a folder");
    std::fs::write(scripts.join("outside.yaml"), SCRIPT).expect("a script");
    let server = home.start().await;
    let model = json!({ "provider": "rehearsal", "name": "outside" });
    for (name, visibility) in [("assistant", "external"), ("broken", "external"), ("worker", "project")] {
        let agent =
            json!({ "name": name, "visibility": visibility, "model": model, "tools": ["project_info"] });
        std::fs::write(home.folder().join("agent.json"), agent.to_string()).expect("a file");
        command_output(home.run(&["agent", "create", "agent.json"]));
    }
    let token = command_output(home.run(&["token", "create", "partner", "--scopes", "agents:invoke"]));

    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/surfaces/clients/openai_client.py");
    let mut command = Command::new(installed().join("bin/python"));
    command.arg(program).arg(format!("{}/v1", server.url())).arg(token.trim());
    command.current_dir(home.folder()).stdin(Stdio::null());
    let output = finish(command);
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{out}{err}");
    let seen: Value = serde_json::from_str(out.trim()).unwrap_or_else(|_| panic!("{out}{err}"));

    assert_eq!((&seen["models"], &seen["model"]), (&json!(["assistant", "broken"]), &json!("assistant")));
    assert_eq!(seen["whole"], json!(["You said: Hello", "stop", true]));
    assert_eq!(seen["later"], "You said: count");
    let streamed = &seen["streamed"];
    assert_eq!(streamed["content"], "Let me look.\n\nOne project.", "{streamed}");
    assert_eq!(
        (&streamed["reasoning"], &streamed["finish"]),
        (&json!("Calls `project_info`.\n"), &json!(["stop"]))
    );
    assert!(streamed["usage"].as_u64().is_some_and(|tokens| tokens > 0), "{streamed}");
    assert_eq!(seen["retried"], json!(["You said: Hello", true]), "a retry with its key is the same run");
    assert_eq!(seen["streamRetried"], "You said: Hello");
    assert_eq!(seen["unknown"], json!(["NotFoundError", "not_found", null]));
    assert_eq!(seen["notExternal"], json!(["PermissionDeniedError", "forbidden", null]));
    assert_eq!(seen["tools"], json!(["BadRequestError", "invalid", "tools"]));
    assert_eq!(seen["token"], json!(["AuthenticationError", "unauthorized", null]));
    assert_eq!(seen["failed"], json!(["InternalServerError", "provider", null]));
    assert_eq!(seen["failedStream"], json!(["APIError", "provider", null]));
    // One run each: whole, later, with each key, streamed, and two that failed: the SDK did not repeat these.
    let runs = server.api.get("/api/admin/runs").await;
    let runs = runs.data().as_array().expect("runs").clone();
    assert_eq!(runs.len(), 7, "{runs:?}");
}

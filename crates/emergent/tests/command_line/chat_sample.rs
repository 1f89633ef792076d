//! `emergent serve --sample` and `emergent chat`: a person asks a question about the sample right away.

use std::{process::Stdio, time::Duration};

use serde_json::{Value, json};

use crate::common::{Home, command_output, eventually, failed, json_of};

const SCRIPT: &str = r#"
rules:
  - when: { agent: graph-query-agent, turn: 2 }
    answer: { text: "Ada Lovelace worked with Charles Babbage." }
  - when: { agent: graph-query-agent }
    answer: { calls: [{ tool: hybrid_search, input: { query: Ada Lovelace } }] }
  - when: {}
    answer: { text: "You said: {{last}}" }
"#;

fn home_with_script() -> Home {
    let home = Home::sqlite();
    std::fs::create_dir_all(home.data().join("rehearsals")).expect("a folder");
    std::fs::write(home.data().join("rehearsals/sample.yaml"), SCRIPT).expect("a script");
    home
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_question_about_the_sample_is_answered_right_away() {
    let home = home_with_script().with("EMERGENT_MODEL", "rehearsal/sample");
    let server = home.start_with(&["--sample"]).await;
    let said = server.launched.said.clone();
    assert!(
        said.contains("chat \"Who worked with Ada Lovelace?\"") && !said.contains("needs a model"),
        "{said}"
    );
    // The default agent that came along answers; with `-`, no agent does, and a search finds passages.
    let asked = command_output(home.run(&["chat", "Who worked with Ada Lovelace?"]));
    assert_eq!(asked.trim(), "Ada Lovelace worked with Charles Babbage.");
    let plain = command_output(home.run(&["chat", "Who worked with Ada Lovelace?", "--agent", "-"]));
    assert!(plain.contains("You said:") && plain.contains("Ada Lovelace"), "{plain}");
    let agents: Vec<Value> = server.api.all("/api/chat/conversations?").await;
    let agents: Vec<&Value> = agents.iter().map(|conversation| &conversation["agentName"]).collect();
    assert_eq!(agents, [&Value::Null, &Value::from("graph-query-agent")], "newest first");
    let answer: Value = json_of(home.run(&[
        "chat",
        "Who?",
        "--agent",
        "graph-query-agent",
        "--idempotency-key",
        "q1",
        "--json",
    ]));
    assert_eq!(answer["status"], "completed", "{answer}");
    let again: Value = json_of(home.run(&[
        "chat",
        "Who?",
        "--agent",
        "graph-query-agent",
        "--idempotency-key",
        "q1",
        "--json",
    ]));
    assert_eq!(again["id"], answer["id"], "the same key prints the same answer");
    // Installing the product that came along, and starting again, change nothing.
    let installed = command_output(home.run(&["product", "install", "emergent.memory"]));
    assert!(installed.contains("nothing to do") && installed.contains("is at "), "{installed}");
    let agents = server.api.all("/api/admin/agents?").await.len();
    server.kill();
    let server = home.start_with(&["--sample"]).await;
    assert_eq!(server.api.all("/api/admin/agents?").await.len(), agents);
    let log = std::fs::read_to_string(home.folder().join("log")).unwrap_or_default();
    assert!(!log.contains("default agents were not installed"), "{log}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_model_it_is_said_what_to_set() {
    let home = Home::sqlite();
    let server = home.start_with(&["--sample"]).await;
    let said = &server.launched.said;
    assert!(said.contains("needs a model: set GEMINI_API_KEY, or EMERGENT_MODEL"), "{said}");
    let told = failed(&home.run(&["chat", "Who worked with Ada Lovelace?"]));
    assert!(told.contains("GEMINI_API_KEY") && told.contains("EMERGENT_MODEL"), "{told}");
    assert!(!told.contains("--model"), "the command has no such option: {told}");
    let told = failed(&home.run(&["agent", "trigger", "graph-query-agent", "--input", "Who?"]));
    assert!(told.contains("--model provider/name"), "{told}");
    assert!(server.api.all("/api/chat/conversations?").await.is_empty(), "nothing was stored");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_default_agent_answers_where_only_its_model_is_configured() {
    let home =
        Home::sqlite().with("GEMINI_API_KEY", "k").with("EMERGENT_GOOGLE_BASE_URL", "http://127.0.0.1:9");
    let server = home.start_with(&["--sample"]).await;
    assert!(!server.launched.said.contains("needs a model"), "{}", server.launched.said);
    // The model does not respond, so only who was asked matters here.
    let mut command = home.command(&["chat", "Who worked with Ada Lovelace?"]);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("the binary runs");
    let mut agent = Value::Null;
    for _ in 0..500 {
        if let Some(found) = server.api.all("/api/chat/conversations?").await.first() {
            agent = found["agentName"].clone();
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let _ = child.kill();
    let _ = child.wait();
    assert_eq!(agent, "graph-query-agent");
}

/// Asks a model on this machine or elsewhere, if one is named:
///
/// - `EMERGENT_TEST_MODEL=ollama/qwen3:8b`, with `EMERGENT_TEST_MODEL_URL` unless Ollama has its usual address,
/// - `EMERGENT_TEST_MODEL=openai/NAME` with `EMERGENT_TEST_MODEL_URL`, for every server that speaks like OpenAI.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_real_model_answers_a_question_about_the_sample() {
    let Some(model) = std::env::var("EMERGENT_TEST_MODEL").ok().filter(|model| !model.is_empty()) else {
        eprintln!("skipped: no model is named (EMERGENT_TEST_MODEL=provider/name, EMERGENT_TEST_MODEL_URL)");
        return;
    };
    let mut home = Home::sqlite().with("EMERGENT_MODEL", model.as_str());
    if let Ok(url) = std::env::var("EMERGENT_TEST_MODEL_URL") {
        let setting = if model.starts_with("ollama/") { "OLLAMA_HOST" } else { "EMERGENT_OPENAI_BASE_URL" };
        home = home.with(setting, url);
    }
    let server = home.start_with(&["--sample"]).await;
    let question =
        "Which machine did Charles Babbage and Ada Lovelace both work on? Look it up in the graph.";
    let mut command = home.command(&["chat", question, "--agent", "graph-query-agent", "--json"]);
    command.env("NO_COLOR", "1");
    // A small machine may need minutes; the agent has a time limit.
    let output = tokio::task::spawn_blocking(move || command.output()).await.expect("a command");
    let answer: Value = json_of(output.expect("the binary runs"));
    assert_eq!(answer["status"], "completed", "{answer}");
    assert!(answer["content"].as_str().unwrap_or_default().contains("Analytical Engine"), "{answer}");
    let run = answer["runId"].as_str().expect("a run");
    let recorded = server.api.get(&format!("/api/admin/runs/{run}")).await.data();
    let calls = server
        .api
        .get(&format!(
            "/api/admin/agents/{}/runs/{run}/tool-calls",
            recorded["agentId"].as_str().expect("an agent")
        ))
        .await
        .data();
    assert!(!calls.as_array().expect("calls").is_empty(), "it looked something up: {answer}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_passage_that_only_shares_parts_of_words_is_not_cited() {
    let home = home_with_script().with("EMERGENT_MODEL", "rehearsal/sample");
    let server = home.start().await;
    let play = json!({ "type": "Play", "key": "othello", "properties": { "text": "Othello" } });
    server.api.post("/api/graph/objects", &play).await;
    eventually("the play is embedded", Duration::from_secs(10), || async {
        let question = json!({ "query": "Hello", "mode": "hybrid" });
        let found = server.api.post("/api/graph/search", &question).await.data();
        found["hits"].as_array().is_some_and(|hits| !hits.is_empty())
    })
    .await;
    let answer: Value = json_of(home.run(&["chat", "Hello", "--agent", "-", "--json"]));
    assert_eq!(answer["citations"], json!([]), "{answer}");
    let answer: Value = json_of(home.run(&["chat", "Who is Othello?", "--agent", "-", "--json"]));
    assert_eq!(answer["retrievalContext"]["passages"][0]["key"], "othello", "{answer}");
}

//! Agents of another system, made with the Python SDK of A2A, over both bindings.

use std::time::Duration;

use emergent_domain::ids::RunId;
use emergent_testkit::{A2aAgents, TestDb};
use emergent_tools::{Effect, ToolContext};
use serde_json::{Value, json};

use crate::remote::support::Site;

fn spec(name: &str, url: &str) -> Value {
    json!({ "name": name, "transport": "a2a", "url": url })
}

/// What the agents tell at a path.
async fn fetched_list(agents: &A2aAgents, path: &str) -> Value {
    let text = reqwest::get(agents.url(path)).await.unwrap().text().await.unwrap();
    serde_json::from_str(&text).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_is_one_tool_that_sends_it_a_message() {
    let agents = A2aAgents::start();
    for name in ["echo", "repeater"] {
        let site = Site::open(TestDb::sqlite().await).await;
        let server = site.add(spec("helper", &agents.url(name))).await;
        let seen = site.servers.inspect(site.project, server.id).await.unwrap();
        assert_eq!((seen.error, seen.protocol.as_deref()), (None, Some("1.0")));
        let label = format!("{name}_agent");
        let tool = site.tool(&label).await.expect("the agent is a tool");
        assert_eq!(tool.info().effect, Effect::External { read_only: false, idempotent: false });
        let description = &tool.info().description;
        assert!(description.contains("Repeats what it is told."), "{description}");

        let answer = site.call(&label, json!({ "message": "good morning" })).await.unwrap();
        assert_eq!(
            (&answer["state"], &answer["text"]),
            (&json!("completed"), &json!("You said: good morning"))
        );
        assert_eq!(answer["data"], json!([{ "words": 2.0 }]), "{answer}");
        assert!(answer["taskId"].is_string(), "{answer}");
        let context = answer["contextId"].as_str().unwrap();
        let more = site.call(&label, json!({ "message": "again", "contextId": context })).await.unwrap();
        assert_eq!(more["contextId"], answer["contextId"], "the same conversation");

        let failed = site.call(&label, json!({ "message": "fail" })).await.unwrap_err();
        assert!(failed.contains("failed") && failed.contains("It went wrong."), "{failed}");
        let refused =
            site.call(&label, json!({ "message": "x", "taskId": "no-such-task" })).await.unwrap_err();
        assert!(refused.contains("the remote agent `helper` refused the message"), "{refused}");
        let invalid = site.call(&label, json!({ "text": "x" })).await.unwrap_err();
        assert!(invalid.contains("message"), "{invalid}");
        site.close().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_has_the_same_id_whenever_the_same_call_of_a_run_is_made() {
    let agents = A2aAgents::start();
    let site = Site::open(TestDb::sqlite().await).await;
    site.add(spec("helper", &agents.url("echo"))).await;
    let tool = site.tool("echo_agent").await.unwrap();
    let run = RunId::new();
    for call in [4, 4, 6] {
        let context =
            ToolContext { call: Some(call), ..ToolContext::new(site.graph.clone(), site.project, Some(run)) };
        site.guard.call(tool.as_ref(), &context, json!({ "message": "hi" })).await;
    }
    let seen = fetched_list(&agents, "seen").await;
    let ids: Vec<&Value> = seen.as_array().unwrap().iter().map(|one| &one["message"]).collect();
    assert_eq!(ids, [&json!(format!("{run}-4")), &json!(format!("{run}-4")), &json!(format!("{run}-6"))]);
    site.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_that_asks_for_input_is_answered_with_its_task() {
    let agents = A2aAgents::start();
    let site = Site::open(TestDb::sqlite().await).await;
    site.add(spec("tables", &agents.url("asker"))).await;
    let asked = site.call("asker_agent", json!({ "message": "book a table" })).await.unwrap();
    assert_eq!((&asked["state"], &asked["text"]), (&json!("input_required"), &json!("For how many people?")));
    assert!(asked["next"].as_str().unwrap().contains("taskId"), "{asked}");
    let input = json!({ "message": "four", "taskId": asked["taskId"], "contextId": asked["contextId"] });
    let answer = site.call("asker_agent", input).await.unwrap();
    assert_eq!((&answer["state"], &answer["text"]), (&json!("completed"), &json!("A table for four.")));
    assert_eq!(answer["taskId"], asked["taskId"]);
    site.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_task_is_awaited_and_cancelled_when_the_time_is_up_or_nobody_waits() {
    let agents = A2aAgents::start();
    let site = Site::open(TestDb::sqlite().await).await;
    let server = site.add(spec("patient", &agents.url("slow"))).await;
    let answer = site.call("slow_agent", json!({ "message": "soon" })).await.unwrap();
    assert_eq!(answer["text"], json!("At last."));

    site.timeout(server.id, 2).await;
    let late = site.call("slow_agent", json!({ "message": "never" })).await.unwrap_err();
    assert!(late.contains("did not finish the task") && late.contains("within 2 seconds"), "{late}");
    wait_for_cancelled(&agents, 1).await;
    let (row, ..) = site.servers.get(site.project, server.id).await.unwrap();
    assert_eq!(row.last_error, None, "an agent that works for long is not broken");

    site.timeout(server.id, 60).await;
    let call = site.call("slow_agent", json!({ "message": "never" }));
    assert!(tokio::time::timeout(Duration::from_secs(1), call).await.is_err());
    wait_for_cancelled(&agents, 2).await;
    site.close().await;
}

async fn wait_for_cancelled(agents: &A2aAgents, count: usize) {
    for _ in 0..200 {
        if fetched_list(agents, "cancelled").await.as_array().unwrap().len() == count {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("{count} tasks were not cancelled within ten seconds");
}

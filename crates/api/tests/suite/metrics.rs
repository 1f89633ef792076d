//! The Prometheus metrics after agents have run.

use crate::common;

use common::Server;
use emergent_llm::Error;
use emergent_testkit::{
    TestDb,
    scripted::{ScriptedModel, calls, fails, hangs, says},
};
use serde_json::json;

#[tokio::test]
async fn runs_models_and_tools_are_counted() {
    let db = TestDb::sqlite().await;
    let model = ScriptedModel::new([
        calls("project_info", json!({}))
            .and(calls("entities_create", json!({ "type": "Note", "key": "n" })))
            .and(calls("invented", json!({}))),
        says("Done."),
        fails(Error::Auth { model: "scripted/lines".into(), message: "no".into() }),
        hangs(),
    ]);
    let server = Server::with_models(&db, 1_024, model.models()).await;
    let client = server.admin();
    let before = client.get("/metrics").await;
    assert_eq!(before.headers["content-type"], "application/openmetrics-text; version=1.0.0; charset=utf-8");
    let before = before.text;
    assert!(
        before.contains("\nemergent_runs_running 0\n") && before.contains("\nemergent_run_steps_total 0\n")
    );

    let agent = client.agent("worker", json!({ "tools": ["project_info", "entities_create"] })).await;
    let waiting = client.trigger(&agent, "go").await;
    assert!(client.get("/metrics").await.text.contains("\nemergent_runs_queued 1\n"));
    let _runner = server.drive();
    assert_eq!(client.ended(&waiting).await["status"], "completed");
    assert_eq!(client.run_to_end(&agent, "fail").await["status"], "failed");
    let hanging = client.trigger(&agent, "wait").await;
    while !client.get("/metrics").await.text.contains("\nemergent_runs_running 1\n") {
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    client.post(&format!("/api/admin/agents/{agent}/runs/{hanging}/cancel"), json!({})).await.is(200);

    let text = client.get("/metrics").await.text;
    for line in [
        r#"emergent_runs_total{status="completed",reason=""} 1"#,
        r#"emergent_runs_total{status="failed",reason="provider"} 1"#,
        r#"emergent_runs_total{status="cancelled",reason=""} 1"#,
        "emergent_runs_queued 0",
        "emergent_workflows_walking 0",
        "emergent_run_steps_total 2",
        r#"emergent_model_calls_total{provider="scripted",model="lines",outcome="ok"} 2"#,
        r#"emergent_model_calls_total{provider="scripted",model="lines",outcome="auth"} 1"#,
        r#"emergent_model_call_seconds_count{provider="scripted",model="lines"} 3"#,
        r#"emergent_tokens_total{provider="scripted",model="lines",kind="input"} 200"#,
        r#"emergent_tokens_total{provider="scripted",model="lines",kind="output"} 20"#,
        r#"emergent_tokens_total{provider="scripted",model="lines",kind="reasoning"} 4"#,
        r#"emergent_tokens_total{provider="scripted",model="lines",kind="cache_read"} 80"#,
        r#"emergent_tokens_total{provider="scripted",model="lines",kind="cache_write"} 10"#,
        r#"emergent_cost_usd_total{provider="scripted",model="lines"} 0.0"#,
        r#"emergent_tool_calls_total{tool="project_info",status="completed"} 1"#,
        r#"emergent_tool_calls_total{tool="entities_create",status="completed"} 1"#,
        r#"emergent_tool_calls_total{tool="unknown",status="refused"} 1"#,
        r#"emergent_tool_seconds_bucket{le="+Inf",tool="project_info"} 1"#,
        r#"emergent_tool_seconds_count{tool="entities_create"} 1"#,
    ] {
        assert!(text.contains(&format!("{line}\n")), "{line} in\n{text}");
    }
}

#[tokio::test]
async fn firings_of_triggers_are_counted_and_so_is_what_waits() {
    let db = TestDb::sqlite().await;
    let server = Server::with_models(&db, 1_024, ScriptedModel::default().models()).await;
    let client = server.admin();
    client.agent("at_once", json!({ "trigger": "on_entity_created" })).await;
    let slow = json!({ "trigger": { "coalesce_seconds": 3_600 } });
    client.agent("later", json!({ "trigger": "on_entity_updated", "config": slow })).await;
    let note = client.object("Note", "n", json!({})).await;
    client.patch(&format!("/api/graph/objects/{note}"), json!({ "properties": { "a": 1 } })).await.is(200);
    server.executor.read_events(server.default_project).await.unwrap();
    server.executor.fire_events(server.default_project, 10).await.unwrap();
    let text = client.get("/metrics").await.text;
    for line in [
        r#"emergent_trigger_firings_total{kind="on_entity_created",outcome="fired"} 1"#,
        r#"emergent_trigger_firings_waiting{kind="schedule"} 0"#,
        r#"emergent_trigger_firings_waiting{kind="on_entity_created"} 0"#,
        r#"emergent_trigger_firings_waiting{kind="on_entity_updated"} 1"#,
    ] {
        assert!(text.contains(&format!("{line}\n")), "{line} in\n{text}");
    }
}

#[tokio::test]
async fn workflows_attempts_and_decisions_are_counted() {
    let db = TestDb::sqlite().await;
    let model = ScriptedModel::default()
        .agent(
            "builder",
            [fails(Error::Auth { model: "scripted/lines".into(), message: "no".into() }), says("Built.")],
        )
        .agent(
            "tester",
            [says("I looked."), calls("submit_verdict", json!({ "verdict": "PASS" })), says("Good.")],
        )
        .agent("slow", [hangs()]);
    let server = Server::with_models(&db, 1_024, model.models()).await;
    let client = server.admin();
    for name in ["builder", "tester", "slow"] {
        client.agent(name, json!({})).await;
    }
    let dispatch = async |tasks| {
        let started = client.post("/api/coordination/dispatch", json!({ "tasks": tasks })).await;
        started.is(202)["workflowId"].as_str().expect("an id").to_owned()
    };
    dispatch(json!([
        { "key": "build", "title": "Build", "assignedAgent": "builder" },
        { "key": "test", "title": "Test", "assignedAgent": "tester", "verdict": "test", "blockedBy": ["build"] },
    ]))
    .await;
    let slow = dispatch(json!([{ "key": "wait", "title": "Wait", "assignedAgent": "slow" }])).await;
    let text = client.get("/metrics").await.text;
    for line in [
        r#"emergent_workflows_live{status="running"} 2"#,
        r#"emergent_workflows_live{status="planning"} 0"#,
        r#"emergent_task_wait_seconds_bucket{le="+Inf"} 0"#,
        "emergent_workflows_walking 0",
    ] {
        assert!(text.contains(&format!("{line}\n")), "{line} in\n{text}");
    }
    let _stop = server.dispatch();
    // The end of a run is counted shortly after it is visible.
    let metrics_with = async |line: &str| {
        for _ in 0..2_000 {
            let text = client.get("/metrics").await.text;
            if text.contains(&format!("{line}\n")) {
                return text;
            }
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
        panic!("{line} is not in\n{}", client.get("/metrics").await.text);
    };
    metrics_with(r#"emergent_workflows_ended_total{status="completed"} 1"#).await;
    metrics_with("emergent_runs_running 1").await;
    client.post(&format!("/api/coordination/workflows/{slow}/cancel"), json!({})).await.is(200);
    let text = metrics_with(r#"emergent_workflows_ended_total{status="cancelled"} 1"#).await;
    for line in [
        r#"emergent_workflows_live{status="running"} 0"#,
        r#"emergent_task_attempts_total{outcome="retried"} 1"#,
        r#"emergent_task_attempts_total{outcome="asked_again"} 1"#,
        r#"emergent_task_attempts_total{outcome="completed"} 2"#,
        r#"emergent_dispatch_decisions_total{decision="start"} 4"#,
        r#"emergent_dispatch_decisions_total{decision="resume"} 1"#,
        r#"emergent_dispatch_decisions_total{decision="settle"} 4"#,
        r#"emergent_dispatch_decisions_total{decision="end"} 1"#,
        "emergent_task_wait_seconds_count 4",
    ] {
        assert!(text.contains(&format!("{line}\n")), "{line} in\n{text}");
    }
}

#[tokio::test]
async fn a_token_of_a_project_sees_the_figures_of_that_project_only() {
    let db = TestDb::sqlite().await;
    let server = Server::with_models(&db, 1_024, ScriptedModel::default().models()).await;
    let (ours, theirs) = (server.project("ours").await, server.project("theirs").await);
    let admin = server.admin();
    for (project, runs) in [(ours, 1), (theirs, 2)] {
        let inside = admin.in_project(project);
        let agent = inside.agent("worker", json!({})).await;
        for _ in 0..runs {
            inside.trigger(&agent, "go").await;
        }
    }
    let bound =
        server.client(Some(&server.token(&[emergent_domain::token::Scope::AdminRead], Some(ours)).await));
    let text = bound.get("/metrics").await.text;
    assert!(text.contains(&format!("emergent_runs_queued{{project=\"{ours}\"}} 1\n")), "{text}");
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        assert!(line.contains(&format!("project=\"{ours}\"")), "{line}");
    }
    assert!(admin.get("/metrics").await.text.contains("\nemergent_runs_queued 3\n"));
}

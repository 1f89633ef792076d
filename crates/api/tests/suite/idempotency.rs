//! `Idempotency-Key`: a request that starts work is accepted once.

use crate::common;

use std::{sync::mpsc, time::Duration};

use axum::{
    body::Body,
    http::{Method, header},
};
use common::{Answer, Client, Server};
use emergent_domain::{ids::ProjectId, token::Scope};
use emergent_graph::cleanup::CleanupSettings;
use emergent_store::Tx;
use emergent_testkit::{
    both_engines,
    scripted::{ScriptedModel, calls, says},
};
use futures_util::future::{Either, join_all, select};
use serde_json::{Value, json};

async fn post_once(client: &Client, path: &str, key: &str, body: Value) -> Answer {
    let request = client.request(Method::POST, path).header(header::CONTENT_TYPE, "application/json");
    client.send(request.header("idempotency-key", key).body(Body::from(body.to_string())).unwrap()).await
}

/// Expects the answer to a request that was accepted before.
#[track_caller]
fn assert_replay(again: &Answer, first: &Answer) {
    assert_eq!((again.status, &again.text), (first.status, &first.text));
    assert_eq!(again.headers["idempotency-replayed"], "true");
    assert!(!first.headers.contains_key("idempotency-replayed"));
}

async fn count(client: &Client, path: &str) -> usize {
    client.get(path).await.is(200).as_array().unwrap().len()
}

async fn execute(server: &Server, sql: &'static str) -> u64 {
    server
        .graph
        .db()
        .write(move |tx| tx.execute(sql, &[]))
        .await
        .unwrap_or_else(|error: emergent_store::Error| panic!("{error}"))
}

/// Keeps every admission of the project from going on, until the sender is dropped.
async fn hold_project(server: &Server, project: ProjectId) -> mpsc::Sender<()> {
    let (release, released) = mpsc::channel::<()>();
    let (held, holds) = tokio::sync::oneshot::channel();
    let (released, held) = (parking(released), parking(held));
    let db = server.graph.db().clone();
    tokio::spawn(async move {
        let work = move |tx: &mut Tx<'_>| {
            let lock = format!("SELECT id FROM projects WHERE id = $1{}", tx.for_update());
            tx.query(&lock, &[project.into()], |_| Ok(()))?;
            if let Some(held) = held.lock().unwrap().take() {
                let _ = held.send(());
            }
            if let Some(released) = released.lock().unwrap().as_ref() {
                let _ = released.recv_timeout(Duration::from_secs(2));
            }
            Ok::<_, emergent_store::Error>(())
        };
        db.write(work).await.unwrap();
    });
    holds.await.unwrap();
    release
}

fn parking<T>(value: T) -> std::sync::Mutex<Option<T>> {
    std::sync::Mutex::new(Some(value))
}

both_engines! {
    async fn a_repeated_request_gets_the_first_answer_and_starts_nothing(db: TestDb) {
        let model = ScriptedModel::new([says("Done.")]);
        let server = Server::with_models(&db, 1_024, model.models()).await;
        let client = server.admin();
        let agent = client.agent("a", json!({})).await;
        let path = format!("/api/admin/agents/{agent}/trigger");
        let first = post_once(&client, &path, "order 1", json!({ "input": "go" })).await;
        first.is(202);
        let again = post_once(&client, &path, "order 1", json!({ "input": "go" })).await;
        assert_replay(&again, &first);
        // Another server, and after the run has ended.
        let second = Server::with_models(&db, 1_024, model.models()).await;
        let _runner = server.drive();
        client.ended(first.is(202)["runId"].as_str().unwrap()).await;
        assert_replay(&post_once(&second.admin(), &path, "order 1", json!({ "input": "go" })).await, &first);
        assert_eq!(count(&client, "/api/admin/runs").await, 1);
        // Without a key, each request starts a run.
        client.trigger(&agent, "go").await;
        client.trigger(&agent, "go").await;
        assert_eq!(count(&client, "/api/admin/runs").await, 3);
    }

    async fn the_same_json_written_differently_is_the_same_request(db: TestDb) {
        let server = Server::with_models(&db, 1_024, ScriptedModel::new([says("Done.")]).models()).await;
        let client = server.admin();
        let agent = client.agent("a", json!({})).await;
        let path = format!("/api/admin/agents/{agent}/trigger");
        let send = async |body: &'static str| {
            let request = client.request(Method::POST, &path).header(header::CONTENT_TYPE, "application/json");
            client.send(request.header("idempotency-key", "k").body(Body::from(body)).unwrap()).await
        };
        let first = send(r#"{"input":"go","maxSteps":3}"#).await;
        first.is(202);
        assert_replay(&send("{ \"maxSteps\": 3,\n  \"input\": \"g\\u006f\" }").await, &first);
        send(r#"{"input":"go","maxSteps":4}"#).await.refused(409, "idempotency_key_reused");
        assert_eq!(count(&client, "/api/admin/runs").await, 1);
    }

    async fn many_runs_are_resumed_once(db: TestDb) {
        let model = ScriptedModel::default();
        model.add("a", (0..2).flat_map(|_| [calls("project_info", json!({})), says("Half done.")]));
        let server = Server::with_models(&db, 1_024, model.models()).await;
        let runner = server.drive();
        let client = server.admin();
        let agent = client.agent("a", json!({ "tools": ["project_info"], "maxSteps": 1 })).await;
        for _ in 0..2 {
            let run = client.trigger(&agent, "go").await;
            assert_eq!(client.ended(&run).await["status"], "paused");
        }
        drop(runner);
        let body = json!({ "action": "resume", "filter": { "agent": "a", "status": "paused" } });
        let first = post_once(&client, "/api/admin/runs/bulk", "k", body.clone()).await;
        let resumed = first.is(200)["runs"].clone();
        assert_eq!(resumed.as_array().unwrap().iter().filter(|run| run["outcome"] == "resumed").count(), 2, "{resumed}");
        assert_eq!(count(&client, "/api/admin/runs").await, 4);
        assert_replay(&post_once(&client, "/api/admin/runs/bulk", "k", body.clone()).await, &first);
        let other = json!({ "action": "cancel", "filter": { "agent": "a" } });
        post_once(&client, "/api/admin/runs/bulk", "k", other).await.refused(409, "idempotency_key_reused");

        // A server that died before it had changed all runs: the same request goes on with these, and with no others.
        let ids: Vec<&str> = resumed.as_array().unwrap().iter().map(|run| run["runId"].as_str().unwrap()).collect();
        let undone: &'static str =
            format!("UPDATE idempotency_keys SET status = NULL, body = '{}'", ids.join(" ")).leak();
        assert_eq!(execute(&server, undone).await, 1);
        let again = post_once(&client, "/api/admin/runs/bulk", "k", body.clone()).await;
        assert_eq!(again.is(200)["runs"].as_array().unwrap().len(), 2);
        for (before, after) in resumed.as_array().unwrap().iter().zip(again.is(200)["runs"].as_array().unwrap()) {
            assert_eq!((&before["runId"], &before["outcome"], &before["newRunId"]), (&after["runId"], &after["outcome"], &after["newRunId"]));
        }
        assert_eq!(count(&client, "/api/admin/runs").await, 4, "nothing is resumed twice");
        let kept = post_once(&client, "/api/admin/runs/bulk", "k", body).await;
        assert_eq!(kept.text, again.text);
    }

    async fn a_key_belongs_to_one_request_of_one_token_in_one_project(db: TestDb) {
        let server = Server::with_models(&db, 1_024, ScriptedModel::new([says("Done.")]).models()).await;
        let client = server.admin();
        let agent = client.agent("a", json!({})).await;
        let path = format!("/api/admin/agents/{agent}/trigger");
        let first = post_once(&client, &path, "k", json!({ "input": "go" })).await;
        first.is(202);
        post_once(&client, &path, "k", json!({ "input": "stop" })).await.refused(409, "idempotency_key_reused");
        let dispatch = json!({ "tasks": [{ "key": "one", "title": "One" }] });
        post_once(&client, "/api/coordination/dispatch", "k", dispatch).await.refused(409, "idempotency_key_reused");
        assert_eq!(count(&client, "/api/admin/runs").await, 1);
        assert_eq!(count(&client, "/api/coordination/workflows").await, 0);

        let other_token = server.client(Some(&server.token(Scope::ALL, None).await));
        let other = post_once(&other_token, &path, "k", json!({ "input": "go" })).await;
        assert_ne!(other.is(202)["runId"], first.is(202)["runId"]);
        server.project("shop").await;
        let in_shop = client.in_project("shop");
        let shop_agent = in_shop.agent("a", json!({})).await;
        post_once(&in_shop, &format!("/api/admin/agents/{shop_agent}/trigger"), "k", json!({ "input": "go" })).await.is(202);
    }

    async fn a_key_is_printable_and_short(db: TestDb) {
        let server = Server::with_models(&db, 1_024, ScriptedModel::new([says("Done.")]).models()).await;
        let client = server.admin();
        let agent = client.agent("a", json!({})).await;
        let path = format!("/api/admin/agents/{agent}/trigger");
        for wrong in ["", "tab\there", "é", &"x".repeat(256)] {
            let answer = post_once(&client, &path, wrong, json!({ "input": "go" })).await;
            answer.refused(400, "invalid");
            assert_eq!(answer.field(), "Idempotency-Key", "{wrong}");
        }
        assert_eq!(count(&client, "/api/admin/runs").await, 0);
        post_once(&client, &path, &"x".repeat(255), json!({ "input": "go" })).await.is(202);
    }

    async fn a_refused_request_stores_no_key(db: TestDb) {
        let server = Server::with_models(&db, 1_024, ScriptedModel::new([says("Done.")]).models()).await;
        let client = server.admin();
        let agent = client.agent("a", json!({})).await;
        let path = format!("/api/admin/agents/{agent}/trigger");
        for invalid in [json!({ "input": "" }), json!({ "input": "go", "maxSteps": 0 }), json!({})] {
            post_once(&client, &path, "k", invalid).await.refused(400, "invalid");
        }
        post_once(&client, "/api/admin/agents/01890000-0000-7000-8000-000000000000/trigger", "k", json!({ "input": "go" })).await.refused(404, "not_found");
        let reader = server.client(Some(&server.token(&[Scope::AgentsRead], None).await));
        post_once(&reader, &path, "k", json!({ "input": "go" })).await.refused(403, "missing_scope");
        let dry = json!({ "tasks": [{ "key": "one", "title": "One" }], "dryRun": true });
        post_once(&client, "/api/coordination/dispatch", "k", dry).await;
        assert_eq!(execute(&server, "DELETE FROM idempotency_keys").await, 0);
        post_once(&client, &path, "k", json!({ "input": "go" })).await.is(202);
    }

    async fn resumptions_and_workflows_are_started_once(db: TestDb) {
        // An agent without lines fails.
        let model = ScriptedModel::default().agent("steps", [calls("project_info", json!({})), says("Half done."), says("All done.")]);
        let server = Server::with_models(&db, 1_024, model.models()).await;
        let driver = server.dispatch();
        let client = server.admin();
        let steps = client.agent("steps", json!({ "tools": ["project_info"], "maxSteps": 1 })).await;
        let paused = client.run_to_end(&steps, "go").await;
        let path = format!("/api/admin/agents/{steps}/runs/{}/resume", paused["id"].as_str().unwrap());
        let first = post_once(&client, &path, "r", json!({})).await;
        first.is(202);
        assert_replay(&post_once(&client, &path, "r", json!({})).await, &first);
        post_once(&client, &path, "other", json!({})).await.refused(409, "conflict");

        client.agent("broken", json!({})).await;
        let task = json!({ "key": "one", "title": "One", "description": "d", "assignedAgent": "broken", "maxRetries": 0 });
        let work = json!({ "tasks": [task], "onFailure": "skip" });
        let first = post_once(&client, "/api/coordination/dispatch", "w", work.clone()).await;
        let workflow = first.is(202)["workflowId"].as_str().unwrap().to_owned();
        assert_replay(&post_once(&client, "/api/coordination/dispatch", "w", work).await, &first);
        assert_eq!(count(&client, "/api/coordination/workflows").await, 1);
        let path = format!("/api/coordination/workflows/{workflow}");
        for _ in 0..1_000 {
            if client.get(&path).await.is(200)["status"] == "failed" { break }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        driver.send(true).unwrap();
        let first = post_once(&client, &format!("{path}/resume"), "x", json!({ "note": "again" })).await;
        first.is(202);
        assert_replay(&post_once(&client, &format!("{path}/resume"), "x", json!({ "note": "again" })).await, &first);
    }

    async fn while_the_first_request_is_in_progress_the_second_is_told_to_come_back(db: TestDb) {
        let server = Server::with_models(&db, 1_024, ScriptedModel::new([says("Done.")]).models()).await;
        let client = server.admin();
        let agent = client.agent("a", json!({})).await;
        let path = format!("/api/admin/agents/{agent}/trigger");
        let release = hold_project(&server, server.default_project).await;
        let one = Box::pin(post_once(&client, &path, "k", json!({ "input": "go" })));
        let two = Box::pin(post_once(&client, &path, "k", json!({ "input": "go" })));
        let (refused, waiting) = match select(one, two).await {
            Either::Left((refused, waiting)) | Either::Right((refused, waiting)) => (refused, waiting),
        };
        refused.refused(409, "idempotency_key_in_progress");
        assert_eq!(refused.headers[header::RETRY_AFTER], "1");
        drop(release);
        let first = waiting.await;
        first.is(202);
        assert_replay(&post_once(&client, &path, "k", json!({ "input": "go" })).await, &first);
    }

    async fn servers_that_get_the_same_request_at_once_start_one_run(db: TestDb) {
        let model = ScriptedModel::new([says("Done.")]);
        let first = Server::with_models(&db, 1_024, model.models()).await;
        let agent = first.admin().agent("a", json!({})).await;
        let path = format!("/api/admin/agents/{agent}/trigger");
        let mut servers = vec![first];
        for _ in 0..5 {
            servers.push(Server::with_models(&db, 1_024, model.models()).await);
        }
        for round in 0..5 {
            let key = format!("round {round}");
            let clients: Vec<Client> = servers.iter().map(Server::admin).collect();
            let answers = join_all(clients.iter().map(|client| post_once(client, &path, &key, json!({ "input": "go" })))).await;
            let run = answers[0].is(202)["runId"].clone();
            assert!(answers.iter().all(|answer| answer.is(202)["runId"] == run), "{run}");
            assert_eq!(answers.iter().filter(|answer| !answer.headers.contains_key("idempotency-replayed")).count(), 1);
            assert_eq!(count(&clients[0], "/api/admin/runs").await, round + 1);
        }
    }

    async fn an_answer_is_kept_for_a_day_and_then_deleted(db: TestDb) {
        let server = Server::with_models(&db, 1_024, ScriptedModel::new([says("Done.")]).models()).await;
        let client = server.admin();
        let agent = client.agent("a", json!({})).await;
        let path = format!("/api/admin/agents/{agent}/trigger");
        let first = post_once(&client, &path, "k", json!({ "input": "go" })).await;
        server.graph.delete_expired(CleanupSettings::default()).await.unwrap();
        assert_replay(&post_once(&client, &path, "k", json!({ "input": "go" })).await, &first);
        assert_eq!(execute(&server, "UPDATE idempotency_keys SET expires_at = created_at").await, 1);
        let second = post_once(&client, &path, "k", json!({ "input": "go" })).await;
        assert_ne!(second.is(202)["runId"], first.is(202)["runId"]);
        execute(&server, "UPDATE idempotency_keys SET expires_at = created_at").await;
        server.graph.delete_expired(CleanupSettings::default()).await.unwrap();
        assert_eq!(execute(&server, "DELETE FROM idempotency_keys").await, 0);
    }
}

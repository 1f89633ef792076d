//! Runs over HTTP: they are started, followed, listed, read in detail, cancelled, resumed and reverted.

use crate::common;

use std::time::Duration;

use axum::{
    body::{Body, BodyDataStream},
    http::Method,
};
use common::{Client, Server};
use emergent_domain::token::Scope;
use emergent_testkit::{
    TestDb, both_engines,
    scripted::{ScriptedModel, calls, says},
};
use futures_util::StreamExt;
use serde_json::{Value, json};
use tokio::sync::watch;

async fn server(db: &TestDb, model: &ScriptedModel) -> (Server, watch::Sender<bool>) {
    let server = Server::with_models(db, 1_024, model.models()).await;
    let runner = server.drive();
    (server, runner)
}

#[track_caller]
fn has(value: &Value, fields: &str) {
    for field in fields.split_whitespace() {
        assert!(value.get(field).is_some(), "`{field}` in {value:#}");
    }
}

/// Returns all events of a run, each with the `id:` of its frame.
async fn events(client: &Client, path: &str, last_seen: Option<&str>) -> Vec<(Option<String>, Value)> {
    let mut request = client.request(Method::GET, path);
    if let Some(seen) = last_seen {
        request = request.header("last-event-id", seen);
    }
    let response = client.open(request.body(Body::empty()).unwrap()).await;
    assert_eq!(response.headers()["content-type"], "text/event-stream");
    read(response.into_body().into_data_stream()).await
}

async fn read(mut stream: BodyDataStream) -> Vec<(Option<String>, Value)> {
    let mut text = String::new();
    let all = async {
        while let Some(part) = stream.next().await {
            text.push_str(std::str::from_utf8(&part.unwrap()).unwrap());
        }
    };
    tokio::time::timeout(Duration::from_secs(20), all).await.expect("the stream ends with the run");
    text.split("\n\n")
        .filter_map(|frame| {
            let line = |name: &str| frame.lines().find_map(|line| line.strip_prefix(name)).map(str::to_owned);
            let mut event: Value = serde_json::from_str(&line("data: ")?).unwrap();
            // The time of a live event may differ slightly from the recorded one.
            assert!(event.as_object_mut().unwrap().remove("at").is_some_and(|at| at.is_string()), "{event}");
            Some((line("id: "), event))
        })
        .collect()
}

fn types(events: &[(Option<String>, Value)]) -> Vec<&str> {
    events.iter().map(|(_, event)| event["type"].as_str().unwrap()).collect()
}

both_engines! {
    async fn a_run_is_told_to_the_last_detail(db: TestDb) {
        let model = ScriptedModel::new([
            says("Let me look.").and(calls("entities_create", json!({ "type": "Note", "key": "n", "properties": { "title": "Found" } }))),
            says("I wrote a note."),
        ]);
        let (server, _runner) = server(&db, &model).await;
        let client = server.admin();
        let agent = client.agent("writer", json!({ "tools": ["entities_create"], "systemPrompt": "You write.", "maxSteps": 9 })).await;
        let detail = client.run_to_end(&agent, "write a note").await;
        let run = detail["id"].as_str().unwrap();
        let path = format!("/api/admin/agents/{agent}/runs/{run}");

        has(&detail, "id agentId agentName parentRunId status stepCount maxSteps startedAt completedAt durationMs summary errorMessage \
            resumedFrom resumeChain tokenUsage toolCallSummary childRuns doomLoopEvents reason origin model depth createdAt");
        assert_eq!((&detail["status"], &detail["summary"], &detail["errorMessage"]), (&json!("completed"), &json!({ "text": "I wrote a note." }), &Value::Null), "{detail:#}");
        assert_eq!((&detail["stepCount"], &detail["maxSteps"], &detail["doomLoopEvents"], &detail["resumeChain"]), (&json!(2), &json!(9), &json!(0), &json!([])));
        assert_eq!((&detail["origin"], &detail["model"], &detail["depth"], detail.get("rehearsal")), (&json!("trigger"), &json!("scripted/lines"), &json!(0), None));
        let usage = &detail["tokenUsage"];
        has(usage, "totalInput totalOutput totalReasoning cacheRead cacheWrite totalCost");
        assert_eq!((&usage["totalInput"], &usage["totalOutput"], &usage["totalReasoning"], &usage["cacheRead"], &usage["cacheWrite"]), (&json!(200), &json!(20), &json!(4), &json!(80), &json!(10)));
        assert_eq!((&detail["toolCallSummary"]["total"], &detail["toolCallSummary"]["errors"], &detail["toolCallSummary"]["byTool"]["entities_create"]["count"]), (&json!(1), &json!(0), &json!(1)));
        assert!(detail["toolCallSummary"]["byTool"]["entities_create"]["avgDurationMs"].is_i64());
        assert_eq!(client.get(&path).await.is(200), &detail);

        let listed = client.get(&format!("/api/admin/agents/{agent}/runs")).await.is(200)[0].clone();
        has(&listed, "id agentId parentRunId status stepCount maxSteps startedAt completedAt durationMs summary errorMessage resumedFrom tokenUsage childRunCount");
        assert_eq!((&listed["tokenUsage"]["totalInput"], &listed["childRunCount"]), (&json!(200), &json!(0)));
        assert_eq!(listed["tokenUsage"].as_object().unwrap().len(), 3);

        let messages = client.get(&format!("{path}/messages")).await.is(200).clone();
        let roles: Vec<_> = messages.as_array().unwrap().iter().map(|one| one["role"].as_str().unwrap()).collect();
        assert_eq!(roles, ["system", "user", "assistant", "tool_result", "assistant"]);
        for message in messages.as_array().unwrap() {
            has(message, "id runId role content stepNumber tokens createdAt");
        }
        assert_eq!((&messages[0]["content"], &messages[0]["stepNumber"], &messages[0]["tokens"]), (&json!({ "text": "You write." }), &json!(0), &Value::Null));
        assert_eq!((&messages[1]["content"], &messages[1]["stepNumber"]), (&json!({ "text": "write a note" }), &json!(1)));
        let call = messages[2]["content"]["toolCalls"][0].clone();
        assert_eq!((&messages[2]["content"]["text"], &call["toolName"], &call["status"]), (&json!("Let me look."), &json!("entities_create"), &json!("completed")));
        has(&messages[2]["tokens"], "input output reasoning");
        assert_eq!((&messages[3]["content"]["toolCallId"], &messages[3]["content"]["toolName"]), (&call["id"], &json!("entities_create")));
        assert!(messages[3]["content"]["output"].is_object(), "{messages:#}");

        let whole = client.get(&format!("{path}/tool-calls/{}", call["id"].as_str().unwrap())).await.is(200).clone();
        has(&whole, "id runId messageId toolName input output status durationMs stepNumber createdAt");
        assert_eq!((&whole["messageId"], &whole["input"]["key"], &whole["status"], &whole["stepNumber"]), (&messages[2]["id"], &json!("n"), &json!("completed"), &json!(1)));
        assert_eq!(client.get(&format!("{path}/tool-calls?tool_name=entities_create&status=completed")).await.is(200), &json!([whole]));
        assert_eq!(client.get(&format!("{path}/tool-calls?tool_name=create_entity")).await.is(200), &json!([whole]), "an alias");
        assert_eq!(client.get(&format!("{path}/tool-calls?status=error")).await.is(200), &json!([]));
        let tree = client.get(&format!("{path}/tree")).await.is(200).clone();
        has(&tree, "id agentName status stepCount durationMs children");

        // The note names its author, and reverting the run deletes it.
        let note = client.get("/api/graph/objects?type=Note").await.is(200)[0].clone();
        assert_eq!((&note["author"]["runId"], &note["author"]["toolCallId"]), (&json!(run), &call["id"]));
        let undone = client.post(&format!("{path}/revert"), json!({})).await.is(200).clone();
        assert_eq!((&undone["undone"][0]["kind"], &undone["undone"][0]["how"], &undone["undone"][0]["id"], &undone["conflicts"]), (&json!("object"), &json!("deleted"), &note["id"], &json!([])));
        assert_eq!(client.get("/api/graph/objects?type=Note").await.is(200), &json!([]));
        // The log tells of it; reverting again does nothing, and is not told.
        client.post(&format!("{path}/revert"), json!({})).await.is(200);
        let log = client.get("/api/admin/audit?action=run.revert").await.is(200).clone();
        assert_eq!(log.as_array().unwrap().len(), 1, "{log}");
        assert_eq!((&log[0]["target"]["id"], &log[0]["details"]["undone"]), (&json!(run), &json!(1)));
    }

    async fn lists_go_on_page_by_page_and_filter(db: TestDb) {
        let model = ScriptedModel::new((0..3).flat_map(|_| [calls("project_info", json!({})), says("ok")]));
        let (server, _runner) = server(&db, &model).await;
        let client = server.admin();
        let (agent, other) = (client.agent("a", json!({ "tools": ["project_info"] })).await, client.agent("b", json!({ "tools": ["project_info"] })).await);
        let mut ids = Vec::new();
        for agent in [&agent, &agent, &other] {
            ids.push(client.run_to_end(agent, "go").await["id"].clone());
        }
        ids.reverse();
        let all = client.get("/api/admin/runs").await.is(200).clone();
        assert_eq!(all.as_array().unwrap().iter().map(|run| run["id"].clone()).collect::<Vec<_>>(), ids);
        let first = client.get("/api/admin/runs?limit=2&status=success").await;
        assert_eq!(first.is(200).as_array().unwrap().len(), 2);
        let cursor = first.headers["x-next-cursor"].to_str().unwrap();
        let rest = client.get(&format!("/api/admin/runs?limit=2&status=completed&cursor={cursor}")).await;
        assert_eq!(rest.is(200)[0]["id"], ids[2]);
        assert_eq!(client.get("/api/admin/runs?status=failed").await.is(200), &json!([]));
        let runs = format!("/api/admin/agents/{agent}/runs");
        assert_eq!(client.get(&runs).await.is(200).as_array().unwrap().len(), 2);

        let run = format!("{runs}/{}", ids[2].as_str().unwrap());
        let (mut roles, mut path) = (Vec::new(), format!("{run}/messages?limit=2"));
        loop {
            let page = client.get(&path).await;
            roles.extend(page.is(200).as_array().unwrap().iter().map(|one| one["role"].as_str().unwrap().to_owned()));
            let Some(cursor) = page.headers.get("x-next-cursor") else { break };
            path = format!("{run}/messages?limit=2&cursor={}", cursor.to_str().unwrap());
        }
        assert_eq!(roles, ["system", "user", "assistant", "tool_result", "assistant"]);
        let count = async |query: &str| client.get(&format!("{run}/messages?{query}")).await.is(200).as_array().unwrap().len();
        assert_eq!((count("role=tool_result").await, count("role=assistant&step=2").await, count("step=1").await), (1, 1, 3));

        // A run is found only under its own agent.
        let astray = format!("/api/admin/agents/{other}/runs/{}", ids[2].as_str().unwrap());
        for rest in ["", "/messages", "/tool-calls", "/tree", "/events"] {
            client.get(&format!("{astray}{rest}")).await.refused(404, "not_found");
        }
        for action in ["cancel", "resume", "revert"] {
            client.post(&format!("{astray}/{action}"), json!({})).await.refused(404, "not_found");
        }
    }

    async fn a_follower_hears_everything_live_and_again_from_where_it_was(db: TestDb) {
        let pause = Duration::from_millis(300);
        let model = ScriptedModel::new([calls("project_info", json!({})).with_delay(pause), says("It is all here.").with_delay(pause)]);
        let (server, _runner) = server(&db, &model).await;
        let client = server.admin();
        let agent = client.agent("a", json!({ "tools": ["project_info"] })).await;
        let run = client.trigger(&agent, "go").await;
        let path = format!("/api/admin/agents/{agent}/runs/{run}/events");
        let live = events(&client, &path, None).await;
        let told = types(&live);
        assert_eq!(told.iter().filter(|one| **one == "text_delta").count(), 4, "{told:?}");
        let durable: Vec<_> = live.iter().filter(|(id, _)| id.is_some()).cloned().collect();
        assert_eq!(types(&durable), ["message", "message", "run_started", "message", "tool_started", "tool_completed", "message", "run_ended"]);
        for (id, event) in &live {
            assert_eq!(id.as_deref(), event["seq"].as_i64().map(|seq| seq.to_string()).as_deref(), "{event}");
            has(event, "type runId");
        }
        let end = &live.last().unwrap().1;
        assert_eq!((&end["status"], &end["summary"], &end["reason"], &end["errorMessage"]), (&json!("completed"), &json!({ "text": "It is all here." }), &Value::Null, &Value::Null));
        let started = &durable[4].1["toolCall"];
        assert_eq!((&started["status"], &started["output"]), (&json!("running"), &Value::Null));
        assert_eq!(durable[5].1["toolCall"]["status"], "completed");

        // After the end, the same events are available, and a client that reconnects gets the rest of them.
        assert_eq!(events(&client, &path, None).await, durable);
        let seen = durable[4].0.as_deref().unwrap();
        assert_eq!(events(&client, &path, Some(seen)).await, durable[5..]);
        assert_eq!(events(&client, &format!("{path}?after={seen}"), None).await, durable[5..]);
        assert_eq!(events(&client, &format!("{path}?after=0"), Some(seen)).await, durable[5..], "the header goes first");
        let last = durable.last().unwrap().0.as_deref().unwrap();
        assert_eq!(events(&client, &path, Some(last)).await, []);
    }

    async fn a_run_is_cancelled_once_and_a_paused_one_is_resumed(db: TestDb) {
        let model = ScriptedModel::new([says("never heard").with_delay(Duration::from_secs(60))])
            .agent("steps", [calls("project_info", json!({})), says("Half done."), says("All done.")]);
        let (server, _runner) = server(&db, &model).await;
        let client = server.admin();
        let slow = client.agent("slow", json!({})).await;
        let run = client.trigger(&slow, "go").await;
        let path = format!("/api/admin/agents/{slow}/runs/{run}");
        let waiting = tokio::spawn({
            let (client, path) = (client.clone(), format!("{path}/events"));
            async move { events(&client, &path, None).await }
        });
        while client.get(&path).await.is(200)["status"] != "running" {}
        client.post(&format!("{path}/resume"), json!({})).await.refused(409, "conflict");
        client.post(&format!("{path}/revert"), json!({})).await.refused(409, "conflict");
        assert_eq!(client.post(&format!("{path}/cancel"), json!({})).await.is(200), &json!({ "runId": run, "status": "cancelled" }));
        client.post(&format!("{path}/cancel"), json!({})).await.refused(409, "conflict");
        let heard = waiting.await.unwrap();
        assert_eq!(heard.last().unwrap().1["status"], "cancelled");

        let steps = client.agent("steps", json!({ "tools": ["project_info"], "maxSteps": 1 })).await;
        let paused = client.run_to_end(&steps, "go").await;
        assert_eq!((&paused["status"], &paused["reason"], &paused["summary"]["text"]), (&json!("paused"), &json!("step_limit"), &json!("Half done.")));
        let path = format!("/api/admin/agents/{steps}/runs/{}", paused["id"].as_str().unwrap());
        // A missing body equals an empty one.
        let request = client.request(Method::POST, &format!("{path}/resume")).body(Body::empty()).unwrap();
        let answer = client.send(request).await;
        let resumed = client.ended(answer.is(202)["runId"].as_str().unwrap()).await;
        assert_eq!((&resumed["status"], &resumed["resumedFrom"], &resumed["resumeChain"]), (&json!("completed"), &paused["id"], &json!([paused["id"]])), "{resumed:#}");
        assert_eq!((&resumed["origin"], &resumed["summary"]["text"]), (&json!("resume"), &json!("All done.")));
        assert!(resumed["stepCount"].as_i64() > paused["stepCount"].as_i64());
        assert_eq!(client.get(&path).await.is(200)["resumedAs"], resumed["id"]);
        assert_eq!(client.get(&format!("{path}/tree")).await.is(200)["resumedAs"], resumed["id"]);
        client.post(&format!("{path}/resume"), json!({ "input": "again" })).await.refused(409, "conflict");
    }

    async fn what_a_run_spawns_hangs_below_it(db: TestDb) {
        let model = ScriptedModel::default()
            .agent("lead", [calls("spawn_agents", json!({ "tasks": [{ "agent_name": "one", "task": "a" }, { "agent_name": "two", "task": "b" }] })), says("Both did.")])
            .agent("one", [says("one did")])
            .agent("two", [says("two did")]);
        let (server, _runner) = server(&db, &model).await;
        let client = server.admin();
        let lead = client.agent("lead", json!({ "tools": ["spawn_agents"] })).await;
        client.agent("one", json!({ "visibility": "internal" })).await;
        client.agent("two", json!({})).await;
        let run = client.run_to_end(&lead, "go").await;
        assert_eq!(run["status"], "completed", "{run:#}");
        let children = run["childRuns"].as_array().unwrap();
        assert_eq!(children.iter().map(|child| child["agentName"].as_str().unwrap()).collect::<Vec<_>>(), ["one", "two"]);
        has(&children[0], "id agentName status stepCount durationMs");
        let id = run["id"].as_str().unwrap();
        let tree = client.get(&format!("/api/admin/agents/{lead}/runs/{id}/tree")).await.is(200).clone();
        assert_eq!((&tree["children"][0]["agentName"], &tree["children"][1]["status"], &tree["children"][0]["children"]), (&json!("one"), &json!("completed"), &json!([])));
        let below = client.get(&format!("/api/admin/runs?parent_run_id={id}")).await.is(200).clone();
        assert_eq!(below.as_array().unwrap().len(), 2);
        assert!(below.as_array().unwrap().iter().all(|child| child["parentRunId"] == id && child["depth"] == 1));
        let listed = client.get(&format!("/api/admin/agents/{lead}/runs")).await.is(200)[0].clone();
        assert_eq!(listed["childRunCount"], 2);
    }

    async fn a_rehearsed_run_says_so(db: TestDb) {
        let (server, _runner) = server(&db, &ScriptedModel::default()).await;
        let client = server.admin();
        let agent = client.agent("a", json!({ "model": { "provider": "rehearsal", "name": "echo" } })).await;
        let run = client.run_to_end(&agent, "hello").await;
        assert_eq!((&run["status"], &run["rehearsal"], &run["model"]), (&json!("completed"), &json!(true), &json!("rehearsal/echo")), "{run:#}");
    }

    async fn history_needs_its_own_scope(db: TestDb) {
        let (server, _runner) = server(&db, &ScriptedModel::new([says("ok")])).await;
        let agent = server.admin().agent("a", json!({})).await;
        let starter = server.client(Some(&server.token(&[Scope::AgentsInvoke], None).await));
        let run = starter.trigger(&agent, "go").await;
        server.admin().ended(&run).await;
        starter.get("/api/admin/runs").await.refused(403, "missing_scope");
        starter.post(&format!("/api/admin/agents/{agent}/runs/{run}/revert"), json!({})).await.refused(403, "missing_scope");
        let reader = server.client(Some(&server.token(&[Scope::AdminRead], None).await));
        reader.get(&format!("/api/admin/agents/{agent}/runs/{run}")).await.is(200);
    }
}

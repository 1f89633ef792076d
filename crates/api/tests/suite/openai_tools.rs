//! Tools of callers on `/v1/chat/completions`: the answer has the calls, and the results go on with the same run.

use crate::common::{Answer, Client, Server, serve};

use std::time::Duration;

use axum::{
    body::Body,
    http::{Method, Request, header},
};
use emergent_domain::token::Scope;
use emergent_testkit::{
    TestDb, both_engines,
    scripted::{ScriptedModel, ScriptedReply, calls, says},
};
use serde_json::{Value, json};
use tokio::sync::watch;

const PATH: &str = "/v1/chat/completions";

struct Setup {
    server: Server,
    admin: Client,
    caller: Client,
    model: ScriptedModel,
    _runner: watch::Sender<bool>,
}

/// A server with the external agent `finder`, whose model says these lines.
async fn setup(db: &TestDb, lines: impl IntoIterator<Item = ScriptedReply>) -> Setup {
    let model = ScriptedModel::default();
    model.add("finder", lines);
    let (server, admin, caller, runner) = serve(db, &model).await;
    admin.agent("finder", json!({ "visibility": "external", "tools": ["project_info"] })).await;
    Setup { server, admin, caller, model, _runner: runner }
}

fn weather_tool() -> Value {
    json!({ "type": "function", "function": { "name": "get_weather", "description": "Tells the weather.",
        "parameters": { "type": "object", "properties": { "city": { "type": "string" } } } } })
}

fn asks(city: &str) -> ScriptedReply {
    calls("get_weather", json!({ "city": city }))
}

fn body(messages: &[Value]) -> Value {
    json!({ "model": "finder", "messages": messages, "tools": [weather_tool()], "tool_choice": "auto" })
}

fn question() -> Vec<Value> {
    vec![json!({ "role": "user", "content": "What is the weather?" })]
}

fn streamed(mut body: Value) -> Value {
    (body["stream"], body["stream_options"]) = (json!(true), json!({ "include_usage": true }));
    body
}

/// The calls of a whole answer.
#[track_caller]
fn tool_calls(answer: &Answer) -> Vec<Value> {
    assert_eq!(answer.status, 200, "{}", answer.text);
    let choice = &answer.body["choices"][0];
    assert_eq!(choice["finish_reason"], "tool_calls", "{}", answer.text);
    choice["message"]["tool_calls"].as_array().unwrap().clone()
}

#[track_caller]
fn content(answer: &Answer) -> &Value {
    assert_eq!(answer.status, 200, "{}", answer.text);
    &answer.body["choices"][0]["message"]["content"]
}

/// The conversation with the calls of an answer and a result for each.
fn with_results(mut messages: Vec<Value>, calls: &[Value], results: &[&str]) -> Vec<Value> {
    messages.push(json!({ "role": "assistant", "content": null, "tool_calls": calls }));
    for (call, result) in calls.iter().zip(results) {
        messages.push(json!({ "role": "tool", "tool_call_id": call["id"], "content": result }));
    }
    messages
}

fn chunks(answer: &Answer) -> Vec<Value> {
    assert_eq!(answer.status, 200, "{}", answer.text);
    let frames = answer.text.lines().filter_map(|line| line.strip_prefix("data: "));
    let mut frames: Vec<&str> = frames.collect();
    assert_eq!(frames.pop(), Some("[DONE]"), "{}", answer.text);
    frames.into_iter().map(|frame| serde_json::from_str(frame).unwrap()).collect()
}

fn keyed(client: &Client, key: &str, body: &Value) -> Request<Body> {
    let request = client.request(Method::POST, PATH).header(header::CONTENT_TYPE, "application/json");
    request.header("idempotency-key", key).body(Body::from(body.to_string())).unwrap()
}

async fn runs(admin: &Client) -> Vec<Value> {
    admin.get("/api/admin/runs").await.is(200).as_array().unwrap().clone()
}

both_engines! {
    async fn the_results_of_a_callers_tool_go_on_with_the_same_run(db: TestDb) {
        let lines = [says("Let me see.").and(asks("Oslo")).and(calls("project_info", json!({}))).and(asks("Rome")), says("Sunny.")];
        let Setup { server: _server, admin, caller, model, _runner, .. } = setup(&db, lines).await;
        let first = caller.post(PATH, body(&question())).await;
        let calls = tool_calls(&first);
        assert_eq!(content(&first), "Let me see.");
        let functions: Vec<&Value> = calls.iter().map(|call| &call["function"]).collect();
        assert_eq!(functions[0], &json!({ "name": "get_weather", "arguments": "{\"city\":\"Oslo\"}" }));
        assert_eq!((calls.len(), &functions[1]["arguments"]), (2, &json!("{\"city\":\"Rome\"}")));
        assert_eq!(model.requests_of("finder")[0].tools, ["project_info", "get_weather"]);
        let run = runs(&admin).await.remove(0);
        assert_eq!((&run["status"], &run["waitingFor"]), (&json!("waiting"), &json!("client_tool")));
        assert_eq!(admin.get("/api/approvals?status=pending").await.is(200), &json!([]), "no person is asked");
        let listed = admin.get("/api/approvals?status=pending&kind=client_tool").await;
        assert_eq!(listed.is(200).as_array().unwrap().len(), 2);

        let partial = with_results(question(), &calls, &["sun"]);
        let refused = caller.post(PATH, body(&partial)).await;
        let error = refused.refused(400, "invalid");
        assert_eq!(error["param"], "messages", "{}", refused.text);
        assert!(error["message"].as_str().unwrap().contains(calls[1]["id"].as_str().unwrap()), "{}", refused.text);

        let messages = with_results(question(), &calls, &["sun", "rain"]);
        let answer = caller.post(PATH, body(&messages)).await;
        assert_eq!((content(&answer), &answer.body["choices"][0]["finish_reason"]), (&json!("Sunny."), &json!("stop")));
        assert_eq!(answer.body["usage"]["total_tokens"], 110, "of this answer only");
        let seen = model.requests_of("finder")[1].last_text();
        assert!(seen.contains("sun") && seen.contains("rain"), "{seen}");

        // The same results again are the same answer, streamed as well.
        let again = caller.post(PATH, body(&messages)).await;
        assert_eq!(again.body, answer.body);
        let chunks = chunks(&caller.post(PATH, streamed(body(&messages))).await);
        let text: String = chunks.iter().filter_map(|chunk| chunk["choices"][0]["delta"]["content"].as_str()).collect();
        assert_eq!((text.as_str(), &chunks[0]["id"]), ("Sunny.", &answer.body["id"]));
        assert_eq!((runs(&admin).await.len(), model.requests_of("finder").len()), (1, 2));
    }

    async fn a_stream_ends_with_the_calls_and_the_next_one_goes_on(db: TestDb) {
        let Setup { server: _server, admin, caller, _runner, .. } = setup(&db, [asks("Oslo"), asks("Rome"), says("Both sunny.")]).await;
        let mut messages = question();
        for city in ["Oslo", "Rome"] {
            let chunks = chunks(&caller.post(PATH, streamed(body(&messages))).await);
            let [.., call, end, usage] = &chunks[..] else { panic!("{chunks:?}") };
            let call = call["choices"][0]["delta"]["tool_calls"][0].clone();
            assert_eq!((&call["index"], &call["function"]["arguments"]), (&json!(0), &json!(format!("{{\"city\":\"{city}\"}}"))));
            assert_eq!((&end["choices"][0]["finish_reason"], &usage["usage"]["total_tokens"]), (&json!("tool_calls"), &json!(110)));
            assert!(chunks.iter().all(|chunk| chunk["choices"][0]["delta"].get("reasoning_content").is_none()), "{chunks:?}");
            messages = with_results(messages, &[call], &["sun"]);
        }
        let last = chunks(&caller.post(PATH, streamed(body(&messages))).await);
        let text: String = last.iter().filter_map(|chunk| chunk["choices"][0]["delta"]["content"].as_str()).collect();
        assert_eq!((text.as_str(), runs(&admin).await.len()), ("Both sunny.", 1));
        // The next question is a run of its own, with the tools in its history.
        messages.push(json!({ "role": "assistant", "content": text }));
        messages.push(json!({ "role": "user", "content": "Thanks." }));
        caller.post(PATH, body(&messages)).await;
        assert_eq!(runs(&admin).await.len(), 2);
    }

    async fn a_repeated_request_with_its_key_gets_the_same_part_of_the_run(db: TestDb) {
        let Setup { server: _server, admin, caller, _runner, .. } = setup(&db, [asks("Oslo"), asks("Rome"), says("Done.")]).await;
        let first_body = body(&question());
        let first = caller.send(keyed(&caller, "order-1", &first_body)).await;
        let messages = with_results(question(), &tool_calls(&first), &["sun"]);
        let second_body = body(&messages);
        let second = caller.send(keyed(&caller, "order-2", &second_body)).await;
        let messages = with_results(messages, &tool_calls(&second), &["rain"]);
        let third = caller.send(keyed(&caller, "order-3", &body(&messages))).await;
        assert_eq!(content(&third), "Done.");
        for (key, sent, expected) in [("order-1", &first_body, &first), ("order-2", &second_body, &second)] {
            let again = caller.send(keyed(&caller, key, sent)).await;
            assert_eq!(again.body, expected.body);
            assert_eq!(again.headers["idempotency-replayed"], "true");
        }
        let reused = caller.send(keyed(&caller, "order-1", &second_body)).await;
        assert_eq!(reused.status, 409, "{}", reused.text);
        assert_eq!(runs(&admin).await.len(), 1);
    }

    async fn calls_of_other_systems_are_history_and_results_of_others_are_refused(db: TestDb) {
        let Setup { server, admin, caller, model, _runner, .. } = setup(&db, [says("From elsewhere."), asks("Oslo")]).await;
        let foreign = json!({ "id": "call_abc", "type": "function", "function": { "name": "look", "arguments": "{}" } });
        let messages = with_results(question(), &[foreign], &["fog"]);
        let answer = caller.post(PATH, body(&messages)).await;
        assert_eq!(content(&answer), "From elsewhere.");
        let asked = model.requests_of("finder")[0].last_text();
        assert!(asked.starts_with("What is the weather?") && asked.contains("`look` returned: fog"), "{asked}");

        let calls = tool_calls(&caller.post(PATH, body(&question())).await);
        let other = server.token(&[Scope::AgentsInvoke], Some(server.default_project)).await;
        let other = server.client(Some(&other));
        let messages = with_results(question(), &calls, &["sun"]);
        let refused = other.post(PATH, body(&messages)).await;
        assert_eq!(refused.refused(403, "forbidden")["type"], "permission_error", "{}", refused.text);
        let mut mixed = messages;
        mixed.push(json!({ "role": "tool", "tool_call_id": "call_abc", "content": "fog" }));
        let refused = caller.post(PATH, body(&mixed)).await;
        assert_eq!(refused.refused(400, "invalid")["param"], "messages[3].tool_call_id", "{}", refused.text);
        assert_eq!(runs(&admin).await.iter().filter(|run| run["status"] == "waiting").count(), 1);

        // Somebody who may decide answers in place of the caller.
        let request = admin.get("/api/approvals?kind=client_tool").await.is(200)[0]["id"].as_str().unwrap().to_owned();
        model.add("finder", [says("Decided.")]);
        let decision = json!({ "decision": "answer", "answer": "sun" });
        admin.post(&format!("/api/approvals/{request}/decide"), decision).await.is(200);
        for _ in 0..500 {
            if runs(&admin).await.iter().all(|run| run["status"] == "completed") {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        panic!("the run did not go on: {:?}", runs(&admin).await);
    }

    async fn tools_are_not_offered_if_the_request_says_none(db: TestDb) {
        let Setup { server: _server, caller, model, _runner, .. } = setup(&db, [says("Hello.")]).await;
        let mut quiet = body(&question());
        quiet["tool_choice"] = json!("none");
        assert_eq!(content(&caller.post(PATH, quiet).await), "Hello.");
        assert_eq!(model.requests_of("finder")[0].tools, ["project_info"]);
        let mut taken = body(&question());
        taken["tools"][0]["function"]["name"] = json!("project_info");
        let refused = caller.post(PATH, taken).await;
        assert_eq!(refused.refused(400, "invalid")["param"], "tools[0].function.name", "{}", refused.text);
        let mut forced = body(&question());
        forced["tool_choice"] = json!("required");
        let refused = caller.post(PATH, forced).await;
        assert_eq!(refused.refused(400, "invalid")["param"], "tool_choice", "{}", refused.text);
    }
}

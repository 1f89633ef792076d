//! Agents for callers from outside: the card, starting an agent, waiting for it, following it, and going on with a
//! conversation.

use crate::{
    common::{self, Answer, Client, Server},
    streams::Frames,
};

use std::time::Duration;

use axum::{
    body::Body,
    http::{Method, header},
};
use emergent_api::AppOptions;
use emergent_domain::token::Scope;
use emergent_testkit::{
    TestDb, both_engines,
    scripted::{ScriptedModel, calls, hangs, says},
};
use serde_json::{Value, json};
use tokio::sync::watch;

const SCOPES: &[Scope] = &[Scope::AgentsInvoke];

/// A server with its administrator, and a client that may only start agents from outside.
async fn serve(db: &TestDb, model: &ScriptedModel) -> (Server, Client, Client, watch::Sender<bool>) {
    let server = Server::with_models(db, 1_024, model.models()).await;
    let runner = server.drive();
    let admin = server.admin();
    let caller = server.client(Some(&server.token(SCOPES, Some(server.default_project)).await));
    (server, admin, caller, runner)
}

async fn external(admin: &Client, name: &str) -> String {
    admin.agent(name, json!({ "visibility": "external", "systemPrompt": "You are a secret." })).await
}

async fn invoke(client: &Client, agent: &str, body: Value) -> Answer {
    client.post(&format!("/api/agents/{agent}/invoke"), body).await
}

async fn invoke_once(client: &Client, agent: &str, key: &str, body: &Value) -> Answer {
    client.send(keyed(client, agent, key, body)).await
}

fn keyed(client: &Client, agent: &str, key: &str, body: &Value) -> axum::http::Request<Body> {
    let path = format!("/api/agents/{agent}/invoke");
    let request = client.request(Method::POST, &path).header(header::CONTENT_TYPE, "application/json");
    request.header("idempotency-key", key).body(Body::from(body.to_string())).unwrap()
}

/// Starts an agent with `stream: true`, and returns the types of the events and the events.
async fn streamed(client: &Client, agent: &str, body: Value) -> (Vec<String>, Vec<Value>) {
    let path = format!("/api/agents/{agent}/invoke");
    let request = client.request(Method::POST, &path).header(header::CONTENT_TYPE, "application/json");
    let response = client.open(request.body(Body::from(body.to_string())).unwrap()).await;
    all(Frames::from_response(response)).await
}

async fn all(mut frames: Frames) -> (Vec<String>, Vec<Value>) {
    let mut events = Vec::new();
    while let Some((_, event)) = frames.next().await {
        events.push(event);
    }
    (events.iter().map(|event| event["type"].as_str().unwrap().to_owned()).collect(), events)
}

async fn count(client: &Client, path: &str) -> usize {
    client.get(path).await.is(200).as_array().unwrap().len()
}

both_engines! {
    async fn the_card_lists_external_agents_that_describe_themselves_and_needs_no_token(db: TestDb) {
        let server = Server::start(&db).await;
        let (admin, anybody) = (server.admin(), server.client(None));
        let empty = anybody.get("/api/agents/card").await;
        assert_eq!((empty.status.as_u16(), &empty.body), (200, &json!({ "schemaVersion": "1.0", "agents": [] })));
        let acp = json!({ "displayName": "Research Assistant", "description": "Searches.", "capabilities": ["chat"],
            "inputModes": ["text"], "outputModes": ["text"] });
        let id = admin.agent("described", json!({ "visibility": "external", "acp": acp })).await;
        admin.agent("undescribed", json!({ "visibility": "external" })).await;
        admin.agent("project", json!({})).await;
        let hidden = admin.in_project(server.project("hidden").await);
        hidden.agent("own", json!({})).await;
        let public = admin.in_project(server.project("public").await);
        public.agent("guide", json!({ "visibility": "external", "acp": { "displayName": "Guide" } })).await;
        tokio::time::sleep(Duration::from_millis(1_100)).await;

        let card = anybody.get("/api/agents/card").await;
        let expected = json!({ "schemaVersion": "1.0", "agents": [{
            "name": "Research Assistant", "description": "Searches.", "capabilities": ["chat"],
            "inputModes": ["text"], "outputModes": ["text"], "endpoint": format!("/api/agents/{id}/invoke"),
        }]});
        assert_eq!(card.body, expected);
        let other = anybody.get("/api/agents/card?project=public").await;
        assert_eq!(other.body["agents"][0]["name"], "Guide");
        let no_agents = anybody.get("/api/agents/card?project=hidden").await;
        let unknown = anybody.get("/api/agents/card?project=nowhere").await;
        no_agents.refused(404, "not_found");
        assert_eq!(no_agents.text.replace("hidden", "nowhere"), unknown.text, "nobody learns that it exists");
        anybody.get("/api/agents/card?x=1").await.refused(400, "invalid");
    }

    async fn a_caller_gets_the_result_or_where_to_look(db: TestDb) {
        let model = ScriptedModel::default();
        let (_server, admin, caller, _runner) = serve(&db, &model).await;
        let agent = external(&admin, "finder").await;
        let later = says("Later.").with_delay(Duration::from_millis(500));
        model.add("finder", [says("Three."), says("Late.").with_delay(Duration::from_millis(1_500)), later]);
        let done = invoke(&caller, &agent, json!({ "input": "How many?", "context": { "of": "cats" }, "wait": 30 })).await;
        let result = done.is(200);
        assert_eq!((&result["status"], &result["text"], &result["agentId"]), (&json!("completed"), &json!("Three."), &json!(agent)));
        assert_eq!(result["tokenUsage"]["totalOutput"], 10);
        assert!(model.requests_of("finder")[0].last_text().contains("\"of\": \"cats\""));
        let run = result["runId"].as_str().unwrap();
        let stored = admin.get(&format!("/api/admin/runs/{run}")).await;
        assert_eq!(stored.is(200)["origin"], "invoke");

        let started = invoke(&caller, "finder", json!({ "input": "And now?", "wait": 1 })).await;
        let pending = started.is(202).clone();
        assert!(pending.get("text").is_none() && pending["status"] == "running", "{pending}");
        let path = pending["links"]["result"].as_str().unwrap();
        assert_eq!(started.headers[header::LOCATION], path);
        let late = caller.get(&format!("{path}?wait=30")).await;
        assert_eq!(late.is(200)["text"], "Late.");
        assert_eq!(late.body["data"]["runId"], pending["runId"]);
        let at_once = invoke(&caller, &agent, json!({ "input": "Go." })).await;
        at_once.is(202);
        assert_eq!(caller.get(&format!("{}?wait=30", at_once.headers[header::LOCATION].to_str().unwrap())).await.is(200)["text"], "Later.");
    }

    async fn an_answer_at_once_has_no_result_even_if_the_run_has_ended(db: TestDb) {
        let model = ScriptedModel::default();
        let (_server, admin, caller, _runner) = serve(&db, &model).await;
        let agent = external(&admin, "finder").await;
        model.add("finder", [says("Three.")]);
        let body = json!({ "input": "How many?" });
        let first = invoke_once(&caller, &agent, "a", &body).await;
        let path = first.is(202)["links"]["result"].as_str().unwrap().to_owned();
        assert_eq!(caller.get(&format!("{path}?wait=30")).await.is(200)["text"], "Three.");

        // The same request again is answered about a run that has certainly ended.
        let again = invoke_once(&caller, &agent, "a", &body).await;
        let started = again.is(202);
        assert_eq!((&started["runId"], &started["status"]), (&first.is(202)["runId"], &json!("completed")));
        assert_eq!((&started["text"], &started["tokenUsage"]), (&Value::Null, &Value::Null));
        assert_eq!(again.headers[header::LOCATION].to_str().unwrap(), path);
        assert_eq!(caller.get(&path).await.is(200)["text"], "Three.", "who asks for the result gets it");
    }

    async fn a_run_that_fails_is_a_result_that_says_why(db: TestDb) {
        let model = ScriptedModel::default();
        let (_server, admin, caller, _runner) = serve(&db, &model).await;
        let agent = external(&admin, "finder").await;
        let failed = invoke(&caller, &agent, json!({ "input": "Go.", "wait": 30 })).await;
        assert_eq!((&failed.is(200)["status"], &failed.body["data"]["reason"]), (&json!("failed"), &json!("provider")));
        assert!(failed.body["data"]["errorMessage"].as_str().unwrap().contains("no more lines"));
    }

    async fn a_run_that_waits_for_a_person_is_told_at_once(db: TestDb) {
        let model = ScriptedModel::default();
        let (_server, admin, caller, _runner) = serve(&db, &model).await;
        let agent = admin.agent("asker", json!({ "visibility": "external", "tools": ["ask_user"] })).await;
        model.add("asker", [calls("ask_user", json!({ "question": "Which?" })), says("That one.")]);
        let waiting = invoke(&caller, &agent, json!({ "input": "Choose.", "wait": 60 })).await;
        assert_eq!((&waiting.is(202)["status"], &waiting.body["data"]["waitingFor"]), (&json!("waiting"), &json!("question")));
        let request = crate::approvals::next_request(&admin).await;
        let answer = json!({ "decision": "answer", "answer": "this" });
        admin.post(&format!("/api/approvals/{request}/decide"), answer).await.is(200);
        let path = waiting.body["data"]["links"]["result"].as_str().unwrap().to_owned();
        for _ in 0..100 {
            let result = caller.get(&format!("{path}?wait=5")).await;
            if result.status == 200 {
                assert_eq!(result.body["data"]["text"], "That one.");
                return;
            }
        }
        panic!("the run did not go on");
    }

    async fn a_stream_has_the_events_of_the_run_and_not_the_system_prompt(db: TestDb) {
        let model = ScriptedModel::default();
        let (_server, admin, caller, _runner) = serve(&db, &model).await;
        let agent = external(&admin, "finder").await;
        model.add("finder", [says("One two three.")]);
        let (types, events) = streamed(&caller, &agent, json!({ "input": "Count.", "stream": true })).await;
        assert!(types.contains(&"run_started".to_owned()) && types.contains(&"message".to_owned()), "{types:?}");
        assert_eq!(types.last().unwrap(), "run_ended");
        let end = events.last().unwrap();
        assert_eq!((&end["status"], &end["summary"]["text"]), (&json!("completed"), &json!("One two three.")));
        let text = serde_json::to_string(&events).unwrap();
        assert!(text.contains("Count.") && !text.contains("You are a secret."), "{text}");
        // The same again, and the part after an event.
        let path = format!("/api/agents/{agent}/runs/{}/events", end["runId"].as_str().unwrap());
        let again = all(Frames::open(&caller, &path, None).await).await.1;
        assert_eq!(again.last(), Some(end));
        assert!(!serde_json::to_string(&again).unwrap().contains("You are a secret."));
        let seen = end["seq"].as_i64().unwrap() - 1;
        let rest = all(Frames::open(&caller, &path, Some(&seen.to_string())).await).await.1;
        assert_eq!(rest, std::slice::from_ref(end));
    }

    async fn a_conversation_goes_on_from_a_run_or_from_a_chat(db: TestDb) {
        let model = ScriptedModel::default();
        let (server, admin, caller, _runner) = serve(&db, &model).await;
        let agent = external(&admin, "finder").await;
        model.add("finder", [says("Blue."), says("Because."), says("Indeed."), says("Hello.")]);
        let first = invoke(&caller, &agent, json!({ "input": "Which colour?", "wait": 30 })).await.is(200).clone();
        assert_eq!(count(&admin, "/api/chat/conversations").await, 0, "nothing is stored for a single question");
        let conversation = first["conversationId"].clone();
        let second = invoke(&caller, &agent, json!({ "input": "Why?", "conversationId": conversation, "wait": 30 })).await;
        assert_eq!((&second.is(200)["text"], &second.body["data"]["conversationId"]), (&json!("Because."), &conversation));
        let shown: Vec<String> = model.requests_of("finder")[1].turns.iter().map(|turn| turn.text()).collect();
        assert_eq!(shown, ["Which colour?", "Blue.", "Why?"]);
        let third = invoke(&caller, &agent, json!({ "input": "Sure?", "conversationId": conversation, "stream": false, "wait": 30 })).await;
        assert_eq!(third.is(200)["text"], "Indeed.");
        let stored = admin.get(&format!("/api/chat/conversations/{}/messages", conversation.as_str().unwrap())).await;
        let texts: Vec<_> = stored.is(200).as_array().unwrap().iter().map(|message| message["content"].as_str().unwrap()).collect();
        assert_eq!(texts, ["Which colour?", "Blue.", "Why?", "Because.", "Sure?", "Indeed."]);
        let run = admin.get(&format!("/api/admin/runs/{}", third.body["data"]["runId"].as_str().unwrap())).await;
        assert_eq!(run.is(200)["origin"], "invoke");

        // A conversation of somebody else needs `chat:use`: an answer may repeat what was said.
        let chat = admin.post("/api/chat/conversations", json!({ "agentDefinitionId": agent })).await.is(201)["id"].clone();
        let body = json!({ "input": "Hi.", "conversationId": chat, "wait": 30 });
        invoke(&caller, &agent, body.clone()).await.refused(404, "not_found");
        let both = server.token(&[Scope::AgentsInvoke, Scope::ChatUse], None).await;
        assert_eq!(invoke(&server.client(Some(&both)), &agent, body).await.is(200)["text"], "Hello.");
    }

    async fn a_conversation_that_cannot_go_on_is_refused_and_nothing_is_stored(db: TestDb) {
        let model = ScriptedModel::default();
        let (server, admin, caller, _runner) = serve(&db, &model).await;
        let agent = external(&admin, "finder").await;
        let other = external(&admin, "other").await;
        model.add("finder", [says("Blue."), hangs()]);
        let first = invoke(&caller, &agent, json!({ "input": "Which?", "wait": 30 })).await.is(200).clone();
        let go_on = |id: &Value| json!({ "input": "Why?", "conversationId": id });
        let stranger = server.client(Some(&server.token(SCOPES, None).await));
        invoke(&stranger, &agent, go_on(&first["conversationId"])).await.refused(404, "not_found");
        let wrong = invoke(&caller, &other, go_on(&first["conversationId"])).await;
        wrong.refused(400, "invalid");
        assert_eq!(wrong.field(), "conversationId");
        invoke(&caller, &agent, go_on(&json!(crate::chat::NOBODY))).await.refused(404, "not_found");
        assert_eq!(count(&admin, "/api/chat/conversations").await, 0);
        let busy = invoke(&caller, &agent, json!({ "input": "Wait." })).await.is(202).clone();
        let conflict = invoke(&caller, &agent, go_on(&busy["conversationId"])).await;
        conflict.refused(409, "conflict");
        assert!(!conflict.text.contains("queue"), "invoke has no such field: {}", conflict.text);
        // A run that somebody triggered is not a conversation of callers from outside.
        let triggered = admin.trigger(&agent, "go").await;
        invoke(&admin, &agent, go_on(&json!(triggered))).await.refused(404, "not_found");
        // Neither is one whose conversation was deleted.
        model.add("finder", [says("x"), says("x")]);
        let second = invoke(&caller, &agent, go_on(&first["conversationId"])).await;
        second.is(202);
        admin.delete(&format!("/api/chat/conversations/{}", first["conversationId"].as_str().unwrap())).await.is(200);
        invoke(&caller, &agent, go_on(&first["conversationId"])).await.refused(404, "not_found");
    }

    async fn runs_of_others_and_runs_that_were_not_invoked_are_not_found(db: TestDb) {
        let model = ScriptedModel::default();
        let (server, admin, caller, _runner) = serve(&db, &model).await;
        let agent = external(&admin, "finder").await;
        model.add("finder", [says("Mine."), says("Triggered.")]);
        let path = invoke(&caller, &agent, json!({ "input": "Go.", "wait": 30 })).await.is(200)["links"]["result"].as_str().unwrap().to_owned();
        caller.get(&path).await.is(200);
        admin.get(&path).await.is(200);
        let stranger = server.client(Some(&server.token(SCOPES, None).await));
        stranger.get(&path).await.refused(404, "not_found");
        stranger.get(&format!("{path}/events")).await.refused(404, "not_found");
        let triggered = admin.run_to_end(&agent, "go").await;
        admin.get(&format!("/api/agents/{agent}/runs/{}", triggered["id"].as_str().unwrap())).await.refused(404, "not_found");
        // What is no longer external is no longer reachable.
        admin.patch(&format!("/api/admin/agents/{agent}"), json!({ "visibility": "project" })).await.is(200);
        caller.get(&path).await.refused(403, "forbidden");
        caller.get(&format!("{path}/events")).await.refused(403, "forbidden");
    }

    async fn a_repeated_request_answers_about_the_same_run(db: TestDb) {
        let model = ScriptedModel::default();
        let (_server, admin, caller, _runner) = serve(&db, &model).await;
        let agent = external(&admin, "finder").await;
        model.add("finder", [says("Once."), says("Again."), says("On.")]);
        let body = json!({ "input": "Go.", "wait": 30 });
        let first = invoke_once(&caller, &agent, "a", &body).await;
        let again = invoke_once(&caller, &agent, "a", &body).await;
        assert_eq!((again.is(200), &again.headers["idempotency-replayed"]), (first.is(200), &"true".parse().unwrap()));
        invoke_once(&caller, &agent, "a", &json!({ "input": "Stop." })).await.refused(409, "idempotency_key_reused");
        let stream = json!({ "input": "Go.", "stream": true });
        let first_stream = all(Frames::from_response(caller.open(keyed(&caller, &agent, "b", &stream)).await)).await.1;
        let second_stream = all(Frames::from_response(caller.open(keyed(&caller, &agent, "b", &stream)).await)).await.1;
        assert_eq!(first_stream.last(), second_stream.last());
        let go_on = json!({ "input": "On.", "conversationId": first.is(200)["conversationId"], "wait": 30 });
        let third = invoke_once(&caller, &agent, "c", &go_on).await;
        assert_eq!(invoke_once(&caller, &agent, "c", &go_on).await.is(200), third.is(200));
        assert_eq!(count(&admin, "/api/admin/runs").await, 3);
    }

    async fn a_token_that_starts_an_agent_too_often_is_told_when_to_come_back(db: TestDb) {
        let model = ScriptedModel::always(|_| says("Here."));
        let options = AppOptions { invoke_rate: 2, ..AppOptions::default() };
        let server = Server::with_options(&db, model.models(), options).await;
        let (admin, caller) = (server.admin(), server.client(Some(&server.token(SCOPES, None).await)));
        let (agent, other) = (external(&admin, "finder").await, external(&admin, "other").await);
        let go = json!({ "input": "Go." });
        let keyed_first = invoke_once(&caller, &agent, "k", &go).await;
        keyed_first.is(202);
        // What is refused for another reason does not count.
        invoke(&caller, &agent, json!({ "input": "Go.", "wait": 601 })).await.refused(400, "invalid");
        invoke(&caller, &agent, json!({ "input": "Go.", "wait": 1, "stream": true })).await.refused(400, "invalid");
        for _ in 0..3 {
            invoke(&caller, &agent, json!({ "input": " " })).await.refused(400, "invalid");
        }
        invoke(&caller, &agent, go.clone()).await.is(202);
        let refused = invoke(&caller, &agent, go.clone()).await;
        assert_eq!(refused.refused(429, "rate_limited")["details"]["limit"], 2);
        let seconds: u64 = refused.headers[header::RETRY_AFTER].to_str().unwrap().parse().unwrap();
        assert!((1..=60).contains(&seconds), "{seconds}");
        // A repeated request starts nothing, so it does not count; other agents and tokens have their own count.
        invoke_once(&caller, &agent, "k", &go).await.is(202);
        invoke(&caller, &other, go.clone()).await.is(202);
        invoke(&admin, &agent, go).await.is(202);
        assert_eq!(count(&admin, "/api/admin/runs").await, 4);
    }

    async fn bad_input_is_refused_by_name_and_starts_nothing(db: TestDb) {
        let server = Server::start(&db).await;
        let admin = server.admin();
        let agent = external(&admin, "finder").await;
        let check = async |body: Value, field: &str| {
            let refused = invoke(&admin, &agent, body.clone()).await;
            refused.refused(400, "invalid");
            assert_eq!(refused.field(), field, "{body}: {}", refused.text);
        };
        check(json!({}), "input").await;
        check(json!({ "input": "" }), "input").await;
        check(json!({ "input": "x\u{0}" }), "input").await;
        check(json!({ "input": "x".repeat((1 << 20) + 1) }), "input").await;
        check(json!({ "input": "x", "wait": -1 }), "wait").await;
        check(json!({ "input": "x", "wait": 601 }), "wait").await;
        check(json!({ "input": "x", "conversationId": "y" }), "conversationId").await;
        check(json!({ "input": "x", "messages": [] }), "messages").await;
        let run = common::Server::project(&server, "other").await;
        invoke(&admin, &run.to_string(), json!({ "input": "x" })).await.refused(404, "not_found");
        assert_eq!(count(&admin, "/api/admin/runs").await, 0);
    }
}

//! Agents as models: `/v1/models` and `/v1/chat/completions`.

use crate::common::{Answer, Client, Server, serve};

use std::time::Duration;

use axum::{
    body::Body,
    http::{Method, Request, header},
};
use emergent_api::AppOptions;
use emergent_testkit::{
    both_engines,
    scripted::{ScriptedModel, calls, hangs, hangs_after, says},
};
use futures_util::StreamExt;
use serde_json::{Value, json};

const PATH: &str = "/v1/chat/completions";

async fn external(admin: &Client, more: Value) -> String {
    let mut definition = json!({ "visibility": "external" });
    for (field, value) in more.as_object().unwrap() {
        definition[field] = value.clone();
    }
    admin.agent("finder", definition).await
}

fn ask(text: &str) -> Value {
    json!({ "model": "finder", "messages": [{ "role": "user", "content": text }] })
}

fn streamed(text: &str) -> Value {
    let mut body = ask(text);
    (body["stream"], body["stream_options"]) = (json!(true), json!({ "include_usage": true }));
    body
}

fn keyed(client: &Client, key: &str, body: &Value) -> Request<Body> {
    let request = client.request(Method::POST, PATH).header(header::CONTENT_TYPE, "application/json");
    request.header("idempotency-key", key).body(Body::from(body.to_string())).unwrap()
}

/// The data of the frames of a stream.
fn frames(answer: &Answer) -> Vec<String> {
    assert_eq!(answer.status, 200, "{}", answer.text);
    assert_eq!(answer.headers[header::CONTENT_TYPE], "text/event-stream");
    answer.text.lines().filter_map(|line| line.strip_prefix("data: ")).map(str::to_owned).collect()
}

fn chunks(answer: &Answer) -> Vec<Value> {
    let mut frames = frames(answer);
    assert_eq!(frames.pop().as_deref(), Some("[DONE]"), "{}", answer.text);
    frames.iter().map(|frame| serde_json::from_str(frame).unwrap()).collect()
}

/// One field of all deltas, joined.
fn joined(chunks: &[Value], field: &str) -> String {
    chunks.iter().filter_map(|chunk| chunk["choices"][0]["delta"][field].as_str()).collect()
}

impl Answer {
    /// The body of a completion, which has no envelope.
    #[track_caller]
    fn is_openai(&self) -> &Value {
        assert_eq!(self.status, 200, "{}", self.text);
        &self.body
    }
}

/// Expects an error with the fields that clients of OpenAI read.
#[track_caller]
fn refused<'a>(answer: &'a Answer, status: u16, code: &str, kind: &str) -> &'a Value {
    let error = answer.refused(status, code);
    assert_eq!(error["type"], kind, "{}", answer.text);
    assert!(error["message"].is_string() && error.get("param").is_some(), "{}", answer.text);
    error
}

async fn runs(admin: &Client) -> Vec<Value> {
    admin.get("/api/admin/runs").await.is(200).as_array().unwrap().clone()
}

async fn status_becomes(admin: &Client, status: &str) {
    for _ in 0..500 {
        if runs(admin).await[0]["status"] == status {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("the run is not {status}: {:?}", runs(admin).await);
}

both_engines! {
    async fn external_agents_are_models(db: TestDb) {
        let (_server, admin, caller, _runner) = serve(&db, &ScriptedModel::default()).await;
        external(&admin, json!({})).await;
        admin.agent("worker", json!({})).await;
        let list = caller.get("/v1/models").await;
        assert_eq!((list.status.as_u16(), &list.body["object"]), (200, &json!("list")));
        let models = list.body["data"].as_array().unwrap();
        assert_eq!((models.len(), &models[0]["id"], &models[0]["object"]), (1, &json!("finder"), &json!("model")));
        assert_eq!(caller.get("/v1/models/finder").await.body, models[0]);
        refused(&caller.get("/v1/models/worker").await, 403, "forbidden", "permission_error");
        refused(&caller.get("/v1/models/nobody").await, 404, "not_found", "invalid_request_error");
    }

    async fn a_completion_is_the_answer_of_a_run_with_its_usage(db: TestDb) {
        let model = ScriptedModel::default();
        let (_server, admin, caller, _runner) = serve(&db, &model).await;
        external(&admin, json!({ "systemPrompt": "You find.", "tools": ["project_info"] })).await;
        model.add("finder", [calls("project_info", json!({})), says("Because.")]);
        let body = json!({ "model": "finder", "temperature": 0, "messages": [
            { "role": "system", "content": "Be brief." },
            { "role": "user", "content": "Which colour?" },
            { "role": "assistant", "content": "Blue." },
            { "role": "user", "content": [{ "type": "text", "text": "Why?" }] },
        ]});
        let answer = caller.post(PATH, body).await;
        assert_eq!(answer.status, 200, "{}", answer.text);
        let choice = &answer.body["choices"][0];
        assert_eq!((&choice["message"]["content"], &choice["finish_reason"]), (&json!("Because."), &json!("stop")));
        assert_eq!((&answer.body["object"], &answer.body["model"]), (&json!("chat.completion"), &json!("finder")));
        let usage = &answer.body["usage"];
        assert_eq!((&usage["prompt_tokens"], &usage["completion_tokens"], &usage["total_tokens"]), (&json!(200), &json!(20), &json!(220)));
        let request = &model.requests_of("finder")[0];
        let turns: Vec<String> = request.turns.iter().map(|turn| turn.text()).collect();
        assert_eq!((&turns[0], &turns[1]), (&"Which colour?".to_owned(), &"Blue.".to_owned()));
        assert!(turns[2].starts_with("Why?") && turns[2].contains("Be brief."), "{turns:?}");
        assert_eq!(request.system, "You find.");
        let run = &runs(&admin).await[0];
        assert_eq!((&run["origin"], &answer.body["id"]), (&json!("invoke"), &json!(format!("chatcmpl-{}", run["id"].as_str().unwrap()))));
    }

    async fn the_content_of_a_typed_agent_is_its_validated_output(db: TestDb) {
        let model = ScriptedModel::default();
        let (_server, admin, caller, _runner) = serve(&db, &model).await;
        let schema = json!({ "type": "object", "properties": { "priority": { "enum": ["low", "high"] } }, "required": ["priority"] });
        external(&admin, json!({ "outputSchema": schema })).await;
        let lines = || [says("{\"priority\": \"urgent\"}"), says("```json\n{ \"priority\": \"high\" }\n```")];
        model.add("finder", lines());
        let whole = caller.post(PATH, ask("Sort.")).await;
        let message = &whole.is_openai()["choices"][0]["message"];
        assert_eq!((&message["content"], &message["output"]), (&json!("{\"priority\":\"high\"}"), &json!({ "priority": "high" })));
        model.add("finder", lines());
        let chunks = chunks(&caller.post(PATH, streamed("Sort.")).await);
        assert_eq!(joined(&chunks, "content"), "{\"priority\":\"high\"}");
        let [.., end, _usage] = &chunks[..] else { panic!("{chunks:?}") };
        assert_eq!(end["choices"][0]["delta"]["output"], json!({ "priority": "high" }));
    }

    async fn a_response_format_is_the_schema_of_the_answer(db: TestDb) {
        let model = ScriptedModel::default();
        let (_server, admin, caller, _runner) = serve(&db, &model).await;
        external(&admin, json!({})).await;
        let with_format = |format: Value| {
            let mut body = ask("Count.");
            body["response_format"] = format;
            body
        };
        let schema = json!({ "type": "object", "properties": { "count": { "type": "integer" } }, "required": ["count"], "additionalProperties": false });
        let named = |schema: &Value| json!({ "type": "json_schema", "json_schema": { "name": "count", "strict": true, "schema": schema } });
        model.add("finder", [says("Three."), says("{ \"count\": 3 }"), says("{ \"a\": 1 }")]);
        let typed = caller.post(PATH, with_format(named(&schema))).await;
        assert_eq!(typed.is_openai()["choices"][0]["message"]["content"], "{\"count\":3}");
        let object = caller.post(PATH, with_format(json!({ "type": "json_object" }))).await;
        assert_eq!(object.is_openai()["choices"][0]["message"]["content"], "{\"a\":1}");
        let wrong = caller.post(PATH, with_format(named(&json!({ "properties": { "a": { "type": "int" } } })))).await;
        refused(&wrong, 400, "invalid", "invalid_request_error");
        assert_eq!(runs(&admin).await.len(), 2);
    }

    async fn a_stream_has_the_text_the_tools_and_the_usage(db: TestDb) {
        let model = ScriptedModel::default();
        let (_server, admin, caller, _runner) = serve(&db, &model).await;
        external(&admin, json!({ "tools": ["project_info"] })).await;
        model.add("finder", [says("Let me look.").and(calls("project_info", json!({}))), says("One two three.")]);
        let chunks = chunks(&caller.post(PATH, streamed("Count.")).await);
        assert_eq!(chunks[0]["choices"][0]["delta"], json!({ "role": "assistant", "content": "" }));
        assert_eq!(joined(&chunks, "content"), "Let me look.\n\nOne two three.");
        assert_eq!(joined(&chunks, "reasoning_content"), "Calls `project_info`.\n");
        let [.., end, usage] = &chunks[..] else { panic!("{chunks:?}") };
        assert_eq!(end["choices"][0]["finish_reason"], "stop");
        assert_eq!((&usage["choices"], &usage["usage"]["total_tokens"]), (&json!([]), &json!(220)));
        assert!(chunks.iter().all(|chunk| chunk["id"] == chunks[0]["id"] && chunk["object"] == "chat.completion.chunk"));
    }

    async fn a_run_without_an_answer_is_an_error_also_in_the_middle_of_a_stream(db: TestDb) {
        let model = ScriptedModel::default();
        let (_server, admin, caller, _runner) = serve(&db, &model).await;
        external(&admin, json!({ "tools": ["project_info"] })).await;
        let failed = caller.post(PATH, ask("Go.")).await;
        let error = refused(&failed, 500, "provider", "server_error");
        assert!(error["message"].as_str().unwrap().contains("no more lines"), "{error}");
        assert_eq!(failed.headers["x-should-retry"], "false");
        model.add("finder", [says("Let me look.").and(calls("project_info", json!({})))]);
        let chunks = chunks(&caller.post(PATH, streamed("Go.")).await);
        assert_eq!(joined(&chunks, "content"), "Let me look.");
        let error = &chunks.last().unwrap()["error"];
        assert_eq!((&error["code"], &error["type"]), (&json!("provider"), &json!("server_error")));
        assert!(error["message"].as_str().unwrap().contains("no more lines"), "{error}");
    }

    async fn a_run_that_waits_for_a_person_says_so(db: TestDb) {
        let model = ScriptedModel::default();
        let (_server, admin, caller, _runner) = serve(&db, &model).await;
        external(&admin, json!({ "tools": ["ask_user"] })).await;
        let question = || calls("ask_user", json!({ "question": "Which?" }));
        model.add("finder", [question(), says("That one."), question(), says("This one.")]);
        let decide = async || {
            let request = crate::approvals::next_request(&admin).await;
            let answer = json!({ "decision": "answer", "answer": "this" });
            admin.post(&format!("/api/approvals/{request}/decide"), answer).await.is(200);
        };
        // Not streamed: an error, and with the same key the answer later.
        let waiting = caller.send(keyed(&caller, "k", &ask("Choose."))).await;
        let error = refused(&waiting, 422, "run_waiting", "invalid_request_error");
        assert!(error["message"].as_str().unwrap().contains("question"), "{error}");
        assert_eq!(waiting.headers["x-should-retry"], "false");
        decide().await;
        status_becomes(&admin, "completed").await;
        let later = caller.send(keyed(&caller, "k", &ask("Choose."))).await;
        assert_eq!(later.body["choices"][0]["message"]["content"], "That one.", "{}", later.text);
        // Streamed: the stream stays open.
        let (stream, ()) = tokio::join!(caller.post(PATH, streamed("Choose.")), decide());
        let chunks = chunks(&stream);
        assert!(joined(&chunks, "reasoning_content").contains("Waits for a person: the agent asks a question"), "{chunks:?}");
        assert!(joined(&chunks, "content").contains("This one."), "{chunks:?}");
        assert_eq!(runs(&admin).await.len(), 2);
    }

    async fn a_repeated_request_with_its_key_makes_one_run(db: TestDb) {
        let model = ScriptedModel::default();
        let (_server, admin, caller, _runner) = serve(&db, &model).await;
        external(&admin, json!({})).await;
        model.add("finder", [says("Once."), says("Twice.")]);
        let first = caller.send(keyed(&caller, "a", &ask("Go."))).await;
        let again = caller.send(keyed(&caller, "a", &ask("Go."))).await;
        assert_eq!((first.status.as_u16(), &first.body), (200, &again.body));
        assert_eq!(again.headers["idempotency-replayed"], "true");
        let first = chunks(&caller.send(keyed(&caller, "b", &streamed("Go."))).await);
        let again = chunks(&caller.send(keyed(&caller, "b", &streamed("Go."))).await);
        assert_eq!((joined(&first, "content"), joined(&again, "content")), ("Twice.".to_owned(), "Twice.".to_owned()));
        assert_eq!(first.last(), again.last(), "the usage is the same");
        refused(&caller.send(keyed(&caller, "a", &ask("Stop."))).await, 409, "idempotency_key_reused", "invalid_request_error");
        assert_eq!(runs(&admin).await.len(), 2);
    }

    async fn a_run_is_cancelled_when_nobody_can_come_back_for_it(db: TestDb) {
        let model = ScriptedModel::default();
        let (_server, admin, caller, _runner) = serve(&db, &model).await;
        external(&admin, json!({})).await;
        model.add("finder", [hangs_after("One"), hangs_after("Two"), hangs()]);
        let request = |body: &Value| {
            let request = caller.request(Method::POST, PATH).header(header::CONTENT_TYPE, "application/json");
            request.body(Body::from(body.to_string())).unwrap()
        };
        let open = async |request: Request<Body>| {
            let mut body = caller.open(request).await.into_body().into_data_stream();
            while let Some(Ok(part)) = body.next().await {
                if String::from_utf8_lossy(&part).contains("\"content\":\"") && !String::from_utf8_lossy(&part).contains("\"role\"") {
                    return body;
                }
            }
            panic!("the stream ended");
        };
        drop(open(request(&streamed("Go."))).await);
        status_becomes(&admin, "cancelled").await;
        // With a key, somebody may come back.
        drop(open(keyed(&caller, "k", &streamed("Go."))).await);
        tokio::time::sleep(Duration::from_millis(300)).await;
        assert_eq!(runs(&admin).await[0]["status"], "running");
        // A caller that waits for the whole answer.
        let waiting = tokio::time::timeout(Duration::from_millis(500), caller.open(request(&ask("Go."))));
        assert!(waiting.await.is_err());
        status_becomes(&admin, "cancelled").await;
    }

    async fn what_is_refused_names_the_field_and_starts_nothing(db: TestDb) {
        let options = AppOptions { invoke_rate: 1, ..AppOptions::default() };
        let server = Server::with_options(&db, ScriptedModel::always(|_| says("Here.")).models(), options).await;
        let _runner = server.drive();
        let admin = server.admin();
        external(&admin, json!({})).await;
        let check = async |change: Value, param: &str| {
            let mut body = ask("Go.");
            for (field, value) in change.as_object().unwrap() {
                body[field] = value.clone();
            }
            let answer = admin.post(PATH, body).await;
            assert_eq!(refused(&answer, 400, "invalid", "invalid_request_error")["param"], param, "{}", answer.text);
        };
        check(json!({ "tools": [{ "type": "function", "function": { "name": "a b" } }] }), "tools[0].function.name").await;
        check(json!({ "messages": [] }), "messages").await;
        check(json!({ "n": 2 }), "n").await;
        check(json!({ "messages": [{ "content": "x" }] }), "messages[0].role").await;
        check(json!({ "temprature": 1 }), "temprature").await;
        check(json!({ "model": 1 }), "model").await;
        let unknown = json!({ "model": "nobody", "messages": [{ "role": "user", "content": "x" }] });
        refused(&admin.post(PATH, unknown).await, 404, "not_found", "invalid_request_error");
        refused(&server.client(None).post(PATH, ask("x")).await, 401, "unauthorized", "authentication_error");
        assert_eq!(runs(&admin).await.len(), 0);
        assert_eq!(admin.post(PATH, ask("x")).await.status, 200);
        let limited = admin.post(PATH, ask("x")).await;
        refused(&limited, 429, "rate_limited", "rate_limit_error");
        assert!(limited.headers.contains_key(header::RETRY_AFTER));
    }
}

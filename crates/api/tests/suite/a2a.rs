//! External agents for agents of others: `/a2a`.

mod answers;
mod contexts;
mod push;
mod streams;
mod tasks;

use crate::common::{Answer, Client, serve};

use axum::{
    body::Body,
    http::{Method, header},
};
use emergent_domain::token::Scope;
use emergent_testkit::{
    both_engines,
    scripted::{ScriptedModel, calls, says},
};
use serde_json::{Value, json};

pub(crate) const PATH: &str = "/a2a/default/finder";

async fn external(admin: &Client, more: Value) -> String {
    let mut definition = json!({ "visibility": "external", "acp": { "displayName": "The finder" } });
    for (field, value) in more.as_object().unwrap() {
        definition[field] = value.clone();
    }
    admin.agent("finder", definition).await
}

/// Sends a request with the header of the version.
async fn request(client: &Client, method: Method, path: &str, body: Option<&Value>) -> Answer {
    let request = client.request(method, path).header("a2a-version", "1.0");
    let request = request.header(header::CONTENT_TYPE, "application/json");
    let body = body.map_or_else(Body::empty, |body| Body::from(body.to_string()));
    client.send(request.body(body).unwrap()).await
}

/// Calls a method of the JSON-RPC binding.
async fn rpc(client: &Client, method: &str, params: Value) -> Answer {
    let body = json!({ "jsonrpc": "2.0", "id": 7, "method": method, "params": params });
    request(client, Method::POST, PATH, Some(&body)).await
}

/// Expects a result, and returns it.
#[track_caller]
fn result(answer: &Answer) -> &Value {
    assert_eq!((answer.status.as_u16(), &answer.body["id"]), (200, &json!(7)), "{}", answer.text);
    assert!(answer.body.get("error").is_none(), "{}", answer.text);
    &answer.body["result"]
}

/// Expects an error of JSON-RPC, and returns it.
#[track_caller]
fn failed(answer: &Answer, code: i64) -> &Value {
    assert_eq!(answer.status, 200, "{}", answer.text);
    assert_eq!(answer.body["error"]["code"], code, "{}", answer.text);
    &answer.body["error"]
}

fn message(id: &str, text: &str) -> Value {
    json!({ "message": { "messageId": id, "role": "ROLE_USER", "parts": [{ "text": text }] } })
}

/// A message to a task, or in a context.
fn message_to(id: &str, text: &str, task: &Value, context: &Value) -> Value {
    let mut message = message(id, text);
    (message["message"]["taskId"], message["message"]["contextId"]) = (task.clone(), context.clone());
    message
}

fn state(task: &Value) -> &str {
    task["status"]["state"].as_str().unwrap_or_default()
}

async fn runs(admin: &Client) -> Vec<Value> {
    admin.get("/api/admin/runs").await.is(200).as_array().unwrap().clone()
}

both_engines! {
    async fn a_message_starts_a_task_and_returns_its_answer(db: TestDb) {
        let model = ScriptedModel::default();
        let (_server, admin, caller, _runner) = serve(&db, &model).await;
        external(&admin, json!({ "systemPrompt": "You find." })).await;
        model.add("finder", [says("Found it.")]);
        let sent = rpc(&caller, "SendMessage", message("m1", "Find it.")).await;
        let task = &result(&sent)["task"];
        assert_eq!(state(task), "TASK_STATE_COMPLETED", "{task}");
        assert_eq!(task["artifacts"][0]["parts"], json!([{ "text": "Found it." }]));
        let said: Vec<_> = task["history"].as_array().unwrap().iter().map(|one| (&one["role"], &one["parts"][0]["text"])).collect();
        assert_eq!(said, [(&json!("ROLE_USER"), &json!("Find it.")), (&json!("ROLE_AGENT"), &json!("Found it."))]);
        let run = &runs(&admin).await[0];
        assert_eq!((&run["origin"], &run["id"]), (&json!("invoke"), &task["id"]));
        // The same with the other binding, and without a history.
        let got = rpc(&caller, "GetTask", json!({ "id": task["id"] })).await;
        assert_eq!(result(&got), task);
        let path = format!("{PATH}/v1/tasks/{}?historyLength=0", task["id"].as_str().unwrap());
        let got = request(&caller, Method::GET, &path, None).await;
        assert_eq!((got.status.as_u16(), &got.body["id"]), (200, &task["id"]), "{}", got.text);
        assert_eq!(got.headers[header::CONTENT_TYPE], "application/json");
        assert!(got.body.get("history").is_none() && got.body.get("artifacts").is_some(), "{}", got.text);
    }

    async fn the_http_binding_sends_and_names_its_errors(db: TestDb) {
        let model = ScriptedModel::default();
        let (_server, admin, caller, _runner) = serve(&db, &model).await;
        external(&admin, json!({})).await;
        model.add("finder", [says("Here.")]);
        let path = format!("{PATH}/v1/message:send");
        let sent = request(&caller, Method::POST, &path, Some(&message("m1", "Go."))).await;
        assert_eq!((sent.status.as_u16(), state(&sent.body["task"])), (200, "TASK_STATE_COMPLETED"), "{}", sent.text);
        let empty = json!({ "message": { "messageId": "m2", "role": "ROLE_USER", "parts": [] } });
        let refused = request(&caller, Method::POST, &path, Some(&empty)).await;
        let error = &refused.body["error"];
        assert_eq!((refused.status.as_u16(), &error["status"]), (400, &json!("INVALID_ARGUMENT")), "{}", refused.text);
        assert_eq!(error["details"][0]["fieldViolations"][0]["field"], "message.parts");
        let missing = format!("{PATH}/v1/tasks/01990000-0000-7000-8000-000000000001");
        let absent = request(&caller, Method::GET, &missing, None).await;
        let info = &absent.body["error"]["details"][0];
        assert_eq!((absent.status.as_u16(), &info["reason"]), (404, &json!("TASK_NOT_FOUND")), "{}", absent.text);
        assert_eq!(info["domain"], "a2a-protocol.org");
        for (method, path, status) in [(Method::GET, "nowhere", 404), (Method::PUT, "tasks", 405), (Method::GET, "message:send", 405)] {
            let unknown = request(&caller, method, &format!("{PATH}/v1/{path}"), None).await;
            assert_eq!((unknown.status.as_u16(), &unknown.body["error"]["code"]), (status, &json!(status)), "{}", unknown.text);
            assert_eq!(unknown.headers[header::CONTENT_TYPE], "application/json");
        }
        let malformed = caller.send(
            caller.request(Method::POST, &path).header("a2a-version", "1.0").header(header::CONTENT_TYPE, "application/json")
                .body(Body::from("{")).unwrap(),
        ).await;
        assert_eq!((malformed.status.as_u16(), &malformed.body["error"]["code"]), (400, &json!(400)), "{}", malformed.text);
        assert_eq!(runs(&admin).await.len(), 1);
    }

    async fn a_request_names_version_1_0(db: TestDb) {
        let model = ScriptedModel::default();
        let (_server, admin, caller, _runner) = serve(&db, &model).await;
        external(&admin, json!({})).await;
        let body = json!({ "jsonrpc": "2.0", "id": "a", "method": "ListTasks" });
        let without = caller.post(PATH, body.clone()).await;
        let error = failed(&without, -32009);
        assert_eq!((&without.body["id"], &error["data"][0]["reason"]), (&json!("a"), &json!("VERSION_NOT_SUPPORTED")));
        let old = caller.send(
            caller.request(Method::GET, &format!("{PATH}/v1/tasks")).header("a2a-version", "0.3").body(Body::empty()).unwrap(),
        ).await;
        assert_eq!((old.status.as_u16(), &old.body["error"]["details"][0]["reason"]), (400, &json!("VERSION_NOT_SUPPORTED")));
        caller.post(&format!("{PATH}?A2A-Version=1.0"), body).await.found();
        caller.get(&format!("{PATH}/v1/tasks?A2A-Version=1.0")).await.found();
    }

    async fn a_card_is_public_cached_and_only_of_described_external_agents(db: TestDb) {
        let model = ScriptedModel::default();
        let (server, admin, _caller, _runner) = serve(&db, &model).await;
        let anybody = server.client(None);
        let none = anybody.get("/.well-known/agent-card.json").await;
        none.refused(404, "not_found");
        assert!(none.text.contains("no agent of the project `default` has a card"), "{}", none.text);
        admin.agent("hidden", json!({ "visibility": "external" })).await;
        external(&admin, json!({ "acp": { "displayName": "The finder", "capabilities": ["search"] } })).await;
        for path in ["/.well-known/agent-card.json", "/a2a/default/finder/.well-known/agent-card.json"] {
            let card = anybody.get(path).await;
            assert_eq!((card.status.as_u16(), &card.body["name"]), (200, &json!("The finder")), "{}", card.text);
            let url = card.body["supportedInterfaces"][0]["url"].as_str().unwrap();
            assert!(url.ends_with("/a2a/default/finder"), "{url}");
            assert!(card.headers[header::CACHE_CONTROL].to_str().unwrap().contains("max-age"));
            let known = anybody.request(Method::GET, path).header(header::IF_NONE_MATCH, &card.headers[header::ETAG]);
            assert_eq!(anybody.send(known.body(Body::empty()).unwrap()).await.status, 304);
        }
        for (path, name) in [("default/hidden", "hidden"), ("default/nobody", "nobody"), ("elsewhere/finder", "finder")] {
            let absent = anybody.get(&format!("/a2a/{path}/.well-known/agent-card.json")).await;
            absent.refused(404, "not_found");
            // The same sentence for all of them, so that nobody learns which exist.
            let said = format!("agent `{name}` has no card: it is not external, has no `acp`, or does not exist");
            assert_eq!(absent.body["error"]["message"], said);
        }
    }

    async fn an_extended_card_is_for_callers_with_a_token(db: TestDb) {
        let model = ScriptedModel::default();
        let (server, admin, caller, _runner) = serve(&db, &model).await;
        let path = format!("{PATH}/v1/extendedAgentCard");
        let schema = json!({ "type": "object", "properties": { "found": { "type": "integer" } } });
        external(&admin, json!({ "outputSchema": schema })).await;
        let public = server.client(None).get(&format!("{PATH}/.well-known/agent-card.json")).await;
        assert_eq!(public.body["capabilities"]["extendedAgentCard"], true);
        assert!(!public.text.contains("outputSchema"), "{}", public.text);

        let over_http = request(&caller, Method::GET, &path, None).await;
        assert_eq!(over_http.status, 200, "{}", over_http.text);
        assert!(over_http.headers[header::CACHE_CONTROL].to_str().unwrap().contains("private"));
        assert_eq!(result(&rpc(&caller, "GetExtendedAgentCard", json!({})).await), &over_http.body);
        let card = &over_http.body;
        assert_eq!(card["supportedInterfaces"], public.body["supportedInterfaces"]);
        let extensions = &card["capabilities"]["extensions"];
        assert_eq!(extensions[0]["params"]["outputSchema"], schema, "{card}");
        assert!(extensions[1]["params"]["startsPerMinute"].is_u64(), "{card}");

        assert_eq!(request(&server.client(None), Method::GET, &path, None).await.status, 401);
        let reader = server.client(Some(&server.token(&[Scope::AdminRead], Some(server.default_project)).await));
        assert_eq!(request(&reader, Method::GET, &path, None).await.status, 403);
        admin.agent("hidden", json!({ "visibility": "external" })).await;
        let none = request(&caller, Method::GET, "/a2a/default/hidden/v1/extendedAgentCard", None).await;
        assert_eq!((none.status.as_u16(), &none.body["error"]["status"]), (400, &json!("FAILED_PRECONDITION")));
    }

    async fn tokens_of_other_projects_and_others_tasks_are_kept_apart(db: TestDb) {
        let model = ScriptedModel::default();
        let (server, admin, caller, _runner) = serve(&db, &model).await;
        external(&admin, json!({})).await;
        model.add("finder", [says("Mine.")]);
        let task = result(&rpc(&caller, "SendMessage", message("m1", "Go.")).await)["task"].clone();
        let elsewhere = server.project("elsewhere").await;
        let stranger = server.client(Some(&server.token(&[Scope::AgentsInvoke], Some(elsewhere)).await));
        assert_eq!(rpc(&stranger, "GetTask", json!({ "id": task["id"] })).await.status, 404);
        let neighbour = server.client(Some(&server.token(&[Scope::AgentsInvoke], Some(server.default_project)).await));
        failed(&rpc(&neighbour, "GetTask", json!({ "id": task["id"] })).await, -32001);
        failed(&rpc(&neighbour, "CancelTask", json!({ "id": task["id"] })).await, -32001);
        assert_eq!(result(&rpc(&neighbour, "ListTasks", json!({})).await)["totalSize"], 0);
        let context = message_to("m2", "Go on.", &Value::Null, &task["contextId"]);
        failed(&rpc(&neighbour, "SendMessage", context).await, -32602);
        let reader = [Scope::AgentsInvoke, Scope::AdminRead];
        let reader = server.client(Some(&server.token(&reader, Some(server.default_project)).await));
        assert_eq!(result(&rpc(&reader, "GetTask", json!({ "id": task["id"] })).await)["id"], task["id"]);
        failed(&rpc(&reader, "SendMessage", message_to("m3", "Go.", &task["id"], &Value::Null)).await, -32001);
        let anybody = rpc(&server.client(None), "GetTask", json!({ "id": task["id"] })).await;
        assert_eq!((anybody.status.as_u16(), &anybody.body["jsonrpc"]), (401, &json!("2.0")), "{}", anybody.text);
    }

    async fn what_is_not_a_request_of_the_protocol_is_refused(db: TestDb) {
        let model = ScriptedModel::default();
        let (_server, admin, caller, _runner) = serve(&db, &model).await;
        external(&admin, json!({ "tools": ["project_info"] })).await;
        failed(&rpc(&caller, "tasks/get", json!({})).await, -32601);
        failed(&rpc(&caller, "GetTask", json!({})).await, -32602);
        failed(&rpc(&caller, "GetTask", json!({ "id": "made-up" })).await, -32001);
        failed(&rpc(&caller, "ListTasks", json!({ "pageSize": 0 })).await, -32602);
        failed(&rpc(&caller, "ListTasks", json!({ "status": "TASK_STATE_RUNNING" })).await, -32602);
        failed(&rpc(&caller, "ListTaskPushNotificationConfigs", json!({ "taskId": "x" })).await, -32001);
        let file = json!({ "message": { "messageId": "m", "role": "ROLE_USER", "parts": [{ "url": "https://example.com/a" }] } });
        failed(&rpc(&caller, "SendMessage", file).await, -32005);
        let made_up = message_to("m", "Go.", &json!("01990000-0000-7000-8000-000000000001"), &Value::Null);
        failed(&rpc(&caller, "SendMessage", made_up).await, -32001);
        let unknown = message_to("m", "Go.", &Value::Null, &json!("01990000-0000-7000-8000-000000000001"));
        failed(&rpc(&caller, "SendMessage", unknown).await, -32602);
        assert!(runs(&admin).await.is_empty());
    }

    async fn the_same_message_is_accepted_once(db: TestDb) {
        let model = ScriptedModel::default();
        let (_server, admin, caller, _runner) = serve(&db, &model).await;
        external(&admin, json!({ "tools": ["ask_user"] })).await;
        model.add("finder", [says("Once."), says("Twice."), calls("ask_user", json!({ "question": "Which?" })), says("That.")]);
        let (first, second) = tokio::join!(
            rpc(&caller, "SendMessage", message("m1", "Go.")),
            rpc(&caller, "SendMessage", message("m1", "Go."))
        );
        let task = &result(&first)["task"];
        assert_eq!(&result(&second)["task"]["id"], &task["id"]);
        let other = rpc(&caller, "SendMessage", message("m1", "Something else.")).await;
        assert_eq!(failed(&other, -32602)["data"][0]["fieldViolations"][0]["field"], "message.messageId");
        // In a context.
        let next = message_to("m2", "Again.", &Value::Null, &task["contextId"]);
        let (first, second) = (rpc(&caller, "SendMessage", next.clone()).await, rpc(&caller, "SendMessage", next).await);
        assert_eq!(result(&first)["task"]["id"], result(&second)["task"]["id"]);
        assert_ne!(result(&first)["task"]["id"], task["id"]);
        assert_eq!(runs(&admin).await.len(), 2);
        // The answer to a question.
        let asked = rpc(&caller, "SendMessage", message("m3", "Choose.")).await;
        let asked = &result(&asked)["task"];
        let answer = message_to("m4", "The first.", &asked["id"], &asked["contextId"]);
        for _ in 0..2 {
            let answered = rpc(&caller, "SendMessage", answer.clone()).await;
            assert_eq!(state(&result(&answered)["task"]), "TASK_STATE_COMPLETED", "{}", answered.text);
        }
        assert_eq!(runs(&admin).await.len(), 3);
    }
}

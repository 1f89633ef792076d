//! Push notifications: the updates of a task at an address of its client.

use super::{
    PATH, both_engines, calls, external, failed, message, message_to, request, result, rpc, runs, says,
    serve as serve_public_only, state,
};
use crate::common::{Client, Server};

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use axum::{
    Router,
    body::Bytes,
    extract::State,
    http::{HeaderMap, Method, StatusCode},
    routing::post,
};
use emergent_api::AppOptions;
use emergent_domain::token::Scope;
use emergent_executor::Settings;
use emergent_testkit::{TestDb, scripted::ScriptedModel};
use serde_json::{Value, json};
use tokio::{sync::watch, task::JoinHandle};

#[derive(Default)]
struct Received {
    updates: Vec<(HeaderMap, Value)>,
    /// How many requests are refused before others are accepted.
    refusals: usize,
}

/// A client that receives updates.
struct Receiver {
    url: String,
    received: Arc<Mutex<Received>>,
    task: JoinHandle<()>,
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn receive(
    State(received): State<Arc<Mutex<Received>>>,
    headers: HeaderMap,
    body: Bytes,
) -> StatusCode {
    let mut received = received.lock().unwrap();
    if received.refusals > 0 {
        received.refusals -= 1;
        return StatusCode::INTERNAL_SERVER_ERROR;
    }
    received.updates.push((headers, serde_json::from_slice(&body).unwrap()));
    StatusCode::OK
}

/// An update in one line.
fn line(update: &Value) -> String {
    let short = |task: &Value| state(task).trim_start_matches("TASK_STATE_").to_owned();
    if let Some(task) = update.get("task") {
        return format!("task {}", short(task));
    }
    match update.get("statusUpdate") {
        Some(update) => {
            let text = update["status"]["message"]["parts"][0]["text"].as_str().unwrap_or_default();
            format!("{} {text}", short(update)).trim_end().to_owned()
        }
        None => update["artifactUpdate"]["artifact"]["parts"][0]["text"].as_str().unwrap().to_owned(),
    }
}

impl Receiver {
    async fn start(refusals: usize) -> Self {
        let received = Arc::new(Mutex::new(Received { refusals, ..Received::default() }));
        let app = Router::new().route("/hook", post(receive)).with_state(Arc::clone(&received));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/hook", listener.local_addr().unwrap());
        let task = tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
        Self { url, received, task }
    }

    fn lines(&self) -> Vec<String> {
        self.received.lock().unwrap().updates.iter().map(|(_, update)| line(update)).collect()
    }

    /// Waits until an update was received, and returns all.
    async fn until(&self, wanted: &str) -> Vec<String> {
        for _ in 0..1_500 {
            let lines = self.lines();
            if lines.iter().any(|line| line == wanted) {
                return lines;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("`{wanted}` was not received: {:?}", self.lines());
    }

    fn config(&self) -> Value {
        let authentication = json!({ "scheme": "Bearer", "credentials": "credentials-of-the-client" });
        json!({ "url": self.url, "token": "token-of-the-client", "authentication": authentication })
    }
}

/// A server that may reach private addresses, and delivers.
async fn serve(db: &TestDb, model: &ScriptedModel) -> (Server, Client, Client, [watch::Sender<bool>; 2]) {
    let settings = Settings { allow_private_hosts: true, ..Settings::default() };
    let server = Server::with_settings(db, model.models(), AppOptions::default(), settings).await;
    let stops = [server.drive(), deliver(&server)];
    let admin = server.admin();
    let token = server.token(&[Scope::AgentsInvoke], Some(server.default_project)).await;
    let caller = server.client(Some(&token));
    (server, admin, caller, stops)
}

/// Delivers until the result is dropped.
fn deliver(server: &Server) -> watch::Sender<bool> {
    let (stop, stopping) = watch::channel(false);
    let app = server.app.clone();
    tokio::spawn(async move { app.run_a2a_push(stopping).await });
    stop
}

fn with_push(mut message: Value, config: Value) -> Value {
    message["configuration"] = json!({ "taskPushNotificationConfig": config, "returnImmediately": true });
    message
}

both_engines! {
    async fn the_updates_of_a_task_are_sent_in_order_with_the_headers_of_the_client(db: TestDb) {
        let model = ScriptedModel::default();
        let (_server, admin, caller, _stops) = serve(&db, &model).await;
        external(&admin, json!({ "tools": ["ask_user"] })).await;
        model.add("finder", [calls("ask_user", json!({ "question": "Which?" })), says("That one.")]);
        let receiver = Receiver::start(0).await;
        let sent = rpc(&caller, "SendMessage", with_push(message("m1", "Go."), receiver.config())).await;
        let task = result(&sent)["task"].clone();
        // The same message again sets the same configuration.
        result(&rpc(&caller, "SendMessage", with_push(message("m1", "Go."), receiver.config())).await);
        let listed = rpc(&caller, "ListTaskPushNotificationConfigs", json!({ "taskId": task["id"] })).await;
        assert_eq!(result(&listed)["configs"].as_array().unwrap().len(), 1, "{}", listed.text);
        let answer = |lines: &[String]| lines.iter().any(|line| line.starts_with("task") && line.ends_with("INPUT_REQUIRED") || line == "INPUT_REQUIRED Which?");
        for _ in 0..1_500 {
            if answer(&receiver.lines()) {
                break;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        assert!(answer(&receiver.lines()), "{:?}", receiver.lines());
        result(&rpc(&caller, "SendMessage", message_to("m2", "This.", &task["id"], &Value::Null)).await);
        let lines = receiver.until("COMPLETED").await;
        assert_eq!(lines[lines.len() - 3..], ["WORKING", "That one.", "COMPLETED"], "{lines:?}");
        let received = receiver.received.lock().unwrap();
        for (headers, update) in &received.updates {
            assert_eq!(headers["x-a2a-notification-token"], "token-of-the-client");
            assert_eq!(headers["authorization"], "Bearer credentials-of-the-client");
            assert_eq!(headers["content-type"], "application/a2a+json");
            assert!(update.to_string().contains(task["id"].as_str().unwrap()), "{update}");
        }
    }

    async fn an_update_that_was_not_accepted_is_sent_again_also_by_another_server(db: TestDb) {
        let model = ScriptedModel::default();
        let (server, admin, caller, [runner, delivery]) = serve(&db, &model).await;
        external(&admin, json!({})).await;
        model.add("finder", [says("Done.")]);
        let receiver = Receiver::start(2).await;
        drop(delivery);
        let sent = rpc(&caller, "SendMessage", with_push(message("m1", "Go."), receiver.config())).await;
        let task = result(&sent)["task"].clone();
        admin.ended(task["id"].as_str().unwrap()).await;
        drop(runner);
        drop(server);
        let (_other, _, _, _stops) = serve(&db, &model).await;
        let lines = receiver.until("task COMPLETED").await;
        assert_eq!(lines, ["task COMPLETED"]);
        assert_eq!(receiver.received.lock().unwrap().refusals, 0);
    }

    async fn a_paused_task_goes_on_and_so_do_its_updates(db: TestDb) {
        let model = ScriptedModel::default();
        let (_server, admin, caller, _stops) = serve(&db, &model).await;
        external(&admin, json!({ "tools": ["project_info"], "maxSteps": 1 })).await;
        model.add("finder", [calls("project_info", json!({})), says("Half."), says("All of it.")]);
        let paused = result(&rpc(&caller, "SendMessage", message("m1", "All.")).await)["task"].clone();
        let receiver = Receiver::start(0).await;
        let path = format!("{PATH}/v1/tasks/{}/pushNotificationConfigs", paused["id"].as_str().unwrap());
        let set = request(&caller, Method::POST, &path, Some(&json!({ "url": receiver.url, "id": "c1" }))).await;
        assert_eq!((set.status.as_u16(), &set.body["id"], &set.body["taskId"]), (200, &json!("c1"), &paused["id"]), "{}", set.text);
        assert_eq!(receiver.until("task INPUT_REQUIRED").await.len(), 1);
        result(&rpc(&caller, "SendMessage", message_to("m2", "The rest.", &paused["id"], &Value::Null)).await);
        let lines = receiver.until("COMPLETED").await;
        assert_eq!(lines[1..], ["WORKING", "All of it.", "COMPLETED"], "{lines:?}");
        let received = receiver.received.lock().unwrap();
        let headers = &received.updates[0].0;
        assert!(!headers.contains_key("authorization") && !headers.contains_key("x-a2a-notification-token"));
    }

    async fn configurations_are_set_read_and_deleted_in_both_bindings(db: TestDb) {
        let model = ScriptedModel::default();
        let (server, admin, caller, _stops) = serve(&db, &model).await;
        external(&admin, json!({})).await;
        model.add("finder", [says("Done.")]);
        let receiver = Receiver::start(0).await;
        let task = result(&rpc(&caller, "SendMessage", message("m1", "Go.")).await)["task"]["id"].clone();
        let mut config = receiver.config();
        (config["taskId"], config["id"]) = (task.clone(), json!("a b/c"));
        let set = rpc(&caller, "CreateTaskPushNotificationConfig", config.clone()).await;
        let shown = json!({ "id": "a b/c", "taskId": task, "url": receiver.url, "authentication": { "scheme": "Bearer" } });
        assert_eq!(result(&set), &shown);
        // Neither the database nor an answer has the token or the credentials.
        let got = rpc(&caller, "GetTaskPushNotificationConfig", json!({ "taskId": task, "id": "a b/c" })).await;
        assert_eq!(result(&got), &shown);
        let folder = format!("{PATH}/v1/tasks/{}/pushNotificationConfigs", task.as_str().unwrap());
        let listed = request(&caller, Method::GET, &folder, None).await;
        assert_eq!(listed.body, json!({ "configs": [shown], "nextPageToken": "" }), "{}", listed.text);
        let neighbour = server.client(Some(&server.token(&[Scope::AgentsInvoke, Scope::AdminRead], Some(server.default_project)).await));
        failed(&rpc(&neighbour, "ListTaskPushNotificationConfigs", json!({ "taskId": task })).await, -32001);
        failed(&rpc(&neighbour, "CreateTaskPushNotificationConfig", config.clone()).await, -32001);
        failed(&rpc(&neighbour, "DeleteTaskPushNotificationConfig", json!({ "taskId": task, "id": "a b/c" })).await, -32001);
        for _ in 0..2 {
            let deleted = request(&caller, Method::DELETE, &format!("{folder}/a%20b%2Fc"), None).await;
            assert_eq!((deleted.status.as_u16(), &deleted.body), (200, &json!({})), "{}", deleted.text);
        }
        let absent = request(&caller, Method::GET, &format!("{folder}/a%20b%2Fc"), None).await;
        assert_eq!(absent.status, 404, "{}", absent.text);
        for number in 0..10 {
            config["id"] = json!(format!("c{number}"));
            result(&rpc(&caller, "CreateTaskPushNotificationConfig", config.clone()).await);
        }
        // One of the ten is replaced; an eleventh is refused.
        result(&rpc(&caller, "CreateTaskPushNotificationConfig", config.clone()).await);
        config["id"] = json!("c10");
        failed(&rpc(&caller, "CreateTaskPushNotificationConfig", config).await, -32602);
    }

    async fn an_address_that_must_not_be_reached_is_refused_before_anything_starts(db: TestDb) {
        let model = ScriptedModel::default();
        let (_server, admin, caller, _runner) = serve_public_only(&db, &model).await;
        external(&admin, json!({})).await;
        model.add("finder", [says("Done.")]);
        for url in ["http://127.0.0.1:1/hook", "http://[::1]/hook", "http://169.254.169.254/", "file:///etc/passwd", "nothing"] {
            let refused = rpc(&caller, "SendMessage", with_push(message("m1", "Go."), json!({ "url": url }))).await;
            let field = &failed(&refused, -32602)["data"][0]["fieldViolations"][0]["field"];
            assert_eq!(field, "configuration.taskPushNotificationConfig.url", "{url}");
        }
        assert!(runs(&admin).await.is_empty());
        let task = result(&rpc(&caller, "SendMessage", message("m1", "Go.")).await)["task"]["id"].clone();
        let config = json!({ "taskId": task, "url": "http://10.0.0.1/hook" });
        failed(&rpc(&caller, "CreateTaskPushNotificationConfig", config).await, -32602);
    }

    async fn nothing_is_sent_for_a_token_that_was_revoked(db: TestDb) {
        let model = ScriptedModel::default();
        let (server, admin, _caller, _stops) = serve(&db, &model).await;
        let agent = external(&admin, json!({ "tools": ["ask_user"] })).await;
        model.add("finder", [calls("ask_user", json!({ "question": "Which?" })), says("That one.")]);
        let scopes = [Scope::AgentsInvoke].into_iter().collect();
        let (token, secret) = server.graph.create_token("gone", scopes, Some(server.default_project), None).await.unwrap();
        let caller = server.client(Some(&secret));
        let receiver = Receiver::start(0).await;
        let task = result(&rpc(&caller, "SendMessage", message("m1", "Go.")).await)["task"]["id"].clone();
        let config = json!({ "taskId": task, "url": receiver.url });
        result(&rpc(&caller, "CreateTaskPushNotificationConfig", config).await);
        assert_eq!(receiver.until("task INPUT_REQUIRED").await.len(), 1);
        server.graph.revoke_token(None, token.id).await.unwrap();
        let run = task.as_str().unwrap();
        admin.post(&format!("/api/admin/agents/{agent}/runs/{run}/cancel"), json!({})).await.found();
        admin.ended(task.as_str().unwrap()).await;
        tokio::time::sleep(Duration::from_millis(500)).await;
        assert_eq!(receiver.lines(), ["task INPUT_REQUIRED"]);
    }
}

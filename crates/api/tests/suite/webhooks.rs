//! Notices of discussions without a decision and of escalated workflows, as another system receives them.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use axum::{Router, body::Bytes, extract::State, http::HeaderMap, routing::post};
use emergent_coordination::create::NewWorkflow;
use emergent_domain::{
    author::Author, ids::WorkflowId, task::NewTask, time::Clock, workflow::WorkflowSettings,
};
use emergent_executor::webhooks::{SIGNATURE_HEADER, ServerWebhook, TIMESTAMP_HEADER, WebhookSettings, sign};
use emergent_graph::Actor;
use emergent_secrets::{KeySource, Secret, Secrets};
use emergent_testkit::{
    TestDb, both_engines,
    scripted::{ScriptedModel, fails, says},
};
use serde_json::{Value, json};
use tokio::{sync::watch, task::JoinHandle};

use crate::common::Server;

const KEY: &str = "a key of the operator";

/// A program that receives notices, and checks who signed them.
struct Receiver {
    notices: Arc<Mutex<Vec<Value>>>,
    task: JoinHandle<()>,
    _stop: watch::Sender<bool>,
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn receive(State(notices): State<Arc<Mutex<Vec<Value>>>>, headers: HeaderMap, body: Bytes) {
    let header = |name: &str| headers[name].to_str().unwrap().to_owned();
    let timestamp = header(TIMESTAMP_HEADER).parse().unwrap();
    assert_eq!(header(SIGNATURE_HEADER), sign(KEY.as_bytes(), timestamp, &body));
    notices.lock().unwrap().push(serde_json::from_slice(&body).unwrap());
}

impl Receiver {
    /// Starts to deliver the notices of a server, and to receive them.
    async fn start(db: &TestDb, server: &Server) -> Self {
        let notices: Arc<Mutex<Vec<Value>>> = Arc::default();
        let app = Router::new().route("/hook", post(receive)).with_state(Arc::clone(&notices));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/hook", listener.local_addr().unwrap());
        let task = tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
        let keys = KeySource::from_env_value("dGhlIGtleSBvZiB0aGUgdGVzdHMgb2YgdGhlIEFQSSE=").unwrap();
        let secrets = Secrets::open(db.db.clone(), Clock::system(), keys, Default::default()).await.unwrap();
        server.executor.set_server_webhook(true).await.unwrap();
        let hook = ServerWebhook { url, secret: Secret::new(KEY.into()) };
        let (stop, stopping) = watch::channel(false);
        let executor = server.executor.clone();
        let settings = WebhookSettings { secrets, server: Some(hook) };
        tokio::spawn(async move { executor.run_webhooks(settings, stopping).await });
        Self { notices, task, _stop: stop }
    }

    /// Whether there was a notice about the item.
    fn has(&self, kind: &str, id: &str) -> bool {
        let notices = self.notices.lock().unwrap();
        notices.iter().any(|notice| notice["item"]["kind"] == kind && notice["item"]["id"] == id)
    }

    /// Waits for a notice with this kind and status about the item, and returns it.
    async fn notice(&self, kind: &str, id: &str, status: &str) -> Value {
        let is_wanted = |notice: &&Value| {
            let item = &notice["item"];
            (item["kind"].as_str(), item["id"].as_str(), item["status"].as_str())
                == (Some(kind), Some(id), Some(status))
        };
        for _ in 0..1_000 {
            if let Some(notice) = self.notices.lock().unwrap().iter().find(is_wanted) {
                return notice.clone();
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("no notice of {kind} {id} {status}: {:?}", self.notices.lock().unwrap());
    }
}

/// A model whose reviewer never agrees, so that the discussion ends without a decision.
pub fn disagreeing() -> ScriptedModel {
    let proposals: Vec<_> = (0..12).map(|number| says(format!("Proposal {number}."))).collect();
    let refusals: Vec<_> = (0..12).map(|_| says("SUGGEST_CHANGES: not like that.")).collect();
    ScriptedModel::default().agent("writer", proposals).agent("researcher", refusals)
}

/// Starts a workflow with a discussion, and returns both when a person has to decide.
pub async fn escalated(server: &Server) -> (WorkflowId, String) {
    let task = NewTask {
        key: "design".into(),
        title: "The design".into(),
        description: "Do the design.".into(),
        assigned_agent: Some("writer".into()),
        requires_collaboration: true,
        collaborators: vec!["researcher".into()],
        ..NewTask::default()
    };
    let new = NewWorkflow {
        description: "a design".into(),
        settings: WorkflowSettings::default(),
        tasks: vec![task],
    };
    let actor = Actor { project: server.default_project, author: Author::System };
    let id = server.app.dispatcher.dispatch(actor, new).await.unwrap().id;
    let client = server.admin();
    for _ in 0..1_000 {
        let shown = client.get(&format!("/api/coordination/workflows/{id}")).await.is(200).clone();
        if shown["status"] == "escalated" {
            let listed = client.get("/api/approvals?status=pending&kind=discussion").await.is(200).clone();
            return (id, listed[0]["id"].as_str().expect("a discussion in the inbox").to_owned());
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("the workflow is not escalated");
}

both_engines! {
    async fn other_systems_are_told_of_discussions_and_escalations_until_they_need_nobody(db: TestDb) {
        let failures = (0..8).map(|_| fails(emergent_llm::Error::Config("out of order".to_owned())));
        let models = disagreeing().agent("broken", failures).models();
        let server = Server::with_models(&db, 1_024, models).await;
        let receiver = Receiver::start(&db, &server).await;
        let _working = server.dispatch();
        let client = server.admin();
        client.agent("writer", json!({})).await;
        client.agent("researcher", json!({})).await;

        let (workflow, discussion) = escalated(&server).await;
        let created = receiver.notice("discussion", &discussion, "pending").await;
        assert_eq!((&created["type"], &created["projectId"]), (&json!("item_created"), &json!(server.default_project)));
        assert!(!created["item"]["title"].as_str().unwrap().is_empty(), "the topic");
        let decision = json!({ "decision": "Take the second proposal." });
        client.post(&format!("/api/coordination/discussions/{discussion}/decide"), decision).await.is(200);
        let decided = receiver.notice("discussion", &discussion, "decided").await;
        assert_eq!(decided["type"], "item_decided");
        assert!(!decided.to_string().contains("second proposal"), "the decision stays here");
        assert!(!receiver.has("escalation", &workflow.to_string()), "the discussion is all that is asked");

        let (workflow, discussion) = escalated(&server).await;
        receiver.notice("discussion", &discussion, "pending").await;
        client.post(&format!("/api/coordination/workflows/{workflow}/cancel"), json!({})).await.is(200);
        receiver.notice("discussion", &discussion, "withdrawn").await;

        // A workflow whose task failed is told of itself.
        client.agent("broken", json!({})).await;
        let task = json!({ "key": "a", "title": "A", "assignedAgent": "broken", "maxRetries": 0 });
        let started = client.post("/api/coordination/dispatch", json!({ "tasks": [task] })).await.is(202).clone();
        let workflow = started["workflowId"].as_str().unwrap().to_owned();
        let created = receiver.notice("escalation", &workflow, "pending").await;
        assert_eq!(created["type"], "item_created");
        assert!(created["item"]["title"].as_str().unwrap().contains("task `a` failed"), "{created}");
        client.post(&format!("/api/coordination/workflows/{workflow}/cancel"), json!({})).await.is(200);
        receiver.notice("escalation", &workflow, "withdrawn").await;
    }

    async fn other_systems_are_told_once_of_each_change_of_a_discussion_that_no_workflow_conducts(db: TestDb) {
        let server = Server::start(&db).await;
        let receiver = Receiver::start(&db, &server).await;
        let client = server.admin();
        let properties = json!({ "topic": "lunch", "status": "escalated" });
        let discussion = client.object("Discussion", "d", properties).await;
        assert_eq!(receiver.notice("discussion", &discussion, "pending").await["item"]["title"], "lunch");
        let object = format!("/api/graph/objects/{discussion}");
        client.patch(&object, json!({ "properties": { "topic": "dinner" } })).await.is(200);
        client.patch(&object, json!({ "properties": { "status": "active" } })).await.is(200);
        receiver.notice("discussion", &discussion, "withdrawn").await;
        client.patch(&object, json!({ "properties": { "status": "abandoned" } })).await.is(200);
        client.patch(&object, json!({ "properties": { "status": "escalated" } })).await.is(200);
        let body = json!({ "decision": "answer", "answer": "soup" });
        client.post(&format!("/api/approvals/{discussion}/decide"), body).await.is(200);
        receiver.notice("discussion", &discussion, "decided").await;
        let told = || -> Vec<String> {
            let told = receiver.notices.lock().unwrap();
            let about = |notice: &Value| format!("{} {}", notice["item"]["status"], notice["item"]["title"]);
            let mut told: Vec<String> = told.iter().map(about).collect();
            told.sort_unstable();
            told
        };
        // Notices can arrive in another order.
        for _ in 0..1_000 {
            if told().len() >= 4 {
                break;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let expected = [r#""decided" "dinner""#, r#""pending" "dinner""#, r#""pending" "lunch""#, r#""withdrawn" "lunch""#];
        assert_eq!(told(), expected);
    }
}

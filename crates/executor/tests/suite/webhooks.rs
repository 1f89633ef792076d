//! Notices of the inbox: a receiver gets each of them signed, as often as it takes, and nobody else does.

use crate::support;

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use emergent_domain::{
    approval::{ApprovalStatus, Choice, NewDecision},
    cursor::Page,
    ids::{ObjectId, RunId, TokenId},
    inbox::{InboxItem, InboxItemKind, InboxNotice, Webhook},
    project::ProjectPatch,
    redact::Redactor,
    run::RunStatus,
    time::{Clock, Timestamp},
};
use emergent_executor::{
    Settings,
    approvals::ApprovalFilter,
    webhooks::{DELIVERY_HEADER, SIGNATURE_HEADER, ServerWebhook, TIMESTAMP_HEADER, WebhookSettings, sign},
};
use emergent_secrets::{KeySource, Secret, Secrets};
use emergent_store::{Tx, params};
use emergent_testkit::{
    TestDb, both_engines,
    scripted::{ScriptedModel, calls, says},
};
use serde_json::{Value, json};
use support::{Harness, HarnessOptions, until, with_tools};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
    sync::watch,
    task::JoinHandle,
};

/// A request that the receiver got.
#[derive(Debug, Clone)]
struct Delivery {
    path: String,
    id: String,
    timestamp: i64,
    signature: String,
    body: Vec<u8>,
}

impl Delivery {
    fn is_signed_with(&self, secret: &str) -> bool {
        self.signature == sign(secret.as_bytes(), self.timestamp, &self.body)
    }

    fn notice(&self) -> Value {
        serde_json::from_slice(&self.body).expect("the body is JSON")
    }
}

/// An HTTP server that refuses the first requests and accepts the others.
struct Receiver {
    url: String,
    deliveries: Arc<Mutex<Vec<Delivery>>>,
    task: JoinHandle<()>,
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Receiver {
    async fn start(failures: usize) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/hooks/inbox?team=1", listener.local_addr().unwrap());
        let deliveries: Arc<Mutex<Vec<Delivery>>> = Arc::default();
        let received = Arc::clone(&deliveries);
        let task = tokio::spawn(async move {
            loop {
                let Ok((mut socket, _)) = listener.accept().await else { return };
                let Some(delivery) = read_request(&mut socket).await else { continue };
                let number = {
                    let mut received = received.lock().unwrap();
                    received.push(delivery);
                    received.len()
                };
                let status = if number <= failures { "503 Service Unavailable" } else { "204 No Content" };
                let response = format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
                let _ = socket.write_all(response.as_bytes()).await;
            }
        });
        Self { url, deliveries, task }
    }

    fn deliveries(&self) -> Vec<Delivery> {
        self.deliveries.lock().unwrap().clone()
    }
}

/// A server that accepts connections and never answers.
struct Hanging {
    url: String,
    connections: Arc<Mutex<Vec<tokio::net::TcpStream>>>,
    task: JoinHandle<()>,
}

impl Drop for Hanging {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Hanging {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        let connections: Arc<Mutex<Vec<tokio::net::TcpStream>>> = Arc::default();
        let accepted = Arc::clone(&connections);
        let task = tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                accepted.lock().unwrap().push(socket);
            }
        });
        Self { url, connections, task }
    }

    fn connections(&self) -> usize {
        self.connections.lock().unwrap().len()
    }
}

async fn read_request(socket: &mut tokio::net::TcpStream) -> Option<Delivery> {
    let mut bytes = Vec::new();
    let head_end = loop {
        if let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            break end;
        }
        if socket.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    };
    let head = String::from_utf8(bytes[..head_end].to_vec()).unwrap();
    let header = |name: &str| {
        let found = head.lines().find_map(|line| {
            let (key, value) = line.split_once(':')?;
            key.eq_ignore_ascii_case(name).then(|| value.trim().to_owned())
        });
        found.unwrap_or_else(|| panic!("the header {name} in {head}"))
    };
    let length: usize = header("content-length").parse().unwrap();
    while bytes.len() < head_end + 4 + length {
        if socket.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    }
    assert_eq!(header("content-type"), "application/json");
    Some(Delivery {
        path: head.split(' ').nth(1).unwrap().to_owned(),
        id: header(DELIVERY_HEADER),
        timestamp: header(TIMESTAMP_HEADER).parse().unwrap(),
        signature: header(SIGNATURE_HEADER),
        body: bytes[head_end + 4..].to_vec(),
    })
}

async fn secrets(db: &TestDb, folder: &tempfile::TempDir) -> Secrets {
    let keys = KeySource::from_file(folder.path().join("secret-key"));
    Secrets::open(db.db.clone(), Clock::system(), keys, Redactor::default()).await.unwrap()
}

/// Delivers notices until the sender is dropped.
fn deliver(harness: &Harness, settings: WebhookSettings) -> watch::Sender<bool> {
    let (stop, stopping) = watch::channel(false);
    let executor = harness.executor.clone();
    tokio::spawn(async move { executor.run_webhooks(settings, stopping).await });
    stop
}

fn question() -> ScriptedModel {
    ScriptedModel::new([calls("ask_user", json!({ "question": "Which colour?" })), says("Blue, then.")])
}

/// Starts a run, and waits until it waits.
async fn waiting_run(harness: &Harness) -> RunId {
    let agent = harness.agent(with_tools("asker", &["ask_user"])).await;
    let run = harness.start(&agent, "Paint it.").await.id;
    until("the run waits", async || {
        harness.executor.get_run(harness.project, run).await.unwrap().status == RunStatus::Waiting
    })
    .await;
    run
}

both_engines! {
    async fn a_notice_is_signed_and_sent_with_the_same_id_until_it_is_accepted(db: TestDb) {
        let folder = tempfile::tempdir().unwrap();
        let receiver = Receiver::start(2).await;
        let clock = Clock::fixed_at(Timestamp::now());
        let harness = Harness::with(&db, HarnessOptions { clock: clock.clone(), ..HarnessOptions::new(question()) }).await;
        harness.executor.set_server_webhook(true).await.unwrap();
        let run = waiting_run(&harness).await;
        // Written with the request: it waits for whoever delivers it.
        assert_eq!(harness.executor.count_webhook_deliveries().await.unwrap(), (1, 0, None));
        let server = Some(ServerWebhook { url: receiver.url.clone(), secret: Secret::new("a key of the operator".into()) });
        let stop = deliver(&harness, WebhookSettings { secrets: secrets(&db, &folder).await, server });
        until("the third attempt is accepted", async || {
            clock.advance(Duration::from_millis(100));
            receiver.deliveries().len() >= 3 && harness.executor.count_webhook_deliveries().await.unwrap().0 == 0
        }).await;
        let attempts = receiver.deliveries();
        assert_eq!(attempts.len(), 3);
        assert!(attempts.iter().all(|one| one.is_signed_with("a key of the operator") && one.path == "/hooks/inbox?team=1"));
        assert!(!attempts[0].is_signed_with("another key"));
        assert!(attempts.iter().all(|one| one.id == attempts[0].id && one.body == attempts[0].body));
        let notice = attempts[0].notice();
        assert_eq!((&notice["type"], &notice["id"]), (&json!("item_created"), &json!(attempts[0].id)));
        assert_eq!((&notice["item"]["kind"], &notice["item"]["title"]), (&json!("question"), &json!("Which colour?")));
        assert_eq!(notice["item"]["runId"], run.to_string());
        let filter = ApprovalFilter { status: Some(ApprovalStatus::Pending), ..Default::default() };
        let request = harness.executor.list_approvals(harness.project, filter, Page::first(1)).await.unwrap().items.remove(0);
        let answer = NewDecision {
            choice: Choice::Answer, edited_input: None, answer: Some(json!("blue")), reason: None, digest: None,
        };
        harness.executor.decide_approval(harness.project, request.id, answer, TokenId::new()).await.unwrap();
        until("the decision is told", async || receiver.deliveries().len() >= 4).await;
        let decided = receiver.deliveries().remove(3);
        assert_ne!(decided.id, attempts[0].id, "another delivery");
        let notice = decided.notice();
        assert_eq!((&notice["type"], &notice["item"]["status"]), (&json!("item_decided"), &json!("decided")));
        assert_eq!(notice["item"]["id"], request.id.to_string());
        assert!(!String::from_utf8(decided.body).unwrap().contains("blue"), "the answer stays here");
        drop(stop);
        harness.close().await;
    }

    async fn a_project_signs_with_its_own_secret_and_reaches_private_addresses_only_if_that_is_allowed(db: TestDb) {
        let folder = tempfile::tempdir().unwrap();
        let (receiver, secrets) = (Receiver::start(0).await, secrets(&db, &folder).await);
        let harness = Harness::open(&db, question()).await;
        let project = harness.project;
        let graph = harness.executor.graph();
        let hook = |secret: &str| ProjectPatch {
            webhook: Some(Some(Webhook { url: receiver.url.clone(), secret: secret.into() })),
            ..ProjectPatch::default()
        };
        let refused = graph.update_project(project, hook("HOOK_KEY")).await.unwrap_err().to_string();
        assert!(refused.contains("HOOK_KEY"), "{refused}");
        let key = Secret::new("a key of the project".into());
        secrets.put(project, None, &"HOOK_KEY".parse().unwrap(), key).await.unwrap();
        graph.update_project(project, hook("HOOK_KEY")).await.unwrap();
        waiting_run(&harness).await;
        // The next attempt is the last one.
        let use_up = |tx: &mut Tx<'_>| tx.execute("UPDATE jobs SET attempts = max_attempts - 1 WHERE queue = 'webhooks'", params![]);
        assert_eq!(db.db.write(use_up).await.unwrap(), 1);
        let settings = WebhookSettings { secrets, server: None };
        let stop = deliver(&harness, settings.clone());
        until("the delivery is given up", async || harness.executor.count_webhook_deliveries().await.unwrap().1 == 1).await;
        let (waiting, _, reason) = harness.executor.count_webhook_deliveries().await.unwrap();
        let reason = reason.expect("the reason is recorded");
        assert!(waiting == 0 && reason.contains("EMERGENT_ALLOW_PRIVATE_HOSTS"), "{reason}");
        assert!(receiver.deliveries().is_empty(), "nothing reached the private address");
        drop(stop);
        let queue_again = |tx: &mut Tx<'_>| tx.execute(
            "UPDATE jobs SET status = 'queued', attempts = 0, finished_at = NULL WHERE queue = 'webhooks'", params![]);
        assert_eq!(db.db.write(queue_again).await.unwrap(), 1);
        harness.close().await;
        let allowed = HarnessOptions {
            settings: Settings { allow_private_hosts: true, ..Settings::default() },
            ..HarnessOptions::new(question())
        };
        let harness = Harness::build(&db, allowed).await;
        let stop = deliver(&harness, settings);
        until("the notice is delivered", async || receiver.deliveries().len() == 1).await;
        assert!(receiver.deliveries()[0].is_signed_with("a key of the project"));
        drop(stop);
    }

    async fn a_receiver_that_does_not_answer_holds_up_neither_other_projects_nor_the_operator(db: TestDb) {
        let folder = tempfile::tempdir().unwrap();
        let (hanging, other, operator) = (Hanging::start().await, Receiver::start(0).await, Receiver::start(0).await);
        let secrets = secrets(&db, &folder).await;
        let options = HarnessOptions {
            settings: Settings { allow_private_hosts: true, ..Settings::default() },
            ..HarnessOptions::new(question())
        };
        let harness = Harness::build(&db, options).await;
        let graph = harness.executor.graph();
        harness.executor.set_server_webhook(true).await.unwrap();
        let projects = [harness.project, graph.create_project("other", false).await.unwrap().id];
        for (project, url) in projects.into_iter().zip([&hanging.url, &other.url]) {
            let key = Secret::new("a key of the project".into());
            secrets.put(project, None, &"HOOK_KEY".parse().unwrap(), key).await.unwrap();
            let webhook = Some(Some(Webhook { url: url.clone(), secret: "HOOK_KEY".into() }));
            graph.update_project(project, ProjectPatch { webhook, ..ProjectPatch::default() }).await.unwrap();
        }
        // Those of the receiver that does not answer are due first.
        let notices = move |tx: &mut Tx<'_>| {
            for (project, count) in projects.into_iter().zip([40, 3]) {
                for _ in 0..count {
                    let created_at = Timestamp::now();
                    let (id, kind) = (ObjectId::new().0, InboxItemKind::Discussion);
                    let (title, status) = ("topic".to_owned(), ApprovalStatus::Pending);
                    let item = InboxItem { id, project, kind, title, status, decision: None, created_at };
                    emergent_store::webhooks::enqueue(tx, &InboxNotice::for_item(&item, created_at))?;
                }
            }
            Ok::<_, emergent_store::Error>(())
        };
        db.db.write(notices).await.unwrap();
        let server = Some(ServerWebhook { url: operator.url.clone(), secret: Secret::new("a key of the operator".into()) });
        let stop = deliver(&harness, WebhookSettings { secrets, server });
        until("the others get their notices", async || {
            other.deliveries().len() == 3 && operator.deliveries().len() == 43
        }).await;
        assert!(hanging.connections() <= 2, "{} deliveries to one project at once", hanging.connections());
        drop(stop);
    }
}

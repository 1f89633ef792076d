//! The API without a network: requests go straight into the router.
#![allow(dead_code, reason = "each story uses its part")]

use axum::{
    Router,
    body::{Body, to_bytes},
    http::{HeaderMap, Method, Request, StatusCode, header},
};
use emergent_api::{App, AppOptions, Capacity};
use emergent_domain::{ids::ProjectId, token::Scope};
use emergent_executor::{Executor, Settings};
use emergent_graph::Graph;
use emergent_llm::Models;
use emergent_secrets::{KeySource, Secrets};
use emergent_testkit::{TestDb, scripted::ScriptedModel};
use emergent_tools::{
    ToolPool,
    remote::{McpServers, RemoteSettings},
};
use serde_json::{Value, json};
use tokio::sync::watch;
use tower::ServiceExt;

pub struct Server {
    pub router: Router,
    pub graph: Graph,
    pub executor: Executor,
    pub app: App,
    /// A token that may do everything, everywhere.
    pub admin: String,
    pub default_project: ProjectId,
}

/// A client with one token.
#[derive(Clone)]
pub struct Client {
    router: Router,
    token: Option<String>,
    project: Option<String>,
}

pub struct Answer {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: Value,
    pub text: String,
}

impl Server {
    pub async fn start(db: &TestDb) -> Self {
        Self::with_places(db, 1_024).await
    }

    pub async fn with_places(db: &TestDb, places: usize) -> Self {
        Self::with_models(db, places, Models::default()).await
    }

    /// A server whose agents can use these models. Nobody drives runs until [`Server::drive`].
    pub async fn with_models(db: &TestDb, places: usize, models: Models) -> Self {
        let options = AppOptions { requests: Capacity::unshared(places), ..AppOptions::default() };
        Self::with_options(db, models, options).await
    }

    /// Like [`Server::with_models`], with these options.
    pub async fn with_options(db: &TestDb, models: Models, options: AppOptions) -> Self {
        Self::with_settings(db, models, options, Settings::default()).await
    }

    /// Like [`Server::with_options`], with these settings of the executor.
    pub async fn with_settings(db: &TestDb, models: Models, options: AppOptions, settings: Settings) -> Self {
        let graph = Graph::new(db.db.clone(), emergent_domain::time::Clock::system(), None);
        let default_project = graph.ensure_default_project().await.expect("a default project").id;
        graph.ensure_builtin_packs().await.expect("built-in packs");
        let admin = "test-admin-secret-with-enough-length".to_owned();
        graph.ensure_admin_token(&admin).await.expect("an admin token");
        let keys = KeySource::from_env_value("dGhlIGtleSBvZiB0aGUgdGVzdHMgb2YgdGhlIEFQSSE=").expect("a key");
        let clock = emergent_domain::time::Clock::system();
        let secrets =
            Secrets::open(db.db.clone(), clock.clone(), keys, Default::default()).await.expect("secrets");
        let servers = McpServers::new(db.db.clone(), clock, secrets.clone(), RemoteSettings::default());
        let builtin =
            emergent_tools::builtin::tools().into_iter().chain(emergent_coordination::tools::tools());
        let tools = ToolPool::new(builtin.collect::<Vec<_>>()).with_remote(servers);
        let executor = Executor::new(graph.clone(), models, tools, settings);
        let app = App::with_options(executor.clone(), secrets, options);
        let router = emergent_api::router(app.clone());
        Self { router, graph, executor, app, admin, default_project }
    }

    /// Drives runs until the answer is dropped.
    pub fn drive(&self) -> watch::Sender<bool> {
        let (stop, stopping) = watch::channel(false);
        let executor = self.executor.clone();
        tokio::spawn(async move { executor.run(stopping).await });
        stop
    }

    /// Drives runs and walks workflows until the answer is dropped.
    pub fn dispatch(&self) -> watch::Sender<bool> {
        let (stop, stopping) = watch::channel(false);
        let (executor, dispatcher) = (self.executor.clone(), self.app.dispatcher.clone());
        let both = async move { tokio::join!(executor.run(stopping.clone()), dispatcher.run(stopping)) };
        tokio::spawn(both);
        stop
    }

    pub fn admin(&self) -> Client {
        self.client(Some(&self.admin))
    }

    pub fn client(&self, token: Option<&str>) -> Client {
        Client { router: self.router.clone(), token: token.map(str::to_owned), project: None }
    }

    /// A token with these scopes, bound to a project or not.
    pub async fn token(&self, scopes: &[Scope], project: Option<ProjectId>) -> String {
        let scopes = scopes.iter().copied().collect();
        self.graph.create_token("test", scopes, project, None).await.expect("a token").1
    }

    pub async fn project(&self, name: &str) -> ProjectId {
        self.graph.create_project(name, false).await.expect("a project").id
    }
}

/// A server that drives runs, a client that may do everything, a caller from outside, and what stops the runs when it
/// is dropped.
pub async fn serve(db: &TestDb, model: &ScriptedModel) -> (Server, Client, Client, watch::Sender<bool>) {
    serve_with(db, model, &[Scope::AgentsInvoke]).await
}

/// Like [`serve`]; the caller from outside has these scopes.
pub async fn serve_with(
    db: &TestDb,
    model: &ScriptedModel,
    scopes: &[Scope],
) -> (Server, Client, Client, watch::Sender<bool>) {
    let server = Server::with_models(db, 1_024, model.models()).await;
    let runner = server.drive();
    let admin = server.admin();
    let token = server.token(scopes, Some(server.default_project)).await;
    let caller = server.client(Some(&token));
    (server, admin, caller, runner)
}

impl Client {
    /// The same client at another server with the same database.
    pub fn at(&self, server: &Server) -> Self {
        Self { router: server.router.clone(), ..self.clone() }
    }

    pub fn in_project(&self, project: impl ToString) -> Self {
        Self { project: Some(project.to_string()), ..self.clone() }
    }

    pub fn request(&self, method: Method, path: &str) -> axum::http::request::Builder {
        let mut request = Request::builder().method(method).uri(path);
        if let Some(token) = &self.token {
            request = request.header(header::AUTHORIZATION, format!("Bearer {token}"));
        }
        if let Some(project) = &self.project {
            request = request.header("x-project-id", project);
        }
        request
    }

    pub async fn send(&self, request: Request<Body>) -> Answer {
        let response = self.router.clone().oneshot(request).await.expect("the router always answers");
        let (parts, body) = response.into_parts();
        let bytes = to_bytes(body, usize::MAX).await.expect("the answer is whole");
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let body = emergent_domain::stored_json::from_str(&text).unwrap_or(Value::Null);
        Answer { status: parts.status, headers: parts.headers, body, text }
    }

    /// The response itself, for streams.
    pub async fn open(&self, request: Request<Body>) -> axum::response::Response {
        self.router.clone().oneshot(request).await.expect("the router always answers")
    }

    pub async fn json(&self, method: Method, path: &str, body: Value) -> Answer {
        self.raw(method, path, "application/json", body.to_string()).await
    }

    pub async fn raw(&self, method: Method, path: &str, content_type: &str, body: impl Into<Body>) -> Answer {
        let request = self.request(method, path).header(header::CONTENT_TYPE, content_type);
        self.send(request.body(body.into()).expect("a request")).await
    }

    pub async fn get(&self, path: &str) -> Answer {
        self.send(self.request(Method::GET, path).body(Body::empty()).expect("a request")).await
    }

    pub async fn delete(&self, path: &str) -> Answer {
        self.send(self.request(Method::DELETE, path).body(Body::empty()).expect("a request")).await
    }

    pub async fn post(&self, path: &str, body: Value) -> Answer {
        self.json(Method::POST, path, body).await
    }

    pub async fn put(&self, path: &str, body: Value) -> Answer {
        self.json(Method::PUT, path, body).await
    }

    pub async fn patch(&self, path: &str, body: Value) -> Answer {
        self.json(Method::PATCH, path, body).await
    }

    /// Makes an object and returns its id.
    pub async fn object(&self, type_: &str, key: &str, properties: Value) -> String {
        let made = self
            .post("/api/graph/objects", json!({ "type": type_, "key": key, "properties": properties }))
            .await;
        made.is(201)["id"].as_str().expect("an id").to_owned()
    }

    /// Makes an agent that speaks the lines of the test, and returns its id.
    pub async fn agent(&self, name: &str, more: Value) -> String {
        let mut body = json!({ "name": name, "model": { "provider": "scripted", "name": "lines" } });
        for (field, value) in more.as_object().expect("fields") {
            body[field] = value.clone();
        }
        let made = self.post("/api/admin/agents", body).await;
        made.is(201)["id"].as_str().expect("an id").to_owned()
    }

    /// Starts an agent and returns the run's id.
    pub async fn trigger(&self, agent: &str, input: &str) -> String {
        let path = format!("/api/admin/agents/{agent}/trigger");
        let started = self.post(&path, json!({ "input": input })).await;
        started.is(202)["runId"].as_str().expect("an id").to_owned()
    }

    /// Waits until a run has ended, and returns it at a glance.
    pub async fn ended(&self, run: &str) -> Value {
        for _ in 0..1_000 {
            let found = self.get(&format!("/api/admin/runs/{run}")).await;
            if !["queued", "running"].contains(&found.is(200)["status"].as_str().expect("a status")) {
                return found.body["data"].clone();
            }
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
        panic!("run {run} did not end");
    }

    pub async fn run_to_end(&self, agent: &str, input: &str) -> Value {
        let run = self.trigger(agent, input).await;
        self.ended(&run).await
    }

    /// Joins two objects and returns the edge's id.
    pub async fn edge(&self, type_: &str, from: &str, to: &str) -> String {
        let made =
            self.post("/api/graph/relationships", json!({ "type": type_, "fromId": from, "toId": to })).await;
        made.is(201)["id"].as_str().expect("an id").to_owned()
    }
}

impl Answer {
    /// Expects a status, and returns `data`.
    #[track_caller]
    pub fn is(&self, status: u16) -> &Value {
        assert_eq!(self.status.as_u16(), status, "{}", self.text);
        if self.status.is_success() {
            assert_eq!(self.body["success"], true, "{}", self.text);
        }
        &self.body["data"]
    }

    /// Expects any answer that worked, streams included.
    #[track_caller]
    pub fn found(&self) {
        assert!(self.status.is_success(), "{}", self.text);
    }

    /// Expects a refusal in the envelope, and returns `error`.
    #[track_caller]
    pub fn refused(&self, status: u16, code: &str) -> &Value {
        assert_eq!(self.status.as_u16(), status, "{}", self.text);
        let error = &self.body["error"];
        // A2A has errors of its own shape, in which the code is the reason.
        let of_a2a =
            [&error["details"][0], &error["data"][0]].into_iter().find(|one| one["@type"].is_string());
        if let Some(detail) = of_a2a {
            assert_eq!(detail["reason"], code.to_uppercase(), "{}", self.text);
            return error;
        }
        assert_eq!(self.body["success"], false, "{}", self.text);
        assert_eq!(self.body["error"]["code"], code, "{}", self.text);
        assert!(!self.body["error"]["message"].as_str().unwrap_or_default().is_empty(), "{}", self.text);
        &self.body["error"]
    }

    /// The first field that `details` name.
    pub fn field(&self) -> &str {
        let error = &self.body["error"];
        // A2A names fields in a `google.rpc.BadRequest`.
        let details = [&error["details"], &error["data"]].into_iter().filter_map(Value::as_array).flatten();
        let violation = details.map(|one| &one["fieldViolations"][0]).find(|one| one.is_object());
        violation.unwrap_or(&error["details"][0])["field"].as_str().unwrap_or_default()
    }
}

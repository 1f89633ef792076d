//! The API without a network: requests go straight into the router.
#![allow(dead_code, reason = "each story uses its part")]

use axum::{
    Router,
    body::{Body, to_bytes},
    http::{HeaderMap, Method, Request, StatusCode, header},
};
use emergent_api::App;
use emergent_domain::{ids::ProjectId, token::Scope};
use emergent_graph::Graph;
use emergent_testkit::TestDb;
use serde_json::{Value, json};
use tower::ServiceExt;

pub struct Server {
    pub router: Router,
    pub graph: Graph,
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
        let graph = Graph::new(db.db.clone(), emergent_domain::time::Clock::system(), None);
        let default_project = graph.ensure_default_project().await.expect("a default project").id;
        graph.ensure_builtin_packs().await.expect("built-in packs");
        let admin = "test-admin-secret-with-enough-length".to_owned();
        graph.ensure_admin_token(&admin).await.expect("an admin token");
        let app = App::with_places(graph.clone(), places);
        let router = emergent_api::router(app.clone());
        Self { router, graph, app, admin, default_project }
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

impl Client {
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
        let body = serde_json::from_str(&text).unwrap_or(Value::Null);
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

    /// Expects a refusal in the envelope, and returns `error`.
    #[track_caller]
    pub fn refused(&self, status: u16, code: &str) -> &Value {
        assert_eq!(self.status.as_u16(), status, "{}", self.text);
        assert_eq!(self.body["success"], false, "{}", self.text);
        assert_eq!(self.body["error"]["code"], code, "{}", self.text);
        assert!(!self.body["error"]["message"].as_str().unwrap_or_default().is_empty(), "{}", self.text);
        &self.body["error"]
    }

    /// The first field that `details` name.
    pub fn field(&self) -> &str {
        self.body["error"]["details"][0]["field"].as_str().unwrap_or_default()
    }
}

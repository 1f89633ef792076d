//! Calls every route of the OpenAPI document without a token, with an invalid one, with one that lacks
//! the scope, and with one of another project. Routes that are added later are covered automatically.

use crate::common;

use std::collections::{HashMap, hash_map::Entry};

use axum::{
    body::Body,
    http::{Method, header, request::Builder},
};
use common::{Answer, Client, Server};
use emergent_domain::{ids::ProjectId, token::Scope};
use emergent_testkit::{
    both_engines,
    scripted::{ScriptedModel, calls, says},
};
use serde_json::{Value, json};

pub struct Operation {
    pub method: Method,
    /// The path with placeholders.
    pub path: String,
    /// `None` for a public route, `Some(None)` for any token.
    needs: Option<Option<Scope>>,
    /// All scopes that a token needs.
    scopes: Vec<Scope>,
    media: Option<String>,
}

pub fn operations() -> Vec<Operation> {
    let document = serde_json::to_value(emergent_api::openapi()).expect("the document serialises");
    let mut all = Vec::new();
    for (path, item) in document["paths"].as_object().expect("paths") {
        for (method, operation) in item.as_object().expect("a path item") {
            let guarded = operation["security"].as_array().is_some_and(|all| !all.is_empty());
            let scope = operation["x-required-scope"].as_str().map(|text| text.parse().expect("a scope"));
            let scopes = operation["security"][0].as_object().and_then(|scheme| scheme.values().next());
            let scopes = scopes.and_then(Value::as_array).into_iter().flatten();
            let scopes = scopes.map(|scope| scope.as_str().expect("a text").parse().expect("a scope"));
            let media = operation["requestBody"]["content"].as_object();
            all.push(Operation {
                method: method.to_uppercase().parse().expect("a method"),
                path: path.clone(),
                needs: guarded.then_some(scope),
                scopes: scopes.collect(),
                media: media.and_then(|media| media.keys().next().cloned()),
            });
        }
    }
    all
}

impl Operation {
    pub fn name(&self) -> String {
        format!("{} {}", self.method, self.path)
    }

    async fn call(&self, client: &Client, id: &str) -> Answer {
        self.call_with(client, id, "{}").await
    }

    async fn call_with(&self, client: &Client, id: &str, body: &str) -> Answer {
        self.call_at(client, &self.path_with(|_| id.to_owned()), body).await
    }

    /// Returns the path with each placeholder filled by its name.
    pub fn path_with(&self, value: impl Fn(&str) -> String) -> String {
        let filled = self.path.split('/').map(|part| match part.strip_prefix('{') {
            Some(name) => value(name.trim_end_matches('}')),
            None => part.to_owned(),
        });
        filled.collect::<Vec<_>>().join("/")
    }

    pub async fn call_at(&self, client: &Client, path: &str, body: &str) -> Answer {
        self.send(client, client.request(self.method.clone(), path), body).await
    }

    /// Calls the route as a browser does, from a page of this site or of another one.
    async fn call_with_cookie(&self, client: &Client, path: &str, cookie: &str, site: &str) -> Answer {
        let request = client.request(self.method.clone(), path).header(header::COOKIE, cookie);
        let request = request.header("sec-fetch-site", site).header(header::HOST, "emergent.test");
        self.send(client, request, "{}").await
    }

    async fn send(&self, client: &Client, request: Builder, body: &str) -> Answer {
        let request = match &self.media {
            Some(media) => request.header(header::CONTENT_TYPE, media).body(Body::from(body.to_owned())),
            None => request.body(Body::empty()),
        };
        client.send(request.expect("a request")).await
    }
}

const NOBODY: &str = "01890000-0000-7000-8000-000000000000";

#[test]
fn only_these_routes_are_public() {
    let public: Vec<_> =
        operations().into_iter().filter(|one| one.needs.is_none()).map(|one| one.path).collect();
    let metadata = "/.well-known/oauth-protected-resource";
    let expected = [
        "/",
        "/.well-known/agent-card.json",
        metadata,
        &format!("{metadata}/mcp"),
        "/a2a/{project}/{agent}/.well-known/agent-card.json",
        "/api/agents/card",
        "/api/docs",
        "/api/openapi.json",
        "/api/session",
        "/health",
        "/login",
        "/login",
        "/ready",
    ];
    assert_eq!(public, expected);
}

both_engines! {
    async fn nobody_gets_in_without_a_token_that_is_valid(db: TestDb) {
        let server = Server::start(&db).await;
        let revoked = server.graph.create_token("gone", Scope::ALL.iter().copied().collect(), None, None).await.unwrap();
        server.graph.revoke_token(None, revoked.0.id).await.unwrap();
        let past = "2020-01-01T00:00:00Z".parse().unwrap();
        let expired = server.graph.create_token("old", Scope::ALL.iter().copied().collect(), None, Some(past)).await;
        for operation in operations().iter().filter(|one| one.needs.is_some()) {
            let mut strangers = vec![server.client(None), server.client(Some("wrong")), server.client(Some(&revoked.1))];
            // Creating a token that has already expired may be refused.
            strangers.extend(expired.as_ref().ok().map(|(_, secret)| server.client(Some(secret))));
            for stranger in strangers {
                let answer = operation.call(&stranger, NOBODY).await;
                answer.refused(401, "unauthorized");
                let challenge = answer.headers[header::WWW_AUTHENTICATE].to_str().unwrap();
                // The response to an MCP client also names the address of the metadata.
                let right = if operation.path == "/mcp" { challenge.starts_with("Bearer ") } else { challenge == "Bearer" };
                assert!(right, "{}: {challenge}", operation.name());
            }
        }
    }

    async fn a_token_without_the_scope_is_told_which_one_it_lacks(db: TestDb) {
        let server = Server::start(&db).await;
        for operation in operations() {
            let Some(Some(first)) = operation.needs else { continue };
            assert_eq!(operation.scopes.first(), Some(&first), "{}", operation.name());
            for scope in &operation.scopes {
                let others: Vec<_> = Scope::ALL.iter().copied().filter(|one| one != scope).collect();
                let client = server.client(Some(&server.token(&others, None).await));
                let answer = operation.call(&client, NOBODY).await;
                let error = answer.refused(403, "missing_scope");
                assert!(error["message"].as_str().unwrap().contains(scope.as_str()), "{}: {error}", operation.name());
            }
            // With these scopes alone, the request is authorised.
            let client = server.client(Some(&server.token(&operation.scopes, None).await));
            if operation.path != "/api/graph/changes" {
                let status = operation.call(&client, NOBODY).await.status.as_u16();
                assert!(![401, 403].contains(&status), "{} with only {:?}: {status}", operation.name(), operation.scopes);
            }
        }
    }

    async fn a_session_gets_into_no_route_that_its_token_does_not(db: TestDb) {
        let server = Server::start(&db).await;
        let log_in = async |scopes: &[Scope]| {
            let token = server.token(scopes, None).await;
            let answer = server.client(None).post("/api/session", json!({ "token": token })).await;
            answer.is(201);
            let cookie = answer.headers[header::SET_COOKIE].to_str().unwrap();
            cookie.split(';').next().unwrap().to_owned()
        };
        let stranger = server.client(None);
        let ended = log_in(Scope::ALL).await;
        let log_out = stranger.request(Method::DELETE, "/api/session").header(header::COOKIE, &ended);
        let log_out = log_out.header("sec-fetch-site", "same-origin").header(header::HOST, "emergent.test");
        stranger.send(log_out.body(Body::empty()).unwrap()).await.is(200);
        let (valid, mut cookies) = (log_in(Scope::ALL).await, HashMap::new());
        for operation in operations().iter().filter(|one| one.needs.is_some()) {
            let path = operation.path_with(|_| NOBODY.to_owned());
            operation.call_with_cookie(&stranger, &path, &ended, "same-origin").await.refused(401, "unauthorized");
            if !operation.method.is_safe() {
                let answer = operation.call_with_cookie(&stranger, &path, &valid, "cross-site").await;
                answer.refused(403, "cross_origin");
            }
            let Some(Some(scope)) = operation.needs else { continue };
            if let Entry::Vacant(entry) = cookies.entry(scope.as_str()) {
                let others: Vec<_> = Scope::ALL.iter().copied().filter(|one| *one != scope).collect();
                entry.insert(log_in(&others).await);
            }
            let answer =
                operation.call_with_cookie(&stranger, &path, &cookies[scope.as_str()], "same-origin").await;
            let error = answer.refused(403, "missing_scope");
            assert!(error["message"].as_str().unwrap().contains(scope.as_str()), "{}: {error}", operation.name());
        }
    }

    async fn a_parameter_that_a_route_does_not_have_is_refused_by_name(db: TestDb) {
        let server = Server::start(&db).await;
        let client = server.admin();
        for operation in operations().iter().filter(|one| one.needs.is_some()) {
            let path = format!("{}?no_such_parameter=1", operation.path_with(|_| NOBODY.to_owned()));
            let answer = operation.call_at(&client, &path, "{}").await;
            answer.refused(400, "invalid");
            assert_eq!(answer.field(), "no_such_parameter", "{}", operation.name());
        }
    }

    async fn a_token_of_another_project_cannot_name_this_one(db: TestDb) {
        let server = Server::start(&db).await;
        let other = server.project("other").await;
        let client = server.client(Some(&server.token(Scope::ALL, Some(other)).await));
        for operation in operations().iter().filter(|one| one.needs.is_some()) {
            for named in [server.default_project.to_string(), "default".to_owned(), "nowhere".to_owned()] {
                operation.call(&client.in_project(&named), NOBODY).await.refused(404, "not_found");
            }
        }
    }

    async fn what_belongs_to_another_project_is_not_found(db: TestDb) {
        let model = ScriptedModel::new([calls("project_info", json!({})), says("Done.")])
            .agent("asker", [calls("ask_user", json!({ "question": "Why?" }))]);
        let server = Server::with_models(&db, 1_024, model.models()).await;
        let _runner = server.drive();
        let admin = server.admin();
        let asker = admin.agent("asker", json!({ "tools": ["ask_user"] })).await;
        admin.post(&format!("/api/admin/agents/{asker}/trigger"), json!({ "input": "go" })).await.is(202);
        let approval = crate::approvals::next_request(&admin).await;
        let agent = admin.agent("a", json!({ "tools": ["project_info"] })).await;
        let run = admin.run_to_end(&agent, "go").await["id"].as_str().unwrap().to_owned();
        let calls = admin.get(&format!("/api/admin/agents/{agent}/runs/{run}/tool-calls")).await;
        let call = calls.is(200)[0]["id"].as_str().expect("a call").to_owned();
        let work = json!({ "tasks": [{ "key": "one", "title": "One" }] });
        let workflow = admin.post("/api/coordination/dispatch", work).await.is(202)["workflowId"].as_str().unwrap().to_owned();
        let task = admin.get(&format!("/api/coordination/workflows/{workflow}")).await.is(200)["tasks"][0]["id"].as_str().unwrap().to_owned();
        let discussion = admin.object("Discussion", "d", json!({ "topic": "t", "status": "escalated" })).await;
        let mine = admin.object("Task", "a", json!({})).await;
        let second = admin.object("Task", "b", json!({})).await;
        let edge = admin.edge("blocks", &mine, &second).await;
        let gone = admin.object("Task", "gone", json!({})).await;
        admin.delete(&format!("/api/graph/objects/{gone}")).await.is(200);
        let pack = admin.post("/api/template-packs", json!({ "name": "p", "version": "1.0.0" })).await.is(201)["id"].clone();
        let document = admin.post("/api/documents", json!({ "title": "t", "content": "some text" })).await.is(201)["id"].clone();
        admin.post("/api/products/install", json!({ "manifest": { "name": "p", "version": "1.0.0" } })).await.is(201);
        admin.put("/api/admin/secrets/API_KEY", json!({ "value": "S3cr3t-of-it" })).await.is(201);
        let mcp = json!({ "name": "m", "transport": "http", "url": "https://mcp.example.com" });
        let mcp = admin.post("/api/admin/mcp-servers", mcp).await.is(201)["id"].as_str().unwrap().to_owned();
        let token = admin.post("/api/tokens", json!({ "name": "t", "scopes": ["graph:read"], "project": "default" })).await;
        let token = token.is(201)["id"].clone();

        let conversation = admin.post("/api/chat/conversations", json!({ "title": "c" })).await.is(201)["id"].clone();

        let other = server.project("other").await;
        let outsider = server.client(Some(&server.token(Scope::ALL, Some(other)).await));
        let nothing = server.client(Some(&server.token(Scope::ALL, Some(server.project("empty").await)).await));
        let before = everything(&admin).await;
        let mut walked = 0;
        for operation in operations().iter().filter(|one| one.path.contains('{')) {
            let of_runs = |name: &str| match name {
                "agentId" => agent.clone(),
                "runId" => run.clone(),
                "toolCallId" => call.clone(),
                name => panic!("{name} is new: say here what it is"),
            };
            let id = match operation.path.as_str() {
                path if path.starts_with("/api/coordination/") => {
                    let of_work = |name: &str| match name {
                        "workflowId" => workflow.clone(),
                        "taskId" => task.clone(),
                        "discussionId" => discussion.clone(),
                        name => panic!("{name} is new: say here what it is"),
                    };
                    let body = match path.rsplit('/').next() {
                        Some("reassign") => r#"{"agent":"a"}"#,
                        Some("decide") => r#"{"decision":"x"}"#,
                        _ => "{}",
                    };
                    operation.call_at(&outsider, &operation.path_with(of_work), body).await.refused(404, "not_found");
                    // The event stream of an active workflow would not end.
                    if operation.method == Method::GET && !path.ends_with("/events") {
                        operation.call_at(&admin, &operation.path_with(of_work), body).await.found();
                    }
                    walked += 1;
                    continue;
                }
                path if path.starts_with("/api/approvals/") => {
                    let path = operation.path_with(|_| approval.clone());
                    let body = r#"{"decision":"deny"}"#;
                    operation.call_at(&outsider, &path, body).await.refused(404, "not_found");
                    if operation.method == Method::GET {
                        operation.call_at(&admin, &path, body).await.found();
                    }
                    walked += 1;
                    continue;
                }
                path if path.starts_with("/api/chat/conversations/") => {
                    let path = operation.path_with(|_| conversation.as_str().unwrap().to_owned());
                    let body = if operation.method == Method::PATCH { r#"{"title":"x"}"# } else { "{}" };
                    operation.call_at(&outsider, &path, body).await.refused(404, "not_found");
                    if operation.method == Method::GET {
                        operation.call_at(&admin, &path, body).await.found();
                    }
                    walked += 1;
                    continue;
                }
                path if path.starts_with("/api/admin/agents/") || path.starts_with("/api/admin/runs/") => {
                    let body = if path.ends_with("/trigger") { r#"{"input":"x"}"# } else { "{}" };
                    operation.call_at(&outsider, &operation.path_with(of_runs), body).await.refused(404, "not_found");
                    // Here the entity is found, although not every body and state is accepted.
                    if operation.method == Method::GET {
                        operation.call_at(&admin, &operation.path_with(of_runs), body).await.found();
                    }
                    walked += 1;
                    continue;
                }
                "/v1/models/{model}" => {
                    operation.call_at(&outsider, "/v1/models/a", "{}").await.refused(404, "not_found");
                    walked += 1;
                    continue;
                }
                path if path.starts_with("/a2a/") => {
                    let path = operation.path_with(|name| match name {
                        "project" => "default".to_owned(),
                        "agent" => agent.clone(),
                        _ => NOBODY.to_owned(),
                    });
                    operation.call_at(&outsider, &path, "{}").await.refused(404, "not_found");
                    walked += 1;
                    continue;
                }
                path if path.starts_with("/api/agents/") => {
                    let body = match path.ends_with("/agui") {
                        true => r#"{"threadId":"t","runId":"r","messages":[{"id":"m","role":"user","content":"x"}]}"#,
                        false => r#"{"input":"x"}"#,
                    };
                    operation.call_at(&outsider, &operation.path_with(of_runs), body).await.refused(404, "not_found");
                    walked += 1;
                    continue;
                }
                // The name of the tool does not matter, because the server belongs to another project.
                path if path.starts_with("/api/admin/mcp-servers/") => mcp.clone(),
                path if path.starts_with("/api/graph/objects/{id}/restore") => gone.clone(),
                path if path.starts_with("/api/graph/objects/") => mine.clone(),
                path if path.starts_with("/api/graph/relationships/") => edge.clone(),
                path if path.starts_with("/api/template-packs/") => pack.as_str().unwrap().to_owned(),
                path if path.starts_with("/api/documents/") => document.as_str().unwrap().to_owned(),
                // Another project may use the same name for its own secret: see tests/secrets.rs.
                "/api/admin/secrets/{name}" if operation.method == Method::PUT => continue,
                "/api/admin/secrets/{name}" => "API_KEY".to_owned(),
                "/api/admin/secrets/{name}/bindings" => {
                    let path = "/api/admin/secrets/API_KEY/bindings";
                    operation.call_at(&outsider, path, r#"{"server":"m"}"#).await.refused(404, "not_found");
                    walked += 1;
                    continue;
                }
                // Another project may use the same name for its own trigger.
                "/api/admin/triggers/{name}" if operation.method == Method::PUT => continue,
                "/api/admin/triggers/{name}" if operation.method == Method::PATCH => {
                    let path = "/api/admin/triggers/nightly";
                    operation.call_at(&outsider, path, r#"{"enabled":false}"#).await.refused(404, "not_found");
                    walked += 1;
                    continue;
                }
                "/api/admin/triggers/{name}" => "nightly".to_owned(),
                path if path.starts_with("/api/tokens/") => token.as_str().unwrap().to_owned(),
                path if path.starts_with("/api/products/") => "p".to_owned(),
                path if path.ends_with("/install-default-agents") => server.default_project.to_string(),
                path if path.starts_with("/api/projects/") => server.default_project.to_string(),
                path => panic!("{path} is new: say here what belongs to another project"),
            };
            operation.call(&outsider, &id).await.refused(404, "not_found");
            walked += 1;
        }
        assert!(walked > 15, "{walked}");

        // Ids in bodies and parameters give no access either.
        assert_eq!(outsider.get(&format!("/api/coordination/tasks?workflowId={workflow}")).await.is(200), &json!([]));
        let more = json!({ "workflowId": workflow, "key": "two", "title": "Two" });
        outsider.post("/api/coordination/tasks", more).await.refused(404, "not_found");
        assert_eq!(outsider.get(&format!("/api/admin/runs?parent_run_id={run}")).await.is(200), &json!([]));
        for list in ["/api/admin/runs", "/api/approvals", "/api/chat/conversations", "/api/admin/agents"] {
            assert_eq!(outsider.get(list).await.is(200), &json!([]), "{list}");
            assert_ne!(admin.get(list).await.is(200), &json!([]), "{list}");
        }
        assert_eq!(outsider.get(&format!("/api/approvals?runId={run}")).await.is(200), &json!([]));
        let empty = nothing.get("/api/admin/runs/stats").await;
        let theirs = outsider.get("/api/admin/runs/stats").await;
        for field in ["total", "byStatus", "byAgent", "byHour"] {
            assert_eq!(theirs.is(200)[field], empty.is(200)[field], "as in an empty project: {field}");
        }
        assert_ne!(admin.get("/api/admin/runs/stats").await.is(200)["total"], 0);
        let bulk = json!({ "action": "cancel", "ids": [run] });
        let bulk = outsider.post("/api/admin/runs/bulk", bulk).await;
        assert_eq!(bulk.is(200)["runs"][0]["outcome"], "not_found", "{}", bulk.text);
        let edge = json!({ "type": "blocks", "fromId": mine, "toId": second });
        refused_as_absent(&outsider.post("/api/graph/relationships", edge.clone()).await);
        let bulk = outsider.post("/api/graph/relationships/bulk", json!({ "relationships": [edge] })).await;
        assert!(bulk.is(200)[0]["error"]["code"].is_string(), "{}", bulk.text);
        let path = json!({ "fromId": mine, "toId": second });
        refused_as_absent(&outsider.post("/api/graph/path", path).await);
        let walk = outsider.post("/api/graph/traverse", json!({ "startIds": [mine] })).await;
        if walk.status == 200 {
            assert_eq!(walk.body["data"]["nodes"], json!([]));
        } else {
            refused_as_absent(&walk);
        }
        let own = outsider.object("Task", "own", json!({})).await;
        let joined = json!({ "relationships": [{ "type": "blocks", "fromId": own, "toId": mine }] });
        refused_as_absent(&outsider.post("/api/graph/subgraph", joined).await);
        assert_eq!(outsider.get("/api/graph/objects").await.is(200).as_array().unwrap().len(), 1);
        assert_eq!(outsider.get("/api/graph/relationships").await.is(200), &json!([]));
        assert_eq!(outsider.get("/api/documents").await.is(200), &json!([]));
        assert_eq!(everything(&admin).await, before, "nothing of the first project changed");
    }

    async fn a_bound_administrator_manages_its_own_project_only(db: TestDb) {
        let server = Server::start(&db).await;
        let other = server.project("other").await;
        let bound = server.client(Some(&server.token(&[Scope::AdminRead, Scope::AdminWrite], Some(other)).await));

        let seen = bound.get("/api/projects").await;
        assert_eq!(seen.is(200).as_array().unwrap().len(), 1);
        assert_eq!(seen.body["data"][0]["name"], "other");
        bound.get(&format!("/api/projects/{other}")).await.is(200);
        bound.patch(&format!("/api/projects/{other}"), json!({ "strict": true })).await.is(200);
        bound.get(&format!("/api/projects/{}", server.default_project)).await.refused(404, "not_found");
        bound.post("/api/projects", json!({ "name": "third" })).await.refused(403, "forbidden");
        bound.delete(&format!("/api/projects/{other}")).await.refused(403, "forbidden");

        let tokens = bound.get("/api/tokens").await;
        assert_eq!(tokens.is(200).as_array().unwrap().len(), 1, "{}", tokens.text);
        let beyond = json!({ "name": "more", "scopes": ["admin:read", "graph:write"] });
        let answer = bound.post("/api/tokens", beyond).await;
        assert_eq!(answer.refused(403, "missing_scope")["details"]["scope"], "graph:write");
        let elsewhere = json!({ "name": "x", "scopes": ["admin:read"], "project": "default" });
        bound.post("/api/tokens", elsewhere).await.refused(404, "not_found");
        let made = bound.post("/api/tokens", json!({ "name": "x", "scopes": ["admin:read"] })).await;
        assert_eq!(made.is(201)["project"], json!(other));
        let secret = made.body["data"]["token"].as_str().unwrap().to_owned();
        let fresh = server.client(Some(&secret));
        fresh.get("/api/tokens").await.is(200);
        let id = made.body["data"]["id"].as_str().unwrap();
        assert!(bound.delete(&format!("/api/tokens/{id}")).await.is(200)["revokedAt"].is_string());
        fresh.get("/api/tokens").await.refused(401, "unauthorized");
    }

    async fn a_new_token_is_for_the_project_that_was_named(db: TestDb) {
        let server = Server::start(&db).await;
        let (first, second) = (server.project("first").await, server.project("second").await);
        let admin = server.admin();
        let check = async |client: &Client, named: Option<&str>, expected: Option<ProjectId>| {
            let made = client.post("/api/tokens", json!({ "name": "t", "scopes": ["graph:read"], "project": named })).await;
            assert_eq!(made.is(201).get("project"), expected.map(|project| json!(project)).as_ref(), "{}", made.text);
        };
        check(&admin, None, None).await;
        check(&admin.in_project("first"), None, Some(first)).await;
        check(&admin, Some("second"), Some(second)).await;
        check(&admin.in_project("first"), Some("second"), Some(second)).await;
    }
}

/// Expects a 404, or an error that names the missing end.
fn refused_as_absent(answer: &Answer) {
    assert!([400, 404].contains(&answer.status.as_u16()), "{}", answer.text);
}

async fn everything(client: &Client) -> Vec<Value> {
    let mut all = Vec::new();
    for path in [
        "/api/graph/objects",
        "/api/graph/relationships",
        "/api/template-packs",
        "/api/documents",
        "/api/tokens",
        "/api/admin/agents?include_internal=true",
        "/api/admin/runs",
        "/api/coordination/workflows",
        "/api/coordination/tasks",
        "/api/approvals",
    ] {
        all.push(client.get(path).await.is(200).clone());
    }
    all
}

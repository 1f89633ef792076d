//! Invalid input always leads to a clear 4xx that names the field, never to a 5xx, and writes nothing.

use crate::common;

use axum::{body::Body, http::Method};
use common::{Answer, Client, Server};
use emergent_testkit::both_engines;
use serde_json::{Value, json};

/// Expects an error in the envelope, with a message for people.
#[track_caller]
fn is_clear(answer: &Answer, what: &str) {
    let what: String = what.chars().take(200).collect();
    assert!(answer.status.is_client_error(), "{what}: {} {}", answer.status, answer.text);
    assert_eq!(answer.body["success"], false, "{what}: {}", answer.text);
    let error = &answer.body["error"];
    assert!(error["code"].as_str().is_some_and(|code| !code.is_empty()), "{what}: {error}");
    assert!(
        error["message"].as_str().is_some_and(|text| !text.is_empty() && text.len() < 2_000),
        "{what}: {error}"
    );
}

#[track_caller]
fn names(answer: &Answer, field: &str, what: &str) {
    is_clear(answer, what);
    assert!(answer.field().starts_with(field), "{what}: {} does not name `{field}`", answer.body["error"]);
}

/// Returns the contents of a project as counts, to check that nothing was written.
async fn counts(client: &Client) -> Vec<usize> {
    let mut counts = Vec::new();
    for path in [
        "/api/graph/objects",
        "/api/graph/relationships",
        "/api/documents",
        "/api/template-packs",
        "/api/tokens",
        "/api/projects",
        "/api/admin/agents",
        "/api/admin/runs",
        "/api/coordination/workflows",
    ] {
        counts.push(client.get(&format!("{path}?limit=100")).await.is(200).as_array().unwrap().len());
    }
    counts
}

fn deep(levels: usize) -> String {
    format!("{}1{}", "{\"a\":".repeat(levels), "}".repeat(levels))
}

/// All routes that accept JSON.
const WRITES: [(&str, &str); 21] = [
    ("POST", "/api/coordination/dispatch"),
    ("POST", "/api/coordination/tasks"),
    ("PUT", "/api/coordination/budgets"),
    ("POST", "/api/products/install"),
    ("POST", "/api/projects"),
    ("POST", "/api/tokens"),
    ("POST", "/api/graph/objects"),
    ("PATCH", "/api/graph/objects/{object}"),
    ("POST", "/api/graph/objects/bulk"),
    ("PUT", "/api/graph/objects/upsert"),
    ("POST", "/api/graph/relationships"),
    ("POST", "/api/graph/relationships/bulk"),
    ("POST", "/api/graph/subgraph"),
    ("POST", "/api/graph/search"),
    ("POST", "/api/graph/traverse"),
    ("POST", "/api/graph/path"),
    ("POST", "/api/template-packs"),
    ("POST", "/api/documents"),
    ("POST", "/api/admin/agents"),
    ("PATCH", "/api/admin/agents/{agent}"),
    ("POST", "/api/admin/agents/{agent}/trigger"),
];

both_engines! {
    async fn a_text_that_is_no_id_is_told_what_an_id_looks_like(db: TestDb) {
        let server = Server::start(&db).await;
        let client = server.admin();
        let told = |answer: &Answer, field: &str| {
            answer.refused(400, "invalid");
            assert_eq!(answer.field(), field, "{}", answer.text);
            assert!(answer.text.contains("must be an id such as `0190d3a1-"), "{}", answer.text);
            assert!(!answer.text.contains("UUID") && !answer.text.contains("found `"), "{}", answer.text);
        };
        for (path, field) in [
            ("/api/graph/objects/zebra", "id"),
            ("/api/coordination/workflows/5", "workflowId"),
            ("/api/graph/relationships?fromId=zebra", "fromId"),
            ("/api/coordination/tasks?workflowId=zebra", "workflowId"),
            ("/api/admin/audit?token=zebra", "token"),
        ] {
            told(&client.get(path).await, field);
        }
        // The name of an agent stands for its id.
        for path in ["/api/admin/agents/zebra", "/api/admin/agents/zebra/runs"] {
            let answer = client.get(path).await;
            answer.refused(404, "not_found");
            assert!(answer.text.contains("there is no agent `zebra`"), "{}", answer.text);
        }
        for (path, body, field) in [
            ("/api/graph/relationships", json!({ "type": "t", "fromId": "zebra", "toId": "zebra" }), "fromId"),
            ("/api/graph/traverse", json!({ "startIds": ["zebra"] }), "startIds[0]"),
            ("/api/coordination/tasks", json!({ "title": "t", "workflowId": "zebra" }), "workflowId"),
        ] {
            told(&client.post(path, body).await, field);
        }
    }

    async fn bodies_that_are_no_json_are_refused_everywhere(db: TestDb) {
        let server = Server::start(&db).await;
        let client = server.admin();
        let object = client.object("Task", "a", json!({})).await;
        let agent = client.agent("a", json!({})).await;
        let before = counts(&client).await;
        let deep = deep(10_000);
        let bodies: Vec<Vec<u8>> = vec![
            b"".to_vec(), b"   ".to_vec(), b"{".to_vec(), b"}".to_vec(), b"nul".to_vec(), b"{\"type\":}".to_vec(), b"{'type':'T'}".to_vec(),
            b"{\"type\":\"T\"} trailing".to_vec(), b"\xff\xfe".to_vec(), b"{\"type\":\"\xc3\x28\"}".to_vec(),
            b"{\"type\":\"a\0b\"}".to_vec(), b"\0".to_vec(), deep.clone().into_bytes(), "[".repeat(10_000).into_bytes(),
            format!("{{\"type\":\"T\",\"properties\":{deep}}}").into_bytes(), b"{\"weight\":1e999}".to_vec(), b"NaN".to_vec(),
            b"[]".to_vec(), b"[[\"Task\"]]".to_vec(), b"{\"objects\":[[\"Task\",\"listed\"]]}".to_vec(), b"null".to_vec(), b"1".to_vec(), b"\"text\"".to_vec(), b"true".to_vec(), b"{\"surprise\":1}".to_vec(),
        ];
        for (method, path) in WRITES {
            let path = path.replace("{object}", &object).replace("{agent}", &agent);
            for body in &bodies {
                let what = format!("{method} {path} {}", String::from_utf8_lossy(body));
                let answer = client.raw(method.parse().unwrap(), &path, "application/json", body.clone()).await;
                is_clear(&answer, &what);
                assert_eq!(answer.status, 400, "{what}");
            }
            let unknown = client.raw(method.parse().unwrap(), &path, "application/json", "{\"surprise\":1}").await;
            names(&unknown, "surprise", path.as_str());
            for kind in ["text/plain", "application/xml", "application/x-www-form-urlencoded", "nonsense", ""] {
                let answer = client.raw(method.parse().unwrap(), &path, kind, "{}").await;
                assert_eq!(answer.status, 415, "{path} {kind}");
                is_clear(&answer, kind);
            }
        }
        assert_eq!(counts(&client).await, before);
    }

    async fn fields_that_do_not_fit_are_named(db: TestDb) {
        let server = Server::start(&db).await;
        let client = server.admin();
        let id = client.object("Task", "a", json!({})).await;
        let before = counts(&client).await;
        let long = "x".repeat(5_000);
        let check = async |method: &str, path: &str, body: Value, field: &str| {
            let what = format!("{method} {path} {body}");
            names(&client.json(method.parse().unwrap(), path, body).await, field, &what);
        };
        for (body, field) in [
            (json!({}), "type"), (json!({ "type": null }), "type"), (json!({ "type": 1 }), "type"), (json!({ "type": "" }), "type"),
            (json!({ "type": "has space" }), "type"), (json!({ "type": long }), "type"), (json!({ "type": "T\u{0}" }), "type"),
            (json!({ "type": "T", "key": 1 }), "key"), (json!({ "type": "T", "key": "" }), "key"), (json!({ "type": "T", "key": "a\u{0}" }), "key"),
            (json!({ "type": "T", "key": long }), "key"), (json!({ "type": "T", "status": [] }), "status"), (json!({ "type": "T", "labels": "a" }), "labels"),
            (json!({ "type": "T", "labels": [1] }), "labels[0]"), (json!({ "type": "T", "labels": ["a\u{0}"] }), "labels[0]"),
            (json!({ "type": "T", "key": "a\u{1b}[2J" }), "key"), (json!({ "type": "T", "status": "a\nb" }), "status"), (json!({ "type": "T", "labels": ["a\u{202e}"] }), "labels[0]"),
            (json!({ "type": "T", "labels": vec!["x"; 65] }), "labels"), (json!({ "type": "T", "properties": [] }), "properties"),
            (json!({ "type": "T", "properties": { "a": "\u{0}" } }), "properties.a"), (json!({ "type": "T", "properties": { "a": { "b": ["\u{0}"] } } }), "properties.a"),
            (json!({ "type": "T", "properties": { "": 1 } }), "properties"), (json!({ "type": "T", "id": id }), "id"), (json!({ "type": "T", "version": 1 }), "version"),
            (json!({ "type": "T", "properties": { "a": "x".repeat(2 << 20) } }), "properties"),
        ] {
            check("POST", "/api/graph/objects", body.clone(), field).await;
            let mut keyed = body.clone();
            keyed.as_object_mut().unwrap().entry("key").or_insert_with(|| "some".into());
            check("PUT", "/api/graph/objects/upsert", keyed, field).await;
            check("POST", "/api/graph/objects/bulk", json!({ "objects": [{ "type": "Fine" }, body], "atomic": true }), &format!("objects[1].{field}")).await;
        }
        let nested: Value = serde_json::from_str(&deep(100)).unwrap();
        check("POST", "/api/graph/objects", json!({ "type": "T", "properties": { "a": nested } }), "properties.a").await;
        check("PATCH", &format!("/api/graph/objects/{id}"), json!({ "expectedVersion": "1" }), "expectedVersion").await;
        check("PATCH", &format!("/api/graph/objects/{id}"), json!({ "expectedVersion": 0 }), "expectedVersion").await;
        check("PATCH", &format!("/api/graph/objects/{id}"), json!({ "type": "no good" }), "type").await;
        for (body, field) in [
            (json!({ "type": "r", "fromId": "x", "toId": id }), "fromId"), (json!({ "type": "r", "fromId": id }), "toId"),
            (json!({ "type": "r", "fromId": id, "toId": 1 }), "toId"), (json!({ "type": "r", "fromId": id, "toId": id, "weight": "heavy" }), "weight"),
            (json!({ "type": "9", "fromId": id, "toId": id }), "type"),
        ] {
            check("POST", "/api/graph/relationships", body, field).await;
        }
        for (body, field) in [
            (json!({ "query": 1 }), "query"), (json!({}), "query"), (json!({ "query": "a", "limit": 0 }), "limit"), (json!({ "query": "a", "limit": -1 }), "limit"),
            (json!({ "query": "a", "limit": 1001 }), "limit"), (json!({ "query": "a", "limit": 1e30 }), "limit"), (json!({ "query": "a", "mode": "magic" }), "mode"),
            (json!({ "query": "a", "types": ["no good"] }), "types[0]"), (json!({ "query": "a", "filters": [{ "path": "a'b", "op": "eq", "value": 1 }] }), "filters[0].path"),
            (json!({ "query": "a", "filters": [{ "path": "a", "op": "like", "value": 1 }] }), "filters[0].op"), (json!({ "query": "a", "filters": [{ "path": "a", "op": "in", "value": [] }] }), "filters[0].value"),
            (json!({ "query": "a", "labels": ["\u{0}"] }), "labels[0]"), (json!({ "query": "a", "status": "\u{0}" }), "status"), (json!({ "query": "a", "weights": { "text": -1 } }), "weights.text"),
            (json!({ "query": "a".repeat(2_501) }), "query"),
            (json!({ "query": "a", "budgetTokens": 0 }), "budgetTokens"), (json!({ "query": "a", "budgetTokens": -1 }), "budgetTokens"), (json!({ "query": "a", "budgetTokens": 1_000_001 }), "budgetTokens"),
            (json!({ "query": "a", "group": { "relationship": "no good" } }), "group.relationship"), (json!({ "query": "a", "group": { "relationship": "part_of", "direction": "both" } }), "group.direction"),
        ] {
            check("POST", "/api/graph/search", body, field).await;
        }
        for (body, field) in [
            (json!({ "startIds": [] }), "startIds"), (json!({ "startIds": ["x"] }), "startIds[0]"), (json!({ "startIds": [id], "maxDepth": -1 }), "maxDepth"),
            (json!({ "startIds": [id], "maxDepth": 17 }), "maxDepth"), (json!({ "startIds": [id], "maxNodes": 0 }), "maxNodes"), (json!({ "startIds": [id], "maxNodes": 10_001 }), "maxNodes"),
            (json!({ "startIds": [id], "direction": "up" }), "direction"), (json!({ "startIds": [id], "asOf": "yesterday" }), "asOf"), (json!({ "startIds": vec![id.as_str(); 101] }), "startIds"),
            (json!({ "startIds": [id], "relationshipTypes": ["a\u{0}"] }), "relationshipTypes[0]"), (json!({ "startIds": [id], "objectTypes": ["a\u{0}"] }), "objectTypes[0]"),
        ] {
            check("POST", "/api/graph/traverse", body, field).await;
        }
        check("POST", "/api/graph/path", json!({ "fromId": id, "toId": id, "maxDepth": 99 }), "maxDepth").await;
        check("POST", "/api/graph/path", json!({ "fromId": id, "toId": id, "relationshipTypes": ["\u{0}"] }), "relationshipTypes[0]").await;
        for (body, field) in [
            (json!({ "name": "a/b" }), "name"), (json!({ "name": "" }), "name"), (json!({ "name": "x".repeat(65) }), "name"), (json!({ "name": id }), "name"), (json!({ "name": "a\u{0}" }), "name"),
        ] {
            check("POST", "/api/projects", body, field).await;
        }
        for (body, field) in [
            (json!({ "name": "", "scopes": ["graph:read"] }), "name"), (json!({ "name": "a\u{0}", "scopes": ["graph:read"] }), "name"), (json!({ "name": "a", "scopes": [] }), "scopes"),
            (json!({ "name": "a", "scopes": ["x"] }), "scopes[0]"), (json!({ "name": "a", "scopes": ["graph:read"], "expiresAt": 1 }), "expiresAt"),
        ] {
            check("POST", "/api/tokens", body, field).await;
        }
        for (body, field) in [
            (json!({ "name": "a\u{0}", "version": "1.0.0" }), "name"), (json!({ "name": "a", "version": "1" }), "version"), (json!({ "name": "a", "version": "1.0.0", "description": "\u{0}" }), "description"),
            (json!({ "name": "a", "version": "1.0.0", "objectTypeSchemas": { "T": { "type": "nonsense" } } }), "objectTypeSchemas.T"), (json!({ "name": "a", "version": "1.0.0", "objectTypeSchemas": { "T": { "title": "\u{0}" } } }), "objectTypeSchemas"),
            (json!({ "name": "a", "version": "1.0.0", "uiConfigs": { "a": "\u{0}" } }), "uiConfigs"), (json!({ "name": "a", "version": "1.0.0", "relationshipTypeSchemas": { "r": { "from": "A" } } }), "relationshipTypeSchemas.r.to"),
        ] {
            check("POST", "/api/template-packs", body, field).await;
        }
        for (body, field) in [
            (json!({ "title": "", "content": "x" }), "title"), (json!({ "title": "a\u{0}", "content": "x" }), "title"), (json!({ "title": "a" }), "content"),
            (json!({ "title": "a", "content": "x", "metadata": [] }), "metadata"), (json!({ "title": "a", "content": "x", "metadata": { "a": "\u{0}" } }), "metadata"), (json!({ "title": "a", "content": "x", "mimeType": "image/png" }), ""),
            (json!({ "title": "a", "content": "x", "sourceUrl": "\u{0}" }), "sourceUrl"), (json!({ "title": "a", "content": "not a pdf", "mimeType": "application/pdf" }), ""),
        ] {
            check("POST", "/api/documents", body, field).await;
        }
        for (body, field) in [
            (json!({}), "name"), (json!({ "name": "has space" }), "name"), (json!({ "name": "a\u{0}" }), "name"), (json!({ "name": "a", "description": "\u{0}" }), "description"),
            (json!({ "name": "a", "systemPrompt": "\u{0}" }), "systemPrompt"), (json!({ "name": "a", "systemPrompt": 1 }), "systemPrompt"), (json!({ "name": "a", "model": 5 }), "model"),
            (json!({ "name": "a", "model": ["google", "x"] }), "model"), (json!({ "name": "a", "model": { "provider": "google" } }), "model.name"), (json!({ "name": "a", "model": { "provider": "google", "name": "\u{0}" } }), "model.name"),
            (json!({ "name": "a", "model": { "provider": "google", "name": "x", "temperature": 3 } }), "model.temperature"), (json!({ "name": "a", "model": { "provider": "google", "name": "x", "size": 3 } }), "model.size"),
            (json!({ "name": "a", "tools": "all" }), "tools"), (json!({ "name": "a", "tools": ["entities_serch"] }), "tools[0]"), (json!({ "name": "a", "tools": ["\u{0}*"] }), "tools[0]"), (json!({ "name": "a", "maxSteps": 0 }), "maxSteps"), (json!({ "name": "a", "maxSteps": -1 }), "maxSteps"),
            (json!({ "name": "a", "defaultTimeout": 100_000 }), "defaultTimeout"), (json!({ "name": "a", "flowType": "circle" }), "flowType"), (json!({ "name": "a", "flowType": "parallel" }), "flowConfig.agents"),
            (json!({ "name": "a", "flowType": "loop", "flowConfig": { "agents": ["nobody"] } }), "flowConfig.agents[0]"), (json!({ "name": "a", "flowType": "loop", "flowConfig": { "until": 1 } }), "flowConfig.until"), (json!({ "name": "a", "flowType": "loop", "flowConfig": { "until": "\u{0}" } }), "flowConfig"), (json!({ "name": "a", "flowConfig": [] }), "flowConfig"),
            (json!({ "name": "a", "visibility": "secret" }), "visibility"), (json!({ "name": "a", "acp": { "displayName": "A" } }), "acp"), (json!({ "name": "a", "visibility": "external", "acp": { "displayName": "\u{0}" } }), "acp"), (json!({ "name": "a", "trigger": "\u{0}" }), "trigger"), (json!({ "name": "a", "config": [] }), "config"),
            (json!({ "name": "a", "config": { "k": "\u{0}" } }), "config"), (json!({ "name": "a", "product": "p" }), "product"), (json!({ "name": "a", "version": 2 }), "version"),
        ] {
            check("POST", "/api/admin/agents", body, field).await;
        }
        let agent = format!("/api/admin/agents/{}", client.agent("mine", json!({ "model": { "provider": "rehearsal", "name": "echo" } })).await);
        for (body, field) in [
            (json!({ "expectedVersion": 0 }), "expectedVersion"), (json!({ "model": { "provider": "" , "name": "x" } }), "model.provider"), (json!({ "model": [] }), "model"), (json!({ "tools": [null] }), "tools[0]"), (json!({ "systemPrompt": "a\u{0}" }), "systemPrompt"),
        ] {
            check("PATCH", &agent, body, field).await;
        }
        for (body, field) in [
            (json!({}), "input"), (json!({ "input": "" }), "input"), (json!({ "input": "  " }), "input"), (json!({ "input": 1 }), "input"), (json!({ "input": "a\u{0}" }), "input"), (json!({ "input": "x", "maxSteps": 0 }), "maxSteps"), (json!({ "input": "x", "maxSteps": 1.5 }), "maxSteps"),
            (json!({ "input": "x", "timeoutSeconds": -1 }), "timeoutSeconds"), (json!({ "input": "x", "model": 5 }), "model"), (json!({ "input": "x", "model": { "provider": "rehearsal", "name": "echo\u{0}" } }), "model.name"), (json!({ "input": "x".repeat((1 << 20) + 1) }), "input"),
        ] {
            check("POST", &format!("{agent}/trigger"), body, field).await;
        }
        client.delete(&agent).await.is(200);
        assert_eq!(counts(&client).await, before);
    }

    async fn too_much_is_refused_with_the_limit(db: TestDb) {
        let server = Server::start(&db).await;
        let client = server.admin();
        let before = counts(&client).await;
        let big = json!({ "type": "T", "properties": { "a": "x".repeat(10 << 20) } });
        let answer = client.post("/api/graph/objects", big).await;
        assert!(answer.refused(413, "too_large")["message"].as_str().unwrap().contains("8388608"), "{}", answer.text);
        let answer = client.raw(Method::POST, "/api/documents", "application/json", vec![b' '; (64 << 20) + 1]).await;
        assert!(answer.refused(413, "too_large")["message"].as_str().unwrap().contains("67108864"), "{}", answer.text);
        assert_eq!(counts(&client).await, before);
    }

    async fn parameters_that_do_not_fit_are_named(db: TestDb) {
        let server = Server::start(&db).await;
        let client = server.admin();
        for list in ["/api/graph/objects", "/api/graph/relationships", "/api/documents", "/api/template-packs", "/api/tokens", "/api/projects", "/api/admin/agents", "/api/admin/runs"] {
            for (query, field) in [
                ("limit=0", "limit"), ("limit=-1", "limit"), ("limit=101", "limit"), ("limit=99999999999999999999999", "limit"), ("limit=ten", "limit"), ("limit=1.5", "limit"), ("limit=", "limit"),
                ("limit=1&limit=2", "limit"), ("cursor=garbage", "cursor"), ("cursor=", "cursor"), ("cursor=AAAA", "cursor"), ("cursor=%00", "cursor"), ("cursor=%FF", "cursor"), ("surprise=1", "surprise"),
            ] {
                let path = format!("{list}?{query}");
                names(&client.get(&path).await, field, &path);
            }
            // A well-formed cursor that was never issued gives an empty page, or the page from there on.
            let path = format!("{list}?cursor={}", "_".repeat(32));
            assert!(client.get(&path).await.status.as_u16() < 500, "{path}");
        }
        for (query, field) in [
            ("type=no%20good", "types[0]"), ("label=%00", "labels[0]"), ("status=%00", "status"), ("key=%00", "key"), ("filters=nonsense", "filters"), ("filters=[{}]", "filters"),
        ] {
            let path = format!("/api/graph/objects?{query}");
            names(&client.get(&path).await, field, &path);
        }
        let agent = client.agent("a", json!({ "model": { "provider": "rehearsal", "name": "echo" } })).await;
        let run = format!("/api/admin/agents/{agent}/runs/{}", client.trigger(&agent, "x").await);
        for (path, field) in [
            ("/api/admin/agents?include_internal=perhaps", "include_internal"), ("/api/admin/runs?status=done", "status"), ("/api/admin/runs?status=%00", "status"), ("/api/admin/runs?parent_run_id=x", "parent_run_id"),
            (&format!("{run}/messages?role=robot"), "role"), (&format!("{run}/messages?step=-1"), "step"), (&format!("{run}/messages?step=x"), "step"), (&format!("{run}/messages?limit=0"), "limit"), (&format!("{run}/messages?cursor=x"), "cursor"),
            (&format!("{run}/tool-calls?status=done"), "status"), (&format!("{run}/tool-calls?tool_name=%00"), "tool_name"), (&format!("{run}/tool-calls?limit=101"), "limit"), (&format!("{run}/tool-calls/x"), "toolCallId"), (&format!("{run}/events?after=-1"), "after"), (&format!("{run}/events?after=x"), "after"),
            (&format!("/api/admin/agents/{agent}/runs/x"), "runId"),
        ] {
            names(&client.get(path).await, field, path);
        }
        // The cursor of another list is invalid here.
        let foreign = client.get(&format!("{run}/messages?cursor={}", "_".repeat(32))).await;
        names(&foreign, "cursor", "a foreign cursor");
        names(&client.get("/api/graph/relationships?fromId=x").await, "fromId", "fromId");
        names(&client.delete("/api/graph/objects/01890000-0000-7000-8000-000000000000?expectedVersion=-1").await, "expectedVersion", "expectedVersion");
        names(&client.get("/api/graph/changes?after=x").await, "after", "after");
        for path in ["/api/graph/objects", "/api/graph/relationships", "/api/documents", "/api/template-packs", "/api/projects", "/api/admin/agents", "/api/admin/runs"] {
            let field = match path {
                "/api/admin/agents" => "agentId",
                "/api/admin/runs" => "runId",
                _ => "id",
            };
            for id in ["x", "1", "-1", "%00", "%FF", "..%2f..%2fetc", "01890000-0000-7000-8000", &"9".repeat(2_000), "'%20OR%201=1--"] {
                let path = format!("{path}/{id}");
                let answer = client.get(&path).await;
                let has_name = field == "agentId" || path.starts_with("/api/projects/");
                if has_name && matches!(id, "x" | "1" | "01890000-0000-7000-8000") {
                    // An agent or a project can have this name.
                    answer.refused(404, "not_found");
                    continue;
                }
                names(&answer, field, &path);
                assert_eq!(answer.status, 400, "{path}");
            }
        }
        client.get("/api/nothing").await.refused(404, "no_route");
        let wrong = client.delete("/api/graph/search").await;
        wrong.refused(405, "method_not_allowed");
        assert_eq!(wrong.headers["allow"], "POST");
        let answer = client.send(client.request(Method::GET, "/api/graph/objects").header("x-project-id", &b"\xff"[..]).body(Body::empty()).unwrap()).await;
        is_clear(&answer, "a project that is not text");
    }

    async fn no_query_is_hostile_enough(db: TestDb) {
        let server = Server::start(&db).await;
        let client = server.admin();
        client.object("Note", "n", json!({ "title": "plain words" })).await;
        let mut queries: Vec<String> = [
            "", " ", "\"", "\"\"", "\"unclosed", "AND", "OR NOT", "NEAR(", "NEAR(a b, 5)", "a AND", "NOT a", "(((", ")))", "a:b", "name:plain", "{name body}:x", "*", "**", "a*b*", "^", "^plain", "-", "--", "-plain", "- -", "+a", "!", "!!a", "a & b", "a | b", "a <-> b", "&", "|", ":*", "a:*", "'", "''", "';DROP TABLE graph_objects;--",
            "\\", "\\\\", "\\'", "%", "_", "%_%", "$1", "$$", "\u{0}", "a\u{0}b", "\u{feff}", "\u{202e}abc", "🦀", "🦀*", "é", "ﬁ", "İ", "ß", "\u{300}\u{301}", "\n\r\t", "--x", "/*", "*/", "<script>", "node.js", "C++", "a_b", "has-session", "1", "1.5e10", "∞", "中文", "עברית", "ไทย",
        ].iter().map(|one| (*one).to_owned()).collect();
        queries.extend(["a ".repeat(1_250), "\"a ".repeat(800), "(".repeat(2_500), "-a ".repeat(800), "x".repeat(2_499), "a* ".repeat(800), "🦀".repeat(2_500), "\"".repeat(2_001)]);
        for query in queries {
            for mode in ["text", "hybrid", "vector", "linked", "auto"] {
                for path in ["/api/graph/search", "/api/documents/search"] {
                    let answer = client.post(path, json!({ "query": query, "mode": mode })).await;
                    let shown: String = query.chars().take(40).collect();
                    assert!(answer.status == 200 || answer.status == 400, "{path} {mode} {shown:?}: {}", answer.text);
                    if answer.status == 400 {
                        names(&answer, "query", &shown);
                    }
                }
            }
        }
        assert_eq!(client.post("/api/graph/search", json!({ "query": "plain", "mode": "text" })).await.is(200)["hits"].as_array().unwrap().len(), 1);
    }
}

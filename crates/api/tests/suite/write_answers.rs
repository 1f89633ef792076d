//! A write tells whoever may not read what identifies the result, and nothing that others wrote.

use axum::http::Method;
use emergent_domain::token::Scope;
use emergent_testkit::both_engines;
use serde_json::{Value, json};

use crate::{
    authorisation::operations,
    common::{Answer, Client, Server},
    mcp::peer::Peer,
};

/// What others wrote.
const SECRET: &str = "kestrel-prices";
const WRITES: [Scope; 2] = [Scope::GraphWrite, Scope::AgentsWrite];

/// The ids of things that others wrote.
struct Written {
    object: String,
    other: String,
    relationship: String,
    document: String,
    agent: String,
}

const CONTENT: &str = "# Prices\n\nAn otter costs nine.";

async fn write(admin: &Client) -> Written {
    let id = |answer: &Answer, status| answer.is(status)["id"].as_str().unwrap().to_owned();
    let properties = json!({ "name": SECRET });
    let new = json!({
        "type": "Note", "key": "old", "status": SECRET, "labels": [SECRET], "properties": properties,
    });
    let object = id(&admin.post("/api/graph/objects", new).await, 201);
    let other = admin.object("Note", "other", json!({})).await;
    let new = json!({ "type": "knows", "fromId": object, "toId": other, "properties": properties, "weight": 0.125 });
    let relationship = id(&admin.post("/api/graph/relationships", new).await, 201);
    let new = json!({ "title": SECRET, "content": CONTENT, "metadata": properties, "sourceUrl": format!("https://{SECRET}.example") });
    let document = id(&admin.post("/api/documents", new).await, 201);
    let agent = admin
        .agent(
            "seller",
            json!({ "systemPrompt": SECRET, "description": SECRET, "config": { "note": SECRET } }),
        )
        .await;
    Written { object, other, relationship, document, agent }
}

async fn client(server: &Server, scopes: &[Scope]) -> Client {
    server.client(Some(&server.token(scopes, Some(server.default_project)).await))
}

#[track_caller]
fn assert_withheld(answer: &Answer, what: &str) {
    assert!(matches!(answer.status.as_u16(), 200 | 201), "{what}: {}", answer.text);
    assert!(!answer.text.contains(SECRET) && !answer.text.contains("0.125"), "{what}: {}", answer.text);
    let data = &answer.body["data"];
    let view = if data.is_array() { &data[0] } else { data };
    assert_eq!(view["withheld"], true, "{what}: {}", answer.text);
    assert!(view["id"].is_string(), "{what}");
}

both_engines! {
    async fn a_write_tells_only_what_identifies_the_result(db: TestDb) {
        let server = Server::start(&db).await;
        let admin = server.admin();
        let Written { object, other, relationship, document, agent } = write(&admin).await;
        let writer = client(&server, &WRITES).await;
        let reader = client(&server, &[&WRITES[..], &[Scope::GraphRead, Scope::AgentsRead]].concat()).await;
        let edge = json!({ "type": "knows", "fromId": object, "toId": other });
        let same = json!({ "title": "z", "content": CONTENT });
        let (objects, edges) = ("/api/graph/objects", "/api/graph/relationships");
        let calls: Vec<(Method, String, Value)> = vec![
            (Method::PATCH, format!("{objects}/{object}"), json!({})),
            (Method::PATCH, format!("{objects}/Note%2Fold"), json!({ "properties": { "more": 1 } })),
            (Method::PUT, format!("{objects}/upsert"), json!({ "type": "Note", "key": "old", "properties": {} })),
            (Method::POST, edges.to_owned(), edge.clone()),
            (Method::POST, format!("{edges}/bulk"), json!({ "relationships": [edge] })),
            (Method::POST, format!("{edges}/bulk"), json!({ "relationships": [edge], "atomic": true })),
            (Method::PATCH, format!("{edges}/{relationship}"), json!({})),
            (Method::DELETE, format!("{edges}/{relationship}"), Value::Null),
            (Method::POST, format!("{edges}/{relationship}/restore"), json!({})),
            (Method::DELETE, format!("{objects}/{object}"), Value::Null),
            (Method::POST, format!("{objects}/{object}/restore"), json!({})),
            (Method::POST, "/api/documents".to_owned(), same),
            (Method::PATCH, format!("/api/admin/agents/{agent}"), json!({})),
            (Method::PATCH, "/api/admin/agents/seller".to_owned(), json!({ "maxSteps": 9 })),
            (Method::PATCH, "/api/admin/agents/seller?dryRun=true".to_owned(), json!({ "maxSteps": 7 })),
        ];
        let send = async |client: &Client, method: &Method, path: &str, body: &Value| match *method {
            Method::DELETE => client.delete(path).await,
            _ => client.json(method.clone(), path, body.clone()).await,
        };
        for (method, path, body) in &calls {
            let what = format!("{method} {path}");
            assert_withheld(&send(&writer, method, path, body).await, &what);
        }
        for (method, path, body) in &calls {
            let whole = send(&reader, method, path, body).await;
            assert!(whole.text.contains(SECRET) && !whole.text.contains("withheld"), "{method} {path}: {}", whole.text);
        }
        // What it sent itself is no secret.
        let new = json!({ "type": "Note", "key": "own", "properties": { "mine": 1 } });
        let own = writer.post(objects, new).await;
        assert_eq!((&own.is(201)["properties"]["mine"], &own.body["data"]["withheld"]), (&json!(1), &Value::Null));

        assert_withheld(&writer.delete(&format!("/api/documents/{document}")).await, "deleting a document");
        assert_withheld(&writer.delete("/api/admin/agents/seller").await, "deleting an agent");
    }

    async fn no_route_that_writes_tells_what_others_wrote(db: TestDb) {
        let server = Server::start(&db).await;
        let written = write(&server.admin()).await;
        let writer = client(&server, &WRITES).await;
        let mut called = 0;
        for operation in operations() {
            let areas = ["/api/graph/", "/api/documents", "/api/admin/agents"];
            if operation.method == Method::GET || !areas.iter().any(|area| operation.path.starts_with(area)) {
                continue;
            }
            let filled = operation.path_with(|_| match operation.path.as_str() {
                path if path.starts_with("/api/graph/relationships") => written.relationship.clone(),
                path if path.starts_with("/api/graph/") => written.object.clone(),
                path if path.starts_with("/api/documents") => written.document.clone(),
                _ => written.agent.clone(),
            });
            let answer = operation.call_at(&writer, &filled, "{}").await;
            assert!(!answer.text.contains(SECRET), "{}: {}", operation.name(), answer.text);
            called += usize::from(answer.status == 200);
        }
        assert!(called >= 5, "{called}");
    }

    async fn a_tool_that_writes_tells_only_what_identifies_the_result(db: TestDb) {
        let server = Server::start(&db).await;
        let Written { object, other, .. } = write(&server.admin()).await;
        let edge = json!({ "type": "knows", "fromId": object, "toId": other });
        let calls = [
            ("entities_update", json!({ "id": "Note/old", "properties": { "a": 1 } })),
            ("entities_create", json!({ "type": "Note", "key": "old", "properties": { "name": "guess" }, "merge": true })),
            ("relationships_update", json!({ "type": "knows", "fromId": object, "toId": other, "properties": { "a": 1 } })),
            ("relationships_create", json!({ "relationships": [edge] })),
            ("entities_delete", json!({ "id": "Note/old" })),
            ("entities_restore", json!({ "id": "Note/old" })),
        ];
        let writer = Peer::modern(client(&server, &WRITES).await);
        for (tool, input) in &calls {
            let answer = writer.call(tool, input.clone()).await;
            assert_ne!(answer["isError"], true, "{tool}: {answer}");
            assert_eq!(answer["structuredContent"]["withheld"], true, "{tool}: {answer}");
            assert!(!answer.to_string().contains(SECRET), "{tool}: {answer}");
        }
        let reader = Peer::modern(client(&server, &[Scope::GraphWrite, Scope::GraphRead]).await);
        let answer = reader.call("entities_update", json!({ "id": "Note/old", "properties": { "a": 2 } })).await;
        assert!(answer.to_string().contains(SECRET) && answer["structuredContent"]["withheld"].is_null(), "{answer}");
    }
}

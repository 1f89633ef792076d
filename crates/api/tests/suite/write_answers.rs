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

    async fn a_relationship_that_a_subgraph_finds_is_not_told(db: TestDb) {
        let server = Server::start(&db).await;
        let Written { object, other, relationship, .. } = write(&server.admin()).await;
        let body = json!({
            "objects": [{ "ref": "mine", "type": "Note", "properties": { "mine": 1 } }],
            "relationships": [{ "type": "knows", "fromId": object, "toId": other }],
        });
        let answer = client(&server, &WRITES).await.post("/api/graph/subgraph", body.clone()).await;
        let made = answer.is(201);
        assert!(!answer.text.contains(SECRET) && !answer.text.contains("0.125"), "{}", answer.text);
        assert_eq!((&made["relationships"][0]["id"], &made["relationships"][0]["withheld"]), (&json!(relationship), &json!(true)));
        assert_eq!((&made["objects"][0]["properties"]["mine"], &made["objects"][0]["withheld"]), (&json!(1), &Value::Null));
        let reader = client(&server, &[Scope::GraphWrite, Scope::GraphRead]).await;
        assert!(reader.post("/api/graph/subgraph", body).await.text.contains(SECRET));
    }

    async fn a_refused_write_tells_nothing_of_what_others_wrote(db: TestDb) {
        let server = Server::start(&db).await;
        let admin = server.admin();
        let Written { object, other, relationship, .. } = write(&admin).await;
        let numbers = json!({ "type": "object", "properties": { "name": { "type": "number" }, "mine": { "type": "number" } } });
        let closed = json!({ "type": "object", "additionalProperties": false, "properties": { "mine": {} } });
        let writer = client(&server, &WRITES).await;
        let reader = client(&server, &[Scope::GraphWrite, Scope::GraphRead]).await;
        let peer = Peer::modern(client(&server, &WRITES).await);
        for (version, schema) in [("1.0.0", numbers), ("2.0.0", closed)] {
            let pack = json!({
                "name": "own", "version": version, "objectTypeSchemas": { "Note": schema, "Strict": schema },
                "relationshipTypeSchemas": { "knows": { "from": "*", "to": "*", "properties": schema } },
            });
            // Whoever may only write stores a pack, and does not choose those that apply.
            let pack = writer.post("/api/template-packs", pack).await.is(201)["id"].as_str().unwrap().to_owned();
            let path = format!("/api/template-packs/{pack}");
            assert_eq!(writer.post(&format!("{path}/assign"), json!({})).await.refused(403, "missing_scope")["details"]["scope"], "graph:read");
            let assigned = peer.call("schema_pack_assign", json!({ "id": format!("own@{version}") })).await;
            assert!(assigned["isError"] == true && assigned.to_string().contains("graph:read"), "{assigned}");
            // The right to administer is none to read.
            let administrator = Peer::modern(client(&server, &[Scope::GraphWrite, Scope::AdminWrite]).await);
            let assigned = administrator.call("schema_pack_assign", json!({ "id": format!("own@{version}") })).await;
            assert!(assigned["isError"] == true && assigned.to_string().contains("graph:read"), "{assigned}");
            assert_eq!(admin.get(&path).await.is(200)["assigned"], false);
            reader.post(&format!("{path}/assign"), json!({})).await.is(200);
            writer.delete(&format!("{path}/assign")).await.refused(403, "missing_scope");

            let edges = "/api/graph/relationships";
            let change = json!({ "properties": { "mine": "x", "z": 1 } });
            let line = json!({ "kind": "object", "type": "Note", "key": "old", "properties": change["properties"] }).to_string();
            let imported = writer.raw(Method::POST, "/api/graph/import", "application/x-ndjson", line).await;
            let mut texts = vec![imported.text.clone()];
            for (method, path, body) in [
                (Method::PATCH, format!("/api/graph/objects/{object}"), change.clone()),
                (Method::PATCH, format!("/api/graph/objects/{object}"), json!({ "type": "Strict" })),
                (Method::PUT, "/api/graph/objects/upsert".to_owned(), json!({ "type": "Note", "key": "old", "properties": change["properties"] })),
                (Method::PATCH, format!("{edges}/{relationship}"), change.clone()),
            ] {
                let answer = writer.json(method, &path, body).await;
                answer.refused(400, "invalid");
                texts.push(answer.text);
            }
            for (tool, input) in [
                ("entities_update", json!({ "id": object, "properties": change["properties"] })),
                ("entities_create", json!({ "type": "Note", "key": "old", "properties": change["properties"], "merge": true })),
                ("relationships_update", json!({ "type": "knows", "fromId": object, "toId": other, "properties": change["properties"] })),
            ] {
                let answer = peer.call(tool, input).await;
                assert_eq!(answer["isError"], true, "{tool}: {answer}");
                texts.push(answer.to_string());
            }
            for text in &texts {
                assert!(!text.contains(SECRET) && !text.contains("properties.name"), "{text}");
                assert!(text.contains("graph:read"), "{text}");
            }
            // What it sent itself is named.
            assert!(texts[1].contains(if version == "1.0.0" { "properties.mine" } else { "properties.z" }), "{}", texts[1]);
            let whole = reader.patch(&format!("/api/graph/objects/{object}"), change).await;
            whole.refused(400, "invalid");
            assert!(whole.text.contains("properties.name"), "{}", whole.text);
            reader.delete(&format!("{path}/assign")).await.is(200);
        }
    }

    async fn a_refused_relationship_tells_nothing_of_its_ends(db: TestDb) {
        let server = Server::start(&db).await;
        let admin = server.admin();
        let hidden = admin.object(SECRET, "a", json!({})).await;
        let other = admin.object("Note", "b", json!({})).await;
        let stored = admin.edge("knows", &hidden, &other).await;
        let numbers = json!({ "type": "object", "properties": { "n": { "type": "number" } } });
        let pack = json!({
            "name": "own", "version": "1.0.0", "objectTypeSchemas": {},
            "relationshipTypeSchemas": { "knows": { "from": ["Note"], "to": ["Note"], "properties": numbers } },
        });
        let pack = admin.post("/api/template-packs", pack).await.is(201)["id"].as_str().unwrap().to_owned();
        admin.post(&format!("/api/template-packs/{pack}/assign"), json!({})).await.is(200);
        let writer = client(&server, &[Scope::GraphWrite]).await;
        let reader = client(&server, &[Scope::GraphWrite, Scope::GraphRead]).await;
        let edge = json!({ "type": "knows", "fromId": hidden, "toId": other });
        let several = json!({ "relationships": [edge] });
        let subgraph = json!({ "objects": [{ "ref": "new", "type": "Note" }], "relationships": [edge] });
        for (method, path, body) in [
            (Method::POST, "/api/graph/relationships".to_owned(), edge),
            (Method::POST, "/api/graph/relationships/bulk".to_owned(), several),
            (Method::POST, "/api/graph/subgraph".to_owned(), subgraph),
            (Method::PATCH, format!("/api/graph/relationships/{stored}"), json!({ "properties": { "n": 1 } })),
        ] {
            let refused = writer.json(method.clone(), &path, body.clone()).await;
            assert!(!refused.text.contains(SECRET) && refused.text.contains("graph:read"), "{path}: {}", refused.text);
            let told = reader.json(method, &path, body).await;
            assert!(told.text.contains(SECRET), "{path}: {}", told.text);
        }
        // What the request sent itself is named.
        let (a, b) = (admin.object("Note", "c", json!({})).await, other);
        let wrong = json!({ "type": "knows", "fromId": a, "toId": b, "properties": { "n": "x" } });
        let refused = writer.post("/api/graph/relationships", wrong).await;
        assert_eq!(refused.refused(400, "invalid")["details"][0]["field"], "properties.n", "{}", refused.text);
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

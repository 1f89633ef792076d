//! The keys that `serde_json` keeps for itself: nobody may send them, and rows that have them can be shown, changed and
//! deleted.

use crate::common;

use axum::http::Method;
use common::{Client, Server};
use emergent_domain::token::Scope;
use emergent_store::Tx;
use emergent_testkit::both_engines;
use serde_json::{Value, json};

const KEY: &str = "$serde_json::private::RawValue";

/// An object with a reserved key whose text has 120 lists and a further such object, this many times: parsed as a
/// value it needs 120 levels of the stack each time.
fn nested(levels: usize) -> String {
    (0..levels).fold("0".to_owned(), |inner, _| {
        let lists = format!("{}{inner}{}", "[".repeat(120), "]".repeat(120));
        format!(r#"{{"{KEY}":{}}}"#, Value::from(lists))
    })
}

/// Objects with a reserved key: one whose text is nested, one where another key stands first, and an escaped one.
fn hostile_objects() -> [String; 3] {
    [
        nested(12),
        format!(r#"{{"z":1,"{KEY}":"no"}}"#),
        r#"{"\u0024serde_json::private::R\u0061wValue":"[1]"}"#.to_owned(),
    ]
}

/// Requests that take JSON, with a valid body in which `@` stands for any value.
const REQUESTS: &[(&str, &str, &str)] = &[
    ("POST", "/api/graph/objects", r#"{"type":"Note","properties":{"a":@}}"#),
    ("PATCH", "/api/graph/objects/{object}", r#"{"properties":{"a":@}}"#),
    ("PUT", "/api/graph/objects/upsert", r#"{"type":"Note","key":"k","properties":{"a":@}}"#),
    ("POST", "/api/graph/objects/bulk", r#"{"objects":[{"type":"Note","properties":{"a":@}}]}"#),
    (
        "POST",
        "/api/graph/relationships",
        r#"{"type":"r","fromId":"{object}","toId":"{object}","properties":{"a":@}}"#,
    ),
    ("POST", "/api/graph/subgraph", r#"{"objects":[{"ref":"a","type":"Note","properties":{"a":@}}]}"#),
    ("POST", "/api/graph/search", r#"{"query":"x","filters":[{"path":"a","op":"eq","value":@}]}"#),
    ("POST", "/api/documents/search", r#"{"query":"x","filters":@}"#),
    (
        "POST",
        "/api/template-packs",
        r#"{"name":"p","version":"1.0.0","objectTypeSchemas":{"T":{"default":@}}}"#,
    ),
    ("POST", "/api/admin/agents", r#"{"name":"b","config":{"a":@}}"#),
    ("PATCH", "/api/admin/agents/a", r#"{"config":{"a":@}}"#),
    ("POST", "/api/admin/agents/a/trigger", r#"{"input":"x","context":{"a":@}}"#),
    ("POST", "/api/agents/a/invoke", r#"{"input":"x","context":{"a":@}}"#),
    ("POST", "/api/agents/a/agui", r#"{"threadId":"t","runId":"r","messages":[],"state":@}"#),
    (
        "POST",
        "/v1/chat/completions",
        r#"{"model":"a","messages":[{"role":"user","content":"x"}],"tools":[@]}"#,
    ),
    ("POST", "/api/chat/stream", r#"{"message":"x","context":@}"#),
    ("POST", "/api/approvals/{object}/decide", r#"{"decision":"approve","editedInput":@}"#),
    (
        "PUT",
        "/api/admin/triggers/t",
        r#"{"trigger":"* * * * *","config":{"context":@},"dispatch":{"tasks":[]}}"#,
    ),
    (
        "POST",
        "/api/coordination/dispatch",
        r#"{"tasks":[{"key":"t","title":"T","outputSchema":{"default":@}}]}"#,
    ),
    ("POST", "/api/coordination/tasks", r#"{"title":"T","outputSchema":{"default":@}}"#),
    ("POST", "/api/products/install", r#"{"manifest":{"name":"p","a":@}}"#),
    (
        "POST",
        "/api/admin/mcp-servers",
        r#"{"name":"m","transport":"http","url":"https://example.com/","x":@}"#,
    ),
    (
        "POST",
        "/mcp",
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"search","arguments":@}}"#,
    ),
];

async fn count(client: &Client, path: &str) -> usize {
    client.get(path).await.is(200).as_array().expect("a list").len()
}

/// The form of an upload with this metadata.
fn form(metadata: &str) -> String {
    format!(
        "--x\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.txt\"\r\n\r\nSome text.\r\n--x\r\n\
         Content-Disposition: form-data; name=\"metadata\"\r\n\r\n{metadata}\r\n--x--\r\n"
    )
}

/// Sets the properties of an object as an earlier version stored them.
async fn store_properties(server: &Server, object: &str, properties: Value) {
    let (id, text): (uuid::Uuid, String) = (object.parse().expect("an id"), properties.to_string());
    let sql = "UPDATE graph_objects SET properties = $1 WHERE id = $2";
    let write = move |tx: &mut Tx<'_>| tx.execute(sql, &[emergent_store::json(&text), id.into()]);
    server.graph.db().write(write).await.unwrap_or_else(|error: emergent_store::Error| panic!("{error}"));
}

both_engines! {
    async fn a_reserved_key_is_refused_wherever_json_is_taken(db: TestDb) {
        let server = Server::start(&db).await;
        let client = server.admin();
        let object = client.object("Note", "n", json!({})).await;
        client.agent("a", json!({ "visibility": "external" })).await;
        for hostile in hostile_objects() {
            for (method, path, body) in REQUESTS {
                let path = path.replace("{object}", &object);
                let body = body.replace('@', &hostile).replace("{object}", &object);
                let answer = client.raw(method.parse().unwrap(), &path, "application/json", body).await;
                answer.refused(400, "invalid");
                assert!(answer.text.contains("is reserved"), "{method} {path}: {}", answer.text);
            }
            let call = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":{hostile}}}"#);
            let answer = client.raw(Method::POST, "/a2a/default/a", "application/json", call).await;
            assert!(answer.text.contains("is reserved"), "{}", answer.text);
            let upload = form(&format!(r#"{{"a":{hostile}}}"#));
            let answer = client.raw(Method::POST, "/api/documents", "multipart/form-data; boundary=x", upload).await;
            answer.refused(400, "invalid");
            assert!(answer.text.contains("is reserved"), "{}", answer.text);
            let line = format!(r#"{{"kind":"object","type":"Note","properties":{{"a":{hostile}}}}}"#);
            let answer = client.raw(Method::POST, "/api/graph/import", "application/x-ndjson", line).await;
            assert!(answer.text.contains("is reserved"), "{}", answer.text);
        }
        let filter = format!(r#"[{{"path":"a","op":"eq","value":{{"z":1,"{KEY}":"no"}}}}]"#);
        let filter: String = filter.bytes().map(|byte| format!("%{byte:02X}")).collect();
        let answer = client.get(&format!("/api/graph/objects?filters={filter}")).await;
        answer.refused(400, "invalid");
        assert!(answer.text.contains("is reserved"), "{}", answer.text);
        client.get("/health").await.is(200);
        assert_eq!(count(&client, "/api/graph/objects?limit=100").await, 1);
        assert_eq!(count(&client, "/api/admin/agents?limit=100").await, 1);
    }

    async fn a_text_may_mention_a_reserved_key(db: TestDb) {
        let server = Server::start(&db).await;
        let client = server.admin();
        let note = json!({ "text": format!("{{\"{KEY}\":1}}"), "key": KEY });
        let id = client.object("Note", "n", note.clone()).await;
        assert_eq!(client.get(&format!("/api/graph/objects/{id}")).await.is(200)["properties"], note);
    }

    async fn an_object_that_has_a_reserved_key_is_shown_changed_and_deleted(db: TestDb) {
        let server = Server::start(&db).await;
        let client = server.admin();
        let stored = json!({ "a": { "z": 1, KEY: nested(12) }, KEY: "no", "title": "old" });
        let object = client.object("Note", "n", json!({})).await;
        store_properties(&server, &object, stored).await;
        let path = format!("/api/graph/objects/{object}");
        // The answers have the keys as they were stored.
        let shows = async |path: &str| {
            let answer = client.get(path).await;
            assert!(answer.status == 200 && answer.text.contains(&object), "{path}: {}", answer.text);
        };
        shows(&path).await;
        shows("/api/graph/objects").await;
        let filter = "%5B%7B%22path%22%3A%22title%22%2C%22op%22%3A%22eq%22%2C%22value%22%3A%22old%22%7D%5D";
        shows(&format!("/api/graph/objects?filters={filter}")).await;
        let exported = client.raw(Method::GET, "/api/graph/export", "application/json", "").await;
        assert!(exported.status == 200 && exported.text.contains(&object), "{}", exported.text);
        let copy = client.in_project(server.project("copy").await);
        let imported = copy.raw(Method::POST, "/api/graph/import", "application/x-ndjson", exported.text).await;
        assert!(imported.status == 200 && !imported.text.contains("is reserved"), "{}", imported.text);
        let objects = copy.get("/api/graph/objects").await.is(200).clone();
        assert_eq!(objects[0]["properties"][format!("reserved:{KEY}")], "no", "{objects}");
        // Nothing is lost, and the keys have another name from now on.
        let changed = client.patch(&path, json!({ "properties": { "title": "new" } })).await;
        let properties = &changed.is(200)["properties"];
        assert_eq!(properties["title"], "new");
        assert_eq!(properties[format!("reserved:{KEY}")], "no");
        assert_eq!(properties["a"]["z"], 1);
        let removed = json!({ "properties": { format!("reserved:{KEY}"): null, "a": null } });
        assert_eq!(client.patch(&path, removed).await.is(200)["properties"], json!({ "title": "new" }));
        store_properties(&server, &object, json!({ KEY: nested(12) })).await;
        client.delete(&path).await.is(200);
    }

    async fn a_task_that_has_a_reserved_key_is_still_a_task(db: TestDb) {
        let server = crate::coordination::server(&db).await;
        let client = server.admin();
        let tasks = json!({ "tasks": [{ "key": "t", "title": "T", "assignedAgent": "writer" }] });
        let flow = client.post("/api/coordination/dispatch", tasks).await.is(202)["workflowId"].clone();
        let flow = flow.as_str().unwrap();
        let shown = client.get(&format!("/api/coordination/workflows/{flow}")).await.is(200).clone();
        let task = shown["tasks"][0]["id"].as_str().unwrap();
        let path = format!("/api/graph/objects/{task}");
        let mut properties = client.get(&path).await.is(200)["properties"].clone();
        properties["remark"] = json!({ "z": 1, KEY: "no" });
        store_properties(&server, task, properties).await;
        let writer = server.client(Some(&server.token(&[Scope::GraphWrite], Some(server.default_project)).await));
        let change = json!({ "properties": { "workflow_id": null } });
        let refused = writer.patch(&path, change).await;
        assert_eq!(refused.refused(400, "invalid")["details"][0]["field"], "properties.workflow_id", "{}", refused.text);
        let change = json!({ "properties": { "status": "completed" } });
        let refused = writer.patch(&path, change).await;
        assert_eq!(refused.refused(400, "invalid")["details"][0]["field"], "properties.status", "{}", refused.text);
        writer.delete(&path).await.refused(403, "missing_scope");
        let shown = client.get(&format!("/api/coordination/workflows/{flow}")).await.is(200).clone();
        assert_eq!((&shown["tasks"][0]["key"], &shown["tasks"][0]["title"]), (&json!("t"), &json!("T")));
        client.post(&format!("/api/coordination/workflows/{flow}/cancel"), json!({})).await.is(200);
    }

    async fn an_agent_that_has_a_reserved_key_is_listed_changed_and_deleted(db: TestDb) {
        let server = Server::start(&db).await;
        let client = server.admin();
        let agent = client.agent("a", json!({ "config": { "k": 1 } })).await;
        let id: uuid::Uuid = agent.parse().unwrap();
        let path = format!("/api/admin/agents/{agent}");
        let definition = server.executor.get_agent(server.default_project, emergent_domain::ids::AgentId(id)).await;
        let mut definition = serde_json::to_value(definition.unwrap().definition).unwrap();
        definition["config"] = json!({ "k": { "z": 1, KEY: nested(12) } });
        let text = definition.to_string();
        let sql = "UPDATE agent_definition_versions SET definition = $1 WHERE agent_id = $2";
        let write = move |tx: &mut Tx<'_>| tx.execute(sql, &[emergent_store::json(&text), id.into()]);
        server.graph.db().write(write).await.unwrap_or_else(|error: emergent_store::Error| panic!("{error}"));
        assert_eq!(count(&client, "/api/admin/agents").await, 1);
        assert_eq!(client.get(&path).await.is(200)["config"]["k"]["z"], 1);
        client.patch(&path, json!({ "description": "d" })).await.is(200);
        client.delete(&path).await.is(200);
    }
}

//! Changes of the settings of a project on its event stream.

use crate::{common::Server, streams::Frames};

use emergent_domain::token::Scope;
use emergent_testkit::both_engines;
use serde_json::{Value, json};

/// Reads this many events, each as its type, its name and what was done.
async fn read(frames: &mut Frames, count: usize) -> Vec<String> {
    let mut told = Vec::new();
    while told.len() < count {
        let event = frames.next().await.expect("the stream goes on").1;
        let text = |field: &str| event[field].as_str().unwrap_or_default().to_owned();
        assert!(event["at"].is_string(), "{event}");
        told.push(format!("{} {} {}", text("type"), text("name"), text("action")));
    }
    told
}

async fn ready(frames: &mut Frames) {
    assert_eq!(frames.next().await.unwrap().1["type"], "ready");
}

both_engines! {
    async fn a_change_of_a_setting_is_told_once_with_its_name_and_without_its_value(db: TestDb) {
        let server = Server::start(&db).await;
        let client = server.admin().in_project(server.default_project);
        let mut frames = Frames::open(&client, "/api/events", None).await;
        ready(&mut frames).await;

        let model = json!({ "provider": "rehearsal", "name": "echo" });
        let agent = client.agent("writer", json!({ "model": model })).await;
        client.patch(&format!("/api/admin/agents/{agent}"), json!({ "description": "It writes." })).await.is(200);
        client.put("/api/admin/secrets/API_KEY", json!({ "value": "do-not-tell" })).await.found();
        client.put("/api/coordination/budgets", json!({ "agent": "writer", "usd": 1.0 })).await.found();
        let token = client.post("/api/tokens", json!({ "name": "reader", "scopes": ["graph:read"], "project": "default" })).await;
        let token = token.is(201)["id"].as_str().unwrap().to_owned();
        client.delete(&format!("/api/tokens/{token}")).await.found();
        let mcp = json!({ "name": "files", "transport": "http", "url": "https://mcp.example.com/mcp" });
        let mcp = client.post("/api/admin/mcp-servers", mcp).await.is(201)["id"].as_str().unwrap().to_owned();
        client.delete(&format!("/api/admin/mcp-servers/{mcp}")).await.found();
        let tasks = json!([{ "key": "a", "title": "a", "description": "do a", "assignedAgent": "writer", "blockedBy": [] }]);
        let trigger = json!({ "trigger": "0 9 * * MON", "dispatch": { "tasks": tasks } });
        client.put("/api/admin/triggers/weekly", trigger).await.is(200);
        client.delete("/api/admin/triggers/weekly").await.is(200);
        client.delete("/api/admin/secrets/API_KEY").await.found();
        client.delete(&format!("/api/admin/agents/{agent}")).await.found();

        let expected = [
            "agent writer create", "agent writer update", "secret API_KEY put", "budget writer update",
            "token reader create", "token reader revoke", "mcp_server files create", "mcp_server files delete",
            "trigger weekly put", "trigger weekly delete", "secret API_KEY delete", "agent writer delete",
        ];
        assert_eq!(read(&mut frames, expected.len()).await, expected);
        // The same again from the beginning of the record, with the ids of what has one.
        let mut again = Frames::open(&client, "/api/events?types=agent,mcp_server&after=0-0.0-0", None).await;
        ready(&mut again).await;
        let first = again.next().await.unwrap().1;
        assert_eq!((&first["agentId"], &first["name"]), (&json!(agent), &json!("writer")));
        let mut all: Vec<Value> = vec![first];
        for _ in 0..4 {
            all.push(again.next().await.unwrap().1);
        }
        assert_eq!(all[2]["serverId"], json!(mcp), "{all:#?}");
        assert!(!format!("{all:?}").contains("do-not-tell"));
        // Another project is told nothing.
        let other = server.admin().in_project(server.project("other").await);
        let mut elsewhere = Frames::open(&other, "/api/events?types=agent&after=0-0.0-0", None).await;
        ready(&mut elsewhere).await;
        other.agent("stranger", json!({})).await;
        assert_eq!(read(&mut elsewhere, 1).await, ["agent stranger create"]);
    }

    async fn settings_are_told_to_those_who_may_list_them(db: TestDb) {
        let server = Server::start(&db).await;
        let client = server.admin().in_project(server.default_project);
        let reader = server.client(Some(&server.token(&[Scope::AgentsRead], Some(server.default_project)).await));
        for kind in ["token", "secret", "mcp_server", "product"] {
            let error = reader.get(&format!("/api/events?types={kind}")).await;
            assert!(error.refused(403, "missing_scope")["message"].as_str().unwrap().contains("admin:read"), "{kind}");
        }
        // Without types, the stream has only what the token may list.
        let mut frames = Frames::open(&reader, "/api/events", None).await;
        ready(&mut frames).await;
        client.put("/api/admin/secrets/API_KEY", json!({ "value": "a-long-value" })).await.found();
        client.agent("writer", json!({})).await;
        assert_eq!(read(&mut frames, 1).await, ["agent writer create"], "a secret is not for this token");
    }

    async fn a_change_that_is_refused_is_not_told(db: TestDb) {
        let server = Server::start(&db).await;
        let client = server.admin().in_project(server.default_project);
        let mut frames = Frames::open(&client, "/api/events?types=agent", None).await;
        ready(&mut frames).await;
        client.agent("writer", json!({})).await;
        client.post("/api/admin/agents", json!({ "name": "writer" })).await.refused(409, "conflict");
        client.post("/api/admin/agents", json!({ "name": "bad", "tools": ["no_such_tool"] })).await.refused(400, "invalid");
        client.agent("editor", json!({})).await;
        assert_eq!(read(&mut frames, 2).await, ["agent writer create", "agent editor create"]);
    }
}

//! External MCP servers over HTTP: they are added, changed, inspected, and isolated from other
//! projects.

use crate::{common, mcp::peer::Peer};

use axum::http::{Method, StatusCode};
use common::Server;
use emergent_domain::{
    mcp_server::{ConfiguredBy, ServerSpec},
    time::Clock,
    token::Scope,
};
use emergent_store::{Tx, mcp_servers};
use emergent_testkit::{ShellMcpServer, both_engines};
use serde_json::{Value, json};

const PATH: &str = "/api/admin/mcp-servers";

/// A server with one tool, whose description comes from a file.
fn described(tool: &str) -> ShellMcpServer {
    ShellMcpServer::with_tool(tool, r#"$(cat "$TOLD")"#)
}

/// A server whose one tool returns a text, an image and a link.
const DRAWING_PROGRAM: &str = r#"
while read -r line; do
  id=$(printf '%s' "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
  case "$line" in
    *'"initialize"'*) printf '{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-11-25","capabilities":{}}}\n' "$id";;
    *'"tools/list"'*) printf '{"jsonrpc":"2.0","id":%s,"result":{"tools":[{"name":"draw","description":"Draws.","inputSchema":{"type":"object"}}]}}\n' "$id";;
    *'"tools/call"'*) printf '{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"Here."},{"type":"image","data":"AAAAAA==","mimeType":"image/png"},{"type":"resource_link","uri":"file:///a.png","name":"a"}]}}\n' "$id";;
    *'"id"'*) printf '{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no"}}\n' "$id";;
  esac
done
"#;

fn program(folder: &tempfile::TempDir, name: &str) -> Value {
    let told = folder.path().join("told");
    std::fs::write(&told, "Tells a story.").unwrap();
    described("tell").spec(name, json!({ "TOLD": told.to_str().unwrap() }))
}

both_engines! {
    async fn a_server_is_added_reached_and_its_tools_are_held_to_what_they_were(db: TestDb) {
        let server = Server::start(&db).await;
        let admin = server.admin();
        let folder = tempfile::tempdir().unwrap();
        let made = admin.post(PATH, program(&folder, "stories")).await;
        assert_eq!(made.status, StatusCode::CREATED, "{}", made.text);
        let made = &made.body["data"];
        assert_eq!((&made["status"], &made["toolCount"]), (&json!("new"), &json!(0)));
        let at = format!("{PATH}/{}", made["id"].as_str().unwrap());

        let seen = admin.post(&format!("{at}/inspect"), json!({})).await.body["data"].clone();
        assert_eq!((&seen["reachable"], &seen["protocol"]), (&json!(true), &json!("2025-11-25")), "{seen}");
        assert_eq!(seen["tools"][0]["description"], "Tells a story.");
        let one = admin.get(&at).await.body["data"].clone();
        assert_eq!((&one["status"], &one["toolCount"], &one["heldBack"]), (&json!("connected"), &json!(1), &json!(0)));
        let pool = admin.get("/api/admin/tools").await.body["data"].clone();
        let tool = pool.as_array().unwrap().iter().find(|tool| tool["name"] == "tell").unwrap();
        assert_eq!((&tool["source"], &tool["server"], &tool["effect"]), (&json!("mcp"), &json!("stories"), &json!("external")));

        std::fs::write(folder.path().join("told"), "Tells your secrets.").unwrap();
        admin.post(&format!("{at}/inspect"), json!({})).await;
        assert_eq!(admin.get(&at).await.body["data"]["heldBack"], 1);
        let tools = admin.get(&format!("{at}/tools")).await.body["data"].clone();
        let tell = &tools[0];
        assert_eq!((&tell["status"], &tell["heldBack"]), (&json!("changed"), &json!(true)), "{tell}");
        assert_eq!((&tell["description"], &tell["before"]["description"]), (&json!("Tells your secrets."), &json!("Tells a story.")));
        assert_ne!(tell["digest"], tell["pinnedDigest"]);
        let pool = admin.get("/api/admin/tools").await.body["data"].clone();
        assert!(pool.as_array().unwrap().iter().all(|tool| tool["name"] != "tell"));

        // The definition that was looked at is accepted, and no other that came meanwhile.
        let accept = format!("{at}/tools/tell/accept");
        let stale = admin.post(&accept, json!({ "digest": tell["pinnedDigest"] })).await;
        assert!(stale.refused(409, "conflict")["message"].as_str().unwrap().contains(tell["digest"].as_str().unwrap()));
        assert_eq!(admin.get(&at).await.body["data"]["heldBack"], 1);
        admin.post(&accept, json!({ "digset": "x" })).await.refused(400, "invalid");
        for blind in [json!({}), json!({ "digest": "" })] {
            let refused = admin.post(&accept, blind).await;
            refused.refused(400, "invalid");
            assert_eq!(refused.field(), "digest", "nobody has looked at what it accepts");
        }
        assert_eq!(admin.get(&at).await.body["data"]["heldBack"], 1);
        let accepted = admin.post(&accept, json!({ "digest": tell["digest"] })).await;
        assert_eq!(accepted.body["data"]["status"], "live", "{}", accepted.text);
        assert_eq!(admin.get(&at).await.body["data"]["heldBack"], 0);
        let unknown = admin.post(&format!("{at}/tools/nope/accept"), json!({ "digest": tell["digest"] })).await;
        assert_eq!(unknown.status, StatusCode::NOT_FOUND);

        let off = admin.patch(&at, json!({ "enabled": false, "pinPolicy": "warn", "timeoutSeconds": 5 })).await;
        assert_eq!(off.body["data"]["status"], "disabled", "{}", off.text);
        assert_eq!(admin.post(&format!("{at}/inspect"), json!({})).await.status, StatusCode::CONFLICT);
        assert_eq!(admin.delete(&at).await.status, StatusCode::OK);
        assert_eq!(admin.get(&at).await.status, StatusCode::NOT_FOUND);
    }

    async fn a_client_gets_the_images_and_links_of_an_external_tool_as_they_are(db: TestDb) {
        let server = Server::start(&db).await;
        let admin = server.admin();
        let spec = json!({ "name": "pens", "transport": "stdio", "command": "sh", "args": ["-c", DRAWING_PROGRAM] });
        let made = admin.post(PATH, spec).await.is(201).clone();
        admin.post(&format!("{PATH}/{}/inspect", made["id"].as_str().unwrap()), json!({})).await.is(200);
        let result = Peer::modern(server.admin()).call("draw", json!({})).await;
        assert_eq!(result["content"], json!([
            { "type": "text", "text": "Here." },
            { "type": "image", "data": "AAAAAA==", "mimeType": "image/png" },
            { "type": "resource_link", "uri": "file:///a.png", "name": "a" },
        ]), "{result}");
    }

    async fn a_tool_that_comes_later_is_held_and_a_name_that_is_taken_is_shown(db: TestDb) {
        let server = Server::start(&db).await;
        let admin = server.admin();
        let folder = tempfile::tempdir().unwrap();
        let named = described(r#"$(cat "$NAMED")"#);
        let program = |name: &str, tool: &str| {
            let (told, file) = (folder.path().join("told"), folder.path().join(name));
            std::fs::write(&told, "Tells a story.").unwrap();
            std::fs::write(&file, tool).unwrap();
            named.spec(name, json!({ "TOLD": told.to_str().unwrap(), "NAMED": file.to_str().unwrap() }))
        };
        let mut paths = Vec::new();
        for (name, tool) in [("one", "tell"), ("two", "ask")] {
            let made = admin.post(PATH, program(name, tool)).await;
            let path = format!("{PATH}/{}", made.body["data"]["id"].as_str().unwrap());
            let seen = admin.post(&format!("{path}/inspect"), json!({})).await.body["data"].clone();
            assert_eq!((&seen["tools"][0]["name"], &seen["tools"][0]["status"]), (&json!(tool), &json!("live")), "{seen}");
            paths.push(path);
        }
        std::fs::write(folder.path().join("two"), "tell").unwrap();
        let two = &paths[1];
        admin.post(&format!("{two}/inspect"), json!({})).await;
        let tools = admin.get(&format!("{two}/tools")).await.body["data"].clone();
        let tell = tools.as_array().unwrap().iter().find(|tool| tool["name"] == "tell").unwrap().clone();
        assert_eq!((&tell["status"], &tell["heldBack"], &tell["before"]), (&json!("new"), &json!(true), &Value::Null), "{tell}");
        assert_eq!((&tell["qualifiedName"], &tell["conflict"]), (&json!("two.tell"), &json!({ "owner": "one", "others": ["two"] })));
        assert_eq!(admin.get(two).await.body["data"]["heldBack"], 1);

        admin.post(&format!("{two}/tools/tell/accept"), json!({ "digest": tell["digest"] })).await.is(200);
        let listed = admin.get(PATH).await.body["data"].clone();
        assert!(listed.as_array().unwrap().iter().all(|server| server["conflicts"] == 1), "{listed}");
        let pool = admin.get("/api/admin/tools").await.body["data"].clone();
        let named: Vec<_> = pool.as_array().unwrap().iter().filter(|tool| tool["name"] == "tell").collect();
        assert_eq!((&named[0]["server"], &named[0]["calledAs"]), (&json!("one"), &json!("tell")), "{named:?}");
        assert_eq!((&named[1]["qualifiedName"], &named[1]["calledAs"]), (&json!("two.tell"), &json!("two__tell")));
        assert_eq!(named[1]["conflict"]["owner"], "one");

        let trusted = admin.patch(two, json!({ "trust": true })).await;
        assert_eq!(trusted.body["data"]["trust"], true, "{}", trusted.text);
        std::fs::write(folder.path().join("two"), "sing").unwrap();
        let seen = admin.post(&format!("{two}/inspect"), json!({})).await.body["data"].clone();
        assert_eq!(seen["tools"][0]["status"], "live", "{seen}");
    }

    async fn a_server_from_before_is_shown_until_an_operator_confirms_it(db: TestDb) {
        let server = Server::start(&db).await;
        let admin = server.admin();
        let spec = json!({ "name": "old", "transport": "stdio", "command": "true", "env": { "KEY": "${KEY}" } });
        let made = admin.post(PATH, spec).await.body["data"].clone();
        assert_eq!(made["needsConfirmation"], false);
        let at = format!("{PATH}/{}", made["id"].as_str().unwrap());
        let forget = |tx: &mut Tx<'_>| {
            tx.execute("DELETE FROM secret_bindings", &[])?;
            tx.execute("UPDATE project_mcp_servers SET unbound_version = version", &[])
        };
        let forgotten: emergent_store::Result<u64> = db.db.write(forget).await;
        forgotten.unwrap();
        assert_eq!(admin.get(&at).await.body["data"]["needsConfirmation"], true);
        // Neither a project's token nor another change confirms it.
        let scopes = [Scope::AdminRead, Scope::AdminWrite];
        let of_project = server.client(Some(&server.token(&scopes, Some(server.default_project)).await));
        for (client, change) in [(&of_project, json!({ "enabled": true })), (&admin, json!({ "timeoutSeconds": 7 }))] {
            client.patch(&at, change).await.is(200);
            assert_eq!(admin.get(&at).await.body["data"]["needsConfirmation"], true);
        }
        assert_eq!(admin.patch(&at, json!({ "enabled": true })).await.is(200)["needsConfirmation"], false);
        admin.put("/api/admin/secrets/KEY", json!({ "value": "a-long-value" })).await;
        let secrets = admin.get("/api/admin/secrets").await.body["data"].clone();
        assert_eq!(secrets[0]["destinations"][0]["allowed"], true, "its secret goes where it went: {secrets}");
    }

    async fn what_cannot_stand_is_refused_with_its_field_and_nothing_is_written(db: TestDb) {
        let server = Server::start(&db).await;
        let admin = server.admin();
        let good = json!({ "name": "a", "transport": "http", "url": "https://mcp.example.com/mcp",
                           "headers": { "Authorization": "Bearer ${TOKEN}" } });
        for (change, field) in [
            (json!({ "url": null }), "url"),
            (json!({ "url": "ftp://x" }), "url"),
            (json!({ "url": "https://u:p@x.com/" }), "url"),
            (json!({ "command": "sh" }), "command"),
            (json!({ "transport": "stdio", "url": null, "headers": null }), "command"),
            (json!({ "name": "a b" }), "name"),
            (json!({ "headers": { "Authorization": "Bearer plain" } }), "headers.Authorization"),
            (json!({ "headers": { "X": "${not a name}" } }), "headers.X"),
            (json!({ "timeoutSeconds": 0 }), "timeoutSeconds"),
            (json!({ "toolFilter": [""] }), "toolFilter"),
            (json!({ "colour": "red" }), "colour"),
        ] {
            let mut body = good.clone();
            for (name, value) in change.as_object().unwrap() {
                match value {
                    Value::Null => body.as_object_mut().unwrap().remove(name),
                    value => body.as_object_mut().unwrap().insert(name.clone(), value.clone()),
                };
            }
            let refused = admin.post(PATH, body.clone()).await;
            assert_eq!(refused.status, StatusCode::BAD_REQUEST, "{body}: {}", refused.text);
            assert_eq!(refused.body["error"]["details"][0]["field"], field, "{body}: {}", refused.text);
        }
        assert_eq!(admin.get(PATH).await.body["data"], json!([]));
        assert_eq!(admin.post(PATH, good.clone()).await.status, StatusCode::CREATED);
        assert_eq!(admin.post(PATH, good.clone()).await.status, StatusCode::CONFLICT);
        let listed = admin.get(PATH).await.body["data"].clone();
        assert_eq!(listed[0]["headers"]["Authorization"], "Bearer ${TOKEN}");
        let at = format!("{PATH}/{}", listed[0]["id"].as_str().unwrap());
        let refused = admin.patch(&at, json!({ "url": "nowhere" })).await;
        assert_eq!(refused.body["error"]["details"][0]["field"], "url", "{}", refused.text);
        let seen = admin.post(&format!("{at}/inspect"), json!({})).await.body["data"].clone();
        assert_eq!(seen["reachable"], false);
        assert!(seen["error"].as_str().unwrap().contains("TOKEN"), "{seen}");
        // A second server on the same database shows it as well, without an attempt of its own.
        let second = Server::start(&db).await;
        for client in [&admin, &second.admin()] {
            let shown = client.get(&at).await.body["data"].clone();
            assert_eq!(shown["status"], "failing", "{shown}");
            assert!(shown["lastError"].as_str().unwrap().contains("TOKEN") && shown["lastErrorAt"].is_string(), "{shown}");
        }
    }

    async fn a_server_is_its_projects_own_and_a_products_server_is_its_products(db: TestDb) {
        let server = Server::start(&db).await;
        let admin = server.admin();
        let other = server.project("other").await;
        let (project, now) = (server.default_project, Clock::system().now());
        let spec: ServerSpec =
            serde_json::from_value(json!({ "name": "p", "transport": "sse", "url": "https://x.example.com/sse" })).unwrap();
        let put = db.db.write(move |tx| mcp_servers::upsert_for_product(tx, project, "acme.tools", &spec, &["a*".into()], ConfiguredBy::Operator, now));
        let id = put.await.map_err(|error: emergent_store::Error| error.to_string()).unwrap().unwrap();
        let at = format!("{PATH}/{id}");
        let elsewhere = admin.in_project(other);
        for (method, path) in [
            (Method::GET, at.clone()),
            (Method::DELETE, at.clone()),
            (Method::GET, format!("{at}/tools")),
            (Method::POST, format!("{at}/inspect")),
        ] {
            let request = elsewhere.request(method.clone(), &path).body(axum::body::Body::empty()).unwrap();
            assert_eq!(elsewhere.send(request).await.status, StatusCode::NOT_FOUND, "{method} {path}");
        }
        assert_eq!(admin.get(&at).await.body["data"]["product"], "acme.tools");
        assert_eq!(admin.patch(&at, json!({ "url": "https://y.example.com/" })).await.status, StatusCode::CONFLICT);
        assert_eq!(admin.patch(&at, json!({ "toolFilter": ["*"] })).await.status, StatusCode::CONFLICT);
        assert_eq!(admin.delete(&at).await.status, StatusCode::CONFLICT);
        let changed = admin.patch(&at, json!({ "enabled": false, "pinPolicy": "off" })).await;
        assert_eq!(changed.body["data"]["pinPolicy"], "off", "{}", changed.text);
        // An upgrade keeps the decisions of users.
        let next: ServerSpec =
            serde_json::from_value(json!({ "name": "p", "transport": "http", "url": "https://x.example.com/mcp" })).unwrap();
        let put = db.db.write(move |tx| mcp_servers::upsert_for_product(tx, project, "acme.tools", &next, &["*".into()], ConfiguredBy::Operator, now));
        assert_eq!(put.await.map_err(|error: emergent_store::Error| error.to_string()).unwrap(), Some(id));
        let after = admin.get(&at).await.body["data"].clone();
        assert_eq!((&after["transport"], &after["enabled"], &after["pinPolicy"]), (&json!("http"), &json!(false), &json!("off")));
        let reader = server.client(Some(&server.token(&[Scope::AdminRead], None).await));
        assert_eq!(reader.get(&at).await.status, StatusCode::OK);
        assert_eq!(reader.delete(&at).await.status, StatusCode::FORBIDDEN);
        let gone = db.db.write(move |tx| mcp_servers::delete_for_product(tx, project, "acme.tools", "p"));
        assert!(gone.await.map_err(|error: emergent_store::Error| error.to_string()).unwrap());
        assert_eq!(admin.get(&at).await.status, StatusCode::NOT_FOUND);
    }
}

//! `/mcp` as clients use it: the tools a token is offered, calls that read and write, sessions,
//! resources, prompts, and agents as tools. The wire format is covered by the conformance suite.

mod agents;
use crate::common;
mod complete;
mod database_errors;
pub mod peer;
mod sessions;
mod streams;
mod subscribe;

use std::time::Duration;

use axum::http::{Method, header};
use common::Server;
use emergent_domain::token::Scope;
use emergent_testkit::both_engines;
use peer::Peer;
use serde_json::{Value, json};
use tokio::time::timeout;

fn names(tools: &Value) -> Vec<&str> {
    tools["tools"].as_array().expect("tools").iter().map(|tool| tool["name"].as_str().unwrap()).collect()
}

fn tool<'a>(tools: &'a Value, name: &str) -> &'a Value {
    let all = tools["tools"].as_array().expect("tools");
    all.iter().find(|tool| tool["name"] == name).unwrap_or_else(|| panic!("{name} in {tools}"))
}

both_engines! {
    async fn both_eras_write_and_read_the_graph_in_the_name_of_their_token(db: TestDb) {
        let server = Server::start(&db).await;
        for (at, peer) in [Peer::modern(server.admin()), Peer::legacy(server.admin()).await].iter().enumerate() {
            let key = format!("ada-{at}");
            let made = peer.call("entities_create", json!({ "type": "Person", "key": key, "properties": { "name": "Ada" } })).await;
            assert_ne!(made["isError"], true, "{made}");
            let found = peer.call("entities_get", json!({ "id": format!("Person/{key}") })).await;
            assert_eq!(found["structuredContent"]["object"]["properties"]["name"], "Ada", "{found}");
            let text: Value = serde_json::from_str(found["content"][0]["text"].as_str().unwrap()).unwrap();
            assert_eq!(text, found["structuredContent"]);
            // The alias works as well.
            let again = peer.call("get_entity", json!({ "id": format!("Person/{key}") })).await;
            assert_eq!(again["structuredContent"], found["structuredContent"]);
            let listed = server.admin().get(&format!("/api/graph/objects?key={key}")).await;
            assert_eq!(listed.is(200)[0]["author"]["type"], "token", "{}", listed.text);
        }
    }

    async fn a_large_message_waits_for_its_turn_to_be_parsed_and_a_small_one_does_not(db: TestDb) {
        let server = Server::start(&db).await;
        let peer = Peer::modern(server.admin());
        let (started, has_started) = tokio::sync::oneshot::channel();
        let (release, released) = std::sync::mpsc::channel::<()>();
        let graph = server.graph.clone();
        let other = tokio::spawn(async move {
            let parse = move || {
                let _ = started.send(());
                let _ = released.recv_timeout(Duration::from_secs(20));
            };
            graph.run_on_large_input(None, parse).await
        });
        has_started.await.unwrap();
        let text = "x".repeat(80_000);
        let create = json!({ "type": "Note", "key": "large", "properties": { "text": text } });
        let mut large = Box::pin(peer.call("entities_create", create));
        assert!(timeout(Duration::from_millis(300), &mut large).await.is_err(), "another body is being parsed");
        let small = peer.call("entities_create", json!({ "type": "Note", "key": "small" })).await;
        assert_ne!(small["isError"], true, "{small}");
        release.send(()).unwrap();
        let made = large.await;
        assert_ne!(made["isError"], true, "{made}");
        other.await.unwrap().unwrap();
    }

    async fn what_goes_wrong_in_a_tool_is_a_result_and_writes_nothing(db: TestDb) {
        let server = Server::start(&db).await;
        let peer = Peer::modern(server.admin());
        let wrong = peer.call("entities_create", json!({ "typ": "Person" })).await;
        assert_eq!(wrong["isError"], true, "{wrong}");
        assert!(wrong["content"][0]["text"].as_str().unwrap().contains("typ"), "{wrong}");
        peer.call("entities_create", json!({ "type": "Person", "key": "ada" })).await;
        let taken = peer.call("entities_create", json!({ "type": "Person", "key": "ada" })).await;
        assert_eq!(taken["isError"], true, "{taken}");
        assert_eq!(server.admin().get("/api/graph/objects").await.is(200).as_array().unwrap().len(), 1);
        let unknown = peer.fails("tools/call", json!({ "name": "no_such_tool" })).await;
        assert_eq!((unknown["code"].as_i64(), unknown["message"].as_str().unwrap().contains("no_such_tool")), (Some(-32602), true));
    }

    async fn a_token_is_offered_what_its_scopes_open(db: TestDb) {
        let server = Server::start(&db).await;
        let all = Peer::modern(server.admin()).asks("tools/list", json!({})).await;
        assert_eq!(tool(&all, "entities_get")["annotations"], json!({
            "readOnlyHint": true, "destructiveHint": false, "idempotentHint": true, "openWorldHint": false,
        }));
        assert_eq!(tool(&all, "entities_delete")["annotations"]["destructiveHint"], true);
        assert_eq!(tool(&all, "entities_create")["annotations"]["idempotentHint"], false);
        assert_eq!(tool(&all, "entities_update")["annotations"]["idempotentHint"], true);
        let mut sorted = names(&all);
        sorted.sort_unstable();
        assert_eq!(names(&all), sorted, "the order is stable");
        assert!(!names(&all).contains(&"spawn_agents"), "that is for agents only");

        let reader = server.client(Some(&server.token(&[Scope::GraphRead], None).await));
        let peer = Peer::modern(reader);
        let few = peer.asks("tools/list", json!({})).await;
        assert!(names(&few).contains(&"entities_get") && !names(&few).contains(&"entities_create"), "{few}");
        for name in ["entities_create", "create_entity"] {
            let answer = peer.send("tools/call", json!({ "name": name, "arguments": {} })).await;
            assert_eq!(answer.status, 403, "{}", answer.text);
            assert!(answer.headers[header::WWW_AUTHENTICATE].to_str().unwrap().contains("insufficient_scope"));
            assert!(answer.body["error"]["message"].as_str().unwrap().contains("graph:write"), "{}", answer.text);
        }
        let nobody = Peer::modern(server.client(Some(&server.token(&[Scope::ChatUse], None).await)));
        assert_eq!(nobody.asks("tools/list", json!({})).await["tools"], json!([]));
        assert_eq!(nobody.asks("resources/list", json!({})).await["resources"], json!([]));
    }

    async fn making_agents_work_needs_the_scope_it_needs_over_rest(db: TestDb) {
        let server = Server::start(&db).await;
        let writer = server.client(Some(&server.token(&[Scope::GraphRead, Scope::GraphWrite], None).await));
        let peer = Peer::modern(writer);
        let tools = peer.asks("tools/list", json!({})).await;
        for name in ["tasks_create", "create_subtasks", "discussions_start"] {
            assert!(!names(&tools).contains(&name), "{name} in {tools}");
            let answer = peer.send("tools/call", json!({ "name": name, "arguments": {} })).await;
            assert_eq!(answer.status, 403, "{name}: {}", answer.text);
            assert!(answer.text.contains("agents:invoke"), "{}", answer.text);
        }
        assert!(names(&tools).contains(&"tasks_list"), "{tools}");
    }

    async fn looking_back_at_runs_needs_the_scope_it_needs_over_rest(db: TestDb) {
        let server = Server::start(&db).await;
        let others: Vec<_> = Scope::ALL.iter().copied().filter(|scope| *scope != Scope::AdminRead).collect();
        for (scopes, may) in [(&[Scope::AdminRead][..], true), (&others, false)] {
            let client = server.client(Some(&server.token(scopes, None).await));
            assert_eq!(client.get("/api/admin/runs").await.status, if may { 200 } else { 403 });
            let peer = Peer::modern(client);
            let tools = peer.asks("tools/list", json!({})).await;
            for name in ["runs_list", "runs_get", "runs_messages"] {
                assert_eq!(names(&tools).contains(&name), may, "{name} in {tools}");
                let answer = peer.send("tools/call", json!({ "name": name, "arguments": {} })).await;
                assert_eq!(answer.status, if may { 200 } else { 403 }, "{name}: {}", answer.text);
                assert!(may || answer.text.contains("admin:read"), "{name}: {}", answer.text);
            }
        }
    }

    async fn what_is_called_idempotent_does_nothing_more_the_second_time(db: TestDb) {
        let server = Server::start(&db).await;
        let (admin, peer) = (server.admin(), Peer::modern(server.admin()));
        for key in ["a", "b", "gone"] {
            admin.object("Task", key, json!({})).await;
        }
        let edge = json!({ "type": "blocks", "fromId": "Task/a", "toId": "Task/b" });
        let weighed = json!({ "type": "blocks", "fromId": "Task/a", "toId": "Task/b", "weight": 0.5 });
        peer.call("schema_pack_create", json!({ "name": "p", "version": "1.0.0" })).await;
        let calls = [
            ("documents_create", json!({ "title": "t", "content": "some text" })),
            ("entities_update", json!({ "id": "Task/a", "properties": { "name": "A" } })),
            ("entities_delete", json!({ "id": "Task/gone" })),
            ("entities_restore", json!({ "id": "Task/gone" })),
            ("relationships_create", edge.clone()),
            ("relationships_update", weighed),
            ("relationships_delete", edge),
            ("schema_pack_assign", json!({ "id": "p" })),
        ];
        let tools = peer.asks("tools/list", json!({})).await;
        let claims = |tool: &&Value| tool["annotations"]["idempotentHint"] == true && tool["annotations"]["readOnlyHint"] == false;
        let mut claimed: Vec<_> = tools["tools"].as_array().unwrap().iter().filter(claims).map(|tool| tool["name"].as_str().unwrap()).collect();
        let mut tried: Vec<_> = calls.iter().map(|(name, _)| *name).collect();
        claimed.sort_unstable();
        tried.sort_unstable();
        assert_eq!(claimed, tried);
        for (tool, arguments) in calls {
            let state = async || {
                let mut all = Vec::new();
                for path in ["/api/graph/objects", "/api/graph/relationships", "/api/documents", "/api/template-packs"] {
                    all.push(admin.get(path).await.is(200).clone());
                }
                all
            };
            let before = state().await;
            let first = peer.call(tool, arguments.clone()).await;
            assert_ne!(first["isError"], true, "{tool}: {first}");
            let after = state().await;
            assert_ne!(before, after, "{tool} does something the first time");
            peer.call(tool, arguments).await;
            assert_eq!(state().await, after, "{tool}");
        }
    }

    async fn a_project_sees_its_own_and_a_session_is_its_makers(db: TestDb) {
        let server = Server::start(&db).await;
        let other = server.project("other").await;
        Peer::modern(server.admin()).call("entities_create", json!({ "type": "Person", "key": "ada" })).await;
        let stranger = server.client(Some(&server.token(Scope::ALL, Some(other)).await));
        let found = Peer::modern(stranger.clone()).call("entities_get", json!({ "id": "Person/ada" })).await;
        assert_eq!(found["isError"], true, "{found}");

        let peer = Peer::legacy(server.admin()).await;
        let stolen = peer.with(stranger).send("tools/list", json!({})).await;
        assert_eq!(stolen.status, 404, "{}", stolen.text);
        let elsewhere = peer.with(server.admin().in_project("other")).send("tools/list", json!({})).await;
        assert_eq!(elsewhere.status, 404, "{}", elsewhere.text);
        peer.asks("tools/list", json!({})).await;
        assert_eq!(peer.end().await, 204);
        assert_eq!(peer.send("tools/list", json!({})).await.status, 404);
    }

    async fn the_schema_and_the_objects_can_be_read(db: TestDb) {
        let server = Server::start(&db).await;
        let admin = server.admin();
        let id = admin.object("Person", "a b", json!({ "name": "Ada" })).await;
        for number in 0..120 {
            admin.object("Task", &number.to_string(), json!({})).await;
        }
        for (peer, missing) in [(Peer::modern(admin.clone()), -32602), (Peer::legacy(admin.clone()).await, -32002)] {
            let (mut uris, mut cursor) = (Vec::new(), Value::Null);
            loop {
                let page = peer.asks("resources/list", json!({ "cursor": cursor })).await;
                uris.extend(page["resources"].as_array().unwrap().iter().map(|one| one["uri"].as_str().unwrap().to_owned()));
                cursor = page["nextCursor"].clone();
                if cursor.is_null() {
                    break;
                }
            }
            assert_eq!((uris.len(), uris[0].as_str()), (122, "emergent://schema"));
            assert!(uris.contains(&format!("emergent://objects/{id}")));
            for uri in [format!("emergent://objects/{id}"), "emergent://objects/Person/a%20b".to_owned()] {
                let read = peer.asks("resources/read", json!({ "uri": uri })).await;
                assert!(read["contents"][0]["text"].as_str().unwrap().contains("Ada"), "{read}");
                assert_eq!(read["contents"][0]["uri"], uri.as_str());
            }
            let schema = peer.asks("resources/read", json!({ "uri": "emergent://schema" })).await;
            assert!(schema["contents"][0]["text"].as_str().unwrap().contains("Person"), "{schema}");
            for uri in ["emergent://objects/Person/nobody", "emergent://elsewhere", "file:///etc/passwd"] {
                let error = peer.fails("resources/read", json!({ "uri": uri })).await;
                assert_eq!((&error["code"], &error["data"]["uri"]), (&json!(missing), &json!(uri)), "{error}");
            }
            assert_eq!(peer.asks("resources/templates/list", json!({})).await["resourceTemplates"].as_array().unwrap().len(), 3);
        }
    }

    async fn the_prompts_of_products_are_offered_and_filled_in(db: TestDb) {
        let server = Server::start(&db).await;
        let prompt: emergent_domain::prompt::Prompt = serde_json::from_value(json!({
            "name": "ask-memory", "description": "Asks.", "arguments": [{ "name": "topic", "required": true }],
            "messages": [{ "role": "user", "content": "What is known of {{topic}}?" }],
        })).unwrap();
        let project = server.default_project;
        let put = async |product: &'static str| {
            let prompt = prompt.clone();
            let work = move |tx: &mut emergent_store::Tx<'_>| {
                emergent_store::prompts::upsert_for_product(tx, project, product, &prompt)
            };
            server.graph.db().write(work).await
        };
        put("emergent.memory").await.unwrap();
        let peer = Peer::modern(server.admin());
        let listed = peer.asks("prompts/list", json!({})).await;
        assert_eq!(listed["prompts"][0]["name"], "ask-memory");
        assert_eq!(listed["prompts"][0]["arguments"][0]["required"], true);
        let said = peer.asks("prompts/get", json!({ "name": "ask-memory", "arguments": { "topic": "trees" } })).await;
        assert_eq!(said["messages"][0]["content"]["text"], "What is known of trees?");
        assert_eq!(peer.fails("prompts/get", json!({ "name": "ask-memory" })).await["code"], -32602);
        assert_eq!(peer.fails("prompts/get", json!({ "name": "nothing" })).await["code"], -32602);
        let others: Vec<_> = Scope::ALL.iter().copied().filter(|scope| *scope != Scope::AgentsRead).collect();
        for (scopes, offered) in [(&[Scope::AgentsRead][..], 1), (&others, 0)] {
            let peer = Peer::modern(server.client(Some(&server.token(scopes, None).await)));
            assert_eq!(peer.asks("prompts/list", json!({})).await["prompts"].as_array().unwrap().len(), offered);
            let got = peer.send("prompts/get", json!({ "name": "ask-memory", "arguments": { "topic": "trees" } })).await;
            assert_eq!(got.status, if offered == 1 { 200 } else { 403 }, "{}", got.text);
            assert!(offered == 1 || got.text.contains("agents:read"), "{}", got.text);
        }
        put("another").await.unwrap();
        let listed = peer.asks("prompts/list", json!({})).await;
        let names: Vec<_> = listed["prompts"].as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap()).collect();
        assert_eq!(names, ["another.ask-memory", "emergent.memory.ask-memory"]);
    }
}

#[tokio::test]
async fn a_caller_without_a_token_is_told_where_to_read_what_it_needs() {
    let db = emergent_testkit::TestDb::sqlite().await;
    let server = Server::start(&db).await;
    let stranger = server.client(None);
    let request = stranger.request(Method::POST, "/mcp").header(header::HOST, "graph.example:8080");
    let refused = stranger.send(request.body("{}".into()).unwrap()).await;
    refused.refused(401, "unauthorized");
    let challenge = refused.headers[header::WWW_AUTHENTICATE].to_str().unwrap();
    assert_eq!(
        challenge,
        "Bearer resource_metadata=\"http://graph.example:8080/.well-known/oauth-protected-resource/mcp\""
    );
    for path in ["/.well-known/oauth-protected-resource", "/.well-known/oauth-protected-resource/mcp"] {
        let request = stranger.request(Method::GET, path).header(header::HOST, "graph.example:8080");
        let about =
            stranger.send(request.header("x-forwarded-proto", "https").body("".into()).unwrap()).await;
        assert_eq!(about.status, 200);
        assert_eq!(about.body["resource"], "https://graph.example:8080/mcp");
        assert!(about.body["scopes_supported"].as_array().unwrap().contains(&json!("graph:read")));
    }
}

#[tokio::test]
async fn a_page_of_another_origin_is_refused_and_a_body_that_is_no_message_is_named() {
    let db = emergent_testkit::TestDb::sqlite().await;
    let server = Server::start(&db).await;
    let admin = server.admin();
    for method in [Method::POST, Method::GET, Method::DELETE] {
        let request = admin.request(method, "/mcp").header(header::ORIGIN, "http://evil.example.com");
        admin.send(request.body("{}".into()).unwrap()).await.refused(403, "forbidden");
    }
    for (body, code) in [
        ("", -32700),
        ("[]", -32600),
        ("{}", -32600),
        (r#"{"jsonrpc":"2.0","id":{},"method":"ping"}"#, -32600),
    ] {
        let answer = admin.raw(Method::POST, "/mcp", "application/json", body).await;
        assert_eq!(
            (answer.status.as_u16(), answer.body["error"]["code"].as_i64()),
            (400, Some(code)),
            "{body}: {}",
            answer.text
        );
    }
    admin.raw(Method::POST, "/mcp", "text/plain", "{}").await.refused(415, "unsupported_media_type");
    let large = format!("{{\"jsonrpc\":\"2.0\",\"x\":\"{}\"}}", "x".repeat(emergent_api::limits::BODY));
    admin.raw(Method::POST, "/mcp", "application/json", large).await.refused(413, "too_large");
    // Without a session there is no stream, and nothing to end.
    assert_eq!(admin.get("/mcp").await.status, 405);
    assert_eq!(admin.delete("/mcp").await.status, 405);
}

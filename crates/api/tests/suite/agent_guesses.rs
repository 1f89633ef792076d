//! What `agents:write` alone learns from the answers to guesses: the same for a right guess as for a wrong one.

use axum::http::Method;
use emergent_domain::token::Scope;
use emergent_testkit::both_engines;
use serde_json::{Value, json};

use crate::common::{Answer, Client, Server};

const AGENTS: &str = "/api/admin/agents";
const MCP_SERVERS: &str = "/api/admin/mcp-servers";

async fn client(server: &Server, scopes: &[Scope]) -> Client {
    server.client(Some(&server.token(scopes, Some(server.default_project)).await))
}

/// The definition that is guessed.
fn stored(tools: &[&str], visibility: &str) -> Value {
    json!({
        "systemPrompt": "kestrel", "description": "hidden", "model": "rehearsal/kestrel", "tools": tools,
        "visibility": visibility, "config": { "note": "kestrel" }, "maxSteps": 7,
    })
}

/// Right and wrong guesses of each field of `stored`.
fn guesses(tools: &[&str], visibility: &str) -> Vec<(Value, Value)> {
    let right = stored(tools, visibility);
    let field = |name: &str, wrong: Value| (json!({ name: right[name] }), json!({ name: wrong }));
    vec![
        field("systemPrompt", json!("wrong")),
        field("description", json!("wrong")),
        field("model", json!("rehearsal/other")),
        field("config", json!({ "note": "wrong" })),
        field("maxSteps", json!(8)),
        (json!({}), json!({ "approvals": [{ "tools": ["entities_delete"], "action": "deny" }] })),
    ]
}

/// An answer to a guess without the id and the time of the request.
fn told(answer: &Answer) -> (u16, Value) {
    let mut body = answer.body.clone();
    if let Some(data) = body["data"].as_object_mut() {
        data.retain(|name, _| !["updatedAt", "createdAt"].contains(&name.as_str()));
    }
    (answer.status.as_u16(), body)
}

both_engines! {
    async fn a_refusal_does_not_depend_on_whether_a_guess_is_right(db: TestDb) {
        let server = Server::start(&db).await;
        let admin = server.admin().in_project(server.default_project);
        let writer = client(&server, &[Scope::AgentsWrite]).await;
        let mut refusals = Vec::new();
        // What the agents may do differs, and the refusals do not tell in what.
        for (name, tools, visibility) in [
            ("deletes", &["entities_delete"][..], "project"),
            ("spawns", &["spawn_agents"], "project"),
            ("inside", &[], "internal"),
        ] {
            admin.agent(name, stored(tools, visibility)).await;
            let mut guesses = guesses(tools, visibility);
            guesses.push((json!({ "tools": tools }), json!({ "tools": ["entities_update", "nothing"] })));
            guesses.push((json!({ "visibility": visibility }), json!({ "visibility": "external" })));
            guesses.push((json!({ "expectedVersion": 1 }), json!({ "expectedVersion": 2 })));
            for query in ["", "?dryRun=true"] {
                let path = format!("{AGENTS}/{name}{query}");
                for (right, wrong) in &guesses {
                    for guess in [right, wrong] {
                        let refused = writer.patch(&path, guess.clone()).await;
                        refused.refused(403, "missing_scope");
                        refusals.push(refused.body["error"].clone());
                    }
                }
            }
            let deleted = writer.delete(&format!("{AGENTS}/{name}")).await;
            deleted.refused(403, "missing_scope");
            refusals.push(deleted.body["error"].clone());
            assert_eq!(admin.get(&format!("{AGENTS}/{name}")).await.is(200)["version"], 1);
        }
        let said = |error: &Value| (error["message"].clone(), error["details"].clone());
        let first = said(&refusals[0]);
        assert!(refusals.iter().all(|refusal| said(refusal) == first), "{refusals:#?}");
        // Whoever may read agents is told what is missing, and that nothing changes.
        let reader = client(&server, &[Scope::AgentsWrite, Scope::AgentsRead]).await;
        let path = format!("{AGENTS}/deletes");
        assert_eq!(reader.patch(&path, json!({ "systemPrompt": "kestrel" })).await.is(200)["version"], 1);
        let refused = reader.patch(&path, json!({ "systemPrompt": "wrong" })).await;
        assert_eq!(refused.refused(403, "missing_scope")["details"]["scope"], "graph:write");
        assert!(refused.text.contains("entities_delete"), "{}", refused.text);
    }

    async fn an_answer_does_not_tell_whether_something_changed(db: TestDb) {
        let server = Server::start(&db).await;
        let admin = server.admin().in_project(server.default_project);
        let writer = client(&server, &[Scope::AgentsWrite]).await;
        for query in ["?dryRun=true", ""] {
            for (right, wrong) in guesses(&[], "project") {
                let mut answers = Vec::new();
                for guess in [right, wrong] {
                    admin.agent("plain", stored(&[], "project")).await;
                    let path = format!("{AGENTS}/plain");
                    let before = admin.get(&path).await.is(200).clone();
                    let answer = writer.patch(&format!("{path}{query}"), guess.clone()).await;
                    let data = answer.is(200);
                    assert_eq!((&data["version"], &data["withheld"]), (&json!(2), &json!(true)), "{guess}");
                    assert_ne!(data["updatedAt"], before["updatedAt"], "{guess}");
                    // What is stored does not tell it afterwards either.
                    let stale = writer.patch(&format!("{path}?dryRun=true"), json!({ "expectedVersion": 1 })).await;
                    assert_eq!(stale.status, if query.is_empty() { 409 } else { 200 }, "{}", stale.text);
                    let (status, mut body) = told(&answer);
                    body["data"]["id"] = Value::Null;
                    answers.push((status, body));
                    let versions = admin.get(&format!("{path}/history")).await.is(200).as_array().unwrap().len();
                    assert_eq!(versions, if query.is_empty() { 2 } else { 1 });
                    admin.delete(&path).await.is(200);
                }
                assert_eq!(answers[0], answers[1]);
            }
        }
        // To whoever may read agents, a change without effect is no version.
        admin.agent("plain", stored(&[], "project")).await;
        let reader = client(&server, &[Scope::AgentsWrite, Scope::AgentsRead]).await;
        for query in ["?dryRun=true", ""] {
            let path = format!("{AGENTS}/plain{query}");
            assert_eq!(reader.patch(&path, json!({ "systemPrompt": "kestrel" })).await.is(200)["version"], 1);
        }
    }

    async fn whoever_may_not_read_agents_is_told_no_name_of_an_agent_or_a_server(db: TestDb) {
        let server = Server::start(&db).await;
        let admin = server.admin().in_project(server.default_project);
        admin.agent("kestrel-1b83", json!({ "visibility": "internal" })).await;
        let unreached = json!({ "name": "payrollsrv", "transport": "http", "url": "https://payroll.example.com/mcp" });
        admin.post(MCP_SERVERS, unreached).await.is(201);
        let writer = client(&server, &[Scope::AgentsWrite]).await;
        let reader = client(&server, &[Scope::AgentsWrite, Scope::AgentsRead]).await;
        let flow = |agent: &str| json!({ "flowType": "sequential", "flowConfig": { "agents": [agent] } });
        let rule = |tool: &str| json!({ "approvals": [{ "tools": [tool], "action": "ask" }] });
        let send = async |client: &Client, body: Value| {
            let mut new = body;
            new["name"] = json!("made");
            client.json(Method::POST, &format!("{AGENTS}?dryRun=true"), new).await
        };
        let refused = send(&writer, flow("kestrel-1b8zz")).await;
        assert_eq!(refused.refused(400, "invalid")["details"][0]["reason"], "there is no agent `kestrel-1b8zz`");
        assert!(send(&reader, flow("kestrel-1b8zz")).await.text.contains("did you mean `kestrel-1b83`?"));
        // Neither the warnings nor their absence tell of a server, also not to one pattern after the other.
        let warnings = async |client: &Client, tool: &str| {
            send(client, rule(tool)).await.is(200)["warnings"].to_string().replace(tool, "TOOL")
        };
        for (right, wrong) in [("payrollsrv.*", "zzz.*"), ("pay*.*", "zz*.*"), ("payrollsrv.pay", "zzzzzzz.pay"), ("pay", "zzz")] {
            assert_eq!(warnings(&writer, right).await, warnings(&writer, wrong).await, "{right}");
        }
        assert!(!warnings(&writer, "evol").await.contains("payrollsrv"));
        assert!(warnings(&reader, "evol").await.contains("payrollsrv"));
        assert!(warnings(&writer, "entities_crate").await.contains("did you mean `entities_create`?"));
    }

    async fn a_refused_definition_tells_only_of_the_fields_that_were_sent(db: TestDb) {
        let server = Server::start(&db).await;
        let admin = server.admin().in_project(server.default_project);
        admin.agent("kestrel-part", json!({})).await;
        admin.agent("lead", json!({ "flowType": "sequential", "flowConfig": { "agents": ["kestrel-part"] } })).await;
        admin.delete(&format!("{AGENTS}/kestrel-part")).await.is(200);
        let path = format!("{AGENTS}/lead?dryRun=true");
        let writer = client(&server, &[Scope::AgentsWrite, Scope::AgentsInvoke]).await;
        for change in [json!({}), json!({ "description": "x" }), json!({ "maxSteps": 0 })] {
            let refused = writer.patch(&path, change.clone()).await;
            refused.refused(400, "invalid");
            assert!(!refused.text.contains("kestrel") && !refused.text.contains("flowConfig"), "{}", refused.text);
            assert_eq!(refused.text.contains("maxSteps"), change.get("maxSteps").is_some(), "{}", refused.text);
        }
        let reader = client(&server, &[Scope::AgentsWrite, Scope::AgentsInvoke, Scope::AgentsRead]).await;
        let refused = reader.patch(&path, json!({ "description": "x" })).await;
        assert!(refused.text.contains("kestrel-part"), "{}", refused.text);
        writer.patch(&path, json!({ "flowConfig": { "agents": [] } })).await.is(200);
    }

    async fn the_default_agent_is_not_named_to_whoever_may_not_read_it(db: TestDb) {
        let server = Server::start(&db).await;
        let admin = server.admin().in_project(server.default_project);
        let writer = client(&server, &[Scope::AgentsWrite]).await;
        let mine = json!({ "name": "mine", "isDefault": true });
        for (tools, visibility, status, code) in [
            (json!(["entities_delete"]), "internal", 403, "missing_scope"),
            (json!([]), "external", 409, "conflict"),
        ] {
            let definition = json!({ "isDefault": true, "tools": tools, "visibility": visibility });
            admin.agent("kestrel-agent", definition).await;
            let refused = writer.post(AGENTS, mine.clone()).await;
            refused.refused(status, code);
            assert!(!refused.text.contains("kestrel"), "{}", refused.text);
            admin.delete(&format!("{AGENTS}/kestrel-agent")).await.is(200);
        }
    }
}

//! Agents over HTTP: they are created, changed, listed and started.

use crate::common;

use common::Server;
use emergent_domain::token::Scope;
use emergent_testkit::both_engines;
use serde_json::{Value, json};

const AGENTS: &str = "/api/admin/agents";

fn names(list: &Value) -> Vec<&str> {
    list.as_array().unwrap().iter().map(|agent| agent["name"].as_str().unwrap()).collect()
}

both_engines! {
    async fn an_agent_reads_back_as_it_was_written(db: TestDb) {
        let server = Server::start(&db).await;
        let client = server.admin();
        client.agent("helper", json!({})).await;
        let written = json!({
            "name": "researcher", "description": "Finds things", "systemPrompt": "You find things.",
            "model": { "provider": "google", "name": "gemini-2.5-flash", "temperature": 0.2, "maxTokens": 4_000 },
            "tools": ["entities_*", "search_hybrid"], "trigger": "on_document_ingested", "flowType": "loop",
            "flowConfig": { "agents": ["helper"], "until": { "contains": "DONE" }, "maxIterations": 3 },
            "isDefault": true, "maxSteps": 20, "defaultTimeout": 120, "visibility": "external",
            "acp": { "displayName": "Researcher", "description": "Ask me", "capabilities": ["chat"], "inputModes": ["text"], "outputModes": ["text"] },
            "config": { "allow_delegation": true },
        });
        let made = client.post(AGENTS, written.clone()).await.is(201).clone();
        for (field, value) in written.as_object().unwrap() {
            assert_eq!(made[field], *value, "{field}");
        }
        assert_eq!((&made["version"], &made["product"]), (&json!(1), &Value::Null));
        let path = format!("{AGENTS}/{}", made["id"].as_str().unwrap());
        assert_eq!(client.get(&path).await.is(200), &made);

        let least = client.post(AGENTS, json!({ "name": "least" })).await.is(201).clone();
        for absent in ["model", "trigger", "flowConfig", "maxSteps", "defaultTimeout", "acp", "product"] {
            assert_eq!(least.get(absent), Some(&Value::Null), "{absent}");
        }
        assert_eq!((&least["tools"], &least["visibility"], &least["flowType"]), (&json!([]), &json!("project"), &json!("single")));
    }

    async fn a_change_is_a_version_and_null_clears(db: TestDb) {
        let server = Server::start(&db).await;
        let client = server.admin();
        let id = client.agent("writer", json!({ "maxSteps": 5, "trigger": "on_entity_created", "tools": ["project_info"] })).await;
        let path = format!("{AGENTS}/{id}");
        let change = json!({ "maxSteps": null, "model": null, "trigger": null, "description": "Writes", "expectedVersion": 1 });
        let changed = client.patch(&path, change).await.is(200).clone();
        assert_eq!((&changed["version"], &changed["maxSteps"], &changed["model"], &changed["trigger"]), (&json!(2), &Value::Null, &Value::Null, &Value::Null));
        assert_eq!((&changed["description"], &changed["tools"]), (&json!("Writes"), &json!(["project_info"])));
        // A change without effect creates no version.
        assert_eq!(client.patch(&path, json!({ "description": "Writes" })).await.is(200)["version"], 2);
        let late = client.patch(&path, json!({ "name": "late", "expectedVersion": 1 })).await;
        assert_eq!(late.refused(409, "version_conflict")["details"], json!({ "expected": 1, "current": 2 }));

        client.agent("other", json!({})).await;
        let taken = client.patch(&path, json!({ "name": "other" })).await;
        assert!(taken.refused(409, "conflict")["message"].as_str().unwrap().contains("`other`"));
        client.post(AGENTS, json!({ "name": "other" })).await.refused(409, "conflict");

        client.delete(&path).await.is(200);
        client.get(&path).await.refused(404, "not_found");
        client.delete(&path).await.refused(404, "not_found");
        client.patch(&path, json!({ "name": "x" })).await.refused(404, "not_found");
        assert_eq!(client.get(&format!("{path}/runs")).await.is(200), &json!([]), "its runs stay readable");
        client.agent("writer", json!({})).await;
    }

    async fn every_version_of_an_agent_stays_readable_with_its_author(db: TestDb) {
        let server = Server::start(&db).await;
        let client = server.admin();
        let id = client.agent("writer", json!({ "maxSteps": 5, "systemPrompt": "one" })).await;
        let path = format!("{AGENTS}/{id}");
        for prompt in ["two", "three"] {
            client.patch(&path, json!({ "systemPrompt": prompt })).await.is(200);
        }
        let versions = |list: &Value| -> Vec<(i64, String)> {
            let version = |item: &Value| (item["version"].as_i64().unwrap(), item["definition"]["systemPrompt"].as_str().unwrap().to_owned());
            list.as_array().unwrap().iter().map(version).collect()
        };
        let expected = [(3, "three"), (2, "two"), (1, "one")].map(|(version, prompt)| (version, prompt.to_owned()));
        let history = client.get(&format!("{path}/history")).await.is(200).clone();
        assert_eq!(versions(&history), expected);
        assert_eq!((&history[2]["author"]["type"], &history[2]["definition"]["maxSteps"]), (&json!("token"), &json!(5)));

        let newest = client.get(&format!("{path}/history?limit=2")).await;
        assert_eq!(versions(newest.is(200)), expected[..2]);

        client.delete(&path).await.is(200);
        assert_eq!(client.get(&format!("{path}/history")).await.is(200).as_array().unwrap().len(), 4, "a deleted agent keeps its history");
        let nobody = format!("{AGENTS}/0190f3c5-0000-7000-8000-000000000000/history");
        client.get(&nobody).await.refused(404, "not_found");
    }

    async fn internal_agents_are_hidden_and_not_to_be_started_by_hand(db: TestDb) {
        let server = Server::start(&db).await;
        let client = server.admin();
        let echo = json!({ "provider": "rehearsal", "name": "echo" });
        let inner = client.agent("inner", json!({ "visibility": "internal", "model": echo })).await;
        for name in ["first", "second"] {
            client.agent(name, json!({ "model": echo })).await;
        }
        assert_eq!(names(client.get(AGENTS).await.is(200)), ["second", "first"]);
        let first = client.get(&format!("{AGENTS}?include_internal=true&limit=2")).await;
        assert_eq!(names(first.is(200)), ["second", "first"]);
        let cursor = first.headers["x-next-cursor"].to_str().unwrap();
        let rest = client.get(&format!("{AGENTS}?include_internal=true&limit=2&cursor={cursor}")).await;
        assert_eq!(names(rest.is(200)), ["inner"]);
        assert!(rest.headers.get("x-next-cursor").is_none());
        client.get(&format!("{AGENTS}/{inner}")).await.is(200);
        let refused = client.post(&format!("{AGENTS}/{inner}/trigger"), json!({ "input": "go" })).await;
        assert!(refused.refused(403, "forbidden")["message"].as_str().unwrap().contains("other agents"), "{}", refused.text);
        assert_eq!(client.get("/api/admin/runs").await.is(200), &json!([]));
    }

    async fn a_misspelt_name_is_answered_with_the_nearest_for_those_who_may_list_agents(db: TestDb) {
        let server = Server::start(&db).await;
        server.admin().agent("researcher", json!({})).await;
        let told = async |scopes: &[Scope]| {
            let token = server.token(scopes, None).await;
            let path = format!("{AGENTS}/reseacher/trigger");
            let answer = server.client(Some(&token)).post(&path, json!({ "input": "Go." })).await;
            answer.refused(404, "not_found")["message"].as_str().unwrap().to_owned()
        };
        assert_eq!(
            told(&[Scope::AgentsInvoke, Scope::AgentsRead]).await,
            "there is no agent `reseacher` here; did you mean `researcher`?"
        );
        assert_eq!(told(&[Scope::AgentsInvoke]).await, "there is no agent `reseacher` here");
    }

    async fn names_of_tools_are_checked_and_the_nearest_is_told(db: TestDb) {
        let server = Server::start(&db).await;
        let client = server.admin();
        let wrong = client.post(AGENTS, json!({ "name": "a", "tools": ["project_info", "entities_serch"] })).await;
        wrong.refused(400, "invalid");
        assert_eq!(wrong.field(), "tools[1]");
        assert!(wrong.text.contains("entities_search"), "{}", wrong.text);
        // Aliases and globs are accepted.
        client.agent("b", json!({ "tools": ["create_entity", "search_*"] })).await;
    }

    async fn a_pattern_that_matches_no_tool_is_a_warning(db: TestDb) {
        let server = Server::start(&db).await;
        let client = server.admin();
        // `query_entities` is an alias, and patterns match no aliases.
        let tools = json!(["entities_*", "moon_*", "query_*"]);
        let made = client.post(AGENTS, json!({ "name": "reader", "tools": tools })).await.is(201).clone();
        let fields: Vec<_> = made["warnings"].as_array().unwrap().iter().map(|one| one["field"].clone()).collect();
        assert_eq!(fields, ["tools[1]", "tools[2]"]);
        assert!(made["warnings"][0]["reason"].as_str().unwrap().contains("`moon_*` matches no tool"), "{made}");
        let path = format!("{AGENTS}/{}", made["id"].as_str().unwrap());
        assert_eq!(client.get(&path).await.is(200)["warnings"], made["warnings"]);
        assert_eq!(client.get(AGENTS).await.is(200)[0]["warnings"], made["warnings"]);
        let changed = client.patch(&path, json!({ "tools": ["entities_*"] })).await.is(200).clone();
        assert_eq!(changed.get("warnings"), None);
    }

    async fn steps_above_the_maximum_are_refused(db: TestDb) {
        let server = Server::start(&db).await;
        let client = server.admin();
        let refused = client.post(AGENTS, json!({ "name": "long", "maxSteps": 501 })).await;
        assert!(refused.refused(400, "invalid")["message"].as_str().is_some_and(|text| text.contains("1 to 500")));
        let id = client.agent("fine", json!({ "maxSteps": 500 })).await;
        let path = format!("{AGENTS}/{id}/trigger");
        for (field, value) in [("maxSteps", json!(501)), ("maxCostUsd", json!(0)), ("maxCostUsd", json!(-1)), ("maxTotalTokens", json!(0))] {
            let refused = client.post(&path, json!({ "input": "Go.", field: value })).await;
            assert!(refused.refused(400, "invalid").to_string().contains(field), "{field}");
        }
    }

    async fn a_model_without_a_provider_follows_one_rule_or_is_refused_with_it(db: TestDb) {
        let server = Server::start(&db).await;
        let client = server.admin();
        for (name, provider) in [("gemini-2.5-flash", "google"), ("gpt-5", "openai"), ("o3", "openai"), ("claude-opus-4", "anthropic")] {
            let made = client.post("/api/admin/agents", json!({ "name": format!("a-{provider}-{}", name.len()), "model": { "name": name } })).await;
            assert_eq!(made.is(201)["model"]["provider"], provider, "{name}");
        }
        let id = client.agent("a", json!({})).await;
        for (path, body) in [
            ("/api/admin/agents".to_owned(), json!({ "name": "b", "model": { "name": "llama3" } })),
            (format!("/api/admin/agents/{id}/trigger"), json!({ "input": "Go.", "model": { "name": "llama3" } })),
        ] {
            let refused = client.post(&path, body).await;
            let message = refused.refused(400, "invalid")["message"].as_str().unwrap().to_owned();
            assert!(message.contains("`gemini-*` (google)"), "{message}");
            assert!(refused.field().starts_with("model"), "{}", refused.text);
        }
    }

    async fn an_agent_can_be_named_instead_of_its_id(db: TestDb) {
        let server = Server::start(&db).await;
        let client = server.admin();
        let echo = json!({ "provider": "rehearsal", "name": "echo" });
        let id = client.agent("writer", json!({ "model": echo })).await;
        assert_eq!(client.get("/api/admin/agents/writer").await.is(200)["id"], id.as_str());
        let run = client.post("/api/admin/agents/writer/trigger", json!({ "input": "Go." })).await.is(202)["runId"].as_str().unwrap().to_owned();
        assert_eq!(client.get("/api/admin/agents/writer/runs").await.is(200)[0]["id"], run.as_str());
        assert_eq!(client.get(&format!("/api/admin/agents/writer/runs/{run}")).await.is(200)["id"], run.as_str());
        client.get(&format!("/api/admin/agents/reader/runs/{run}")).await.refused(404, "not_found");
        client.post("/api/admin/agents/reader/trigger", json!({ "input": "Go." })).await.refused(404, "not_found");
        client.patch("/api/admin/agents/writer", json!({ "description": "Writes" })).await.is(200);
    }

    async fn an_agent_without_a_usable_model_is_refused_with_the_ways_out(db: TestDb) {
        let server = Server::start(&db).await;
        let client = server.admin();
        let id = client.agent("a", json!({ "model": { "provider": "google", "name": "gemini-2.5-flash" } })).await;
        let refused = client.post(&format!("{AGENTS}/{id}/trigger"), json!({ "input": "go" })).await;
        let message = refused.refused(409, "no_model")["message"].as_str().unwrap();
        assert!(message.contains("GEMINI_API_KEY") && message.contains("EMERGENT_MODEL"), "{message}");
        assert_eq!(client.get("/api/admin/runs").await.is(200), &json!([]), "nothing was queued");
    }

    async fn a_misspelt_provider_is_refused_with_the_one_that_was_meant(db: TestDb) {
        let server = Server::start(&db).await;
        let client = server.admin();
        let check = |refused: &common::Answer| {
            let message = refused.refused(400, "invalid")["message"].as_str().unwrap();
            assert_eq!(refused.field(), "model");
            assert!(message.contains("unknown provider `gogle`; did you mean `google`?"), "{message}");
        };
        let misspelt = "gogle/gemini-2.5-flash";
        check(&client.post(AGENTS, json!({ "name": "a", "model": misspelt })).await);
        let dry_run = format!("{AGENTS}?dryRun=true");
        check(&client.post(&dry_run, json!({ "name": "a", "model": misspelt })).await);
        let id = client.agent("a", json!({ "model": "google/gemini-2.5-flash" })).await;
        check(&client.patch(&format!("{AGENTS}/{id}"), json!({ "model": misspelt })).await);
        let start = json!({ "input": "go", "model": { "provider": "gogle", "name": "x" } });
        let refused = client.post(&format!("{AGENTS}/{id}/trigger"), start).await;
        let message = refused.refused(409, "no_model")["message"].as_str().unwrap();
        assert!(message.contains("unknown provider `gogle`") && message.ends_with("did you mean `google`?"), "{message}");
        client.patch(&format!("{AGENTS}/{id}"), json!({ "model": null })).await.is(200);
        // Whatever else is wrong is told with it.
        let wrong = json!({ "name": "b", "model": misspelt, "tools": ["no_such_tool"], "maxSteps": 0 });
        let refused = client.post(AGENTS, wrong.clone()).await;
        let details = refused.refused(400, "invalid")["details"].clone();
        let fields: Vec<_> = details.as_array().unwrap().iter().map(|problem| problem["field"].clone()).collect();
        assert_eq!(json!(fields), json!(["model", "tools[0]", "maxSteps"]));
        let refused = client.patch(&format!("{AGENTS}/{id}"), json!({ "model": misspelt, "maxSteps": 0 })).await;
        let details = refused.refused(400, "invalid")["details"].clone();
        assert_eq!(details.as_array().unwrap().len(), 2, "{details}");
        let after = client.get(&format!("{AGENTS}/{id}")).await.is(200).clone();
        assert_eq!(after["model"], json!(null), "nothing was changed");
    }

    async fn a_model_is_written_as_a_text_or_as_an_object(db: TestDb) {
        let server = Server::start(&db).await;
        let client = server.admin();
        let id = client.agent("a", json!({ "model": "rehearsal/echo" })).await;
        let path = format!("{AGENTS}/{id}");
        let model = client.get(&path).await.is(200)["model"].clone();
        assert_eq!((&model["provider"], &model["name"]), (&json!("rehearsal"), &json!("echo")));
        let changed = client.patch(&path, json!({ "model": "gemini-2.5-flash" })).await;
        assert_eq!(changed.is(200)["model"]["provider"], "google");
        client.post(&format!("{path}/trigger"), json!({ "input": "go", "model": "rehearsal/echo" })).await.is(202);
        assert_eq!(client.patch(&path, json!({ "model": null })).await.is(200)["model"], Value::Null);
        let task = json!({ "key": "t", "title": "T", "assignedAgent": "a" });
        let dispatch = |model: Value| json!({ "tasks": [task], "model": model, "dryRun": true });
        client.post("/api/coordination/dispatch", dispatch(json!("rehearsal/echo"))).await.is(200);
        for wrong in [json!("echo"), json!(""), json!(3), json!(["rehearsal", "echo"]), json!({ "provider": "rehearsal" })] {
            for (path, body) in [
                (AGENTS.to_owned(), json!({ "name": "b", "model": wrong })),
                (format!("{path}/trigger"), json!({ "input": "go", "model": wrong })),
                ("/api/coordination/dispatch".to_owned(), dispatch(wrong.clone())),
            ] {
                let refused = client.post(&path, body).await;
                refused.refused(400, "invalid");
                assert!(refused.field().starts_with("model"), "{}", refused.text);
            }
        }
    }

    async fn the_pool_shows_every_tool_with_its_source(db: TestDb) {
        let server = Server::start(&db).await;
        let reader = server.client(Some(&server.token(&[Scope::AgentsRead], None).await));
        let tools = reader.get("/api/admin/tools").await.is(200).clone();
        let tool = |name: &str| tools.as_array().unwrap().iter().find(|tool| tool["name"] == name).unwrap_or_else(|| panic!("{name}")).clone();
        let create = tool("entities_create");
        assert_eq!((&create["source"], &create["server"], &create["effect"], &create["scope"]), (&json!("builtin"), &Value::Null, &json!("writes"), &json!("graph:write")));
        assert!(create["aliases"].as_array().unwrap().contains(&json!("create_entity")));
        assert_eq!(create["inputSchema"]["type"], "object");
        let spawn = tool("spawn_agents");
        assert_eq!((&spawn["effect"], &spawn["scope"]), (&json!("coordinates"), &Value::Null));
        let names: Vec<_> = tools.as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect();
        assert!(names.is_sorted(), "{names:?}");
    }
}

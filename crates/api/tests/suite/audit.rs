//! The audit log over HTTP: each change is told with who made it, and only to those who may know.

use crate::common;

use common::{Client, Server};
use emergent_domain::token::Scope::{AdminRead, AdminWrite, AgentsWrite};
use emergent_testkit::both_engines;
use serde_json::{Value, json};

const PATH: &str = "/api/admin/audit";

fn product(version: &str) -> Value {
    json!({ "manifest": { "name": "acme.audited", "version": version, "agents": [{ "name": "helper" }] } })
}

fn actions(entries: &Value) -> Vec<&str> {
    entries.as_array().unwrap().iter().map(|entry| entry["action"].as_str().unwrap()).collect()
}

/// Changes one thing of each kind.
async fn change_everything(client: &Client) {
    let made =
        client.post("/api/projects", json!({ "name": "audited", "strict": true })).await.is(201).clone();
    let project = format!("/api/projects/{}", made["id"].as_str().unwrap());
    client.patch(&project, json!({ "strict": false })).await.is(200);
    client.patch(&project, json!({ "strict": false })).await.is(200);

    let token = json!({ "name": "ci", "scopes": ["graph:read"], "project": "audited" });
    let token = client.post("/api/tokens", token).await.is(201)["id"].as_str().unwrap().to_owned();
    client.delete(&format!("/api/tokens/{token}")).await.is(200);
    client.delete(&format!("/api/tokens/{token}")).await.is(200);

    let inside = client.in_project("audited");
    inside.put("/api/admin/secrets/API_KEY", json!({ "value": "S3cr3t-of-the-log" })).await.is(201);
    inside.delete("/api/admin/secrets/API_KEY").await.is(200);

    let server = json!({ "name": "web", "transport": "http", "url": "https://mcp.example.com/mcp?key=abc" });
    let server =
        inside.post("/api/admin/mcp-servers", server).await.is(201)["id"].as_str().unwrap().to_owned();
    let server = format!("/api/admin/mcp-servers/{server}");
    inside.patch(&server, json!({ "enabled": false })).await.is(200);
    inside.delete(&server).await.is(200);

    let agent = inside.agent("writer", json!({ "tools": ["project_info"] })).await;
    inside.patch(&format!("/api/admin/agents/{agent}"), json!({ "maxSteps": 9 })).await.is(200);
    inside.put("/api/coordination/budgets", json!({ "agent": "writer", "usd": 2.5 })).await.is(200);
    inside.delete(&format!("/api/admin/agents/{agent}")).await.is(200);

    inside.post("/api/products/install", product("1.0.0")).await.is(201);
    inside.post("/api/products/acme.audited/upgrade", product("2.0.0")).await.is(200);
    inside.delete("/api/products/acme.audited").await.is(200);

    let stuck = json!({ "topic": "Which way", "status": "escalated", "discussion_type": "debate" });
    let stuck = inside.object("Discussion", "stuck", stuck).await;
    let decide = format!("/api/coordination/discussions/{stuck}/decide");
    inside.post(&decide, json!({ "decision": "left" })).await.is(200);
    client.delete(&project).await.is(200);
}

both_engines! {
    async fn every_change_is_told_once_with_who_made_it(db: TestDb) {
        let server = Server::start(&db).await;
        let admin = server.admin();
        change_everything(&admin).await;
        let log = admin.get(&format!("{PATH}?limit=100")).await.is(200).clone();
        let entries = log.as_array().unwrap();
        let expected = [
            "project.create", "project.update", "token.create", "token.revoke", "secret.put", "secret.delete",
            "mcp_server.create", "mcp_server.update", "mcp_server.delete", "agent.create", "agent.update",
            "budget.update", "agent.delete", "product.install", "product.upgrade", "product.uninstall",
            "discussion.decide", "project.delete",
        ];
        let mut told = actions(&log);
        told.reverse();
        // The first entry is that of the admin token, which the server made.
        assert_eq!(told.remove(0), "token.create");
        assert_eq!(told, expected);
        for entry in &entries[..entries.len() - 1] {
            assert_eq!((&entry["token"]["name"], &entry["outcome"]), (&json!("admin"), &json!("done")), "{entry}");
            assert_eq!(entry.get("address"), None, "a request without a connection has no address");
        }
        let find = |action: &str| entries.iter().find(|entry| entry["action"] == action).unwrap();
        let first = entries.last().unwrap();
        assert_eq!((&first["target"]["name"], first.get("token")), (&json!("admin"), None), "{first}");
        assert_eq!(find("token.create")["target"]["name"], "ci");
        assert_eq!(find("token.create")["details"]["scopes"], json!(["graph:read"]));
        assert_eq!(find("agent.create")["details"]["tools"], json!(["project_info"]));
        assert_eq!(find("product.install")["details"]["steps"], json!(["add agent helper"]));
        assert_eq!(find("mcp_server.create")["details"]["target"], "https://mcp.example.com/mcp?key=…");
        assert!(!log.to_string().contains("S3cr3t-of-the-log") && !log.to_string().contains("key=abc"));
    }

    async fn what_changes_trust_and_retention_is_told_with_its_settings(db: TestDb) {
        let server = Server::start(&db).await;
        let admin = server.admin().in_project("default");
        let project = format!("/api/projects/{}", server.default_project);
        admin.patch(&project, json!({ "retention": { "runsDays": 30 } })).await.is(200);
        let newest = async |action: &str| admin.get(&format!("{PATH}?action={action}")).await.is(200)[0].clone();
        let told = newest("project.update").await;
        assert_eq!(told["details"]["retention"]["runsDays"], 30);
        assert_eq!(told["details"]["retentionBefore"]["runsDays"], Value::Null);

        admin.put("/api/admin/secrets/API_KEY", json!({ "value": "S3cr3t-of-the-log" })).await.is(201);
        let web = json!({
            "name": "web", "transport": "http", "url": "https://mcp.example.com/mcp",
            "headers": { "Authorization": "Bearer ${API_KEY}" },
        });
        let web = admin.post("/api/admin/mcp-servers", web).await.is(201)["id"].as_str().unwrap().to_owned();
        let web = format!("/api/admin/mcp-servers/{web}");
        for (change, names) in [
            (json!({ "trust": true }), json!(["trust"])),
            (json!({ "toolFilter": ["find_*"] }), json!(["toolFilter"])),
            (json!({ "env": { "REGION": "hidden-value" } }), json!(["env"])),
            (json!({ "url": "https://mcp.example.com/customers/b" }), json!(["url"])),
        ] {
            admin.patch(&web, change).await.is(200);
            assert_eq!(newest("mcp_server.update").await["details"]["changed"], names);
        }
        let told = newest("mcp_server.update").await;
        let address = "https://mcp.example.com/customers/b";
        assert_eq!(told["details"]["target"], address, "another path is another destination");
        assert_eq!((&told["details"]["trust"], &told["details"]["toolFilter"]), (&json!(true), &json!(["find_*"])));
        assert_eq!(told["details"]["env"], json!(["REGION"]));
        admin.post("/api/admin/secrets/API_KEY/bindings", json!({ "server": "web" })).await.is(200);
        let told = newest("secret.allow").await;
        assert_eq!((&told["target"]["name"], &told["details"]["mcpServer"]), (&json!("API_KEY"), &json!("web")));
        let log = admin.get(&format!("{PATH}?limit=100")).await.text;
        assert!(!log.contains("hidden-value") && !log.contains("S3cr3t-of-the-log"), "{log}");
    }

    async fn a_daily_budget_is_told_with_the_one_before(db: TestDb) {
        let server = Server::start(&db).await;
        let admin = server.admin().in_project("default");
        let newest = async || admin.get(&format!("{PATH}?action=budget.update")).await.is(200)[0]["details"].clone();
        let none = Value::Null;
        for (budget, expected) in [
            (json!({ "usd": 2.5 }), [json!(2_500_000), none.clone(), none.clone(), none.clone()]),
            (json!({ "tokens": 900 }), [none.clone(), json!(900), json!(2_500_000), none.clone()]),
            (json!({}), [none.clone(), none.clone(), none.clone(), json!(900)]),
        ] {
            admin.put("/api/coordination/budgets", budget).await.is(200);
            let told = newest().await;
            let fields = ["microusd", "tokens", "microusdBefore", "tokensBefore"].map(|name| told[name].clone());
            assert_eq!(fields, expected, "{told}");
        }
    }

    async fn what_a_change_does_to_others_is_told(db: TestDb) {
        let server = Server::start(&db).await;
        let admin = server.admin().in_project("default");
        admin.agent("first", json!({ "isDefault": true })).await;
        admin.agent("second", json!({ "isDefault": true })).await;
        let log = admin.get(&format!("{PATH}?action=agent")).await.is(200).clone();
        assert_eq!(actions(&log), ["agent.create", "agent.update", "agent.create"]);
        assert_eq!((&log[1]["target"]["name"], &log[1]["details"]["isDefault"]), (&json!("first"), &json!(false)));

        let mut scheduled = product("1.0.0");
        scheduled["manifest"]["jobs"] = json!([{ "name": "nightly", "cron": "0 3 * * *", "agent": "helper" }]);
        scheduled["accept"] = json!(true);
        admin.post("/api/products/install", scheduled).await.is(201);
        let log = admin.get(&format!("{PATH}?action=product.install")).await.is(200).clone();
        assert_eq!(log[0]["details"]["accepted"]["schedules"], json!(["helper 0 3 * * *"]));
    }

    async fn a_refused_change_is_not_told(db: TestDb) {
        let server = Server::start(&db).await;
        let maker = server.client(Some(&server.token(&[AgentsWrite], Some(server.default_project)).await));
        let refused = maker.post("/api/admin/agents", json!({ "name": "a", "tools": ["entities_create"] })).await;
        let error = refused.refused(403, "missing_scope");
        assert_eq!(error["details"]["scope"], "graph:write");
        let message = error["message"].as_str().unwrap();
        assert!(message.contains("entities_create") && message.contains("graph:write"), "{message}");
        let log = server.admin().get(&format!("{PATH}?action=agent")).await;
        assert_eq!(log.is(200), &json!([]));
    }

    async fn a_token_of_a_project_sees_that_project_only(db: TestDb) {
        let server = Server::start(&db).await;
        let admin = server.admin();
        let (ours, theirs) = (server.project("ours").await, server.project("theirs").await);
        for project in [ours, theirs] {
            admin.in_project(project).agent("a", json!({})).await;
        }
        let bound = server.client(Some(&server.token(&[AdminRead], Some(ours)).await));
        let log = bound.get(PATH).await.is(200).clone();
        assert_eq!(actions(&log), ["token.create", "agent.create", "project.create"]);
        assert!(log.as_array().unwrap().iter().all(|entry| entry["project"] == json!(ours)));
        bound.in_project(theirs).get(PATH).await.refused(404, "not_found");
        let named = admin.in_project(theirs).get(PATH).await.is(200).clone();
        assert_eq!(actions(&named), ["agent.create", "project.create"]);
        let nobody = server.client(Some(&server.token(&[AdminWrite], Some(ours)).await));
        nobody.get(PATH).await.refused(403, "missing_scope");
    }

    async fn the_log_is_filtered_and_paged(db: TestDb) {
        let server = Server::start(&db).await;
        let admin = server.admin();
        for number in 0..3 {
            admin.agent(&format!("a{number}"), json!({})).await;
        }
        let first = admin.get(&format!("{PATH}?action=agent.create&limit=2")).await;
        assert_eq!(first.is(200)[0]["target"]["name"], "a2");
        let cursor = first.headers["x-next-cursor"].to_str().unwrap();
        let rest = admin.get(&format!("{PATH}?action=agent&limit=2&cursor={cursor}")).await;
        assert_eq!((rest.is(200).as_array().unwrap().len(), rest.headers.get("x-next-cursor")), (1, None));
        let token = first.body["data"][0]["token"]["id"].as_str().unwrap().to_owned();
        let by = admin.get(&format!("{PATH}?token={token}&until=2020-01-01T00:00:00Z")).await;
        assert_eq!(by.is(200), &json!([]));
        for (query, field) in [("action=DROP", "action"), ("token=x", "token"), ("since=yesterday", "since"), ("who=x", "who")] {
            let refused = admin.get(&format!("{PATH}?{query}")).await;
            refused.refused(400, "invalid");
            assert_eq!(refused.field(), field);
        }
    }
}

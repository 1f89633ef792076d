//! Where an id or a name is expected, an id is the thing with this id. So nobody can give something the id of another
//! thing as its name.

use emergent_domain::{agent::AgentDefinition, ids::AgentId, token::Scope};
use emergent_store::Tx;
use emergent_testkit::both_engines;
use serde_json::{Value, json};

use crate::coordination::server;

#[track_caller]
fn assert_refused(answer: &crate::common::Answer) {
    assert_eq!(answer.refused(400, "invalid")["details"][0]["field"], "name", "{}", answer.text);
    assert!(answer.text.contains("must not look like an id"), "{}", answer.text);
}

both_engines! {
    async fn nothing_has_the_id_of_another_thing_as_its_name(db: TestDb) {
        let server = server(&db).await;
        let admin = server.admin();
        let victim = admin.get("/api/admin/agents/writer").await.is(200)["id"].as_str().unwrap().to_owned();
        let scopes = [Scope::AgentsWrite, Scope::AgentsInvoke];
        let attacker = server.client(Some(&server.token(&scopes, Some(server.default_project)).await));
        for name in [victim.clone(), victim.to_uppercase(), victim.replace('-', "")] {
            assert_refused(&attacker.post("/api/admin/agents", json!({ "name": name })).await);
            assert_refused(&attacker.post("/api/admin/agents?dryRun=true", json!({ "name": name })).await);
            assert_refused(&attacker.patch("/api/admin/agents/fixer", json!({ "name": name })).await);
            assert_refused(&admin.post("/api/projects", json!({ "name": name })).await);
            let mcp_server = json!({ "name": name, "transport": "http", "url": "https://example.com/mcp" });
            assert_refused(&admin.post("/api/admin/mcp-servers", mcp_server).await);
            let trigger = json!({
                "cron": "0 0 * * *",
                "dispatch": { "tasks": [{ "key": "t", "title": "t", "assignedAgent": "writer" }] },
            });
            let pack = json!({ "name": name, "version": "1.0.0", "objectTypeSchemas": {} });
            assert_refused(&admin.post("/api/template-packs", pack).await);
            let part = json!({ "name": name, "agent": "writer", "cron": "0 4 * * *" });
            for (product, jobs, pointer) in [("jobs", json!([part]), "/jobs/0/name"), (name.as_str(), json!([]), "/name")] {
                let manifest =
                    json!({ "name": product, "version": "1.0.0", "author": "a", "description": "d", "jobs": jobs });
                let refused = admin.post("/api/products/install", json!({ "manifest": manifest, "accept": true })).await;
                assert_eq!(refused.status, 400, "{}", refused.text);
                assert!(refused.text.contains(pointer), "{pointer}: {}", refused.text);
            }
            let saved = attacker.put(&format!("/api/admin/triggers/{name}"), trigger).await;
            assert!(saved.status.is_client_error(), "{}", saved.text);
        }
        let triggers = admin.get("/api/admin/triggers").await;
        assert!(!triggers.text.contains(&victim), "{}", triggers.text);
    }

    async fn an_id_is_that_of_the_thing_and_not_a_name_from_before(db: TestDb) {
        let server = server(&db).await;
        let _stop = server.dispatch();
        let admin = server.admin();
        let id = async |name: &str| {
            let shown = admin.get(&format!("/api/admin/agents/{name}")).await;
            shown.is(200)["id"].as_str().unwrap().to_owned()
        };
        let (victim, impostor) = (id("writer").await, id("critic").await);
        // An earlier version let it have this name.
        let (named, other): (String, uuid::Uuid) = (victim.clone(), impostor.parse().unwrap());
        let agent = server.executor.get_agent(server.default_project, AgentId(other)).await.unwrap();
        let definition = AgentDefinition { name: victim.clone(), ..agent.definition };
        let definition = serde_json::to_string(&definition).unwrap();
        let rename = move |tx: &mut Tx<'_>| {
            tx.execute("UPDATE agent_definitions SET name = $1 WHERE id = $2", &[named.as_str().into(), other.into()])?;
            let sql = "UPDATE agent_definition_versions SET definition = $1 WHERE agent_id = $2";
            tx.execute(sql, &[emergent_store::json(&definition), other.into()])
        };
        server.graph.db().write(rename).await.unwrap_or_else(|error: emergent_store::Error| panic!("{error}"));
        let task = json!({ "tasks": [{ "key": "a", "title": "a", "assignedAgent": victim }] });
        admin.post("/api/coordination/dispatch", task).await.refused(400, "invalid");
        assert_eq!(admin.get(&format!("/api/admin/agents/{victim}")).await.is(200)["name"], "writer");
        assert_eq!(admin.delete(&format!("/api/admin/agents/{victim}")).await.is(200)["name"], "writer");
        assert_eq!(admin.get(&format!("/api/admin/agents/{impostor}")).await.is(200)["name"], Value::from(victim));
    }
}

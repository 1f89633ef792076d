//! `/api/products`: its responses and its errors.

use crate::common;

use common::Server;
use emergent_domain::token::Scope;
use emergent_testkit::both_engines;
use serde_json::{Value, json};

fn manifest(version: &str, prompt: &str) -> Value {
    json!({ "name": "acme.support", "version": version, "description": "Helps",
        "template_packs": [{ "name": "support", "version": version, "object_type_schemas": { "Ticket": { "type": "object" } } }],
        "agents": [{ "name": "triage", "system_prompt": prompt, "tools": ["search_hybrid"], "is_default": true }],
        "jobs": [{ "name": "daily", "cron": "0 8 * * *", "agent": "triage" }],
        "mcp": { "prompts": [{ "name": "ask", "messages": [{ "role": "user", "content": "hi" }] }] } })
}

both_engines! {
    async fn a_product_comes_changes_and_goes(db: TestDb) {
        let server = Server::start(&db).await;
        let admin = server.admin();
        let dry = json!({ "manifest": manifest("1.0.0", "A"), "dryRun": true });
        let planned = admin.post("/api/products/install", dry).await;
        assert_eq!(planned.is(200)["product"], Value::Null);
        let made = admin.post("/api/products/install", json!({ "manifest": manifest("1.0.0", "A"), "accept": true })).await;
        assert_eq!(made.is(201)["plan"], planned.body["data"]["plan"]);
        let listed = admin.get("/api/products").await;
        let product = &listed.is(200)[0];
        assert_eq!(product["source"], json!({ "kind": "manifest" }));
        assert_eq!((&product["agents"], &product["schedules"], &product["prompts"]), (&json!(["triage"]), &json!(["daily"]), &json!(["ask"])));
        assert_eq!(product["packs"], json!([{ "name": "support", "version": "1.0.0" }]));

        let agents = admin.get("/api/admin/agents").await;
        let id = agents.is(200)[0]["id"].as_str().unwrap().to_owned();
        admin.patch(&format!("/api/admin/agents/{id}"), json!({ "maxSteps": 9 })).await.is(200);
        let one = admin.get("/api/products/acme.support").await;
        assert_eq!(one.is(200)["manifest"], manifest("1.0.0", "A"));
        assert_eq!(one.body["data"]["ownChanges"][0]["fields"], json!([{ "pointer": "/max_steps", "after": 9 }]));

        let body = json!({ "manifest": manifest("2.0.0", "B") });
        let up = admin.post("/api/products/acme.support/upgrade", body).await;
        assert_eq!(up.is(200)["product"]["version"], "2.0.0");
        let warning = &up.body["data"]["plan"]["warnings"][0];
        assert_eq!((&warning["kind"], &warning["about"]), (&json!("own_change"), &json!("triage")));
        let told = admin.delete("/api/products/acme.support?dryRun=true").await;
        assert_eq!(told.is(200)["plan"]["direction"], "uninstall");
        admin.get("/api/products/acme.support").await.is(200);
        assert_eq!(admin.delete("/api/products/acme.support").await.is(200)["product"], Value::Null);
        admin.get("/api/products/acme.support").await.refused(404, "not_found");
        assert_eq!(admin.get("/api/admin/agents").await.is(200), &json!([]));
    }

    async fn what_is_refused_says_where_and_why(db: TestDb) {
        let server = Server::start(&db).await;
        let admin = server.admin();
        let install = |body: Value| {
            let admin = admin.clone();
            async move { admin.post("/api/products/install", body).await }
        };
        for (body, field) in [
            (json!({}), "source"),
            (json!({ "source": "x", "manifest": {} }), "source"),
            (json!({ "source": "emergent.reserch" }), "source"),
            (json!({ "source": 7 }), "source"),
            (json!({ "manifest": {}, "dryrun": true }), "dryrun"),
            (json!({ "manifest": {}, "accept": 7 }), "accept"),
        ] {
            let answer = install(body.clone()).await;
            answer.refused(400, "invalid");
            assert_eq!(answer.field(), field, "{body}");
        }
        let wrong = install(json!({ "manifest": { "name": "a", "version": "1.0.0", "agents": [{ "name": "a", "tools": ["serch_hybrid"] }] } })).await;
        let problem = &wrong.refused(400, "invalid_manifest")["details"][0];
        assert_eq!(problem["pointer"], "/agents/0/tools/0");
        assert!(problem["message"].as_str().unwrap().contains("search_hybrid"), "{problem}");
        install(json!({ "manifest": "a\u{0}b" })).await.refused(400, "invalid_manifest");
        install(json!({ "source": "http://127.0.0.1:1/manifest.json" })).await.refused(400, "source_unreachable");

        admin.agent("triage", json!({})).await;
        let clash = install(json!({ "manifest": manifest("1.0.0", "A") })).await;
        assert_eq!(clash.refused(409, "conflict")["details"][0]["pointer"], "/agents/0/name");
        let fine = json!({ "manifest": { "name": "fine", "version": "1.0.0" } });
        install(fine.clone()).await.is(201);
        let again = install(fine.clone()).await;
        assert_eq!((&again.is(200)["plan"]["direction"], &again.is(200)["plan"]["steps"]), (&json!("same"), &json!([])));
        install(json!({ "manifest": { "name": "fine", "version": "1.1.0" } })).await.refused(409, "already_installed");
        install(json!({ "manifest": { "name": "fine", "version": "1.0.0", "description": "Other" } })).await.refused(409, "already_installed");
        admin.post("/api/products/fine/upgrade", json!({ "manifest": manifest("1.0.0", "A") })).await.refused(409, "name_mismatch");
        admin.post("/api/products/other/upgrade", fine).await.refused(404, "not_found");
        admin.post("/api/products/fine/upgrade", json!({})).await.refused(400, "invalid");
        admin.get("/api/products/a%00b").await.refused(404, "not_found");
        admin.delete("/api/products/a%00b").await.refused(404, "not_found");
        assert_eq!(admin.get("/api/products/check-updates").await.is(200)[0]["available"], false);
    }

    async fn what_a_product_uses_has_to_be_accepted(db: TestDb) {
        let server = Server::start(&db).await;
        let admin = server.admin();
        let product = |version: &str, url: &str| json!({ "name": "hub", "version": version, "mcp": { "servers": [
            { "name": "hub", "transport": "http", "url": url, "headers": { "Authorization": "Bearer ${HUB_TOKEN}" } }] } });
        let v1 = product("1.0.0", "https://a.example.com/mcp");
        let install = |body: Value| {
            let admin = admin.clone();
            async move { admin.post("/api/products/install", body).await }
        };
        let planned = install(json!({ "manifest": v1, "dryRun": true })).await;
        let plan = planned.is(200)["plan"].clone();
        let uses = json!({ "programs": [], "hosts": ["https://a.example.com/mcp"], "schedules": [], "events": [],
            "secrets": [{ "name": "HUB_TOKEN", "target": "https://a.example.com/mcp authorization: \"Bearer ${HUB_TOKEN}\"" }] });
        assert_eq!((&plan["uses"], &plan["consent"]["adds"]), (&uses, &uses));
        for accept in [json!(null), json!(false), json!("0123")] {
            let refused = install(json!({ "manifest": v1, "accept": accept })).await;
            let details = refused.refused(409, "consent_required")["details"].clone();
            assert_eq!((&details["uses"], &details["digest"]), (&uses, &plan["consent"]["digest"]), "{accept}");
        }
        assert_eq!(admin.get("/api/products").await.is(200), &json!([]));
        install(json!({ "manifest": v1, "accept": plan["consent"]["digest"] })).await.is(201);
        assert_eq!(admin.get("/api/products/hub").await.is(200)["uses"], uses);

        let upgrade = |body: Value| {
            let admin = admin.clone();
            async move { admin.post("/api/products/hub/upgrade", body).await }
        };
        let other_path = upgrade(json!({ "manifest": product("1.1.0", "https://a.example.com/v2") })).await;
        other_path.refused(409, "consent_required");
        let same = upgrade(json!({ "manifest": product("1.1.0", "https://A.example.com:443/mcp") })).await;
        assert_eq!(same.is(200)["plan"].get("consent"), None, "nothing is new");
        let v2 = product("2.0.0", "https://b.example.com/mcp");
        let refused = upgrade(json!({ "manifest": v2 })).await;
        let adds = refused.refused(409, "consent_required")["details"]["adds"].clone();
        assert_eq!(adds["hosts"], json!(["https://b.example.com/mcp"]));
        assert_eq!(admin.get("/api/products/hub").await.is(200)["version"], "1.1.0");
        upgrade(json!({ "manifest": v2, "accept": true })).await.is(200);
    }

    async fn an_agent_that_a_job_starts_is_not_taken_from_it(db: TestDb) {
        let server = Server::start(&db).await;
        let admin = server.admin();
        let agent = json!({ "name": "agents", "version": "1.0.0", "agents": [{ "name": "triage" }] });
        let jobs = json!({ "name": "jobs", "version": "1.0.0", "jobs": [{ "name": "daily", "cron": "0 8 * * *", "agent": "triage" }] });
        for manifest in [agent, jobs] {
            admin.post("/api/products/install", json!({ "manifest": manifest, "accept": true })).await.is(201);
        }
        let agents = admin.get("/api/admin/agents").await;
        let path = format!("/api/admin/agents/{}", agents.is(200)[0]["id"].as_str().unwrap());
        let named = |message: &Value| message.as_str().unwrap().contains("the job `daily` of the product `jobs`");
        let by_hand = admin.delete(&path).await;
        assert!(named(&by_hand.refused(409, "conflict")["message"]), "{:?}", by_hand.body);
        let with_its_product = admin.delete("/api/products/agents").await;
        assert!(named(&with_its_product.refused(409, "conflict")["message"]), "{:?}", with_its_product.body);
        admin.delete("/api/products/jobs").await.is(200);
        admin.delete(&path).await.is(200);
    }

    async fn the_schema_is_published_and_default_agents_are_there_for_the_asking(db: TestDb) {
        let server = Server::start(&db).await;
        let reader = server.client(Some(&server.token(&[Scope::GraphRead], None).await));
        let schema = reader.get("/api/products/manifest.schema.json").await;
        assert_eq!((schema.status.as_u16(), &schema.body["title"]), (200, &json!("Emergent product manifest")), "no envelope");
        let admin = server.admin();
        let path = format!("/api/admin/projects/{}/install-default-agents", server.default_project);
        let first = admin.post(&path, json!({})).await;
        assert_eq!(first.is(200)["product"]["name"], "emergent.memory");
        assert_eq!(admin.post(&path, json!({})).await.is(200)["plan"]["steps"], json!([]));
        assert_eq!(admin.get("/api/admin/agents").await.is(200).as_array().unwrap().len(), 3);
    }
}

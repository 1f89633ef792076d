//! Projects, tokens, template packs, and the server's information about itself.

use crate::common;

use common::Server;
use emergent_domain::token::Scope;
use emergent_testkit::both_engines;
use serde_json::json;

both_engines! {
    async fn projects_are_apart_and_named_by_id_or_name(db: TestDb) {
        let server = Server::start(&db).await;
        let admin = server.admin();
        let made = admin.post("/api/projects", json!({ "name": "research" })).await;
        let id = made.is(201)["id"].as_str().unwrap().to_owned();
        admin.post("/api/projects", json!({ "name": "research" })).await.refused(409, "conflict");
        assert_eq!(admin.post("/api/projects", json!({ "name": "no spaces" })).await.field(), "name");

        let there = admin.in_project("research");
        let object = there.object("Task", "t", json!({})).await;
        admin.in_project(&id).get(&format!("/api/graph/objects/{object}")).await.is(200);
        admin.get(&format!("/api/graph/objects/{object}")).await.refused(404, "not_found");
        assert_eq!(admin.get("/api/graph/objects").await.is(200), &json!([]));
        admin.in_project("nowhere").get("/api/graph/objects").await.refused(404, "not_found");

        let renamed = admin.patch(&format!("/api/projects/{id}"), json!({ "name": "study" })).await;
        assert_eq!(renamed.is(200)["name"], "study");
        there.get("/api/graph/objects").await.refused(404, "not_found");
        admin.in_project("study").get("/api/graph/objects").await.is(200);
        admin.delete(&format!("/api/projects/{id}")).await.is(200);
        admin.in_project("study").get("/api/graph/objects").await.refused(404, "not_found");
        admin.get(&format!("/api/projects/{id}")).await.refused(404, "not_found");
        admin.delete(&format!("/api/projects/{}", server.default_project)).await.refused(409, "conflict");
    }

    async fn a_path_names_a_project_by_id_or_name(db: TestDb) {
        let server = Server::start(&db).await;
        let admin = server.admin();
        let id = admin.post("/api/projects", json!({ "name": "research" })).await.is(201)["id"].clone();
        assert_eq!(admin.get("/api/projects/research").await.is(200)["id"], id);
        let changed = admin.patch("/api/projects/research", json!({ "strict": true })).await;
        assert_eq!((&changed.is(200)["id"], &changed.is(200)["strict"]), (&id, &json!(true)));
        admin.post("/api/admin/projects/research/install-default-agents", json!({})).await.is(200);
        assert!(!admin.in_project("research").get("/api/products").await.is(200).as_array().unwrap().is_empty());
        admin.get("/api/projects/nowhere").await.refused(404, "not_found");
        for path in ["/api/projects/%00", "/api/projects/no%20spaces"] {
            admin.get(path).await.refused(400, "invalid");
        }
        // A token of another project does not learn which names there are.
        let bound = server.client(Some(&server.token(&[Scope::AdminRead, Scope::AdminWrite], Some(server.default_project)).await));
        assert_eq!(bound.get("/api/projects/default").await.is(200)["id"], json!(server.default_project));
        for path in ["/api/projects/research", "/api/projects/nowhere"] {
            bound.get(path).await.refused(404, "not_found");
            bound.patch(path, json!({ "strict": false })).await.refused(404, "not_found");
        }
        bound.post("/api/admin/projects/research/install-default-agents", json!({})).await.refused(404, "not_found");
        admin.delete("/api/projects/research").await.is(200);
        admin.get("/api/projects/research").await.refused(404, "not_found");
    }

    async fn a_project_says_how_long_it_keeps_what_is_over(db: TestDb) {
        let server = Server::start(&db).await;
        let admin = server.admin();
        let id = admin.post("/api/projects", json!({ "name": "research" })).await.is(201)["id"].as_str().unwrap().to_owned();
        let path = format!("/api/projects/{id}");
        let project = admin.get(&path).await;
        assert_eq!(project.is(200)["retention"], json!({ "runsDays": null, "eventsDays": null, "firingsDays": null }));
        assert_eq!(project.body["data"]["deleted"], json!({ "runs": 0, "events": 0, "firings": 0 }));
        admin.patch(&path, json!({ "retention": { "runsDays": 90, "firingsDays": 7 } })).await.is(200);
        let changed = admin.patch(&path, json!({ "strict": true, "retention": { "firingsDays": null } })).await;
        assert_eq!(changed.is(200)["retention"], json!({ "runsDays": 90, "eventsDays": null, "firingsDays": null }));
        for (wrong, field) in [(json!({ "runsDays": 0 }), "retention.runsDays"), (json!({ "eventsDays": 40_000 }), "retention.eventsDays")] {
            let refused = admin.patch(&path, json!({ "retention": wrong })).await;
            assert_eq!((refused.status.as_u16(), refused.field()), (400, field), "{}", refused.text);
        }
        admin.patch(&path, json!({ "retention": { "days": 1 } })).await.refused(400, "invalid");
        assert_eq!(admin.get(&path).await.is(200)["retention"]["runsDays"], 90, "nothing wrong was written");
    }

    async fn only_a_token_that_spans_projects_renames_them(db: TestDb) {
        let server = Server::start(&db).await;
        let admin = server.admin();
        let id = admin.post("/api/projects", json!({ "name": "research" })).await.is(201)["id"].as_str().unwrap().to_owned();
        admin.post("/api/projects", json!({ "name": "hidden" })).await.is(201);
        let made = admin.post("/api/tokens", json!({ "name": "own", "scopes": ["admin:read", "admin:write"], "project": "research" })).await;
        let own = server.client(Some(made.is(201)["token"].as_str().unwrap()));
        let path = format!("/api/projects/{id}");
        let taken = own.patch(&path, json!({ "name": "hidden" })).await;
        let free = own.patch(&path, json!({ "name": "never-used" })).await;
        taken.refused(403, "forbidden");
        assert_eq!(taken.body["error"]["message"], free.body["error"]["message"]);
        own.patch(&path, json!({ "strict": true, "retention": { "eventsDays": 30 } })).await.is(200);
        admin.patch(&path, json!({ "name": "hidden" })).await.refused(409, "conflict");
    }

    async fn a_token_is_shown_once_and_ends_when_it_is_revoked(db: TestDb) {
        let server = Server::start(&db).await;
        let admin = server.admin();
        let made = admin.post("/api/tokens", json!({ "name": "reader", "scopes": ["graph:read"], "project": "default" })).await;
        let (id, secret) = (made.is(201)["id"].as_str().unwrap().to_owned(), made.body["data"]["token"].as_str().unwrap().to_owned());
        let reader = server.client(Some(&secret));
        reader.get("/api/graph/objects").await.is(200);
        reader.post("/api/graph/objects", json!({ "type": "T" })).await.refused(403, "missing_scope");
        assert!(!admin.get("/api/tokens").await.text.contains(&secret));
        admin.delete(&format!("/api/tokens/{id}")).await.is(200);
        reader.get("/api/graph/objects").await.refused(401, "unauthorized");
        assert_eq!(admin.post("/api/tokens", json!({ "name": "x", "scopes": ["graph:fly"] })).await.field(), "scopes[0]");
        admin.post("/api/tokens", json!({ "name": "x", "scopes": [] })).await.refused(400, "invalid");
    }

    async fn a_pack_that_is_assigned_checks_what_is_written(db: TestDb) {
        let server = Server::start(&db).await;
        let client = server.admin();
        let listed = client.get("/api/template-packs").await;
        assert!(listed.is(200).as_array().unwrap().iter().any(|pack| pack["builtIn"] == true), "{}", listed.text);
        let pack = json!({
            "name": "recipes", "version": "1.0.0",
            "objectTypeSchemas": { "Recipe": { "type": "object", "required": ["title"], "properties": { "title": { "type": "string" } } } },
            "relationshipTypeSchemas": { "uses": { "from": "Recipe", "to": ["Recipe", "Thing"] } },
        });
        let made = client.post("/api/template-packs", pack.clone()).await;
        assert_eq!((&made.is(201)["assigned"], &made.body["data"]["builtIn"]), (&json!(false), &json!(false)));
        let path = format!("/api/template-packs/{}", made.body["data"]["id"].as_str().unwrap());
        client.post("/api/template-packs", pack).await.refused(409, "conflict");
        client.post("/api/graph/objects", json!({ "type": "Recipe" })).await.is(201);
        client.json("POST".parse().unwrap(), &format!("{path}/assign"), json!({})).await.is(200);
        let refused = client.post("/api/graph/objects", json!({ "type": "Recipe" })).await;
        refused.refused(400, "invalid");
        assert!(refused.field().starts_with("properties"), "{}", refused.text);
        client.delete(&path).await.refused(409, "conflict");
        assert_eq!(client.delete(&format!("{path}/assign")).await.is(200)["assigned"], false);
        client.delete(&path).await.is(200);
        client.get(&path).await.refused(404, "not_found");
        let nonsense = client.post("/api/template-packs", json!({ "name": "p", "version": "one" })).await;
        assert_eq!(nonsense.field(), "version");
    }

    async fn the_server_tells_about_itself(db: TestDb) {
        let server = Server::start(&db).await;
        let nobody = server.client(None);
        nobody.get("/health").await.is(200);
        nobody.get("/ready").await.is(200);
        let page = nobody.get("/api/docs").await;
        assert!(page.status.is_success() && page.text.contains("/api/graph/traverse"));
        let document = nobody.get("/api/openapi.json").await;
        assert_eq!(document.status, 200, "`GET /` names it: {}", document.text);
        assert_eq!(document.body["info"]["title"], "Emergent");
        server.admin().get("/api/graph/objects/x").await.refused(400, "invalid");
        let metrics = server.admin().get("/metrics").await;
        let line = r#"emergent_http_requests_total{route="/api/graph/objects/{id}",method="GET",status="400"} 1"#;
        assert!(metrics.text.contains(line), "{}", metrics.text);
        assert!(metrics.text.contains("emergent_embedding_queue "), "{}", metrics.text);
    }

    async fn too_many_at_once_are_asked_to_come_back(db: TestDb) {
        let server = Server::with_places(&db, 0).await;
        let answer = server.admin().get("/api/graph/objects").await;
        answer.refused(429, "overloaded");
        assert_eq!(answer.headers["retry-after"], "1");
        server.client(None).get("/health").await.is(200);
    }
}

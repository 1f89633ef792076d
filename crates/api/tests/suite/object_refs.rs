//! An object is named by its id or as `Type/key`, wherever a request names one.

use crate::common;

use common::Server;
use emergent_domain::token::Scope;
use emergent_testkit::both_engines;
use serde_json::json;

both_engines! {
    async fn an_object_is_named_by_type_and_key_wherever_its_id_is_accepted(db: TestDb) {
        let server = Server::start(&db).await;
        let client = server.admin();
        let a = client.object("Note", "a", json!({ "n": 1 })).await;
        let b = client.object("Note", "dir/b", json!({})).await;
        assert_eq!(client.get("/api/graph/objects/Note%2Fa").await.is(200)["id"], a.as_str());
        assert_eq!(client.get("/api/graph/objects/Note%2Fdir%2Fb").await.is(200)["id"], b.as_str());
        assert_eq!(client.patch("/api/graph/objects/Note%2Fa", json!({ "status": "x" })).await.is(200)["version"], 2);

        let edge = json!({ "type": "links", "fromId": "Note/a", "toId": "Note/dir/b" });
        assert_eq!(client.post("/api/graph/relationships", edge).await.is(201)["toId"], b.as_str());
        let bulk = json!({ "relationships": [
            { "type": "one", "fromId": "Note/nobody", "toId": b },
            { "type": "two", "fromId": "Note/a", "toId": b },
            { "type": "three", "fromId": a, "toId": "Note/gone" },
        ] });
        let results = client.post("/api/graph/relationships/bulk", bulk.clone()).await.is(200).clone();
        assert_eq!((&results[0]["error"]["code"], &results[1]["type"], &results[2]["error"]["code"]),
            (&json!("not_found"), &json!("two"), &json!("not_found")), "{results}");
        let mut atomic = bulk;
        atomic["atomic"] = json!(true);
        client.post("/api/graph/relationships/bulk", atomic).await.refused(404, "not_found");

        assert_eq!(client.get("/api/graph/objects/Note%2Fa/edges").await.is(200).as_array().unwrap().len(), 2);
        assert_eq!(client.get("/api/graph/relationships?fromId=Note/a&toId=Note%2Fdir/b").await.is(200).as_array().unwrap().len(), 2);
        let reached = client.post("/api/graph/traverse", json!({ "startIds": ["Note/a"] })).await.is(200).clone();
        assert_eq!(reached["nodes"].as_array().unwrap().len(), 2);
        let path = client.post("/api/graph/path", json!({ "fromId": "Note/a", "toId": "Note/dir/b" })).await.is(200).clone();
        assert_eq!(path["objects"].as_array().unwrap().len(), 2, "{path}");
        let subgraph = json!({
            "objects": [{ "ref": "c", "type": "Note", "key": "c", "properties": {} }],
            "relationships": [{ "type": "links", "fromRef": "c", "toId": "Note/a" }],
        });
        assert_eq!(client.post("/api/graph/subgraph", subgraph).await.is(201)["relationships"][0]["toId"], a.as_str());

        // A deleted object is found by its key where deleted objects are.
        client.delete("/api/graph/objects/Note%2Fa").await.is(200);
        client.get("/api/graph/objects/Note%2Fa").await.refused(404, "not_found");
        assert_eq!(client.get("/api/graph/objects/Note%2Fa/history").await.is(200).as_array().unwrap().len(), 3);
        let restore = client.request("POST".parse().unwrap(), "/api/graph/objects/Note%2Fa/restore");
        assert_eq!(client.send(restore.body(axum::body::Body::empty()).unwrap()).await.is(200)["id"], a.as_str());
    }

    async fn an_object_without_a_key_is_named_by_its_type_and_its_id(db: TestDb) {
        let server = Server::start(&db).await;
        let client = server.admin();
        let created = client.post("/api/graph/objects", json!({ "type": "Note", "properties": {} })).await.is(201).clone();
        let id = created["id"].as_str().unwrap();
        let named = format!("Note%2F{id}");
        assert_eq!(client.get(&format!("/api/graph/objects/{named}")).await.is(200)["id"], id);
        let changed = client.patch(&format!("/api/graph/objects/{named}"), json!({ "status": "x" })).await;
        assert_eq!(changed.is(200)["version"], 2);
        let start = json!({ "startIds": [format!("Note/{id}")] });
        assert_eq!(client.post("/api/graph/traverse", start).await.is(200)["nodes"][0]["id"], id);
        // The type counts, and a key that looks like an id comes first.
        client.get(&format!("/api/graph/objects/Task%2F{id}")).await.refused(404, "not_found");
        let keyed = client.object("Note", id, json!({})).await;
        assert_eq!(client.get(&format!("/api/graph/objects/{named}")).await.is(200)["id"], keyed.as_str());
        client.delete(&format!("/api/graph/objects/{keyed}")).await.is(200);
        client.delete(&format!("/api/graph/objects/{named}")).await.is(200);
        client.get(&format!("/api/graph/objects/{named}")).await.refused(404, "not_found");
        // It is an object of its own project only.
        let other = server.project("other").await;
        let theirs = client.in_project(other).post("/api/graph/objects", json!({ "type": "Note", "properties": {} })).await;
        let theirs = theirs.is(201)["id"].as_str().unwrap().to_owned();
        client.get(&format!("/api/graph/objects/Note%2F{theirs}")).await.refused(404, "not_found");
    }

    async fn a_list_leaves_out_what_the_server_writes_about_its_work_on_request(db: TestDb) {
        let server = Server::start(&db).await;
        let client = server.admin();
        let note = client.object("Note", "a", json!({})).await;
        let task = client.object("SpecTask", "t", json!({ "title": "T" })).await;
        let listed = async |query: &str| {
            let list = client.get(&format!("/api/graph/objects?{query}")).await.is(200).clone();
            let ids = list.as_array().unwrap().iter().map(|object| object["id"].as_str().unwrap().to_owned());
            ids.collect::<Vec<_>>()
        };
        assert_eq!(listed("").await, [task.clone(), note.clone()]);
        assert_eq!(listed("includeSystem=true").await, [task.clone(), note.clone()]);
        assert_eq!(listed("includeSystem=false").await, std::slice::from_ref(&note));
        assert_eq!(listed("includeSystem=false&asOf=2126-01-01T00:00:00Z").await, std::slice::from_ref(&note));
        assert_eq!(listed("includeSystem=false&type=SpecTask").await, std::slice::from_ref(&task), "a type that is named");
        client.get("/api/graph/objects?includeSystem=perhaps").await.refused(400, "invalid");
    }

    async fn a_misspelt_project_is_suggested_to_those_who_may_list_projects(db: TestDb) {
        let server = Server::start(&db).await;
        server.project("research").await;
        let asked = async |token: Option<String>| {
            let client = server.client(token.as_deref());
            let request = client.request("GET".parse().unwrap(), "/api/graph/objects").header("x-project-id", "reserch");
            let refused = client.send(request.body(axum::body::Body::empty()).unwrap()).await;
            refused.refused(404, "not_found")["message"].as_str().unwrap().to_owned()
        };
        let wide = server.token(&[Scope::GraphRead, Scope::AdminRead], None).await;
        assert_eq!(asked(Some(wide)).await, "there is no project `reserch` here; did you mean `research`?");
        let reader = server.token(&[Scope::GraphRead], None).await;
        assert_eq!(asked(Some(reader)).await, "there is no project `reserch` here");
        let default = server.default_project;
        let bound = server.token(&[Scope::GraphRead, Scope::AdminRead], Some(default)).await;
        assert_eq!(asked(Some(bound)).await, "there is no project `reserch` here");
    }

    async fn a_token_without_the_graph_does_not_learn_which_keys_exist(db: TestDb) {
        let server = Server::start(&db).await;
        server.admin().object("Note", "secret-plan", json!({})).await;
        let token = server.token(&[Scope::AgentsRead, Scope::AgentsWrite, Scope::AgentsInvoke], None).await;
        let agents = server.client(Some(&token));
        for key in ["Note%2Fsecret-plan", "Note%2Fnobody"] {
            for path in [format!("/api/coordination/tasks/{key}/retry"), format!("/api/coordination/tasks/{key}/skip")] {
                agents.post(&path, json!({})).await.refused(403, "missing_scope");
            }
            for path in [format!("/api/coordination/discussions/{key}"), format!("/api/coordination/tasks/{key}")] {
                agents.get(&path).await.refused(403, "missing_scope");
            }
        }
        let unknown = format!("/api/coordination/tasks/{}/retry", uuid::Uuid::now_v7());
        agents.post(&unknown, json!({})).await.refused(404, "not_found");
    }

    async fn what_is_neither_an_id_nor_type_and_key_is_refused_by_field(db: TestDb) {
        let server = Server::start(&db).await;
        let client = server.admin();
        let refused = client.get("/api/graph/objects/nobody").await;
        refused.refused(400, "invalid");
        assert_eq!(refused.field(), "id");
        let refused = client.post("/api/graph/relationships", json!({ "type": "t", "fromId": "x", "toId": "Note/a" })).await;
        refused.refused(400, "invalid");
        assert_eq!(refused.field(), "fromId");
        let missing = client.get("/api/graph/objects/Note%2Fnobody").await;
        assert!(missing.refused(404, "not_found")["message"].as_str().unwrap().contains("Note/nobody"));
        // A key of another project is not found.
        let other = server.project("other").await;
        client.in_project(other).object("Note", "theirs", json!({})).await;
        client.get("/api/graph/objects/Note%2Ftheirs").await.refused(404, "not_found");
    }
}

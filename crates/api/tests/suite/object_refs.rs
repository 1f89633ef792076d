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

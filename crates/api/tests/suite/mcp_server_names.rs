//! The name of an external MCP server stands for its id.

use crate::common::Server;

use emergent_testkit::both_engines;
use serde_json::json;

const PATH: &str = "/api/admin/mcp-servers";

both_engines! {
    async fn a_server_is_read_changed_and_deleted_by_its_name(db: TestDb) {
        let server = Server::start(&db).await;
        let client = server.admin();
        let made = client.post(PATH, json!({ "name": "files", "transport": "http", "url": "https://mcp.example.com/mcp" })).await.is(201).clone();
        let by_name = format!("{PATH}/files");
        assert_eq!(client.get(&by_name).await.is(200)["id"], made["id"]);
        assert_eq!(client.get(&format!("{by_name}/tools")).await.is(200), &json!([]));
        let changed = client.patch(&by_name, json!({ "trust": true })).await.is(200).clone();
        assert_eq!((&changed["id"], &changed["trust"]), (&made["id"], &json!(true)));
        assert_eq!(client.get(&format!("{PATH}/{}", made["id"].as_str().unwrap())).await.is(200)["name"], "files");
        // A name belongs to its project, and nonsense is the name of nothing.
        client.in_project(server.project("other").await).get(&by_name).await.refused(404, "not_found");
        for name in ["nobody", "a%00b", "%20"] {
            client.get(&format!("{PATH}/{name}")).await.refused(404, "not_found");
        }
        assert_eq!(client.delete(&by_name).await.is(200)["id"], made["id"]);
        client.get(&by_name).await.refused(404, "not_found");
    }
}

//! The numbers of objects and relationships by type.

use crate::common::Server;

use emergent_domain::token::Scope;
use emergent_testkit::both_engines;
use serde_json::json;

both_engines! {
    async fn the_types_of_a_project_are_counted_without_what_was_deleted(db: TestDb) {
        let server = Server::start(&db).await;
        let client = server.admin();
        assert_eq!(client.get("/api/graph/types").await.is(200), &json!({ "objects": [], "relationships": [], "objectCount": 0, "relationshipCount": 0 }));
        let ada = client.object("Person", "ada", json!({})).await;
        let bob = client.object("Person", "bob", json!({})).await;
        let letter = client.object("Letter", "one", json!({})).await;
        let gone = client.object("Letter", "two", json!({})).await;
        client.edge("wrote", &ada, &letter).await;
        client.edge("knows", &ada, &bob).await;
        client.edge("wrote", &ada, &gone).await;
        client.delete(&format!("/api/graph/objects/{gone}")).await.is(200);
        client.in_project(server.project("other").await).object("Person", "eve", json!({})).await;
        assert_eq!(client.get("/api/graph/types").await.is(200), &json!({
            "objects": [{ "type": "Person", "count": 2 }, { "type": "Letter", "count": 1 }],
            "relationships": [{ "type": "knows", "count": 1 }, { "type": "wrote", "count": 1 }],
            "objectCount": 3,
            "relationshipCount": 2,
        }));
        let other = server.client(Some(&server.token(&[Scope::AdminRead], None).await));
        other.get("/api/graph/types").await.refused(403, "missing_scope");
    }
}

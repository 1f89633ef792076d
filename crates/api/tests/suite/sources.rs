//! Sources are shown when a single object or relationship is read.

use crate::common;

use common::Server;
use emergent_domain::{
    author::Author,
    cursor::Page,
    document::NewDocument,
    ids::{ObjectId, RelationshipId},
};
use emergent_graph::{Actor, Error, sources};
use emergent_store::Tx;
use emergent_testkit::both_engines;
use serde_json::{Map, Value, json};

/// Creates a document; its first chunk is a source of an object and of a relationship.
async fn document(server: &Server, object: ObjectId, edge: RelationshipId) -> (Value, Value) {
    let (graph, actor) = (&server.graph, Actor { project: server.default_project, author: Author::System });
    let new = NewDocument {
        title: "Letters".into(),
        content: b"# Friends\n\nAda knows Bob.".to_vec(),
        mime_type: Some("text/markdown".into()),
        source_url: None,
        metadata: Map::new(),
    };
    let (document, _) = graph.create_document(actor, new).await.unwrap();
    let chunks = graph.document_chunks(actor.project, document.id, Page::first(1)).await.unwrap();
    let (chunk, inner) = (chunks.items[0].id, graph.clone());
    let note = move |tx: &mut Tx<'_>| -> Result<(), Error> {
        let writer = inner.write_context(tx, actor)?;
        let source = sources::find(tx, actor.project, chunk)?;
        sources::add_to_object(tx, &writer, object, &source)?;
        sources::add_to_relationship(tx, &writer, edge, &source)?;
        Ok(())
    };
    graph.db().write(note).await.unwrap();
    (json!(document.id), json!(chunk))
}

both_engines! {
    async fn a_relationship_shows_its_passages_as_an_object_does(db: TestDb) {
        let server = Server::start(&db).await;
        let client = server.admin();
        let (ada, bob) = (client.object("Person", "ada", json!({})).await, client.object("Person", "bob", json!({})).await);
        let (knows, likes) = (client.edge("knows", &ada, &bob).await, client.edge("likes", &ada, &bob).await);
        let (document, chunk) = document(&server, ada.parse().unwrap(), knows.parse().unwrap()).await;
        let expected = json!([{ "chunkId": chunk, "documentId": document, "title": "Letters", "index": 0, "heading": "Friends" }]);
        let path = format!("/api/graph/relationships/{knows}");
        let edge = client.get(&path).await.is(200).clone();
        assert_eq!((&edge["id"], &edge["type"], &edge["fromId"]), (&json!(knows), &json!("knows"), &json!(ada)));
        assert_eq!(edge["sources"], expected, "{edge}");
        assert_eq!(client.get(&format!("/api/graph/objects/{ada}")).await.is(200)["sources"], expected);
        // Sources are included only if there are any, and only for a single entity.
        assert_eq!(client.get(&format!("/api/graph/relationships/{likes}")).await.is(200).get("sources"), None);
        assert_eq!(client.get("/api/graph/relationships?type=knows").await.is(200)[0].get("sources"), None);

        let other = client.in_project(server.project("other").await);
        other.get(&path).await.refused(404, "not_found");
        client.delete(&path).await.is(200);
        client.get(&path).await.refused(404, "not_found");
    }

    async fn a_relationship_that_ended_is_read_at_an_earlier_time_with_the_passages_known_then(db: TestDb) {
        let server = Server::start(&db).await;
        let client = server.admin();
        let (ada, bob) = (client.object("Person", "ada", json!({})).await, client.object("Person", "bob", json!({})).await);
        let knows = client.edge("knows", &ada, &bob).await;
        document(&server, ada.parse().unwrap(), knows.parse().unwrap()).await;
        let path = format!("/api/graph/relationships/{knows}");
        let edge = client.get(&path).await.is(200).clone();
        // Anything that is written after the source says a time at which it was known.
        let marker = client.object("Marker", "marker", json!({})).await;
        let marker = client.get(&format!("/api/graph/objects/{marker}")).await.is(200)["createdAt"].clone();
        let then = format!("{path}?asOf={}", marker.as_str().unwrap().replace('+', "%2B"));
        client.delete(&path).await.is(200);
        client.get(&path).await.refused(404, "not_found");
        let earlier = client.get(&then).await.is(200).clone();
        assert_eq!(earlier, edge, "as it was, with its passage");
        assert_eq!(earlier["sources"][0]["title"], "Letters");
        client.get(&format!("{path}?asOf=2001-01-01T00:00:00Z")).await.refused(404, "not_found");
        client.get(&format!("{path}?asOf=yesterday")).await.refused(400, "invalid");
        let other = client.in_project(server.project("other").await);
        other.get(&then).await.refused(404, "not_found");
        // At a time at which its ends were live, it is found, also if one of them is deleted since.
        client.delete(&format!("/api/graph/objects/{bob}")).await.is(200);
        assert_eq!(*client.get(&then).await.is(200), edge);
    }
}

//! The objects that were found in a document.

use crate::common::{Client, Server};

use emergent_testkit::{
    both_engines,
    scripted::{ScriptedModel, calls, says},
};
use serde_json::{Value, json};

/// Creates a document, and returns its id and its chunks.
async fn document(client: &Client, title: &str, paragraphs: usize) -> (String, Vec<String>) {
    let text: Vec<String> = (0..paragraphs)
        .map(|n| format!("# Part {n}\n\n{}", format!("Sentence {n} of {title}. ").repeat(120)))
        .collect();
    let body = json!({ "title": title, "content": text.join("\n\n"), "mimeType": "text/markdown" });
    let id = client.post("/api/documents", body).await.is(201)["id"].as_str().unwrap().to_owned();
    let chunks = client.get(&format!("/api/documents/{id}/chunks")).await.is(200).clone();
    let chunks =
        chunks.as_array().unwrap().iter().map(|chunk| chunk["id"].as_str().unwrap().to_owned()).collect();
    (id, chunks)
}

fn entity(key: &str, chunk: &str) -> Value {
    json!({ "type": "Person", "key": key, "properties": {}, "source": { "chunkId": chunk } })
}

/// The keys of a page, each with the places of its chunks.
fn keys(page: &Value) -> Vec<(String, Vec<i64>)> {
    let indexes = |one: &Value| {
        one["foundIn"].as_array().unwrap().iter().map(|found| found["index"].as_i64().unwrap()).collect()
    };
    page.as_array()
        .unwrap()
        .iter()
        .map(|one| (one["object"]["key"].as_str().unwrap().to_owned(), indexes(one)))
        .collect()
}

both_engines! {
    async fn a_document_lists_the_objects_that_were_found_in_it(db: TestDb) {
        let setup = Server::start(&db).await;
        let (letters, chunks) = document(&setup.admin(), "Letters", 3).await;
        let (other, other_chunks) = document(&setup.admin(), "Diary", 1).await;
        assert!(chunks.len() >= 2, "{chunks:?}");
        let create = |entities: Value| calls("entities_create", json!({ "objects": entities, "merge": true }));
        let model = ScriptedModel::new([
            create(json!([entity("ada", &chunks[0]), entity("bob", &chunks[1])])),
            create(json!([entity("ada", &chunks[1]), entity("eve", &other_chunks[0])])),
            says("Done."),
        ]);
        let server = Server::with_models(&db, 1_024, model.models()).await;
        let _runner = server.drive();
        let client = setup.admin().at(&server);
        let agent = client.agent("extractor", json!({ "tools": ["entities_create"] })).await;
        let run = client.run_to_end(&agent, "extract").await;
        assert_eq!(run["status"], "completed", "{run:#}");

        let path = format!("/api/documents/{letters}/objects");
        let page = client.get(&path).await.is(200).clone();
        let mut found = keys(&page);
        found.sort();
        assert_eq!(found, [("ada".to_owned(), vec![0, 1]), ("bob".to_owned(), vec![1])], "{page:#}");
        let first = &page[0]["foundIn"][0];
        assert_eq!(first["runId"], run["id"]);
        assert!(first["toolCallId"].is_string() && chunks.contains(&first["chunkId"].as_str().unwrap().to_owned()));
        // One chunk alone, and another document.
        let of_chunk = client.get(&format!("{path}?chunkId={}", chunks[0])).await;
        assert_eq!(keys(of_chunk.is(200)), [("ada".to_owned(), vec![0])]);
        assert_eq!(keys(client.get(&format!("/api/documents/{other}/objects")).await.is(200)), [("eve".to_owned(), vec![0])]);
        // Pages have each object once.
        let start = client.get(&format!("{path}?limit=1")).await;
        let cursor = start.headers["x-next-cursor"].to_str().unwrap();
        let rest = client.get(&format!("{path}?limit=1&cursor={cursor}")).await;
        assert!(rest.headers.get("x-next-cursor").is_none());
        assert_eq!([start.is(200)[0].clone(), rest.is(200)[0].clone()].as_slice(), page.as_array().unwrap().as_slice());
        // A deleted object is not listed; a deleted document has no list.
        let ada = page.as_array().unwrap().iter().find(|one| one["object"]["key"] == "ada").unwrap()["object"]["id"].as_str().unwrap().to_owned();
        client.delete(&format!("/api/graph/objects/{ada}")).await.is(200);
        assert_eq!(keys(client.get(&path).await.is(200)), [("bob".to_owned(), vec![1])]);
        client.in_project(server.project("elsewhere").await).get(&path).await.refused(404, "not_found");
        client.delete(&format!("/api/documents/{letters}")).await.is(200);
        client.get(&path).await.refused(404, "not_found");
    }
}

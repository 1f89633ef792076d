//! A page of the database is damaged: what it has is refused with the reason, everything else is served, and no backup is
//! made of it. PostgreSQL has its own checks of its pages.

use std::path::Path;

use reqwest::Method;
use serde_json::{Value, json};

use crate::common::{Api, Home, Server, failed};

const PAGE_BYTES: usize = 8_192;
const TEXT: &str = "a text on the page that will be damaged";

async fn create(api: &Api, text: &str) -> String {
    let object = json!({ "type": "Note", "properties": { "text": text } });
    api.post("/api/graph/objects", &object).await.data()["id"].as_str().expect("an id").to_owned()
}

/// Overwrites every page of a database that has this text.
fn damage_pages(database: &Path, text: &str) {
    let conn = rusqlite::Connection::open(database).unwrap();
    let busy: i64 = conn.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get(0)).unwrap();
    let page_bytes: i64 = conn.query_row("PRAGMA page_size", [], |row| row.get(0)).unwrap();
    assert_eq!((busy, page_bytes), (0, PAGE_BYTES as i64), "everything is in the file");
    drop(conn);
    let mut bytes = std::fs::read(database).unwrap();
    let mut damaged = 0;
    // The first page has the schema.
    for page in bytes.chunks_mut(PAGE_BYTES).skip(1) {
        if page.windows(text.len()).any(|window| window == text.as_bytes()) {
            page.fill(0xA5);
            damaged += 1;
        }
    }
    assert!(damaged > 0, "the text is in the database");
    std::fs::write(database, bytes).unwrap();
}

async fn status(server: &Server, path: &str) -> (u16, Value) {
    let answer = server.api.request(Method::GET, path).send().await.expect("an answer");
    let status = answer.status().as_u16();
    (status, answer.json().await.unwrap_or_default())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_damaged_page_is_told_as_such_and_the_rest_is_served() {
    let home = Home::sqlite().with("EMERGENT_EMBEDDINGS", "off");
    let mut server = home.start().await;
    let damaged = create(&server.api, TEXT).await;
    // Another object that is read later is on another page.
    let filler = json!({ "type": "Filler", "properties": { "text": "x".repeat(2_000) } });
    server.api.post("/api/graph/objects/bulk", &json!({ "objects": vec![filler; 100] })).await.data();
    let sound = create(&server.api, "a text on another page").await;
    server.launched.signal("TERM");
    server.launched.ended();
    damage_pages(&home.data().join("emergent.db"), TEXT);

    let server = home.start().await;
    let object = |id: &str| format!("/api/graph/objects/{id}");
    let (refused, body) = status(&server, &object(&damaged)).await;
    assert_eq!((refused, &body["error"]["code"]), (503, &json!("storage_corrupt")), "{body}");
    let (not_ready, body) = status(&server, "/ready").await;
    assert_eq!((not_ready, &body["error"]["code"]), (503, &json!("storage_corrupt")), "{body}");
    let log = server.launched.log();
    assert!(log.contains("emergent.db` is damaged: stop the server and restore a backup"), "{log}");
    assert_eq!(status(&server, &object(&sound)).await.0, 200, "other pages are read");
    create(&server.api, "a text of a later object").await;

    let copy = home.folder().join("copy.db");
    let told = failed(&home.run(&["backup", copy.to_str().unwrap()]));
    assert!(told.contains("emergent.db` cannot be used") && !copy.exists(), "{told}");
}

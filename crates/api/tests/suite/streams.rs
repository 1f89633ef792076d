//! Documents, import and export, and the change feed.

use crate::common;

use std::{convert::Infallible, time::Duration};

use axum::{body::Body, http::Method, http::header};
use common::{Client, Server};
use emergent_domain::token::Scope;
use emergent_testkit::both_engines;
use futures_util::{StreamExt, stream};
use serde_json::{Value, json};

fn form(parts: &[(&str, &str)]) -> String {
    let mut body = String::new();
    for (disposition, content) in parts {
        body.push_str(&format!(
            "--edge\r\nContent-Disposition: form-data; {disposition}\r\n\r\n{content}\r\n"
        ));
    }
    body + "--edge--\r\n"
}

const FORM: &str = "multipart/form-data; boundary=edge";

async fn import(client: &Client, query: &str, lines: &str) -> Vec<Value> {
    let answer = client
        .raw(Method::POST, &format!("/api/graph/import{query}"), "application/x-ndjson", lines.to_owned())
        .await;
    assert_eq!(answer.status, 200, "{}", answer.text);
    assert_eq!(answer.headers[header::CONTENT_TYPE], "application/x-ndjson");
    answer.text.lines().map(|line| serde_json::from_str(line).expect("a line of JSON")).collect()
}

/// A stream of frames, each with its `id:` and its JSON.
pub(crate) struct Frames {
    body: axum::body::BodyDataStream,
    rest: String,
}

impl Frames {
    pub(crate) async fn open(client: &Client, path: &str, last_seen: Option<&str>) -> Self {
        let mut request = client.request(Method::GET, path);
        if let Some(seen) = last_seen {
            request = request.header("last-event-id", seen);
        }
        Self::from_request(client, request).await
    }

    pub(crate) async fn from_request(client: &Client, request: axum::http::request::Builder) -> Self {
        Self::from_response(client.open(request.body(Body::empty()).unwrap()).await)
    }

    pub(crate) fn from_response(response: axum::response::Response) -> Self {
        assert_eq!(response.status(), 200);
        assert_eq!(response.headers()[header::CONTENT_TYPE], "text/event-stream");
        Self { body: response.into_body().into_data_stream(), rest: String::new() }
    }

    pub(crate) async fn next(&mut self) -> Option<(String, Value)> {
        loop {
            if let Some((frame, rest)) =
                self.rest.split_once("\n\n").map(|(frame, rest)| (frame.to_owned(), rest.to_owned()))
            {
                self.rest = rest;
                if frame.starts_with(':') {
                    continue;
                }
                let field = |name: &str| {
                    frame
                        .lines()
                        .find_map(|line| line.strip_prefix(name))
                        .unwrap_or_default()
                        .trim()
                        .to_owned()
                };
                assert!(!frame.contains("event:"), "frames are data only: {frame}");
                return Some((field("id:"), serde_json::from_str(&field("data:")).expect("JSON")));
            }
            let part = tokio::time::timeout(Duration::from_secs(10), self.body.next())
                .await
                .expect("a frame in time")?;
            self.rest.push_str(std::str::from_utf8(&part.unwrap()).unwrap());
        }
    }
}

both_engines! {
    async fn streams_of_a_deleted_project_end_whoever_follows_them(db: TestDb) {
        let server = Server::start(&db).await;
        let admin = server.admin();
        let id = admin.post("/api/projects", json!({ "name": "doomed" })).await.is(201)["id"].as_str().unwrap().to_owned();
        let made = admin.post("/api/tokens", json!({ "name": "own", "scopes": ["graph:read"], "project": "doomed" })).await;
        let own = server.client(Some(made.is(201)["token"].as_str().unwrap()));
        let operator = admin.in_project("doomed");
        let mut streams = Vec::new();
        for client in [&own, &operator, &admin] {
            let mut frames = Frames::open(client, "/api/graph/changes", None).await;
            assert_eq!(frames.next().await.unwrap().1["type"], "ready");
            streams.push(frames);
        }
        admin.delete(&format!("/api/projects/{id}")).await.is(200);
        for frames in &mut streams[..2] {
            assert!(frames.next().await.is_none(), "the stream ends");
        }
        admin.object("Note", "n", json!({})).await;
        assert_eq!(streams[2].next().await.unwrap().1["type"], "object_created", "other projects go on");
    }

    async fn a_document_comes_as_text_or_as_a_file_and_only_once(db: TestDb) {
        let server = Server::start(&db).await;
        let client = server.admin();
        let body = json!({ "title": "Notes", "content": "# Tags\n\nTagging patterns are useful.", "mimeType": "text/markdown", "sourceUrl": "https://example.org/n", "metadata": { "by": "ada" } });
        let made = client.post("/api/documents", body.clone()).await;
        let id = made.is(201)["id"].as_str().unwrap().to_owned();
        assert_eq!((&made.body["data"]["mimeType"], &made.body["data"]["metadata"]), (&json!("text/markdown"), &json!({ "by": "ada" })));
        assert_eq!(client.post("/api/documents", body).await.is(200)["id"], id.as_str(), "the same content is the same document");

        let parts = form(&[("name=\"file\"; filename=\"plain.txt\"", "A plain file about gardens."), ("name=\"metadata\"", "{\"k\":1}")]);
        let file = client.raw(Method::POST, "/api/documents", FORM, parts).await;
        assert_eq!((&file.is(201)["title"], &file.body["data"]["metadata"]), (&json!("plain.txt"), &json!({ "k": 1 })));

        let whole = client.get(&format!("/api/documents/{id}?text=true")).await;
        assert!(whole.is(200)["text"].as_str().unwrap().contains("Tagging patterns"), "{}", whole.text);
        assert_eq!(client.get(&format!("/api/documents/{id}")).await.is(200).get("text"), None);
        let chunks = client.get(&format!("/api/documents/{id}/chunks")).await;
        assert_eq!(chunks.is(200)[0]["index"], 0);
        let found = client.post("/api/documents/search", json!({ "query": "garden", "mode": "text" })).await;
        assert_eq!(found.is(200)["hits"][0]["chunk"]["documentId"], file.body["data"]["id"]);
        assert_eq!(client.get("/api/documents").await.is(200).as_array().unwrap().len(), 2);
        client.delete(&format!("/api/documents/{id}")).await.is(200);
        client.get(&format!("/api/documents/{id}")).await.refused(404, "not_found");
    }

    async fn a_form_that_is_wrong_is_told_what_it_lacks(db: TestDb) {
        let server = Server::start(&db).await;
        let client = server.admin();
        let check = async |content_type: &str, body: String, field: &str| {
            let answer = client.raw(Method::POST, "/api/documents", content_type, body).await;
            assert_eq!((answer.status.as_u16(), answer.field()), (400, field), "{}", answer.text);
        };
        check(FORM, form(&[("name=\"title\"", "t")]), "file").await;
        check(FORM, form(&[("name=\"file\"", "text")]), "title").await;
        let file = ("name=\"file\"; filename=\"a.txt\"", "text");
        check(FORM, form(&[file, ("name=\"title\"", "t"), file]), "file").await;
        check(FORM, form(&[("name=\"file\"; filename=\"a.txt\"", "text"), ("name=\"colour\"", "red")]), "colour").await;
        check(FORM, form(&[("name=\"file\"; filename=\"a.txt\"", "text"), ("name=\"metadata\"", "[]")]), "metadata").await;
        check(FORM, "nonsense".to_owned(), "").await;
        check("multipart/form-data", form(&[]), "").await;
        assert_eq!(client.get("/api/documents").await.is(200), &json!([]));
    }

    async fn what_is_exported_is_imported_as_it_was(db: TestDb) {
        let server = Server::start(&db).await;
        let admin = server.admin();
        let (a, b) = (admin.object("Person", "ada", json!({ "name": "Ada", "deep": { "x": [1, null] } })).await, admin.object("Person", "bob", json!({})).await);
        admin.post("/api/graph/relationships", json!({ "type": "knows", "fromId": a, "toId": b, "weight": 0.5, "properties": { "since": 1840 } })).await.is(201);
        let exported = admin.get("/api/graph/export").await;
        assert_eq!(exported.headers[header::CONTENT_TYPE], "application/x-ndjson");
        assert_eq!(exported.text.lines().count(), 3, "{}", exported.text);

        server.project("copy").await;
        let copy = admin.in_project("copy");
        let told = import(&copy, "", &exported.text).await;
        let last = told.last().unwrap();
        assert_eq!((&last["done"], &last["objects"]["created"], &last["relationships"]["created"]), (&json!(true), &json!(2), &json!(1)), "{last}");
        let again = import(&copy, "", &exported.text).await;
        assert_eq!(again.last().unwrap()["objects"]["unchanged"], 2, "importing again changes nothing");
        let people = copy.get("/api/graph/objects?key=ada").await;
        assert_eq!(people.is(200)[0]["properties"], json!({ "name": "Ada", "deep": { "x": [1, null] } }));
        assert_eq!(copy.get("/api/graph/relationships").await.is(200)[0]["weight"], 0.5);
    }

    async fn wrong_lines_stop_an_import_or_are_left_out(db: TestDb) {
        let server = Server::start(&db).await;
        let client = server.admin();
        let lines = "{\"kind\":\"object\",\"type\":\"T\",\"key\":\"a\"}\nnonsense\n{\"kind\":\"object\",\"type\":\"T\",\"key\":\"b\"}\n";
        let stopped = import(&client, "", lines).await;
        let last = stopped.last().unwrap();
        assert_eq!((&last["stopped"], &last["errors"][0]["line"]), (&json!(true), &json!(2)), "{last}");
        assert_eq!(client.get("/api/graph/objects").await.is(200), &json!([]));
        let skipped = import(&client, "?onError=skip", lines).await;
        let last = skipped.last().unwrap();
        assert_eq!((&last["done"], &last["failed"], &last["objects"]["created"]), (&json!(true), &json!(1), &json!(2)), "{last}");
        client.raw(Method::POST, "/api/graph/import", "application/json", "{}").await.refused(415, "unsupported_media_type");
        let how = client.raw(Method::POST, "/api/graph/import?onError=explode", "application/x-ndjson", "").await;
        assert_eq!((how.status.as_u16(), how.field()), (400, "onError"));
    }

    async fn the_feed_goes_on_where_a_client_left_it(db: TestDb) {
        let server = Server::start(&db).await;
        let client = server.admin();
        let reader = server.client(Some(&server.token(&[Scope::GraphRead], Some(server.default_project)).await));
        let before = client.object("Task", "before", json!({})).await;

        let mut live = Frames::open(&reader, "/api/graph/changes", None).await;
        assert_eq!(live.next().await.unwrap().1["type"], "ready");
        let first = client.object("Task", "first", json!({})).await;
        let (mut id, mut change) = live.next().await.unwrap();
        // PostgreSQL shows a change only after all older transactions have ended, so this one may still
        // arrive.
        if change["entityId"] == before.as_str() {
            (id, change) = live.next().await.unwrap();
        }
        assert_eq!((&change["type"], &change["entityId"]), (&json!("object_created"), &json!(first)));
        assert_eq!(change["position"], id.as_str());
        drop(live);

        // The client is disconnected while two changes happen, one of them in another project.
        client.delete(&format!("/api/graph/objects/{first}")).await.is(200);
        server.project("elsewhere").await;
        client.in_project("elsewhere").object("Task", "x", json!({})).await;
        let mut again = Frames::open(&reader, "/api/graph/changes?after=0-0", Some(&id)).await;
        assert_eq!(again.next().await.unwrap().1["position"], id.as_str());
        assert_eq!(again.next().await.unwrap().1["type"], "object_deleted");
        let last = client.object("Task", "last", json!({})).await;
        assert_eq!(again.next().await.unwrap().1["entityId"], last.as_str());

        let mut all = Frames::open(&reader, "/api/graph/changes?after=0-0", None).await;
        assert_eq!(all.next().await.unwrap().1["type"], "ready");
        assert_eq!(all.next().await.unwrap().1["entityId"], before.as_str());
        // A server that closes also closes its streams.
        server.app.close();
        while all.next().await.is_some() {}
    }

    async fn a_stream_ends_with_its_token(db: TestDb) {
        let server = Server::start(&db).await;
        let body = json!({ "name": "reader", "scopes": ["graph:read"], "project": "default" });
        let answer = server.admin().post("/api/tokens", body).await;
        let made = answer.is(201);
        let reader = server.client(Some(made["token"].as_str().unwrap()));
        let mut live = Frames::open(&reader, "/api/graph/changes", None).await;
        assert_eq!(live.next().await.unwrap().1["type"], "ready");
        server.admin().delete(&format!("/api/tokens/{}", made["id"].as_str().unwrap())).await.is(200);
        assert!(live.next().await.is_none(), "nothing comes after the token was revoked");
    }

    async fn an_import_ends_with_its_token_and_keeps_what_it_wrote(db: TestDb) {
        let server = Server::start(&db).await;
        let body = json!({ "name": "writer", "scopes": ["graph:write"], "project": "default" });
        let made = server.admin().post("/api/tokens", body).await.is(201).clone();
        let writer = server.client(Some(made["token"].as_str().unwrap()));
        let (lines, sent) = tokio::sync::mpsc::unbounded_channel::<String>();
        let sent = stream::unfold(sent, async |mut sent| Some((Ok::<_, Infallible>(sent.recv().await?), sent)));
        // Exactly one batch.
        let batch = |name: &str| (0..2_000).map(|n| format!("{{\"kind\":\"object\",\"type\":\"T\",\"key\":\"{name}{n}\"}}\n")).collect::<String>();
        let request = writer.request(Method::POST, "/api/graph/import").header(header::CONTENT_TYPE, "application/x-ndjson");
        let response = writer.open(request.body(Body::from_stream(sent)).unwrap()).await;
        let mut told = response.into_body().into_data_stream();
        let mut next = async || -> Value {
            let line = tokio::time::timeout(Duration::from_secs(20), told.next()).await.expect("a line in time");
            serde_json::from_slice(&line.expect("another line").unwrap()).expect("JSON")
        };
        lines.send(batch("a")).unwrap();
        lines.send(batch("b")).unwrap();
        assert_eq!(next().await["objects"]["created"], 2_000);
        // The second batch is being written; the token is revoked after it.
        while server.admin().get("/api/graph/objects?key=b1999").await.is(200) == &json!([]) {}
        server.admin().delete(&format!("/api/tokens/{}", made["id"].as_str().unwrap())).await.is(200);
        lines.send(batch("c")).unwrap();
        drop(lines);
        assert_eq!(next().await["objects"]["created"], 4_000);
        let last = next().await;
        assert_eq!((&last["done"], &last["error"]["code"]), (&json!(true), &json!("unauthorized")), "{last}");
        assert!(last["error"]["message"].as_str().unwrap().contains("revoked"), "{last}");
        assert_eq!(server.admin().get("/api/graph/objects?key=c0").await.is(200), &json!([]));
        assert_eq!(server.admin().get("/api/graph/objects?key=b1999").await.is(200).as_array().unwrap().len(), 1);
    }
}

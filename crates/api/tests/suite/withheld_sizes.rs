//! The answers to a right and to a wrong guess are the same for whoever may write but not read: with the limits of an
//! object, with matches by name, and with what a merge and an import say that they did.

use axum::http::Method;
use emergent_domain::{object::limits, token::Scope};
use emergent_testkit::both_engines;
use serde_json::{Value, json};

use crate::{
    common::{Client, Server},
    mcp::peer::Peer,
};

/// What is stored is rounded up to this size before what is sent is added.
const STEP: usize = 64 << 10;
/// A property that is stored, and a name of the same length that is not.
const NAMES: [&str; 2] = ["admin", "nimda"];
const PATH: &str = "/api/graph/objects/Emp%2Fe2";

async fn client(server: &Server, scopes: &[Scope]) -> Client {
    server.client(Some(&server.token(scopes, Some(server.default_project)).await))
}

/// A client that may write, and one that may also read.
async fn clients(server: &Server) -> (Client, Client) {
    let writer = client(server, &[Scope::GraphWrite]).await;
    (writer, client(server, &[Scope::GraphWrite, Scope::GraphRead]).await)
}

async fn employee(admin: &Client) -> String {
    let properties = json!({ "name": "Bob", "admin": true, "salary": 9000, "tags": ["hiv", "vip"] });
    let new = json!({ "type": "Emp", "key": "e2", "labels": ["secret"], "properties": properties });
    admin.post("/api/graph/objects", new).await.is(201)["id"].as_str().unwrap().to_owned()
}

async fn version(admin: &Client) -> Value {
    admin.get(PATH).await.is(200)["version"].clone()
}

/// These properties with another one, so that they have this size as JSON.
fn padded(mut properties: Value, bytes: usize) -> Value {
    properties["pad"] = json!("");
    properties["pad"] = json!("x".repeat(bytes - properties.to_string().len()));
    properties
}

/// The sizes around what fits besides what is stored, and those at which it would fit exactly if it replaced something.
fn sizes() -> impl Iterator<Item = usize> {
    let free = limits::PROPERTIES - STEP;
    [free, free + 1].into_iter().chain((limits::PROPERTIES - 90..limits::PROPERTIES).step_by(9))
}

fn assert_same(answers: &[String], what: &str) {
    assert!(answers.windows(2).all(|pair| pair[0] == pair[1]), "{what}: {answers:#?}");
    assert!(!answers[0].contains("bytes of JSON; the maximum"), "{what}: {}", answers[0]);
}

both_engines! {
    async fn a_refusal_for_size_is_the_same_whatever_a_change_replaces(db: TestDb) {
        let server = Server::start(&db).await;
        let admin = server.admin();
        let id = employee(&admin).await;
        let other = admin.object("Emp", "taken", json!({})).await;
        let (writer, reader) = clients(&server).await;
        let edge = json!({ "type": "owns", "fromId": id, "toId": other, "properties": { "admin": true } });
        let edge = admin.post("/api/graph/relationships", edge).await.is(201)["id"].as_str().unwrap().to_owned();
        let edge = format!("/api/graph/relationships/{edge}");
        for bytes in sizes() {
            let (mut changes, mut imports, mut edges) = (Vec::new(), Vec::new(), Vec::new());
            for name in NAMES {
                let properties = padded(json!({ name: null }), bytes);
                // The key is taken, so nothing is written, whether the properties fit or not.
                let answer = writer.patch(PATH, json!({ "key": "taken", "properties": properties })).await;
                let fits = bytes + STEP <= limits::PROPERTIES;
                assert_eq!(answer.status.as_u16(), if fits { 409 } else { 400 }, "{bytes}: {}", answer.text);
                changes.push(answer.text);
                // The second line is wrong, so the first one is not written either.
                let line = json!({ "kind": "object", "type": "Emp", "key": "e2", "properties": properties });
                let file = format!("{line}\nnonsense\n");
                imports.push(writer.raw(Method::POST, "/api/graph/import", "application/x-ndjson", file).await.text);
                if !fits {
                    let new = json!({ "type": "Emp", "key": "e2", "properties": properties });
                    changes.push(writer.put("/api/graph/objects/upsert", new).await.text);
                    edges.push(writer.patch(&edge, json!({ "properties": properties })).await.text);
                    assert!(changes[0].contains("graph:read") && edges[0].contains("graph:read"), "{changes:?}");
                }
            }
            assert_same(&changes, "change");
            assert_same(&imports, "import");
            if !edges.is_empty() {
                assert_same(&edges, "relationship");
            }
        }
        assert_eq!(version(&admin).await, 1, "nothing was written");
        assert_eq!(admin.get(&edge).await.is(200)["version"], 1);
        // Whoever may read is told the size, and may replace what is stored up to the limit.
        let large = json!({ "properties": padded(json!({ "admin": true }), limits::PROPERTIES) });
        let told = reader.patch(PATH, large).await;
        told.refused(400, "invalid");
        assert!(told.text.contains("bytes of JSON; the maximum"), "{}", told.text);
    }

    async fn the_tool_that_changes_a_task_does_not_tell_what_it_replaces(db: TestDb) {
        let server = Server::start(&db).await;
        let admin = server.admin();
        let (writer, reader) = clients(&server).await;
        let (writer, reader) = (Peer::modern(writer), Peer::modern(reader));
        // One task has the property that the call replaces, and the other has another one of the same size.
        let update = async |peer: &Peer, property: &str, bytes: usize| {
            let properties = json!({ "title": "t", property: "S".repeat(2_000) });
            let made = admin.post("/api/graph/objects", json!({ "type": "SpecTask", "properties": properties })).await;
            let output = json!({ "p": "y".repeat(bytes) });
            let input = json!({ "id": made.is(201)["id"], "summary": "x", "output": output, "fields": ["status"] });
            peer.call("tasks_update", input).await
        };
        let mut answers = Vec::new();
        for property in ["summary", "secret"] {
            let answer = update(&writer, property, limits::PROPERTIES - 1_500).await;
            assert_eq!(answer["isError"], true, "{answer}");
            answers.push(answer.to_string());
            let small = update(&writer, property, limits::PROPERTIES - STEP - 200).await;
            assert_ne!(small["isError"], true, "{small}");
        }
        assert!(answers[0].contains("graph:read"), "{}", answers[0]);
        assert_same(&answers, "task");
        // Whoever may read replaces what is stored up to the limit.
        let fits = update(&reader, "summary", limits::PROPERTIES - 1_500).await;
        assert_ne!(fits["isError"], true, "{fits}");
    }

    async fn a_batch_that_is_not_written_does_not_tell_what_its_lines_replaced(db: TestDb) {
        let server = Server::start(&db).await;
        let admin = server.admin();
        employee(&admin).await;
        let (writer, _) = clients(&server).await;
        let line = |properties: Value| {
            json!({ "kind": "object", "type": "Emp", "key": "e2", "properties": properties }).to_string()
        };
        // The first line makes the object about as large as a step, the second removes a property, and the third fits by the
        // size that is left, if only what is stored after the second one counted.
        for bytes in (STEP - 120..STEP).step_by(12) {
            let mut answers = Vec::new();
            for name in NAMES {
                let rest = padded(json!({ "z": "" }), limits::PROPERTIES - STEP);
                let lines = [line(padded(json!({}), bytes)), line(json!({ name: null })), line(rest), "nonsense".to_owned()];
                answers.push(writer.raw(Method::POST, "/api/graph/import", "application/x-ndjson", lines.join("\n")).await.text);
            }
            assert!(answers[0].contains("graph:read"), "{}", answers[0]);
            assert_same(&answers, "lines");
        }
        assert_eq!(version(&admin).await, 1, "nothing was written");
    }

    async fn whoever_may_not_read_can_make_a_full_object_smaller(db: TestDb) {
        let server = Server::start(&db).await;
        let admin = server.admin();
        admin.object("Emp", "e2", padded(json!({}), limits::PROPERTIES)).await;
        let (writer, reader) = clients(&server).await;
        reader.patch(PATH, json!({ "properties": { "pad": "x".repeat(1_000_000) } })).await.is(200);
        writer.patch(PATH, json!({ "properties": { "pad": "y" } })).await.refused(400, "invalid");
        writer.patch(PATH, json!({ "status": "done" })).await.is(200);
        writer.patch(PATH, json!({ "properties": { "pad": null } })).await.is(200);
        writer.patch(PATH, json!({ "properties": { "pad": "y" } })).await.is(200);
        assert_eq!(admin.get(PATH).await.is(200)["properties"], json!({ "pad": "y" }));
    }

    async fn a_refused_merge_does_not_tell_which_items_are_stored(db: TestDb) {
        let server = Server::start(&db).await;
        let admin = server.admin();
        employee(&admin).await;
        admin.object("Emp", "other", json!({})).await;
        let (writer, reader) = clients(&server).await;
        let (writer, reader) = (Peer::modern(writer), Peer::modern(reader));
        // Two objects with one `ref` are refused after both were merged, so nothing is written.
        let merge = async |peer: &Peer, mut first: Value| {
            (first["type"], first["key"], first["ref"]) = (json!("Emp"), json!("e2"), json!("a"));
            let second = json!({ "type": "Emp", "key": "other", "ref": "a" });
            let answer = peer.call("entities_create", json!({ "merge": true, "objects": [first, second] })).await;
            assert_eq!(answer["isError"], true, "{answer}");
            answer.to_string()
        };
        for bytes in sizes() {
            let mut answers = Vec::new();
            for tag in ["hiv", "abc"] {
                let properties = padded(json!({ "tags": [tag] }), bytes);
                answers.push(merge(&writer, json!({ "properties": properties })).await);
            }
            assert_same(&answers, "items");
            assert_eq!(answers[0].contains("graph:read"), bytes + STEP > limits::PROPERTIES, "{}", answers[0]);
        }
        for others in [limits::LABELS - 2, limits::LABELS - 1] {
            let mut answers = Vec::new();
            for label in ["secret", "public"] {
                let labels: Vec<String> = (0..others).map(|n| n.to_string()).chain([label.to_owned()]).collect();
                answers.push(merge(&writer, json!({ "labels": labels })).await);
            }
            assert_same(&answers, "labels");
        }
        assert_eq!(version(&admin).await, 1, "nothing was written");
        let told = merge(&reader, json!({ "properties": padded(json!({}), limits::PROPERTIES) })).await;
        assert!(told.contains("bytes of JSON; the maximum"), "{told}");
    }

    async fn a_merge_by_name_needs_the_right_to_read(db: TestDb) {
        let server = Server::start(&db).await;
        let admin = server.admin();
        let stored = admin.object("Person", "p1", json!({ "name": "Ada Lovelace" })).await;
        let (writer, reader) = clients(&server).await;
        let (writer, reader) = (Peer::modern(writer), Peer::modern(reader));
        let mut answers = Vec::new();
        for name in ["Ada Lovelace", "Alan Turing"] {
            let guess = json!({ "type": "Person", "ref": "a", "properties": { "name": name } });
            let objects = json!([guess, { "type": "Person", "key": "p1", "ref": "a" }]);
            let answer = writer.call("entities_create", json!({ "merge": true, "objects": objects })).await;
            assert_eq!(answer["isError"], true, "{answer}");
            answers.push(answer.to_string());
        }
        assert_same(&answers, "names");
        assert_eq!(admin.get("/api/graph/objects?type=Person").await.is(200).as_array().unwrap().len(), 1);
        let named = json!({ "type": "Person", "merge": true, "properties": { "name": "ada  LOVELACE" } });
        let found = reader.call("entities_create", named.clone()).await;
        let found = &found["structuredContent"]["objects"][0];
        assert_eq!((&found["id"], &found["mergedBy"]), (&json!(stored), &json!("name")));
        let made = writer.call("entities_create", named).await;
        let made = &made["structuredContent"]["objects"][0];
        assert_eq!(made["created"], true, "{made}");
        assert_ne!(made["id"], json!(stored));
        let keyed = json!({ "type": "Person", "key": "p1", "merge": true, "properties": { "born": 1815 } });
        let merged = writer.call("entities_create", keyed).await;
        assert_eq!(merged["structuredContent"]["objects"][0]["id"], json!(stored), "{merged}");
    }

    async fn an_answer_does_not_count_what_stayed_the_same(db: TestDb) {
        let server = Server::start(&db).await;
        let admin = server.admin();
        let id = employee(&admin).await;
        let other = admin.object("Emp", "other", json!({})).await;
        let (writer, reader) = clients(&server).await;
        let import = async |client: &Client, salary: u64| {
            let ends = json!({ "from": { "type": "Emp", "key": "e2" }, "to": { "type": "Emp", "key": "other" } });
            let object = json!({ "kind": "object", "type": "Emp", "key": "e2", "properties": { "salary": salary } });
            let edge = json!({ "kind": "relationship", "type": "pays", "from": ends["from"], "to": ends["to"], "properties": { "salary": salary } });
            let file = format!("{object}\n{edge}\n");
            let told = client.raw(Method::POST, "/api/graph/import", "application/x-ndjson", file).await.text;
            let last: Value = serde_json::from_str(told.lines().last().unwrap()).unwrap();
            json!([last["objects"], last["relationships"]])
        };
        import(&admin, 9000).await;
        let right = import(&writer, 9000).await;
        let updated = json!({ "created": 0, "updated": 1, "unchanged": 0 });
        assert_eq!(right, json!([updated, updated]));
        assert_eq!(right, import(&writer, 9999).await);
        let unchanged = json!({ "created": 0, "updated": 0, "unchanged": 1 });
        assert_eq!(import(&reader, 9999).await, json!([unchanged, unchanged]), "whoever may read is told");

        let (writer, reader) = (Peer::modern(writer), Peer::modern(reader));
        let merge = async |peer: &Peer, tag: &str, name: &str| {
            let object = json!({ "type": "Emp", "key": "e2", "properties": { "tags": [tag] } });
            let edge = json!({ "type": "pays", "fromId": id, "toId": other, "properties": { name: 9999 } });
            let input = json!({ "merge": true, "objects": [object], "relationships": [edge] });
            let mut answer = peer.call("entities_create", input).await["structuredContent"].clone();
            for list in ["objects", "relationships"] {
                // Only the version differs: a change that changes nothing writes none.
                let merged = answer[list][0].as_object_mut().unwrap();
                assert!(merged.remove("version").is_some(), "{merged:?}");
            }
            answer
        };
        let right = merge(&writer, "hiv", "salary").await;
        assert_eq!((&right["objects"][0]["created"], &right["objects"][0]["outcome"]), (&json!(false), &Value::Null));
        assert_eq!(right["relationships"][0]["created"], false);
        assert_eq!(right, merge(&writer, "abc", "bonus").await);
        assert_eq!(merge(&reader, "hiv", "salary").await["objects"][0]["outcome"], "unchanged");
    }
}

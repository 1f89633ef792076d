//! Objects and relationships over HTTP: they are created, changed, deleted, restored, searched and
//! traversed.

use crate::common;

use common::Server;
use emergent_testkit::both_engines;
use serde_json::{Value, json};

fn ids(data: &Value) -> Vec<&str> {
    data.as_array().expect("a list").iter().map(|one| one["id"].as_str().expect("an id")).collect()
}

both_engines! {
    async fn an_object_lives_changes_dies_and_comes_back(db: TestDb) {
        let server = Server::start(&db).await;
        let client = server.admin();
        let body = json!({ "type": "Task", "key": "t1", "status": "open", "labels": ["b", "a"], "properties": { "title": "Write", "n": 1 } });
        let made = client.post("/api/graph/objects", body).await;
        let object = made.is(201);
        assert_eq!(object["labels"], json!(["a", "b"]));
        assert_eq!((&object["version"], &object["author"]["type"]), (&json!(1), &json!("token")));
        assert!(object["createdAt"].as_str().unwrap().ends_with('Z'), "{object}");
        assert!(made.headers.contains_key("x-request-id"));
        let path = format!("/api/graph/objects/{}", object["id"].as_str().unwrap());
        assert_eq!(client.get(&path).await.is(200), object);

        // A null property is removed, a null status is removed, and nothing else changes.
        let change = json!({ "properties": { "title": null, "m": { "deep": [1, 2] } }, "status": null, "expectedVersion": 1 });
        let changed = client.patch(&path, change.clone()).await;
        assert_eq!(changed.is(200)["properties"], json!({ "n": 1, "m": { "deep": [1, 2] } }));
        assert_eq!((&changed.body["data"]["version"], changed.body["data"].get("status")), (&json!(2), None));
        let stale = client.patch(&path, change).await;
        assert_eq!(stale.refused(409, "version_conflict")["details"]["current"], 2);
        assert_eq!(client.patch(&path, json!({ "properties": { "n": 1 } })).await.is(200)["version"], 2, "no change, no version");

        client.delete(&format!("{path}?expectedVersion=1")).await.refused(409, "version_conflict");
        let tombstone = client.delete(&format!("{path}?expectedVersion=2")).await;
        assert!(tombstone.is(200)["deletedAt"].is_string());
        client.get(&path).await.refused(404, "not_found");
        client.patch(&path, json!({ "status": "x" })).await.refused(404, "not_found");
        let restored = client.send(client.request("POST".parse().unwrap(), &format!("{path}/restore")).body(axum::body::Body::empty()).unwrap()).await;
        assert_eq!(restored.is(200)["version"], 4);
        let history = client.get(&format!("{path}/history")).await;
        let versions: Vec<_> = history.is(200).as_array().unwrap().iter().map(|one| one["version"].as_i64().unwrap()).collect();
        assert_eq!(versions, [4, 3, 2, 1]);
        assert!(history.body["data"][1]["deletedAt"].is_string());
    }

    async fn deleted_objects_are_listed_until_they_are_restored(db: TestDb) {
        let server = Server::start(&db).await;
        let client = server.admin();
        let mut paths = Vec::new();
        for (type_, key, status) in [("Note", "a", "open"), ("Note", "b", "done"), ("Person", "c", "open"), ("Note", "live", "open")] {
            let body = json!({ "type": type_, "key": key, "status": status, "properties": { "n": key } });
            let id = client.post("/api/graph/objects", body).await.is(201)["id"].as_str().unwrap().to_owned();
            paths.push(format!("/api/graph/objects/{id}"));
        }
        for path in &paths[..3] {
            client.delete(path).await.is(200);
        }
        let keys = async |query: &str| -> Vec<String> {
            let listed = client.get(&format!("/api/graph/objects?{query}")).await;
            listed.is(200).as_array().unwrap().iter().map(|object| object["key"].as_str().unwrap().to_owned()).collect()
        };
        assert_eq!(keys("").await, ["live"]);
        assert_eq!(keys("deleted=false").await, ["live"]);
        assert_eq!(keys("deleted=true").await, ["c", "b", "a"]);
        assert_eq!(keys("deleted=true&type=Note&status=open").await, ["a"]);
        let first = client.get("/api/graph/objects?deleted=true&limit=2").await;
        assert!(first.is(200)[0]["deletedAt"].is_string());
        assert_eq!(first.is(200)[0]["properties"], json!({ "n": "c" }));
        let cursor = first.headers["x-next-cursor"].to_str().unwrap();
        assert_eq!(keys(&format!("deleted=true&limit=2&cursor={cursor}")).await, ["a"]);
        client.post(&format!("{}/restore", paths[1]), json!({})).await.is(200);
        assert_eq!(keys("deleted=true").await, ["c", "a"]);
        assert_eq!(keys("").await, ["live", "b"]);
        let both = client.get("/api/graph/objects?deleted=true&asOf=2026-05-01T12:00:00Z").await;
        both.refused(400, "invalid");
        assert_eq!(both.field(), "deleted");
        assert_eq!(client.get("/api/graph/objects?deleted=perhaps").await.field(), "deleted");
        let elsewhere = client.in_project(server.project("elsewhere").await);
        assert_eq!(elsewhere.get("/api/graph/objects?deleted=true").await.is(200), &json!([]));
    }

    async fn deleted_relationships_are_listed_until_they_are_restored(db: TestDb) {
        let server = Server::start(&db).await;
        let client = server.admin();
        let mut ends = Vec::new();
        for key in ["a", "b", "c"] {
            ends.push(client.object("Note", key, json!({})).await);
        }
        let mut ids = Vec::new();
        for (from, type_, to) in [(0, "cites", 1), (1, "cites", 2), (0, "refutes", 2), (2, "cites", 0)] {
            let body = json!({ "type": type_, "fromId": ends[from], "toId": ends[to] });
            let created = client.post("/api/graph/relationships", body).await;
            ids.push(created.is(201)["id"].as_str().unwrap().to_owned());
        }
        for id in &ids[..3] {
            client.delete(&format!("/api/graph/relationships/{id}")).await.is(200);
        }
        let listed = async |query: &str| -> Vec<usize> {
            let listed = client.get(&format!("/api/graph/relationships?{query}")).await;
            let position = |edge: &Value| ids.iter().position(|id| edge["id"] == **id).unwrap();
            listed.is(200).as_array().unwrap().iter().map(position).collect()
        };
        assert_eq!(listed("").await, [3]);
        assert_eq!(listed("deleted=true").await, [2, 1, 0]);
        assert_eq!(listed("deleted=true&type=cites").await, [1, 0]);
        assert_eq!(listed("deleted=true&fromId=Note%2Fa").await, [2, 0]);
        assert_eq!(listed("deleted=true&fromId=Note%2Fa&toId=Note%2Fc&type=refutes").await, [2]);
        let first = client.get("/api/graph/relationships?deleted=true&limit=2").await;
        assert!(first.is(200)[0]["deletedAt"].is_string());
        let cursor = first.headers["x-next-cursor"].to_str().unwrap();
        assert_eq!(listed(&format!("deleted=true&limit=2&cursor={cursor}")).await, [0]);
        client.post(&format!("/api/graph/relationships/{}/restore", ids[1]), json!({})).await.is(200);
        assert_eq!(listed("deleted=true").await, [2, 0]);
        // Those of a deleted object come back with it.
        client.delete(&format!("/api/graph/objects/{}", ends[2])).await.is(200);
        assert_eq!(listed("deleted=true").await, [2, 0]);
        let both = client.get("/api/graph/relationships?deleted=true&asOf=2026-05-01T12:00:00Z").await;
        both.refused(400, "invalid");
        assert_eq!(both.field(), "deleted");
        let elsewhere = client.in_project(server.project("elsewhere").await);
        assert_eq!(elsewhere.get("/api/graph/relationships?deleted=true").await.is(200), &json!([]));
    }

    async fn keys_are_unique_and_upsert_finds_them(db: TestDb) {
        let server = Server::start(&db).await;
        let client = server.admin();
        let id = client.object("Task", "k", json!({ "a": 1 })).await;
        let again = client.post("/api/graph/objects", json!({ "type": "Task", "key": "k", "properties": {} })).await;
        assert_eq!(again.refused(409, "key_taken")["details"]["id"], id.as_str());
        let merged = client.put("/api/graph/objects/upsert", json!({ "type": "Task", "key": "k", "properties": { "b": 2 } })).await;
        assert_eq!((merged.is(200)["id"].as_str(), &merged.body["data"]["properties"]), (Some(id.as_str()), &json!({ "a": 1, "b": 2 })));
        client.put("/api/graph/objects/upsert", json!({ "type": "Task", "key": "new", "properties": {} })).await.is(201);
        let keyless = client.put("/api/graph/objects/upsert", json!({ "type": "Task", "properties": {} })).await;
        keyless.refused(400, "invalid");
        assert_eq!(keyless.field(), "key");
    }

    async fn lists_are_newest_first_and_go_on_from_a_cursor(db: TestDb) {
        let server = Server::start(&db).await;
        let client = server.admin();
        let mut made = Vec::new();
        for n in 0..7 {
            made.push(client.object(if n % 2 == 0 { "Even" } else { "Odd" }, &format!("k{n}"), json!({ "n": n })).await);
        }
        made.reverse();
        let mut seen = Vec::new();
        let mut path = "/api/graph/objects?limit=3".to_owned();
        loop {
            let page = client.get(&path).await;
            seen.extend(ids(page.is(200)).into_iter().map(str::to_owned));
            let Some(next) = page.headers.get("x-next-cursor") else { break };
            path = format!("/api/graph/objects?limit=3&cursor={}", next.to_str().unwrap());
        }
        assert_eq!(seen, made);
        assert_eq!(client.get("/api/graph/objects?type=Even").await.is(200).as_array().unwrap().len(), 4);
        assert_eq!(client.get("/api/graph/objects?type=Even&type=Odd").await.is(200).as_array().unwrap().len(), 7);
        assert_eq!(client.get("/api/graph/objects?key=k3").await.is(200).as_array().unwrap().len(), 1);
        let filters = "%5B%7B%22path%22%3A%22n%22%2C%22op%22%3A%22gte%22%2C%22value%22%3A5%7D%5D";
        assert_eq!(client.get(&format!("/api/graph/objects?filters={filters}")).await.is(200).as_array().unwrap().len(), 2);
    }

    async fn bulk_answers_item_by_item_or_all_or_nothing(db: TestDb) {
        let server = Server::start(&db).await;
        let client = server.admin();
        let objects = json!([{ "type": "Task", "key": "a" }, { "type": "9" }, { "type": "Task", "key": "a" }, { "type": "Task", "key": "b" }]);
        let mixed = client.post("/api/graph/objects/bulk", json!({ "objects": objects })).await;
        let items = mixed.is(200).as_array().unwrap();
        assert_eq!(items[0]["key"], "a");
        assert_eq!((&items[1]["error"]["code"], &items[2]["error"]["code"]), (&json!("invalid"), &json!("key_taken")));
        assert_eq!(items[3]["key"], "b");

        let objects = json!([{ "type": "Task", "key": "c" }, { "type": "9" }]);
        let atomic = client.post("/api/graph/objects/bulk", json!({ "objects": objects, "atomic": true })).await;
        atomic.refused(400, "invalid");
        assert_eq!(atomic.field(), "objects[1].type");
        assert_eq!(client.get("/api/graph/objects").await.is(200).as_array().unwrap().len(), 2);

        let many: Vec<_> = (0..1_001).map(|n| json!({ "type": "Task", "key": n.to_string() })).collect();
        let refused = client.post("/api/graph/objects/bulk", json!({ "objects": many })).await;
        assert!(refused.refused(400, "invalid")["message"].as_str().unwrap().contains("1000"), "{}", refused.text);
        assert_eq!(refused.field(), "objects");
    }

    async fn relationships_join_and_go_with_their_ends(db: TestDb) {
        let server = Server::start(&db).await;
        let client = server.admin();
        let (a, b) = (client.object("Task", "a", json!({})).await, client.object("Task", "b", json!({})).await);
        let edge = client.edge("blocks", &a, &b).await;
        let again = client.post("/api/graph/relationships", json!({ "type": "blocks", "fromId": a, "toId": b })).await;
        assert_eq!(again.is(200)["id"], edge.as_str(), "the same edge is returned");
        let path = format!("/api/graph/relationships/{edge}");
        let changed = client.patch(&path, json!({ "weight": 0.5, "properties": { "why": "x" } })).await;
        assert_eq!((&changed.is(200)["weight"], &changed.body["data"]["version"]), (&json!(0.5), &json!(2)));
        client.patch(&path, json!({ "expectedVersion": 1, "weight": 1 })).await.refused(409, "version_conflict");
        assert_eq!(ids(client.get(&format!("/api/graph/objects/{b}/edges?direction=in")).await.is(200)), [edge.as_str()]);
        assert_eq!(client.get(&format!("/api/graph/objects/{b}/edges?direction=out")).await.is(200), &json!([]));
        assert_eq!(ids(client.get(&format!("/api/graph/relationships?fromId={a}&type=blocks")).await.is(200)), [edge.as_str()]);

        client.delete(&format!("/api/graph/objects/{b}")).await.is(200);
        client.get(&path).await.refused(404, "not_found");
        client.json("POST".parse().unwrap(), &format!("/api/graph/objects/{b}/restore"), json!({})).await.is(200);
        client.get(&path).await.is(200);
        assert!(client.delete(&path).await.is(200)["deletedAt"].is_string());
        let bulk = json!({ "relationships": [{ "type": "blocks", "fromId": a, "toId": b }, { "type": "blocks", "fromId": a, "toId": "01890000-0000-7000-8000-000000000000" }] });
        let bulk = client.post("/api/graph/relationships/bulk", bulk).await;
        assert!(bulk.is(200)[0]["id"].is_string() && bulk.body["data"][1]["error"]["code"].is_string(), "{}", bulk.text);
    }

    async fn a_deleted_relationship_keeps_its_history_and_is_restored(db: TestDb) {
        let server = Server::start(&db).await;
        let client = server.admin();
        let (a, b) = (client.object("Task", "a", json!({})).await, client.object("Task", "b", json!({})).await);
        let edge = client.edge("near", &a, &b).await;
        let path = format!("/api/graph/relationships/{edge}");
        client.patch(&path, json!({ "properties": { "why": "x" } })).await.is(200);
        client.delete(&path).await.is(200);
        let history = client.get(&format!("{path}/history")).await;
        let versions: Vec<_> = history.is(200).as_array().unwrap().iter().map(|version| version["version"].as_i64().unwrap()).collect();
        assert_eq!(versions, [3, 2, 1]);
        let first = client.get(&format!("{path}/history?limit=1")).await;
        assert!(first.is(200)[0]["deletedAt"].is_string(), "{}", first.text);

        let restored = client.post(&format!("{path}/restore"), json!({})).await;
        assert_eq!((&restored.is(200)["version"], &restored.body["data"]["properties"]["why"]), (&json!(4), &json!("x")));
        client.get(&path).await.is(200);
        assert_eq!(client.post(&format!("{path}/restore"), json!({})).await.is(200)["version"], 4, "it is live already");

        client.delete(&path).await.is(200);
        let other = client.edge("near", &a, &b).await;
        let refused = client.post(&format!("{path}/restore"), json!({})).await;
        assert!(refused.refused(409, "conflict")["message"].as_str().unwrap().contains(&other), "{}", refused.text);
        client.delete(&format!("/api/graph/objects/{b}")).await.is(200);
        let refused = client.post(&format!("{path}/restore"), json!({})).await;
        assert!(refused.refused(409, "conflict")["message"].as_str().unwrap().contains("no longer exists"), "{}", refused.text);
        let unknown = "/api/graph/relationships/01890000-0000-7000-8000-000000000000";
        client.get(&format!("{unknown}/history")).await.refused(404, "not_found");
        client.post(&format!("{unknown}/restore"), json!({})).await.refused(404, "not_found");
    }

    async fn an_object_is_returned_as_it_was_at_a_time(db: TestDb) {
        let server = Server::start(&db).await;
        let client = server.admin();
        let id = client.object("Task", "a", json!({ "n": 1 })).await;
        let path = format!("/api/graph/objects/{id}");
        client.patch(&path, json!({ "properties": { "n": 2 } })).await.is(200);
        client.delete(&path).await.is(200);
        let history = client.get(&format!("{path}/history")).await;
        let written: Vec<String> = history.is(200).as_array().unwrap().iter().map(|version| version["updatedAt"].as_str().unwrap().to_owned()).collect();
        let as_of = |reference: &str, at: &str| format!("/api/graph/objects/{reference}?asOf={}", at.replace('+', "%2B"));
        assert_eq!(client.get(&as_of(&id, &written[2])).await.is(200)["properties"]["n"], 1);
        assert_eq!(client.get(&as_of("Task%2Fa", &written[1])).await.is(200)["properties"]["n"], 2);
        client.get(&as_of(&id, &written[0])).await.refused(404, "not_found");
        client.get(&as_of(&id, "2001-01-01T00:00:00Z")).await.refused(404, "not_found");
        client.get(&as_of(&id, "yesterday")).await.refused(400, "invalid");
        client.get("/api/graph/objects/Task%2Fa").await.refused(404, "not_found");
    }

    async fn lists_are_returned_as_they_were_at_a_time(db: TestDb) {
        let server = Server::start(&db).await;
        let client = server.admin();
        let (a, b) = (client.object("Task", "a", json!({ "n": 1 })).await, client.object("Task", "b", json!({})).await);
        let edge = client.edge("near", &a, &b).await;
        let path = format!("/api/graph/objects/{a}");
        let changed = client.patch(&path, json!({ "properties": { "n": 2 } })).await;
        let then = changed.is(200)["updatedAt"].as_str().unwrap().to_owned();
        client.delete(&path).await.is(200);
        client.object("Task", "c", json!({})).await;
        let keys = async |query: &str| -> Vec<String> {
            let listed = client.get(&format!("/api/graph/objects?type=Task{query}")).await;
            listed.is(200).as_array().unwrap().iter().map(|object| object["key"].as_str().unwrap().to_owned()).collect()
        };
        assert_eq!(keys("").await, ["c", "b"]);
        assert_eq!(keys(&format!("&asOf={then}")).await, ["b", "a"]);
        let filters = r#"[{"path":"n","op":"eq","value":2}]"#.replace('"', "%22");
        assert_eq!(keys(&format!("&asOf={then}&filters={filters}")).await, ["a"]);
        let first = client.get(&format!("/api/graph/objects?asOf={then}&limit=1")).await;
        let next = first.headers["x-next-cursor"].to_str().unwrap().to_owned();
        assert_eq!(keys(&format!("&asOf={then}&limit=1&cursor={next}")).await, ["a"]);

        for list in ["relationships?", "relationships?fromId=Task/a&", "relationships?toId=Task/b&", "objects/Task%2Fa/edges?", "objects/Task%2Fb/edges?"] {
            let listed = client.get(&format!("/api/graph/{list}asOf={then}")).await;
            assert_eq!(listed.is(200).as_array().unwrap().len(), 1, "{list}");
            assert_eq!(listed.is(200)[0]["id"], edge, "{list}");
        }
        assert_eq!(*client.get("/api/graph/relationships").await.is(200), json!([]));
        for list in ["objects", "relationships", "objects/Task%2Fb/edges"] {
            client.get(&format!("/api/graph/{list}?asOf=yesterday")).await.refused(400, "invalid");
        }
        client.get(&format!("{path}/edges?asOf=2001-01-01T00:00:00Z")).await.refused(404, "not_found");
    }

    async fn a_subgraph_is_made_whole_or_not_at_all(db: TestDb) {
        let server = Server::start(&db).await;
        let client = server.admin();
        let there = client.object("Session", "s", json!({})).await;
        let body = json!({
            "objects": [{ "ref": "one", "type": "Task", "key": "1", "properties": {} }, { "ref": "two", "type": "Task" }],
            "relationships": [
                { "type": "blocks", "fromRef": "one", "toRef": "two" },
                { "type": "has_task", "fromId": there, "toRef": "one", "weight": 2.5 },
            ],
        });
        let made = client.post("/api/graph/subgraph", body.clone()).await;
        let data = made.is(201);
        assert_eq!(data["refs"]["one"], data["objects"][0]["id"]);
        assert_eq!(data["relationships"][0]["toId"], data["refs"]["two"]);
        assert_eq!(data["relationships"][1]["fromId"], there.as_str());
        client.post("/api/graph/subgraph", body).await.refused(409, "key_taken");
        let dangling = json!({ "objects": [{ "ref": "x", "type": "Task" }], "relationships": [{ "type": "b", "fromRef": "x", "toRef": "nobody" }] });
        client.post("/api/graph/subgraph", dangling).await.refused(400, "invalid");
        let unclear = json!({ "relationships": [{ "type": "b", "fromRef": "x", "fromId": there, "toId": there }] });
        assert_eq!(client.post("/api/graph/subgraph", unclear).await.field(), "relationships[0].fromRef");
        assert_eq!(client.get("/api/graph/objects").await.is(200).as_array().unwrap().len(), 3);
    }

    async fn search_finds_by_words_and_says_what_took_part(db: TestDb) {
        let server = Server::start(&db).await;
        let client = server.admin();
        let wanted = client.object("Note", "n1", json!({ "title": "Tagging patterns", "kind": "a" })).await;
        client.object("Note", "n2", json!({ "title": "Something else", "kind": "b" })).await;
        let found = client.post("/api/graph/search", json!({ "query": "tags pattern", "mode": "text", "limit": 5 })).await;
        let hit = &found.is(200)["hits"][0];
        assert_eq!(hit["object"]["id"], wanted.as_str());
        assert_eq!(hit["channels"]["text"]["rank"], 1);
        assert_eq!(found.body["data"].get("embedding"), None, "no embedding was wanted");
        let hybrid = client.post("/api/graph/search", json!({ "query": "tagging", "types": ["Note"], "filters": [{ "path": "kind", "op": "eq", "value": "a" }] })).await;
        assert_eq!((&hybrid.is(200)["hits"][0]["object"]["id"], &hybrid.body["data"]["embedding"]), (&json!(wanted), &json!("unavailable")));
        assert_eq!(client.post("/api/graph/search", json!({ "query": "tagging", "filters": [{ "path": "kind", "op": "eq", "value": "b" }] })).await.is(200)["hits"], json!([]));
        client.get(&format!("/api/graph/objects/{wanted}/similar")).await.is(200);
        assert!(client.get("/api/graph/embeddings").await.is(200)["pending"].is_i64());
    }

    async fn a_linked_search_explains_its_links_if_asked(db: TestDb) {
        let server = Server::start(&db).await;
        let client = server.admin();
        let company = client.object("Note", "company", json!({ "title": "Tabulating Machines", "text": "started by Herman Hollerith" })).await;
        client.object("Note", "founder", json!({ "title": "Herman Hollerith", "text": "from Buffalo" })).await;
        let body = |mode: &str, explain: bool| json!({ "query": "Who started Tabulating Machines?", "mode": mode, "explain": explain });
        for mode in ["linked", "auto"] {
            let found = client.post("/api/graph/search", body(mode, true)).await;
            let hits = found.is(200)["hits"].as_array().unwrap();
            assert_eq!((hits.len(), &hits[0]["object"]["id"]), (2, &json!(company)), "{mode}");
            assert_eq!(hits[0]["channels"].get("link"), None);
            assert_eq!(hits[1]["channels"]["link"], json!({ "from": company, "name": "herman hollerith" }));
            let found = client.post("/api/graph/search", body(mode, false)).await;
            assert_eq!(found.is(200)["hits"][1]["channels"].get("link"), None, "{mode}");
        }
        assert_eq!(client.post("/api/graph/search", body("hybrid", true)).await.is(200)["hits"].as_array().unwrap().len(), 1);
    }

    async fn a_search_with_a_date_explains_which_date_raised_a_hit_if_asked(db: TestDb) {
        let server = Server::start(&db).await;
        let client = server.admin();
        client.object("Note", "k1", json!({ "text": "about boats", "said": "2023-11-20" })).await;
        let second = client.object("Note", "k2", json!({ "text": "about boats", "said": "2023-05-20" })).await;
        for mode in ["text", "hybrid", "linked", "auto"] {
            let body = |explain: bool| json!({ "query": "Which boats in May 2023?", "mode": mode, "explain": explain });
            let found = client.post("/api/graph/search", body(true)).await;
            let hits = found.is(200)["hits"].as_array().unwrap();
            assert_eq!((hits.len(), &hits[0]["object"]["id"]), (2, &json!(second)), "{mode}");
            let period = json!({ "property": "said", "from": "2023-05-01T00:00:00.000000Z", "to": "2023-06-01T00:00:00.000000Z" });
            assert_eq!(hits[0]["channels"]["date"], period, "{mode}");
            assert_eq!(hits[1]["channels"].get("date"), None, "{mode}");
            let found = client.post("/api/graph/search", body(false)).await;
            assert_eq!(found.is(200)["hits"][0]["channels"].get("date"), None, "{mode}");
        }
    }

    async fn hits_are_grouped_and_cut_to_a_budget(db: TestDb) {
        let server = Server::start(&db).await;
        let client = server.admin();
        let mut messages = Vec::new();
        for (key, text) in [("m1", "kettle kettle kettle"), ("m2", "kettle kettle tea"), ("m3", "kettle tea tea")] {
            messages.push(client.object("Message", key, json!({ "text": text })).await);
        }
        let session = client.object("Chat", "s1", json!({ "topic": "kitchen" })).await;
        client.edge("part_of", &messages[0], &session).await;
        client.edge("part_of", &messages[2], &session).await;
        let search = async |more: serde_json::Value| {
            let mut body = json!({ "query": "kettle", "mode": "text" });
            body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            let found = client.post("/api/graph/search", body).await;
            let found = found.is(200).clone();
            let keys: Vec<String> = found["hits"].as_array().unwrap().iter().map(|hit| hit["object"]["key"].as_str().unwrap().to_owned()).collect();
            (keys.join(" "), found)
        };
        let (keys, found) = search(json!({ "group": { "relationship": "part_of" } })).await;
        assert_eq!(keys, "m1 m3 m2");
        assert_eq!((&found["hits"][1]["group"], &found["hits"][2]["group"]), (&json!(session), &json!(messages[1])));
        let (keys, found) = search(json!({})).await;
        assert_eq!((keys.as_str(), found["hits"][0].get("group")), ("m1 m2 m3", None));
        let (keys, found) = search(json!({ "budgetTokens": 1 })).await;
        assert_eq!((keys.as_str(), &found["truncated"]), ("m1", &json!(true)));
        assert_eq!(search(json!({ "budgetTokens": 1_000 })).await.0, "m1 m2 m3");
    }

    async fn passages_are_grouped_by_document_and_cut_to_a_budget(db: TestDb) {
        let server = Server::start(&db).await;
        let client = server.admin();
        let mut documents = Vec::new();
        for text in ["kettle kettle kettle", "kettle kettle tea"] {
            let document = client.post("/api/documents", json!({ "title": text, "content": text })).await;
            documents.push(document.is(201)["id"].clone());
        }
        let search = async |more: serde_json::Value| {
            let mut body = json!({ "query": "kettle", "mode": "text" });
            body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            client.post("/api/documents/search", body).await.is(200).clone()
        };
        let groups = |found: &serde_json::Value| -> Vec<serde_json::Value> {
            found["hits"].as_array().unwrap().iter().map(|hit| hit["group"].clone()).collect()
        };
        let found = search(json!({ "group": "document" })).await;
        assert_eq!(groups(&found), documents);
        assert_eq!(found.get("truncated"), None);
        let titles: Vec<_> = found["hits"].as_array().unwrap().iter().map(|hit| hit["documentTitle"].as_str()).collect();
        assert_eq!(titles, [Some("kettle kettle kettle"), Some("kettle kettle tea")]);
        let found = search(json!({ "group": "document", "budgetTokens": 1 })).await;
        assert_eq!((groups(&found), &found["truncated"]), (vec![documents[0].clone()], &json!(true)));
        let found = search(json!({ "budgetTokens": 1_000 })).await;
        assert_eq!((found["hits"].as_array().unwrap().len(), found["hits"][0].get("group")), (2, None));
    }

    async fn walks_reach_as_far_as_asked(db: TestDb) {
        let server = Server::start(&db).await;
        let client = server.admin();
        let mut chain = Vec::new();
        for n in 0..4 {
            chain.push(client.object("Task", &n.to_string(), json!({ "n": n })).await);
        }
        for pair in chain.windows(2) {
            client.edge("blocks", &pair[0], &pair[1]).await;
        }
        let walked = client.post("/api/graph/traverse", json!({ "startIds": [chain[0]], "direction": "out", "maxDepth": 2 })).await;
        let depths: Vec<_> = walked.is(200)["nodes"].as_array().unwrap().iter().map(|node| (node["id"].as_str().unwrap(), node["depth"].as_i64().unwrap())).collect();
        assert_eq!(depths, [(chain[0].as_str(), 0), (chain[1].as_str(), 1), (chain[2].as_str(), 2)]);
        assert_eq!(walked.body["data"]["edges"].as_array().unwrap().len(), 2);
        assert_eq!(walked.body["data"]["nodes"][1]["properties"], json!({ "n": 1 }));
        let cut = client.post("/api/graph/traverse", json!({ "startIds": [chain[0]], "maxNodes": 2 })).await;
        assert_eq!(cut.is(200)["truncated"], true);

        let path = client.post("/api/graph/path", json!({ "fromId": chain[0], "toId": chain[3], "direction": "out" })).await;
        assert_eq!(ids(&path.is(200)["objects"]), chain);
        let none = client.post("/api/graph/path", json!({ "fromId": chain[3], "toId": chain[0], "direction": "out" })).await;
        assert_eq!((&none.is(200)["found"], &none.body["data"]["objects"]), (&json!(false), &json!([])));
    }
}

//! Taking entities out of documents with the tools an extractor has: written with their passage,
//! joined with what is known, and once.

use emergent_testkit::both_engines;
use futures_util::future::join_all;
use serde_json::{Value, json};

use crate::support;
use support::*;

async fn document(world: &World, title: &str, content: &str) -> (String, Vec<Value>) {
    let made = world.ok("documents_create", json!({ "title": title, "content": content })).await;
    let id = made["document"]["id"].as_str().unwrap().to_owned();
    let chunks = world.ok("documents_chunks", json!({ "id": id, "limit": 50 })).await["chunks"].clone();
    (id, chunks.as_array().unwrap().clone())
}

/// What an extractor finds in a text about Ada, when `role` is what the text calls her.
fn about_ada(chunk: &Value, role: &str) -> Value {
    json!({
        "merge": true,
        "source": { "chunkId": chunk["id"] },
        "objects": [
            { "ref": "ada", "type": "Person", "properties": { "name": "Ada Lovelace", "role": role } },
            { "ref": "engine", "type": "Concept", "key": "analytical-engine",
              "properties": { "name": "Analytical Engine", "aliases": ["the Engine"] } },
        ],
        "relationships": [
            { "type": "related_to", "fromRef": "ada", "toRef": "engine", "properties": { "how": "wrote for it" } },
        ],
    })
}

both_engines! {
    async fn a_document_is_read_chunk_by_chunk(db: TestDb) {
        let world = World::new(&db).await;
        let text: String = (0..400).map(|n| format!("Sentence number {n} says something of its own. ")).collect();
        let (id, all) = document(&world, "Long", &text).await;
        assert!(all.len() > 5, "{}", all.len());
        let mut seen = Vec::new();
        let mut from = 0;
        loop {
            let page = world.ok("documents_chunks", json!({ "id": id, "from": from, "limit": 2 })).await;
            let chunks = page["chunks"].as_array().unwrap().clone();
            assert!(chunks.len() <= 2);
            seen.extend(chunks);
            match page["next"].as_i64() {
                Some(next) => from = next,
                None => break,
            }
        }
        assert_eq!(seen, all);
        assert_eq!(seen.iter().map(|one| one["index"].as_u64().unwrap()).collect::<Vec<_>>(), (0..all.len() as u64).collect::<Vec<_>>());
        assert!(seen[0]["text"].as_str().unwrap().starts_with("Sentence number 0"));
        assert_eq!(world.ok("documents_chunks", json!({ "id": id, "from": 10_000 })).await, json!({ "chunks": [] }));
        let there = world.over_there();
        assert!(there.err("documents_chunks", json!({ "id": id })).await.contains("no document"));
    }

    async fn a_long_answer_ends_between_chunks_and_not_in_one(db: TestDb) {
        let world = World::new(&db).await;
        let text: String = (0..12_000).map(|n| format!("Sentence {n} goes on and on. ")).collect();
        let id = world.ok("documents_create", json!({ "title": "Long", "content": text })).await["document"]["id"].clone();
        let page = world.ok("documents_chunks", json!({ "id": id, "limit": 50 })).await;
        let chunks = page["chunks"].as_array().unwrap();
        assert!(chunks.len() < 50 && page["next"] == chunks.len(), "{} chunks, next {}", chunks.len(), page["next"]);
        let bytes: usize = chunks.iter().map(|one| one["text"].as_str().unwrap().len()).sum();
        assert!((30_000..=40_000).contains(&bytes), "{bytes}");
    }

    async fn what_is_extracted_has_its_passage_and_a_second_time_writes_nothing(db: TestDb) {
        let world = World::embedding(&db).await;
        let (id, chunks) = document(&world, "Notes", "Ada Lovelace wrote for the Analytical Engine.").await;
        let made = world.ok("entities_create", about_ada(&chunks[0], "mathematician")).await;
        assert_eq!(each(&made, "objects", "/outcome"), ["created", "created"]);
        assert_eq!(each(&made, "objects", "/key"), ["ada-lovelace", "analytical-engine"]);
        assert_eq!(each(&made, "relationships", "/outcome"), ["created"]);
        let ada = world.ok("entities_get", json!({ "id": "Person/ada-lovelace" })).await["object"].clone();
        assert_eq!(
            ada["sources"],
            json!([{ "chunkId": chunks[0]["id"], "documentId": id, "title": "Notes", "index": 0 }])
        );
        let several = json!({ "ids": ["Person/ada-lovelace", "Concept/analytical-engine"] });
        let both = world.ok("entities_get", several).await;
        assert_eq!(each(&both, "objects", "/sources/0/title"), ["Notes", "Notes"]);
        let small = world.ok("entities_get", json!({ "id": "Person/ada-lovelace", "fields": ["key"] })).await;
        assert!(small["object"].get("sources").is_none(), "{small}");

        let before = world.changes(world.project).await;
        let again = world.ok("entities_create", about_ada(&chunks[0], "mathematician")).await;
        assert_eq!(each(&again, "objects", "/outcome"), ["unchanged", "unchanged"]);
        assert_eq!(each(&again, "objects", "/mergedBy"), ["key", "key"]);
        assert_eq!(each(&again, "relationships", "/outcome"), ["unchanged"]);
        assert_eq!(again["refs"], made["refs"]);
        assert_eq!(world.changes(world.project).await, before);
        let history = world.ok("entities_history", json!({ "id": "Person/ada-lovelace" })).await;
        assert_eq!(history["versions"].as_array().unwrap().len(), 1);
        assert_eq!(history["sources"].as_array().unwrap().len(), 1);
    }

    async fn two_documents_about_one_person_are_one_entity_with_a_reason(db: TestDb) {
        let world = World::embedding(&db).await;
        let (_, notes) = document(&world, "Notes", "Ada Lovelace wrote for the Analytical Engine.").await;
        let (_, letters) = document(&world, "Letters", "The poet Ada Lovelace, born in 1815.").await;
        world.ok("entities_create", about_ada(&notes[0], "mathematician")).await;
        let made = world
            .ok("entities_create", json!({
                "merge": true, "type": "Person", "key": "lovelace",
                "properties": { "name": "ada lovelace", "role": "poet", "born": 1815 },
                "source": { "chunkId": letters[0]["id"] },
            }))
            .await;
        let one = &made["objects"][0];
        assert_eq!((&one["outcome"], &one["mergedBy"], &one["key"]), (&json!("updated"), &json!("name"), &json!("ada-lovelace")));
        assert_eq!(
            one["kept"],
            json!([
                { "field": "key", "kept": "ada-lovelace", "offered": "lovelace" },
                { "field": "properties.name", "kept": "Ada Lovelace", "offered": "ada lovelace" },
                { "field": "properties.role", "kept": "mathematician", "offered": "poet" },
            ])
        );
        let history = world.ok("entities_history", json!({ "id": one["id"] })).await;
        let reason = history["versions"][0]["reason"].as_str().unwrap();
        assert!(reason.starts_with("merged by equal name `Ada Lovelace`, from document `Letters`"), "{reason}");
        assert!(reason.contains("properties.role `mathematician` instead of `poet`"), "{reason}");
        assert!(history["versions"][1].get("reason").is_none());
        assert_eq!(each(&history, "sources", "/title"), ["Letters", "Notes"]);
        let object = world.ok("entities_get", json!({ "id": one["id"] })).await["object"].clone();
        assert_eq!(object["properties"], json!({ "name": "Ada Lovelace", "role": "mathematician", "born": 1815 }));
        assert_eq!(object["reason"], reason);
    }

    async fn a_later_text_replaces_what_it_says_to_have_changed(db: TestDb) {
        let world = World::new(&db).await;
        let (_, before) = document(&world, "Before", "Grace Hopper is a professor at Vassar College.").await;
        let (_, after) = document(&world, "After", "Grace Hopper left Vassar College and is now an officer.").await;
        world.ok("entities_create", json!({
            "merge": true, "source": { "chunkId": before[0]["id"] },
            "objects": [
                { "ref": "grace", "type": "Person", "properties": { "name": "Grace Hopper", "role": "professor", "born": 1906 } },
                { "ref": "vassar", "type": "Organization", "properties": { "name": "Vassar College" } },
            ],
            "relationships": [{ "type": "part_of", "fromRef": "grace", "toRef": "vassar" }],
        })).await;
        let changed = |supersedes: Value| json!({
            "merge": true, "source": { "chunkId": after[0]["id"] }, "type": "Person",
            "properties": { "name": "Grace Hopper", "role": "officer", "born": 1907 }, "supersedes": supersedes,
        });
        let refused = world.err("entities_create", changed(json!(["rank"]))).await;
        assert!(refused.contains("supersedes[0]") && refused.contains("`rank` has no value"), "{refused}");
        let plain = json!({ "type": "Person", "properties": { "role": "officer" }, "supersedes": ["role"] });
        assert!(world.err("entities_create", plain).await.contains("merge: true"));
        let made = world.ok("entities_create", changed(json!(["role"]))).await;
        let one = &made["objects"][0];
        assert_eq!(one["replaced"], json!([{ "field": "properties.role", "before": "professor", "after": "officer" }]));
        assert_eq!(one["kept"], json!([{ "field": "properties.born", "kept": 1906, "offered": 1907 }]));
        let edge = json!({
            "type": "part_of", "fromId": "Person/grace-hopper", "toId": "Organization/vassar-college",
            "source": { "chunkId": after[0]["id"] },
        });
        world.ok("relationships_delete", edge).await;

        let history = world.ok("entities_history", json!({ "id": "Person/grace-hopper" })).await;
        let then = history["versions"][1]["updatedAt"].clone();
        let now = world.ok("entities_get", json!({ "id": "Person/grace-hopper" })).await["object"].clone();
        assert_eq!((&now["properties"]["role"], each(&now, "sources", "/title")), (&json!("officer"), vec!["After", "Before"]));
        let earlier = world.ok("entities_get", json!({ "id": "Person/grace-hopper", "asOf": then })).await["object"].clone();
        assert_eq!((&earlier["properties"]["role"], each(&earlier, "sources", "/title")), (&json!("professor"), vec!["Before"]));
        assert!(world.err("entities_get", json!({ "ids": ["Person/grace-hopper"], "asOf": then })).await.contains("`asOf`"));
        let ends = json!({ "fromId": "Person/grace-hopper", "toId": "Organization/vassar-college" });
        let ends_then = json!({ "fromId": "Person/grace-hopper", "toId": "Organization/vassar-college", "asOf": then });
        assert_eq!(world.ok("graph_path", ends).await["found"], false);
        assert_eq!(world.ok("graph_path", ends_then).await["found"], true);

        // The relationship that ended has its passage at the time at which it held.
        let named = json!({ "type": "part_of", "fromId": "Person/grace-hopper", "toId": "Organization/vassar-college" });
        assert!(world.err("relationships_get", named.clone()).await.contains("no relationship"));
        let at = |mut input: Value, time: &Value| {
            input["asOf"] = time.clone();
            input
        };
        let held = world.ok("relationships_get", at(named.clone(), &then)).await["relationship"].clone();
        assert_eq!((&held["type"], each(&held, "sources", "/title")), (&json!("part_of"), vec!["Before"]));
        let by_id = world.ok("relationships_get", at(json!({ "id": held["id"] }), &then)).await;
        assert_eq!(by_id["relationship"], held);
        let small = world.ok("relationships_get", at(json!({ "id": held["id"], "fields": ["type"] }), &then)).await;
        assert_eq!(small["relationship"], json!({ "id": held["id"], "type": "part_of" }));
        assert!(world.over_there().err("relationships_get", at(json!({ "id": held["id"] }), &then)).await.contains("no relationship"));
        let around = json!({ "id": "Person/grace-hopper" });
        assert_eq!(world.ok("graph_neighbors", around.clone()).await["neighbors"], json!([]));
        let around_then = world.ok("graph_neighbors", at(around, &then)).await;
        assert_eq!(each(&around_then, "neighbors", "/object/key"), ["vassar-college"]);
        assert_eq!(each(&around_then, "neighbors", "/relationship/sources/0/title"), ["Before"]);
    }

    async fn an_earlier_time_never_shows_a_later_relationship(db: TestDb) {
        let world = World::new(&db).await;
        let (_, chunks) = document(&world, "Letters", "Ada knows Bob.").await;
        world.ok("entities_create", json!({ "objects": [{ "type": "P", "key": "a" }, { "type": "P", "key": "b" }] })).await;
        let then = world.ok("entities_get", json!({ "id": "P/b" })).await["object"]["createdAt"].clone();
        world.graph.clock().advance(std::time::Duration::from_secs(60));
        let edge = json!({ "type": "knows", "fromId": "P/a", "toId": "P/b" });
        let mut made = edge.clone();
        made["source"] = json!({ "chunkId": chunks[0]["id"] });
        world.ok("relationships_create", made).await;
        let now = world.ok("relationships_get", edge.clone()).await["relationship"]["createdAt"].clone();
        let at = |mut input: Value, time: &Value| {
            input["asOf"] = time.clone();
            input
        };
        for (time, count) in [(&then, 0), (&now, 1)] {
            let near = world.ok("graph_neighbors", at(json!({ "id": "P/a" }), time)).await;
            assert_eq!(near["neighbors"].as_array().unwrap().len(), count, "{near}");
            let around = world.ok("graph_traverse", at(json!({ "startIds": ["P/a"] }), time)).await;
            assert_eq!(around["edges"].as_array().unwrap().len(), count, "{around}");
            assert_eq!(around["nodes"].as_array().unwrap().len(), 1 + count, "{around}");
            let way = world.ok("graph_path", at(json!({ "fromId": "P/a", "toId": "P/b" }), time)).await;
            assert_eq!(way["found"], count == 1, "{way}");
        }
        assert!(world.err("relationships_get", at(edge.clone(), &then)).await.contains("no relationship"));
        assert_eq!(each(&world.ok("relationships_get", at(edge, &now)).await["relationship"], "sources", "/title"), ["Letters"]);
        let long_ago = json!({ "id": "P/a", "asOf": "2001-01-01T00:00:00Z" });
        assert!(world.err("graph_neighbors", long_ago).await.contains("did not exist at 2001-01-01"));
    }

    async fn relationships_are_joined_with_their_passage_too(db: TestDb) {
        let world = World::new(&db).await;
        let (_, chunks) = document(&world, "Notes", "Ada knows Bob.").await;
        world.ok("entities_create", json!({ "objects": [{ "type": "P", "key": "a" }, { "type": "P", "key": "b" }] })).await;
        let knows = |properties: Value| json!({
            "type": "knows", "fromId": "P/a", "toId": "P/b", "properties": properties,
            "merge": true, "source": { "chunkId": chunks[0]["id"] },
        });
        let made = world.ok("relationships_create", knows(json!({ "how": "letters" }))).await;
        assert_eq!((&made["relationships"][0]["outcome"], &made["relationships"][0]["created"]), (&json!("created"), &json!(true)));
        let same = world.ok("relationships_create", knows(json!({ "how": "letters" }))).await;
        assert_eq!((&same["relationships"][0]["outcome"], &same["relationships"][0]["version"]), (&json!("unchanged"), &json!(1)));
        let more = world.ok("relationships_create", knows(json!({ "how": "balls", "since": 1833 }))).await;
        let edge = &more["relationships"][0];
        assert_eq!((&edge["outcome"], &edge["created"], &edge["version"]), (&json!("updated"), &json!(false), &json!(2)));
        assert_eq!(edge["kept"], json!([{ "field": "properties.how", "kept": "letters", "offered": "balls" }]));
        let read = world.ok("relationships_get", json!({ "id": edge["id"] })).await["relationship"].clone();
        assert_eq!(read["properties"], json!({ "how": "letters", "since": 1833 }));
        assert!(read["reason"].as_str().unwrap().contains("document `Notes`"), "{read}");
    }

    async fn a_passage_can_be_named_without_merging_and_for_each_part(db: TestDb) {
        let world = World::new(&db).await;
        let (_, one) = document(&world, "One", "First.").await;
        let (_, two) = document(&world, "Two", "Second.").await;
        for (merge, key) in [(false, "x"), (true, "y")] {
            let own = format!("own-{key}");
            world
                .ok("entities_create", json!({
                    "merge": merge,
                    "source": { "chunkId": one[0]["id"] },
                    "objects": [
                        { "type": "T", "key": key },
                        { "type": "T", "key": own, "source": { "chunkId": two[0]["id"] } },
                    ],
                }))
                .await;
            let read = world.ok("entities_get", json!({ "ids": [format!("T/{key}"), format!("T/{own}")] })).await;
            assert_eq!(each(&read, "objects", "/sources/0/title"), ["One", "Two"], "merge {merge}");
        }
        let taken = world.err("entities_create", json!({ "type": "T", "key": "x", "source": { "chunkId": one[0]["id"] } })).await;
        assert!(taken.contains("the key `x`"), "without merge a key must be free: {taken}");
    }

    async fn a_passage_of_elsewhere_is_refused_and_nothing_is_written(db: TestDb) {
        let world = World::new(&db).await;
        let (_, foreign) = document(&world.over_there(), "Theirs", "Hidden.").await;
        world.ok("entities_create", json!({ "objects": [{ "type": "P", "key": "a" }, { "type": "P", "key": "b" }] })).await;
        let before = world.changes(world.project).await;
        for merge in [false, true] {
            let source = json!({ "chunkId": foreign[0]["id"] });
            let said = world.err("entities_create", json!({ "type": "P", "key": "c", "merge": merge, "source": source })).await;
            assert!(said.contains("source.chunkId") && said.contains("no chunk with this id"), "{said}");
            let edge = json!({ "type": "r", "fromId": "P/a", "toId": "P/b", "merge": merge, "source": source });
            assert!(world.err("relationships_create", edge).await.contains("no chunk with this id"));
        }
        let edges = json!([
            { "type": "r", "fromRef": "c", "toId": "P/a" },
            { "type": "r", "fromRef": "d", "toId": "P/a" },
        ]);
        let said = world
            .err("entities_create", json!({ "ref": "c", "type": "P", "merge": true, "relationships": edges }))
            .await;
        assert!(said.contains("relationships[1]") && said.contains("has the ref `d`"), "{said}");
        assert_eq!(world.changes(world.project).await, before);
    }

    async fn extractors_at_once_make_one_of_each(db: TestDb) {
        let world = World::embedding(&db).await;
        let mut inputs = Vec::new();
        for n in 0..6 {
            let (_, chunks) = document(&world, &format!("Part {n}"), &format!("Ada Lovelace, {n} times.")).await;
            inputs.push(about_ada(&chunks[0], "mathematician"));
        }
        let calls = inputs.into_iter().map(|input| world.ok("entities_create", input));
        let made = join_all(calls).await;
        for one in &made {
            assert_eq!(one["refs"], made[0]["refs"]);
            assert_eq!(one["relationships"][0]["id"], made[0]["relationships"][0]["id"]);
        }
        let created = made.iter().filter(|one| one["objects"][0]["outcome"] == "created").count();
        assert_eq!(created, 1);
        let ada = world.ok("entities_get", json!({ "id": "Person/ada-lovelace" })).await["object"].clone();
        assert_eq!(ada["version"], 1, "they all said the same");
        assert_eq!(ada["sources"].as_array().unwrap().len(), 6);
    }
}

//! Search, walks, types, packs, documents and the project's overview do what they say.

use emergent_testkit::both_engines;
use serde_json::json;

use crate::support;
use support::*;

both_engines! {
    async fn searches_find_by_words_by_meaning_and_by_likeness(db: TestDb) {
        let world = World::embedding(&db).await;
        world.ok("entities_create", json!({ "objects": [
            { "type": "Note", "key": "auth", "properties": { "title": "Login with tokens", "text": "sign in with a token" } },
            { "type": "Note", "key": "auth2", "properties": { "title": "Login with passwords", "text": "sign in with a password" } },
            { "type": "Recipe", "key": "soup", "properties": { "title": "Tomato soup" } },
        ]})).await;
        while world.graph.embed_batch(world.project).await.unwrap() > 0 {}
        for name in ["entities_search", "search_hybrid", "search_fts", "search_semantic"] {
            let found = world.ok(name, json!({ "query": "login tokens", "fields": ["key"], "limit": 2 })).await;
            assert_eq!(each(&found, "hits", "/object/key")[0], "auth", "{name}");
        }
        let only = world.ok("search_hybrid", json!({ "query": "soup login", "types": ["Recipe"], "fields": ["key"] })).await;
        assert_eq!(each(&only, "hits", "/object/key"), ["soup"]);
        let like = world.ok("search_similar", json!({ "id": "Note/auth", "limit": 1, "fields": ["key"] })).await;
        assert_eq!(each(&like, "hits", "/object/key"), ["auth2"]);
    }

    async fn a_linked_search_says_over_which_name_it_found_an_entity(db: TestDb) {
        let world = World::new(&db).await;
        world.ok("entities_create", json!({ "objects": [
            { "type": "Note", "key": "company", "properties": { "title": "Tabulating Machines", "text": "started by Herman Hollerith" } },
            { "type": "Note", "key": "founder", "properties": { "title": "Herman Hollerith", "text": "from Buffalo" } },
        ]})).await;
        // A question that names a hit is a linked search for the other tools too.
        for name in ["search_linked", "search_hybrid", "entities_search"] {
            let found = world.ok(name, json!({ "query": "Who started Tabulating Machines?", "fields": ["key"] })).await;
            assert_eq!(each(&found, "hits", "/object/key"), ["company", "founder"], "{name}");
            assert_eq!(found["hits"][1]["channels"]["link"]["name"], "herman hollerith", "{name}");
        }
        let weighted = json!({ "query": "Who started Tabulating Machines?", "fields": ["key"], "textWeight": 1 });
        assert_eq!(each(&world.ok("search_hybrid", weighted).await, "hits", "/object/key"), ["company"]);
    }

    async fn a_search_with_a_date_says_which_date_raised_an_entity(db: TestDb) {
        let world = World::new(&db).await;
        world.ok("entities_create", json!({ "objects": [
            { "type": "Note", "key": "k1", "properties": { "text": "about boats", "said": "2023-11-20" } },
            { "type": "Note", "key": "k2", "properties": { "text": "about boats", "said": "2023-05-20" } },
        ]})).await;
        for name in ["search_linked", "search_hybrid", "search_fts", "entities_search"] {
            let found = world.ok(name, json!({ "query": "Which boats since May 2023 until now", "fields": ["key"] })).await;
            assert_eq!(each(&found, "hits", "/object/key"), ["k1", "k2"], "{name}: both are of that time");
            assert_eq!(found["hits"][1]["channels"]["date"], json!({ "property": "said", "from": "2023-05-01T00:00:00.000000Z" }));
            let found = world.ok(name, json!({ "query": "Which boats in May 2023?", "fields": ["key"] })).await;
            assert_eq!(each(&found, "hits", "/object/key"), ["k2", "k1"], "{name}");
        }
    }

    async fn hits_are_grouped_and_cut_to_a_budget(db: TestDb) {
        let world = World::new(&db).await;
        world.ok("entities_create", json!({
            "objects": [
                { "ref": "m1", "type": "Message", "key": "m1", "properties": { "text": "kettle kettle kettle" } },
                { "ref": "m2", "type": "Message", "key": "m2", "properties": { "text": "kettle kettle tea" } },
                { "ref": "m3", "type": "Message", "key": "m3", "properties": { "text": "kettle tea tea" } },
                { "ref": "s1", "type": "Chat", "key": "s1", "properties": { "topic": "kitchen" } },
            ],
            "relationships": [
                { "type": "has_message", "fromRef": "s1", "toRef": "m1" },
                { "type": "has_message", "fromRef": "s1", "toRef": "m3" },
            ],
        })).await;
        let grouped = json!({ "query": "kettle", "mode": "text", "group": { "relationship": "has_message", "direction": "in" } });
        let found = world.ok("entities_search", grouped).await;
        assert_eq!(each(&found, "hits", "/object/key"), ["m1", "m3", "m2"]);
        assert_eq!(found["hits"][0]["group"], found["hits"][1]["group"]);
        let cut = world.ok("entities_search", json!({ "query": "kettle", "mode": "text", "budgetTokens": 1 })).await;
        assert_eq!((each(&cut, "hits", "/object/key"), &cut["truncated"]), (vec!["m1"], &json!(true)));
        world.ok("documents_create", json!({ "title": "Tea", "content": "The kettle is in the kitchen." })).await;
        let passages = json!({ "query": "kettle", "group": "document", "budgetTokens": 100 });
        let found = world.ok("documents_search", passages).await;
        assert_eq!(found["hits"][0]["group"], found["hits"][0]["chunk"]["documentId"]);
    }

    async fn with_a_budget_alone_there_are_as_many_hits_as_fit(db: TestDb) {
        let world = World::new(&db).await;
        let notes: Vec<_> = (0..12).map(|n| json!({ "type": "Note", "key": n.to_string(), "properties": { "text": "kettle" } })).collect();
        world.ok("entities_create", json!({ "objects": notes })).await;
        for n in 0..12 {
            world.ok("documents_create", json!({ "title": n.to_string(), "content": format!("The kettle {n}.") })).await;
        }
        for name in ["entities_search", "documents_search"] {
            let hits = async |more: serde_json::Value| {
                let mut input = json!({ "query": "kettle", "mode": "text" });
                input.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
                world.ok(name, input).await["hits"].as_array().unwrap().len()
            };
            assert_eq!(hits(json!({})).await, 10, "{name}");
            assert_eq!(hits(json!({ "budgetTokens": 1_000 })).await, 12, "{name}");
            assert_eq!(hits(json!({ "budgetTokens": 1_000, "limit": 11 })).await, 11, "{name}");
        }
    }

    async fn a_search_without_an_embedder_says_that_words_alone_counted(db: TestDb) {
        let world = World::new(&db).await;
        world.ok("entities_create", json!({ "type": "Note", "properties": { "title": "soup" } })).await;
        let found = world.ok("search_hybrid", json!({ "query": "soup" })).await;
        assert_eq!(found["hits"].as_array().unwrap().len(), 1);
        assert_eq!(found["embedding"], "unavailable");
        assert!(found["note"].as_str().unwrap().contains("words alone"));
        let none = world.ok("search_semantic", json!({ "query": "soup" })).await;
        assert!(none["note"].as_str().unwrap().contains("search by words instead"));
    }

    async fn walks_show_what_is_around_and_the_way_between_two(db: TestDb) {
        let world = World::new(&db).await;
        world.ok("entities_create", json!({
            "objects": [{ "type": "T", "key": "a" }, { "type": "T", "key": "b" }, { "type": "T", "key": "c" }, { "type": "T", "key": "d" }],
            "relationships": [
                { "type": "r", "fromId": "T/a", "toId": "T/b" },
                { "type": "r", "fromId": "T/b", "toId": "T/c" },
            ],
        })).await;
        let around = world.ok("graph_traverse", json!({ "startIds": ["T/a"], "maxDepth": 1, "fields": ["key"] })).await;
        assert_eq!(each(&around, "nodes", "/key"), ["a", "b"]);
        assert_eq!(around["nodes"][1]["depth"], 1);
        assert_eq!(around["edges"].as_array().unwrap().len(), 1);
        let way = world.ok("graph_path", json!({ "fromId": "T/a", "toId": "T/c", "fields": ["key"] })).await;
        assert_eq!(each(&way, "objects", "/key"), ["a", "b", "c"]);
        assert_eq!(world.ok("graph_path", json!({ "fromId": "T/a", "toId": "T/d" })).await["found"], false);
        let into = world.ok("graph_neighbors", json!({ "id": "T/b", "direction": "in", "fields": ["key"] })).await;
        assert_eq!(each(&into, "neighbors", "/object/key"), ["a"]);
        assert_eq!(each(&into, "neighbors", "/direction"), ["in"]);
    }

    async fn a_pack_counts_once_it_is_assigned_and_its_types_are_shown(db: TestDb) {
        let world = World::new(&db).await;
        let person = json!({ "type": "object", "properties": { "name": { "type": "string" } }, "required": ["name"] });
        let pack = json!({
            "name": "people", "version": "1.0.0",
            "objectTypeSchemas": { "Person": person },
            "relationshipTypeSchemas": { "knows": { "from": "Person", "to": "Person" } },
        });
        let made = world.ok("schema_pack_create", pack.clone()).await;
        assert_eq!(made["pack"]["assigned"], false);
        assert!(world.err("schema_pack_create", pack).await.contains("publish the change as a new version"));
        assert_eq!(world.ok("schema_version", json!({})).await["packs"], json!([]));
        world.ok("entities_create", json!({ "type": "Person" })).await;
        world.ok("schema_pack_assign", json!({ "id": "people" })).await;

        let said = world.err("entities_create", json!({ "type": "Person", "properties": {} })).await;
        assert!(said.contains("`objects[0].properties.name`: is required"), "{said}");
        let version = world.ok("schema_version", json!({})).await;
        assert_eq!(version["packs"], json!([{ "name": "people", "version": "1.0.0" }]));
        let types = world.ok("schema_list_types", json!({})).await;
        assert_eq!(types["objectTypes"], json!([{ "name": "Person", "count": 1, "described": true }]));
        assert_eq!(types["relationshipTypes"][0]["to"], "Person");
        let shown = world.ok("schema_get_type", json!({ "name": "Person" })).await;
        assert_eq!(shown["objectType"]["schemas"][0]["schema"], person);
        assert_eq!(shown["objectType"]["outgoing"], json!([{ "type": "knows", "to": "Person" }]));
        let said = world.err("schema_get_type", json!({ "name": "Persn" })).await;
        assert!(said.contains("did you mean `Person`?"), "{said}");
    }

    async fn a_document_is_kept_once_found_and_read_in_parts(db: TestDb) {
        let world = World::new(&db).await;
        let text = format!("# Soup\n\nTomatoes simmer slowly. {}", "é".repeat(300));
        let new = json!({ "title": "Recipes", "content": text, "mimeType": "text/markdown", "metadata": { "by": "me" } });
        let made = world.ok("documents_create", new.clone()).await;
        assert_eq!(made["created"], true);
        assert_eq!(world.ok("documents_create", new).await["created"], false);
        let id = &made["document"]["id"];

        let found = world.ok("documents_search", json!({ "query": "tomatoes", "fields": ["title", "start"] })).await;
        assert_eq!(each(&found, "hits", "/chunk/title"), ["Recipes"]);
        let listed = world.ok("documents_list", json!({ "fields": ["title"] })).await;
        assert_eq!(listed["documents"], json!([{ "id": id, "title": "Recipes" }]));

        let (mut read, mut offset) = (String::new(), json!(0));
        loop {
            let part = world.ok("documents_get", json!({ "id": id, "offset": offset, "maxBytes": 101 })).await;
            read.push_str(part["text"].as_str().unwrap());
            match part.get("nextOffset") {
                Some(next) => offset = next.clone(),
                None => break,
            }
        }
        let project = world.project;
        let whole = world.graph.document_text(project, id.as_str().unwrap().parse().unwrap()).await.unwrap();
        assert_eq!(read, whole);
        let none = world.ok("documents_get", json!({ "id": id, "maxBytes": 0 })).await;
        assert_eq!((none.get("text"), &none["document"]["metadata"]), (None, &json!({ "by": "me" })));
    }

    async fn the_overview_counts_what_the_project_has(db: TestDb) {
        let world = World::new(&db).await;
        world.ok("entities_create", json!({
            "objects": [{ "type": "B" }, { "type": "A", "ref": "a" }, { "type": "A", "ref": "b" }],
            "relationships": [{ "type": "r", "fromRef": "a", "toRef": "b" }],
        })).await;
        world.over_there().ok("entities_create", json!({ "type": "C" })).await;
        let info = world.ok("project_info", json!({})).await;
        assert_eq!(info["project"]["name"], "here");
        assert_eq!(info["objectsByType"], json!({ "A": 2, "B": 1 }));
        assert_eq!((&info["objects"], &info["relationshipsByType"]), (&json!(3), &json!({ "r": 1 })));
    }
}

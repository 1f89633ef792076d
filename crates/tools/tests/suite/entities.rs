//! The tools over objects and relationships do what they say.

use emergent_testkit::both_engines;
use serde_json::json;

use crate::support;
use support::*;

both_engines! {
    async fn one_entity_is_made_and_read_by_id_and_by_key(db: TestDb) {
        let world = World::new(&db).await;
        let made = world
            .ok("entities_create", json!({
                "type": "Task", "key": "login", "status": "open", "labels": ["b", "a"],
                "properties": { "title": "Login", "points": 3 },
            }))
            .await;
        let id = made["objects"][0]["id"].as_str().unwrap().to_owned();
        for name in [id.as_str(), "Task/login"] {
            let object = world.ok("entities_get", json!({ "id": name })).await["object"].clone();
            assert_eq!(object["id"], id.as_str());
            assert_eq!(object["properties"], json!({ "title": "Login", "points": 3 }));
            assert_eq!(object["labels"], json!(["a", "b"]));
            assert_eq!((&object["status"], &object["version"]), (&json!("open"), &json!(1)));
        }
        let small = world.ok("entities_get", json!({ "id": id, "fields": ["title", "key"] })).await;
        assert_eq!(
            small,
            json!({ "object": { "id": id, "type": "Task", "key": "login", "properties": { "title": "Login" } } })
        );
        let several = world.ok("entities_get", json!({ "ids": [id, "Task/none"], "fields": ["key"] })).await;
        assert_eq!(each(&several, "objects", "/key"), ["login"]);
        assert_eq!(several["missing"], json!(["Task/none"]));
    }

    async fn several_entities_come_with_their_relationships_or_not_at_all(db: TestDb) {
        let world = World::new(&db).await;
        world.ok("entities_create", json!({ "type": "Person", "key": "ada" })).await;
        let made = world
            .ok("entities_create", json!({
                "objects": [
                    { "ref": "a", "type": "Task", "key": "a" },
                    { "type": "Task", "key": "b/c" },
                ],
                "relationships": [
                    { "type": "needs", "fromRef": "a", "toId": "Task/b/c", "weight": 0.5 },
                    { "type": "owned_by", "fromRef": "a", "toId": "Person/ada" },
                ],
            }))
            .await;
        assert_eq!(made["refs"]["a"], made["objects"][0]["id"]);
        assert_eq!(each(&made, "relationships", "/type"), ["needs", "owned_by"]);
        let around = world.ok("graph_neighbors", json!({ "id": "Task/a", "fields": ["key"] })).await;
        let mut keys = each(&around, "neighbors", "/object/key");
        keys.sort_unstable();
        assert_eq!(keys, ["ada", "b/c"]);

        let before = world.changes(world.project).await;
        for (wrong, why) in [
            (json!([{ "type": "needs", "fromRef": "x", "toId": "Person/bob" }]), "no object `Person/bob`"),
            (json!([{ "type": "needs", "fromRef": "y", "toId": "Person/ada" }]), "has the ref `y`"),
            (json!([{ "type": "needs", "fromRef": "x" }]), "`relationships[0].toId`: give one of `toRef`"),
        ] {
            let said = world
                .err("entities_create", json!({ "ref": "x", "type": "Task", "relationships": wrong }))
                .await;
            assert!(said.contains(why), "{said}");
        }
        let taken = json!({ "objects": [{ "type": "Task", "key": "new" }, { "type": "Task", "key": "a" }] });
        assert!(world.err("entities_create", taken).await.contains("the key `a` of type `Task` is already used"));
        assert_eq!(world.changes(world.project).await, before, "nothing is left of what was refused");
    }

    async fn a_change_that_is_rolled_back_leaves_nothing(db: TestDb) {
        let world = World::new(&db).await;
        world.ok("entities_create", json!({
            "objects": [{ "ref": "a", "type": "T", "key": "a" }, { "ref": "b", "type": "T", "key": "b" }],
            "relationships": [{ "type": "r", "fromRef": "a", "toRef": "b" }],
        })).await;
        world.ok("entities_create", json!({ "type": "T", "key": "gone" })).await;
        world.ok("entities_delete", json!({ "id": "T/gone" })).await;
        let pack = json!({ "name": "p", "version": "1.0.0", "objectTypeSchemas": { "T": { "type": "object" } } });
        world.ok("schema_pack_create", pack).await;
        let edge = json!({ "type": "r", "fromId": "T/a", "toId": "T/b" });
        let overview = world.ok("project_info", json!({})).await;
        let before = world.changes(world.project).await;
        for (name, input) in [
            ("entities_create", json!({ "type": "T", "key": "c" })),
            ("entities_update", json!({ "id": "T/a", "status": "done" })),
            ("entities_delete", json!({ "id": "T/a" })),
            ("entities_restore", json!({ "id": "T/gone" })),
            ("relationships_create", json!({ "type": "s", "fromId": "T/a", "toId": "T/b" })),
            ("relationships_update", json!({ "type": "r", "fromId": "T/a", "toId": "T/b", "weight": 2 })),
            ("relationships_delete", edge.clone()),
            ("documents_create", json!({ "title": "x", "content": "some text" })),
            ("schema_pack_create", json!({ "name": "q", "version": "1.0.0" })),
            ("schema_pack_assign", json!({ "id": "p@1.0.0" })),
        ] {
            world.call_tool(tool(name).as_ref(), input, Fate::RollBack).await.unwrap();
        }
        assert_eq!(world.changes(world.project).await, before);
        assert_eq!(world.ok("project_info", json!({})).await, overview);
        assert_eq!(world.ok("relationships_get", edge).await["relationship"]["version"], 1);
        assert_eq!(world.ok("schema_packs_list", json!({})).await["packs"][0]["assigned"], false);
    }

    async fn an_entity_is_changed_deleted_and_brought_back_by_its_key(db: TestDb) {
        let world = World::new(&db).await;
        world.ok("entities_create", json!({ "type": "Task", "key": "a", "properties": { "x": 1, "y": 2 } })).await;
        let object = world
            .ok("entities_update", json!({ "id": "Task/a", "status": "done", "properties": { "x": null, "z": 3 } }))
            .await["object"].clone();
        assert_eq!(object["properties"], json!({ "y": 2, "z": 3 }));
        assert_eq!(object["version"], 2);
        let late = world
            .err("entities_update", json!({ "id": "Task/a", "status": null, "expectedVersion": 1 }))
            .await;
        assert!(late.contains("is at version 2, not 1"), "{late}");
        assert!(world.err("entities_update", json!({ "id": "Task/a" })).await.contains("nothing to change"));

        let gone = world.ok("entities_delete", json!({ "id": "Task/a" })).await;
        assert_eq!(gone["deleted"]["key"], "a");
        assert_eq!(world.err("entities_get", json!({ "id": "Task/a" })).await, "there is no object `Task/a`");
        let versions = world.ok("entities_history", json!({ "id": "Task/a", "fields": ["version"] })).await;
        assert_eq!(versions["versions"].as_array().unwrap().len(), 3);
        assert_eq!(versions["versions"][0]["author"]["runId"], world.run.to_string());
        let back = world.ok("entities_restore", json!({ "id": "Task/a" })).await;
        assert_eq!(back["object"]["status"], "done");
    }

    async fn a_query_filters_sorts_and_pages_without_repeating_or_losing_any(db: TestDb) {
        let world = World::new(&db).await;
        let objects: Vec<_> = (0..7)
            .map(|n| json!({
                "type": "Task", "key": format!("t{n}"), "status": if n < 5 { "open" } else { "done" },
                "properties": { "rank": (n * 3) % 7, "even": n % 2 == 0 },
            }))
            .collect();
        world.ok("entities_create", json!({ "objects": objects })).await;
        world.ok("entities_create", json!({ "type": "Note", "key": "n" })).await;

        let open = world.ok("entities_query", json!({
            "type": "Task", "status": "open", "filters": [{ "path": "even", "op": "eq", "value": true }],
            "sort": "key", "order": "asc", "fields": ["key"],
        })).await;
        assert_eq!(each(&open, "objects", "/key"), ["t0", "t2", "t4"]);
        assert_eq!(open.get("nextCursor"), None);

        for (sort, order, expected) in [
            ("properties.rank", "asc", ["t0", "t5", "t3", "t1", "t6", "t4", "t2", "n"]),
            ("properties.rank", "desc", ["t2", "t4", "t6", "t1", "t3", "t5", "t0", "n"]),
        ] {
            let mut input = json!({ "sort": sort, "order": order, "limit": 3, "fields": ["key"] });
            let mut keys = Vec::new();
            loop {
                let answer = world.ok("entities_query", input.clone()).await;
                keys.extend(each(&answer, "objects", "/key").into_iter().map(str::to_owned));
                match answer.get("nextCursor") {
                    Some(next) => input["cursor"] = next.clone(),
                    None => break,
                }
            }
            assert_eq!(keys, expected, "{sort} {order}");
            input["order"] = json!(if order == "asc" { "desc" } else { "asc" });
            assert!(world.err("entities_query", input).await.contains("`cursor`: is not a `nextCursor` of this query"));
        }

        let first = world.ok("entities_query", json!({ "limit": 5, "fields": ["key"] })).await;
        let rest = world.ok("entities_query", json!({ "limit": 5, "cursor": first["nextCursor"] })).await;
        assert_eq!(first["objects"].as_array().unwrap().len() + rest["objects"].as_array().unwrap().len(), 8);
    }

    async fn a_relationship_is_named_by_its_id_or_by_its_ends(db: TestDb) {
        let world = World::new(&db).await;
        world.ok("entities_create", json!({ "objects": [{ "type": "T", "key": "a" }, { "type": "T", "key": "b" }] })).await;
        let ends = json!({ "type": "r", "fromId": "T/a", "toId": "T/b" });
        let made = world.ok("relationships_create", ends.clone()).await["relationships"][0].clone();
        assert_eq!(made["created"], true);
        let again = world.ok("relationships_create", json!({ "relationships": [ends.clone()] })).await;
        assert_eq!((&again["relationships"][0]["id"], &again["relationships"][0]["created"]), (&made["id"], &json!(false)));

        let mut change = ends.clone();
        change["properties"] = json!({ "why": "x" });
        assert_eq!(world.ok("relationships_update", change).await["relationship"]["version"], 2);
        let by_id = world.ok("relationships_get", json!({ "id": made["id"] })).await;
        assert_eq!(by_id["relationship"]["properties"], json!({ "why": "x" }));
        let listed = world.ok("relationships_list", json!({ "toId": "T/b", "fields": ["type"] })).await;
        assert_eq!(listed["relationships"], json!([{ "id": made["id"], "type": "r" }]));
        world.ok("relationships_delete", ends.clone()).await;
        let said = world.err("relationships_get", ends).await;
        assert_eq!(said, "there is no relationship `r from T/a to T/b`");
        assert!(world.err("relationships_get", json!({ "type": "r" })).await.contains("by its `id`, or by all of"));
    }
}

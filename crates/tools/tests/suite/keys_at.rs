//! Tools that read an earlier time by a key: the key names the entity that had it then.

use std::time::Duration;

use emergent_testkit::both_engines;
use serde_json::{Value, json};

use crate::support;
use support::*;

/// A time after all that was written so far, and before all that is written next.
fn moment(world: &World) -> Value {
    let clock = world.graph.clock();
    clock.advance(Duration::from_secs(60));
    let now = clock.now();
    clock.advance(Duration::from_secs(60));
    json!(now)
}

both_engines! {
    async fn a_tool_finds_the_entity_that_had_the_key_at_the_time(db: TestDb) {
        let world = World::new(&db).await;
        let made = world.ok("entities_create", json!({ "objects": [{ "type": "P", "key": "a" }, { "type": "P", "key": "b" }] })).await;
        let (a, b) = (made["objects"][0]["id"].clone(), made["objects"][1]["id"].clone());
        world.ok("relationships_create", json!({ "type": "knows", "fromId": "P/a", "toId": "P/b" })).await;
        let then = moment(&world);
        world.ok("entities_update", json!({ "id": "P/a", "key": "renamed" })).await;
        let made = world.ok("entities_create", json!({ "objects": [{ "type": "P", "key": "a" }] })).await;
        let successor = made["objects"][0]["id"].clone();
        world.ok("entities_delete", json!({ "id": "P/b" })).await;
        let now = moment(&world);

        for (time, id) in [(&then, &a), (&now, &successor)] {
            let found = world.ok("entities_get", json!({ "id": "P/a", "asOf": time })).await;
            assert_eq!((&found["object"]["id"], &found["object"]["key"]), (id, &json!("a")), "{found}");
            let around = world.ok("graph_traverse", json!({ "startIds": ["P/a"], "asOf": time })).await;
            assert_eq!(&around["nodes"][0]["id"], id, "{around}");
        }
        let ends = json!({ "fromId": "P/a", "toId": "P/b", "asOf": then });
        let way = world.ok("graph_path", ends).await;
        assert_eq!(way["found"], true, "{way}");
        let named = json!({ "type": "knows", "fromId": "P/a", "toId": "P/b", "asOf": then });
        let edge = world.ok("relationships_get", named).await["relationship"].clone();
        assert_eq!((&edge["fromId"], &edge["toId"]), (&a, &b));
        let near = world.ok("graph_neighbors", json!({ "id": "P/a", "asOf": then })).await;
        assert_eq!(each(&near, "neighbors", "/object/key"), ["b"]);
        assert_eq!(world.ok("graph_neighbors", json!({ "id": "P/a", "asOf": now })).await["neighbors"], json!([]));
    }

    async fn a_tool_says_why_there_was_no_entity_at_the_time(db: TestDb) {
        let world = World::new(&db).await;
        let before = moment(&world);
        world.ok("entities_create", json!({ "objects": [{ "type": "P", "key": "a" }, { "type": "P", "key": "b" }] })).await;
        moment(&world);
        let deleted_at = world.graph.clock().now();
        world.ok("entities_delete", json!({ "id": "P/a" })).await;
        let after = moment(&world);
        let refused = |time: &Value| {
            [
                ("entities_get", json!({ "id": "P/a", "asOf": time })),
                ("graph_neighbors", json!({ "id": "P/a", "asOf": time })),
                ("graph_traverse", json!({ "startIds": ["P/a"], "asOf": time })),
                ("graph_path", json!({ "fromId": "P/a", "toId": "P/b", "asOf": time })),
                ("relationships_get", json!({ "type": "knows", "fromId": "P/a", "toId": "P/b", "asOf": time })),
            ]
        };
        for (tool, input) in refused(&before) {
            let why = world.err(tool, input).await;
            assert!(why.contains(&format!("the object `P/a` did not exist at {}", before.as_str().unwrap())), "{tool}: {why}");
        }
        for (tool, input) in refused(&after) {
            let why = world.err(tool, input).await;
            assert!(why.contains(&format!("the object `P/a` was deleted at {deleted_at}")), "{tool}: {why}");
        }
    }
}

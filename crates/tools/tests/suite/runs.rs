//! The tools that look back at runs.

use emergent_testkit::both_engines;
use serde_json::json;

use crate::support;
use support::*;

both_engines! {
    async fn runs_are_listed_and_read_with_what_was_said_and_done(db: TestDb) {
        let world = World::new(&db).await;
        let id = world.record_run("researcher", "Three things.").await.to_string();
        world.record_run("writer", "A text.").await;

        let listed = world.ok("runs_list", json!({ "agent": "researcher", "fields": ["agent", "summary"] })).await;
        assert_eq!(listed["runs"], json!([{ "id": id, "agent": "researcher", "summary": "Three things." }]));
        assert_eq!(world.ok("runs_list", json!({ "status": "failed" })).await["runs"], json!([]));
        assert_eq!(world.ok("runs_list", json!({})).await["runs"].as_array().unwrap().len(), 2);

        let run = world.ok("runs_get", json!({ "id": id })).await["run"].clone();
        assert_eq!((&run["status"], &run["steps"], &run["rehearsal"]), (&json!("completed"), &json!(1), &json!(true)));
        assert_eq!(run["toolCalls"], json!([{ "tool": "project_info", "count": 1, "errors": 0 }]));
        assert_eq!(run["tokens"]["input"], 7);

        let said = world.ok("runs_messages", json!({ "id": id })).await;
        assert_eq!(each(&said, "messages", "/role"), ["user", "assistant", "tool_result"]);
        assert_eq!(said["messages"][1]["text"], "Three things.");
        assert_eq!(said["messages"][1]["calls"][0]["tool"], "project_info");
        assert_eq!(said["messages"][2]["output"], json!({ "objects": 3 }));
        assert!(!said.to_string().contains("the prompt nobody sees"));
    }

    async fn messages_come_in_pages_that_join(db: TestDb) {
        let world = World::new(&db).await;
        let id = world.record_run("researcher", "Three things.").await.to_string();
        let mut input = json!({ "id": id, "limit": 1, "fields": ["role"] });
        let mut roles = Vec::new();
        loop {
            let answer = world.ok("runs_messages", input.clone()).await;
            roles.extend(each(&answer, "messages", "/role").into_iter().map(str::to_owned));
            match answer.get("nextCursor") {
                Some(next) => input["cursor"] = next.clone(),
                None => break,
            }
        }
        assert_eq!(roles, ["user", "assistant", "tool_result"]);
        let only = world.ok("runs_messages", json!({ "id": id, "role": "assistant" })).await;
        assert_eq!(each(&only, "messages", "/role"), ["assistant"]);
    }

    async fn an_agent_that_is_not_there_is_named(db: TestDb) {
        let world = World::new(&db).await;
        world.record_run("researcher", "x").await;
        assert_eq!(world.err("runs_list", json!({ "agent": "reader" })).await, "there is no agent `reader`");
        let misspelt = world.err("runs_list", json!({ "agent": "reseacher" })).await;
        assert!(misspelt.contains("there is no agent `reseacher`; did you mean `researcher`?"), "{misspelt}");
    }
}

//! Discussions over HTTP: how they are held is said by tasks and projects, and lists are filtered by what exists.

use emergent_testkit::both_engines;
use serde_json::json;

use crate::common::Server;

both_engines! {
    async fn an_unknown_status_of_discussions_is_refused_with_its_field(db: TestDb) {
        let server = Server::start(&db).await;
        let client = server.admin();
        for status in ["active", "resolved", "escalated", "abandoned"] {
            client.get(&format!("/api/coordination/discussions?status={status}")).await.is(200);
        }
        let refused = client.get("/api/coordination/discussions?status=open").await;
        refused.refused(400, "invalid");
        assert_eq!(refused.field(), "status");
        assert!(refused.text.contains("active, resolved, escalated, abandoned"), "{}", refused.text);
    }

    async fn a_task_and_a_project_say_how_discussions_are_held(db: TestDb) {
        let server = Server::start(&db).await;
        let client = server.admin();
        client.agent("writer", json!({})).await;
        let phases = json!([{ "name": "ask", "agents": ["writer"], "maxRounds": 2, "output": "question" }]);
        let discussion = json!({ "kind": "collaboration", "rounds": 2, "threshold": 0.6, "quorum": 2, "phases": phases });
        let mut task = json!({ "key": "a", "title": "A", "discussion": discussion });
        let added = client.post("/api/coordination/tasks", task.clone()).await.is(201).clone();
        assert_eq!(added["discussion"], discussion);
        for (wrong, field) in [
            (json!({ "kind": "chat" }), "discussion.kind"),
            (json!({ "rounds": 11 }), "discussion.rounds"),
            (json!({ "threshold": 0 }), "discussion.threshold"),
            (json!({ "phases": [{ "name": "x", "output": "song" }] }), "discussion.phases[0].output"),
            (json!({ "phases": [{ "name": "x", "agents": ["nobody"] }] }), "discussion.phases[0].agents[0]"),
        ] {
            task["discussion"] = wrong;
            let refused = client.post("/api/coordination/dispatch", json!({ "tasks": [task] })).await;
            refused.refused(400, "invalid");
            assert_eq!(refused.field(), format!("tasks[0].{field}"), "{}", refused.text);
        }
        let project = client.get("/api/projects").await.is(200)[0]["id"].as_str().unwrap().to_owned();
        let path = format!("/api/projects/{project}");
        let changed = client.patch(&path, json!({ "discussions": discussion })).await.is(200).clone();
        assert_eq!(changed["discussions"], discussion);
        let refused = client.patch(&path, json!({ "discussions": { "phases": [{ "name": "" }] } })).await;
        refused.refused(400, "invalid");
        assert_eq!(refused.field(), "discussions.phases[0].name");
    }
}

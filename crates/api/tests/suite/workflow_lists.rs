//! The list of workflows shows how far each is, and what it has spent.

use crate::coordination;

use emergent_testkit::both_engines;
use serde_json::{Value, json};

fn task(key: &str, agent: &str, blocked_by: &[&str]) -> Value {
    json!({ "key": key, "title": key, "description": format!("do {key}"), "assignedAgent": agent, "blockedBy": blocked_by, "maxRetries": 0 })
}

both_engines! {
    async fn a_listed_workflow_has_the_numbers_of_its_tasks_and_its_spend(db: TestDb) {
        let server = coordination::server(&db).await;
        let client = server.admin();
        let waiting = client.start(json!({ "tasks": [task("a", "writer", &[]), task("b", "writer", &["a"])] })).await;
        let listed = client.get("/api/coordination/workflows").await.is(200)[0].clone();
        assert_eq!(listed["id"], json!(waiting));
        assert_eq!(listed["taskCounts"], json!({ "total": 2, "pending": 2, "inProgress": 0, "completed": 0, "failed": 0, "paused": 0, "skipped": 0 }));
        assert_eq!((&listed["spent"]["tokens"], &listed["reserved"]["tokens"]), (&json!(0), &json!(0)));

        let _dispatcher = server.dispatch();
        client.reaches(&waiting, "completed").await;
        let failing = client.start(json!({ "tasks": [task("c", "broken", &[]), task("d", "writer", &["c"]), task("e", "writer", &[])], "onFailure": "skip" })).await;
        let failed = client.reaches(&failing, "failed").await;
        let page = client.get("/api/coordination/workflows").await.is(200).clone();
        let find = |id: &str| page.as_array().unwrap().iter().find(|one| one["id"] == id).unwrap().clone();
        let (done, failed_one) = (find(&waiting), find(&failing));
        assert_eq!((&done["taskCounts"]["completed"], &done["taskCounts"]["total"]), (&json!(2), &json!(2)), "{done:#}");
        let counts = &failed_one["taskCounts"];
        assert_eq!((&counts["failed"], &counts["skipped"], &counts["completed"]), (&json!(1), &json!(1), &json!(1)), "{counts}");
        // The list has the sums of the workflow itself, and all that it had before.
        assert_eq!((&failed_one["spent"], &failed_one["reserved"]), (&failed["budget"]["spent"], &failed["budget"]["reserved"]));
        let detail = client.get(&format!("/api/coordination/workflows/{waiting}")).await.is(200).clone();
        assert_eq!(done["spent"], detail["budget"]["spent"]);
        assert!(done["spent"]["tokens"].as_i64().unwrap() > 0, "{done:#}");
        assert!(done["settings"].is_object() && done["createdAt"].is_string());
    }
}

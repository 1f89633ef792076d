//! What a run wrote to the graph, as a list.

use crate::common;

use common::{Client, Server};
use emergent_domain::token::Scope;
use emergent_testkit::{
    both_engines,
    scripted::{ScriptedModel, calls, says},
};
use serde_json::{Value, json};

/// Returns all writes, read in pages of this size.
async fn writes(client: &Client, path: &str, limit: usize) -> Vec<Value> {
    let mut found = Vec::new();
    let separator = if path.contains('?') { '&' } else { '?' };
    let mut next = format!("{path}{separator}limit={limit}");
    loop {
        let page = client.get(&next).await;
        let items = page.is(200).as_array().unwrap().clone();
        assert!(items.len() <= limit);
        found.extend(items);
        let Some(cursor) = page.headers.get("x-next-cursor") else { return found };
        next = format!("{path}{separator}limit={limit}&cursor={}", cursor.to_str().unwrap());
    }
}

/// The parts that a reader compares: kind, type, name, change, versions before and after, tool and step.
fn line(write: &Value) -> String {
    let text = |field: &str| match &write[field] {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let fields =
        ["kind", "type", "name", "change", "versionBefore", "versionAfter", "toolName", "stepNumber"];
    fields.map(text).join(" ")
}

fn lines(writes: &[Value]) -> Vec<String> {
    writes.iter().map(line).collect()
}

both_engines! {
    async fn the_writes_of_a_run_are_listed_version_by_version(db: TestDb) {
        let model = ScriptedModel::new([
            calls("entities_create", json!({ "type": "Note", "key": "a", "properties": { "title": "One" } })),
            calls("entities_update", json!({ "id": "Note/a", "properties": { "title": "Two" } })),
            calls("entities_update", json!({ "id": "Note/old", "properties": { "title": "Newer" } })),
            calls("relationships_create", json!({ "type": "mentions", "fromId": "Note/a", "toId": "Note/old" })),
            calls("entities_delete", json!({ "id": "Note/a" })),
            calls("entities_restore", json!({ "id": "Note/a" })),
            calls("documents_create", json!({ "title": "Minutes", "content": "We met." })),
            says("Done."),
        ]);
        let server = Server::with_models(&db, 1_024, model.models()).await;
        let _runner = server.drive();
        let client = server.admin();
        let old = client.object("Note", "old", json!({ "title": "Old" })).await;
        let tools = ["entities_create", "entities_update", "entities_delete", "entities_restore", "relationships_create", "documents_create"];
        let agent = client.agent("writer", json!({ "tools": tools })).await;
        let run = client.run_to_end(&agent, "write").await;
        assert_eq!(run["status"], "completed", "{run:#}");
        let id = run["id"].as_str().unwrap();
        let path = format!("/api/admin/agents/{agent}/runs/{id}/writes");

        let found = writes(&client, &path, 100).await;
        assert_eq!(lines(&found), [
            "object Note a created null 1 entities_create 1",
            "object Note a updated 1 2 entities_update 2",
            "object Note old updated 1 2 entities_update 3",
            "relationship mentions null created null 1 relationships_create 4",
            "object Note a deleted 2 3 entities_delete 5",
            "relationship mentions null deleted 1 2 entities_delete 5",
            "object Note a restored 3 4 entities_restore 6",
            "relationship mentions null restored 2 3 entities_restore 6",
            "document text/plain Minutes created null 1 documents_create 7",
        ], "{found:#?}");
        assert_eq!((&found[0]["currentVersion"], &found[2]["currentVersion"]), (&json!(4), &json!(2)));
        assert_eq!((&found[3]["fromId"], &found[3]["toId"]), (&found[0]["id"], &json!(old)));
        assert!(found.iter().all(|write| write["runId"] == id && write["agentName"] == "writer"));
        let call = found[0]["toolCallId"].as_str().unwrap();
        let call = client.get(&format!("/api/admin/agents/{agent}/runs/{id}/tool-calls/{call}")).await.is(200).clone();
        assert_eq!(call["toolName"], "entities_create");
        // Small pages have the same entries, each once.
        assert_eq!(writes(&client, &path, 2).await, found);
        // What somebody else did is not a write of the run, and what was reverted is still listed.
        client.post(&format!("/api/admin/agents/{agent}/runs/{id}/revert"), json!({})).await.is(200);
        let after = writes(&client, &path, 100).await;
        assert_eq!(lines(&after), lines(&found));
        assert_eq!(after[2]["currentVersion"], 3, "the revert made a version");
    }

    async fn a_tree_has_the_writes_of_the_runs_below_and_nobody_elses(db: TestDb) {
        let create = |key: &str| calls("entities_create", json!({ "type": "Note", "key": key, "properties": {} }));
        let model = ScriptedModel::default()
            .agent("lead", [create("lead"), calls("spawn_agents", json!({ "tasks": [{ "agent_name": "helper", "task": "a" }] })), says("Both did.")])
            .agent("helper", [create("helper"), says("done")])
            .agent("other", [create("other"), says("done")]);
        let server = Server::with_models(&db, 1_024, model.models()).await;
        let _runner = server.drive();
        let client = server.admin();
        let lead = client.agent("lead", json!({ "tools": ["spawn_agents", "entities_create"] })).await;
        client.agent("helper", json!({ "tools": ["entities_create"] })).await;
        let other = client.agent("other", json!({ "tools": ["entities_create"] })).await;
        client.run_to_end(&other, "go").await;
        let run = client.run_to_end(&lead, "go").await;
        let path = format!("/api/admin/agents/{lead}/runs/{}/writes", run["id"].as_str().unwrap());
        let names = |found: &[Value]| found.iter().map(|write| format!("{} {}", write["agentName"], write["name"])).collect::<Vec<_>>();
        assert_eq!(names(&writes(&client, &path, 10).await), [r#""lead" "lead""#]);
        let tree = writes(&client, &format!("{path}?tree=true"), 1).await;
        assert_eq!(names(&tree), [r#""lead" "lead""#, r#""helper" "helper""#]);
        assert_eq!(tree[1]["runId"], run["childRuns"][0]["id"]);
    }

    async fn writes_are_for_readers_of_runs_of_this_project(db: TestDb) {
        let server = Server::with_models(&db, 1_024, ScriptedModel::new([says("ok")]).models()).await;
        let _runner = server.drive();
        let client = server.admin();
        let agent = client.agent("a", json!({})).await;
        let run = client.run_to_end(&agent, "go").await;
        let path = format!("/api/admin/agents/{agent}/runs/{}/writes", run["id"].as_str().unwrap());
        assert_eq!(client.get(&path).await.is(200), &json!([]), "it wrote nothing");
        let reader = server.client(Some(&server.token(&[Scope::GraphRead], None).await));
        reader.get(&path).await.refused(403, "missing_scope");
        let elsewhere = server.project("elsewhere").await;
        client.in_project(elsewhere).get(&path).await.refused(404, "not_found");
        assert_eq!(client.get(&format!("{path}?limit=0")).await.field(), "limit");
        assert_eq!(client.get(&format!("{path}?tree=maybe")).await.field(), "tree");
        let missing = path.replace(run["id"].as_str().unwrap(), "01890000-0000-7000-8000-000000000000");
        client.get(&missing).await.refused(404, "not_found");
    }
}

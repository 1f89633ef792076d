//! A dry run of saving an agent makes every check and writes nothing.

use crate::{common::Server, streams::Frames};

use emergent_testkit::both_engines;
use serde_json::json;

const AGENTS: &str = "/api/admin/agents";
const DRY: &str = "/api/admin/agents?dryRun=true";

both_engines! {
    async fn a_dry_run_returns_the_agent_with_its_warnings_and_saves_nothing(db: TestDb) {
        let server = Server::start(&db).await;
        let client = server.admin().in_project(server.default_project);
        let mut frames = Frames::open(&client, "/api/events?types=agent", None).await;
        assert_eq!(frames.next().await.unwrap().1["type"], "ready");
        let definition = json!({ "name": "writer", "tools": ["nothing_like_this_*"], "trigger": "0 9 * * MON" });
        let tried = client.post(DRY, definition.clone()).await.is(200).clone();
        assert_eq!((&tried["name"], &tried["version"]), (&json!("writer"), &json!(1)));
        assert!(tried["warnings"].to_string().contains("nothing_like_this_*"), "{tried:#}");
        assert_eq!(client.get(AGENTS).await.is(200), &json!([]));
        assert_eq!(client.get("/api/admin/triggers").await.is(200)["schedules"], json!([]));
        assert_eq!(client.get("/api/admin/audit?action=agent").await.is(200), &json!([]));

        let saved = client.post(AGENTS, definition).await.is(201).clone();
        assert_ne!(saved["id"], tried["id"], "a dry run reserves no id");
        let path = format!("{AGENTS}/{}", saved["id"].as_str().unwrap());
        let changed = client.patch(&format!("{path}?dryRun=true"), json!({ "description": "It writes." })).await.is(200).clone();
        assert_eq!((&changed["description"], &changed["version"]), (&json!("It writes."), &json!(2)));
        let stored = client.get(&path).await.is(200).clone();
        assert_eq!((&stored["version"], &stored["updatedAt"]), (&json!(1), &saved["updatedAt"]));
        // The stream tells only of what was saved.
        client.agent("editor", json!({})).await;
        for name in ["writer", "editor"] {
            assert_eq!(frames.next().await.unwrap().1["name"], name);
        }
    }

    async fn a_dry_run_refuses_what_saving_refuses(db: TestDb) {
        let server = Server::start(&db).await;
        let client = server.admin();
        let agent = client.agent("writer", json!({})).await;
        let wrong = client.post(DRY, json!({ "name": "other", "tools": ["entitys_create"] })).await;
        wrong.refused(400, "invalid");
        assert_eq!(wrong.field(), "tools[0]");
        client.post(DRY, json!({ "name": "writer" })).await.refused(409, "conflict");
        let path = format!("{AGENTS}/{agent}?dryRun=true");
        client.patch(&path, json!({ "description": "x", "expectedVersion": 7 })).await.refused(409, "version_conflict");
        assert_eq!(client.post("/api/admin/agents?dryRun=perhaps", json!({ "name": "x" })).await.field(), "dryRun");
        client.in_project(server.project("other").await).patch(&path, json!({ "description": "x" })).await.refused(404, "not_found");
    }
}

//! Typed output over HTTP: definitions with an output schema, and the output of their runs.

use crate::common;

use common::Server;
use emergent_testkit::{
    both_engines,
    scripted::{ScriptedModel, says},
};
use serde_json::{Value, json};

const AGENTS: &str = "/api/admin/agents";

both_engines! {
    async fn an_output_schema_is_part_of_the_definition(db: TestDb) {
        let server = Server::start(&db).await;
        let client = server.admin();
        let schema = json!({ "type": "object", "properties": { "due_date": { "const": null } } });
        let made = client.post(AGENTS, json!({ "name": "typed", "outputSchema": schema })).await.is(201).clone();
        assert_eq!(made["outputSchema"], schema);
        let path = format!("{AGENTS}/{}", made["id"].as_str().unwrap());
        assert_eq!(client.get(&path).await.is(200)["outputSchema"], schema);
        let other = json!({ "type": "array" });
        assert_eq!(client.patch(&path, json!({ "outputSchema": other })).await.is(200)["outputSchema"], other);
        assert_eq!(client.patch(&path, json!({ "outputSchema": null })).await.is(200)["outputSchema"], Value::Null);
        let versions = client.get(&format!("{path}/history")).await.is(200).clone();
        assert_eq!(versions[1]["definition"]["outputSchema"], other, "{versions}");
    }

    async fn a_schema_that_cannot_be_used_is_refused_with_its_place(db: TestDb) {
        let server = Server::start(&db).await;
        let client = server.admin();
        for (schema, field) in [
            (json!("object"), "outputSchema"),
            (json!(true), "outputSchema"),
            (json!({ "properties": { "a": { "type": "int" } } }), "outputSchema.properties.a.type"),
            (json!({ "$ref": "https://example.com/a.json" }), "outputSchema.$ref"),
            (json!({ "description": "x".repeat(40_000) }), "outputSchema"),
            (json!({ "const": "\0" }), "outputSchema"),
        ] {
            let refused = client.post(AGENTS, json!({ "name": "typed", "outputSchema": schema })).await;
            let details = refused.refused(400, "invalid")["details"].to_string();
            assert!(details.contains(&format!("\"{field}\"")), "{field}: {details}");
        }
        assert_eq!(client.get(AGENTS).await.is(200), &json!([]), "nothing was written");
    }

    async fn a_run_shows_its_output(db: TestDb) {
        let model = ScriptedModel::new([says("high"), says(r#"{"priority": "high"}"#)]);
        let server = Server::with_models(&db, 1_024, model.models()).await;
        let _runner = server.drive();
        let client = server.admin();
        let schema = json!({ "type": "object", "required": ["priority"] });
        let id = client.agent("triage", json!({ "outputSchema": schema, "model": { "provider": "scripted", "name": "lines" } })).await;
        let started = client.post(&format!("{AGENTS}/{id}/trigger"), json!({ "input": "Sort." })).await.is(202).clone();
        let path = format!("{AGENTS}/{id}/runs/{}", started["runId"].as_str().unwrap());
        let mut run = Value::Null;
        for _ in 0..1_000 {
            run = client.get(&path).await.is(200).clone();
            if run["status"] != "queued" && run["status"] != "running" {
                break;
            }
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
        assert_eq!((&run["status"], &run["output"]), (&json!("completed"), &json!({ "priority": "high" })), "{run}");
        assert_eq!(run["summary"]["text"], r#"{"priority": "high"}"#);
        let listed = client.get(&format!("{AGENTS}/{id}/runs")).await.is(200).clone();
        assert_eq!(listed[0]["output"], json!({ "priority": "high" }));
    }
}

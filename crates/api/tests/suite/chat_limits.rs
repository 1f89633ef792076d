//! What holds for every run holds for the answers of a conversation: its text is streamed as it is written, its tools,
//! its limits and its record.

use crate::chat::{ask, conversation, kinds, last, send, serve};

use emergent_testkit::{
    both_engines,
    scripted::{ScriptedModel, calls, hangs_after, says},
};
use serde_json::json;

both_engines! {
    async fn text_is_streamed_while_the_model_writes_it(db: TestDb) {
        let model = ScriptedModel::default();
        let (_server, client, _runner) = serve(&db, &model).await;
        let agent = client.agent("helper", json!({})).await;
        model.add("helper", [hangs_after("So far")]);
        let mut sent = send(&client, json!({ "message": "go", "agentDefinitionId": agent })).await;
        let meta = sent.next().await.unwrap();
        let (_, token) = sent.next().await.unwrap();
        assert_eq!((&token["type"], &token["text"]), (&json!("token"), &json!("So far")));
        let id = conversation(&[meta]);
        client.post(&format!("/api/chat/conversations/{id}/stop"), json!({})).await.is(200);
        assert_eq!(last(&sent.all().await)["message"]["content"], "So far");
    }

    async fn an_answer_whose_run_is_cancelled_keeps_the_text_that_was_written(db: TestDb) {
        let model = ScriptedModel::default();
        let (_server, client, _runner) = serve(&db, &model).await;
        let agent = client.agent("helper", json!({})).await;
        model.add("helper", [hangs_after("So far")]);
        let mut sent = send(&client, json!({ "message": "go", "agentDefinitionId": agent })).await;
        let (_, meta) = sent.next().await.unwrap();
        let run = meta["runId"].as_str().unwrap().to_owned();
        sent.next().await.unwrap();
        client.post(&format!("/api/admin/agents/{agent}/runs/{run}/cancel"), json!({})).await.is(200);
        let answer = last(&sent.all().await)["message"].clone();
        assert_eq!(answer["content"], "So far", "{answer}");
    }

    async fn the_tool_calls_of_an_answer_are_in_the_record_of_its_run(db: TestDb) {
        let model = ScriptedModel::default();
        let (_server, client, _runner) = serve(&db, &model).await;
        client.object("Person", "ada", json!({ "name": "Ada" })).await;
        model.add("helper", [calls("entities_query", json!({ "type": "Person" })), says("Ada.")]);
        let agent = client.agent("helper", json!({ "tools": ["entities_query"] })).await;
        let frames = ask(&client, json!({ "message": "who?", "agentDefinitionId": agent })).await;
        let answer = &last(&frames)["message"];
        let run = answer["retrievalContext"]["agentRunId"].as_str().unwrap();
        assert_eq!(answer["runId"], run);
        let path = format!("/api/admin/agents/{agent}/runs/{run}/tool-calls");
        let recorded = client.get(&path).await.is(200).clone();
        assert_eq!((recorded.as_array().unwrap().len(), &recorded[0]["status"]), (1, &json!("completed")));
        let shown = frames.iter().find(|(_, frame)| frame["status"] == "completed").unwrap();
        assert_eq!(shown.1["toolCallId"], recorded[0]["id"]);
    }

    async fn the_limits_of_an_agent_end_its_answer(db: TestDb) {
        let look = || calls("entities_query", json!({ "type": "Person" }));
        let model = ScriptedModel::default();
        let (_server, client, _runner) = serve(&db, &model).await;
        let limited = client.agent("limited", json!({ "tools": ["entities_query"], "maxSteps": 2 })).await;
        model.add("limited", [look(), calls("entities_query", json!({ "type": "Place" })), says("As far as I came.")]);
        let frames = ask(&client, json!({ "message": "go", "agentDefinitionId": limited })).await;
        let paused = &last(&frames)["message"];
        assert_eq!((&paused["status"], &paused["reason"]), (&json!("paused"), &json!("step_limit")), "{paused}");
        // The conversation goes on with another message: a run that is resumed beside it would answer nobody.
        let run = paused["runId"].as_str().unwrap();
        client.post(&format!("/api/admin/agents/{limited}/runs/{run}/resume"), json!({})).await.is(409);
        // The same call over and over ends the run as everywhere.
        let looping = client.agent("looping", json!({ "tools": ["entities_query"], "maxSteps": 50 })).await;
        model.add("looping", (0..20).map(|_| look()));
        let frames = ask(&client, json!({ "message": "go", "agentDefinitionId": looping })).await;
        assert_eq!(kinds(&frames).last(), Some(&"done"));
        assert_ne!(last(&frames)["message"]["status"], "completed");
        assert!(model.requests_of("looping").len() < 15, "{}", model.requests_of("looping").len());
    }
}

//! Conversations with agents that are flows: what is shown is the text of the part that writes the answer.

use crate::{
    chat::{Frame, ask, conversation, follow, kinds, last, send, serve, shown},
    common::Client,
};

use std::time::Duration;

use emergent_testkit::{
    both_engines,
    scripted::{ScriptedModel, calls, hangs_after, says},
};
use serde_json::{Value, json};

async fn flow(client: &Client, flow_type: &str, more: Value) -> String {
    for part in ["finder", "writer"] {
        client.agent(part, json!({})).await;
    }
    let mut config = json!({ "agents": ["finder", "writer"] });
    for (field, value) in more.as_object().expect("fields") {
        config[field] = value.clone();
    }
    client.agent("team", json!({ "flowType": flow_type, "flowConfig": config })).await
}

fn tokens(frames: &[Frame]) -> Vec<&Value> {
    frames.iter().map(|(_, frame)| frame).filter(|frame| frame["type"] == "token").collect()
}

both_engines! {
    async fn the_text_of_the_last_part_is_streamed_while_it_is_written(db: TestDb) {
        let model = ScriptedModel::default();
        let (_server, client, _runner) = serve(&db, &model).await;
        let agent = flow(&client, "sequential", json!({})).await;
        model.add("finder", [says("Found: 42.")]);
        model.add("writer", [hangs_after("The answer is")]);
        let mut sent = send(&client, json!({ "message": "what?", "agentDefinitionId": agent })).await;
        let first = sent.next().await.unwrap();
        let (position, token) = sent.next().await.unwrap();
        assert_eq!((&token["type"], &token["text"], &token["step"]), (&json!("token"), &json!("The answer is"), &json!(1)));
        // Whoever comes back gets nothing twice, and the text that was written is what remains of a stopped answer.
        let id = conversation(&[first]);
        let other = follow(&client, &id, Some(&position)).await;
        client.post(&format!("/api/chat/conversations/{id}/stop"), json!({})).await.is(200);
        let (rest, other) = tokio::join!(sent.all(), other.all());
        assert_eq!((kinds(&rest), kinds(&other)), (vec!["done"], vec!["done"]));
        assert_eq!((&last(&rest)["status"], &last(&rest)["message"]["content"]), (&json!("stopped"), &json!("The answer is")));
    }

    async fn the_text_of_a_flow_is_its_answer_whoever_wrote_it(db: TestDb) {
        let model = ScriptedModel::default();
        let (_server, client, _runner) = serve(&db, &model).await;
        let agent = flow(&client, "sequential", json!({})).await;
        model.add("finder", [says("Found: 42.").with_delay(Duration::from_millis(300))]);
        model.add("writer", [says("The answer is 42.")]);
        let frames = ask(&client, json!({ "message": "what?", "agentDefinitionId": agent })).await;
        assert_eq!(kinds(&frames), ["meta", "token", "done"]);
        assert!(tokens(&frames).iter().all(|token| !token["text"].as_str().unwrap().contains("Found")), "{frames:?}");
        assert_eq!(shown(&frames)[1]["text"], "The answer is 42.");
        assert_eq!(last(&frames)["message"]["content"], "The answer is 42.");
        for cut in 1..frames.len() {
            let after = follow(&client, &conversation(&frames), Some(&frames[cut - 1].0)).await.all().await;
            let whole: Vec<Frame> = frames[..cut].iter().cloned().chain(after).collect();
            assert_eq!(shown(&whole), shown(&frames), "cut after {cut}");
        }
    }

    async fn a_loop_shows_its_last_round_and_parallel_parts_come_joined_at_the_end(db: TestDb) {
        let model = ScriptedModel::default();
        let (_server, client, _runner) = serve(&db, &model).await;
        let agent = flow(&client, "loop", json!({ "until": "DONE", "maxIterations": 3 })).await;
        model.add("finder", [says("one"), says("two")]);
        model.add("writer", [says("Not yet."), says("DONE now.")]);
        let frames = ask(&client, json!({ "message": "what?", "agentDefinitionId": agent })).await;
        assert_eq!((&shown(&frames)[1]["text"], &last(&frames)["message"]["content"]), (&json!("DONE now."), &json!("DONE now.")));
        let parts = json!({ "agents": ["finder", "writer"] });
        let parallel = client.agent("both", json!({ "flowType": "parallel", "flowConfig": parts })).await;
        model.add("finder", [says("A.")]);
        model.add("writer", [says("B.")]);
        let frames = ask(&client, json!({ "message": "what?", "agentDefinitionId": parallel })).await;
        assert_eq!(kinds(&frames), ["meta", "token", "done"]);
        assert_eq!(shown(&frames)[1]["text"], last(&frames)["message"]["content"]);
        assert!(last(&frames)["message"]["content"].as_str().unwrap().contains("## writer"));
    }

    async fn a_part_that_waits_for_a_person_is_shown_and_the_answer_goes_on(db: TestDb) {
        let model = ScriptedModel::default();
        let (_server, client, _runner) = serve(&db, &model).await;
        let note = client.object("Note", "n", json!({})).await;
        let rules = json!([{ "tools": ["entities_delete"], "action": "ask" }]);
        client.agent("cleaner", json!({ "tools": ["entities_delete"], "approvals": rules })).await;
        client.agent("closer", json!({})).await;
        let parts = json!({ "agents": ["cleaner", "closer"] });
        let flow = client.agent("crew", json!({ "flowType": "sequential", "flowConfig": parts })).await;
        let lead = client.agent("lead", json!({ "tools": ["spawn_agents"] })).await;
        let spawn = json!({ "tasks": [{ "agent_name": "cleaner", "task": "tidy up" }] });
        model.add("lead", [calls("spawn_agents", spawn), says("It is gone.")]);
        model.add("closer", [says("It is gone.")]);
        for (agent, object) in [(flow, note), (lead, client.object("Note", "m", json!({})).await)] {
            model.add("cleaner", [calls("entities_delete", json!({ "id": object })), says("Deleted.")]);
            let mut sent = send(&client, json!({ "message": "tidy up", "agentDefinitionId": agent })).await;
            let mut frames = vec![sent.next().await.unwrap()];
            while frames.last().unwrap().1.get("approvalId").is_none() {
                frames.push(sent.next().await.expect("the answer waits"));
            }
            let held = frames.last().unwrap().1.clone();
            assert_eq!((&held["type"], &held["tool"], &held["status"]), (&json!("mcp_tool"), &json!("entities_delete"), &json!("started")));
            let path = format!("/api/chat/conversations/{}", conversation(&frames));
            let shown_conversation = client.get(&path).await.is(200).clone();
            let waiting = &shown_conversation["waitingFor"];
            assert_eq!((&waiting[0]["approvalId"], &waiting[0]["agentName"]), (&held["approvalId"], &json!("cleaner")));
            assert_eq!((waiting.as_array().unwrap().len(), &shown_conversation["status"]), (1, &json!("answering")));
            assert_eq!(shown_conversation["waitingKind"], "approval");
            // The run that answers waits a moment after its part does.
            for attempt in 0.. {
                let listed = client.get("/api/chat/conversations").await.is(200)[0].clone();
                assert_eq!(listed["id"], shown_conversation["id"]);
                if listed["waitingKind"] == "approval" {
                    break;
                }
                assert!(attempt < 1_000, "{listed}");
                tokio::time::sleep(std::time::Duration::from_millis(10)).await;
            }
            let decide = format!("/api/approvals/{}/decide", held["approvalId"].as_str().unwrap());
            client.post(&decide, json!({ "decision": "approve" })).await.is(200);
            frames.extend(sent.all().await);
            let of_the_call = |frame: &&Value| frame["toolCallId"] == held["toolCallId"];
            let about: Vec<&Value> = frames.iter().map(|(_, frame)| frame).filter(of_the_call).collect();
            assert_eq!(about.len(), 2, "it is closed once: {frames:?}");
            assert_eq!((&about[1]["status"], about[1].get("approvalId"), about[1].get("result")), (&json!("completed"), None, None));
            assert_eq!(last(&frames)["message"]["content"], "It is gone.");
            assert_eq!(client.get(&format!("/api/graph/objects/{object}")).await.status, 404);
            assert_eq!(client.get(&path).await.is(200).get("waitingFor"), None);
            assert_eq!(client.get("/api/chat/conversations").await.is(200)[0].get("waitingKind"), None);
            let messages = client.get(&format!("{path}/messages")).await.is(200).clone();
            assert_eq!((messages[0].get("toolCallCount"), messages[1]["toolCallCount"].is_i64()), (None, true), "{messages}");
            let again = follow(&client, &conversation(&frames), None).await.all().await;
            assert_eq!(shown(&again), shown(&frames), "whoever comes later reads the same");
            for cut in 1..frames.len() {
                let after = follow(&client, &conversation(&frames), Some(&frames[cut - 1].0)).await.all().await;
                let whole: Vec<Frame> = frames[..cut].iter().cloned().chain(after).collect();
                assert_eq!(shown(&whole), shown(&frames), "cut after {cut}");
            }
        }
    }
}

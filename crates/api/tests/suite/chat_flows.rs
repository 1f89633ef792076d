//! Conversations with agents that are flows: what is shown is the text of the part that writes the answer.

use crate::{
    chat::{Frame, ask, conversation, follow, kinds, last, send, serve, shown},
    common::Client,
};

use std::time::Duration;

use emergent_testkit::{
    both_engines,
    scripted::{ScriptedModel, hangs_after, says},
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
}

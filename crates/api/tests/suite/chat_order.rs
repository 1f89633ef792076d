//! The order of messages that were sent before the one before them was answered: a branch reads as it was meant.

use std::time::Duration;

use emergent_testkit::{
    both_engines,
    scripted::{ScriptedModel, says},
};
use serde_json::{Value, json};

use crate::{
    chat::{answer_queued, send, serve},
    common::Client,
};

/// The texts of all pages of a list.
async fn texts(client: &Client, path: &str) -> Vec<String> {
    let (mut texts, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = client.get(&format!("{path}{cursor}")).await;
        let items = page.is(200).as_array().unwrap().clone();
        texts.extend(items.iter().map(|one| one["content"].as_str().unwrap().to_owned()));
        match page.headers.get("x-next-cursor") {
            Some(next) => cursor = format!("&cursor={}", next.to_str().unwrap()),
            None => return texts,
        }
    }
}

both_engines! {
    async fn a_branch_is_listed_and_exported_in_the_order_of_its_chain(db: TestDb) {
        let model = ScriptedModel::default();
        let (server, client, _runner) = serve(&db, &model).await;
        let agent = client.agent("helper", json!({})).await;
        model.add("helper", [says("A1").with_delay(Duration::from_millis(300)), says("A2"), says("A3")]);
        let mut first = send(&client, json!({ "message": "Q1", "agentDefinitionId": agent })).await;
        let id = first.next().await.unwrap().1["conversationId"].as_str().unwrap().to_owned();
        let mut last = Value::Null;
        let mut waiting = Vec::new();
        for question in ["Q2", "Q3"] {
            let mut sent = send(&client, json!({ "message": question, "conversationId": id, "queue": true })).await;
            last = sent.next().await.unwrap().1;
            waiting.push(sent);
        }
        let list = format!("/api/chat/conversations/{id}/messages");
        let branch = format!("{list}?branch={}&limit=1", last["messageId"].as_str().unwrap());
        // Nothing before the last question is answered yet; the branch has the questions before it nevertheless.
        let before = texts(&client, &branch).await;
        assert_eq!((before.first().map(String::as_str), before.last().map(String::as_str)), (Some("Q1"), Some("Q3")));
        let _worker = answer_queued(&server);
        first.all().await;
        for sent in waiting {
            sent.all().await;
        }
        let expected = ["Q1", "A1", "Q2", "A2", "Q3", "A3"];
        for limit in [1, 2, 3, 5, 100] {
            assert_eq!(texts(&client, &format!("{list}?limit={limit}")).await, expected, "{limit} per page");
            let branch = format!("{list}?branch={}&limit={limit}", last["answerId"].as_str().unwrap());
            assert_eq!(texts(&client, &branch).await, expected, "{limit} per page of the branch");
        }
        let exported = client.get(&format!("/api/chat/conversations/{id}/export?format=jsonl")).await;
        let lines: Vec<Value> = exported.text.lines().skip(1).map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(lines.iter().map(|line| line["content"].as_str().unwrap()).collect::<Vec<_>>(), expected);
    }
}

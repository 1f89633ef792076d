//! What has to be true after all kills.

use std::{collections::HashMap, time::Duration};

use serde_json::{Value, json};

use crate::{answer_to, common::Api, follower::Follower};

/// Waits until nothing is being answered.
pub async fn settle(api: &Api) {
    let deadline = tokio::time::Instant::now() + Duration::from_secs(60);
    loop {
        let mut open = 0;
        for conversation in api.all("/api/chat/conversations?").await {
            open += usize::from(conversation["status"] != "idle");
            let path =
                format!("/api/chat/conversations/{}/messages?", conversation["id"].as_str().expect("an id"));
            // The next turn may begin after the list of conversations was read.
            let is_open = |one: &&Value| one["role"] == "user" && one["status"] != "answered";
            open += api.all(&path).await.iter().filter(is_open).count();
        }
        if open == 0 {
            return;
        }
        // On PostgreSQL the lease of a killed server has to expire first.
        assert!(tokio::time::Instant::now() < deadline, "{open} answers do not end");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Each message has one answer, and it is what its run recorded. Returns the contents by answer.
pub async fn check(api: &Api) -> HashMap<String, String> {
    let mut runs: HashMap<String, Value> = HashMap::new();
    for run in api.all("/api/admin/runs?").await {
        runs.insert(run["id"].as_str().expect("an id").to_owned(), run);
    }
    let mut answers = HashMap::new();
    for conversation in api.all("/api/chat/conversations?").await {
        let path =
            format!("/api/chat/conversations/{}/messages?", conversation["id"].as_str().expect("an id"));
        let messages = api.all(&path).await;
        assert_eq!(conversation["messageCount"], messages.len());
        let (questions, replies): (Vec<&Value>, Vec<&Value>) =
            messages.iter().partition(|message| message["role"] == "user");
        assert_eq!(questions.len(), replies.len(), "one answer to each message: {messages:?}");
        let mut parent = Value::Null;
        for question in questions {
            assert_eq!((&question["status"], &question["parentId"]), (&json!("answered"), &parent));
            let found: Vec<&&Value> =
                replies.iter().filter(|reply| reply["parentId"] == question["id"]).collect();
            assert_eq!(found.len(), 1, "{question}");
            let reply = found[0];
            assert_eq!(
                (&reply["id"], &reply["status"]),
                (&question["answerId"], &json!("completed")),
                "{reply}"
            );
            let content = answer_to(question["content"].as_str().expect("a text"));
            assert_eq!(reply["content"], content);
            let run = runs.remove(reply["runId"].as_str().expect("a run")).expect("the run of the answer");
            assert_eq!((&run["status"], &run["origin"]), (&json!("completed"), &json!("chat")));
            let detail =
                api.get(&format!("/api/admin/runs/{}", run["id"].as_str().expect("an id"))).await.data();
            assert_eq!(detail["summary"]["text"], content, "{detail}");
            parent = reply["id"].clone();
            answers.insert(reply["id"].as_str().expect("an id").to_owned(), content);
        }
    }
    assert!(runs.is_empty(), "no run without its answer: {runs:?}");
    answers
}

/// Everyone who followed an answer has seen all of it, and the same as the others. Says how many there were.
pub fn check_followers(followers: &[Follower], answers: &HashMap<String, String>) -> String {
    let mut seen: HashMap<&str, Vec<Value>> = HashMap::new();
    let (mut count, mut cuts) = (0, 0);
    for follower in followers.iter().filter(|follower| follower.has_frames()) {
        let (answer, shown) = (follower.answer(), follower.shown());
        assert!(follower.is_done(), "somebody has not seen the end: {shown:?}");
        assert_eq!(&follower.text(), answers.get(answer).expect("an answer that is stored"), "{shown:?}");
        let first = seen.entry(answer).or_insert_with(|| shown.clone());
        assert_eq!(first, &shown, "two who follow one answer see the same");
        count += 1;
        cuts += follower.cuts;
    }
    format!("{count} followers of {} answers, cut off {cuts} times, saw the same", seen.len())
}

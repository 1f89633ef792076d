//! The server is killed with SIGKILL at random moments around conversations: while messages are stored, answered and
//! wait for their turn. In the end each stored message has exactly one answer, and it is what its run recorded.
//! Those who follow an answer come back after each kill, and in the end all of them have seen the same.
//!
//! `EMERGENT_SOAK_KILLS` says how often (`make soak` takes many), `EMERGENT_TEST_SEED` repeats the order; the
//! moments of the kills are never quite the same.

#[path = "../common/mod.rs"]
mod common;

mod check;
mod follower;

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use common::{Api, Home, kills, seed, wait_for_progress};
use follower::Follower;
use futures_util::future::join_all;
use rand::{Rng, SeedableRng, rngs::StdRng};
use reqwest::Method;
use serde_json::{Value, json};

/// How many messages a client sends before the kill. All but the first may have to wait for their turn.
const MESSAGES: usize = 3;
/// How many follow the first answer of a conversation, besides the client that asked.
const FOLLOWERS: usize = 2;
const SCRIPT: &str = r#"
rules:
  - when: {}
    delay_ms: 3
    chunk_delay_ms: 2
    answer: { text: "The answer to {{last}} comes word by word, äöü, so that a kill falls between two of them." }
"#;

/// The answer to a message.
fn answer_to(message: &str) -> String {
    format!("The answer to {message} comes word by word, äöü, so that a kill falls between two of them.")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_message_has_one_answer_that_its_run_recorded_on_sqlite() {
    story(&Home::sqlite(), kills(20)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_message_has_one_answer_that_its_run_recorded_on_postgres() {
    story(&Home::postgres().await, kills(5)).await;
}

async fn story(home: &Home, kills: usize) {
    let mut dice = StdRng::seed_from_u64(seed());
    std::fs::create_dir_all(home.data().join("rehearsals")).expect("a folder");
    std::fs::write(home.data().join("rehearsals/chat.yaml"), SCRIPT).expect("a script");
    let server = home.start().await;
    let model = json!({ "provider": "rehearsal", "name": "chat" });
    let definition = json!({ "name": "helper", "model": model });
    let agent = server.api.post("/api/admin/agents", &definition).await.data()["id"].clone();
    server.kill();
    let (mut acknowledged, mut followers) = (0, Vec::new());
    for round in 0..kills {
        let server = home.start().await;
        let (api, agent) = (server.api.clone(), agent.clone());
        let progress = Arc::new(AtomicUsize::new(0));
        let client_progress = Arc::clone(&progress);
        let work = tokio::spawn(async move { converse(&api, &agent, round, &client_progress).await });
        let back = tokio::spawn(follow_all(server.api.clone(), std::mem::take(&mut followers)));
        // The kill follows one of the messages, and a short while at random.
        let moment = dice.random_range(0..=MESSAGES);
        wait_for_progress(&progress, moment).await;
        tokio::time::sleep(Duration::from_micros(dice.random_range(0..40_000))).await;
        server.kill();
        let (sent, new) = work.await.expect("a client that is content with its answers");
        acknowledged += sent;
        followers = back.await.expect("followers that are content with their frames");
        followers.extend(new);
    }
    let server = home.start().await;
    let followers = follow_all(server.api.clone(), followers).await;
    check::settle(&server.api).await;
    let answers = check::check(&server.api).await;
    assert!(
        answers.len() >= acknowledged,
        "{} of {acknowledged} acknowledged messages are stored",
        answers.len()
    );
    let followed = check::check_followers(&followers, &answers);
    eprintln!(
        "chat: {kills} kills, {acknowledged} acknowledged messages, {} answers, lost 0, twice 0, {followed}",
        answers.len()
    );
    server.kill();
}

/// All come back after the last frame that they have, and follow until the answer is complete or the server is gone.
async fn follow_all(api: Api, mut followers: Vec<Follower>) -> Vec<Follower> {
    join_all(followers.iter_mut().map(|follower| follower.follow(&api))).await;
    followers
}

/// Begins a conversation and sends messages, until the server is gone. Returns how many were acknowledged, and those
/// who follow the first answer.
async fn converse(api: &Api, agent: &Value, round: usize, progress: &AtomicUsize) -> (usize, Vec<Follower>) {
    let made =
        api.send(Method::POST, "/api/chat/conversations", Some(&json!({ "agentDefinitionId": agent }))).await;
    let Ok(made) = made else { return (0, Vec::new()) };
    let id = made.data()["id"].as_str().expect("an id").to_owned();
    let first = json!({ "message": format!("{round}.0"), "conversationId": id });
    let mut followers = vec![Follower::new(&id)];
    let Some(stream) = follower::send(api, &first).await else { return (0, followers) };
    progress.fetch_add(1, Ordering::Relaxed);
    followers.extend((0..FOLLOWERS).map(|_| Follower::new(&id)));
    let (asker, others) = followers.split_at_mut(1);
    let (_, _, sent) = tokio::join!(
        asker[0].read(stream),
        join_all(others.iter_mut().map(|follower| follower.follow(api))),
        send_more(api, &id, round, progress),
    );
    (1 + sent, followers)
}

/// Sends messages that wait for their turn, and returns how many were acknowledged.
async fn send_more(api: &Api, conversation: &str, round: usize, progress: &AtomicUsize) -> usize {
    let mut sent = 0;
    for number in 1..MESSAGES {
        let body =
            json!({ "message": format!("{round}.{number}"), "conversationId": conversation, "queue": true });
        // The response is complete when the answer is.
        let request = api.send(Method::POST, "/api/chat/stream", Some(&body));
        match tokio::time::timeout(Duration::from_millis(20), request).await {
            Ok(Err(_)) => return sent,
            Ok(Ok(answer)) => {
                assert_eq!(answer.status, 200, "{}", answer.body);
                sent += 1;
            }
            // The connection is closed, which changes nothing; whether the message was stored is not known.
            Err(_) => {}
        }
        progress.fetch_add(1, Ordering::Relaxed);
    }
    sent
}

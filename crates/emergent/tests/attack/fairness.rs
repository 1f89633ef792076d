//! One project starts as many long runs as it can: another project's run starts soon all the same.

use std::time::{Duration, Instant};

use futures_util::{StreamExt, stream};
use serde_json::json;

use crate::{
    bystander::Bystander,
    common::{Api, Home},
    create_agent, project_token, start_run, with_slow_model,
};

/// How long a run of another project may take, from its request to its end.
const PATIENCE: Duration = Duration::from_secs(2);
const SCOPES: &[&str] = &["agents:read", "agents:write", "agents:invoke", "admin:read"];

async fn assert_runs_soon(api: &Api, agent: &str) {
    let begin = Instant::now();
    let id = start_run(api, agent).await;
    loop {
        let run = api.get(&format!("{agent}/runs/{id}")).await.data();
        if run["status"] == json!("completed") {
            return;
        }
        assert!(begin.elapsed() < PATIENCE, "{} after {:?}", run["status"], begin.elapsed());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

async fn long_runs_of_one_project_do_not_hold_up_another(home: Home) {
    let home = with_slow_model(home);
    let server = home.start().await;
    let attacker = project_token(&server, "attacker", SCOPES).await;
    let other = project_token(&server, "other", SCOPES).await;
    let (greedy, worker) =
        (create_agent(&attacker, "slow", &[]).await, create_agent(&other, "quick", &[]).await);
    let bystander = Bystander::start(&server).await;
    stream::iter(0..700).for_each_concurrent(16, async |_| drop(start_run(&attacker, &greedy).await)).await;
    for _ in 0..3 {
        assert_runs_soon(&other, &worker).await;
    }
    bystander.assert_served(&server).await;
    // The attacker had its part of the slots, and no more.
    let running = attacker.all(&format!("{greedy}/runs?status=running")).await.len();
    assert_eq!(running, 192);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn seven_hundred_long_runs_of_one_project_do_not_hold_up_another() {
    long_runs_of_one_project_do_not_hold_up_another(Home::sqlite()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn seven_hundred_long_runs_of_one_project_do_not_hold_up_another_on_postgres() {
    long_runs_of_one_project_do_not_hold_up_another(Home::postgres().await).await;
}

//! Many clients of both servers send the same requests with the same keys: each starts one run.

use std::collections::BTreeMap;

use reqwest::Method;
use serde_json::json;

use super::Pair;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_with_a_key_starts_one_run() {
    const KEYS: usize = 4;
    let pair = Pair::start().await;
    let definition = json!({ "name": "a", "model": { "provider": "rehearsal", "name": "emergent.memory" } });
    let agent = pair.api(0).post("/api/admin/agents", &definition).await.data();
    let path = format!("/api/admin/agents/{}/trigger", agent["id"].as_str().expect("an id"));

    let started = pair
        .everyone(move |_, api| {
            let path = path.clone();
            async move {
                let mut runs = Vec::new();
                for at in 0..KEYS {
                    let body = json!({ "input": format!("request {at}") });
                    loop {
                        let request = api.request(Method::POST, &path).json(&body);
                        let request = request.header("idempotency-key", format!("key-{at}"));
                        let answer = request.send().await.expect("an answer");
                        let status = answer.status().as_u16();
                        let answer: serde_json::Value = answer.json().await.expect("JSON");
                        match status {
                            202 => {
                                break runs.push(answer["data"]["runId"].as_str().expect("an id").to_owned());
                            }
                            409 => assert_eq!(answer["error"]["code"], "idempotency_key_in_progress"),
                            other => panic!("{other} {answer}"),
                        }
                    }
                }
                runs
            }
        })
        .await;
    assert!(started.iter().all(|runs| *runs == started[0]), "all clients are told of the same runs");
    let mut found = BTreeMap::new();
    for run in pair.api(1).all("/api/admin/runs?").await {
        *found.entry(run["id"].as_str().expect("an id").to_owned()).or_insert(0) += 1;
    }
    let expected: BTreeMap<String, i32> = started[0].iter().map(|run| (run.clone(), 1)).collect();
    assert_eq!(found, expected);
}

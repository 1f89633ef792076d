//! Jobs of both servers, as seen by the one who does the work: an embedder that both ask, which
//! notices when a text is brought to it twice.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex},
    time::Duration,
};

use axum::{Json, Router, extract::State, http::HeaderMap, routing::post};
use futures_util::future::join_all;
use serde_json::{Value, json};

use crate::common::{Home, eventually};

#[derive(Default)]
struct Seen {
    in_hand: BTreeSet<String>,
    times: BTreeMap<String, usize>,
    at_once: Vec<String>,
    askers: BTreeMap<String, usize>,
}

type Notes = Arc<Mutex<Seen>>;

/// Speaks OpenAI's embeddings, slowly enough that two could be at the same text.
async fn embed(State(notes): State<Notes>, headers: HeaderMap, Json(body): Json<Value>) -> Json<Value> {
    let texts: Vec<String> = match &body["input"] {
        Value::Array(texts) => {
            texts.iter().map(|text| text.as_str().unwrap_or_default().to_owned()).collect()
        }
        text => vec![text.as_str().unwrap_or_default().to_owned()],
    };
    {
        let mut seen = notes.lock().expect("no panic here");
        let asker = headers.get("authorization").and_then(|value| value.to_str().ok()).unwrap_or_default();
        *seen.askers.entry(asker.to_owned()).or_default() += texts.len();
        for text in &texts {
            *seen.times.entry(text.clone()).or_default() += 1;
            if !seen.in_hand.insert(text.clone()) {
                seen.at_once.push(text.clone());
            }
        }
    }
    tokio::time::sleep(Duration::from_millis(120)).await;
    let mut seen = notes.lock().expect("no panic here");
    texts.iter().for_each(|text| {
        seen.in_hand.remove(text);
    });
    let data: Vec<_> = (0..texts.len())
        .map(|index| json!({ "object": "embedding", "index": index, "embedding": [0.6, 0.8, 0.0, 0.0] }))
        .collect();
    Json(
        json!({ "object": "list", "model": "test", "data": data, "usage": { "prompt_tokens": 1, "total_tokens": 1 } }),
    )
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_job_is_run_by_two_at_once() {
    const PROJECTS: usize = 6;
    const OBJECTS: usize = 24;
    let notes = Notes::default();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let base = format!("http://{}/v1", listener.local_addr().expect("an address"));
    let router = Router::new().route("/v1/embeddings", post(embed)).with_state(Arc::clone(&notes));
    let embedder = tokio::spawn(async move { axum::serve(listener, router).await });

    let equip = |home: Home, key: &str| {
        home.with("EMERGENT_EMBEDDINGS", "openai/test")
            .with("EMERGENT_OPENAI_BASE_URL", &base)
            .with("OPENAI_API_KEY", key)
    };
    let first = equip(Home::postgres().await, "first");
    let second = equip(Home::on(first.postgres.clone().unwrap_or_default()), "second");
    let servers = tokio::join!(first.start(), second.start());
    let apis = [servers.0.api.clone(), servers.1.api.clone()];

    let projects: Vec<_> = (0..PROJECTS).map(|at| format!("project-{at}")).collect();
    for name in &projects {
        apis[0].post("/api/projects", &json!({ "name": name })).await.data();
    }
    let writes = projects.iter().enumerate().map(|(at, project)| {
        let api = apis[at % 2].in_project(project);
        async move {
            for n in 0..OBJECTS {
                let body =
                    json!({ "type": "Text", "properties": { "text": format!("project{at} text{n}") } });
                api.post("/api/graph/objects", &body).await.data();
            }
        }
    });
    join_all(writes).await;

    for project in &projects {
        let api = apis[1].in_project(project);
        eventually("every text has its vector", Duration::from_secs(30), async || {
            let progress = api.get("/api/graph/embeddings").await.data();
            progress["pending"] == 0 && progress["done"] == OBJECTS
        })
        .await;
    }
    embedder.abort();
    let seen = notes.lock().expect("no panic there");
    eprintln!("texts by server: {:?}", seen.askers);
    assert!(seen.at_once.is_empty(), "asked for by two at once: {:?}", seen.at_once);
    assert_eq!(seen.times.len(), PROJECTS * OBJECTS);
    let twice: Vec<_> = seen.times.iter().filter(|(_, times)| **times != 1).collect();
    assert!(twice.is_empty(), "embedded more than once: {twice:?}");
}

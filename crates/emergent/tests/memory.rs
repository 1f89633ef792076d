//! The memory product from end to end: a document comes in, the extractor starts by itself, and
//! what it found is in the graph with the passage that says it. A script plays the model.

mod common;

use std::time::Duration;

use common::{Api, Home, Server, eventually};
use serde_json::{Value, json};

const NOTES: &str = "Ada Lovelace wrote the first program for the Analytical Engine of Charles Babbage.";
const FAMILY: &str = "Ada Lovelace was born as Ada Byron, the daughter of Lord Byron.";
const BEFORE: &str = "Grace Hopper is a professor at Vassar College.";
const AFTER: &str = "Grace Hopper left Vassar College and is now an officer of the Navy.";

async fn start(home: &Home) -> Server {
    let server = home.start().await;
    let installed = server.api.post("/api/products/install", &json!({ "source": "emergent.memory" })).await;
    assert_eq!(installed.status, 201, "{}", installed.body);
    server
}

fn home(home: Home) -> Home {
    home.with("EMERGENT_MODEL", "rehearsal/emergent.memory")
}

async fn ingest(api: &Api, title: &str, content: &str) -> Value {
    let body = json!({ "title": title, "content": content, "mimeType": "text/plain" });
    api.post("/api/documents", &body).await.data()
}

/// The extractor's runs that were not started by another, once none of them goes on.
async fn extractions(api: &Api, wanted: usize) -> Vec<Value> {
    let all = async || {
        let runs = api.get("/api/admin/runs?limit=100").await.data();
        let runs = runs.as_array().expect("runs").clone();
        runs.into_iter().filter(|run| run["parentRunId"].is_null()).collect::<Vec<_>>()
    };
    let over = async || {
        let runs = all().await;
        runs.len() >= wanted
            && runs
                .iter()
                .all(|run| !["queued", "running"].contains(&run["status"].as_str().unwrap_or_default()))
    };
    eventually("the extractor is done", Duration::from_secs(20), over).await;
    let runs = all().await;
    for run in &runs {
        assert_eq!(run["status"], "completed", "{run}");
    }
    runs
}

async fn object(api: &Api, type_: &str, key: &str) -> Value {
    let found = api.get(&format!("/api/graph/objects?type={type_}&key={key}")).await.data();
    let [one] = &found.as_array().expect("objects")[..] else { panic!("one {type_}/{key}: {found}") };
    let id = one["id"].as_str().expect("an id");
    api.get(&format!("/api/graph/objects/{id}")).await.data()
}

/// Everything that extraction writes, to see that nothing of it changes.
async fn written(api: &Api) -> (Vec<Value>, Vec<Value>) {
    (api.all("/api/graph/objects?").await, api.all("/api/graph/relationships?").await)
}

async fn tour(home: Home) {
    let server = start(&home).await;
    let api = &server.api;

    // One document.
    let notes = ingest(api, "Notes", NOTES).await;
    assert_eq!(extractions(api, 1).await.len(), 1);
    let chunks = api.get(&format!("/api/documents/{}/chunks", notes["id"].as_str().unwrap())).await.data();
    let ada = object(api, "Person", "ada-lovelace").await;
    let from_notes =
        json!({ "chunkId": chunks[0]["id"], "documentId": notes["id"], "title": "Notes", "index": 0 });
    assert_eq!((&ada["version"], &ada["sources"]), (&json!(1), &json!([from_notes])));
    assert_eq!(ada["author"]["type"], "run", "{ada}");
    let (objects, edges) = written(api).await;
    assert_eq!((objects.len(), edges.len()), (3, 2));

    // The same bytes again are the same document, and start nothing.
    assert_eq!(ingest(api, "Notes", NOTES).await["id"], notes["id"]);
    // By hand, on the same document: everything is known, no version is written.
    let agents = api.get("/api/admin/agents?limit=100").await.data();
    let extractor = agents.as_array().unwrap().iter().find(|one| one["name"] == "entity-extractor").unwrap();
    let context = json!({ "document": { "id": notes["id"], "chunks": [] } });
    let path = format!("/api/admin/agents/{}/trigger", extractor["id"].as_str().unwrap());
    let started = api.post(&path, &json!({ "input": "Once more.", "context": context })).await;
    assert_eq!(started.status, 202, "{}", started.body);
    assert_eq!(extractions(api, 2).await.len(), 2, "the second ingestion started none");
    assert_eq!(written(api).await, (objects, edges));

    // Another document about one of them.
    let family = ingest(api, "Family", FAMILY).await;
    extractions(api, 3).await;
    let merged = object(api, "Person", "ada-lovelace").await;
    assert_eq!((&merged["id"], &merged["version"]), (&ada["id"], &json!(2)));
    assert_eq!(
        merged["properties"],
        json!({ "name": "Ada Lovelace", "role": "mathematician", "aliases": ["Augusta Ada King", "Ada Byron"] })
    );
    let titles: Vec<&str> =
        merged["sources"].as_array().unwrap().iter().filter_map(|one| one["title"].as_str()).collect();
    assert_eq!(titles, ["Family", "Notes"]);
    let history =
        api.get(&format!("/api/graph/objects/{}/history", ada["id"].as_str().unwrap())).await.data();
    let reason = history[0]["reason"].as_str().expect("a merge says why");
    assert!(reason.starts_with("merged by key `ada-lovelace`, from document `Family`"), "{reason}");
    assert!(reason.contains(family["id"].as_str().unwrap()), "{reason}");
    assert!(
        reason.ends_with("kept properties.role `mathematician` instead of `daughter of a poet`"),
        "{reason}"
    );
    assert!(history[1].get("reason").is_none());
    let (objects, edges) = written(api).await;
    assert_eq!((objects.len(), edges.len()), (4, 3), "Lord Byron, and whose daughter she is");

    // What a run wrote can be undone, sources and all.
    let wrote = history[0]["author"]["runId"].as_str().expect("a run wrote it");
    let run = api.get("/api/admin/runs?limit=100").await.data();
    let run = run.as_array().unwrap().iter().find(|run| run["id"] == wrote).expect("the run").clone();
    let agent = run["agentId"].as_str().unwrap();
    let reverted =
        api.post(&format!("/api/admin/agents/{agent}/runs/{wrote}/revert"), &json!({})).await.data();
    assert_eq!(reverted["conflicts"], json!([]), "{reverted}");
    let back = object(api, "Person", "ada-lovelace").await;
    assert_eq!((&back["properties"], &back["sources"]), (&ada["properties"], &json!([from_notes])));
    let (objects, edges) = written(api).await;
    assert_eq!((objects.len(), edges.len()), (3, 2));
    server.kill();
}

/// The text of the chunk that a source names.
async fn passage(api: &Api, source: &Value) -> String {
    let document = source["documentId"].as_str().expect("a document");
    let chunks = api.get(&format!("/api/documents/{document}/chunks")).await.data();
    let chunks = chunks.as_array().expect("chunks").clone();
    let chunk = chunks.into_iter().find(|chunk| chunk["id"] == source["chunkId"]).expect("the chunk");
    chunk["text"].as_str().expect("a text").to_owned()
}

/// A document says one thing and a later one another: the graph has the first for then and the second for now, each
/// with its passage.
async fn change(home: Home) {
    let server = start(&home).await;
    let api = &server.api;
    ingest(api, "Before", BEFORE).await;
    extractions(api, 1).await;
    let first = object(api, "Person", "grace-hopper").await;
    assert_eq!((&first["version"], &first["properties"]["role"]), (&json!(1), &json!("professor")));
    ingest(api, "After", AFTER).await;
    extractions(api, 2).await;

    // Now.
    let path = format!("/api/graph/objects/{}", first["id"].as_str().unwrap());
    let now = object(api, "Person", "grace-hopper").await;
    assert_eq!((&now["id"], &now["version"]), (&first["id"], &json!(2)));
    assert_eq!(now["properties"], json!({ "name": "Grace Hopper", "role": "officer" }));
    assert_eq!(passage(api, &now["sources"][0]).await, AFTER);
    let history = api.get(&format!("{path}/history")).await.data();
    let reason = history[0]["reason"].as_str().expect("a change says why");
    assert!(reason.starts_with("merged by key `grace-hopper`, from document `After`"), "{reason}");
    assert!(reason.ends_with("; replaced properties.role `professor` by `officer`"), "{reason}");
    assert_eq!(api.get(&format!("{path}/edges")).await.data(), json!([]));

    // Then.
    let as_of = format!("asOf={}", first["updatedAt"].as_str().unwrap().replace('+', "%2B"));
    let then = api.get(&format!("{path}?{as_of}")).await.data();
    assert_eq!((&then["properties"], &then["sources"]), (&first["properties"], &first["sources"]));
    assert_eq!(passage(api, &then["sources"][0]).await, BEFORE);
    let edges = api.get(&format!("{path}/edges?{as_of}")).await.data();
    assert_eq!((edges.as_array().map(Vec::len), &edges[0]["type"]), (Some(1), &json!("part_of")), "{edges}");

    // Reverting the run that wrote the change makes what was true before true again.
    let run = history[0]["author"]["runId"].as_str().expect("a run wrote it");
    let runs = api.get("/api/admin/runs?limit=100").await.data();
    let agent =
        runs.as_array().unwrap().iter().find(|one| one["id"] == run).expect("the run")["agentId"].clone();
    let revert = format!("/api/admin/agents/{}/runs/{run}/revert", agent.as_str().unwrap());
    let reverted = api.post(&revert, &json!({})).await.data();
    assert_eq!(reverted["conflicts"], json!([]), "{reverted}");
    let back = object(api, "Person", "grace-hopper").await;
    assert_eq!((&back["properties"], &back["sources"]), (&first["properties"], &first["sources"]));
    assert_eq!(api.get(&format!("{path}/edges")).await.data().as_array().map(Vec::len), Some(1));
    server.kill();
}

/// Two documents without a pause between them: the second one is read after the first one has been, however long that
/// takes.
async fn order(home: Home) {
    let server = start(&home).await;
    let api = &server.api;
    ingest(api, "Before", BEFORE).await;
    ingest(api, "After", AFTER).await;
    extractions(api, 2).await;
    let now = object(api, "Person", "grace-hopper").await;
    assert_eq!((&now["version"], &now["properties"]["role"]), (&json!(2), &json!("officer")));
    let history =
        api.get(&format!("/api/graph/objects/{}/history", now["id"].as_str().unwrap())).await.data();
    let roles: Vec<_> = history.as_array().unwrap().iter().map(|one| &one["properties"]["role"]).collect();
    assert_eq!(roles, ["officer", "professor"]);
    server.kill();
}

/// Several documents at once and no limit, so several extractors: still one of each.
async fn crowd(home: Home) {
    let server = start(&home).await;
    let api = &server.api;
    let agents = api.get("/api/admin/agents?limit=100").await.data();
    let extractor = agents.as_array().unwrap().iter().find(|one| one["name"] == "entity-extractor").unwrap();
    let mut config = extractor["config"].clone();
    assert_eq!(config["trigger"]["max_concurrent"], 1, "{config}");
    config["trigger"] = json!({});
    let path = format!("/api/admin/agents/{}", extractor["id"].as_str().unwrap());
    assert_eq!(api.patch(&path, &json!({ "config": config })).await.status, 200);
    let documents: Vec<String> = (0..8).map(|n| format!("{NOTES} It has {n} parts.")).collect();
    for (n, content) in documents.iter().enumerate() {
        ingest(api, &format!("Notes {n}"), content).await;
    }
    extractions(api, documents.len()).await;
    let (objects, edges) = written(api).await;
    assert_eq!((objects.len(), edges.len()), (3, 2));
    assert!(objects.iter().chain(&edges).all(|one| one["version"] == 1), "they all said the same");
    let ada = object(api, "Person", "ada-lovelace").await;
    assert_eq!(ada["sources"].as_array().map(Vec::len), Some(documents.len()));
    server.kill();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn documents_become_entities_with_their_passages_on_sqlite() {
    tour(home(Home::sqlite())).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn documents_become_entities_with_their_passages_on_postgres() {
    tour(home(Home::postgres().await)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn extractors_at_once_make_one_of_each_on_sqlite() {
    crowd(home(Home::sqlite())).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn extractors_at_once_make_one_of_each_on_postgres() {
    crowd(home(Home::postgres().await)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn documents_are_read_in_the_order_in_which_they_were_added_on_sqlite() {
    order(home(Home::sqlite())).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn documents_are_read_in_the_order_in_which_they_were_added_on_postgres() {
    order(home(Home::postgres().await)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_later_document_replaces_what_changed_on_sqlite() {
    change(home(Home::sqlite())).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_later_document_replaces_what_changed_on_postgres() {
    change(home(Home::postgres().await)).await;
}

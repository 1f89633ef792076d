//! Two servers on one PostgreSQL, and 64 clients that get in each other's way: no update is lost,
//! no key is there twice, no edge hangs on a dead object, no job is run by two at once, and the
//! change feed tells every change exactly once.

#[path = "../common/mod.rs"]
mod common;

mod feed;
mod idempotency;
mod jobs;
mod triggers;

use std::collections::{BTreeMap, BTreeSet};

use common::{Api, Home, Server, seed};
use futures_util::future::join_all;
use rand::{Rng, SeedableRng, rngs::StdRng};
use serde_json::{Value, json};

const CLIENTS: usize = 64;

/// Two servers, and 64 clients that know one each.
struct Pair {
    servers: [Server; 2],
    homes: [Home; 2],
}

impl Pair {
    async fn start() -> Self {
        let first = Home::postgres().await.with("EMERGENT_EMBEDDINGS", "off");
        let second = Home::on(first.postgres.clone().unwrap_or_default()).with("EMERGENT_EMBEDDINGS", "off");
        // At the same moment: they also have to agree on who makes the schema.
        let servers = tokio::join!(first.start(), second.start());
        Self { servers: servers.into(), homes: [first, second] }
    }

    fn api(&self, client: usize) -> Api {
        self.servers[client % 2].api.clone()
    }

    /// Kills a server and starts it anew, at an address of its own.
    async fn kill_and_start(&mut self, which: usize) {
        self.servers[which].launched.signal("KILL");
        self.servers[which].launched.ended();
        self.servers[which] = self.homes[which].start().await;
    }

    /// Does the same for every client, all at once.
    async fn everyone<T: Send + 'static, F>(&self, work: impl Fn(usize, Api) -> F) -> Vec<T>
    where
        F: Future<Output = T> + Send + 'static,
    {
        let clients = (0..CLIENTS).map(|client| tokio::spawn(work(client, self.api(client))));
        join_all(clients).await.into_iter().map(|done| done.expect("a client that is content")).collect()
    }
}

async fn make(api: &Api, type_: &str, key: &str) -> String {
    let body = json!({ "type": type_, "key": key, "properties": { "count": 0 } });
    let made = api.post("/api/graph/objects", &body).await.data();
    made["id"].as_str().expect("an id").to_owned()
}

fn number(value: &Value) -> i64 {
    value.as_i64().unwrap_or_else(|| panic!("a number, not {value}"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_update_is_lost() {
    const COUNTERS: usize = 8;
    const EACH: usize = 3;
    let pair = Pair::start().await;
    let mut counters = Vec::new();
    for at in 0..COUNTERS {
        counters.push(make(&pair.api(at), "Counter", &format!("counter-{at}")).await);
    }

    let ids = counters.clone();
    let retries = pair
        .everyone(move |client, api| {
            let path = format!("/api/graph/objects/{}", ids[(client / 2) % COUNTERS]);
            async move {
                let (mut done, mut retries) = (0, 0);
                while done < EACH {
                    let now = api.get(&path).await.data();
                    let count = number(&now["properties"]["count"]) + 1;
                    let body = json!({ "properties": { "count": count }, "expectedVersion": now["version"] });
                    let answer = api.patch(&path, &body).await;
                    match answer.status {
                        200 => done += 1,
                        409 => {
                            assert_eq!(answer.code(), "version_conflict");
                            let current = number(&answer.body["error"]["details"]["current"]);
                            assert!(current > number(&now["version"]), "{}", answer.body);
                            retries += 1;
                            assert!(retries < 2_000, "nobody gets through");
                        }
                        other => panic!("{other} {}", answer.body),
                    }
                }
                retries
            }
        })
        .await;
    eprintln!("{} increments, {} conflicts", CLIENTS * EACH, retries.iter().sum::<usize>());

    let expected = i64::try_from(CLIENTS * EACH / COUNTERS).expect("a small number");
    for id in &counters {
        let now = pair.api(1).get(&format!("/api/graph/objects/{id}")).await.data();
        assert_eq!((number(&now["properties"]["count"]), number(&now["version"])), (expected, expected + 1));
        let history = pair.api(0).all(&format!("/api/graph/objects/{id}/history?")).await;
        let told: Vec<_> = history.iter().map(|version| number(&version["properties"]["count"])).collect();
        assert_eq!(told, (0..=expected).rev().collect::<Vec<_>>(), "each count once");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_is_made_once() {
    const KEYS: usize = 6;
    let pair = Pair::start().await;

    let made = pair
        .everyone(|client, api| async move {
            let mut made = Vec::new();
            for at in 0..KEYS {
                let key = format!("key-{at}");
                let body = json!({ "type": "Plain", "key": key, "properties": { "by": client } });
                let answer = api.post("/api/graph/objects", &body).await;
                match answer.status {
                    201 => made.push(key),
                    409 => assert_eq!(answer.code(), "key_taken", "{}", answer.body),
                    other => panic!("{other} {}", answer.body),
                }
            }
            made
        })
        .await;
    let mut made: Vec<_> = made.into_iter().flatten().collect();
    made.sort();
    assert_eq!(
        made,
        (0..KEYS).map(|at| format!("key-{at}")).collect::<Vec<_>>(),
        "exactly one create wins each key"
    );
    assert_eq!(pair.api(1).all("/api/graph/objects?type=Plain").await.len(), KEYS);

    // An upsert makes it or adds to it: whoever comes second must not take the first one's part.
    let created = pair
        .everyone(|client, api| async move {
            let mut created = 0;
            for at in 0..KEYS {
                let body = json!({ "type": "Shared", "key": format!("key-{at}"),
                    "properties": { format!("client{client}"): true } });
                let answer = api.put("/api/graph/objects/upsert", &body).await;
                created += usize::from(answer.status == 201);
                answer.data();
            }
            created
        })
        .await;
    assert_eq!(created.iter().sum::<usize>(), KEYS, "each key is created once, and updated otherwise");
    let shared = pair.api(0).all("/api/graph/objects?type=Shared").await;
    assert_eq!(shared.len(), KEYS);
    for object in shared {
        let parts = object["properties"].as_object().expect("properties").len();
        assert_eq!((parts, number(&object["version"])), (CLIENTS, CLIENTS as i64), "{object}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_edge_hangs_on_a_dead_object() {
    const HUBS: usize = 8;
    let pair = Pair::start().await;
    let mut dice = StdRng::seed_from_u64(seed());
    let mut hubs = Vec::new();
    for at in 0..HUBS {
        hubs.push(make(&pair.api(at), "Hub", &format!("hub-{at}")).await);
    }

    // Everyone connects something new with every hub, in both directions, while some delete and
    // restore the hubs.
    let ids = hubs.clone();
    let turns: Vec<u64> = (0..CLIENTS).map(|_| dice.random()).collect();
    let outcomes = pair
        .everyone(move |client, api| {
            let (hubs, mut dice) = (ids.clone(), StdRng::seed_from_u64(turns[client]));
            async move {
                let mine = make(&api, "Leaf", &format!("leaf-{client}")).await;
                let mut outcomes = Vec::new();
                for _ in 0..HUBS {
                    let hub = &hubs[dice.random_range(0..HUBS)];
                    let path = format!("/api/graph/objects/{hub}");
                    let answer = match client % 8 {
                        0 => api.delete(&path).await,
                        1 => api.post(&format!("{path}/restore"), &json!({})).await,
                        2 => {
                            let body = json!({ "objects": [{ "ref": "new", "type": "Extra" }], "relationships": [
                                { "type": "near", "fromRef": "new", "toId": hub },
                                { "type": "near", "fromId": hub, "toRef": "new" }] });
                            api.post("/api/graph/subgraph", &body).await
                        }
                        3 => api.patch(&path, &json!({ "properties": { "count": dice.random::<u32>() } })).await,
                        _ => {
                            let (from, to) = if dice.random() { (&mine, hub) } else { (hub, &mine) };
                            let body = json!({ "type": "near", "fromId": from, "toId": to });
                            api.post("/api/graph/relationships", &body).await
                        }
                    };
                    assert!(matches!(answer.status, 200 | 201 | 400 | 404 | 409), "{} {}", answer.status, answer.body);
                    outcomes.push(answer.status);
                }
                outcomes
            }
        })
        .await;
    let mut counted = BTreeMap::<u16, usize>::new();
    outcomes.into_iter().flatten().for_each(|status| *counted.entry(status).or_default() += 1);
    eprintln!("answers by status: {counted:?}");

    let api = pair.api(1);
    let mut living = BTreeSet::new();
    for type_ in ["Hub", "Leaf", "Extra"] {
        let objects = api.all(&format!("/api/graph/objects?type={type_}")).await;
        living.extend(objects.iter().map(|object| object["id"].as_str().expect("an id").to_owned()));
    }
    let mut seen = BTreeSet::new();
    for edge in api.all("/api/graph/relationships?type=near").await {
        let ends = ["fromId", "toId"].map(|side| edge[side].as_str().expect("an id").to_owned());
        assert!(ends.iter().all(|end| living.contains(end)), "a living edge on a dead object: {edge}");
        assert!(seen.insert(ends), "the same edge twice: {edge}");
    }
    // A subgraph came whole or not at all: each extra object has both its edges, or lost both
    // with its hub.
    for object in api.all("/api/graph/objects?type=Extra").await {
        let id = object["id"].as_str().expect("an id");
        let of_it = seen.iter().filter(|ends| ends.iter().any(|end| end == id)).count();
        assert!(of_it == 2 || of_it == 0, "{of_it} edges on {object}");
    }
}

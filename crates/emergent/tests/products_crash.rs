//! The server is killed with SIGKILL at random moments while products are installed, upgraded,
//! downgraded, uninstalled and installed again, and documents come in. After every kill the
//! project is wholly before the change or wholly after it, and what was acknowledged is after.
//!
//! `EMERGENT_SOAK_KILLS` says how often (`make soak` takes many), `EMERGENT_TEST_SEED` repeats the
//! order; the moments of the kills are never quite the same.

mod common;
#[allow(dead_code, reason = "only one of its questions is asked here")]
#[path = "crash/on_disk.rs"]
mod on_disk;
#[path = "../../products/tests/support/mod.rs"]
mod support;

use std::{collections::BTreeMap, time::Duration};

use common::{Api, Home, kills, seed};
use emergent_store::{Db, DbConfig, projects};
use emergent_testkit::TestDb;
use rand::{Rng, SeedableRng, rngs::StdRng, seq::SliceRandom};
use reqwest::Method;
use serde_json::{Value, json};
use support::{Harness, builtin_manifest, fingerprint};

const NAMES: [&str; 3] = ["emergent.memory", "emergent.research", "emergent.code"];
/// The moments of kills come to five seconds within seven kills that are all too early.
const MORE_KILLS: usize = 20;
/// Install, upgrade, downgrade, uninstall, install again.
const LIFE: [Option<u8>; 5] = [Some(1), Some(2), Some(1), None, Some(2)];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_project_is_wholly_before_or_wholly_after_on_sqlite() {
    story(&Home::sqlite(), kills(24)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_project_is_wholly_before_or_wholly_after_on_postgres() {
    story(&Home::postgres().await, kills(24)).await;
}

/// One change: a product, and the version it is brought to; none takes it away.
type Move = (&'static str, Option<u8>);

/// The lives of the three products, each in its order, mixed with one another.
fn moves(dice: &mut StdRng, count: usize) -> Vec<Move> {
    let mut all = Vec::new();
    while all.len() < count {
        let mut turns: Vec<usize> = (0..NAMES.len()).flat_map(|name| [name; LIFE.len()]).collect();
        turns.shuffle(dice);
        let mut lived = [0; NAMES.len()];
        for name in turns {
            all.push((NAMES[name], LIFE[lived[name]]));
            lived[name] += 1;
        }
        // The next life begins with an install, so this one ends.
        all.extend(NAMES.map(|name| (name, None)));
    }
    all
}

/// Version 2 of a product that ships: something is changed, something new, something gone.
fn manifest(name: &str, version: u8) -> Value {
    let mut manifest = builtin_manifest(name);
    if version == 1 {
        return manifest;
    }
    manifest["version"] = json!("2.0.0");
    let agents = manifest["agents"].as_array_mut().expect("agents");
    agents[0]["system_prompt"] = json!("Version 2.");
    let gone = agents.pop().expect("an agent");
    agents.push(json!({ "name": format!("next-{}", gone["name"].as_str().expect("a name")) }));
    let pack =
        manifest["template_packs"].as_array_mut().and_then(|packs| packs.last_mut()).expect("its own pack");
    pack["version"] = json!("2.0.0");
    pack["object_type_schemas"]["Added"] = json!({ "type": "object" });
    let server = format!("{}-server", name.replace('.', "-"));
    manifest["jobs"] =
        json!([{ "name": "weekly", "cron": "0 7 * * 1", "agent": manifest["agents"][0]["name"] }]);
    manifest["mcp"]["servers"] =
        json!([{ "name": server, "transport": "http", "url": "https://example.com/mcp" }]);
    manifest["mcp"]["prompts"][0]["title"] = json!("Version 2");
    manifest
}

/// What the project looks like after each change, on a database that nobody kills.
async fn expected(moves: &[Move]) -> Vec<Value> {
    let db = TestDb::sqlite().await;
    let harness = Harness::open(&db).await;
    let mut there = BTreeMap::new();
    let mut seen = vec![harness.fingerprint().await];
    for (name, to) in moves {
        let done = match (there.contains_key(name), to) {
            (true, Some(version)) => harness.upgrade(&manifest(name, *version)).await,
            (false, Some(version)) => harness.install(&manifest(name, *version)).await,
            (_, None) => harness.uninstall(name).await,
        };
        done.unwrap_or_else(|error| panic!("{name} {to:?}: {error}"));
        match to {
            Some(version) => there.insert(*name, *version),
            None => there.remove(name),
        };
        let next = harness.fingerprint().await;
        assert_ne!(seen.last(), Some(&next), "{name} {to:?} changes something");
        seen.push(next);
    }
    seen
}

async fn story(home: &Home, kills: usize) {
    let mut dice = StdRng::seed_from_u64(seed());
    let moves = moves(&mut dice, kills + 1);
    let seen = expected(&moves).await;
    let (mut done, mut lost, mut doubted) = (0, 0, 0);
    // Kills that come too early move the next ones back, and the other way round: most then fall
    // around the commit, however fast this machine is. Until the first change they move faster.
    let mut reach = 60_000;
    // On a slow machine the first kills can all be too early. A change that never happens before a
    // kill shows nothing about the other side of the commit, so a few more kills are tried for one.
    let mut round = 0;
    while round < kills || (done == 0 && round < kills + MORE_KILLS) {
        let server = home.start().await;
        let writer = tokio::spawn(ingest(server.api.clone(), round));
        let (name, to) = moves[done];
        let asked = tokio::spawn(ask(server.api.clone(), name, to));
        tokio::time::sleep(Duration::from_micros(dice.random_range(0..reach))).await;
        server.kill();
        let acknowledged = asked.await.expect("a client that is content with its answers");
        writer.abort();
        on_disk::settle(home).await;
        let found = look(home).await;
        if found == seen[done + 1] {
            doubted += usize::from(!acknowledged);
            done += 1;
            reach = (reach * 3 / 4).max(2_000);
        } else {
            assert_eq!(found, seen[done], "{name} {to:?} is neither before nor after");
            assert!(!acknowledged, "{name} {to:?} was acknowledged and is not there");
            lost += 1;
            let later = if done == 0 { reach * 2 } else { reach * 3 / 2 };
            reach = later.min(5_000_000);
        }
        round += 1;
    }
    // And it goes on from wherever it stands.
    let server = home.start().await;
    let (name, to) = moves[done];
    assert!(ask(server.api.clone(), name, to).await);
    server.kill();
    on_disk::settle(home).await;
    assert_eq!(look(home).await, seen[done + 1]);
    eprintln!("{round} kills: {done} changes happened ({doubted} of them unheard), {lost} did not");
    assert!(done > 0, "no change ever happened");
}

/// Whether it was acknowledged. A refusal fails the test: every change is one that can be made.
async fn ask(api: Api, name: &'static str, to: Option<u8>) -> bool {
    let path = format!("/api/products/{name}");
    let answer = match to {
        None => api.send(Method::DELETE, &path, None).await,
        Some(version) => {
            let body = json!({ "manifest": manifest(name, version), "accept": true });
            match api.send(Method::POST, &format!("{path}/upgrade"), Some(&body)).await {
                Ok(answer) if answer.status == 404 => {
                    api.send(Method::POST, "/api/products/install", Some(&body)).await
                }
                other => other,
            }
        }
    };
    match answer {
        Ok(answer) => {
            assert!(answer.status < 300, "{name} {to:?}: {}", answer.body);
            true
        }
        Err(_) => false,
    }
}

/// What products make of documents is their business; they only keep the database busy.
async fn ingest(api: Api, round: usize) {
    for number in 0.. {
        let body = json!({ "title": format!("{round}-{number}"), "content": format!("Document {number} of round {round}.") });
        if api.send(Method::POST, "/api/documents", Some(&body)).await.is_err() {
            return;
        }
    }
}

async fn look(home: &Home) -> Value {
    let config = match &home.postgres {
        Some(url) => DbConfig::Postgres { url: url.clone(), connections: 2, statement_cache: true },
        None => DbConfig::Sqlite { path: home.data().join("emergent.db") },
    };
    let db = Db::open(config).await.expect("the database");
    let project = db.read(|tx| projects::get_by_name(tx, "default")).await;
    let project =
        project.unwrap_or_else(|error: emergent_store::Error| panic!("{error}")).expect("a project");
    fingerprint(&db, project.id).await
}

//! Triggers of both servers: 200 schedules and 2,000 events, each fires once; also when one of the
//! servers is killed half way.

use std::{
    sync::{
        Arc, LazyLock,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use emergent_domain::time::Timestamp;
use emergent_store::{Db, DbConfig, Error, Tx, schedules};
use futures_util::future::join_all;
use reqwest::Method;
use serde_json::json;

use crate::{
    CLIENTS, Pair,
    common::{Api, eventually},
};

const SCHEDULES: usize = 200;

/// How many events happen: 2,000, or what `EMERGENT_SOAK_EVENTS` says.
static EVENTS: LazyLock<usize> = LazyLock::new(|| match std::env::var("EMERGENT_SOAK_EVENTS") {
    Ok(text) => text.parse().expect("EMERGENT_SOAK_EVENTS is a number"),
    Err(_) => 2_000,
});

/// An agent on a model that answers at once.
async fn agent(api: &Api, name: &str, trigger: &str, settings: serde_json::Value) {
    let body = json!({
        "name": name, "trigger": trigger, "config": { "trigger": settings },
        "model": { "provider": "rehearsal", "name": "echo" },
    });
    api.post("/api/admin/agents", &body).await.data();
}

/// Writes its share of the objects. Whoever gets no answer asks the other server for the same,
/// which makes it or finds it made.
async fn write(client: usize, apis: [Api; 2], written: Arc<AtomicUsize>) {
    let mut at = client % 2;
    for n in (client..*EVENTS).step_by(CLIENTS) {
        let body = json!({ "type": "Event", "key": format!("event-{n}"), "properties": { "n": n } });
        let started = Instant::now();
        while apis[at].send(Method::PUT, "/api/graph/objects/upsert", Some(&body)).await.is_err() {
            assert!(started.elapsed() < Duration::from_secs(120), "neither server answers");
            at = 1 - at;
        }
        written.fetch_add(1, Ordering::Relaxed);
    }
}

/// Every schedule comes due within the next two seconds, and everybody is told.
async fn all_due(db: &Db) {
    let due = |tx: &mut Tx<'_>| {
        let now = Timestamp::now();
        let sql = "SELECT id FROM schedules ORDER BY id";
        let ids = tx.query(sql, &[], |row| row.get::<emergent_domain::ids::ScheduleId>(0))?;
        for (at, id) in ids.into_iter().enumerate() {
            let spread = Duration::from_millis(10 * u64::try_from(at).unwrap_or(0));
            tx.execute(
                "UPDATE schedules SET next_at = $2 WHERE id = $1",
                &[id.into(), (now + spread).into()],
            )?;
        }
        tx.wake(schedules::CHANGED_CHANNEL)
    };
    let done: Result<(), Error> = db.write(due).await;
    done.expect("the schedules are due");
}

async fn count(db: &Db, sql: &'static str) -> usize {
    let found: Result<Option<i64>, Error> = db.read(move |tx| tx.query_opt(sql, &[], |row| row.get(0))).await;
    usize::try_from(found.expect("an answer").expect("a row")).expect("a count")
}

async fn counts(db: &Db) -> [usize; 7] {
    [
        count(db, "SELECT count(*) FROM agent_runs WHERE origin = 'schedule'").await,
        count(db, "SELECT count(DISTINCT schedule_id) FROM agent_runs WHERE origin = 'schedule'").await,
        count(db, "SELECT count(*) FROM agent_runs WHERE origin = 'event'").await,
        count(db, "SELECT count(DISTINCT entity_id) FROM trigger_firings WHERE run_id IS NOT NULL").await,
        count(db, "SELECT count(*) FROM trigger_firings").await,
        count(db, "SELECT count(DISTINCT run_id) FROM trigger_firings WHERE status = 'admitted'").await,
        count(db, "SELECT count(*) FROM agent_runs").await,
    ]
}

/// What [`counts`] returns when each schedule and each event has fired once.
fn each_once() -> [usize; 7] {
    let all = SCHEDULES + *EVENTS;
    [SCHEDULES, SCHEDULES, *EVENTS, *EVENTS, all, all, all]
}

async fn story(kill: bool) {
    let mut pair = Pair::start().await;
    let url = pair.homes[0].postgres.clone().unwrap_or_default();
    let db = Db::open(DbConfig::Postgres { url, connections: 2, statement_cache: true })
        .await
        .expect("the database");
    agent(&pair.api(0), "listener", "on_entity_created", json!({ "types": ["Event"] })).await;
    // Once a year: what comes due here is made due.
    join_all((0..8).map(|from| {
        let api = pair.api(from);
        async move {
            for n in (from..SCHEDULES).step_by(8) {
                let cron = format!("{} {} 1 1 *", n % 60, n % 24);
                agent(&api, &format!("scheduled-{n}"), &cron, json!({})).await;
            }
        }
    }))
    .await;

    let began = Instant::now();
    let written = Arc::new(AtomicUsize::new(0));
    let apis = [pair.api(0), pair.api(1)];
    let clients: Vec<_> =
        (0..CLIENTS).map(|client| tokio::spawn(write(client, apis.clone(), Arc::clone(&written)))).collect();
    all_due(&db).await;
    if kill {
        let half = async || written.load(Ordering::Relaxed) >= *EVENTS / 2;
        eventually("half of it is written", Duration::from_secs(30), half).await;
        pair.kill_and_start(1).await;
    }
    for client in clients {
        client.await.expect("a client that is content");
    }
    eprintln!("{} events written in {:?}", *EVENTS, began.elapsed());

    eventually("every trigger has fired", Duration::from_secs(60), async || {
        // These counts read whole tables, and the servers need the database too.
        tokio::time::sleep(Duration::from_millis(500)).await;
        let now = counts(&db).await;
        now[0] >= SCHEDULES && now[2] >= *EVENTS
    })
    .await;
    eprintln!("all fired after {:?}", began.elapsed());
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(counts(&db).await, each_once());
    // Whoever asks either server sees the same.
    let firings = pair.api(1).all("/api/admin/triggers/firings?status=admitted").await;
    assert_eq!(firings.len(), SCHEDULES + *EVENTS);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_trigger_fires_once() {
    story(false).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_trigger_fires_once_although_a_server_is_killed_half_way() {
    story(true).await;
}

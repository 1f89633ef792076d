//! Durable single inserts: by one client, and by sixty-four that share commits.

use std::{sync::Arc, time::Instant};

use emergent_domain::{author::Author, object::NewObject, time::Clock};
use emergent_graph::{Actor, Graph};
use emergent_store::{Db, DbConfig};

use crate::{
    baseline,
    data::{Data, Object},
    report::{Goal, Report, p50},
};

const SINGLE: usize = 2_000;
const CLIENTS: usize = 64;
const EACH: usize = 500;

pub fn measure(report: &mut Report, data: &Data) {
    if !report.wants("durable insert") {
        return;
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    let raw_dir = tempfile::tempdir().expect("a folder");
    let conn = baseline::open(raw_dir.path());
    let dir = tempfile::tempdir().expect("a folder");
    let (graph, actor) = runtime.block_on(open(dir.path()));
    let project = uuid::Uuid::now_v7();

    // Both sides alternate, so that a busy moment of the machine affects both.
    let (mut raw_times, mut times) = (Vec::new(), Vec::new());
    for index in 0..SINGLE {
        let object = &data.objects[index % data.objects.len()];
        let start = Instant::now();
        conn.execute_batch("BEGIN IMMEDIATE").expect("begin");
        baseline::insert_object(&conn, project, object, &format!("k{index}"));
        conn.execute_batch("COMMIT").expect("commit");
        raw_times.push(start.elapsed().as_secs_f64() * 1e6);
        let new = new_object(object, format!("k{index}"));
        let start = Instant::now();
        runtime.block_on(graph.create_object(actor, new)).expect("an object");
        times.push(start.elapsed().as_secs_f64() * 1e6);
    }
    let raw_p50 = p50(raw_times);
    report.add(
        "durable insert, 1 client, p50",
        "sqlite",
        p50(times),
        "µs",
        Some(raw_p50),
        &Goal::AtMostTimes(2.0),
    );

    let objects: Arc<Vec<NewObject>> =
        Arc::new(data.objects.iter().take(4_000).map(|object| new_object(object, String::new())).collect());
    let commits = graph.db().commits();
    let start = Instant::now();
    runtime.block_on(async {
        let clients: Vec<_> = (0..CLIENTS)
            .map(|client| {
                let (graph, objects) = (graph.clone(), Arc::clone(&objects));
                tokio::spawn(async move {
                    for index in 0..EACH {
                        let mut new = objects[(client * EACH + index) % objects.len()].clone();
                        new.key = Some(format!("c{client}-{index}"));
                        graph.create_object(actor, new).await.expect("an object");
                    }
                })
            })
            .collect();
        for client in clients {
            client.await.expect("a client");
        }
    });
    let rate = (CLIENTS * EACH) as f64 / start.elapsed().as_secs_f64();
    report.add(
        "durable insert, 64 clients",
        "sqlite",
        rate,
        "/s",
        Some(1e6 / raw_p50),
        &Goal::AtLeastTimes(10.0),
    );
    let shared = (CLIENTS * EACH) as f64 / (graph.db().commits() - commits) as f64;
    report.add("durable insert, 64 clients, writes per fsync", "sqlite", shared, "", None, &Goal::None);
}

async fn open(dir: &std::path::Path) -> (Graph, Actor) {
    let db = Db::open(DbConfig::Sqlite { path: dir.join("emergent.db") }).await.expect("a database");
    let graph = Graph::new(db, Clock::system(), None);
    let project = graph.ensure_default_project().await.expect("a project").id;
    (graph, Actor { project, author: Author::System })
}

fn new_object(object: &Object, key: String) -> NewObject {
    NewObject {
        type_: object.type_.clone(),
        key: Some(key),
        status: None,
        labels: serde_json::from_value(object.labels.clone()).unwrap_or_default(),
        properties: object.properties.clone(),
    }
}

//! Reads over HTTP on loopback, beside the same reads on the raw database in this process.

use std::collections::HashSet;

use rusqlite::Connection;
use serde_json::{Value, json};

use crate::{
    baseline::Baseline,
    data::Data,
    http::Http,
    report::{Goal, Report, p50, time_each},
    server::Server,
};

/// Queries that people would send to these descriptions: two to four words, common and rare.
const QUERIES: [&str; 24] = [
    "web server",
    "image viewer",
    "python library parsing",
    "terminal emulator",
    "text editor",
    "network monitor",
    "sound synthesizer",
    "chess game",
    "database client",
    "fonts for programming",
    "pdf converter",
    "git repository browser",
    "weather forecast",
    "genome sequence alignment",
    "ruby gem testing",
    "password manager",
    "compiler optimization",
    "video player",
    "linear algebra",
    "spell checker dictionary",
    "mail transfer agent",
    "perl module",
    "kernel headers",
    "astronomy telescope control",
];

const SEARCH: &str = "/api/graph/search";

pub fn measure(report: &mut Report, server: &Server, data: &Data, raw: &Baseline) {
    let mut http = server.http();
    let sqlite = server.engine == "sqlite";
    let goal = |goal: Goal| if sqlite { goal } else { Goal::None };
    let keys: Vec<&str> =
        data.objects.iter().step_by(data.objects.len() / 500).map(|object| object.key.as_str()).collect();
    let ids: Vec<String> = keys.iter().map(|key| id_of(&mut http, key)).collect();

    let times = time_each(&ids, 1e6, |id| {
        http.get(&format!("/api/graph/objects/{id}"));
    });
    report.add("get by id, p50", server.engine, p50(times), "µs", None, &goal(Goal::Below(200.0)));

    for depth in [2, 3] {
        // A hundred starting points: traversals that reach the limit cost the most, and many do.
        let some: Vec<(&String, Vec<u8>)> =
            ids.iter().zip(&keys).step_by(5).map(|(id, key)| (id, raw.id_of(key))).collect();
        let raw_times = time_each(&some, 1e3, |(_, id)| {
            raw.traverse(id, depth, 1_000);
        });
        let times = time_each(&some, 1e3, |(id, _)| {
            let body = json!({ "startIds": [id], "maxDepth": depth, "maxNodes": 1_000, "maxEdges": 50_000 });
            http.post("/api/graph/traverse", &body.to_string());
        });
        let total = |times: &Vec<f64>| times.iter().sum::<f64>() / times.len() as f64;
        let name = format!("{depth}-hop traversal, cap 1,000, mean");
        report.add(
            &name,
            server.engine,
            total(&times),
            "ms",
            Some(total(&raw_times)),
            &goal(Goal::AtMostTimes(2.0)),
        );
    }

    let queries: Vec<&str> = QUERIES.iter().copied().cycle().take(QUERIES.len() * 10).collect();
    // Both sides alternate round by round, so that a busy moment of the machine affects both.
    let (mut raw_times, mut times) = (Vec::new(), Vec::new());
    for round in queries.chunks(QUERIES.len()) {
        raw_times.extend(time_each(round, 1e3, |query| {
            raw.full_text(query);
        }));
        times.extend(time_each(round, 1e3, |query| {
            http.post(SEARCH, &search_body(query, "text"));
        }));
    }
    let (raw_p50, text) = (p50(raw_times), p50(times));
    report.add(
        "full text top 10, p50",
        server.engine,
        text,
        "ms",
        Some(raw_p50),
        &goal(Goal::AtMostTimes(1.5)),
    );
    report.add("full text top 10, p50 (absolute)", server.engine, text, "ms", None, &goal(Goal::Below(6.0)));

    search(&mut http, QUERIES[0], "vector");
    let times = time_each(&queries, 1e3, |query| {
        http.post(SEARCH, &search_body(query, "vector"));
    });
    report.add("vector top 10, p50", server.engine, p50(times), "ms", None, &goal(Goal::Below(3.0)));
    if sqlite {
        let recall = recall(&mut http, &server.dir.path().join("emergent.db"));
        report.add("vector top 10, recall", server.engine, recall, "", None, &Goal::AtLeast(0.98));
    }
    let times = time_each(&queries, 1e3, |query| {
        http.post(SEARCH, &search_body(query, "hybrid"));
    });
    report.add("hybrid top 10, p50", server.engine, p50(times), "ms", None, &goal(Goal::Below(12.0)));
}

fn id_of(http: &mut Http, key: &str) -> String {
    let answer =
        http.get(&format!("/api/graph/objects?type=Package&key={}&limit=1", key.replace('+', "%2B")));
    let answer: Value = serde_json::from_slice(answer).expect("JSON");
    answer["data"][0]["id"].as_str().unwrap_or_else(|| panic!("no object `{key}`")).to_owned()
}

fn search_body(query: &str, mode: &str) -> String {
    json!({ "query": query, "mode": mode, "limit": 10 }).to_string()
}

fn search(http: &mut Http, query: &str, mode: &str) -> Vec<String> {
    let answer = http.post(SEARCH, &search_body(query, mode));
    let answer: Value = serde_json::from_slice(answer).expect("JSON");
    let hits = answer["data"]["hits"].as_array().cloned().unwrap_or_default();
    hits.iter().filter_map(|hit| hit["object"]["id"].as_str().map(str::to_owned)).collect()
}

/// Returns the share of the exact ten nearest objects that the server found, over all queries. Objects
/// count by the similarity of the tenth, so that equally near ones count as found.
fn recall(http: &mut Http, database: &std::path::Path) -> f64 {
    let conn = Connection::open_with_flags(database, rusqlite::OpenFlags::SQLITE_OPEN_READ_ONLY)
        .expect("the database");
    let mut statement = conn
        .prepare("SELECT o.id, e.vector FROM graph_embeddings e JOIN graph_objects o ON o.no = e.no")
        .expect("a statement");
    let vectors: Vec<(String, Vec<f32>)> = statement
        .query_map([], |row| {
            let id: Vec<u8> = row.get(0)?;
            let bytes: Vec<u8> = row.get(1)?;
            let vector = bytes
                .chunks_exact(4)
                .map(|four| f32::from_le_bytes([four[0], four[1], four[2], four[3]]))
                .collect();
            Ok((uuid::Uuid::from_slice(&id).expect("an id").to_string(), vector))
        })
        .expect("vectors")
        .map(|row| row.expect("a vector"))
        .collect();
    let embedder =
        emergent_llm::embedder(&emergent_llm::EmbedderSpec::Builtin, &emergent_llm::Credentials::default())
            .expect("the built-in embedder")
            .expect("an embedder");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let (mut hits_found, mut expected) = (0, 0);
    for query in QUERIES {
        let vector = runtime
            .block_on(embedder.embed(&[query.to_owned()], emergent_llm::EmbedTask::Query))
            .expect("a vector")
            .remove(0);
        let mut scores: Vec<(f32, &str)> = vectors
            .iter()
            .map(|(id, other)| (vector.iter().zip(other).map(|(a, b)| a * b).sum(), id.as_str()))
            .collect();
        scores.sort_by(|a, b| b.0.total_cmp(&a.0));
        let tenth = scores[9].0 - 1e-6;
        let near: HashSet<&str> =
            scores.iter().take_while(|(score, _)| *score >= tenth).map(|(_, id)| *id).collect();
        let hits = search(http, query, "vector");
        hits_found += hits.iter().filter(|id| near.contains(id.as_str())).count().min(10);
        expected += 10;
    }
    f64::from(hits_found as u32) / f64::from(expected as u32)
}

//! Runs: what the executor costs besides its model calls. The model is a separate process with a
//! provider's wire format; its speed alone is the baseline.

use std::{
    fs,
    io::{BufRead, BufReader, Write},
    net::TcpStream,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use serde_json::{Value, json};

use crate::{
    Options,
    http::Http,
    model::Model,
    report::{Goal, Report, p50},
    server::{Server, TOKEN},
};

/// Whether any row about runs is selected; `--only` takes the beginning of its name.
pub fn is_selected(report: &Report) -> bool {
    ["run step", "1,000 runs", "10,000 runs", "first byte", "bytes stored"]
        .iter()
        .any(|name| report.wants(name))
}

pub fn measure(report: &mut Report, options: &Options) {
    if !is_selected(report) {
        return;
    }
    let model = Model::start(options);
    for postgres in
        [None, options.postgres.as_deref()].into_iter().take(1 + usize::from(options.postgres.is_some()))
    {
        let server = start(options, &model, postgres);
        prepare(&server);
        steps(report, &server, &model);
        if postgres.is_none() {
            first_byte(report, &server);
            measure_stored_bytes(report, &server);
            drop(server);
            measure_concurrent_runs(report, options, &model, 1_000, 200, 10);
            measure_concurrent_runs(report, options, &model, 10_000, 15_000, 0);
        }
    }
}

/// Starts a server whose agents use the model.
pub fn start(options: &Options, model: &Model, postgres: Option<&str>) -> Server {
    let settings = [
        ("EMERGENT_OPENAI_BASE_URL", format!("http://{}", model.address)),
        ("OPENAI_API_KEY", "none".to_owned()),
        ("EMERGENT_MAX_RUNS", "20000".to_owned()),
        ("EMERGENT_MAX_PROJECT_RUNS", "20000".to_owned()),
        ("EMERGENT_MODEL_CALLS", "20000".to_owned()),
    ];
    let dir = tempfile::tempdir().expect("a folder");
    Server::start_with(&options.binary, dir, postgres, "off", &settings)
}

/// Creates sixty objects of about a kilobyte for the agents to read.
fn prepare(server: &Server) {
    let objects: Vec<Value> = (0..60)
        .map(|n| {
            let body = "A fact that an agent reads, with where it comes from and what follows. ".repeat(11);
            json!({ "type": "Fact", "key": format!("fact-{n}"), "properties": { "title": format!("Fact {n}"), "body": body } })
        })
        .collect();
    server.http().post("/api/graph/objects/bulk", &json!({ "objects": objects }).to_string());
}

/// Creates an agent that uses a plan of the model, and returns its id.
fn agent(server: &Server, plan: &str) -> String {
    let body = json!({
        "name": format!("agent-{plan}"), "systemPrompt": "Look at the facts one after the other and report.",
        "model": { "provider": "openai", "name": plan }, "tools": ["entities_get", "entities_create"],
        "defaultTimeout": 3_600,
    });
    let mut http = server.http();
    let response: Value =
        serde_json::from_slice(http.post("/api/admin/agents", &body.to_string())).expect("JSON");
    response["data"]["id"].as_str().expect("an id").to_owned()
}

/// Starts a run, and returns its id.
pub fn trigger(http: &mut Http, agent: &str) -> String {
    let body = json!({ "input": "Look at the facts." }).to_string();
    let response: Value =
        serde_json::from_slice(http.post(&format!("/api/admin/agents/{agent}/trigger"), &body))
            .expect("JSON");
    response["data"]["runId"].as_str().expect("an id").to_owned()
}

pub fn run_detail(http: &mut Http, agent: &str, run: &str) -> Value {
    let answer = http.get(&format!("/api/admin/agents/{agent}/runs/{run}"));
    serde_json::from_slice::<Value>(answer).expect("JSON")["data"].clone()
}

fn wait(http: &mut Http, agent: &str, run: &str) -> Value {
    loop {
        let detail = run_detail(http, agent, run);
        match detail["status"].as_str() {
            Some("queued" | "running") => std::thread::sleep(Duration::from_millis(2)),
            Some("completed") => return detail,
            _ => panic!("a run did not complete: {detail}"),
        }
    }
}

fn steps(report: &mut Report, server: &Server, model: &Model) {
    for (kind, plan) in [("a read", "s50-l0-read"), ("a write", "s50-l0-write")] {
        let (wall, cpu) = (format!("run step with {kind}, overhead"), format!("run step with {kind}, CPU"));
        if !report.wants(&wall) && !report.wants(&cpu) {
            continue;
        }
        let agent = agent(server, plan);
        let mut http = server.http();
        let warm = trigger(&mut http, &agent);
        wait(&mut http, &agent, &warm);
        let raw_ms = model.raw_call_us(50) / 1e3;
        let mut overheads = Vec::new();
        let mut cpus = Vec::new();
        for _ in 0..10 {
            let before = server.cpu_ms();
            let run = trigger(&mut http, &agent);
            // Polling in the meantime would count as work of the run.
            std::thread::sleep(Duration::from_millis(300));
            wait(&mut http, &agent, &run);
            cpus.push((server.cpu_ms() - before) / 51.0);
            let detail = run_detail(&mut http, &agent, &run);
            let (from, to) = (micros(&detail["startedAt"]), micros(&detail["completedAt"]));
            overheads.push((to - from) / 1e3 / 51.0 - raw_ms);
        }
        let read = kind == "a read";
        let goal = match (read, server.engine) {
            (true, "sqlite") => Goal::Below(1.0),
            (true, _) => Goal::Below(2.5),
            (false, _) => Goal::None,
        };
        report.add(&wall, server.engine, p50(overheads), "ms", Some(raw_ms), &goal);
        let goal = if read && server.engine == "sqlite" { Goal::Below(0.4) } else { Goal::None };
        report.add(&cpu, server.engine, p50(cpus), "ms", None, &goal);
    }
}

/// Converts an RFC 3339 time to microseconds of its day. The measured runs rarely pass midnight.
fn micros(time: &Value) -> f64 {
    let text = time.as_str().expect("a time");
    let clock = &text[11..text.len() - 1];
    let mut parts = clock.split(':').map(|part| part.parse::<f64>().expect("a number"));
    let mut next = || parts.next().unwrap_or(0.0);
    (next() * 3600.0 + next() * 60.0 + next()) * 1e6
}

/// Measures the time from the first output of the model to its arrival at the client, with a hundred
/// followed runs. The answers start ten milliseconds apart, so that the latency is measured and not a
/// queue of a hundred simultaneous starts.
fn first_byte(report: &mut Report, server: &Server) {
    let name = "first byte of the model to first byte at the client, p99 of 100 streams";
    if !report.wants(name) {
        return;
    }
    let agent = agent(server, "s0-l700-stamp");
    let threads: Vec<_> = (0..100)
        .map(|_| {
            let (address, agent) = (server.address.clone(), agent.clone());
            std::thread::spawn(move || {
                let run = trigger(&mut Http::connect(&address, TOKEN), &agent);
                let stream = TcpStream::connect(&address).expect("the server listens");
                let path = format!("/api/admin/agents/{agent}/runs/{run}/events");
                let request = format!(
                    "GET {path} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {TOKEN}\r\n\r\n"
                );
                (&stream).write_all(request.as_bytes()).expect("the server reads");
                for line in BufReader::new(stream).lines() {
                    let line = line.expect("an event");
                    let now =
                        SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock").as_micros() as f64;
                    let Some(event) = line.strip_prefix("data:") else { continue };
                    let event: Value = serde_json::from_str(event).expect("JSON");
                    if event["type"] == "text_delta" {
                        let started_at: f64 =
                            event["text"].as_str().expect("a text").parse().expect("a stamp");
                        return (now - started_at) / 1e3;
                    }
                }
                panic!("the stream ended without a word");
            })
        })
        .collect();
    let mut times: Vec<f64> = threads.into_iter().map(|thread| thread.join().expect("a stream")).collect();
    times.sort_by(f64::total_cmp);
    report.add(name, server.engine, times[98], "ms", None, &Goal::Below(2.0));
    report.add("… p50", server.engine, times[49], "ms", None, &Goal::None);
}

/// Measures how much the database grows besides the payload.
fn measure_stored_bytes(report: &mut Report, server: &Server) {
    let name = "bytes stored per run, beside its payload";
    if !report.wants(name) {
        return;
    }
    let agent = agent(server, "s20-l0-read");
    let mut http = server.http();
    let run = trigger(&mut http, &agent);
    wait(&mut http, &agent, &run);
    let before = server.database_bytes();
    let runs: Vec<String> = (0..100).map(|_| trigger(&mut http, &agent)).collect();
    let payload: f64 = runs
        .iter()
        .map(|run| {
            wait(&mut http, &agent, run);
            payload(&mut http, &agent, run)
        })
        .sum();
    let grown = server.database_bytes() - before;
    report.add(name, server.engine, grown / 100.0, "bytes", Some(payload / 100.0), &Goal::AtMostTimes(1.3));
}

/// Returns the payload of a run: texts, names of tools, inputs and outputs.
fn payload(http: &mut Http, agent: &str, run: &str) -> f64 {
    let mut bytes = 0;
    let path = format!("/api/admin/agents/{agent}/runs/{run}");
    let messages: Value =
        serde_json::from_slice(http.get(&format!("{path}/messages?limit=100"))).expect("JSON");
    for message in messages["data"].as_array().into_iter().flatten() {
        bytes += message["content"]["text"].as_str().map_or(0, str::len);
    }
    let calls: Value =
        serde_json::from_slice(http.get(&format!("{path}/tool-calls?limit=100"))).expect("JSON");
    for call in calls["data"].as_array().into_iter().flatten() {
        bytes += call["toolName"].as_str().map_or(0, str::len);
        bytes += call["input"].to_string().len() + call["output"].to_string().len();
    }
    bytes as f64
}

/// Completes a hundred runs, and returns the payload of one with ten steps.
fn warm_up(server: &Server) -> f64 {
    let agent = agent(server, "s10-l0-read");
    let mut http = server.http();
    let runs: Vec<String> = (0..100).map(|_| trigger(&mut http, &agent)).collect();
    for run in &runs {
        wait(&mut http, &agent, run);
    }
    payload(&mut http, &agent, &runs[0])
}

/// Measures many concurrent runs, each of a few steps with a slow model.
fn measure_concurrent_runs(
    report: &mut Report,
    options: &Options,
    model: &Model,
    runs: usize,
    latency_ms: u64,
    steps: usize,
) {
    let label = if runs == 1_000 { "1,000" } else { "10,000" };
    let name = format!("{label} runs at once × {} steps, {latency_ms} ms model latency", steps.max(1));
    if !report.wants(&name) {
        return;
    }
    let server = start(options, model, None);
    prepare(&server);
    let agent = agent(&server, &format!("s{steps}-l{latency_ms}-read"));
    // Memory that the server keeps permanently (caches of the database, threads) does not belong to the
    // runs, and the conversation is not overhead.
    let payload_bytes = warm_up(&server);
    let idle = server.memory_mb();
    let start = Instant::now();
    let threads: Vec<_> = (0..8)
        .map(|_| {
            let (address, agent) = (server.address.clone(), agent.clone());
            std::thread::spawn(move || {
                let mut http = Http::connect(&address, TOKEN);
                (0..runs / 8).for_each(|_| drop(trigger(&mut http, &agent)));
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().expect("triggers"));
    let triggered = start.elapsed();
    let mut http = server.http();
    let mut peak: f64 = 0.0;
    loop {
        peak = peak.max(server.memory_mb());
        let open = |status: &str, http: &mut Http| {
            let answer = http.get(&format!("/api/admin/agents/{agent}/runs?status={status}&limit=1"));
            let answer: Value = serde_json::from_slice(answer).expect("JSON");
            answer["data"].as_array().is_some_and(|list| !list.is_empty())
        };
        if !open("running", &mut http) && !open("queued", &mut http) {
            break;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    let wall = start.elapsed();
    let failed: Value =
        serde_json::from_slice(http.get(&format!("/api/admin/agents/{agent}/runs?status=failed&limit=100")))
            .expect("JSON");
    let failed = failed["data"].as_array().map_or(0, Vec::len);
    let ideal = (steps + 1) as f64 * latency_ms as f64 / 1e3;
    eprintln!("{name}: triggered within {triggered:.2?}, {failed} failed");
    // The ideal: all model calls run concurrently, and nothing else takes time.
    let goal = if runs == 1_000 { Goal::AtMostTimes(1.25) } else { Goal::None };
    report.add(&name, "sqlite", wall.as_secs_f64(), "s", Some(ideal), &goal);
    let goal = if runs == 1_000 { Goal::Below(64.0) } else { Goal::None };
    let conversation = if steps == 0 { 0.0 } else { payload_bytes };
    let per_run = (peak - idle) * 1024.0 / runs as f64 - conversation / 1024.0;
    let memory = format!("{label} runs at once: memory per run beyond the conversation");
    report.add(&memory, "sqlite", per_run, "KB", None, &goal);
    report.add(
        &format!("{label} runs at once: failed"),
        "sqlite",
        failed as f64,
        "runs",
        None,
        &Goal::Below(1.0),
    );
    let _ = fs::metadata(server.dir.path());
}

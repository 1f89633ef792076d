//! Runs that wait for a person: what ten thousand of them cost a server, and how soon one goes on after the
//! decision. A waiting run is a row and nothing else, so the figures are compared with those of the same server
//! while nothing waits.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use crate::{
    Options,
    http::Http,
    model::Model,
    report::{Goal, Report, p50, p99},
    runs,
    server::{Server, TOKEN},
    workflows::thousands,
};

const RUNS: usize = 10_000;
/// Runs that wait and are decided before anything is measured.
const WARM_UP: usize = 500;
const DECISIONS: usize = 500;
/// How long the server is watched while it has nothing to do.
const QUIET_TIME: Duration = Duration::from_secs(30);
const TRIGGER_THREADS: usize = 8;
/// The pause before the next decision, so that the latency is measured and not a queue of decisions.
const PAUSE: Duration = Duration::from_millis(10);

/// Whether the rows about waiting runs are selected: `--only "waiting runs"`.
pub fn is_selected(report: &Report) -> bool {
    report.wants("waiting runs")
}

pub fn measure(report: &mut Report, options: &Options) {
    if !is_selected(report) {
        return;
    }
    let model = Model::start(options);
    measure_engine(report, options, &model, None);
    if let Some(url) = options.postgres.as_deref() {
        measure_engine(report, options, &model, Some(url));
    }
}

fn measure_engine(report: &mut Report, options: &Options, model: &Model, postgres: Option<&str>) {
    let count = options.count.unwrap_or(RUNS);
    let server = start(options, model, postgres);
    let held = agent(&server, "s1-l0-write-stamped", true);
    let free = agent(&server, "s0-l0-read-stamped", false);
    let ending = agent(&server, "s1-l0-write-stamped", false);
    start_runs(&server, &held, WARM_UP);
    let requests = pending(&mut server.http(), WARM_UP);
    decide_all(&server, &requests);
    wait_until_none(&server, &held, &["queued", "running", "waiting"]);

    // As many runs with the same steps that end fill the caches of the database, which do not belong to runs.
    let ended = memory_of_each(&server, &ending, count);
    let without = Usage::watch(&server, postgres);
    let waiting = memory_of_each(&server, &held, count);
    let with = Usage::watch(&server, postgres);

    let name = |what: &str| format!("{} waiting runs: {what}", thousands(count));
    let what = name("memory of each; raw: of as many runs before them that ended");
    report.add(&what, server.engine, waiting, "KB", Some(ended), &Goal::Below(1.0));
    let what = name("processor time of the server in 30 s; raw: with none");
    report.add(&what, server.engine, with.cpu_ms, "ms", Some(without.cpu_ms), &Goal::AtMostTimes(2.0));
    if let (Some(with), Some(without)) = (with.transactions, without.transactions) {
        let what = name("transactions of the database in 30 s; raw: with none");
        report.add(&what, server.engine, with, "", Some(without), &Goal::AtMostTimes(1.5));
    }
    wake_ups(report, &server, (&held, &free), &name);
    if postgres.is_none() {
        let what = name("memory of the server after a restart; raw: of a server without data");
        let new = Server::start(&options.binary, tempfile::tempdir().expect("a folder"), None, "off");
        std::thread::sleep(Duration::from_secs(2));
        let empty = new.memory_mb();
        drop(new);
        let server = server.restart("off");
        std::thread::sleep(Duration::from_secs(2));
        report.add(&what, server.engine, server.memory_mb(), "MB", Some(empty), &Goal::None);
    }
}

/// Starts a server with the default limits. With more runs in progress at once, the memory that these needed would
/// stay with the server, and hide what those that wait need.
fn start(options: &Options, model: &Model, postgres: Option<&str>) -> Server {
    let settings = [
        ("EMERGENT_OPENAI_BASE_URL", format!("http://{}", model.address)),
        ("OPENAI_API_KEY", "none".to_owned()),
    ];
    Server::start_with(&options.binary, tempfile::tempdir().expect("a folder"), postgres, "off", &settings)
}

/// Starts runs until none of them is driven any more, and returns by how many kilobytes the memory of the server
/// has grown for each.
fn memory_of_each(server: &Server, agent: &str, count: usize) -> f64 {
    let (before, start) = (server.memory_mb(), Instant::now());
    start_runs(server, agent, count);
    eprintln!("{count} runs after {:.1?}", start.elapsed());
    std::thread::sleep(Duration::from_secs(3));
    (server.memory_mb() - before) * 1024.0 / count as f64
}

/// What a server and its database do while nothing is asked of them.
struct Usage {
    cpu_ms: f64,
    /// Only PostgreSQL counts them.
    transactions: Option<f64>,
}

impl Usage {
    fn watch(server: &Server, postgres: Option<&str>) -> Self {
        // What was started before comes to its end first.
        std::thread::sleep(Duration::from_secs(2));
        let (cpu, transactions) = (server.cpu_ms(), postgres.map(transactions));
        std::thread::sleep(QUIET_TIME);
        let made = transactions.and_then(|before| Some(self::transactions(postgres?) - before));
        Self { cpu_ms: server.cpu_ms() - cpu, transactions: made }
    }
}

/// The transactions of this database so far. PostgreSQL publishes them about every second.
fn transactions(url: &str) -> f64 {
    let count = async {
        let (client, connection) =
            tokio_postgres::connect(url, tokio_postgres::NoTls).await.expect("the database");
        let connection = tokio::spawn(connection);
        let sql =
            "SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = current_database()";
        let count: i64 = client.query_one(sql, &[]).await.expect("a row").get(0);
        drop(client);
        let _ = connection.await;
        count as f64
    };
    tokio::runtime::Runtime::new().expect("a runtime").block_on(count)
}

/// Creates an agent that uses a plan of the model, and returns its id. The writes of a held one need an approval.
fn agent(server: &Server, plan: &str, is_held: bool) -> String {
    let mut body = json!({
        "name": format!("bench-{}", uuid::Uuid::now_v7().simple()),
        "systemPrompt": "Write what you found, and report.",
        "model": { "provider": "openai", "name": plan }, "tools": ["entities_create"], "defaultTimeout": 3_600,
    });
    if is_held {
        body["approvals"] = json!([{ "tools": ["entities_create"], "action": "ask" }]);
    }
    let mut http = server.http();
    let answer: Value =
        serde_json::from_slice(http.post("/api/admin/agents", &body.to_string())).expect("JSON");
    answer["data"]["id"].as_str().expect("an id").to_owned()
}

/// Starts runs, and returns when all of them wait or have ended.
fn start_runs(server: &Server, agent: &str, count: usize) {
    let threads: Vec<_> = (0..TRIGGER_THREADS)
        .map(|thread| {
            let (address, agent) = (server.address.clone(), agent.to_owned());
            let own = count / TRIGGER_THREADS + usize::from(thread < count % TRIGGER_THREADS);
            std::thread::spawn(move || {
                let mut http = Http::connect(&address, TOKEN);
                (0..own).for_each(|_| drop(runs::trigger(&mut http, &agent)));
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().expect("triggers"));
    wait_until_none(server, agent, &["queued", "running"]);
}

fn wait_until_none(server: &Server, agent: &str, statuses: &[&str]) {
    let (mut http, start) = (server.http(), Instant::now());
    for status in statuses {
        let path = format!("/api/admin/agents/{agent}/runs?status={status}&limit=1");
        loop {
            let answer: Value = serde_json::from_slice(http.get(&path)).expect("JSON");
            if answer["data"].as_array().is_some_and(Vec::is_empty) {
                break;
            }
            assert!(start.elapsed() < Duration::from_secs(600), "runs stay {status}: {answer}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

/// A call that waits for a decision, and its run.
struct Request {
    id: String,
    run: String,
}

/// The newest requests.
fn pending(http: &mut Http, count: usize) -> Vec<Request> {
    let (mut requests, mut after) = (Vec::new(), String::new());
    while requests.len() < count {
        let path = format!("/api/approvals?status=pending&kind=approval&limit=100{after}");
        let (page, next) = http.page(&path);
        let page: Value = serde_json::from_slice(page).expect("JSON");
        for item in page["data"].as_array().expect("a list") {
            let text = |field: &str| item[field].as_str().expect("an id").to_owned();
            requests.push(Request { id: text("id"), run: text("runId") });
        }
        let Some(next) = next else { break };
        after = format!("&cursor={next}");
    }
    requests.truncate(count);
    requests
}

fn decide(http: &mut Http, request: &Request) {
    http.post(&format!("/api/approvals/{}/decide", request.id), r#"{"decision":"approve"}"#);
}

fn decide_all(server: &Server, requests: &[Request]) {
    let mut http = server.http();
    requests.iter().for_each(|request| decide(&mut http, request));
}

/// Measures the time from the response to a decision until the model is asked again: in between the run is
/// claimed and loaded, its call is made, and the result is recorded. The baseline is the time from the response
/// to a trigger until the model is asked for the first time, on the same server.
fn wake_ups(
    report: &mut Report,
    server: &Server,
    (held, free): (&str, &str),
    name: &impl Fn(&str) -> String,
) {
    let mut http = server.http();
    let requests = pending(&mut http, DECISIONS);
    let mut decided = Vec::new();
    let mut triggered = Vec::new();
    for request in requests {
        decide(&mut http, &request);
        decided.push((request.run, micros()));
        std::thread::sleep(PAUSE);
        let run = runs::trigger(&mut http, free);
        triggered.push((run, micros()));
        std::thread::sleep(PAUSE);
    }
    wait_until_none(server, free, &["queued", "running"]);
    wait_until_none(server, held, &["queued", "running"]);
    let mut since = |agent: &str, runs: &[(String, f64)]| -> Vec<f64> {
        runs.iter().map(|(run, at)| ((asked_at(&mut http, agent, run) - at) / 1e3).max(0.0)).collect()
    };
    let (woken, started) = (since(held, &decided), since(free, &triggered));
    let count = woken.len();
    let what = name(&format!(
        "decision to the next call of the model, p99 of {count}; raw: trigger to the first call"
    ));
    report.add(
        &what,
        server.engine,
        p99(woken.clone()),
        "ms",
        Some(p99(started.clone())),
        &Goal::Below(50.0),
    );
    let what = name("… p50");
    report.add(&what, server.engine, p50(woken), "ms", Some(p50(started)), &Goal::None);
}

/// When the model was asked for the last answer of a run: the answer says it.
fn asked_at(http: &mut Http, agent: &str, run: &str) -> f64 {
    let detail = runs::run_detail(http, agent, run);
    let text = detail["summary"]["text"].as_str().unwrap_or_else(|| panic!("a run has no answer: {detail}"));
    text.parse().unwrap_or_else(|_| panic!("a time, not {text}"))
}

fn micros() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock").as_micros() as f64
}

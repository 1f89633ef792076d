//! Workflows: what coordination costs besides the model calls of the tasks. Everything goes over HTTP
//! to the real server. Each task is one call of a model that answers at once, and every step is
//! durable.

use std::time::{Duration, Instant};

use emergent_domain::time::Timestamp;
use serde_json::{Value, json};

use crate::{
    Options, baseline,
    http::Http,
    model::Model,
    report::{Goal, Report, p50},
    runs,
    server::{Server, TOKEN},
};

const LAYERS: usize = 10;
const BLOCKERS: usize = 3;
const MAX_CONCURRENT: usize = 64;
/// Each number of a single workflow is the median of this many rounds.
const ROUNDS: usize = 3;

/// The sizes of the measurement; smaller with `--tasks`, which the names of the rows show.
struct Sizes {
    layered: usize,
    independent: usize,
    chain: usize,
    workflows: usize,
    each: usize,
    /// Whether the sizes are complete; goals apply only then.
    whole: bool,
}

impl Sizes {
    fn from_options(options: &Options) -> Self {
        let max_tasks = options.tasks.unwrap_or(1_000);
        // A layer needs at least as many tasks as the next one has blockers.
        let layered = |tasks: usize| (tasks / LAYERS).max(BLOCKERS) * LAYERS;
        Self {
            layered: layered(max_tasks.min(1_000)),
            independent: max_tasks.clamp(1, 400),
            chain: max_tasks.clamp(2, 300),
            workflows: max_tasks.clamp(1, 100),
            each: layered(max_tasks.min(100)),
            whole: max_tasks >= 1_000,
        }
    }

    fn goal(&self, goal: Goal) -> Goal {
        if self.whole { goal } else { Goal::None }
    }

    fn layered_name(&self) -> String {
        let tasks = thousands(self.layered);
        format!(
            "workflow of {tasks} tasks in {LAYERS} layers, each blocked by {BLOCKERS}, {MAX_CONCURRENT} at once"
        )
    }

    fn independent_name(&self) -> String {
        format!("workflow of {} independent light tasks with one slot", thousands(self.independent))
    }

    fn many_name(&self, servers: &str) -> String {
        format!("{} workflows of {} tasks at once on {servers}", self.workflows, self.each)
    }
}

const NEXT_START_ROW: &str = "workflow: blocker's completion to its dependent's start, p99";
const ONE: &str = "one server";
const TWO: &str = "two servers";

pub fn thousands(number: usize) -> String {
    match number {
        1_000.. => format!("{},{:03}", number / 1_000, number % 1_000),
        _ => number.to_string(),
    }
}

/// Whether any row about workflows is selected; `--only workflow` selects all of them.
pub fn is_selected(report: &Report, options: &Options) -> bool {
    let sizes = Sizes::from_options(options);
    let names = [sizes.layered_name(), sizes.independent_name(), sizes.many_name(ONE), sizes.many_name(TWO)];
    report.wants(NEXT_START_ROW) || names.iter().any(|name| report.wants(name))
}

pub fn measure(report: &mut Report, options: &Options) {
    if !is_selected(report, options) {
        return;
    }
    let sizes = Sizes::from_options(options);
    let model = Model::start(options);
    for postgres in
        [None, options.postgres.as_deref()].into_iter().take(1 + usize::from(options.postgres.is_some()))
    {
        let server = runs::start(options, &model, postgres);
        let agent = agent(&server);
        warm_up(&server, &agent);
        layered(report, &server, &model, &agent, &sizes);
        independent(report, &server, &model, &agent, &sizes);
        measure_next_start(report, &server, &agent, &sizes);
        drop(server);
        measure_many(report, options, &model, postgres, &sizes);
    }
}

/// Creates an agent that answers with one model call. Returns its name, which is unique in this
/// database.
fn agent(server: &Server) -> String {
    let name = format!("bench-{}", uuid::Uuid::now_v7().simple());
    let body = json!({
        "name": name, "systemPrompt": "Do what the task says and report.",
        "model": { "provider": "openai", "name": "s0-l0-read" }, "tools": [], "defaultTimeout": 3_600,
    });
    server.http().post("/api/admin/agents", &body.to_string());
    name
}

pub fn task(agent: &str, key: &str, blocked_by: &[String]) -> Value {
    json!({
        "key": key, "title": format!("Look at {key}"), "description": "Look at the facts and report.",
        "assignedAgent": agent, "blockedBy": blocked_by,
    })
}

/// Each task waits for three tasks of the previous layer.
fn in_layers(agent: &str, tasks: usize) -> Vec<Value> {
    let width = tasks / LAYERS;
    let key = |layer: usize, index: usize| format!("t{layer}-{}", index % width);
    let of_layer = |layer: usize| {
        (0..width).map(move |index| {
            let blockers = if layer == 0 { 0 } else { BLOCKERS };
            let blocked_by: Vec<String> =
                (0..blockers).map(|blocker| key(layer - 1, index * BLOCKERS + blocker)).collect();
            task(agent, &key(layer, index), &blocked_by)
        })
    };
    (0..LAYERS).flat_map(of_layer).collect()
}

fn without_order(agent: &str, tasks: usize) -> Vec<Value> {
    (0..tasks).map(|index| task(agent, &format!("t{index}"), &[])).collect()
}

fn in_a_row(agent: &str, tasks: usize) -> Vec<Value> {
    let before = |index: usize| if index == 0 { Vec::new() } else { vec![format!("t{}", index - 1)] };
    (0..tasks).map(|index| task(agent, &format!("t{index}"), &before(index))).collect()
}

pub fn body(tasks: &[Value], at_once: usize) -> String {
    json!({ "tasks": tasks, "maxConcurrent": at_once }).to_string()
}

pub fn dispatch(http: &mut Http, body: &str) -> String {
    let response: Value =
        serde_json::from_slice(http.post("/api/coordination/dispatch", body)).expect("JSON");
    response["data"]["workflowId"].as_str().expect("an id").to_owned()
}

/// Waits until no workflow is active. It polls as little as possible, because polling is work for the
/// server as well.
pub fn wait(http: &mut Http, every: Duration) {
    let start = Instant::now();
    loop {
        let answer = http.get("/api/coordination/workflows?status=running&limit=1");
        let answer: Value = serde_json::from_slice(answer).expect("JSON");
        if answer["data"].as_array().is_some_and(Vec::is_empty) {
            return;
        }
        assert!(start.elapsed() < Duration::from_secs(600), "a workflow does not end: {answer}");
        std::thread::sleep(every);
    }
}

pub fn get_workflow(http: &mut Http, workflow: &str) -> Value {
    let answer = http.get(&format!("/api/coordination/workflows/{workflow}"));
    serde_json::from_slice::<Value>(answer).expect("JSON")["data"].clone()
}

/// Counts the tasks of a workflow that were not completed with exactly one attempt.
pub fn not_done_once(workflow: &Value) -> usize {
    let tasks = workflow["tasks"].as_array().expect("tasks");
    let once = |task: &&Value| task["status"] == "completed" && task["attempts"] == 1;
    tasks.len() - tasks.iter().filter(once).count()
}

/// The duration of one workflow, from the request that starts it to its end.
struct WorkflowTiming {
    id: String,
    seconds: f64,
    cpu_ms: f64,
}

fn run_workflow(server: &Server, tasks: &[Value], at_once: usize, every: Duration) -> WorkflowTiming {
    let (mut http, body) = (server.http(), body(tasks, at_once));
    let (cpu, start) = (server.cpu_ms(), Instant::now());
    let id = dispatch(&mut http, &body);
    let created = start.elapsed();
    wait(&mut http, every);
    let (seconds, cpu_ms) = (start.elapsed().as_secs_f64(), server.cpu_ms() - cpu);
    let workflow = get_workflow(&mut http, &id);
    assert_eq!(workflow["status"], "completed", "{}: {}", workflow["summary"], workflow["escalation"]);
    assert_eq!(not_done_once(&workflow), 0, "tasks were lost or done twice");
    eprintln!(
        "{} tasks, {at_once} at once: {seconds:.3} s, of which {created:.2?} to create them",
        tasks.len()
    );
    WorkflowTiming { id, seconds, cpu_ms }
}

/// Fills caches, and starts threads and connections to the model.
fn warm_up(server: &Server, agent: &str) {
    run_workflow(server, &in_layers(agent, 100), MAX_CONCURRENT, Duration::from_millis(5));
}

fn layered(report: &mut Report, server: &Server, model: &Model, agent: &str, sizes: &Sizes) {
    let name = sizes.layered_name();
    if !report.wants(&name) {
        return;
    }
    let tasks = in_layers(agent, sizes.layered);
    let count = tasks.len() as f64;
    let (mut took, mut raw, mut cpu) = (Vec::new(), Vec::new(), Vec::new());
    // Both sides alternate, so that a busy moment of the machine affects both.
    for _ in 0..ROUNDS {
        raw.push(model.raw_calls_seconds(tasks.len(), MAX_CONCURRENT));
        let timing = run_workflow(server, &tasks, MAX_CONCURRENT, Duration::from_millis(5));
        took.push(timing.seconds);
        cpu.push(timing.cpu_ms / count);
    }
    let (seconds, raw) = (p50(took), p50(raw));
    let goal = sizes.goal(Goal::AtLeast(if server.engine == "sqlite" { 1_000.0 } else { 400.0 }));
    // The baseline is the number of calls that the model answers alone with the same concurrency.
    report.add(&name, server.engine, count / seconds, "tasks/s", Some(count / raw), &goal);
    let overhead = (seconds - raw) / count * 1e3;
    let commit = Some(commit_ms());
    // The baseline is one durable commit of raw SQLite.
    report.add("… overhead per task of the workflow", server.engine, overhead, "ms", commit, &Goal::None);
    report.add("… server's CPU per task of the workflow", server.engine, p50(cpu), "ms", None, &Goal::None);
}

/// Measures the commit of one row of a task's size.
fn commit_ms() -> f64 {
    let dir = tempfile::tempdir().expect("a folder");
    let conn = baseline::open(dir.path());
    conn.execute_batch("CREATE TABLE tasks (id integer PRIMARY KEY, properties text NOT NULL)")
        .expect("a table");
    let properties = "x".repeat(500);
    let times = (0..200).map(|_| {
        let start = Instant::now();
        conn.execute("INSERT INTO tasks (properties) VALUES (?1)", [&properties]).expect("a row");
        start.elapsed().as_secs_f64() * 1e3
    });
    p50(times.collect())
}

fn independent(report: &mut Report, server: &Server, model: &Model, agent: &str, sizes: &Sizes) {
    let name = sizes.independent_name();
    if !report.wants(&name) {
        return;
    }
    let tasks = without_order(agent, sizes.independent);
    let raw = model.raw_calls_seconds(tasks.len(), 1);
    let took =
        (0..ROUNDS).map(|_| run_workflow(server, &tasks, 1, Duration::from_millis(5)).seconds).collect();
    // Published for as many light tasks with one worker: Windmill 19.7 s, Hatchet 35.8 s, Temporal 39.0 s.
    report.add(&name, server.engine, p50(took), "s", Some(raw), &sizes.goal(Goal::Below(1.0)));
}

/// Measures the time from the end of a task's run to the start of its dependent's run, over a chain on
/// an otherwise idle server.
fn measure_next_start(report: &mut Report, server: &Server, agent: &str, sizes: &Sizes) {
    if !report.wants(NEXT_START_ROW) {
        return;
    }
    // Frequent polling would be additional work for the server.
    let chain = run_workflow(server, &in_a_row(agent, sizes.chain), 1, Duration::from_millis(200));
    let mut http = server.http();
    let workflow = get_workflow(&mut http, &chain.id);
    let mut runs: Vec<(i64, i64)> = workflow["tasks"]
        .as_array()
        .expect("tasks")
        .iter()
        .map(|task| {
            let run = task["runIds"][0].as_str().expect("a run");
            let answer = http.get(&format!("/api/admin/runs/{run}"));
            let run = serde_json::from_slice::<Value>(answer).expect("JSON")["data"].clone();
            (micros(&run["startedAt"]), micros(&run["completedAt"]))
        })
        .collect();
    runs.sort_unstable();
    let mut gaps: Vec<f64> = runs.windows(2).map(|pair| (pair[1].0 - pair[0].1) as f64 / 1e3).collect();
    let third = gaps.len().div_ceil(3);
    let (first, last) = (p50(gaps[..third].to_vec()), p50(gaps[gaps.len() - third..].to_vec()));
    eprintln!("{NEXT_START_ROW}: p50 of the chain's first third {first:.2} ms, of its last {last:.2} ms");
    gaps.sort_by(f64::total_cmp);
    let p99 = gaps[(gaps.len() * 99).div_ceil(100) - 1];
    report.add(NEXT_START_ROW, server.engine, p99, "ms", None, &sizes.goal(Goal::Below(5.0)));
    report.add("… p50", server.engine, gaps[gaps.len() / 2], "ms", None, &Goal::None);
}

fn micros(time: &Value) -> i64 {
    time.as_str().and_then(|text| text.parse::<Timestamp>().ok()).expect("a time").as_micros()
}

/// Runs many workflows, on two servers that share the database if the engine allows it.
fn measure_many(
    report: &mut Report,
    options: &Options,
    model: &Model,
    postgres: Option<&str>,
    sizes: &Sizes,
) {
    let name = sizes.many_name(if postgres.is_some() { TWO } else { ONE });
    if !report.wants(&name) {
        return;
    }
    let servers: Vec<Server> =
        (0..=usize::from(postgres.is_some())).map(|_| runs::start(options, model, postgres)).collect();
    let agent = agent(&servers[0]);
    servers.iter().for_each(|server| warm_up(server, &agent));
    let tasks = body(&in_layers(&agent, sizes.each), 16);
    let cpus: Vec<f64> = servers.iter().map(Server::cpu_ms).collect();
    let start = Instant::now();
    let clients: Vec<_> = (0..4)
        .map(|client| {
            let address = servers[client % servers.len()].address.clone();
            let (tasks, mine) = (tasks.clone(), (client..sizes.workflows).step_by(4));
            std::thread::spawn(move || {
                let mut http = Http::connect(&address, TOKEN);
                mine.map(|_| dispatch(&mut http, &tasks)).collect::<Vec<String>>()
            })
        })
        .collect();
    let ids: Vec<String> =
        clients.into_iter().flat_map(|client| client.join().expect("dispatches")).collect();
    let created = start.elapsed();
    let mut http = servers[0].http();
    wait(&mut http, Duration::from_millis(20));
    let seconds = start.elapsed().as_secs_f64();
    let spent: Vec<String> = servers
        .iter()
        .zip(cpus)
        .map(|(server, before)| format!("{:.1} s", (server.cpu_ms() - before) / 1e3))
        .collect();
    eprintln!("{name}: dispatched within {created:.2?}; CPU of each server: {}", spent.join(", "));
    let (mut lost, mut incomplete) = (0, 0);
    for id in &ids {
        let workflow = get_workflow(&mut http, id);
        lost += not_done_once(&workflow);
        incomplete += usize::from(workflow["status"] != "completed");
    }
    let engine = servers[0].engine;
    let all = sizes.workflows * sizes.each;
    // The baseline is the model alone with as many calls.
    let raw = model.raw_calls_seconds(all, MAX_CONCURRENT);
    report.add(&name, engine, seconds, "s", Some(raw), &Goal::None);
    report.add("… together", engine, all as f64 / seconds, "tasks/s", None, &Goal::None);
    report.add("… workflows not completed", engine, incomplete as f64, "workflows", None, &Goal::Below(1.0));
    report.add("… tasks lost or done twice", engine, lost as f64, "tasks", None, &Goal::Below(1.0));
}

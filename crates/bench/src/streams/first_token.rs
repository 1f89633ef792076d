//! The time from the first token of the model to its arrival at the client of a conversation. The model writes
//! the time at which it sends its first token as that token.

use std::{
    io::{BufRead, BufReader, Write},
    net::TcpStream,
    time::{SystemTime, UNIX_EPOCH},
};

use serde_json::{Value, json};

use crate::{
    Options,
    http::Http,
    model::Model,
    report::{Goal, Report, p50, p99},
    runs,
    server::{Server, TOKEN},
};

const STREAMS: usize = 100;
/// Each figure is the median of this many rounds.
const ROUNDS: usize = 5;
/// A hundred answers start ten milliseconds apart, so that the latency is measured and not a queue of a hundred
/// simultaneous starts.
const PLAN: &str = "s0-l700-stamp";
const NAME: &str =
    "first token of the model to the client of a chat, p99 of 100 streams; raw: without Emergent";

pub(super) fn is_selected(report: &Report) -> bool {
    report.wants("first token")
}

pub(super) fn measure(report: &mut Report, options: &Options) {
    let model = Model::start(options);
    let engines = [None, options.postgres.as_deref()];
    for postgres in engines.into_iter().take(1 + usize::from(options.postgres.is_some())) {
        let server = runs::start(options, &model, postgres);
        let agent = agent(&server);
        let (mut all, mut half, mut raw_all, mut raw_half) = (vec![], vec![], vec![], vec![]);
        for _ in 0..ROUNDS {
            let address = model.address.clone();
            let raw = at_once(move || ask_model(&address));
            raw_all.push(p99(raw.clone()));
            raw_half.push(p50(raw));
            let (address, agent) = (server.address.clone(), agent.clone());
            let times = at_once(move || chat(&address, &agent));
            all.push(p99(times.clone()));
            half.push(p50(times));
        }
        report.add(NAME, server.engine, p50(all), "ms", Some(p50(raw_all)), &Goal::Below(5.0));
        report.add("first token: … p50", server.engine, p50(half), "ms", Some(p50(raw_half)), &Goal::None);
    }
}

fn agent(server: &Server) -> String {
    let body = json!({
        "name": format!("bench-{}", uuid::Uuid::now_v7().simple()), "systemPrompt": "Answer.",
        "model": { "provider": "openai", "name": PLAN }, "tools": [], "defaultTimeout": 3_600,
    });
    let mut http = server.http();
    let answer: Value =
        serde_json::from_slice(http.post("/api/admin/agents", &body.to_string())).expect("JSON");
    answer["data"]["id"].as_str().expect("an id").to_owned()
}

/// Opens all streams at once, and returns what each of them measured.
fn at_once(measure: impl Fn() -> f64 + Clone + Send + 'static) -> Vec<f64> {
    let threads: Vec<_> = (0..STREAMS).map(|_| std::thread::spawn(measure.clone())).collect();
    threads.into_iter().map(|thread| thread.join().expect("a stream")).collect()
}

/// Begins a conversation, and returns the milliseconds from the model's first token to its arrival here.
fn chat(address: &str, agent: &str) -> f64 {
    let stream = TcpStream::connect(address).expect("the server listens");
    stream.set_nodelay(true).expect("TCP_NODELAY");
    let body = json!({ "message": "What is there to know?", "agentDefinitionId": agent }).to_string();
    let request = format!(
        "POST /api/chat/stream HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {TOKEN}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    (&stream).write_all(request.as_bytes()).expect("the server reads");
    for line in BufReader::new(stream).lines() {
        let line = line.expect("a frame");
        let now = micros();
        let Some(frame) = line.strip_prefix("data:") else { continue };
        let frame: Value = serde_json::from_str(frame).expect("JSON");
        if frame["type"] == "token" {
            let sent: f64 = frame["text"].as_str().expect("a text").parse().expect("a time");
            return (now - sent) / 1e3;
        }
    }
    panic!("the stream ended without a token");
}

/// The same without Emergent: the client asks the model.
fn ask_model(address: &str) -> f64 {
    let mut http = Http::connect(address, "none");
    let answer = http.post("/v1/chat/completions", &json!({ "model": PLAN, "messages": [] }).to_string());
    let now = micros();
    let answer = String::from_utf8_lossy(answer);
    let (_, rest) = answer.split_once("\"content\":\"").expect("a token");
    let sent: f64 = rest.split('"').next().unwrap_or_default().parse().expect("a time");
    (now - sent) / 1e3
}

fn micros() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock").as_micros() as f64
}

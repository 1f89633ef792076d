//! What a streamed answer costs over the stream of the model: the time from the moment at which the model sends a token
//! to its arrival at the client, and the time of the whole answer. The model writes the time at which it sends each token
//! as that token.

use std::{
    io::{BufRead, BufReader, Write},
    net::TcpStream,
    time::{Instant, SystemTime, UNIX_EPOCH},
};

use serde_json::{Value, json};

use crate::{
    Options,
    model::Model,
    report::{Goal, Report, p50, p99},
    server::{Server, TOKEN},
};

/// How many answers are streamed, one after the other.
const STREAMS: usize = 50;
/// A hundred tokens, two milliseconds apart.
const PLAN: &str = "s0-l0-t100-g2";
const TOKENS: usize = 100;
const PROTOCOLS: [Protocol; 2] = [Protocol::OpenAi, Protocol::Agui];

#[derive(Clone, Copy)]
enum Protocol {
    OpenAi,
    Agui,
}

impl Protocol {
    fn row(self, what: &str) -> String {
        let name = match self {
            Self::OpenAi => "/v1",
            Self::Agui => "AG-UI",
        };
        format!("outside: streamed answer over {name}, {what}; raw: the model's own stream")
    }

    fn request(self, agent: &str) -> (String, Value) {
        match self {
            Self::OpenAi => {
                let body = json!({ "model": agent, "stream": true, "messages": super::messages() });
                ("/v1/chat/completions".to_owned(), body)
            }
            Self::Agui => {
                let id = uuid::Uuid::now_v7().to_string();
                let body = json!({ "threadId": id, "runId": id, "messages": super::messages() });
                (format!("/api/agents/{agent}/agui"), body)
            }
        }
    }

    /// The text that a frame of the stream adds to the answer.
    fn text(self, frame: &Value) -> Option<&str> {
        match self {
            Self::OpenAi => frame["choices"][0]["delta"]["content"].as_str(),
            Self::Agui => frame["delta"].as_str().filter(|_| frame["type"] == "TEXT_MESSAGE_CONTENT"),
        }
    }

    fn is_end(self, frame: &str) -> bool {
        match self {
            Self::OpenAi => frame == "[DONE]",
            Self::Agui => frame.contains("\"RUN_FINISHED\""),
        }
    }
}

const DELAY: &str = "delay of a token, p99";
const WHOLE: &str = "the whole of 100 tokens, p50";

pub(super) fn is_selected(report: &Report) -> bool {
    PROTOCOLS.iter().any(|protocol| report.wants(&protocol.row(DELAY)) || report.wants(&protocol.row(WHOLE)))
}

pub(super) fn measure(report: &mut Report, options: &Options, server: &Server, model: &Model) {
    let streams = options.count.unwrap_or(STREAMS);
    let agent = super::agent(server, PLAN);
    let body = json!({ "model": PLAN, "stream": true, "messages": super::messages() });
    for protocol in PROTOCOLS {
        let rows = [protocol.row(DELAY), protocol.row(WHOLE)];
        if !rows.iter().any(|row| report.wants(row)) {
            continue;
        }
        let (mut answers, mut raw) = (Measured::default(), Measured::default());
        for number in 0..=streams {
            // The two alternate, so that a change of the machine's load meets both.
            let path = "/v1/chat/completions";
            let of_model = follow(&model.address, path, &body, Protocol::OpenAi);
            let (path, body) = protocol.request(&agent);
            let of_agent = follow(&server.address, &path, &body, protocol);
            // The first ones open connections and warm caches.
            if number > 0 {
                raw.add(of_model);
                answers.add(of_agent);
            }
        }
        let [delay, whole] = &rows;
        report.add(delay, server.engine, p99(answers.delays), "ms", Some(p99(raw.delays)), &Goal::None);
        report.add(whole, server.engine, p50(answers.wholes), "ms", Some(p50(raw.wholes)), &Goal::None);
    }
}

/// Times in milliseconds.
#[derive(Default)]
struct Measured {
    delays: Vec<f64>,
    wholes: Vec<f64>,
}

impl Measured {
    fn add(&mut self, (delays, whole): (Vec<f64>, f64)) {
        self.delays.extend(delays);
        self.wholes.push(whole);
    }
}

/// Streams one answer, and returns the delay of each token and the time of the whole answer, in milliseconds.
fn follow(address: &str, path: &str, body: &Value, protocol: Protocol) -> (Vec<f64>, f64) {
    let start = Instant::now();
    let stream = TcpStream::connect(address).expect("the server listens");
    stream.set_nodelay(true).expect("TCP_NODELAY");
    let body = body.to_string();
    let request = format!(
        "POST {path} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {TOKEN}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    (&stream).write_all(request.as_bytes()).expect("the server reads");
    let (mut delays, mut said) = (Vec::new(), String::new());
    for line in BufReader::new(stream).lines() {
        let line = line.expect("a frame");
        let now = micros();
        said.push_str(&line);
        let Some(frame) = line.strip_prefix("data: ") else { continue };
        if protocol.is_end(frame) {
            assert_eq!(delays.len(), TOKENS, "tokens are missing: {said}");
            return (delays, start.elapsed().as_secs_f64() * 1e3);
        }
        let frame: Value = serde_json::from_str(frame).expect("JSON");
        // One frame may have several tokens.
        for token in protocol.text(&frame).unwrap_or_default().split_whitespace() {
            let sent: f64 = token.parse().expect("a time");
            delays.push((now - sent) / 1e3);
        }
    }
    panic!("the stream ended early: {said}");
}

fn micros() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock").as_micros() as f64
}

//! Requests for the whole answer of an agent, of fifty clients at once.

use std::time::Duration;

use serde_json::json;

use crate::{
    Options,
    http::Http,
    load::{self, Load},
    model::Model,
    report::{Goal, Report, p99},
    server::Server,
};

const CLIENTS: usize = 50;
const MEASURE_TIME: Duration = Duration::from_secs(4);
/// With `--count`, the rows are only checked.
const CHECK_TIME: Duration = Duration::from_millis(300);
/// One answer of text, without latency.
const PLAN: &str = "s0-l0-read";
const PROTOCOLS: [Protocol; 3] = [Protocol::Invoke, Protocol::A2a, Protocol::OpenAi];

#[derive(Clone, Copy)]
enum Protocol {
    Invoke,
    A2a,
    OpenAi,
}

impl Protocol {
    fn row(self) -> String {
        let name = match self {
            Self::Invoke => "invoke",
            Self::A2a => "A2A SendMessage",
            Self::OpenAi => "/v1/chat/completions",
        };
        format!("outside: {name}, {CLIENTS} clients; raw: the model")
    }

    /// Returns the path, additional headers and the body of a request.
    fn request(self, agent: &str) -> (String, &'static str, String) {
        match self {
            Self::Invoke => {
                let body = json!({ "input": "What is there to know?", "wait": 60 });
                (format!("/api/agents/{agent}/invoke"), "", body.to_string())
            }
            Self::A2a => {
                // The same message again would be the same task.
                let id = uuid::Uuid::now_v7().to_string();
                let parts = json!([{ "text": "What is there to know?" }]);
                let message = json!({ "messageId": id, "role": "ROLE_USER", "parts": parts });
                let params = json!({ "message": message, "configuration": { "historyLength": 0 } });
                let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": params });
                (format!("/a2a/default/{agent}"), "a2a-version: 1.0\r\n", body.to_string())
            }
            Self::OpenAi => {
                let body = json!({ "model": agent, "messages": super::messages() });
                ("/v1/chat/completions".to_owned(), "", body.to_string())
            }
        }
    }
}

pub(super) fn is_selected(report: &Report) -> bool {
    PROTOCOLS.iter().any(|protocol| report.wants(&protocol.row()))
}

pub(super) fn measure(report: &mut Report, options: &Options, server: &Server, model: &Model) {
    let time = if options.count.is_some() { CHECK_TIME } else { MEASURE_TIME };
    for protocol in PROTOCOLS {
        if !report.wants(&protocol.row()) {
            continue;
        }
        let raw = ask_model(model, time);
        let agent = super::agent(server, PLAN);
        let address = server.address.clone();
        let load = load::measure(CLIENTS, time, move |_| {
            let (mut http, agent) = (Http::connect(&address, crate::server::TOKEN), agent.clone());
            move || {
                let (path, headers, body) = protocol.request(&agent);
                let answer = http.post_with(&path, headers, &body);
                assert!(contains(answer, b"nothing is missing"), "{}", String::from_utf8_lossy(answer));
            }
        });
        let (row, engine) = (protocol.row(), server.engine);
        let (rate, raw_rate) = (load.requests_per_second, raw.requests_per_second);
        report.add(&row, engine, rate, "requests/s", Some(raw_rate), &Goal::None);
        let (late, raw_late) = (p99(load.times), p99(raw.times));
        report.add(&format!("{row}, p99"), engine, late, "ms", Some(raw_late), &Goal::None);
    }
}

/// The same without Emergent: the clients ask the model.
fn ask_model(model: &Model, time: Duration) -> Load {
    let (address, body) = (model.address.clone(), json!({ "model": PLAN, "messages": super::messages() }));
    load::measure(CLIENTS, time, move |_| {
        let (mut http, body) = (Http::connect(&address, "none"), body.to_string());
        move || {
            let answer = http.post("/v1/chat/completions", &body);
            assert!(contains(answer, b"nothing is missing"), "no answer of the model");
        }
    })
}

fn contains(bytes: &[u8], what: &[u8]) -> bool {
    bytes.windows(what.len()).any(|window| window == what)
}

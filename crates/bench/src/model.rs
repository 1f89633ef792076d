//! The model of the benchmark's agents: a separate process with a provider's wire format, and the time
//! of a call without any layer.

use std::{
    io::{BufRead, BufReader},
    process::{Child, Command, Stdio},
    sync::{
        Arc, Barrier,
        atomic::{AtomicUsize, Ordering},
    },
    time::Instant,
};

use serde_json::{Value, json};

use crate::{Options, http::Http, report::p50};

pub struct Model {
    child: Child,
    pub address: String,
}

impl Drop for Model {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Model {
    pub fn start(options: &Options) -> Self {
        let binary = options.binary.with_file_name("emergent-model-server");
        let mut child = Command::new(&binary)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("{}: {error}", binary.display()));
        let mut address = String::new();
        let out = child.stdout.take().expect("its output");
        BufReader::new(out).read_line(&mut address).expect("its address");
        Self { child, address: address.trim().to_owned() }
    }

    /// Measures one call without any layer: the request that a run of `steps` steps would send, up to the
    /// last byte of the answer.
    pub fn raw_call_us(&self, steps: usize) -> f64 {
        let mut http = Http::connect(&self.address, "none");
        let turn = json!([
            { "role": "assistant", "content": "I will look at the next one.", "tool_calls": [{ "id": "x", "type": "function",
              "function": { "name": "entities_get", "arguments": "{\"id\":\"Fact/fact-1\"}" } }] },
            { "role": "tool", "tool_call_id": "x", "content": "x".repeat(900) },
        ]);
        let turns: Vec<Value> =
            (0..steps / 2).flat_map(|_| turn.as_array().cloned().unwrap_or_default()).collect();
        let body = json!({ "model": format!("s{steps}-l0-read"), "messages": turns }).to_string();
        let times = (0..200).map(|_| {
            let start = Instant::now();
            http.post("/v1/chat/completions", &body);
            start.elapsed().as_secs_f64() * 1e6
        });
        p50(times.collect())
    }
    /// Makes `calls` calls without any layer, `at_once` of them concurrently, each like the run of one
    /// task. Returns the seconds they take together.
    pub fn raw_calls_seconds(&self, calls: usize, at_once: usize) -> f64 {
        let body = json!({ "model": "s0-l0-read", "stream": true, "messages": [
            { "role": "system", "content": "Look at the facts one after the other and report." },
            { "role": "user", "content": "x".repeat(900) },
        ] })
        .to_string();
        let (body, left) = (Arc::new(body), Arc::new(AtomicUsize::new(calls)));
        let ready = Arc::new(Barrier::new(at_once + 1));
        let threads: Vec<_> = (0..at_once)
            .map(|_| {
                let mut http = Http::connect(&self.address, "none");
                let (body, left, ready) = (Arc::clone(&body), Arc::clone(&left), Arc::clone(&ready));
                std::thread::spawn(move || {
                    http.post("/v1/chat/completions", &body);
                    ready.wait();
                    let one_less = |left: usize| left.checked_sub(1);
                    while left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_less).is_ok() {
                        http.post("/v1/chat/completions", &body);
                    }
                })
            })
            .collect();
        ready.wait();
        let start = Instant::now();
        threads.into_iter().for_each(|thread| thread.join().expect("calls"));
        start.elapsed().as_secs_f64()
    }
}

//! A program of a client that receives push notifications.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    sync::{Arc, Mutex, PoisonError},
    thread,
    time::{Duration, Instant},
};

use serde_json::Value;

const PATIENCE: Duration = Duration::from_secs(30);
const MAX_BODY_BYTES: usize = 1 << 20;

/// What one request had: its header fields with names in lower case, and its body.
#[derive(Debug, Clone)]
pub struct Notification {
    pub headers: Vec<(String, String)>,
    pub body: Value,
}

impl Notification {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// The state that it tells of, if it does.
    pub fn state(&self) -> Option<String> {
        let of = |kind: &str| self.body[kind]["status"]["state"].as_str().map(str::to_owned);
        let state = of("task").or_else(|| of("statusUpdate"))?;
        Some(state.trim_start_matches("TASK_STATE_").to_owned())
    }

    pub fn task(&self) -> Option<&str> {
        let ids = [&self.body["task"]["id"], &self.body["statusUpdate"]["taskId"]];
        ids.into_iter().chain([&self.body["artifactUpdate"]["taskId"]]).find_map(Value::as_str)
    }
}

/// Receives until the test ends.
pub struct Hook {
    pub url: String,
    received: Arc<Mutex<Vec<Notification>>>,
}

impl Hook {
    pub fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let url = format!("http://{}/hook", listener.local_addr().expect("an address"));
        let received: Arc<Mutex<Vec<Notification>>> = Arc::default();
        let list = Arc::clone(&received);
        // The thread ends with the process of the test.
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                if let Some(one) = receive(stream) {
                    list.lock().unwrap_or_else(PoisonError::into_inner).push(one);
                }
            }
        });
        Self { url, received }
    }

    /// Waits until a task has this state, and returns all notifications about it.
    pub fn until(&self, task: &str, state: &str) -> Vec<Notification> {
        let start = Instant::now();
        loop {
            let received = self.received.lock().unwrap_or_else(PoisonError::into_inner).clone();
            let about: Vec<_> = received.into_iter().filter(|one| one.task() == Some(task)).collect();
            if about.iter().any(|one| one.state().as_deref() == Some(state)) {
                return about;
            }
            assert!(start.elapsed() < PATIENCE, "no {state} of {task}: {about:?}");
            thread::sleep(Duration::from_millis(20));
        }
    }
}

/// Reads one request and accepts it.
fn receive(stream: TcpStream) -> Option<Notification> {
    stream.set_read_timeout(Some(PATIENCE)).ok()?;
    let mut reader = BufReader::new(stream);
    let (mut headers, mut line) = (Vec::new(), String::new());
    reader.read_line(&mut line).ok()?;
    loop {
        line.clear();
        reader.read_line(&mut line).ok()?;
        let Some((name, value)) = line.trim_end().split_once(':') else { break };
        headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
    }
    let length = headers.iter().find(|(name, _)| name == "content-length")?.1.parse::<usize>().ok()?;
    let mut body = vec![0; length.min(MAX_BODY_BYTES)];
    reader.read_exact(&mut body).ok()?;
    let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
    reader.get_mut().write_all(answer).ok()?;
    Some(Notification { headers, body: serde_json::from_slice(&body).ok()? })
}

//! A model that follows a plan, in a separate process. It implements OpenAI's streamed wire format and
//! does nothing else, so that the measurements are about the server under test.
//!
//! The name of the model is the plan. `s50-l0-read` gives fifty answers with a call of `entities_get`
//! and then one with text; `l` is its latency in milliseconds; `write` calls `entities_create` instead.
//! `stamp` answers with the time of its first output, in microseconds of the machine's clock, each such
//! answer ten milliseconds after the previous one. With `stamped`, the text after the calls is the time at
//! which the model was asked for it. `t100-g2` streams a text of a hundred tokens, `g` milliseconds apart: each
//! is the time at which it is sent.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};

struct Plan {
    steps: usize,
    latency: Duration,
    what: AnswerKind,
    is_stamped: bool,
    /// How many tokens the text has that is streamed; zero if the answer is sent at once.
    tokens: usize,
    /// The time between two tokens.
    gap: Duration,
}

#[derive(Clone, Copy, PartialEq)]
enum AnswerKind {
    Read,
    Write,
    Stamp,
}

static CALLS: AtomicU64 = AtomicU64::new(0);
static STAMPS: AtomicU64 = AtomicU64::new(0);

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:0".to_owned());
    let listener = TcpListener::bind(&address).await.expect("an address to listen on");
    println!("{}", listener.local_addr().expect("an address"));
    loop {
        if let Ok((stream, _)) = listener.accept().await {
            let _ = stream.set_nodelay(true);
            tokio::spawn(serve(stream));
        }
    }
}

async fn serve(mut stream: TcpStream) {
    let mut bytes = Vec::with_capacity(4096);
    while let Some(body) = request(&mut stream, &mut bytes).await {
        let plan = plan(&body);
        let answers = count(&body, b"\"role\":\"assistant\"");
        let mut latency = plan.latency;
        if plan.what == AnswerKind::Stamp {
            latency += Duration::from_millis(10 * (STAMPS.fetch_add(1, Ordering::Relaxed) % 100));
        }
        if !latency.is_zero() {
            tokio::time::sleep(latency).await;
        }
        let sent = match plan.tokens {
            0 => stream.write_all(answer(&plan, answers).as_bytes()).await,
            _ => stream_tokens(&mut stream, &plan).await,
        };
        if sent.is_err() {
            return;
        }
    }
}

/// Sends a text token by token.
async fn stream_tokens(stream: &mut TcpStream, plan: &Plan) -> std::io::Result<()> {
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
    stream.write_all(head.as_bytes()).await?;
    let mut ticks = tokio::time::interval(plan.gap.max(Duration::from_micros(1)));
    for _ in 0..plan.tokens {
        ticks.tick().await;
        let choice = format!(
            r#""choices":[{{"index":0,"delta":{{"role":"assistant","content":"{} "}},"finish_reason":null}}]"#,
            micros()
        );
        stream.write_all(chunk(&event(&choice)).as_bytes()).await?;
    }
    let end = event(r#""choices":[{"index":0,"delta":{},"finish_reason":"stop"}]"#) + &event(USAGE);
    stream.write_all(chunk(&format!("{end}data: [DONE]\n\n")).as_bytes()).await?;
    stream.write_all(b"0\r\n\r\n").await
}

/// One event of the stream with this data.
fn event(data: &str) -> String {
    format!("data: {EVENT_HEAD}{data}}}\n\n")
}

fn chunk(events: &str) -> String {
    format!("{:x}\r\n{events}\r\n", events.len())
}

/// Reads the body of one request; bytes after it stay in `bytes`.
async fn request(stream: &mut TcpStream, bytes: &mut Vec<u8>) -> Option<Vec<u8>> {
    loop {
        if let Some(end) = find(bytes, b"\r\n\r\n") {
            let head = String::from_utf8_lossy(&bytes[..end]).to_ascii_lowercase();
            let length: usize =
                head.lines().find_map(|line| line.strip_prefix("content-length:"))?.trim().parse().ok()?;
            let whole = end + 4 + length;
            while bytes.len() < whole {
                if stream.read_buf(bytes).await.ok()? == 0 {
                    return None;
                }
            }
            let rest = bytes.split_off(whole);
            let body = bytes.split_off(end + 4);
            *bytes = rest;
            return Some(body);
        }
        if stream.read_buf(bytes).await.ok()? == 0 {
            return None;
        }
    }
}

fn plan(body: &[u8]) -> Plan {
    let mut plan = Plan {
        steps: 1,
        latency: Duration::ZERO,
        what: AnswerKind::Read,
        is_stamped: false,
        tokens: 0,
        gap: Duration::ZERO,
    };
    let Some(at) = find(body, b"\"model\":\"") else { return plan };
    let name = body[at + 9..].split(|byte| *byte == b'"').next().unwrap_or_default();
    for word in String::from_utf8_lossy(name).split('-') {
        match word {
            "read" => plan.what = AnswerKind::Read,
            "write" => plan.what = AnswerKind::Write,
            "stamp" => plan.what = AnswerKind::Stamp,
            "stamped" => plan.is_stamped = true,
            _ => {
                let number = word.get(1..).and_then(|number| number.parse::<u64>().ok()).unwrap_or(0);
                match word.as_bytes().first() {
                    Some(b's') => plan.steps = usize::try_from(number).unwrap_or(0),
                    Some(b'l') => plan.latency = Duration::from_millis(number),
                    Some(b't') => plan.tokens = usize::try_from(number).unwrap_or(0),
                    Some(b'g') => plan.gap = Duration::from_millis(number),
                    _ => {}
                }
            }
        }
    }
    plan
}

fn answer(plan: &Plan, answers: usize) -> String {
    let call = CALLS.fetch_add(1, Ordering::Relaxed);
    let mut events = String::with_capacity(1024);
    let mut event = |data: &str| {
        events.push_str("data: ");
        events.push_str(EVENT_HEAD);
        events.push_str(data);
        events.push_str("}\n\n");
    };
    if plan.what == AnswerKind::Stamp || answers >= plan.steps {
        let text = if plan.is_stamped || plan.what == AnswerKind::Stamp {
            micros().to_string()
        } else {
            "Everything was looked at, and nothing is missing.".to_owned()
        };
        event(&format!(
            r#""choices":[{{"index":0,"delta":{{"role":"assistant","content":"{text}"}},"finish_reason":null}}]"#
        ));
        event(r#""choices":[{"index":0,"delta":{},"finish_reason":"stop"}]"#);
    } else {
        event(
            r#""choices":[{"index":0,"delta":{"role":"assistant","content":"I will look at the next one."},"finish_reason":null}]"#,
        );
        let (tool, arguments) = match plan.what {
            AnswerKind::Write => (
                "entities_create",
                format!(
                    r#"{{\"objects\":[{{\"type\":\"Note\",\"key\":\"note-{call}\",\"properties\":{{\"title\":\"Note {answers} of this run\",\"body\":\"{BODY}\"}}}}]}}"#
                ),
            ),
            AnswerKind::Read | AnswerKind::Stamp => {
                ("entities_get", format!(r#"{{\"id\":\"Fact/fact-{answers}\"}}"#))
            }
        };
        event(&format!(
            r#""choices":[{{"index":0,"delta":{{"tool_calls":[{{"index":0,"id":"call_{call}","type":"function","function":{{"name":"{tool}","arguments":"{arguments}"}}}}]}},"finish_reason":null}}]"#
        ));
        event(r#""choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]"#);
    }
    event(USAGE);
    events.push_str("data: [DONE]\n\n");
    format!(
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n{:x}\r\n{events}\r\n0\r\n\r\n",
        events.len()
    )
}

const EVENT_HEAD: &str = r#"{"id":"c","object":"chat.completion.chunk","created":1,"model":"m","#;
const USAGE: &str =
    r#""choices":[],"usage":{"prompt_tokens":1200,"completion_tokens":40,"total_tokens":1240}"#;

/// About the size of a note.
const BODY: &str = "What was found out so far, in a few sentences that say what matters and where it came from, so that \
                    whoever reads it later does not have to look again.";

fn micros() -> u128 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_micros())
}

fn find(bytes: &[u8], what: &[u8]) -> Option<usize> {
    bytes.windows(what.len()).position(|window| window == what)
}

fn count(bytes: &[u8], what: &[u8]) -> usize {
    let mut occurrences = 0;
    let mut rest = bytes;
    while let Some(at) = find(rest, what) {
        occurrences += 1;
        rest = &rest[at + what.len()..];
    }
    occurrences
}

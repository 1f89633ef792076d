//! A secret that the test knows, and every place it could be found in.

use std::{
    io::Write,
    path::Path,
    process::{Command, Output, Stdio},
    time::{Duration, Instant},
};

use base64::{Engine, prelude::BASE64_STANDARD};
use reqwest::Method;
use serde_json::json;

use crate::common::{Home, Server};

/// A value with letters that are written differently in JSON, in URLs and in logs, and what would
/// give it away in whichever of them.
pub struct Known {
    pub value: String,
    forms: Vec<String>,
}

impl Known {
    pub fn new() -> Self {
        Self::ending("/+ü 17")
    }

    /// One that a header can carry.
    pub fn of_header() -> Self {
        Self::ending("/+ 17")
    }

    fn ending(end: &str) -> Self {
        let middle = hex(&rand::random::<[u8; 20]>());
        let value = format!("S3cr3t-\"{middle}\"{end}");
        let coded = |before: &str| BASE64_STANDARD.encode(format!("{before}{value}"))[16..56].to_owned();
        let in_url = middle.bytes().map(|byte| format!("%{byte:02x}")).collect();
        let forms = vec![coded(""), coded("u"), coded("u:"), hex(middle.as_bytes()), in_url, middle];
        Self { value, forms }
    }

    #[track_caller]
    pub fn must_not_be_in(&self, place: &str, bytes: &[u8]) {
        for form in &self.forms {
            if let Some(at) = bytes.windows(form.len()).position(|window| window == form.as_bytes()) {
                let around = &bytes[at.saturating_sub(200)..(at + 100).min(bytes.len())];
                panic!("{place} holds the secret as {form}: {}", String::from_utf8_lossy(around));
            }
        }
    }

    /// What somebody who sends requests by hand gets wrong.
    pub fn bad_bodies(&self) -> Vec<String> {
        let value = &self.value;
        let inside = json!(value).to_string();
        vec![
            inside.clone(),
            value.clone(),
            format!("value={value}"),
            format!("[{inside}]"),
            format!("{{\"value\":{value}}}"),
            format!("{{\"value\":{inside}"),
            format!("{{\"value\":{inside}}} {value}"),
            format!("{{\"value\":[{inside}]}}"),
            format!("{{\"value\":{{{inside}:1}}}}"),
            format!("{{\"value\":{inside},\"value\":{inside}}}"),
            format!("{{\"value\":{inside},\"note\":{inside}}}"),
            format!("{{\"vaule\":{inside}}}"),
            format!("{{{inside}:{inside}}}"),
            json!({ "value": format!("{value}\0") }).to_string(),
            json!({ "value": value.repeat(2_000) }).to_string(),
            json!({ "value": value.repeat(20_000) }).to_string(),
        ]
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

pub fn encoded(text: &str) -> String {
    text.bytes()
        .map(
            |byte| {
                if byte.is_ascii_alphanumeric() { (byte as char).to_string() } else { format!("%{byte:02X}") }
            },
        )
        .collect()
}

/// What anybody on the machine sees of any process.
pub fn command_lines() -> Vec<u8> {
    let processes = std::fs::read_dir("/proc").expect("/proc").flatten();
    processes.filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok()).flatten().collect()
}

/// Runs a command that is given something on its standard input, and looks at it from outside
/// while it waits for that.
pub fn with_input(mut command: Command, input: &str, known: &Known) -> Output {
    let command = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the binary runs");
    let (start, place) = (Instant::now(), format!("/proc/{}/cmdline", child.id()));
    while !std::fs::read_to_string(&place).expect("its command line").contains("secret\0set") {
        assert!(start.elapsed() < Duration::from_secs(5), "the command is not seen");
    }
    known.must_not_be_in("a command line", &command_lines());
    child.stdin.take().expect("a pipe").write_all(input.as_bytes()).expect("it reads");
    child.wait_with_output().expect("it ends")
}

fn files(folder: &Path, visit: &mut impl FnMut(&Path, &[u8])) {
    for entry in std::fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            files(&path, visit);
        } else if let Ok(bytes) = std::fs::read(&path) {
            visit(&path, &bytes);
        }
    }
}

/// Data folder, write-ahead log and server log are all below the home.
pub fn search_files(home: &Home, known: &Known) {
    let mut seen = Vec::new();
    files(home.folder(), &mut |path, bytes| {
        known.must_not_be_in(&path.display().to_string(), bytes);
        seen.push(path.file_name().unwrap_or_default().to_string_lossy().into_owned());
    });
    let wanted: &[&str] = match home.postgres {
        Some(_) => &["log", "secret-key"],
        None => &["log", "secret-key", "emergent.db", "emergent.db-wal"],
    };
    assert!(wanted.iter().all(|name| seen.iter().any(|one| one == name)), "{seen:?}");
}

/// Every row of every table, as text.
pub async fn search_postgres(home: &Home, known: &Known) {
    let Some(url) = &home.postgres else { return };
    let (client, connection) =
        tokio_postgres::connect(url, tokio_postgres::NoTls).await.expect("a connection");
    tokio::spawn(connection);
    let tables = client
        .query("SELECT table_name FROM information_schema.tables WHERE table_schema = 'kb'", &[])
        .await
        .expect("the tables");
    assert!(tables.iter().any(|row| row.get::<_, String>(0) == "secrets"));
    for table in tables {
        let table: String = table.get(0);
        let rows = client.query(&format!("SELECT row_to_json(t)::text FROM kb.{table} AS t"), &[]).await;
        for row in rows.expect("its rows") {
            known.must_not_be_in(&table, row.get::<_, String>(0).as_bytes());
        }
    }
}

/// Every list there is, and the document itself.
pub async fn search_answers(server: &Server, known: &Known) {
    let document = server.api.get("/api/openapi.json").await.body;
    let paths = document["paths"].as_object().expect("paths");
    let readable = paths.iter().filter(|(path, item)| !path.contains('{') && item.get("get").is_some());
    let mut asked = 0;
    let is_stream = |path: &str| ["/changes", "/events", "/mcp"].iter().any(|end| path.ends_with(end));
    for (path, _) in readable.filter(|(path, _)| !is_stream(path)) {
        let answer = server.api.request(Method::GET, path).send().await.expect("an answer");
        known.must_not_be_in(path, &answer.bytes().await.expect("a body"));
        asked += 1;
    }
    assert!(asked > 8, "{asked} routes were asked");
}

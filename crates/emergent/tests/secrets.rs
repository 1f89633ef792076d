//! A secret that the test knows is put into a server that logs everything, and then searched for:
//! in every file of the data folder, in every row of the database, in the log, in every answer, in
//! every command line.

mod common;

use std::{
    io::Write,
    path::Path,
    process::{Command, Output, Stdio},
    time::{Duration, Instant},
};

use base64::{Engine, prelude::BASE64_STANDARD};
use common::{Home, Server, TOKEN, finish};
use reqwest::Method;
use serde_json::{Value, json};

/// A value with letters that are written differently in JSON, in URLs and in logs, and what would
/// give it away in whichever of them.
struct Known {
    value: String,
    forms: Vec<String>,
}

impl Known {
    fn new() -> Self {
        let middle = hex(&rand::random::<[u8; 20]>());
        let value = format!("S3cr3t-\"{middle}\"/+ü 17");
        let coded = |before: &str| BASE64_STANDARD.encode(format!("{before}{value}"))[16..56].to_owned();
        let forms = vec![coded(""), coded("u"), coded("u:"), hex(middle.as_bytes()), middle];
        Self { value, forms }
    }

    #[track_caller]
    fn must_not_be_in(&self, place: &str, bytes: &[u8]) {
        for form in &self.forms {
            if let Some(at) = bytes.windows(form.len()).position(|window| window == form.as_bytes()) {
                let around = &bytes[at.saturating_sub(200)..(at + 100).min(bytes.len())];
                panic!("{place} holds the secret as {form}: {}", String::from_utf8_lossy(around));
            }
        }
    }

    /// What somebody who sends requests by hand gets wrong.
    fn bad_bodies(&self) -> Vec<String> {
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

fn encoded(text: &str) -> String {
    text.bytes()
        .map(
            |byte| {
                if byte.is_ascii_alphanumeric() { (byte as char).to_string() } else { format!("%{byte:02X}") }
            },
        )
        .collect()
}

/// What anybody on the machine sees of any process.
fn command_lines() -> Vec<u8> {
    let processes = std::fs::read_dir("/proc").expect("/proc").flatten();
    processes.filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok()).flatten().collect()
}

/// Runs a command that is given something on its standard input, and looks at it from outside
/// while it waits for that.
fn with_input(mut command: Command, input: &str, known: &Known) -> Output {
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
fn search_files(home: &Home, known: &Known) {
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
async fn search_postgres(home: &Home, known: &Known) {
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
async fn search_answers(server: &Server, known: &Known) {
    let document = server.api.get("/api/openapi.json").await.body;
    let paths = document["paths"].as_object().expect("paths");
    let readable = paths.iter().filter(|(path, item)| !path.contains('{') && item.get("get").is_some());
    let mut asked = 0;
    for (path, _) in readable.filter(|(path, _)| !path.contains("changes") && !path.ends_with("/mcp")) {
        let answer = server.api.request(Method::GET, path).send().await.expect("an answer");
        known.must_not_be_in(path, &answer.bytes().await.expect("a body"));
        asked += 1;
    }
    assert!(asked > 8, "{asked} routes were asked");
}

async fn story(home: Home) {
    let home = home.with("EMERGENT_LOG", "trace").with("EMERGENT_EMBEDDINGS", "off");
    let (known, server) = (Known::new(), home.start().await);
    let at_server = ["--server", server.url(), "--token", TOKEN, "--json"];
    let run = |args: &[&str]| finish(home.command(&[args, &at_server].concat()));

    // In by the command line, and by HTTP.
    let set = with_input(
        home.command(&[&["secret", "set", "API_KEY"], &at_server[..]].concat()),
        &format!("{}\n", known.value),
        &known,
    );
    assert!(set.status.success(), "{set:?}");
    let again = server.api.put("/api/admin/secrets/API_KEY", &json!({ "value": known.value })).await;
    assert_eq!((again.status, &again.body["data"]["version"]), (200, &json!(2)));
    known.must_not_be_in("an answer", again.body.to_string().as_bytes());
    let argument = run(&["secret", "set", "API_KEY", "misplaced words"]);
    let told = String::from_utf8_lossy(&argument.stderr).into_owned();
    assert!(
        !argument.status.success() && told.contains("standard input") && !told.contains("misplaced"),
        "{told}"
    );

    // Everything that is refused.
    for body in known.bad_bodies() {
        for name in ["API_KEY", "OTHER", "api-key"] {
            let request = server.api.request(Method::PUT, &format!("/api/admin/secrets/{name}"));
            let answer = request.header("content-type", "application/json").body(body.clone()).send().await;
            let answer = answer.expect("an answer");
            assert!(answer.status().is_client_error(), "{} for {body}", answer.status());
            known.must_not_be_in("a refusal", &answer.bytes().await.expect("a body"));
        }
    }
    let plain = server.api.request(Method::PUT, "/api/admin/secrets/API_KEY").body(known.value.clone());
    known.must_not_be_in("a refusal", &plain.send().await.expect("an answer").bytes().await.expect("a body"));
    // Where it has no business, a refusal cites it, and the log has the path of the request.
    for path in ["/api/admin/secrets/", "/api/graph/objects/", "/api/projects/", "/nowhere/"] {
        for method in [Method::GET, Method::PUT, Method::DELETE] {
            let request = server.api.request(method, &format!("{path}{}", encoded(&known.value)));
            let answer = request.json(&json!({ "value": 1 })).send().await.expect("an answer");
            assert!(answer.status().is_client_error(), "{}", answer.status());
            known.must_not_be_in("a refusal", &answer.bytes().await.expect("a body"));
        }
    }
    let object =
        server.api.post("/api/graph/objects", &json!({ "type": known.value, "nonsense": known.value })).await;
    assert_eq!(object.status, 400);
    known.must_not_be_in("a refusal", object.body.to_string().as_bytes());
    assert!(server.launched.log().contains("[secret API_KEY]"), "it was there to be hidden");

    // A new key, and every place again.
    let listed = run(&["secret", "list"]);
    let listed: Value = serde_json::from_slice(&listed.stdout).expect("JSON");
    assert_eq!(listed.as_array().map(Vec::len), Some(1), "{listed}");
    let key = std::fs::read(home.data().join("secret-key")).expect("the key");
    let rotated: Value = serde_json::from_slice(&run(&["secret", "rotate"]).stdout).expect("JSON");
    assert_eq!(rotated["resealed"], 1);
    assert_ne!(std::fs::read(home.data().join("secret-key")).expect("the key"), key);
    search_answers(&server, &known).await;
    search_files(&home, &known);
    search_postgres(&home, &known).await;
    known.must_not_be_in("a command line", &command_lines());
    server.kill();
    search_files(&home, &known);

    // Without its key the database is no use to anybody, and the start says which one is missing.
    let wanted = rotated["key"].as_str().expect("an id");
    std::fs::write(home.data().join("secret-key"), &key).expect("the old key");
    assert!(refused(&home).contains(wanted));
    std::fs::remove_file(home.data().join("secret-key")).expect("a file");
    assert!(refused(&home).contains(wanted));
    assert!(!home.data().join("secret-key").exists(), "it does not make another");
}

/// Why a server does not start.
fn refused(home: &Home) -> String {
    let mut launched = home.launch(&[]);
    let told = launched.address().expect_err("it must not start");
    assert_eq!(launched.ended().code(), Some(1));
    told.lines().rfind(|line| line.starts_with("error: ")).expect("a reason").to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_secret_is_nowhere_to_be_found_on_sqlite() {
    story(Home::sqlite()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_secret_is_nowhere_to_be_found_on_postgres() {
    story(Home::postgres().await.without_key()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn secrets_are_managed_on_the_data_folder_itself() {
    let (home, known) = (Home::sqlite(), Known::new());
    let said = |output: Output| {
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).expect("text")
    };
    assert_eq!(
        said(with_input(home.command(&["secret", "set", "A_KEY"]), &known.value, &known)),
        "A_KEY is set\n"
    );
    let again = with_input(home.command(&["secret", "set", "A_KEY"]), "another\r\n", &known);
    assert_eq!(said(again), "A_KEY has another value\n");
    assert!(said(home.run(&["secret", "list"])).contains("A_KEY  2"));
    let other = said(home.run(&["project", "create", "other"]));
    assert!(!other.is_empty() && !said(home.run(&["secret", "list", "-p", "other"])).contains("A_KEY"));
    assert!(said(home.run(&["secret", "rotate"])).contains("sealed anew: 1"));
    let empty = with_input(home.command(&["secret", "set", "A_KEY"]), "\n", &known);
    assert!(String::from_utf8_lossy(&empty.stderr).contains("is empty"), "{empty:?}");
    let short = with_input(home.command(&["secret", "set", "A_KEY"]), "12345\n", &known);
    assert!(String::from_utf8_lossy(&short.stderr).contains("shorter than 6 bytes"), "{short:?}");
    let misnamed = home.run(&["secret", "delete", "a=key"]);
    assert!(!misnamed.status.success() && !String::from_utf8_lossy(&misnamed.stderr).contains("a=key"));
    assert_eq!(said(home.run(&["secret", "delete", "A_KEY"])), "A_KEY is deleted\n");
    let gone = home.run(&["secret", "delete", "A_KEY"]);
    assert!(String::from_utf8_lossy(&gone.stderr).contains("there is no secret `A_KEY`"), "{gone:?}");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let mode = std::fs::metadata(home.data().join("secret-key")).expect("the key").permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "only the owner reads it");
    }
    let bad = home
        .command(&["secret", "list"])
        .env("EMERGENT_SECRET_KEY", "bm90IGEga2V5")
        .output()
        .expect("it runs");
    let told = String::from_utf8_lossy(&bad.stderr).into_owned();
    assert!(
        told.contains("EMERGENT_SECRET_KEY") && told.contains("openssl") && !told.contains("bm90"),
        "{told}"
    );
}

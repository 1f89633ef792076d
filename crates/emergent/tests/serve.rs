//! How a server starts and ends: what it says the first time, what it refuses, how it leaves.

mod common;

use std::{
    io::{Read, Write},
    time::{Duration, Instant},
};

use common::{Api, Home, Launched, command_output, eventually, json_of};
use futures_util::{StreamExt, stream};
use reqwest::Method;
use serde_json::json;

/// A start that has to fail: with code 1 and one line that says why.
#[track_caller]
fn refused(home: &Home, args: &[&str]) -> String {
    let mut launched = home.launch(args);
    let told = launched.address().expect_err("it must not start");
    assert_eq!(launched.ended().code(), Some(1));
    let line = told.lines().rfind(|line| line.starts_with("error: "));
    line.unwrap_or_else(|| panic!("no reason was given: {told}")).to_owned()
}

fn token_in(said: &str) -> Option<String> {
    said.split_whitespace().find(|word| word.starts_with("emt_")).map(str::to_owned)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_first_start_shows_the_token_once() {
    let home = Home::sqlite().without_token();
    let first = home.start().await;
    let token = token_in(&first.launched.said).expect("the first start shows the token");
    let file = home.data().join("admin-token");
    assert_eq!(std::fs::read_to_string(&file).expect("the file").trim(), token);
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let mode = std::fs::metadata(&file).expect("the file").permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "only the owner reads it");
    }
    let api = Api::new(first.url(), &token);
    assert_eq!(api.get("/api/graph/objects").await.status, 200);
    assert_eq!(Api::new(first.url(), "emt_other").get("/api/graph/objects").await.status, 401);
    first.kill();

    let second = home.start().await;
    assert_eq!(token_in(&second.launched.said), None, "{}", second.launched.said);
    assert!(!second.launched.log().contains(&token), "a log keeps no secret");
    assert_eq!(Api::new(second.url(), &token).get("/api/graph/objects").await.status, 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_start_says_fits_80_columns() {
    let home = Home::sqlite();
    let server = home.start_with(&["--sample"]).await;
    let said = &server.launched.said;
    // A link has a line of its own, and here the name of the program is a long path.
    let is_free = |line: &&str| line.starts_with("http") || line.contains("/emergent ");
    let wide: Vec<&str> =
        said.lines().filter(|line| line.chars().count() > 80).filter(|line| !is_free(line)).collect();
    assert!(wide.is_empty(), "{wide:#?}");
    let words = said.split_whitespace().collect::<Vec<_>>().join(" ");
    let note = "The agent `entity-extractor`, which starts when a document is added, cannot start: the model";
    assert!(words.contains(note) && words.contains("set `GEMINI_API_KEY`"), "{said}");
    assert!(said.lines().any(|line| line.starts_with("http") && line.contains("/login?code=")), "{said}");
    server.kill();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_start_ends_with_the_link_to_the_web_ui() {
    let home = Home::sqlite();
    let alone: &[&str] = &[];
    for args in [alone, &["--sample"]] {
        let server = home.start_with(args).await;
        let said = server.launched.said.trim_end();
        let last = said.lines().last().unwrap_or_default();
        assert!(last.starts_with("http") && last.contains("/login?code="), "{args:?}: {said}");
        server.kill();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_link_of_a_start_and_of_login_link_log_in_once() {
    let home = Home::sqlite();
    let server = home.start().await;
    let link_in =
        |text: &str| text.split_whitespace().find(|word| word.contains("/login?code=")).map(str::to_owned);
    let first = link_in(&server.launched.said).expect("a start shows a link");
    let printed = home.run(&["login-link"]);
    assert!(printed.status.success(), "{printed:?}");
    let second = link_in(&String::from_utf8_lossy(&printed.stdout)).expect("a link");
    assert!(!server.launched.log().contains("emc_"), "a log keeps no code");
    let nobody =
        reqwest::Client::builder().no_proxy().redirect(reqwest::redirect::Policy::none()).build().unwrap();
    for link in [&first, &second] {
        assert!(link.starts_with(server.url()), "{link}");
        let page = nobody.get(link.as_str()).send().await.expect("a page").text().await.expect("a page");
        assert!(page.contains("<form method=\"post\" action=\"/login\">"), "{page}");
        let code = link.split_once("code=").expect("a code").1;
        for expected in [303, 401] {
            let form = nobody
                .post(format!("{}/login", server.url()))
                .header("content-type", "application/x-www-form-urlencoded");
            assert_eq!(form.body(format!("code={code}")).send().await.expect("an answer").status(), expected);
        }
    }
    server.kill();
    let told = home.run(&["login-link"]);
    assert!(
        !told.status.success() && String::from_utf8_lossy(&told.stderr).contains("no server runs"),
        "{told:?}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_command_with_a_key_starts_one_run() {
    let home = Home::sqlite().with("EMERGENT_EMBEDDINGS", "off");
    let server = home.start().await;
    let definition = json!({ "name": "a", "model": { "provider": "rehearsal", "name": "emergent.memory" } });
    server.api.post("/api/admin/agents", &definition).await.data();
    let trigger = ["agent", "trigger", "a", "--input", "go", "--idempotency-key", "k", "--json"];
    let (first, again) = (home.run(&trigger), home.run(&trigger));
    assert!(first.status.success() && first.stdout == again.stdout, "{first:?} {again:?}");
    let run = json_of(first)["runId"].as_str().expect("an id").to_owned();
    home.run(&["run", "follow", &run]);
    let now = server.api.get(&format!("/api/admin/runs/{run}")).await.data()["status"].clone();
    let told = command_output(home.run(&trigger[..trigger.len() - 1]));
    assert!(
        told.starts_with(&format!("run {run} is {}", now.as_str().expect("a status"))),
        "not of then: {told}"
    );
    assert!(!told.contains("queued") && !told.contains("running"), "{told}");
    let work = ["dispatch", "--tasks", "plan.yaml", "--idempotency-key", "w", "--json"];
    std::fs::write(home.folder().join("plan.yaml"), "- { key: one, title: One }\n").expect("a file");
    let (first, again) = (home.run(&work), home.run(&work));
    assert!(first.status.success() && first.stdout == again.stdout, "{first:?} {again:?}");
    assert_eq!(
        server.api.all("/api/admin/runs?").await.iter().filter(|run| run["origin"] == "trigger").count(),
        1
    );
    assert_eq!(server.api.all("/api/coordination/workflows?").await.len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_tells_its_operator_every_setting_with_its_source_and_no_secret() {
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let home = Home::sqlite()
        .with("EMERGENT_MAX_RUNS", "7")
        .with("OPENAI_API_KEY", "sk-never-shown")
        .with("EMERGENT_OPENAI_BASE_URL", format!("http://me:never-shown@{closed}/v1"));
    std::fs::write(home.folder().join("emergent.toml"), "max-tasks = 9\n").expect("a file");
    let server = home.start().await;
    let api = Api::new(server.url(), common::TOKEN);
    let found = api.get("/api/admin/diagnostics").await.data();
    assert!(!found.to_string().contains("never-shown"), "{found}");
    let setting = |name: &str| {
        let settings = found["settings"].as_array().expect("settings");
        settings.iter().find(|one| one["name"] == name).cloned().unwrap_or_else(|| panic!("{name}: {found}"))
    };
    for (name, value, source) in [
        ("max-runs", json!("7"), "environment"),
        ("max-tasks", json!("9"), "file"),
        ("embeddings", json!("builtin"), "default"),
        ("OPENAI_API_KEY", json!(null), "environment"),
    ] {
        let setting = setting(name);
        assert_eq!((&setting["value"], &setting["source"]), (&value, &json!(source)), "{setting}");
    }
    assert_eq!(found["listen"]["address"], server.url());
    assert_eq!(found["embedder"]["probe"]["status"], "ok", "{found}");
    let models = found["models"].as_array().expect("models");
    let openai = models.iter().find(|one| one["provider"] == "openai").expect("openai");
    assert_eq!(openai["probe"]["status"], "failed", "nothing listens there: {openai}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn jobs_that_ended_long_ago_are_forgotten() {
    let home = Home::sqlite();
    home.start().await.kill();
    let db = rusqlite::Connection::open(home.data().join("emergent.db")).expect("the database file");
    let old = "INSERT INTO jobs (id, queue, payload, status, attempts, max_attempts, run_at, created_at, finished_at)
               VALUES (x'00', 'old', '{}', 'done', 1, 1, 0, 0, 0)";
    db.execute(old, []).expect("a job of 1970");
    let _server = home.start().await;
    eventually("the job is gone", Duration::from_secs(20), async || {
        let left = "SELECT count(*) FROM jobs WHERE queue = 'old'";
        db.query_row(left, [], |row| row.get::<_, i64>(0)).expect("an answer") == 0
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_folder_has_one_server() {
    let home = Home::sqlite();
    let first = home.start().await;
    let told = refused(&home, &[]);
    assert!(told.contains("in use") && told.contains("data"), "{told}");
    assert_eq!(first.api.get("/health").await.status, 200, "the first goes on");
    first.kill();
    home.start().await;
}

#[test]
fn an_admin_token_that_is_too_short_is_refused_with_a_way_to_make_one() {
    let home = Home::sqlite().without_token().with("EMERGENT_ADMIN_TOKEN", "short");
    let told = refused(&home, &[]);
    for expected in ["EMERGENT_ADMIN_TOKEN", "5 characters", "at least 16", "openssl rand -hex 32"] {
        assert!(told.contains(expected), "{expected}: {told}");
    }
    assert!(!told.contains("short"), "the value is not repeated: {told}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_waits_for_the_end_of_a_process_that_was_killed() {
    let home = Home::sqlite();
    home.start().await.kill();
    // A process that has not ended yet still has the lock.
    let lock = std::fs::File::open(home.data().join("lock")).expect("the lock");
    lock.lock().expect("it is free");
    let mut launched = home.launch(&[]);
    eventually("the server says that it waits", Duration::from_secs(20), async || {
        launched.log().contains("waiting up to 2 seconds")
    })
    .await;
    drop(lock);
    let address = launched.address().expect("the server starts").to_owned();
    assert_eq!(Api::new(&address, common::TOKEN).get("/health").await.status, 200);
    assert_eq!(launched.log().matches("waiting up to").count(), 1, "{}", launched.log());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_address_that_cannot_be_used_is_named() {
    let home = Home::sqlite().without_token();
    let other = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let taken = other.local_addr().expect("an address").to_string();
    let start = |address: &str| {
        let output = home.run(&["serve", "--listen", address]);
        assert_eq!(output.status.code(), Some(1));
        let told = String::from_utf8(output.stderr).expect("text");
        assert!(told.starts_with("error: could not listen on") && told.contains(address), "{told}");
        assert_eq!(told.trim_end().lines().count(), 1, "{told}");
        told
    };
    start(&taken);
    assert!(start("nonsense").contains("it is not ADDRESS:PORT"));
    assert!(start("127.0.0.1:99999").contains("there is no port 99999; the highest is 65535"));
    // The token is shown by the first start that works, so one that fails must not have made it.
    assert!(token_in(&home.start().await.launched.said).is_some());
}

#[test]
fn a_start_names_the_setting_that_is_to_blame() {
    let certificate = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/attack/tls/cert.pem");
    let home = Home::sqlite()
        .with("EMERGENT_TLS_CERT", certificate.to_str().expect("a path"))
        .with("EMERGENT_TLS_KEY", "no-such-key.pem");
    let told = refused(&home, &[]);
    assert!(told.contains("`EMERGENT_TLS_KEY` cannot be used"), "{told}");
    assert!(
        told.contains("the private key in `no-such-key.pem`") && !told.contains("EMERGENT_TLS_CERT"),
        "{told}"
    );
    let home = Home::sqlite().with("EMERGENT_STDIO_PROGRAMS", "uvx mcp-server-time; npx ** --verbose");
    let told = refused(&home, &[]);
    assert!(
        told.contains("`EMERGENT_STDIO_PROGRAMS` cannot be used: in `npx ** --verbose`: `**` stands for"),
        "{told}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_that_cannot_be_used_is_refused() {
    let home = Home::sqlite();
    home.start().await.kill();
    let file = home.data().join("emergent.db");

    let db = rusqlite::Connection::open(&file).expect("the database");
    db.execute("INSERT INTO schema_migrations VALUES (9999, 'from the future', 0)", []).expect("a row");
    drop(db);
    let told = refused(&home, &[]);
    assert!(told.contains("9999") && told.contains("newer version"), "{told}");

    common::ruin_database(&home);
    let told = refused(&home, &[]);
    assert!(told.contains("emergent.db"), "{told}");

    let nowhere = Home::on("postgres://nobody@127.0.0.1:9/none".to_owned()).without_token();
    let told = refused(&nowhere, &[]);
    assert!(told.contains("127.0.0.1:9"), "{told}");
    assert!(!nowhere.data().join("admin-token").exists(), "nobody has seen it");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_newer_postgres_database_is_refused() {
    let home = Home::postgres().await;
    home.start().await.kill();
    let url = home.postgres.clone().unwrap_or_default();
    let (client, connection) =
        tokio_postgres::connect(&url, tokio_postgres::NoTls).await.expect("the database");
    tokio::spawn(connection);
    client
        .execute("INSERT INTO kb.schema_migrations VALUES (9999, 'from the future', now())", &[])
        .await
        .expect("a row");
    let told = refused(&home, &[]);
    assert!(told.contains("9999") && told.contains("newer version"), "{told}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_told_to_stop_as_soon_as_it_says_its_address_ends_well() {
    let home = Home::sqlite();
    for _ in 0..5 {
        let mut server = home.start().await;
        terminate(&mut server.launched);
    }
}

/// Ends with code 0, and how long that took.
fn terminate(launched: &mut Launched) -> Duration {
    launched.signal("TERM");
    let start = Instant::now();
    let status = launched.ended();
    assert_eq!(status.code(), Some(0), "{}", launched.log());
    start.elapsed()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_told_to_stop_stops_at_once() {
    let home = Home::sqlite();
    let mut server = home.start().await;
    // A connection that is kept, one that follows the feed and one that says nothing.
    server.api.post("/api/graph/objects", &json!({ "type": "Note", "properties": { "n": 1 } })).await.data();
    let mut feed =
        server.api.request(Method::GET, "/api/graph/changes").send().await.expect("a stream").bytes_stream();
    assert!(feed.next().await.is_some());
    let address = server.url().trim_start_matches("http://").to_owned();
    let _silent = std::net::TcpStream::connect(address).expect("a connection");
    let took = terminate(&mut server.launched);
    assert!(took < Duration::from_secs(2), "{took:?}");
    assert!(!home.data().join("server").exists(), "no command looks for it any more");
    let log = std::fs::metadata(home.data().join("emergent.db-wal")).map_or(0, |about| about.len());
    assert_eq!(log, 0, "the database is one file again, as a backup would copy it");

    let server = home.start().await;
    assert_eq!(server.api.all("/api/graph/objects?").await.len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_in_flight_is_answered_before_the_server_stops() {
    const LINES: usize = 40;
    let home = Home::sqlite();
    let mut server = home.start().await;
    // The first answer shows that connections are accepted: on a slow machine the import could otherwise still wait
    // for that when the server is told to stop.
    server.api.get("/api/graph/objects?type=Slow").await.data();
    let (half_way, mut reached) = tokio::sync::mpsc::channel(LINES);
    let lines = stream::unfold(0, move |at| {
        let half_way = half_way.clone();
        async move {
            let _ = half_way.send(at).await;
            tokio::time::sleep(Duration::from_millis(15)).await;
            let line =
                format!("{{\"kind\":\"object\",\"type\":\"Slow\",\"key\":\"{at}\",\"properties\":{{}}}}\n");
            (at < LINES).then_some((Ok::<_, std::io::Error>(line), at + 1))
        }
    });
    let import =
        server.api.request(Method::POST, "/api/graph/import").header("content-type", "application/x-ndjson");
    let import = tokio::spawn(import.body(reqwest::Body::wrap_stream(lines)).send());
    while reached.recv().await != Some(LINES / 2) {}

    let stopping = tokio::task::spawn_blocking(move || terminate(&mut server.launched));
    let answer = import.await.expect("no panic").expect("an answer").text().await.expect("all of it");
    assert!(answer.lines().last().unwrap_or_default().contains("\"done\":true"), "{answer}");
    let took = stopping.await.expect("the server ends well");
    assert!(took < Duration::from_secs(4), "{took:?}");

    let server = home.start().await;
    assert_eq!(server.api.all("/api/graph/objects?type=Slow").await.len(), LINES);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_sample_is_filled_in_once() {
    let home = Home::sqlite();
    let server = home.start_with(&["--sample"]).await;
    assert!(server.launched.said.contains("graph search"), "it says what to try: {}", server.launched.said);
    let people = server.api.all("/api/graph/objects?type=Person").await;
    assert!(people.iter().any(|person| person["key"] == "ada-lovelace"), "{people:?}");
    let count = server.api.all("/api/graph/objects?").await.len();
    let id = people[0]["id"].as_str().expect("an id").to_owned();
    server.api.delete(&format!("/api/graph/objects/{id}")).await.data();
    server.kill();

    let server = home.start_with(&["--sample"]).await;
    assert_eq!(
        server.api.all("/api/graph/objects?").await.len(),
        count - 1,
        "what was deleted stays deleted"
    );
    // What the greeting tells to try works.
    let found = home.run(&["graph", "search", "who shaped early computing"]);
    assert!(found.status.success() && !found.stdout.is_empty(), "{found:?}");
    let walked = home.run(&["graph", "traverse", "Person/ada-lovelace", "--depth", "2"]);
    assert!(walked.status.success(), "{walked:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn servers_that_start_together_on_one_database_agree() {
    let first = Home::postgres().await;
    let url = first.postgres.clone().unwrap_or_default();
    let homes = [first, Home::on(url.clone()), Home::on(url.clone()), Home::on(url)];
    let [a, b, c, d] = &homes;
    let (a, b, c, d) = tokio::join!(a.start(), b.start(), c.start(), d.start());
    let made = a.api.post("/api/graph/objects", &json!({ "type": "Note", "properties": {} })).await.data();
    for server in [b, c, d] {
        let path = format!("/api/graph/objects/{}", made["id"].as_str().expect("an id"));
        assert_eq!(server.api.get(&path).await.data()["id"], made["id"]);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nonsense_on_the_wire_harms_nobody() {
    let home = Home::sqlite();
    let mut server = home.start().await;
    let address = server.url().trim_start_matches("http://").to_owned();
    let endless = format!("GET /health HTTP/1.1\r\nhost: x\r\nx-long: {}\r\n\r\n", "a".repeat(2 << 20));
    let early = "POST /api/graph/objects HTTP/1.1\r\nhost: x\r\ncontent-length: 1000\r\n\r\n{\"type\":";
    let tangled =
        "POST /health HTTP/1.1\r\nhost: x\r\ncontent-length: 5\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n";
    for sent in [
        "\0\u{ff}\r\n\r\n",
        "GET / HTTP/9.9\r\n\r\n",
        "GET /api/%FF%00 HTTP/1.1\r\nhost: x\r\n\r\n",
        &endless,
        early,
        tangled,
    ] {
        let mut stream = std::net::TcpStream::connect(&address).expect("a connection");
        stream.set_read_timeout(Some(Duration::from_millis(500))).expect("a timeout");
        // The server may hang up before it has read everything.
        let _ = stream.write_all(sent.as_bytes());
        let _ = stream.shutdown(std::net::Shutdown::Write);
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        let answer = String::from_utf8_lossy(&answer);
        assert!(!answer.starts_with("HTTP/1.1 5"), "{answer}");
    }
    assert_eq!(server.api.get("/health").await.status, 200);
    assert_eq!(server.api.all("/api/graph/objects?").await.len(), 0);
    terminate(&mut server.launched);
    assert!(!server.launched.log().contains("panicked"), "{}", server.launched.log());
}

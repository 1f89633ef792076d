//! Copies of everything: made while others write, restored to a new folder, and compared.

#[path = "../common/mod.rs"]
mod common;
mod content;
mod postgres;

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use common::{Api, Home, Server, failed, json_of};
use content::{digests, number};
use serde_json::{Value, json};

const SLOW: &str = "delay_ms: 120000\nrules: [{ answer: { text: late } }]";

/// A home whose server makes its own key, with a model that takes two minutes to answer.
fn home() -> Home {
    with_slow_script(Home::sqlite())
}

fn with_slow_script(home: Home) -> Home {
    let scripts = home.data().join("rehearsals");
    std::fs::create_dir_all(&scripts).unwrap();
    std::fs::write(scripts.join("slow.yaml"), SLOW).unwrap();
    home
}

/// A command that does not block the test's other tasks.
async fn run(home: &Home, args: &[&str]) -> std::process::Output {
    let command = home.command(args);
    tokio::task::spawn_blocking(move || common::finish(command)).await.unwrap()
}

fn path(path: &Path) -> &str {
    path.to_str().expect("a path in UTF-8")
}

/// Puts one of everything into the server, with a run that is still running.
async fn fill(api: &Api) -> (String, String) {
    api.put("/api/admin/secrets/API_KEY", &json!({ "value": "a value to be kept" })).await.data();
    api.post(
        "/api/graph/objects",
        &json!({ "type": "Note", "key": "first", "properties": { "text": "tea" } }),
    )
    .await
    .data();
    let document = json!({ "title": "Brewing", "content": "Steep for three minutes." });
    api.post("/api/documents", &document).await.data();
    let agent = json!({ "name": "slow", "model": { "provider": "rehearsal", "name": "slow" } });
    let agent = api.post("/api/admin/agents", &agent).await.data()["id"].as_str().unwrap().to_owned();
    let started =
        api.post(&format!("/api/admin/agents/{agent}/trigger"), &json!({ "input": "go" })).await.data();
    let run = started["id"].as_str().or(started["runId"].as_str()).expect("a run").to_owned();
    (agent, run)
}

/// Writers that go on until they are stopped. Each transaction creates two objects with the same number.
struct Load {
    stop: Arc<AtomicBool>,
    written: Arc<AtomicU64>,
    slowest: Arc<AtomicU64>,
    tasks: Vec<tokio::task::JoinHandle<()>>,
}

impl Load {
    fn start(api: &Api) -> Self {
        let (stop, written, slowest) =
            (Arc::default(), Arc::<AtomicU64>::default(), Arc::<AtomicU64>::default());
        let tasks = (0..4).map(|writer| {
            let (api, stop) = (api.clone(), Arc::clone(&stop));
            let (written, slowest) = (Arc::clone(&written), Arc::clone(&slowest));
            tokio::spawn(async move { write_pairs(&api, writer, &stop, &written, &slowest).await })
        });
        let tasks = tasks.collect();
        Self { stop, written, slowest, tasks }
    }

    fn written(&self) -> u64 {
        self.written.load(Ordering::SeqCst)
    }

    /// Ends the writers; returns the longest time that one of their requests took.
    async fn stop(self) -> Duration {
        self.stop.store(true, Ordering::SeqCst);
        for task in self.tasks {
            task.await.unwrap();
        }
        Duration::from_millis(self.slowest.load(Ordering::SeqCst))
    }
}

async fn write_pairs(api: &Api, writer: usize, stop: &AtomicBool, written: &AtomicU64, slowest: &AtomicU64) {
    let text = "words that the index has to store ".repeat(100);
    for index in 0.. {
        if stop.load(Ordering::SeqCst) {
            return;
        }
        let object = |side: &str| {
            let properties = json!({ "pair": format!("{writer}-{index}"), "text": text });
            json!({ "type": "Pair", "key": format!("{side}-{writer}-{index}"), "properties": properties })
        };
        let started = Instant::now();
        let pair = json!({ "objects": [object("left"), object("right")], "atomic": true });
        let done = api.post("/api/graph/objects/bulk", &pair).await;
        assert!(done.status < 300, "{}", done.body);
        let took = u64::try_from(started.elapsed().as_millis()).unwrap();
        slowest.fetch_max(took, Ordering::SeqCst);
        written.fetch_add(1, Ordering::SeqCst);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_copy_made_while_others_write_is_consistent_and_restores() {
    let home = home();
    let mut server = home.start().await;
    let (agent, run_id) = fill(&server.api).await;
    let load = Load::start(&server.api);
    while load.written() < 40 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let before = load.written();
    let copy = home.folder().join("copy.db");
    let made = json_of(run(&home, &["backup", path(&copy), "--with-key", "--json"]).await);
    let after = load.written();
    let slowest = load.stop().await;
    assert!(slowest < Duration::from_secs(5), "a writer waited for {slowest:?}");
    assert_private(&copy);
    assert_private(&home.folder().join("copy.db.secret-key"));

    // What was acknowledged before is in it, transactions are whole, and tables agree with each other.
    let pairs =
        number(&copy, "SELECT count(DISTINCT properties ->> 'pair') FROM graph_objects WHERE type = 'Pair'");
    assert!((before..=after + 4).contains(&pairs), "{before} <= {pairs} <= {after} + 4");
    assert_eq!(number(&copy, "SELECT count(*) FROM graph_objects WHERE type = 'Pair'"), 2 * pairs);
    let (objects, events) = (
        number(&copy, "SELECT count(*) FROM graph_objects"),
        number(&copy, "SELECT count(*) FROM graph_events WHERE kind = 'object_created'"),
    );
    assert_eq!(objects, events);
    assert_eq!(made["contents"]["activeRuns"], 1, "{made}");
    assert_eq!(made["contents"]["secrets"], 1);

    // When nobody writes, the copy has exactly the content of the original, table by table.
    server.launched.signal("TERM");
    server.launched.ended();
    let quiet = home.folder().join("quiet.db");
    json_of(run(&home, &["backup", path(&quiet), "--json"]).await);
    let (original, copied) = (digests(&home.data().join("emergent.db")), digests(&quiet));
    assert!(original.len() > 40, "every table: {original:?}");
    assert_eq!(original, copied);

    // The one from under load restores, and a server on it has everything.
    let other = self::home();
    let key = home.folder().join("copy.db.secret-key");
    let restore = ["restore", path(&copy), "--key", path(&key), "--json"];
    let restored = json_of(run(&other, &restore).await);
    assert_eq!(restored["contents"], made["contents"]);
    assert_eq!(restored["hasDigest"], true);
    let restored = other.data().join("emergent.db");
    assert_eq!(digests(&copy), digests(&restored));
    assert_eq!(number(&restored, "PRAGMA application_id"), 0, "the mark of a digest is only in the copy");
    let server = other.start().await;
    assert_restored(&server, pairs).await;
    let run_path = format!("/api/admin/agents/{agent}/runs/{run_id}");
    let status = server.api.get(&run_path).await.data()["status"].clone();
    assert!(status == "queued" || status == "running", "it goes on: {status}");
}

async fn assert_restored(server: &Server, pairs: u64) {
    let listed = server.api.all("/api/graph/objects?type=Pair").await;
    assert_eq!(listed.len() as u64, 2 * pairs);
    let found = server.api.post("/api/graph/search", &json!({ "query": "tea", "mode": "text" })).await.data();
    assert_eq!(found["hits"].as_array().map(Vec::len), Some(1), "{found}");
    // To seal it with another key, the secret has to be opened.
    let rotated = server.api.post("/api/admin/secrets/rotate", &Value::Null).await.data();
    assert_eq!(rotated["resealed"], 1, "{rotated}");
}

#[cfg(unix)]
fn assert_private(file: &Path) {
    use std::os::unix::fs::PermissionsExt;
    assert_eq!(std::fs::metadata(file).unwrap().permissions().mode() & 0o777, 0o600, "{}", file.display());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restored_copy_can_start_without_the_runs_of_the_original() {
    let home = home();
    let server = home.start().await;
    let (agent, run_id) = fill(&server.api).await;
    let copy = home.folder().join("copy.db");
    json_of(run(&home, &["backup", path(&copy), "--json"]).await);

    // The copy has more that would start by itself, or could be resumed.
    content::execute(
        &copy,
        "INSERT INTO workflows (id, project_id, description, status, settings, plan_attempts, revision, event_seq,
             created_at, updated_at, lease_until)
         SELECT randomblob(16), project_id, 'waits for a person', 'escalated', '{}', 0, 0, 0, created_at, created_at,
             created_at FROM agent_runs;
         INSERT INTO trigger_firings (id, project_id, agent_id, event, entity_id, entity_type, entity_version,
             cause_depth, status, due_at, created_at)
         SELECT randomblob(16), project_id, agent_id, 'on_entity_created', randomblob(16), 'Note', 1, 0, 'pending',
             created_at, created_at FROM agent_runs;
         INSERT INTO schedules (id, project_id, agent_id, product, name, cron, time_zone, missed, config, next_at,
             created_at, updated_at)
         SELECT randomblob(16), project_id, agent_id, '', 'hourly', '0 * * * *', 'UTC', 'once', '{}', 1, 1, 1
         FROM agent_runs;",
    );
    // A workflow that cannot be read cannot be cancelled: then nothing is in place.
    let unreadable = home.folder().join("unreadable.db");
    std::fs::copy(&copy, &unreadable).unwrap();
    content::execute(&unreadable, "UPDATE workflows SET settings = '{\"moon\": true}'");
    let other = Home::sqlite();
    let told = failed(&run(&other, &["restore", path(&unreadable), "--cancel-runs"]).await);
    assert!(told.contains("nothing was restored") && told.contains("workflows"), "{told}");
    let left: Vec<_> =
        std::fs::read_dir(other.data()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["lock"], "the database never appears");

    let key = home.data().join("secret-key");
    let restored =
        json_of(run(&other, &["restore", path(&copy), "--cancel-runs", "--key", path(&key), "--json"]).await);
    let expected = json!({ "workflows": 1, "runs": 1, "firings": 1, "schedules": 1 });
    assert_eq!(restored["cancelled"], expected);
    assert_eq!(restored["hasDigest"], false, "as in a copy of an earlier version");
    let database = other.data().join("emergent.db");
    assert!(!other.data().join("emergent.db-wal").exists(), "it is one file");
    for (expected, sql) in [
        (1, "SELECT count(*) FROM workflows WHERE status = 'cancelled'"),
        (1, "SELECT count(*) FROM trigger_firings WHERE status = 'skipped' AND settled_at IS NOT NULL"),
        (1, "SELECT count(*) FROM schedules WHERE next_at > 1"),
        (0, "SELECT count(*) FROM trigger_cursors WHERE seq < (SELECT max(seq) FROM graph_events)"),
    ] {
        assert_eq!(number(&database, sql), expected, "{sql}");
    }
    let restored = other.start().await;
    let run_path = format!("/api/admin/agents/{agent}/runs/{run_id}");
    assert_eq!(restored.api.get(&run_path).await.data()["status"], "cancelled");
    let original = server.api.get(&run_path).await.data()["status"].clone();
    assert!(original == "queued" || original == "running", "the original is not affected: {original}");
}

/// Writes a copy of `from` in which a text that is somewhere in its pages is another one of the same length.
fn alter_text(from: &Path, to: &Path, text: &[u8], other: &[u8]) {
    let mut bytes = std::fs::read(from).unwrap();
    let at = bytes.windows(text.len()).rposition(|window| window == text).expect("the text");
    bytes[at..at + text.len()].copy_from_slice(other);
    std::fs::write(to, &bytes).unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_written_for_a_file_or_folder_that_cannot_be_used() {
    let home = home();
    let server = home.start().await;
    let copy = home.folder().join("copy.db");
    let told = failed(&run(&home, &["restore", path(&copy)]).await);
    assert!(told.contains("is not empty"), "the folder is checked first: {told}");
    let text = "a long text of a note, ".repeat(1_000);
    server
        .api
        .post("/api/graph/objects", &json!({ "type": "Note", "properties": { "text": text } }))
        .await
        .data();
    json_of(run(&home, &["backup", path(&copy), "--json"]).await);
    let told = failed(&run(&home, &["backup", path(&copy)]).await);
    assert!(told.contains("exists already"), "{told}");
    let told = failed(&run(&home, &["restore", path(&copy)]).await);
    assert!(told.contains("is not empty") && told.contains("--data-dir"), "{told}");
    drop(server);

    let mut bytes = std::fs::read(&copy).unwrap();
    let damaged = home.folder().join("damaged.db");
    bytes[8_192..8_300].fill(0xFF);
    std::fs::write(&damaged, &bytes).unwrap();
    // The structure of a file says nothing about its texts.
    let altered = home.folder().join("altered.db");
    alter_text(&copy, &altered, b"a long text of a note", b"a lost text of a note");
    // A file that has lost its digest is none that an earlier version made.
    let cut = home.folder().join("cut.db");
    std::fs::copy(&altered, &cut).unwrap();
    content::cut_last_line(&cut);
    let wrong_key = home.folder().join("wrong-key");
    std::fs::write(&wrong_key, "dGhlIGtleSBvZiB0aGUgdGVzdHMgb2YgdGhlIEFQSSE=").unwrap();
    let empty = home.folder().join("empty.db");
    std::fs::write(&empty, "").unwrap();
    let other = Home::sqlite();
    for (args, expected) in [
        (vec![path(&damaged)], "cannot be used as a backup: the file is damaged\n"),
        (vec![path(&empty)], "cannot be used as a backup: the file is empty\n"),
        (vec![path(&altered)], "another digest"),
        (vec![path(&cut)], "its last line, the digest of its content, is missing"),
        (vec![path(&wrong_key)], "not a SQLite database"),
        (vec!["missing.db"], "missing.db"),
        (vec![path(&copy), "--key", path(&wrong_key)], "need the key"),
    ] {
        let told = failed(&run(&other, &[&["restore"], &args[..]].concat()).await);
        assert!(told.contains(expected), "{args:?}: {told}");
        assert!(!other.data().exists(), "{args:?}: nothing was written");
    }
    let told = failed(&run(&other, &["backup", "x.db"]).await);
    assert!(told.contains("there is no database"), "{told}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backup_of_a_damaged_database_names_the_database_and_the_way_back() {
    let home = home();
    let mut server = home.start().await;
    fill(&server.api).await;
    server.launched.signal("TERM");
    server.launched.ended();
    let database = home.data().join("emergent.db");
    assert_eq!(number(&database, "PRAGMA wal_checkpoint(TRUNCATE)"), 0, "everything is in the file");
    let mut bytes = std::fs::read(&database).unwrap();
    // The page after that of the schema.
    bytes[8_192..8_300].fill(0xFF);
    std::fs::write(&database, &bytes).unwrap();
    let copy = home.folder().join("copy.db");
    let told = failed(&run(&home, &["backup", path(&copy)]).await);
    assert!(told.contains("emergent.db` cannot be used: ") && told.contains("damaged"), "{told}");
    assert!(told.contains("`emergent restore`") && !told.contains(".partial"), "{told}");
    let left = std::fs::read_dir(home.folder()).unwrap().map(|entry| entry.unwrap().file_name());
    let left: Vec<_> = left.filter(|name| name.to_string_lossy().starts_with("copy.db")).collect();
    assert!(left.is_empty(), "{left:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_export_says_what_it_leaves_out() {
    let home = Home::sqlite();
    common::command_output(run(&home, &["object", "create", "Note"]).await);
    let exported = run(&home, &["graph", "export"]).await;
    let told = common::text(&exported.stderr);
    assert!(told.contains("history") && told.contains("emergent backup"), "{told}");
    assert!(
        common::command_output(run(&home, &["graph", "export", "--help"]).await).contains("emergent backup")
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backup_asks_no_server_and_says_so() {
    let home = home();
    let server = home.start().await;
    let url = "http://backup.example.com:4400";
    for (args, flag) in [
        (["backup", "copy.db", "--server", url], "--server"),
        (["--server", url, "backup", "copy.db"], "--server"),
        (["backup", "copy.db", "--token", "a-token"], "--token"),
        (["restore", "copy.db", "--server", url], "--server"),
        (["demo", "--fresh", "--server", url], "--server"),
        (["serve", "--sample", "--server", url], "--server"),
    ] {
        let refused = failed(&run(&home, &args).await);
        let told = format!("asks no server: leave out {flag}, or run it on the machine of the server");
        assert!(refused.contains(&told) && refused.contains("of this machine"), "{args:?}: {refused}");
    }
    assert!(!home.folder().join("copy.db").exists());
    let help = String::from_utf8(run(&home, &["backup", "--help"]).await.stdout).unwrap();
    assert!(help.contains("--data-dir") && !help.contains("--server") && !help.contains("--token"), "{help}");

    let note = |output: &std::process::Output| String::from_utf8_lossy(&output.stderr).into_owned();
    let (own, folder) = (server.url().to_owned(), home.folder().to_owned());
    let home = home.with("EMERGENT_SERVER", url);
    let copied = run(&home, &["backup", "copy.db"]).await;
    assert!(copied.status.success() && folder.join("copy.db").is_file(), "{copied:?}");
    assert!(
        note(&copied).contains(&format!("EMERGENT_SERVER ({url}) is not used: backup works on")),
        "{copied:?}"
    );
    let home = home.with("EMERGENT_SERVER", &own);
    let copied = run(&home, &["backup", "second.db"]).await;
    assert!(copied.status.success() && !note(&copied).contains("EMERGENT_SERVER"), "{copied:?}");
    server.kill();
}

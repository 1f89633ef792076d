//! `emergent doctor` on what projects hold: secrets, external servers, products, triggers; on a data
//! folder, and on the server that has it.

mod common;

use std::{process::Output, time::Duration};

use common::{Home, eventually};
use emergent_testkit::ShellMcpServer;
use serde_json::{Value, json};

#[track_caller]
fn command_output(output: Output) -> String {
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{out}\n{err}");
    out.into_owned()
}

fn run(home: &Home, args: &[&str]) -> String {
    command_output(home.run(args))
}

fn write(home: &Home, name: &str, content: &Value) {
    std::fs::write(home.folder().join(name), content.to_string()).expect("a file");
}

/// What doctor says, and whether all is well.
fn doctor(home: &Home) -> (String, bool) {
    let output = home.run(&["doctor"]);
    (String::from_utf8(output.stdout).expect("text"), output.status.success())
}

/// The line that has all of these, with the fix below it.
#[track_caller]
fn line(told: &str, mark: &str, parts: &[&str]) -> String {
    let mut lines = told.lines();
    while let Some(one) = lines.next() {
        if one.starts_with(mark) && parts.iter().all(|part| one.contains(part)) {
            return lines.next().filter(|fix| fix.contains('→')).unwrap_or_default().to_owned();
        }
    }
    panic!("no line {mark} {parts:?} in:\n{told}");
}

fn change(home: &Home, statement: &str) -> usize {
    let db = rusqlite::Connection::open(home.data().join("emergent.db")).expect("the database");
    db.execute(statement, []).expect("a change")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn doctor_tells_how_external_servers_and_their_secrets_stand() {
    let home = Home::sqlite().with("EMERGENT_ALLOW_PRIVATE_HOSTS", "true");
    let says = home.folder().join("says");
    std::fs::write(&says, "Tells.").expect("a file");
    let program = ShellMcpServer::with_tool("tell", r#"$(cat "$SAYS")"#)
        .spec("stories", json!({ "SAYS": says, "TOKEN": "${STORY_TOKEN}" }));
    write(&home, "stories.json", &program);
    write(
        &home,
        "gone.json",
        &json!({ "name": "gone", "transport": "http", "url": "http://127.0.0.1:9/mcp" }),
    );
    write(
        &home,
        "off.json",
        &json!({ "name": "off", "transport": "stdio", "command": "no-such-program",
                                      "env": { "KEY": "${UNUSED}" }, "enabled": false }),
    );
    for file in ["stories.json", "gone.json", "off.json"] {
        run(&home, &["mcp-server", "add", file]);
    }

    let (told, well) = doctor(&home);
    assert!(!well, "{told}");
    let fix = line(&told, "✗ secrets", &["`stories` mentions STORY_TOKEN"]);
    assert!(fix.ends_with("emergent secret set STORY_TOKEN"), "{fix}");
    let fix = line(&told, "✗ mcp servers", &["`gone`"]);
    assert!(fix.contains("emergent mcp-server inspect gone") && fix.contains("--enabled false"), "{fix}");
    // The finding about the secret says what to do, once.
    line(&told, "– mcp servers", &["`stories` needs STORY_TOKEN"]);
    line(&told, "✓ mcp servers", &["`off` is switched off"]);
    assert!(!told.contains("UNUSED"), "what is switched off needs nothing: {told}");
    line(&told, "✓ secrets", &["0 set", "secret-key"]);

    let mut set = home.command(&["secret", "set", "STORY_TOKEN"]);
    set.stdin(std::process::Stdio::from(
        std::fs::File::open(home.folder().join("gone.json")).expect("a file"),
    ));
    command_output(common::finish(set));
    run(&home, &["mcp-server", "remove", "gone"]);
    let (told, well) = doctor(&home);
    assert!(well, "{told}");
    line(&told, "✓ mcp servers", &["`stories` answers", "MCP 2025-11-25", "1 tool"]);
    line(&told, "✓ secrets", &["1 set"]);

    // A tool that changed is held back, and is told of by a server as well. So is a project by its name.
    std::fs::write(&says, "Deletes everything.").expect("a file");
    run(&home, &["project", "create", "other"]);
    let server = home.start().await;
    let (told, well) = doctor(&home);
    assert!(!well, "{told}");
    let fix = line(&told, "✗ mcp servers", &["`stories`", "held back: tell", "project `default`"]);
    assert!(fix.contains("emergent mcp-server accept stories tell -p default"), "{fix}");
    line(&told, "✓ mcp servers", &["`stories` answers"]);
    run(&home, &["mcp-server", "accept", "stories", "tell"]);
    assert!(doctor(&home).1, "{}", doctor(&home).0);
    server.kill();
}

#[test]
fn doctor_tells_the_level_of_each_finding_as_json() {
    let levels = |home: &Home| {
        let output = home.run(&["doctor", "--json"]);
        let findings: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        let findings = findings.as_array().expect("findings").clone();
        for finding in &findings {
            let level = finding["level"].as_str().expect("a level");
            assert!(["ok", "warning", "error"].contains(&level), "{finding}");
            assert_eq!(finding["ok"], level != "error", "{finding}");
        }
        let has = move |level: &str| findings.iter().any(|finding| finding["level"] == level);
        (has("warning"), has("error"), output.status.code())
    };
    let home = Home::sqlite();
    run(&home, &["project", "create", "other"]);
    assert_eq!(levels(&home), (false, false, Some(0)));
    let warned = home.with("EMERGENT_MAX_RUN", "9");
    assert!(doctor(&warned).0.contains("\n! "), "{}", doctor(&warned).0);
    assert_eq!(levels(&warned), (true, false, Some(0)), "a warning is no failure");
    let wrong = warned.with("EMERGENT_MODEL", "nobody/model");
    assert!(doctor(&wrong).0.contains("\n✗ "), "{}", doctor(&wrong).0);
    assert_eq!(levels(&wrong), (true, true, Some(1)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn doctor_tells_of_products_and_of_what_was_changed_by_hand() {
    let home = Home::sqlite();
    run(&home, &["product", "install", "emergent.memory"]);
    let (told, well) = doctor(&home);
    assert!(well, "{told}");
    line(&told, "✓ products", &["emergent.memory "]);
    line(&told, "✓ products", &["emergent product check"]);
    assert!(!told.contains("by hand"), "{told}");

    let server = home.start().await;
    let agents = server.api.get("/api/admin/agents?include_internal=true").await.data();
    let of_product = |agent: &&Value| agent["product"] == "emergent.memory";
    let agent = agents.as_array().expect("agents").iter().find(of_product).expect("one").clone();
    let (id, name) = (agent["id"].as_str().expect("an id"), agent["name"].as_str().expect("a name"));
    server.api.patch(&format!("/api/admin/agents/{id}"), &json!({ "maxSteps": 3 })).await.data();
    let (told, well) = doctor(&home);
    assert!(well, "{told}");
    line(&told, "✓ products", &["emergent.memory ", "changed by hand", name]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn doctor_tells_of_schedules_that_will_not_come_and_of_firings_that_wait() {
    let home = Home::sqlite();
    for (name, trigger) in [("digest", "0 8 * * *"), ("greeter", "on_entity_created")] {
        let definition =
            json!({ "name": name, "trigger": trigger, "model": { "provider": "rehearsal", "name": "echo" } });
        write(&home, "agent.json", &definition);
        run(&home, &["agent", "create", "agent.json"]);
    }
    let (told, well) = doctor(&home);
    assert!(well, "{told}");
    line(&told, "✓ triggers", &["1 schedule, 1 event trigger"]);

    let server = home.start().await;
    server.api.post("/api/graph/objects", &json!({ "type": "Person", "properties": {} })).await.data();
    eventually("the greeter was started", Duration::from_secs(20), async || {
        !server
            .api
            .get("/api/admin/triggers/firings?status=admitted")
            .await
            .data()
            .as_array()
            .expect("a list")
            .is_empty()
    })
    .await;
    server.kill();
    assert_eq!(change(&home, "UPDATE schedules SET next_at = NULL"), 1);
    change(&home, "UPDATE trigger_firings SET status = 'pending', run_id = NULL, settled_at = NULL");
    let (told, well) = doctor(&home);
    assert!(!well, "{told}");
    let fix = line(&told, "✗ triggers", &["`agent:digest`", "will not come again"]);
    assert!(fix.contains("save the agent `digest` again"), "{fix}");
    line(&told, "✓ triggers", &["1 firing waits since", "emergent serve"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn doctor_tells_of_events_that_are_held_back_and_of_whom_they_wait_for() {
    let home = Home::sqlite();
    let scripts = home.data().join("rehearsals");
    std::fs::create_dir_all(&scripts).expect("a folder");
    let asks = json!({ "rules": [{ "when": {}, "answer": {
        "text": "I have to ask.",
        "calls": [{ "tool": "ask_user", "input": { "question": "Who is that?" } }],
    } }] });
    std::fs::write(scripts.join("asks.yaml"), asks.to_string()).expect("a script");
    let definition = json!({
        "name": "greeter", "trigger": "on_entity_created", "tools": ["ask_user"],
        "config": { "trigger": { "types": ["Person"], "max_concurrent": 1 } },
        "model": { "provider": "rehearsal", "name": "asks" },
    });
    write(&home, "agent.json", &definition);
    run(&home, &["agent", "create", "agent.json"]);
    let server = home.start().await;
    for _ in 0..3 {
        server.api.post("/api/graph/objects", &json!({ "type": "Person", "properties": {} })).await.data();
    }
    eventually("the first run waits for a person", Duration::from_secs(20), async || {
        let triggers = server.api.get("/api/admin/triggers").await.data();
        triggers["events"][0]["heldBack"] == json!({ "events": 2, "unfinishedRuns": 1, "waitingRuns": 1 })
    })
    .await;
    let (told, well) = doctor(&home);
    assert!(well, "a warning is no problem: {told}");
    let held_back = "greeter holds back 2 events until a run ends: it has 1 unfinished run";
    let fix = line(&told, "! triggers", &[held_back, "of which 1 waits for a person"]);
    assert!(fix.contains("emergent inbox list"), "{fix}");
    assert!(!told.contains("firings wait since"), "they are reported once: {told}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn doctor_makes_no_key_and_says_which_one_is_missing() {
    let home = Home::postgres().await;
    run(&home, &["graph", "export"]);
    let elsewhere = Home::on(home.postgres.clone().expect("an address")).without_key();
    let output = elsewhere.run(&["doctor"]);
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    let fix = line(&told, "✗ secrets", &["is not here"]);
    assert!(fix.contains("EMERGENT_SECRET_KEY"), "{fix}");
    assert!(!elsewhere.data().exists(), "looking changes nothing");
    let (told, well) = doctor(&home);
    assert!(well, "{told}");
    line(&told, "✓ secrets", &["0 set", "EMERGENT_SECRET_KEY"]);
}

#[test]
fn doctor_asks_the_providers_of_models_also_where_no_server_runs() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("an address");
    let address = taken.local_addr().expect("an address").to_string();
    let home = Home::sqlite()
        .with("OPENAI_API_KEY", "a-key-that-is-refused")
        .with("EMERGENT_OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
        .with("EMERGENT_LISTEN", &address);
    let output = home.run(&["doctor", "--data-dir", "my data"]);
    let told = String::from_utf8(output.stdout).expect("text");
    assert!(!output.status.success(), "{told}");
    let fix = line(&told, "✗ models", &["openai does not work"]);
    assert!(fix.contains("OPENAI_API_KEY"), "{fix}");
    assert!(!told.contains("a-key-that-is-refused"), "{told}");
    line(
        &told,
        "! address",
        &["is in use by another program", "emergent serve --listen ADDRESS --data-dir 'my data'"],
    );
    assert!(!home.folder().join("my data").exists(), "looking changes nothing");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn doctor_knows_the_server_of_another_folder_at_its_address() {
    let other = Home::sqlite();
    let server = other.start().await;
    let address = server.url().strip_prefix("http://").expect("an address");
    let home = Home::sqlite().with("EMERGENT_LISTEN", address);
    let (told, well) = doctor(&home);
    assert!(well, "{told}");
    line(&told, "! address", &[address, "is in use by an Emergent server of another data folder (version "]);
}

#[test]
fn doctor_says_when_the_data_folder_cannot_be_made() {
    let home = Home::sqlite();
    std::fs::write(home.folder().join("a-file"), "no folder").expect("a file");
    for folder in ["a-file/data", "a-file/more/data"] {
        let output = home.run(&["doctor", "--data-dir", folder]);
        let told = String::from_utf8(output.stdout).expect("text");
        assert!(!output.status.success(), "{told}");
        let fix = line(&told, "✗ data folder", &[folder, "cannot be made"]);
        assert!(fix.contains("--data-dir"), "{fix}");
    }
    let output = home.run(&["doctor", "--data-dir", "new/data"]);
    let told = String::from_utf8(output.stdout).expect("text");
    assert!(output.status.success(), "{told}");
    line(&told, "✓ data folder", &["new/data", "made at the first start"]);
    let left: Vec<_> = std::fs::read_dir(home.folder())
        .expect("a folder")
        .map(|entry| entry.expect("one").file_name())
        .collect();
    assert!(left.iter().all(|name| name != "new" && !name.to_string_lossy().contains("doctor")), "{left:?}");
}

#[test]
fn doctor_says_which_address_of_a_provider_does_not_answer() {
    for variable in ["EMERGENT_OPENAI_BASE_URL", "EMERGENT_ANTHROPIC_BASE_URL", "EMERGENT_GOOGLE_BASE_URL"] {
        let home = Home::sqlite().with(variable, "http://127.0.0.1:9/v1");
        let (told, well) = doctor(&home);
        assert!(!well, "{told}");
        let fix = line(&told, "✗ models", &["does not work"]);
        assert!(fix.contains(variable), "{fix}");
        assert!(!fix.contains("API_KEY"), "a local server needs no key: {fix}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn doctor_names_the_agents_that_the_server_would_not_start() {
    // Nothing listens on this port.
    let home = Home::sqlite().with("OLLAMA_HOST", "http://127.0.0.1:9");
    for (name, provider) in
        [("paid", "google"), ("also-paid", "google"), ("local", "ollama"), ("free", "rehearsal")]
    {
        let agent = json!({ "name": name, "model": { "provider": provider, "name": "echo" } });
        write(&home, "agent.json", &agent);
        run(&home, &["agent", "apply", "agent.json"]);
    }
    let check = |told: &str| {
        let fix = line(
            told,
            "! agents",
            &["`also-paid`", "`paid`", "cannot start", "google/echo needs GEMINI_API_KEY"],
        );
        assert!(fix.contains("EMERGENT_MODEL=provider/name"), "{fix}");
        line(told, "! agents", &["`local`", "cannot start", "ollama", "does not work"]);
        assert!(!told.contains("`free`"), "{told}");
    };
    check(&doctor(&home).0);
    let server = home.start().await;
    check(&doctor(&home).0);
    let refused = home.run(&["agent", "trigger", "paid", "--input", "x"]);
    assert!(String::from_utf8_lossy(&refused.stderr).contains("GEMINI_API_KEY"), "{refused:?}");
    server.kill();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn doctor_only_warns_of_tools_that_a_disabled_server_may_bring() {
    let home = Home::sqlite().with("EMERGENT_ALLOW_PRIVATE_HOSTS", "true");
    let server = json!({ "name": "gone", "transport": "http", "url": "http://127.0.0.1:9/mcp" });
    write(&home, "gone.json", &server);
    run(&home, &["mcp-server", "add", "gone.json"]);
    for (name, tool) in [("bare", "web_lookup"), ("qualified", "gone.web_lookup")] {
        let model = json!({ "provider": "rehearsal", "name": "echo" });
        write(&home, "agent.json", &json!({ "name": name, "model": model, "tools": [tool] }));
        run(&home, &["agent", "apply", "agent.json"]);
    }
    let (told, well) = doctor(&home);
    assert!(!well, "{told}");
    line(&told, "✗ agents", &["`bare`", "`web_lookup` is not known"]);

    run(&home, &["mcp-server", "set", "gone", "--enabled", "false"]);
    let (told, well) = doctor(&home);
    assert!(well, "{told}");
    for (name, tool) in [("`bare`", "`web_lookup`"), ("`qualified`", "`gone.web_lookup`")] {
        let fix = line(&told, "! agents", &[name, tool, "switched off: `gone`"]);
        assert!(fix.contains("emergent mcp-server set gone --enabled true"), "{fix}");
    }

    // Another server does not bring the tools of this one.
    run(&home, &["mcp-server", "remove", "gone"]);
    write(
        &home,
        "other.json",
        &json!({ "name": "other", "transport": "stdio", "command": "no-such-program", "enabled": false }),
    );
    run(&home, &["mcp-server", "add", "other.json"]);
    let (told, well) = doctor(&home);
    assert!(!well, "{told}");
    line(&told, "! agents", &["`bare`", "switched off: `other`"]);
    line(&told, "✗ agents", &["`qualified`", "`gone.web_lookup` is not known"]);
}

#[test]
fn doctor_says_how_an_agent_gets_a_model() {
    let home = Home::sqlite();
    write(&home, "agent.json", &json!({ "name": "modelless" }));
    run(&home, &["agent", "apply", "agent.json"]);
    let (told, well) = doctor(&home);
    assert!(well, "{told}");
    let fix = line(&told, "! agents", &["`modelless` cannot start", "no model is set for it"]);
    assert!(fix.contains("definition a `model`") && fix.contains("EMERGENT_MODEL=provider/name"), "{fix}");
}

#[test]
fn doctor_checks_the_files_and_values_that_settings_name() {
    let home = Home::sqlite()
        .with("EMERGENT_TLS_CERT", "no-such.pem")
        .with("EMERGENT_TLS_KEY", "no-such-key.pem")
        .with("EMERGENT_REHEARSALS", "no-such-folder")
        .with("EMERGENT_JUDGE_MODEL", "nobody/x")
        .with("EMERGENT_ADMIN_TOKEN", "short")
        .with("EMERGENT_LISTN", "127.0.0.1:1");
    let (told, well) = doctor(&home);
    assert!(!well, "{told}");
    let fix = line(&told, "✗ tls", &["EMERGENT_TLS_CERT", "no-such.pem"]);
    assert!(fix.contains("EMERGENT_TLS_KEY"), "{fix}");
    line(&told, "✗ configuration", &["EMERGENT_JUDGE_MODEL", "nobody"]);
    line(&told, "✗ configuration", &["EMERGENT_ADMIN_TOKEN"]);
    line(&told, "! configuration", &["no-such-folder, which EMERGENT_REHEARSALS names, does not exist"]);
    line(&told, "! configuration", &["EMERGENT_LISTN is not a setting", "`EMERGENT_LISTEN`"]);
    assert!(!told.contains("✗ projects"), "{told}");
    std::fs::write(home.folder().join("no.pem"), "no certificate").expect("a file");
    let home = home.with("EMERGENT_TLS_CERT", "no.pem").with("EMERGENT_TLS_KEY", "no.pem");
    line(&doctor(&home).0, "✗ tls", &["no.pem"]);
    // The certificate can be read: the key is to blame.
    let certificate = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/attack/tls/cert.pem");
    let home = home.with("EMERGENT_TLS_CERT", certificate.to_str().expect("a path"));
    line(&doctor(&home).0, "✗ tls", &["`EMERGENT_TLS_KEY` cannot be used", "the private key in `no.pem`"]);
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/attack/tls");
    let path = |name: &str| folder.join(name).to_str().expect("a path").to_owned();
    let home = home.with("EMERGENT_TLS_CERT", path("cert.pem")).with("EMERGENT_TLS_KEY", path("key.pem"));
    line(&doctor(&home).0, "✓ tls", &["cert.pem and its key can be used"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn doctor_names_variables_that_are_no_settings_also_where_a_server_runs() {
    let home = Home::sqlite();
    let server = home.start().await;
    let mut asked = home.command(&["doctor"]);
    asked.env("EMERGENT_ALOW_STDIO", "false");
    let mut named = home.command(&["doctor", "--server", server.url()]);
    named.env("EMERGENT_ALOW_STDIO", "false");
    for command in [asked, named] {
        let output = common::finish(command);
        let told = String::from_utf8(output.stdout).expect("text");
        assert!(output.status.success(), "it is a warning: {told}");
        line(&told, "! configuration", &["EMERGENT_ALOW_STDIO is not a setting", "`EMERGENT_ALLOW_STDIO`"]);
        line(&told, "✓ configuration", &["of the server: no emergent.toml"]);
    }
    server.kill();
}

#[test]
fn a_setting_of_a_used_folder_that_is_wrong_is_told_once() {
    let home = Home::sqlite();
    run(&home, &["object", "create", "Note", "first"]);
    let home = home.with("EMERGENT_JUDGE_MODEL", "nobody/x").with("EMERGENT_ADMIN_TOKEN", "short");
    let (told, _) = doctor(&home);
    assert!(!told.contains("✗ projects"), "{told}");
    assert_eq!(told.matches("`EMERGENT_ADMIN_TOKEN` cannot be used").count(), 1, "{told}");
    assert_eq!(told.matches("`EMERGENT_JUDGE_MODEL` cannot be used").count(), 1, "{told}");
}

#[test]
fn a_script_that_cannot_be_read_is_told_with_what_to_do() {
    let home = Home::sqlite();
    let folder = home.data().join("rehearsals");
    std::fs::create_dir_all(&folder).expect("a folder");
    std::fs::write(folder.join("broken.yaml"), "rules: [").expect("a file");
    let agent = json!({ "name": "player", "model": { "provider": "rehearsal", "name": "broken" } });
    write(&home, "player.json", &agent);
    let applied = home.run(&["agent", "apply", "player.json"]);
    let warned = String::from_utf8_lossy(&applied.stderr).into_owned();
    assert!(warned.contains("! player cannot start: ") && warned.contains("broken.yaml"), "{warned}");
    let fix = line(&doctor(&home).0, "! agents", &["`player` cannot start", "broken.yaml"]);
    assert!(fix.contains("correct that file") && fix.contains("`emergent agent edit player`"), "{fix}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_script_that_is_missing_is_told_when_its_agent_is_saved_and_by_doctor() {
    let home = Home::sqlite();
    let agent = json!({ "name": "player", "systemPrompt": "x", "model": { "provider": "rehearsal", "name": "lost" } });
    write(&home, "player.json", &agent);
    let applied = home.run(&["agent", "apply", "player.json"]);
    let warned = String::from_utf8_lossy(&applied.stderr).into_owned();
    assert!(warned.contains("! player cannot start: there is no rehearsal script `lost`"), "{warned}");
    line(&doctor(&home).0, "! agents", &["`player` cannot start: there is no rehearsal script `lost`"]);
    let server = home.start().await;
    line(&doctor(&home).0, "! agents", &["`player` cannot start", "`lost`"]);
    server.kill();
    let home = home.with("EMERGENT_MODEL", "rehearsal/echo");
    let (told, _) = doctor(&home);
    assert!(!told.contains("cannot start"), "that model replaces the one of the agent: {told}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn doctor_finds_a_damaged_page_where_no_server_runs() {
    let home = Home::sqlite();
    let server = home.start().await;
    server.api.post("/api/graph/objects", &json!({ "type": "Note" })).await.data();
    drop(server);
    let (told, _) = doctor(&home);
    line(&told, "✓ database", &["no page is damaged"]);
    let file = home.data().join("emergent.db");
    let (root, page) = {
        let db = rusqlite::Connection::open(&file).expect("the database");
        let number = |sql: &str| -> u64 {
            let number: i64 = db.query_row(sql, [], |row| row.get(0)).expect("a number");
            number.try_into().expect("a count")
        };
        db.pragma_update(None, "wal_checkpoint", "TRUNCATE").expect("one file");
        (
            number("SELECT rootpage FROM sqlite_schema WHERE name = 'graph_objects'"),
            number("PRAGMA page_size"),
        )
    };
    let opened = std::fs::OpenOptions::new().write(true).open(&file).expect("the file");
    let garbage = vec![0xa5; page as usize];
    std::os::unix::fs::FileExt::write_all_at(&opened, &garbage, (root - 1) * page).expect("a damaged page");
    let output = home.run(&["doctor"]);
    let told = String::from_utf8(output.stdout).expect("text");
    assert_eq!(output.status.code(), Some(1), "{told}");
    let fix = line(&told, "✗ database", &["emergent.db is damaged"]);
    assert!(fix.contains("emergent restore FILE"), "{fix}");
}

#[test]
fn doctor_names_files_with_secrets_that_others_can_read_and_a_start_makes_them_private() {
    use std::os::unix::fs::PermissionsExt;
    let home = Home::sqlite().without_token();
    drop(home.launch(&[]).address().map(str::to_owned).expect("a first start"));
    let files = ["admin-token", "secret-key"].map(|name| home.data().join(name));
    for file in &files {
        std::fs::set_permissions(file, PermissionsExt::from_mode(0o666)).expect("a mode");
    }
    std::fs::set_permissions(home.data(), PermissionsExt::from_mode(0o755)).expect("a mode");
    let (told, well) = doctor(&home);
    assert!(!well, "{told}");
    let fix = line(&told, "✗ data folder", &["other users", "admin-token", "secret-key"]);
    assert!(fix.contains("chmod 600"), "{fix}");
    let mut server = home.launch(&[]);
    server.address().expect("the server starts");
    for (path, expected) in files.iter().map(|file| (file.clone(), 0o600)).chain([(home.data(), 0o700)]) {
        let mode = std::fs::metadata(&path).expect("it is there").permissions().mode() & 0o777;
        assert_eq!(mode, expected, "{}", path.display());
    }
    let log = server.log();
    assert!(log.contains("admin-token") && log.contains("could read"), "{log}");
    let (told, _) = doctor(&home);
    assert!(!told.contains("chmod 600"), "{told}");
}

//! The commands as a person uses them: on a data folder, on the server that holds it, and on a
//! server somewhere.

mod common;

use std::{
    io::{BufRead, BufReader},
    process::{Output, Stdio},
};

use common::{Home, TOKEN, finish};
use serde_json::Value;

const FILE: &str = r#"
{"kind":"object","type":"Person","key":"ada","labels":["mathematics"],"properties":{"name":"Ada Lovelace","description":"She wrote the first algorithm."}}
{"kind":"object","type":"Machine","key":"engine","properties":{"name":"Analytical Engine","description":"A mill and a store."}}
{"kind":"object","type":"Idea","key":"loop","properties":{"name":"Loop"}}
{"kind":"relationship","type":"described","from":{"type":"Person","key":"ada"},"to":{"type":"Machine","key":"engine"},"properties":{"year":1843}}
{"kind":"relationship","type":"runs","from":{"type":"Machine","key":"engine"},"to":{"type":"Idea","key":"loop"},"weight":0.5}
"#;

/// A folder with the file to import.
fn home() -> Home {
    let home = Home::sqlite();
    std::fs::write(home.folder().join("graph.ndjson"), FILE.trim_start()).expect("a file");
    home
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("text")
}

/// What it printed, when it went well and had nothing to complain about.
#[track_caller]
fn command_output(output: Output) -> String {
    assert!(output.status.success(), "{}{}", text(&output.stdout), text(&output.stderr));
    text(&output.stdout).to_owned()
}

#[track_caller]
fn json(output: Output) -> Value {
    let out = command_output(output);
    serde_json::from_str(&out).unwrap_or_else(|error| panic!("not JSON ({error}): {out}"))
}

/// What a failed command said: one line on stderr, and nothing else there.
#[track_caller]
fn failed(output: &Output) -> String {
    let err = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{err}");
    // The first command of a folder says before that it made one.
    let lines: Vec<&str> = err.lines().filter(|line| !line.starts_with("a new data folder ")).collect();
    let err = lines.join("\n");
    assert!(err.starts_with("error: ") && err.trim_end().lines().count() == 1, "{err:?}");
    err.trim_end().to_owned()
}

/// Every command that looks into the graph, run with these flags.
fn tour(home: &Home, flags: &[&str]) {
    let run = |args: &[&str]| home.run(&[args, flags].concat());
    let import = command_output(run(&["graph", "import", "graph.ndjson"]));
    assert_eq!(
        import,
        "3 objects: 3 created, 0 updated, 0 unchanged\n2 relationships: 2 created, 0 updated, 0 unchanged\n"
    );

    let found = command_output(run(&["graph", "search", "algorithm", "--mode", "text"]));
    assert!(found.contains("Person/ada  Ada Lovelace") && found.contains("text #1"), "{found}");
    assert!(!found.contains("Machine/"), "{found}");
    let none = command_output(run(&["graph", "search", "algorithm", "--mode", "text", "--type", "Idea"]));
    assert_eq!(none.trim(), "nothing found");
    let hits = json(run(&["graph", "search", "mill store", "--json", "--mode", "text"]));
    assert_eq!(hits["hits"][0]["object"]["key"], "engine");

    let walk = command_output(run(&["graph", "traverse", "Person/ada", "--depth", "2"]));
    assert!(walk.contains("3 objects, 2 edges") && walk.contains("→ Machine/engine"), "{walk}");
    let walk = json(run(&["graph", "traverse", "Person/ada", "--direction", "out", "--json"]));
    assert_eq!(walk["nodes"].as_array().map(Vec::len), Some(2), "{walk}");

    let shown = command_output(run(&["graph", "show", "Machine/engine"]));
    assert!(shown.contains("Analytical Engine") && shown.contains("described"), "{shown}");
    let ada = json(run(&["graph", "show", "Person/ada", "--json"]));
    assert_eq!((&ada["version"], &ada["labels"][0]), (&1.into(), &"mathematics".into()));
    let by_id = json(run(&["graph", "show", ada["id"].as_str().expect("an id"), "--json"]));
    assert_eq!(by_id, ada);

    let history = command_output(run(&["graph", "history", "Person/ada"]));
    assert!(history.starts_with("VERSION") && history.lines().count() == 2, "{history}");

    // Again is nothing new: no object, no edge, no version.
    let before = command_output(run(&["graph", "export"]));
    let again = json(run(&["graph", "import", "graph.ndjson", "--json"]));
    assert_eq!(
        (&again["objects"]["unchanged"], &again["relationships"]["unchanged"]),
        (&3.into(), &2.into()),
        "{again}"
    );
    assert_eq!(command_output(run(&["graph", "export"])), before);
    assert_eq!(json(run(&["graph", "history", "Person/ada", "--json"])).as_array().map(Vec::len), Some(1));
    assert_eq!(before.lines().count(), 5, "{before}");
    command_output(run(&["graph", "export", "--output", "out.ndjson"]));
    assert_eq!(std::fs::read_to_string(home.folder().join("out.ndjson")).expect("the file"), before);
}

#[test]
fn deleted_objects_and_relationships_have_a_history_and_are_restored() {
    let home = home();
    command_output(home.run(&["graph", "import", "graph.ndjson"]));
    let walk = json(home.run(&["graph", "traverse", "Person/ada", "--direction", "out", "--json"]));
    let edge = walk["edges"][0]["id"].as_str().expect("an id").to_owned();
    command_output(home.run(&["object", "delete", "Person/ada"]));
    let history = command_output(home.run(&["graph", "history", "Person/ada"]));
    assert!(history.contains("deleted") && history.lines().count() == 3, "{history}");
    let refused = failed(&home.run(&["relationship", "restore", &edge]));
    assert!(refused.contains("no longer exists"), "{refused}");
    let restored = command_output(home.run(&["object", "restore", "Person/ada"]));
    assert!(restored.contains("Person/ada") && restored.contains("is live, version 3"), "{restored}");
    let history = command_output(home.run(&["relationship", "history", &edge]));
    assert!(history.lines().count() == 5 && history.contains("deleted"), "{history}");
    let live = command_output(home.run(&["relationship", "restore", &edge]));
    assert!(live.contains("is live, version 3"), "{live}");
}

#[test]
fn commands_work_on_a_data_folder_without_a_server() {
    let home = home();
    tour(&home, &[]);
    assert!(home.data().join("emergent.db").exists(), "the default is ./data");
    command_output(home.run(&["project", "create", "other", "--data-dir", "elsewhere"]));
    let elsewhere = home.run(&["graph", "export", "--data-dir", "elsewhere"]);
    assert_eq!(command_output(elsewhere), "", "another folder is another graph");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commands_find_the_server_that_holds_the_folder() {
    let home = home();
    let server = home.start().await;
    tour(&home, &[]);
    let objects = server.api.all("/api/graph/objects?").await;
    assert_eq!(objects.len(), 3, "the commands went through the server");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commands_find_the_server_with_the_token_it_made_itself() {
    let home = home().without_token();
    let _server = home.start().await;
    tour(&home, &[]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_was_killed_leaves_nothing_in_the_way() {
    let home = home();
    home.start().await.kill();
    tour(&home, &[]);
}

#[test]
fn commands_wait_for_one_another() {
    let home = home();
    command_output(home.run(&["graph", "import", "graph.ndjson"]));
    let several: Vec<_> = (0..4)
        .map(|_| home.command(&["graph", "export"]).stdout(Stdio::piped()).spawn().expect("it runs"))
        .collect();
    for one in several {
        assert_eq!(command_output(one.wait_with_output().expect("it ends")).lines().count(), 5);
    }
    // The error names a process that holds the lock and is no server. This test holds it and writes no name.
    let lock = std::fs::File::options().write(true).open(home.data().join("lock")).expect("the lock");
    lock.lock().expect("it is free");
    lock.set_len(0).expect("it is emptied");
    let told = failed(&home.run(&["graph", "export"]));
    assert!(told.contains("in use by another process"), "{told}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commands_go_to_the_server_they_are_told() {
    let far = Home::sqlite();
    let server = far.start().await;
    let near = home().without_token();
    tour(&near, &["--server", server.url(), "--token", TOKEN]);
    assert!(!near.data().exists(), "nothing was made here");

    let refused = near.run(&["graph", "export", "--server", server.url(), "--token", "emt_wrong"]);
    assert!(failed(&refused).contains("token"), "{refused:?}");
    let refused =
        near.run(&["graph", "import", "graph.ndjson", "--server", server.url(), "--token", "emt_wrong"]);
    assert!(failed(&refused).contains("token"), "{refused:?}");
    let no_token = near.run(&["graph", "export", "--server", server.url()]);
    assert!(failed(&no_token).contains("--token"), "{no_token:?}");

    // The token of a server here is not sent to a server there.
    let here = near.start().await;
    let no_token = near.run(&["graph", "export", "--server", server.url()]);
    assert!(failed(&no_token).contains("--token"), "{no_token:?}");
    assert_eq!(command_output(near.run(&["graph", "export", "--server", here.url()])), "");

    let address = server.url().to_owned();
    server.kill();
    let gone = near.run(&["graph", "export", "--server", &address, "--token", TOKEN]);
    assert!(failed(&gone).contains(&address), "{gone:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commands_work_on_postgres() {
    let home = Home::postgres().await;
    std::fs::write(home.folder().join("graph.ndjson"), FILE.trim_start()).expect("a file");
    tour(&home, &[]);
    let checked = command_output(home.run(&["doctor"]));
    assert!(checked.contains("PostgreSQL answers"), "{checked}");
}

#[test]
fn tokens_are_made_shown_once_and_revoked() {
    let home = home();
    command_output(home.run(&["graph", "import", "graph.ndjson"]));
    let made = home.run(&["token", "create", "reader", "--scopes", "graph:read"]);
    assert!(text(&made.stderr).contains("not shown again"));
    let secret = command_output(made).trim().to_owned();
    assert!(secret.starts_with("emt_"), "{secret}");

    let with_it = |args: &[&str]| home.run(&[args, &["--token", &secret]].concat());
    assert_eq!(command_output(with_it(&["graph", "export"])).lines().count(), 5);
    assert!(failed(&with_it(&["graph", "import", "graph.ndjson"])).contains("graph:write"));

    let listed = command_output(home.run(&["token", "list"]));
    assert!(
        listed.contains("reader") && listed.contains("graph:read") && !listed.contains(&secret),
        "{listed}"
    );
    let tokens = json(home.run(&["token", "list", "--json"]));
    let reader = tokens.as_array().expect("a list").iter().find(|token| token["name"] == "reader");
    let id = reader.expect("it is listed")["id"].as_str().expect("an id").to_owned();
    command_output(home.run(&["token", "revoke", &id]));
    assert!(failed(&with_it(&["graph", "export"])).contains("token"));
    let nobody = "0190f3c5-0000-7000-8000-000000000000";
    assert!(failed(&home.run(&["token", "revoke", nobody])).contains(nobody));

    let create = |flags: &[&str]| {
        json(home.run(&[&["token", "create", "x", "--scopes", "graph:read", "--json"], flags].concat()))
    };
    assert!(create(&["--project", "default"])["project"].is_string());
    assert!(create(&["--project", "default", "--all-projects"])["project"].is_null());

    let unknown = home.run(&["token", "create", "x", "--scopes", "graph:fly"]);
    assert!(failed(&unknown).contains("graph:fly"), "{unknown:?}");
}

#[test]
fn projects_keep_graphs_apart() {
    let home = home();
    let made = command_output(home.run(&["project", "create", "other"]));
    assert!(made.contains("other"), "{made}");
    command_output(home.run(&["graph", "import", "graph.ndjson", "--project", "other"]));
    assert_eq!(command_output(home.run(&["graph", "export"])), "");
    assert_eq!(command_output(home.run(&["graph", "export", "-p", "other"])).lines().count(), 5);
    let names = json(home.run(&["project", "list", "--json"]));
    let mut names: Vec<_> =
        names.as_array().expect("a list").iter().map(|project| project["name"].clone()).collect();
    names.sort_by_key(ToString::to_string);
    assert_eq!(names, ["default", "other"]);
    assert!(failed(&home.run(&["graph", "export", "-p", "nowhere"])).contains("nowhere"));
    assert!(failed(&home.run(&["project", "create", "other"])).contains("other"), "names are unique");
}

#[test]
fn an_import_tells_which_lines_it_could_not_use() {
    let home = home();
    let lines = format!("{FILE}not JSON\n{{\"kind\":\"object\",\"type\":\"9\"}}\n");
    std::fs::write(home.folder().join("mixed.ndjson"), lines.trim_start()).expect("a file");
    let stopped = home.run(&["graph", "import", "mixed.ndjson"]);
    assert!(failed(&stopped).contains("2 lines were wrong: the import stopped there"), "{stopped:?}");
    let skipped = home.run(&["graph", "import", "mixed.ndjson", "--skip-errors"]);
    assert!(failed(&skipped).contains("2 lines were not imported"), "{skipped:?}");
    for output in [stopped, skipped] {
        let out = text(&output.stdout);
        assert!(out.contains("line 6") && out.contains("line 7"), "{out}");
    }
    assert_eq!(command_output(home.run(&["graph", "export"])).lines().count(), 5);
}

#[test]
fn what_goes_wrong_is_one_clear_line() {
    let home = home();
    command_output(home.run(&["graph", "import", "graph.ndjson"]));
    let check = |args: &[&str], expected: &str| {
        let told = failed(&home.run(args));
        assert!(told.contains(expected), "{args:?}: {told}");
    };
    check(&["graph", "import", "missing.ndjson"], "missing.ndjson");
    check(&["graph", "show", "Person/nobody"], "nobody");
    check(&["graph", "show", "not-an-id"], "not-an-id");
    check(&["graph", "show", "0190f3c5-0000-7000-8000-000000000000"], "0190f3c5-0000-7000-8000-000000000000");
    check(&["graph", "traverse", "Person/nobody"], "nobody");
    check(&["graph", "search", "x", "--limit", "0"], "limit");
    check(&["graph", "export", "--server", "http://127.0.0.1:9", "--token", "x"], "127.0.0.1:9");
    check(&["graph", "export", "--server", "not a url", "--token", "x"], "not a url");
    check(&["graph", "export", "--data-dir", "graph.ndjson"], "graph.ndjson");
    std::fs::write(home.folder().join("emergent.toml"), "lisen = \"x\"\n").expect("a file");
    let told = home.run(&["graph", "export"]);
    assert!(text(&told.stderr).contains("lisen") && told.status.code() == Some(1), "{told:?}");
}

#[test]
fn help_names_every_command() {
    let home = Home::sqlite();
    let help = command_output(home.run(&["--help"]));
    for command in [
        "serve",
        "agent",
        "run",
        "graph",
        "product",
        "token",
        "project",
        "mcp",
        "doctor",
        "--json",
        "--server",
        "--token",
        "--data-dir",
    ] {
        assert!(help.contains(command), "{command}: {help}");
    }
    for (group, commands) in [
        ("graph", &["import", "export", "search", "traverse", "show", "history"][..]),
        ("agent", &["list", "show", "create", "apply", "edit", "history", "delete", "trigger"]),
        ("run", &["list", "show", "tree", "messages", "tool-calls", "cancel", "resume", "revert", "follow"]),
        ("object", &["create", "update", "delete", "restore"]),
        ("relationship", &["history", "restore"]),
        ("document", &["add", "list", "search", "show", "delete"]),
        ("pack", &["list", "show", "add", "assign", "unassign", "delete"]),
        ("tool", &["list", "show"]),
        ("trigger", &["list", "firings"]),
        ("product", &["install", "upgrade", "uninstall", "check", "list", "show", "schema", "validate"]),
        ("token", &["create", "list", "revoke"]),
        ("project", &["list", "show", "create", "update", "delete"]),
        ("discussion", &["list", "show", "decide"]),
        ("secret", &["set", "list", "delete", "rotate"]),
    ] {
        let help = command_output(home.run(&[group, "--help"]));
        for command in commands {
            assert!(help.contains(command), "{group} {command}: {help}");
            command_output(home.run(&[group, command, "--help"]));
        }
    }
    let version = command_output(home.run(&["--version"]));
    assert_eq!(version.trim(), format!("emergent {}", env!("EMERGENT_BUILD_VERSION")));
    let sources = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    if sources.join("../../.git").exists() {
        let Some(commit) = option_env!("EMERGENT_BUILD_COMMIT") else {
            panic!("the build did not find the commit of this checkout")
        };
        assert!(commit.len() == 12 && version.contains(&format!("({commit})")), "{version}");
    }
    let wrong = home.run(&["grph"]);
    assert_eq!(wrong.status.code(), Some(2));
    assert!(text(&wrong.stderr).contains("graph"), "the nearest command is named");
}

#[test]
fn doctor_says_what_is_wrong_and_how_to_fix_it() {
    let home = home();
    let first = command_output(home.run(&["doctor"]));
    assert!(
        first.contains("made at the first start") && !home.data().exists(),
        "looking changes nothing: {first}"
    );
    command_output(home.run(&["graph", "import", "graph.ndjson"]));
    let well = json(home.run(&["doctor", "--json"]));
    assert!(well.as_array().expect("a list").iter().all(|finding| finding["ok"] == true), "{well}");

    let wrong = home.command(&["doctor"]).env("EMERGENT_EMBEDDINGS", "openai/x").output().expect("it runs");
    assert!(failed(&wrong).contains("one thing is wrong"));
    assert!(text(&wrong.stdout).contains("✗ embeddings") && text(&wrong.stdout).contains("→ "), "{wrong:?}");

    common::ruin_database(&home);
    let broken = home.run(&["doctor"]);
    failed(&broken);
    assert!(text(&broken.stdout).contains("✗ database"), "{broken:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn doctor_leaves_a_running_server_alone() {
    let home = home();
    let server = home.start().await;
    let checked = command_output(home.run(&["doctor"]));
    assert!(checked.contains("in use by a server"), "{checked}");
    assert!(checked.contains(&format!("{} answers", server.url())), "{checked}");
    assert!(server.api.get("/ready").await.status == 200);
}

/// `emergent graph export | head -1`: the reader has enough, and that is no error.
#[test]
fn a_reader_that_leaves_is_no_error() {
    let home = home();
    let lines: String = (0..5_000)
        .map(|n| {
            format!(
                "{{\"kind\":\"object\",\"type\":\"Many\",\"key\":\"k{n}\",\"properties\":{{\"n\":{n}}}}}\n"
            )
        })
        .collect();
    std::fs::write(home.folder().join("many.ndjson"), lines).expect("a file");
    command_output(home.run(&["graph", "import", "many.ndjson"]));
    for args in
        [&["graph", "export"][..], &["graph", "search", "k1*", "--mode", "text", "--json", "--limit", "100"]]
    {
        let mut child =
            home.command(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it runs");
        let mut first = String::new();
        BufReader::new(child.stdout.take().expect("a pipe")).read_line(&mut first).expect("a line");
        // The reader is dropped here.
        let output = child.wait_with_output().expect("it ends");
        assert!(output.status.success() && output.stderr.is_empty(), "{}", text(&output.stderr));
        assert!(!first.is_empty());
    }
}

/// Stderr is not a terminal here, so there is neither a bar nor a colour.
#[test]
fn progress_and_colour_are_for_terminals() {
    let home = home();
    // The first command says that it makes the data folder.
    command_output(home.run(&["project", "create", "other"]));
    let output = home.run(&["graph", "import", "graph.ndjson"]);
    assert_eq!(text(&output.stderr), "");
    assert!(!command_output(output).contains('\x1b'));
    assert!(!command_output(home.run(&["graph", "search", "ada"])).contains('\x1b'));
}

#[test]
fn standard_input_is_a_file_too() {
    let home = home();
    let mut command = home.command(&["graph", "import", "-", "--json"]);
    command.stdin(std::fs::File::open(home.folder().join("graph.ndjson")).expect("the file"));
    let told = json(finish(command));
    assert_eq!(
        (&told["objects"]["created"], &told["relationships"]["created"]),
        (&3.into(), &2.into()),
        "{told}"
    );
}

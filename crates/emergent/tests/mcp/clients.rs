//! The official Python and TypeScript clients, each in each era it speaks.

use std::{
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use serde_json::Value;

use crate::common::{Home, TOKEN, finish};

const MODERN: &str = "2026-07-28";
const LEGACY: &str = "2025-11-25";

/// A folder of `scripts/mcp-peers`, which installs what is missing.
fn peers(set: &str) -> PathBuf {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/mcp-peers");
    let output = Command::new(script).arg(set).stderr(Stdio::inherit()).output().expect("it runs");
    assert!(output.status.success(), "scripts/mcp-peers {set} failed");
    PathBuf::from(String::from_utf8(output.stdout).expect("a path").trim())
}

/// A client as a command. Node looks for packages above the program, so the programs go below them.
fn client(name: &str) -> Command {
    let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/mcp/clients");
    if name == "python.py" {
        let mut command = Command::new(peers("python").join("bin/python"));
        command.arg(from.join(name));
        return command;
    }
    let to = peers("clients").join("programs");
    std::fs::create_dir_all(&to).expect("a folder");
    for name in ["drive.mjs", name] {
        // Other tests do the same at the same time: nobody may see half a program.
        let half = to.join(format!("{}-{:?}-{name}", std::process::id(), std::thread::current().id()));
        std::fs::copy(from.join(name), &half).expect("a program");
        std::fs::rename(&half, to.join(name)).expect("a program");
    }
    let mut command = Command::new("node");
    command.arg(to.join(name));
    command
}

/// Runs a client and looks at what it saw.
fn check(home: &Home, client: &str, mode: &str, version: &str, target: &[&str]) {
    // The child of a client gets the folder by flags: clients pass on little of their environment.
    let mut command = self::client(client);
    command.arg(mode).args(target);
    command.current_dir(home.folder()).stdin(Stdio::null());
    let output = finish(command);
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{client} {mode} {target:?}: {out}{err}");
    let seen: Value =
        serde_json::from_str(out.trim()).unwrap_or_else(|_| panic!("{client} {mode}: {out}{err}"));
    assert_eq!(seen["version"], version, "{client} {mode} {target:?}: {seen}");
    assert_eq!(
        (&seen["failed"], &seen["readOnly"]),
        (&false.into(), &true.into()),
        "{client} {mode}: {seen}"
    );
    assert!(seen["tools"].as_array().is_some_and(|tools| tools.len() > 20), "{client} {mode}: {seen}");
    assert!(seen["found"].as_str().is_some_and(|text| text.contains("Ada")), "{client} {mode}: {seen}");
}

/// Each client with each mode it has, and what is spoken then.
const CLIENTS: &[(&str, &str, &str)] = &[
    ("python.py", "auto", MODERN),
    ("python.py", "2026-07-28", MODERN),
    ("python.py", "legacy", LEGACY),
    ("typescript1.mjs", "legacy", LEGACY),
    ("typescript2.mjs", "auto", MODERN),
    ("typescript2.mjs", "modern", MODERN),
    ("typescript2.mjs", "legacy", LEGACY),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn official_clients_use_a_server_over_http_in_each_era() {
    let home = Home::sqlite();
    let server = home.start().await;
    let url = format!("{}/mcp", server.url());
    for (client, mode, version) in CLIENTS {
        check(&home, client, mode, version, &["http", &url, TOKEN]);
    }
    assert_eq!(
        server.api.get("/api/graph/objects?type=Person").await.data().as_array().map(Vec::len),
        Some(CLIENTS.len())
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn official_clients_start_the_binary_on_a_folder_in_each_era() {
    let home = Home::sqlite();
    let data = home.data();
    let binary = env!("CARGO_BIN_EXE_emergent");
    for (client, mode, version) in CLIENTS {
        check(&home, client, mode, version, &["stdio", binary, "mcp", "--data-dir", data.to_str().unwrap()]);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn official_clients_start_the_binary_against_a_server_in_each_era() {
    let home = Home::sqlite();
    let server = home.start().await;
    let binary = env!("CARGO_BIN_EXE_emergent");
    for (client, mode, version) in CLIENTS {
        let target = ["stdio", binary, "mcp", "--server", server.url(), "--token", TOKEN];
        check(&home, client, mode, version, &target);
    }
}

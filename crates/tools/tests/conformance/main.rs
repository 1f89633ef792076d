//! The official conformance suite against our client, for both eras. What needs an OAuth server is
//! listed as expected to fail: secrets are the way in here.

use std::{path::PathBuf, process::Command};

fn suite() -> PathBuf {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/mcp-peers");
    let made = Command::new(script).arg("conformance").output().expect("scripts/mcp-peers runs");
    let told = String::from_utf8_lossy(&made.stderr);
    assert!(made.status.success(), "the conformance suite could not be installed: {told}");
    PathBuf::from(String::from_utf8_lossy(&made.stdout).trim())
}

/// Runs every scored scenario of a revision; the suite exits with 0 when all that count pass.
fn check(revision: &str) {
    let folder = suite();
    let programs = folder.join("node_modules/.bin");
    let path = format!("{}:{}", programs.display(), std::env::var("PATH").unwrap_or_default());
    let results = tempfile::tempdir().expect("a temporary folder");
    let ran = Command::new(programs.join("node"))
        .arg(folder.join("node_modules/@modelcontextprotocol/conformance/dist/index.js"))
        .args(["client", "--command", env!("CARGO_BIN_EXE_mcp-conformance-client")])
        .args(["--requirements", revision, "--expected-failures"])
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/conformance/expected-failures.yml"))
        .arg("-o")
        .arg(results.path())
        .env("PATH", path)
        .current_dir(results.path())
        .output()
        .expect("node runs");
    let told = format!("{}\n{}", String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
    assert!(ran.status.success(), "the suite for {revision} says:\n{told}");
}

#[test]
fn the_client_conforms_to_2026_07_28() {
    check("2026-07-28");
}

#[test]
fn the_client_conforms_to_2025_11_25() {
    check("2025-11-25");
}

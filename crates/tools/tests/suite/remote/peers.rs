//! The reference servers, as they come from npm, over every transport they have.

use std::{path::PathBuf, process::Stdio, time::Duration};

use emergent_testkit::TestDb;
use serde_json::{Value, json};
use tokio::process::{Child, Command};

use crate::remote::support::{Site, alone};

/// Where the servers are; installed first if they are not there.
fn peers() -> PathBuf {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/mcp-peers");
    let made =
        std::process::Command::new(script).stderr(Stdio::inherit()).output().expect("scripts/mcp-peers runs");
    assert!(made.status.success(), "the reference servers could not be installed: see above");
    PathBuf::from(String::from_utf8(made.stdout).unwrap().trim())
}

fn program(name: &str) -> String {
    peers().join("node_modules/.bin").join(name).to_str().unwrap().to_owned()
}

fn stdio(name: &str, program_name: &str, args: &[&str]) -> Value {
    json!({ "name": name, "transport": "stdio", "command": program(program_name), "args": args })
}

async fn exercise_everything(site: &Site, transport: &str) {
    let sum = site.call("get-sum", json!({ "a": 2, "b": 40 })).await.unwrap();
    assert!(sum.as_str().unwrap().contains("42"), "{transport}: {sum}");
    assert_eq!(site.call("echo", json!({ "message": "hello" })).await, Ok(json!("Echo: hello")));
    let image = site.call("get-tiny-image", json!({})).await.unwrap();
    assert_eq!(image["content"][0]["mimeType"], "image/png", "{image}");
    assert!(image["content"][0]["data"].as_str().unwrap().ends_with("bytes, not shown]"), "{image}");
    let weather = site.call("get-structured-content", json!({ "location": "New York" })).await.unwrap();
    assert!(weather["temperature"].is_number(), "{weather}");
    let links = site.call("get-resource-links", json!({ "count": 2 })).await.unwrap();
    assert_eq!(links["content"].as_array().unwrap().len(), 2, "{links}");
    // The server's own refusal, in its words.
    let refused =
        site.call("get-resource-reference", json!({ "resourceType": "Text", "resourceId": -1 })).await;
    assert!(refused.is_err(), "{refused:?}");
    let long =
        site.call("trigger-long-running-operation", json!({ "duration": 0.4, "steps": 4 })).await.unwrap();
    assert!(long.as_str().unwrap().contains("completed"), "{long}");
    assert!(site.tool("simulate-research-query").await.is_none(), "it can only be called as a task");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_reference_server_is_used_over_stdio() {
    let _alone = alone().await;
    let site = Site::open(TestDb::sqlite().await).await;
    let server = site.add(stdio("everything", "mcp-server-everything", &["stdio"])).await;
    exercise_everything(&site, "stdio").await;
    let env = site.call("get-env", json!({})).await.unwrap();
    let env: Value = serde_json::from_str(env.as_str().unwrap()).unwrap();
    // Without a home, package runners such as npx cannot keep what they download, and without the certificates they may
    // be unable to download anything.
    let given = ["HOME", "PATH", "SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS"];
    let ours = env.as_object().unwrap().keys().filter(|name| !given.contains(&name.as_str()));
    assert_eq!(ours.collect::<Vec<_>>(), Vec::<&String>::new(), "nothing of ours");
    let seen = site.servers.inspect(site.project, server.id).await.unwrap();
    assert_eq!(seen.protocol.as_deref(), Some("2025-11-25"));
    site.close().await;
}

/// The reference server on a port of its own.
async fn listening(transport: &str) -> (Child, u16) {
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let child = Command::new(program("mcp-server-everything"))
        .arg(transport)
        .env("PORT", free.to_string())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    for _ in 0..400 {
        if tokio::net::TcpStream::connect(("127.0.0.1", free)).await.is_ok() {
            return (child, free);
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("the reference server does not listen");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_reference_server_is_used_over_streamable_http() {
    let _alone = alone().await;
    let site = Site::open(TestDb::sqlite().await).await;
    let (mut child, port) = listening("streamableHttp").await;
    let url = format!("http://127.0.0.1:{port}/mcp");
    site.add(json!({ "name": "everything", "transport": "http", "url": url })).await;
    exercise_everything(&site, "http").await;
    // Stopped and started, it knows no session any more.
    child.kill().await.unwrap();
    assert!(site.call("echo", json!({ "message": "hello" })).await.is_err());
    site.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_reference_server_is_used_over_sse() {
    let _alone = alone().await;
    let site = Site::open(TestDb::sqlite().await).await;
    let (mut child, port) = listening("sse").await;
    let url = format!("http://127.0.0.1:{port}/sse");
    let server = site.add(json!({ "name": "everything", "transport": "sse", "url": url })).await;
    exercise_everything(&site, "sse").await;
    // Whoever calls it `http` gets there as well.
    site.servers.delete(site.project, server.id).await.unwrap();
    site.add(json!({ "name": "guessed", "transport": "http", "url": url })).await;
    assert_eq!(site.call("echo", json!({ "message": "hello" })).await, Ok(json!("Echo: hello")));
    child.kill().await.unwrap();
    assert!(site.call("echo", json!({ "message": "hello" })).await.is_err());
    site.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_memory_and_filesystem_servers_are_used_together() {
    let _alone = alone().await;
    let site = Site::open(TestDb::sqlite().await).await;
    let folder = site.file("files");
    std::fs::create_dir(&folder).unwrap();
    let folder = folder.canonicalize().unwrap();
    std::fs::write(folder.join("a.txt"), "in the file").unwrap();
    let mut memory = stdio("memory", "mcp-server-memory", &[]);
    memory["env"] = json!({ "MEMORY_FILE_PATH": site.file("memory.jsonl").to_str().unwrap() });
    site.add(memory).await;
    site.add(stdio("files", "mcp-server-filesystem", &[folder.to_str().unwrap()])).await;
    let read = site.call("read_text_file", json!({ "path": folder.join("a.txt") })).await.unwrap();
    assert!(read.to_string().contains("in the file"), "{read}");
    let outside = site.call("read_text_file", json!({ "path": "/etc/hostname" })).await.unwrap_err();
    assert!(outside.contains("Access denied"), "{outside}");
    let ada = json!({ "name": "Ada", "entityType": "person", "observations": ["wrote the first program"] });
    // A built-in is also called so; the server's is told apart.
    site.call("memory.create_entities", json!({ "entities": [ada] })).await.unwrap();
    let found = site.call("search_nodes", json!({ "query": "Ada" })).await.unwrap();
    assert!(found.to_string().contains("wrote the first program"), "{found}");
    site.close().await;
}

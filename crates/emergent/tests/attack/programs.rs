//! Programs: who may have the server run one, and what a program that runs can reach.

use serde_json::json;

use crate::{
    common::{Home, TOKEN},
    project_token, stdio_server,
};

const ADMIN: &[&str] = &["admin:read", "admin:write"];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_of_one_project_cannot_run_a_program() {
    let home = Home::sqlite();
    let server = home.start().await;
    let attacker = project_token(&server, "attacked", ADMIN).await;
    let shell = stdio_server("sh", &["-c", "cat data/admin-token"]);
    let refused = attacker.post("/api/admin/mcp-servers", &shell).await;
    assert_eq!((refused.status, refused.code()), (403, "program_not_allowed"));
    assert!(refused.body["error"]["message"].as_str().unwrap().contains("EMERGENT_STDIO_PROGRAMS"));

    // By the way of an address: first a server over HTTP, then a program in its place.
    let remote = json!({ "name": "remote", "transport": "http", "url": "https://mcp.example.com/" });
    let id = attacker.post("/api/admin/mcp-servers", &remote).await.data()["id"].as_str().unwrap().to_owned();
    let path = format!("/api/admin/mcp-servers/{id}");
    let change = json!({ "transport": "stdio", "command": "sh", "url": null });
    assert_eq!(attacker.patch(&path, &change).await.status, 403);

    // By the way of a product.
    let manifest = json!({ "name": "evil.product", "version": "1.0.0", "mcp": { "servers": [shell] } });
    let refused = attacker.post("/api/products/install", &json!({ "manifest": manifest })).await;
    assert_eq!((refused.status, refused.code()), (403, "program_not_allowed"));
    let look = json!({ "manifest": manifest, "dryRun": true });
    let plan = attacker.post("/api/products/install", &look).await.data().to_string();
    assert!(plan.contains("sh -c") && plan.contains("EMERGENT_STDIO_PROGRAMS"), "{plan}");
    assert_eq!(attacker.get("/api/products").await.data(), json!([]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_program_of_the_operator_cannot_be_changed_by_a_project() {
    let home = Home::sqlite();
    let server = home.start().await;
    let attacker = project_token(&server, "attacked", ADMIN).await;
    let operator = server.api.in_project("attacked");
    let helper = stdio_server("cat", &[]);
    let id = operator.post("/api/admin/mcp-servers", &helper).await.data()["id"].as_str().unwrap().to_owned();
    let path = format!("/api/admin/mcp-servers/{id}");
    for change in [
        json!({ "args": ["/etc/passwd"] }),
        json!({ "command": "sh" }),
        json!({ "env": { "LD_PRELOAD": "/tmp/evil.so" } }),
    ] {
        let refused = attacker.patch(&path, &change).await;
        assert_eq!((refused.status, refused.code()), (403, "program_not_allowed"), "{change}");
    }
    assert_eq!(attacker.patch(&path, &json!({ "enabled": false })).await.status, 200);
    assert_eq!(attacker.patch(&path, &json!({ "enabled": true })).await.status, 403);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_operator_can_admit_programs_for_projects() {
    let home = Home::sqlite().with("EMERGENT_STDIO_PROGRAMS", "TOKEN=* cat notes-*; true");
    let server = home.start().await;
    let admin = project_token(&server, "trusted", ADMIN).await;
    let add = async |name: &str, command: &str, args: &[&str], env: serde_json::Value| {
        let mut body = stdio_server(command, args);
        (body["name"], body["env"]) = (json!(name), env);
        admin.post("/api/admin/mcp-servers", &body).await.status
    };
    assert_eq!(add("one", "cat", &["notes-1"], json!({})).await, 201);
    assert_eq!(add("two", "cat", &["notes-1"], json!({ "TOKEN": "${TOKEN}" })).await, 201);
    assert_eq!(add("three", "cat", &["notes-1", "/etc/passwd"], json!({})).await, 403);
    assert_eq!(add("four", "cat", &["notes-1"], json!({ "LD_PRELOAD": "x" })).await, 403);
    assert_eq!(add("five", "sh", &[], json!({})).await, 403);
}

#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_program_reads_neither_the_data_folder_nor_the_servers_environment() {
    let home = Home::sqlite().with("GEMINI_API_KEY", "key-of-the-operator");
    let out = home.folder().join("out");
    std::fs::create_dir(&out).unwrap();
    let server = home.start().await;
    let script = format!(
        "cd '{}'; cat ../data/* ../data/emergent.db > data-folder 2>&1; cat /proc/$PPID/environ > environment \
         2>&1; tr '\\0' '\\n' < /proc/self/environ > own; ulimit -n > files; echo done > done",
        out.display()
    );
    let body = stdio_server("sh", &["-c", &script]);
    let id = server.api.post("/api/admin/mcp-servers", &body).await.data()["id"].as_str().unwrap().to_owned();
    server.api.post(&format!("/api/admin/mcp-servers/{id}/inspect"), &json!({})).await.data();
    let read = |name: &str| std::fs::read_to_string(out.join(name)).unwrap_or_default();
    assert_eq!(read("done").trim(), "done", "the program ran, and could write beside the data folder");
    let data = read("data-folder");
    assert!(!data.contains("SQLite format") && data.contains("ermission denied"), "{data}");
    assert!(!read("environment").contains("key-of-the-operator"), "{}", read("environment"));
    let own = read("own");
    assert!(!own.contains("GEMINI") && !own.contains(TOKEN), "{own}");
    assert!(read("files").trim().parse::<u32>().unwrap() <= 4_096);
}

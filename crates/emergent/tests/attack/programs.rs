//! Programs: who may have the server run one, and what a program that runs can reach.

use serde_json::json;

use crate::{
    common::{Home, TOKEN, eventually},
    project_token, stdio_server,
};

const ADMIN: &[&str] = &["admin:read", "admin:write"];

async fn run_a_program(home: Home) {
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

async fn change_a_program(home: Home) {
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
    for change in [json!({ "trust": true }), json!({ "pinPolicy": "off" })] {
        let refused = attacker.patch(&path, &change).await;
        assert_eq!((refused.status, refused.code()), (403, "program_not_allowed"), "{change}");
    }
    assert_eq!(attacker.patch(&path, &json!({ "enabled": false })).await.status, 200);
    assert_eq!(attacker.patch(&path, &json!({ "enabled": true })).await.status, 403);
}

async fn admit_programs(home: Home) {
    let home = home.with("EMERGENT_STDIO_PROGRAMS", "TOKEN=* cat notes-*; true");
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
    let mut with_variable = stdio_server("cat", &["notes-1"]);
    with_variable["env"] = json!({ "TOKEN": "${TOKEN}", "TZ": "UTC" });
    let refused = admin.post("/api/admin/mcp-servers", &with_variable).await;
    let told = refused.body["error"]["message"].as_str().unwrap();
    assert!(told.contains("variable `TZ` is not") && told.contains("`TOKEN=* TZ=* cat notes-1`"), "{told}");
}

#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_program_reads_neither_the_data_folder_nor_the_servers_environment_and_credentials() {
    let home = Home::sqlite().with("GEMINI_API_KEY", "key-of-the-operator");
    let (out, keys) = (home.folder().join("out"), home.folder().join("keys"));
    std::fs::create_dir(&out).unwrap();
    std::fs::create_dir(&keys).unwrap();
    std::fs::write(home.folder().join("emergent.toml"), "# key-of-the-operator\nmax-runs = 9\n").unwrap();
    let google = json!({ "type": "authorized_user", "client_id": "a", "client_secret": "key-of-the-operator",
                         "refresh_token": "b" });
    std::fs::write(keys.join("google.json"), google.to_string()).unwrap();
    std::fs::write(keys.join("public.pem"), "for everybody").unwrap();
    let home = home.with("GOOGLE_APPLICATION_CREDENTIALS", keys.join("google.json").to_str().unwrap());
    let server = home.start().await;
    let script = format!(
        "cd '{}'; cat ../data/* ../data/emergent.db > data-folder 2>&1; cat ../emergent.toml > settings 2>&1; \
         cat ../keys/google.json > google 2>&1; cat ../keys/public.pem > public 2>&1; cat /proc/{}/environ \
         /proc/$PPID/environ > environment 2>&1; tr '\\0' '\\n' < /proc/self/environ > own; ulimit -n > files; echo done > done",
        out.display(),
        server.launched.id()
    );
    let body = stdio_server("sh", &["-c", &script]);
    let id = server.api.post("/api/admin/mcp-servers", &body).await.data()["id"].as_str().unwrap().to_owned();
    server.api.post(&format!("/api/admin/mcp-servers/{id}/inspect"), &json!({})).await.data();
    let read = |name: &str| std::fs::read_to_string(out.join(name)).unwrap_or_default();
    assert_eq!(read("done").trim(), "done", "the program ran, and could write beside the data folder");
    let data = read("data-folder");
    assert!(!data.contains("SQLite format") && data.contains("ermission denied"), "{data}");
    for name in ["settings", "google"] {
        assert!(read(name).contains("ermission denied"), "{name}: {}", read(name));
    }
    assert_eq!(read("public"), "for everybody", "what is beside a hidden file can be read");
    assert!(!read("environment").contains("key-of-the-operator"), "{}", read("environment"));
    let own = read("own");
    assert!(!own.contains("GEMINI") && !own.contains(TOKEN), "{own}");
    assert!(read("files").trim().parse::<u32>().unwrap() <= 4_096);
}

#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_program_moves_files_between_folders_but_none_out_of_the_data_folder() {
    let home = Home::sqlite();
    let out = home.folder().join("out");
    for folder in ["from", "to"] {
        std::fs::create_dir_all(out.join(folder)).unwrap();
    }
    let server = home.start().await;
    // `mv` copies where the kernel refuses to rename, and so the number of the file tells which of them it did.
    let script = format!(
        "cd '{}'; number() {{ ls -i \"$1\" | cut -d' ' -f1; }}; \
         move() {{ echo x > \"$1\"; before=$(number \"$1\"); mv \"$1\" \"$2\"; [ \"$(number \"$2\")\" = \"$before\" ] && echo \
         renamed; }}; \
         cache=$UV_CACHE_DIR; mkdir -p \"$cache/tmp\" \"$cache/archive\"; \
         move \"$cache/tmp/a\" \"$cache/archive/a\" > cache 2>&1; move from/a to/a > beside 2>&1; \
         (ln ../data/emergent.db linked; ln ../data/emergent.db \"$cache/linked\"; mv ../data/emergent.db moved; ln to/a \
         ../data/new; mv to/a ../data/new) > hidden 2>&1; ls linked \"$cache/linked\" moved ../data/new > found 2> missing; \
         echo done > done",
        out.display(),
    );
    let body = stdio_server("sh", &["-c", &script]);
    let id = server.api.post("/api/admin/mcp-servers", &body).await.data()["id"].as_str().unwrap().to_owned();
    server.api.post(&format!("/api/admin/mcp-servers/{id}/inspect"), &json!({})).await.data();
    let read = |name: &str| std::fs::read_to_string(out.join(name)).unwrap_or_default();
    assert_eq!(read("done").trim(), "done", "the program ran");
    for name in ["cache", "beside"] {
        assert_eq!(read(name).trim(), "renamed", "{name}");
    }
    assert_eq!(read("found"), "", "{}", read("hidden"));
    assert!(out.join("../data/emergent.db").is_file(), "it is where it was");
}

/// A script that starts a process in its own session, whose parent ends at once. The process writes to `beat`
/// as long as it lives, ignores what it can ignore, and would go on for a minute.
#[cfg(target_os = "linux")]
fn daemon(folder: &std::path::Path) -> String {
    format!(
        "cd '{}'; (setsid sh -c 'trap \"\" TERM HUP INT; i=0; while [ $i -lt 1200 ]; do i=$((i+1)); echo $i > beat; \
         sleep 0.05; done' </dev/null >/dev/null 2>&1 &); while [ ! -s beat ]; do sleep 0.01; done",
        folder.display()
    )
}

/// Waits until nothing writes to `beat` any more.
#[cfg(target_os = "linux")]
async fn assert_daemon_ends(folder: &std::path::Path) {
    let beat = || std::fs::read_to_string(folder.join("beat")).unwrap_or_default();
    assert!(!beat().is_empty(), "it ran");
    let started = std::time::Instant::now();
    loop {
        let before = beat();
        tokio::time::sleep(std::time::Duration::from_millis(400)).await;
        if beat() == before {
            return;
        }
        assert!(started.elapsed() < std::time::Duration::from_secs(8), "it lives on: {before}");
    }
}

#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_daemon_of_a_program_ends_with_the_program() {
    let home = Home::sqlite();
    let out = home.folder().join("out");
    std::fs::create_dir(&out).unwrap();
    let server = home.start().await;
    let body = stdio_server("sh", &["-c", &daemon(&out)]);
    let id = server.api.post("/api/admin/mcp-servers", &body).await.data()["id"].as_str().unwrap().to_owned();
    server.api.post(&format!("/api/admin/mcp-servers/{id}/inspect"), &json!({})).await.data();
    assert_daemon_ends(&out).await;
    assert_eq!(server.api.get("/health").await.status, 200);
}

#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_daemon_of_a_program_ends_when_the_server_is_killed() {
    let home = Home::sqlite();
    let out = home.folder().join("out");
    std::fs::create_dir(&out).unwrap();
    let server = home.start().await;
    let body = stdio_server("sh", &["-c", &format!("{}; sleep 60", daemon(&out))]);
    let id = server.api.post("/api/admin/mcp-servers", &body).await.data()["id"].as_str().unwrap().to_owned();
    let api = server.api.clone();
    let path = format!("/api/admin/mcp-servers/{id}/inspect");
    let inspecting =
        tokio::spawn(async move { api.send(reqwest::Method::POST, &path, Some(&json!({}))).await });
    let has_started = async || std::fs::read_to_string(out.join("beat")).is_ok_and(|beat| !beat.is_empty());
    eventually("the daemon runs", std::time::Duration::from_secs(10), has_started).await;
    server.kill();
    assert_daemon_ends(&out).await;
    let _ = inspecting.await;
}

#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_program_cannot_kill_the_server_or_its_supervisor() {
    let home = Home::sqlite();
    let out = home.folder().join("out");
    std::fs::create_dir(&out).unwrap();
    let server = home.start().await;
    let script = format!(
        "cd '{}'; sleep 60 & kill -0 $! && echo own > own; kill $!; (kill -0 {pid} && echo allowed || echo denied) > probe; \
         [ $(cat probe) = allowed ] || {{ kill -9 {pid}; kill -9 $PPID; }}; echo done > done",
        out.display(),
        pid = server.launched.id()
    );
    let body = stdio_server("sh", &["-c", &script]);
    let id = server.api.post("/api/admin/mcp-servers", &body).await.data()["id"].as_str().unwrap().to_owned();
    server.api.post(&format!("/api/admin/mcp-servers/{id}/inspect"), &json!({})).await.data();
    let read = |name: &str| std::fs::read_to_string(out.join(name)).unwrap_or_default();
    if read("probe").trim() == "allowed" {
        eprintln!("this kernel cannot restrict signals: nothing to test");
        return;
    }
    assert_eq!(read("done").trim(), "done", "the supervisor was not killed, and so neither was the program");
    assert_eq!(read("own").trim(), "own", "it may signal what it started");
    assert_eq!(server.api.get("/health").await.status, 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_of_one_project_cannot_run_a_program() {
    run_a_program(Home::sqlite()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_of_one_project_cannot_run_a_program_on_postgres() {
    run_a_program(Home::postgres().await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_program_of_the_operator_cannot_be_changed_by_a_project() {
    change_a_program(Home::sqlite()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_program_of_the_operator_cannot_be_changed_by_a_project_on_postgres() {
    change_a_program(Home::postgres().await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_operator_can_admit_programs_for_projects() {
    admit_programs(Home::sqlite()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_operator_can_admit_programs_for_projects_on_postgres() {
    admit_programs(Home::postgres().await).await;
}

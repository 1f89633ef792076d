//! Who may do what: an agent does not widen its maker, and nobody sees or rewrites what is not theirs.

use serde_json::{Value, json};

use crate::{
    common::{Home, Server},
    project_token,
};

const AGENTS: &str = "/api/admin/agents";

async fn widen(home: Home) {
    let server = home.start().await;
    let attacker = project_token(&server, "attacked", &["agents:write", "agents:read", "graph:read"]).await;
    let nightly = |tools: Value| json!({ "name": "nightly", "tools": tools, "trigger": "* * * * *" });
    for (body, scope) in [
        (nightly(json!(["entities_create"])), "graph:write"),
        (nightly(json!(["create_entity"])), "graph:write"),
        (nightly(json!(["*"])), "agents:invoke"),
        (nightly(json!(["entities_get"])), "agents:invoke"),
        (json!({ "name": "lead", "tools": ["spawn_agents"] }), "agents:invoke"),
        (json!({ "name": "outside", "tools": ["web.*"] }), "agents:invoke"),
    ] {
        let refused = attacker.post(AGENTS, &body).await;
        assert_eq!((refused.status, refused.code()), (403, "missing_scope"), "{body}");
        let named = refused.body["error"]["details"]["scope"].as_str().unwrap_or_default();
        // A pattern names the first of the scopes that it needs.
        assert!(named == scope || body["tools"] == json!(["*"]), "{body}: {named}");
    }
    assert_eq!(attacker.get(AGENTS).await.data(), json!([]));

    // By the way of the agent of an admin, which may write.
    let operator = server.api.in_project("attacked");
    let strong = json!({ "name": "strong", "tools": ["entities_create"] });
    let id = operator.post(AGENTS, &strong).await.data()["id"].as_str().unwrap().to_owned();
    let change = json!({ "systemPrompt": "Write what I say.", "trigger": "* * * * *" });
    let refused = attacker.patch(&format!("{AGENTS}/{id}"), &change).await;
    assert_eq!((refused.status, refused.code()), (403, "missing_scope"));
    // What it could do counts, although the attacker takes it away.
    let disarmed = json!({ "systemPrompt": "Approve everything.", "tools": [] });
    let refused = attacker.patch(&format!("{AGENTS}/{id}"), &disarmed).await;
    assert_eq!((refused.status, refused.code()), (403, "missing_scope"), "{}", refused.body);
    let refused = attacker.delete(&format!("{AGENTS}/{id}")).await;
    assert_eq!((refused.status, refused.code()), (403, "missing_scope"), "{}", refused.body);
    assert_eq!(operator.get(&format!("{AGENTS}/{id}")).await.data()["version"], 1);

    // By the way of a workflow, which starts the agent at a time or an event.
    let dispatch =
        json!({ "tasks": [{ "key": "t", "title": "Write what I say.", "assignedAgent": "strong" }] });
    for trigger in ["* * * * *", "on_entity_created"] {
        let body = json!({ "trigger": trigger, "dispatch": dispatch });
        let refused = attacker.put("/api/admin/triggers/nightly", &body).await;
        assert_eq!((refused.status, refused.code()), (403, "missing_scope"), "{}", refused.body);
        assert_eq!(refused.body["error"]["details"]["scope"], "agents:invoke");
    }
    let saved = operator.get("/api/admin/triggers").await.data();
    assert_eq!(saved, json!({ "schedules": [], "events": [] }));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_maker_of_agents_cannot_write_with_one_on_sqlite() {
    widen(Home::sqlite()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_maker_of_agents_cannot_write_with_one_on_postgres() {
    widen(Home::postgres().await).await;
}

async fn start_an_internal_agent(home: Home) {
    let server = home.start().await;
    let attacker = project_token(&server, "attacked", &["agents:invoke", "agents:read", "graph:read"]).await;
    let operator = server.api.in_project("attacked");
    for config in [json!({}), json!({ "dispatchable": true })] {
        let name = format!("inside-{}", config["dispatchable"].is_boolean());
        let body = json!({ "name": name, "visibility": "internal", "config": config });
        assert_eq!(operator.post(AGENTS, &body).await.status, 201);
        let tasks = json!({ "tasks": [{ "key": "t", "title": "Do it", "assignedAgent": name }] });
        let refused = attacker.post("/api/coordination/dispatch", &tasks).await;
        assert_eq!((refused.status, refused.code()), (400, "invalid"), "{}", refused.body);
        assert!(refused.body.to_string().contains("internal"), "{}", refused.body);
        let planner = json!({ "description": "Do it", "planner": name });
        assert_eq!(attacker.post("/api/coordination/dispatch", &planner).await.status, 400);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_workflow_does_not_start_an_internal_agent() {
    start_an_internal_agent(Home::sqlite()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_workflow_does_not_start_an_internal_agent_on_postgres() {
    start_an_internal_agent(Home::postgres().await).await;
}

async fn read_metrics_and_audit(home: Home) {
    let server = home.start().await;
    let attacker = project_token(&server, "attacked", &["admin:read"]).await;
    let other = server.api.post("/api/projects", &json!({ "name": "unrelated" })).await;
    let unrelated = server.api.in_project("unrelated");
    assert_eq!(unrelated.post(AGENTS, &json!({ "name": "confidential" })).await.status, 201);
    let answer = attacker.request(reqwest::Method::GET, "/metrics").send().await.unwrap();
    let figures = answer.text().await.unwrap();
    assert!(figures.contains("emergent_runs_queued{project="), "{figures}");
    for line in figures.lines().filter(|line| !line.starts_with('#')) {
        assert!(line.contains("project="), "{line}");
    }
    let id = other.data()["id"].as_str().unwrap().to_owned();
    let log = attacker.get("/api/admin/audit").await;
    assert_eq!(log.status, 200);
    let log = log.data().to_string();
    assert!(log.contains("token.create") && !log.contains(&id) && !log.contains("confidential"), "{log}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_of_one_project_learns_nothing_of_others_from_metrics_and_audit() {
    read_metrics_and_audit(Home::sqlite()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_of_one_project_learns_nothing_of_others_from_metrics_and_audit_on_postgres() {
    read_metrics_and_audit(Home::postgres().await).await;
}

/// The entry of a token, as the log tells it.
async fn told(server: &Server, name: &str) -> Value {
    let log = server.api.get("/api/admin/audit?action=token.create").await.data();
    log.as_array().unwrap().iter().find(|entry| entry["target"]["name"] == name).cloned().unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_rewrites_the_audit_log_of_sqlite() {
    let home = Home::sqlite();
    let server = home.start().await;
    project_token(&server, "attacked", &["admin:read", "admin:write"]).await;
    let entry = told(&server, "attacker").await;
    assert_eq!(
        (&entry["address"], &entry["token"]["name"]),
        (&json!("127.0.0.1"), &json!("admin")),
        "{entry}"
    );
    let conn = rusqlite::Connection::open(home.data().join("emergent.db")).unwrap();
    conn.busy_timeout(std::time::Duration::from_secs(5)).unwrap();
    for sql in [
        "UPDATE audit_log SET token_name = 'somebody else'",
        "DELETE FROM audit_log",
        "INSERT OR REPLACE INTO audit_log SELECT * FROM audit_log",
    ] {
        let refused = conn.execute(sql, []).unwrap_err().to_string();
        assert!(refused.contains("append-only"), "{refused}");
    }
    assert_eq!(told(&server, "attacker").await, entry);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_rewrites_the_audit_log_of_postgres() {
    let home = Home::postgres().await;
    let server = home.start().await;
    project_token(&server, "attacked", &["admin:read", "admin:write"]).await;
    let entry = told(&server, "attacker").await;
    let url = home.postgres.clone().expect("a database");
    let (client, connection) = tokio_postgres::connect(&url, tokio_postgres::NoTls).await.unwrap();
    let connection = tokio::spawn(connection);
    for sql in [
        "UPDATE kb.audit_log SET token_name = 'somebody else'",
        "DELETE FROM kb.audit_log",
        "TRUNCATE kb.audit_log",
    ] {
        let refused = client.execute(sql, &[]).await.unwrap_err();
        let message = refused.as_db_error().expect("the database refuses").message().to_owned();
        assert!(message.contains("append-only"), "{message}");
    }
    assert_eq!(told(&server, "attacker").await, entry);
    drop(client);
    connection.abort();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_revoked_admin_token_stays_revoked_and_the_operator_is_not_locked_out() {
    let home = Home::sqlite();
    let server = home.start().await;
    let tokens = server.api.get("/api/tokens").await.data();
    let admin = tokens[0]["id"].as_str().unwrap().to_owned();
    assert_eq!(
        server
            .api
            .request(reqwest::Method::DELETE, &format!("/api/tokens/{admin}"))
            .send()
            .await
            .unwrap()
            .status(),
        200
    );
    server.kill();

    let server = home.start().await;
    assert_eq!(server.api.get("/api/projects").await.status, 401, "the secret that leaked is of no use");
    let log = server.launched.log();
    assert!(log.contains("was revoked") && log.contains("EMERGENT_ADMIN_TOKEN"), "{log}");
    server.kill();

    let created =
        home.run(&["token", "create", "new", "--scopes", "admin:read,admin:write", "--all-projects"]);
    assert!(created.status.success(), "{created:?}");
    let secret = String::from_utf8(created.stdout).unwrap().trim().to_owned();
    let log = home.run(&["audit", "--json", "--action", "token"]);
    let log: Value = serde_json::from_slice(&log.stdout).expect("JSON");
    let entry = log.as_array().unwrap().iter().find(|entry| entry["target"]["name"] == "new").unwrap();
    assert_eq!((&entry["token"]["name"], entry.get("address")), (&json!("local operator"), None));
    let listed = crate::common::json_of(home.run(&["token", "list", "--json"]));
    let left = listed.as_array().unwrap().iter().filter(|token| token["name"] == "local operator");
    // The command that lists them has one itself.
    let valid: Vec<_> = left.filter(|token| token["revokedAt"].is_null()).collect();
    assert_eq!(valid.len(), 1, "those of the other commands ended with them: {listed}");
    let server = home.start().await;
    assert_eq!(crate::common::Api::new(server.url(), &secret).get("/api/tokens").await.status, 200);
}

//! What migrations do with rows of earlier versions.

use super::*;

/// A database with all migrations before a version.
fn database_before(version: i64) -> rusqlite::Connection {
    let conn = rusqlite::Connection::open_in_memory().unwrap();
    for migration in MIGRATIONS.iter().filter(|migration| migration.version < version) {
        conn.execute_batch(&migration.sql(Engine::Sqlite)).unwrap();
    }
    conn
}

fn migrate(conn: &rusqlite::Connection, version: i64) {
    let migration = MIGRATIONS.iter().find(|migration| migration.version == version).unwrap();
    conn.execute_batch(&migration.sql(Engine::Sqlite)).unwrap();
}

#[test]
fn earlier_assignments_get_the_product_of_their_pack_or_of_their_time() {
    let conn = database_before(4);
    conn.execute_batch(
        "INSERT INTO template_packs (id, project_id, name, version, pack, created_at, product) VALUES
             (1, 7, 'brought', '1.0.0', '{}', 10, 'p'), (2, 7, 'own', '1.0.0', '{}', 10, NULL),
             (3, NULL, 'builtin', '1.0.0', '{}', 1, NULL);
         INSERT INTO installed_products (id, project_id, name, version, manifest, source, revision, installed_at, updated_at)
             VALUES (1, 7, 'p', '1.0.0', '{}', '{}', 2, 20, 30), (2, 8, 'q', '1.0.0', '{}', '{}', 1, 40, 40);
         INSERT INTO project_template_packs (project_id, pack_id, assigned_at) VALUES
             (7, 1, 15), (7, 2, 40), (7, 3, 30), (8, 3, 41);",
    )
    .unwrap();
    migrate(&conn, 4);
    let mut statement = conn
        .prepare("SELECT project_id, pack_id, product FROM project_template_packs ORDER BY 1, 2")
        .unwrap();
    let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?))).unwrap();
    let assignments: Vec<(i64, i64, Option<String>)> = rows.map(Result::unwrap).collect();
    let p = Some("p".to_owned());
    assert_eq!(assignments, [(7, 1, p.clone()), (7, 2, None), (7, 3, p), (8, 3, None)]);
}

#[test]
fn only_a_token_with_every_scope_may_decide_approvals_after_an_upgrade() {
    let conn = database_before(21);
    let all = r#"["graph:read","graph:write","agents:read","agents:write","agents:invoke","chat:use","admin:read","admin:write"]"#;
    let insert = "INSERT INTO tokens (id, name, hash, scopes, created_at) VALUES (?1, 't', ?1, ?2, 1)";
    conn.execute(insert, (1, all)).unwrap();
    conn.execute(insert, (2, r#"["admin:write"]"#)).unwrap();
    migrate(&conn, 21);
    let mut statement = conn.prepare("SELECT scopes FROM tokens ORDER BY id").unwrap();
    let rows = statement.query_map([], |row| row.get::<_, String>(0)).unwrap();
    let scopes: Vec<serde_json::Value> =
        rows.map(|row| serde_json::from_str(&row.unwrap()).unwrap()).collect();
    assert_eq!(scopes[0].as_array().unwrap().last().unwrap(), "approvals:decide");
    assert_eq!(scopes[0].as_array().unwrap().len(), 9);
    assert_eq!(scopes[1], serde_json::json!(["admin:write"]));
}

#[test]
fn tools_of_earlier_versions_are_accepted_and_unpinned_servers_are_trusted() {
    let conn = database_before(7);
    conn.execute_batch(
        "INSERT INTO project_mcp_servers (id, project_id, name, description, transport, config, tool_filter,
             pin_policy, timeout_seconds, enabled, version, listed_at, created_at, updated_at) VALUES
             (1, 7, 'listed', '', 'http', '{}', '[]', 'pin', 60, 1, 1, 20, 10, 10),
             (2, 7, 'new', '', 'http', '{}', '[]', 'off', 60, 1, 1, NULL, 10, 10);
         INSERT INTO mcp_server_tools (server_id, name, tool, digest, pinned_digest, pinned_tool, status, first_seen)
             VALUES (1, 'a', '{}', 'x', 'x', '{}', 'live', 20);",
    )
    .unwrap();
    migrate(&conn, 7);
    let mut statement =
        conn.prepare("SELECT tools_accepted_at, trust FROM project_mcp_servers ORDER BY id").unwrap();
    let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
    let servers: Vec<(Option<i64>, bool)> = rows.map(Result::unwrap).collect();
    assert_eq!(servers, [(Some(20), false), (None, true)]);
    let accepted: Option<i64> =
        conn.query_row("SELECT accepted_at FROM mcp_server_tools", [], |row| row.get(0)).unwrap();
    assert_eq!(accepted, Some(20));
}

#[test]
fn earlier_servers_count_as_configured_by_an_operator_and_may_use_their_secrets() {
    let conn = database_before(8);
    conn.execute_batch(
        "INSERT INTO project_mcp_servers (id, project_id, name, description, transport, config, tool_filter,
             pin_policy, timeout_seconds, enabled, version, created_at, updated_at)
         VALUES (1, 7, 'a', '', 'http', '{}', '[]', 'pin', 60, 1, 3, 10, 10);",
    )
    .unwrap();
    migrate(&conn, 8);
    let read = "SELECT configured_by, unbound_version FROM project_mcp_servers";
    let found: (Option<i64>, i64) = conn.query_row(read, [], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
    assert_eq!(found, (None, 3));
}

#[test]
fn bindings_to_an_origin_count_for_servers_as_they_are() {
    let conn = database_before(14);
    conn.execute_batch(
        "INSERT INTO project_mcp_servers (id, project_id, name, description, transport, config, tool_filter,
             pin_policy, timeout_seconds, enabled, version, created_at, updated_at)
         VALUES (1, 7, 'a', '', 'http', '{}', '[]', 'pin', 60, 1, 3, 10, 10),
                (2, 7, 'b', '', 'stdio', '{}', '[]', 'pin', 60, 1, 3, 10, 10);",
    )
    .unwrap();
    migrate(&conn, 14);
    let read = "SELECT origin_bound_version FROM project_mcp_servers ORDER BY id";
    let mut statement = conn.prepare(read).unwrap();
    let rows = statement.query_map([], |row| row.get(0)).unwrap();
    assert_eq!(rows.map(Result::unwrap).collect::<Vec<Option<i64>>>(), [Some(3), None]);
}

#[test]
fn bindings_to_an_address_count_for_servers_as_they_are() {
    let conn = database_before(25);
    conn.execute_batch(
        "INSERT INTO project_mcp_servers (id, project_id, name, description, transport, config, tool_filter,
             pin_policy, timeout_seconds, enabled, version, created_at, updated_at)
         VALUES (1, 7, 'a', '', 'sse', '{}', '[]', 'pin', 60, 1, 3, 10, 10),
                (2, 7, 'b', '', 'stdio', '{}', '[]', 'pin', 60, 1, 3, 10, 10);",
    )
    .unwrap();
    migrate(&conn, 25);
    let read = "SELECT address_bound_version FROM project_mcp_servers ORDER BY id";
    let mut statement = conn.prepare(read).unwrap();
    let rows = statement.query_map([], |row| row.get(0)).unwrap();
    assert_eq!(rows.map(Result::unwrap).collect::<Vec<Option<i64>>>(), [Some(3), None]);
}

#[test]
fn requests_of_earlier_versions_keep_a_title_in_events() {
    let conn = database_before(35);
    let insert =
        "INSERT INTO approvals (id, project_id, kind, run_id, tool_call_id, agent_id, agent_name, tool_name,
            input, digest, question, status, on_expiry, is_overdue, created_at)
        VALUES (?1, 7, ?2, 3, ?1, 4, 'a', 'entities_delete', '{}', 'd', ?3, 'pending', 'deny', 0, 10)";
    conn.execute(insert, (1, "approval", None::<&str>)).unwrap();
    migrate(&conn, 35);
    // A server of the version before, which knows no titles, goes on writing.
    conn.execute(insert, (2, "question", Some(r#"{ "text": "Which?" }"#))).unwrap();
    conn.execute_batch(
        "UPDATE approvals SET status = 'decided';
         INSERT INTO approvals (id, project_id, kind, run_id, tool_call_id, agent_id, agent_name, tool_name, input,
             digest, status, on_expiry, is_overdue, created_at, title)
         VALUES (5, 7, 'approval', 3, 5, 4, 'a', 'entities_delete', '{}', 'd', 'pending', 'deny', 0, 10,
             'entities_delete Note/n');",
    )
    .unwrap();
    let mut statement =
        conn.prepare("SELECT subject_id, status, title FROM project_events ORDER BY seq").unwrap();
    let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?))).unwrap();
    let events: Vec<(i64, String, String)> = rows.map(Result::unwrap).collect();
    let told: Vec<(i64, &str, &str)> =
        events.iter().map(|(id, status, title)| (*id, status.as_str(), title.as_str())).collect();
    assert_eq!(
        told,
        [
            (1, "pending", "entities_delete"),
            (2, "pending", "Which?"),
            (1, "decided", "entities_delete"),
            (2, "decided", "Which?"),
            (5, "pending", "entities_delete Note/n"),
        ]
    );
}

#[test]
fn workflows_that_wait_for_a_discussion_have_no_item_of_their_own_after_an_upgrade() {
    let conn = database_before(44);
    conn.execute_batch(
        r#"INSERT INTO workflows (id, project_id, description, status, settings, escalation, plan_attempts, revision,
             event_seq, created_at, updated_at) VALUES
             (1, 7, 'w', 'escalated', '{}', '{"reason":"r","discussion":"d","options":[],"at":1}', 0, 0, 0, 1, 1),
             (2, 7, 'w', 'escalated', '{}', '{"reason":"r","options":[],"at":1}', 0, 0, 0, 1, 1);
         INSERT INTO inbox_items (id, project_id, kind, title, status, created_at) VALUES
             (1, 7, 'escalation', 'r', 'pending', 1), (2, 7, 'escalation', 'r', 'pending', 1),
             (3, 7, 'discussion', 't', 'pending', 1);"#,
    )
    .unwrap();
    migrate(&conn, 44);
    let mut statement = conn.prepare("SELECT status FROM inbox_items ORDER BY id").unwrap();
    let rows = statement.query_map([], |row| row.get(0)).unwrap();
    let statuses: Vec<String> = rows.map(Result::unwrap).collect();
    assert_eq!(statuses, ["withdrawn", "pending", "pending"]);
}

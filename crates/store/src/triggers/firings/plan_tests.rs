//! The plans of SQLite for the statements that look for firings that wait.

use rusqlite::Connection;

use super::{due::list_pending_sql, waiting};
use crate::migrate;

/// The steps of a plan.
fn plan(conn: &Connection, sql: &str) -> Vec<String> {
    let mut statement = conn.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
    let mut rows = statement.raw_query();
    let mut steps = Vec::new();
    while let Some(row) = rows.next().unwrap() {
        steps.push(row.get(3).unwrap());
    }
    steps
}

#[test]
fn firings_that_wait_are_found_in_indexes_without_sorting() {
    let mut conn = Connection::open_in_memory().unwrap();
    migrate::sqlite(&mut conn).unwrap();
    let due = "trigger_firings_due (project_id=?)";
    let cases = [
        (list_pending_sql(true, "10", ""), "trigger_firings_of_object (agent_id=? AND entity_id=?)"),
        (list_pending_sql(false, "10", ""), "trigger_firings_in_order (agent_id=?)"),
        (waiting::next_due_at_sql(), due),
        (waiting::next_due_after_sql(), "trigger_firings_due (project_id=? AND due_at>?)"),
        (waiting::projects_with_due_sql(), due),
        (waiting::count_waiting_sql(), "trigger_firings_of_event (event=?)"),
    ];
    for (sql, index) in cases {
        let plan = plan(&conn, &sql);
        let sorts = plan.iter().any(|step| step.contains("TEMP B-TREE"));
        // The first firing that waits is found by a scan that ends with it.
        let first = "SCAN f USING INDEX trigger_firings_due";
        let tables = ["SCAN f", "SCAN p", "SCAN trigger_firings"];
        let scans =
            plan.iter().any(|step| step != first && tables.iter().any(|table| step.starts_with(table)));
        assert!(plan.iter().any(|step| step.ends_with(index)) && !sorts && !scans, "{sql}\n{plan:#?}");
    }
}

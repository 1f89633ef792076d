//! How many triggers a project has, and how large they are.

use emergent_domain::ids::ProjectId;

use crate::{engine::Engine, error::Result, params, tx::Tx};

/// The triggers of a project, for times and for events, whether they start agents or workflows and whoever saved them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TriggerTotals {
    pub count: i64,
    /// The bytes of their settings and workflows.
    pub bytes: i64,
}

/// How many triggers a project has. The rows are found by an index. SQLite takes the lengths from the head of each row.
/// PostgreSQL reads the texts, and keeps no others from writing meanwhile.
pub fn totals(tx: &mut Tx<'_>, project: ProjectId) -> Result<TriggerTotals> {
    let bytes = row_bytes_sql(tx.engine());
    let part = |table: &str| {
        format!("SELECT count(*) AS count, sum({bytes}) AS bytes FROM {table} WHERE project_id = $1")
    };
    let sql = format!(
        "SELECT CAST(sum(count) AS bigint), CAST(coalesce(sum(bytes), 0) AS bigint) FROM ({} UNION ALL {}) AS parts",
        part("event_triggers"),
        part("schedules")
    );
    let read = tx.query_opt(&sql, params![project], |row| {
        Ok(TriggerTotals { count: row.get(0)?, bytes: row.get(1)? })
    })?;
    Ok(read.unwrap_or_default())
}

/// The bytes of the settings and the workflow of one row of a table of triggers. SQLite knows the length of a column
/// without reading its text, if nothing converts it.
pub(super) fn row_bytes_sql(engine: Engine) -> &'static str {
    match engine {
        Engine::Sqlite => "(octet_length(config) + coalesce(octet_length(dispatch), 0))",
        Engine::Postgres => {
            "(octet_length(CAST(config AS text)) + coalesce(octet_length(CAST(dispatch AS text)), 0))::bigint"
        }
    }
}

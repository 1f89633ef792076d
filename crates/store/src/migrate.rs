//! Migrates the schema of a database. Migrations are numbered, and each is applied once. Servers that start at the
//! same time wait for one another. A database that a newer version has migrated is refused.
//!
//! On SQLite one transaction applies all that are missing. On PostgreSQL other servers may be at work, so each is
//! committed by itself (`migrate/postgres.rs`). A migration is recorded by its version and its name.

mod postgres;
#[cfg(test)]
mod tests;

use std::hash::{DefaultHasher, Hash, Hasher};

use emergent_domain::time::Clock;

use crate::{
    engine::Engine,
    error::{Error, Result},
};

pub(crate) use postgres::{ClientKind, build_index, postgres};

struct Migration {
    version: i64,
    name: &'static str,
    /// Indexes of tables that may be large, as `CREATE INDEX IF NOT EXISTS …;`. They come before the rest. On
    /// PostgreSQL each is built concurrently, outside of transactions, so that others write to the table meanwhile.
    indexes: &'static str,
    /// The SQL for both engines, which runs before the SQL of one engine. `{rowno}`, `{seqno}` and `{txid}`
    /// stand for column definitions that differ between the engines; see [`Migration::sql`].
    shared: &'static str,
    sqlite: &'static str,
    postgres: &'static str,
}

const MIGRATIONS: &[Migration] = &[
    Migration {
        version: 1,
        name: "foundation",
        indexes: "",
        shared: include_str!("migrations/0001_foundation.sql"),
        sqlite: include_str!("migrations/0001_foundation.sqlite.sql"),
        postgres: include_str!("migrations/0001_foundation.postgres.sql"),
    },
    Migration {
        version: 2,
        name: "runs",
        indexes: "",
        shared: include_str!("migrations/0002_runs.sql"),
        sqlite: include_str!("migrations/0002_runs.sqlite.sql"),
        postgres: "",
    },
    Migration {
        version: 3,
        name: "products",
        indexes: "",
        shared: include_str!("migrations/0003_products.sql"),
        sqlite: include_str!("migrations/0003_products.sqlite.sql"),
        postgres: "",
    },
    Migration {
        version: 4,
        name: "assignments",
        indexes: "",
        shared: include_str!("migrations/0004_assignments.sql"),
        sqlite: "",
        postgres: "",
    },
    Migration {
        version: 5,
        name: "triggers",
        indexes: "",
        shared: include_str!("migrations/0005_triggers.sql"),
        sqlite: include_str!("migrations/0005_triggers.sqlite.sql"),
        postgres: include_str!("migrations/0005_triggers.postgres.sql"),
    },
    Migration {
        version: 6,
        name: "coordination",
        indexes: "",
        shared: include_str!("migrations/0006_coordination.sql"),
        sqlite: include_str!("migrations/0006_coordination.sqlite.sql"),
        postgres: "",
    },
    Migration {
        version: 7,
        name: "tool_names",
        indexes: "",
        shared: include_str!("migrations/0007_tool_names.sql"),
        sqlite: "",
        postgres: "",
    },
    Migration {
        version: 8,
        name: "consent",
        indexes: "",
        shared: include_str!("migrations/0008_consent.sql"),
        sqlite: include_str!("migrations/0008_consent.sqlite.sql"),
        postgres: "",
    },
    Migration {
        version: 9,
        name: "write_checks",
        indexes: "",
        shared: include_str!("migrations/0009_write_checks.sql"),
        sqlite: "",
        postgres: "",
    },
    Migration {
        version: 10,
        name: "hidden_documents",
        indexes: "",
        shared: include_str!("migrations/0010_hidden_documents.sql"),
        sqlite: "",
        postgres: "",
    },
    Migration {
        version: 11,
        name: "lifetimes",
        indexes: include_str!("migrations/0011_lifetimes.indexes.sql"),
        shared: include_str!("migrations/0011_lifetimes.sql"),
        sqlite: include_str!("migrations/0011_lifetimes.sqlite.sql"),
        postgres: "",
    },
    Migration {
        version: 12,
        name: "audit",
        indexes: "",
        shared: include_str!("migrations/0012_audit.sql"),
        sqlite: include_str!("migrations/0012_audit.sqlite.sql"),
        postgres: include_str!("migrations/0012_audit.postgres.sql"),
    },
    Migration {
        version: 13,
        name: "feed_offset",
        indexes: "",
        shared: "",
        sqlite: "",
        postgres: include_str!("migrations/0013_feed_offset.postgres.sql"),
    },
    Migration {
        version: 14,
        name: "binding_paths",
        indexes: "",
        shared: include_str!("migrations/0014_binding_paths.sql"),
        sqlite: "",
        postgres: "",
    },
    Migration {
        version: 15,
        name: "deletion",
        indexes: include_str!("migrations/0015_deletion.indexes.sql"),
        shared: "",
        sqlite: include_str!("migrations/0015_deletion.sqlite.sql"),
        postgres: include_str!("migrations/0015_deletion.postgres.sql"),
    },
    Migration {
        version: 16,
        name: "standing_workflows",
        indexes: "",
        shared: include_str!("migrations/0016_standing_workflows.sql"),
        sqlite: "",
        postgres: "",
    },
    Migration {
        version: 17,
        name: "run_terms",
        indexes: "",
        shared: include_str!("migrations/0017_run_terms.sql"),
        sqlite: "",
        postgres: "",
    },
    Migration {
        version: 18,
        name: "dispatch",
        indexes: "",
        shared: include_str!("migrations/0018_dispatch.sql"),
        sqlite: "",
        postgres: "",
    },
    Migration {
        version: 19,
        name: "call_effects",
        indexes: "",
        shared: include_str!("migrations/0019_call_effects.sql"),
        sqlite: "",
        postgres: "",
    },
    Migration {
        version: 20,
        name: "project_events",
        indexes: "",
        shared: include_str!("migrations/0020_project_events.sql"),
        sqlite: include_str!("migrations/0020_project_events.sqlite.sql"),
        postgres: include_str!("migrations/0020_project_events.postgres.sql"),
    },
    Migration {
        version: 21,
        name: "approvals",
        indexes: include_str!("migrations/0021_approvals.indexes.sql"),
        shared: include_str!("migrations/0021_approvals.sql"),
        sqlite: include_str!("migrations/0021_approvals.sqlite.sql"),
        postgres: include_str!("migrations/0021_approvals.postgres.sql"),
    },
    Migration {
        version: 22,
        name: "chat",
        indexes: "",
        shared: include_str!("migrations/0022_chat.sql"),
        sqlite: include_str!("migrations/0022_chat.sqlite.sql"),
        postgres: include_str!("migrations/0022_chat.postgres.sql"),
    },
    Migration {
        version: 23,
        name: "sessions",
        indexes: "",
        shared: include_str!("migrations/0023_sessions.sql"),
        sqlite: include_str!("migrations/0023_sessions.sqlite.sql"),
        postgres: "",
    },
    Migration {
        version: 24,
        name: "webhooks",
        indexes: "",
        shared: include_str!("migrations/0024_webhooks.sql"),
        sqlite: include_str!("migrations/0024_webhooks.sqlite.sql"),
        postgres: include_str!("migrations/0024_webhooks.postgres.sql"),
    },
    Migration {
        version: 25,
        name: "binding_headers",
        indexes: "",
        shared: include_str!("migrations/0025_binding_headers.sql"),
        sqlite: "",
        postgres: "",
    },
    Migration {
        version: 26,
        name: "chat_memory",
        indexes: include_str!("migrations/0026_chat_memory.indexes.sql"),
        shared: include_str!("migrations/0026_chat_memory.sql"),
        sqlite: include_str!("migrations/0026_chat_memory.sqlite.sql"),
        postgres: "",
    },
    Migration {
        version: 27,
        name: "input_requests",
        indexes: include_str!("migrations/0027_input_requests.indexes.sql"),
        shared: include_str!("migrations/0027_input_requests.sql"),
        sqlite: include_str!("migrations/0027_input_requests.sqlite.sql"),
        postgres: "",
    },
    Migration {
        version: 28,
        name: "deleted_pages",
        indexes: include_str!("migrations/0028_deleted_pages.indexes.sql"),
        shared: include_str!("migrations/0028_deleted_pages.sql"),
        sqlite: include_str!("migrations/0028_deleted_pages.sqlite.sql"),
        postgres: "",
    },
    Migration {
        version: 29,
        name: "typed_output",
        indexes: "",
        shared: include_str!("migrations/0029_typed_output.sql"),
        sqlite: "",
        postgres: "",
    },
    Migration {
        version: 30,
        name: "inbox",
        indexes: "",
        shared: include_str!("migrations/0030_inbox.sql"),
        sqlite: include_str!("migrations/0030_inbox.sqlite.sql"),
        postgres: include_str!("migrations/0030_inbox.postgres.sql"),
    },
    Migration {
        version: 31,
        name: "client_tools",
        indexes: include_str!("migrations/0031_client_tools.indexes.sql"),
        shared: "",
        sqlite: include_str!("migrations/0031_client_tools.sqlite.sql"),
        postgres: include_str!("migrations/0031_client_tools.postgres.sql"),
    },
    Migration {
        version: 32,
        name: "agui",
        indexes: "",
        shared: include_str!("migrations/0032_agui.sql"),
        sqlite: include_str!("migrations/0032_agui.sqlite.sql"),
        postgres: "",
    },
    Migration {
        version: 33,
        name: "inbox_rules",
        indexes: "",
        shared: "",
        sqlite: include_str!("migrations/0033_inbox_rules.sqlite.sql"),
        postgres: include_str!("migrations/0033_inbox_rules.postgres.sql"),
    },
    Migration {
        version: 34,
        name: "a2a_push",
        indexes: "",
        shared: include_str!("migrations/0034_a2a_push.sql"),
        sqlite: include_str!("migrations/0034_a2a_push.sqlite.sql"),
        postgres: "",
    },
    Migration {
        version: 35,
        name: "approval_titles",
        indexes: "",
        shared: include_str!("migrations/0035_approval_titles.sql"),
        sqlite: include_str!("migrations/0035_approval_titles.sqlite.sql"),
        postgres: include_str!("migrations/0035_approval_titles.postgres.sql"),
    },
    Migration {
        version: 36,
        name: "context_names",
        indexes: "",
        shared: include_str!("migrations/0036_context_names.sql"),
        sqlite: "",
        postgres: "",
    },
    Migration {
        version: 37,
        name: "paused_schedules",
        indexes: "",
        shared: include_str!("migrations/0037_paused_schedules.sql"),
        sqlite: "",
        postgres: "",
    },
    Migration {
        version: 38,
        name: "run_writes",
        indexes: include_str!("migrations/0038_run_writes.indexes.sql"),
        shared: include_str!("migrations/0038_run_writes.sql"),
        sqlite: include_str!("migrations/0038_run_writes.sqlite.sql"),
        postgres: include_str!("migrations/0038_run_writes.postgres.sql"),
    },
    Migration {
        version: 39,
        name: "object_parts",
        indexes: "",
        shared: "",
        sqlite: include_str!("migrations/0039_object_parts.sqlite.sql"),
        postgres: include_str!("migrations/0039_object_parts.postgres.sql"),
    },
    Migration {
        version: 40,
        name: "autovacuum",
        indexes: "",
        shared: "",
        sqlite: "",
        postgres: include_str!("migrations/0040_autovacuum.postgres.sql"),
    },
    Migration {
        version: 41,
        name: "newest_embeddings",
        indexes: include_str!("migrations/0041_newest_embeddings.indexes.sql"),
        shared: "",
        sqlite: include_str!("migrations/0041_newest_embeddings.sqlite.sql"),
        postgres: include_str!("migrations/0041_newest_embeddings.postgres.sql"),
    },
    Migration {
        version: 42,
        name: "keys_of_versions",
        indexes: include_str!("migrations/0042_keys_of_versions.indexes.sql"),
        shared: "",
        sqlite: include_str!("migrations/0042_keys_of_versions.sqlite.sql"),
        postgres: "",
    },
    Migration {
        version: 43,
        name: "triggered_runs",
        indexes: include_str!("migrations/0043_triggered_runs.indexes.sql"),
        shared: "",
        sqlite: include_str!("migrations/0043_triggered_runs.sqlite.sql"),
        postgres: "",
    },
    Migration {
        version: 44,
        name: "discussion_escalations",
        indexes: "",
        shared: include_str!("migrations/0044_discussion_escalations.sql"),
        sqlite: "",
        postgres: "",
    },
    Migration {
        version: 45,
        name: "due_firings",
        indexes: include_str!("migrations/0045_due_firings.indexes.sql"),
        shared: "",
        sqlite: include_str!("migrations/0045_due_firings.sqlite.sql"),
        postgres: "",
    },
    Migration {
        version: 46,
        name: "deleted_keys",
        indexes: include_str!("migrations/0046_deleted_keys.indexes.sql"),
        shared: "",
        sqlite: include_str!("migrations/0046_deleted_keys.sqlite.sql"),
        postgres: "",
    },
    Migration {
        version: 47,
        name: "names_of_versions",
        indexes: include_str!("migrations/0047_names_of_versions.indexes.sql"),
        shared: "",
        sqlite: include_str!("migrations/0047_names_of_versions.sqlite.sql"),
        postgres: "",
    },
];

/// The newest schema version that this program knows.
pub fn latest_version() -> i64 {
    MIGRATIONS.last().map_or(0, |migration| migration.version)
}

/// A number that differs between two schemas: it is made of the names and the SQL of all migrations. A copy of a
/// migrated database can be used instead of migrating another one if this number is the same.
pub fn schema_digest() -> u64 {
    let mut hasher = DefaultHasher::new();
    for Migration { version, name, indexes, shared, sqlite, postgres } in MIGRATIONS {
        (version, name, indexes, shared, sqlite, postgres).hash(&mut hasher);
    }
    hasher.finish()
}

const CREATE_MIGRATIONS_TABLE: &str = "CREATE TABLE IF NOT EXISTS schema_migrations (
    version bigint NOT NULL PRIMARY KEY, name text NOT NULL, applied_at timestamptz NOT NULL)";

impl Migration {
    /// The SQL of the migration for an engine; on PostgreSQL without the indexes.
    fn sql(&self, engine: Engine) -> String {
        let (rowno, seqno, txid, engine_sql) = match engine {
            Engine::Sqlite => {
                ("INTEGER PRIMARY KEY", "INTEGER PRIMARY KEY AUTOINCREMENT", "DEFAULT 0", self.sqlite)
            }
            Engine::Postgres => (
                "bigint PRIMARY KEY",
                "bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY",
                "DEFAULT pg_current_xact_id()::text::bigint",
                self.postgres,
            ),
        };
        let shared = self.shared.replace("{rowno}", rowno).replace("{seqno}", seqno).replace("{txid}", txid);
        let indexes = if matches!(engine, Engine::Sqlite) { self.indexes } else { "" };
        format!("{indexes}\n{shared}\n{engine_sql}")
    }

    /// The statements that build the indexes of the migration.
    fn index_statements(&self) -> impl Iterator<Item = &'static str> {
        self.indexes.split(';').map(str::trim).filter(|statement| !statement.is_empty())
    }

    /// Wraps an error with the name of the migration.
    fn error(&self) -> impl Fn(Error) -> Error + '_ {
        |source| Error::Migration { name: self.name.to_owned(), source: Box::new(source) }
    }
}

/// Fails for a database that a newer version has migrated.
pub(crate) fn refuse_newer(found: i64) -> Result<()> {
    if found > latest_version() {
        return Err(Error::TooNew { found, known: latest_version() });
    }
    Ok(())
}

/// Migrates a SQLite database.
pub(crate) fn sqlite(conn: &mut rusqlite::Connection) -> Result<()> {
    let tx = conn.transaction_with_behavior(rusqlite::TransactionBehavior::Exclusive)?;
    tx.execute_batch(CREATE_MIGRATIONS_TABLE)?;
    let found: i64 =
        tx.query_row("SELECT coalesce(max(version), 0) FROM schema_migrations", [], |row| row.get(0))?;
    refuse_newer(found)?;
    for migration in MIGRATIONS.iter().filter(|migration| migration.version > found) {
        tx.execute_batch(&migration.sql(Engine::Sqlite)).map_err(Error::from).map_err(migration.error())?;
        tx.execute(
            "INSERT INTO schema_migrations (version, name, applied_at) VALUES (?1, ?2, ?3)",
            (migration.version, migration.name, Clock::system().now().as_micros()),
        )?;
    }
    tx.commit()?;
    Ok(())
}

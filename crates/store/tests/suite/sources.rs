//! Passages that were noted before each run's were kept apart are still there.

use emergent_store::{Engine, Result, Tx, params};
use emergent_testkit::both_engines;

use crate::number;

const SQLITE: &str = include_str!("../../src/migrations/0005_triggers.sqlite.sql");
const POSTGRES: &str = include_str!("../../src/migrations/0005_triggers.postgres.sql");

/// The table as it was before the fifth migration, beside the one the migration makes.
const BEFORE: &str = "CREATE TABLE graph_sources (
    entity_id uuid NOT NULL, chunk_id uuid NOT NULL, kind text NOT NULL, project_id uuid NOT NULL,
    document_id uuid NOT NULL, created_at timestamptz NOT NULL, author_run uuid, author_tool_call uuid,
    CONSTRAINT graph_sources_before PRIMARY KEY (entity_id, chunk_id))";

both_engines! {
    async fn passages_from_before_move_over_with_who_said_them(db: TestDb) {
        let (own, rename_key, id, run) = match db.engine() {
            Engine::Sqlite => (SQLITE, "", "zeroblob(15) || x'01'", "zeroblob(15) || x'02'"),
            Engine::Postgres => (
                POSTGRES,
                "ALTER INDEX graph_sources_pkey RENAME TO graph_sources_said_pkey",
                "'00000000-0000-0000-0000-000000000001'",
                "'00000000-0000-0000-0000-000000000002'",
            ),
        };
        // One by a run, one by somebody else.
        let row = |chunk: &str, run: &str| {
            format!("INSERT INTO graph_sources SELECT {id}, {chunk}, 'object', {id}, {id}, max(applied_at), {run}, {run} FROM schema_migrations")
        };
        let before = [
            "DROP INDEX graph_sources_document".to_owned(),
            "DROP INDEX graph_sources_run".to_owned(),
            "ALTER TABLE graph_sources RENAME TO graph_sources_said".to_owned(),
            rename_key.to_owned(),
            BEFORE.to_owned(),
            row(id, run),
            row(run, "NULL"),
        ];
        let statements: Vec<String> = before.into_iter().chain(own.split(";\n").map(str::to_owned)).collect();
        let migrate = move |tx: &mut Tx<'_>| -> Result<()> {
            for sql in statements.iter().filter(|sql| !sql.trim().is_empty()) {
                tx.execute(sql, params![])?;
            }
            Ok(())
        };
        db.write(migrate).await.unwrap();
        assert_eq!(number(&db, "SELECT count(*) FROM graph_sources").await, 2);
        let by_run = format!("SELECT count(*) FROM graph_sources WHERE said_by = {run} AND author_tool_call = {run}");
        assert_eq!(number(&db, by_run.leak()).await, 1);
        let by_others = "SELECT count(*) FROM graph_sources WHERE author_tool_call IS NULL";
        assert_eq!(number(&db, by_others).await, 1);
    }
}

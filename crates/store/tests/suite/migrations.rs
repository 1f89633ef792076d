use emergent_store::{Db, DbConfig, Error, latest_version};
use emergent_testkit::{both_engines, new_postgres_database};
use futures_util::future::join_all;

use crate::{number, run};

both_engines! {
    async fn migrating_again_changes_nothing(db: TestDb) {
        let applied = "SELECT count(*) FROM schema_migrations";
        let before = number(&db, applied).await;
        let again = db.second_connection().await;
        assert_eq!(number(&again, applied).await, before);
        assert_eq!(number(&again, "SELECT max(version) FROM schema_migrations").await, latest_version());
    }

    async fn a_database_from_a_newer_program_is_refused(db: TestDb) {
        let newer = latest_version() + 1;
        let mark = "INSERT INTO schema_migrations (version, name, applied_at)
                    SELECT max(version) + 1, 'later', max(applied_at) FROM schema_migrations";
        run(&db, mark).await.unwrap();
        let refused = Db::open(db.config().clone()).await.err().expect("it is refused");
        assert!(matches!(refused, Error::TooNew { found, known } if found == newer && known == newer - 1));
        assert_eq!(
            refused.to_string(),
            format!(
                "the database is at schema version {newer}, this program knows up to {}: \
                 it was used by a newer version; start that one, or restore a backup",
                latest_version()
            )
        );
    }
}

/// Eight servers start on a database that none has migrated.
async fn start_together(config: DbConfig) {
    let opened = join_all((0..8).map(|_| Db::open(config.clone()))).await;
    for db in opened {
        let db = db.expect("every one of them starts");
        assert_eq!(number(&db, "SELECT count(*) FROM schema_migrations").await, latest_version());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn servers_that_start_together_migrate_once_on_sqlite() {
    for _ in 0..5 {
        let dir = tempfile::tempdir().unwrap();
        start_together(DbConfig::Sqlite { path: dir.path().join("new.db") }).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn servers_that_start_together_migrate_once_on_postgres() {
    let database = new_postgres_database().await;
    start_together(DbConfig::Postgres { url: database.url(), connections: 2, statement_cache: true }).await;
}

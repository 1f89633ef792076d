use emergent_domain::{ids::ProjectId, time::Timestamp};
use emergent_store::{Db, DbConfig, Error, Param, latest_version, retention};
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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn positions_stay_valid_in_another_cluster_although_every_change_was_deleted() {
    let database = new_postgres_database().await;
    let config = DbConfig::Postgres { url: database.url(), connections: 2, statement_cache: true };
    let project = ProjectId::new();
    let insert = "INSERT INTO graph_events (project_id, kind, entity_id, entity_type, version, at)
                  VALUES ($1, 'object_created', $1, 'Note', 1, $2)";
    let write_event = async |db: &Db| {
        let now = Timestamp::from_micros(1_000_000);
        db.write(move |tx| tx.execute(insert, &[Param::from(project), Param::from(now)])).await.unwrap();
    };
    {
        let db = Db::open(config.clone()).await.unwrap();
        write_event(&db).await;
        // As in a dump of a cluster that was in use for long.
        run(&db, "UPDATE graph_events SET txid = 1000000000000").await.unwrap();
        let seqs = vec![number(&db, "SELECT max(seq) FROM graph_events").await];
        db.write(move |tx| retention::delete_events(tx, project, &seqs)).await.unwrap();
        assert_eq!(number(&db, "SELECT count(*) FROM graph_events").await, 0);
    }
    let db = Db::open(config).await.unwrap();
    write_event(&db).await;
    assert!(number(&db, "SELECT max(txid) FROM graph_events").await > 1_000_000_000_000);
}

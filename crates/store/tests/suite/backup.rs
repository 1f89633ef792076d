//! A copy is complete and consistent although others write, and what is not a usable copy is refused.

use std::{
    fs,
    path::{Path, PathBuf},
};

use emergent_domain::{
    author::Author,
    change::{ChangeKind, FeedPosition},
    ids::ProjectId,
    time::Timestamp,
};
use emergent_store::{
    Db, DbConfig, Error, Result, Tx,
    backup::{self, CheckDepth},
    feed::{self, NewChange},
    latest_version, params,
};
use emergent_testkit::TestDb;
use uuid::Uuid;

use crate::{number, run};

async fn insert_lease(db: &Db, name: String) {
    let write = move |tx: &mut Tx<'_>| {
        let owner = "x".repeat(1 << 20);
        tx.execute("INSERT INTO leases (name, owner, until) VALUES ($1, $2, 0)", params![&name, &owner])
    };
    db.write(write).await.unwrap();
}

/// A database with some content, and a copy of it.
async fn database_and_copy(folder: &Path) -> PathBuf {
    let database = folder.join("emergent.db");
    let db = Db::open(DbConfig::Sqlite { path: database.clone() }).await.unwrap();
    insert_lease(&db, "one".to_owned()).await;
    drop(db);
    let copy = folder.join("copy.db");
    fs::File::create_new(&copy).unwrap();
    backup::copy(&database, &copy, |_| ()).unwrap();
    copy
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_copy_has_what_was_committed_when_it_began_and_writers_do_not_wait() {
    let folder = tempfile::tempdir().unwrap();
    let (database, copy) = (folder.path().join("emergent.db"), folder.path().join("copy.db"));
    let db = Db::open(DbConfig::Sqlite { path: database.clone() }).await.unwrap();
    for index in 0..30 {
        insert_lease(&db, format!("before {index}")).await;
    }
    fs::File::create_new(&copy).unwrap();
    let (writer, runtime, target) = (db.clone(), tokio::runtime::Handle::current(), copy.clone());
    let steps = tokio::task::spawn_blocking(move || {
        let mut steps = 0;
        let copied = backup::copy(&database, &target, |progress| {
            steps += 1;
            assert!(progress.copied_bytes <= progress.total_bytes);
            runtime.block_on(insert_lease(&writer, format!("during {steps}")));
        });
        copied.map(|()| steps)
    });
    let steps = steps.await.unwrap().unwrap();
    assert!((3..10).contains(&steps), "{steps} steps: it was not started again by the writes");
    assert_eq!(number(&db, "SELECT count(*) FROM leases").await, 30 + steps);
    let contents = backup::check(&copy, CheckDepth::Everything).unwrap();
    assert_eq!(contents.schema_version, latest_version());
    assert!(!folder.path().join("copy.db-wal").exists() && !folder.path().join("copy.db-shm").exists());
    let restored = Db::open(DbConfig::Sqlite { path: copy }).await.unwrap();
    assert_eq!(number(&restored, "SELECT count(*) FROM leases").await, 30);
    assert_eq!(number(&restored, "SELECT count(*) FROM leases WHERE name LIKE 'during%'").await, 0);
}

fn refusal(file: &Path) -> String {
    match backup::check(file, CheckDepth::Everything).expect_err("it is refused") {
        Error::UnusableBackup { reason, .. } => reason,
        other => other.to_string(),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_not_a_usable_copy_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let copy = database_and_copy(folder.path()).await;
    backup::check(&copy, CheckDepth::Everything).unwrap();

    let text = folder.path().join("text");
    fs::write(&text, "this is a text, and longer than the header of a database ".repeat(10)).unwrap();
    assert!(refusal(&text).contains("not a SQLite database"), "{}", refusal(&text));

    let other = folder.path().join("other.db");
    rusqlite::Connection::open(&other).unwrap().execute_batch("CREATE TABLE t (a)").unwrap();
    assert!(refusal(&other).contains("not one of Emergent"), "{}", refusal(&other));

    let bytes = fs::read(&copy).unwrap();
    let cut = folder.path().join("cut.db");
    fs::write(&cut, &bytes[..bytes.len() / 2]).unwrap();
    assert_eq!(refusal(&cut), "the file is damaged");
    // A whole page is missing at the end; those before it are as they were.
    fs::write(&cut, &bytes[..bytes.len() - 8_192]).unwrap();
    assert_eq!(refusal(&cut), "the file is damaged");
    fs::write(&cut, "").unwrap();
    assert_eq!(refusal(&cut), "the file is empty");

    let mut overwritten = bytes.clone();
    // The second page holds the root of the first table or index.
    overwritten[8_192..8_400].fill(0xAA);
    let damaged = folder.path().join("damaged.db");
    fs::write(&damaged, &overwritten).unwrap();
    assert_eq!(refusal(&damaged), "the file is damaged");

    let conn = rusqlite::Connection::open(&copy).unwrap();
    conn.execute_batch("UPDATE schema_migrations SET version = 999 WHERE version = 1").unwrap();
    drop(conn);
    assert!(refusal(&copy).contains("newer version"), "{}", refusal(&copy));
    assert!(backup::check(&folder.path().join("missing"), CheckDepth::Everything).is_err());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_copy_says_whether_it_has_a_digest() {
    let folder = tempfile::tempdir().unwrap();
    let copy = database_and_copy(folder.path()).await;
    assert!(!backup::has_digest_mark(&copy).unwrap(), "as in copies of earlier versions");
    for has_digest in [true, false] {
        backup::set_digest_mark(&copy, has_digest).unwrap();
        assert_eq!(backup::has_digest_mark(&copy).unwrap(), has_digest);
        backup::check(&copy, CheckDepth::Everything).unwrap();
    }
    assert!(backup::has_digest_mark(&folder.path().join("missing")).is_err());
}

async fn append_change(db: &Db, project: ProjectId) {
    let write = move |tx: &mut Tx<'_>| {
        let change = NewChange {
            kind: ChangeKind::ObjectCreated,
            entity: Uuid::now_v7(),
            entity_type: "Note",
            version: 1,
            at: Timestamp::from_micros(1),
            author: Author::System,
        };
        feed::append(tx, project, &[change])
    };
    db.write(write).await.unwrap();
}

async fn changes_after(db: &Db, project: ProjectId, after: FeedPosition) -> Vec<FeedPosition> {
    let read = move |tx: &mut Tx<'_>| -> Result<_> { feed::read_after(tx, project, after, 100) };
    db.read(read).await.unwrap().items.into_iter().map(|change| change.position).collect()
}

/// Waits until there are this many changes: a reader stops at transactions of the whole cluster, so those of
/// other tests delay it.
async fn wait_for_changes(
    db: &Db,
    project: ProjectId,
    after: FeedPosition,
    count: usize,
) -> Vec<FeedPosition> {
    for _ in 0..200 {
        let found = changes_after(db, project, after).await;
        if found.len() == count {
            return found;
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    panic!("there are not {count} changes")
}

/// `pg_restore` puts rows with the transaction ids of one cluster into another, whose ids are smaller.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_feed_goes_on_when_the_database_moves_to_a_younger_cluster() {
    let db = TestDb::postgres().await;
    let project = ProjectId::new();
    append_change(&db, project).await;
    // As if the cluster before had been busy.
    run(&db, "UPDATE graph_events SET txid = txid + 1000000000").await.unwrap();
    assert_eq!(changes_after(&db, project, FeedPosition::default()).await, [], "nobody gets there");

    let server = Db::open(db.config().clone()).await.unwrap();
    // Old changes are read again.
    let old = wait_for_changes(&server, project, FeedPosition::default(), 1).await;
    let start = server.write(feed::current_start).await.unwrap();
    append_change(&server, project).await;
    // A new change comes after them, for a position from before the move.
    let new = wait_for_changes(&server, project, old[0], 1).await;
    assert!(start.includes(new[0]) && !start.includes(old[0]));

    // Opening it again changes nothing, also for a server that is open already.
    let again = Db::open(db.config().clone()).await.unwrap();
    append_change(&again, project).await;
    append_change(&db, project).await;
    let all = wait_for_changes(&server, project, FeedPosition::default(), 4).await;
    assert!(all[3].txid - all[0].txid < 1_000_000, "{all:?}");
}

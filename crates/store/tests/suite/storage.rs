//! A full disk and a damaged file, and what follows a commit.

use emergent_domain::time::Timestamp;
use emergent_store::{Db, DbConfig, Error, StorageFault, Tx, health, params};
use emergent_testkit::TestDb;
use futures_util::future::join_all;

use crate::{number, run};

/// The disk is full for the writer as long as the database may have no more pages. Returns to a database
/// without a limit for `None`.
async fn limit_pages(db: &Db, pages: Option<i64>) {
    db.write(move |tx| {
        let conn = tx.sqlite().expect("SQLite");
        let used: i64 = conn.query_row("PRAGMA page_count", [], |row| row.get(0))?;
        conn.pragma_update(None, "max_page_count", pages.map_or(1 << 30, |more| used + more))?;
        Ok::<_, Error>(())
    })
    .await
    .unwrap();
}

async fn open() -> (tempfile::TempDir, Db) {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(DbConfig::Sqlite { path: dir.path().join("test.db") }).await.unwrap();
    (dir, db)
}

fn add(tx: &mut Tx<'_>, name: &str, bytes: usize) -> Result<(), Error> {
    tx.execute(
        "INSERT INTO leases (name, owner, until) SELECT $1, $2, max(applied_at) FROM schema_migrations",
        params![name, "x".repeat(bytes).as_str()],
    )?;
    Ok(())
}

const ROWS: &str = "SELECT count(*) FROM leases";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_disk_is_told_as_such_and_writes_resume_by_themselves() {
    let (_dir, db) = open().await;
    limit_pages(&db, Some(2)).await;
    let refused = db.write(|tx| add(tx, "large", 200_000)).await.unwrap_err();
    assert_eq!(refused.storage_fault(), Some(StorageFault::Full), "{refused:?}");
    let problem = db.storage_problem().expect("a problem");
    assert_eq!(problem.fault, StorageFault::Full);
    assert!(problem.reason.contains("full"), "{}", problem.reason);
    assert_eq!(number(&db, ROWS).await, 0, "reads go on, and nothing was written");

    // A small write fits. That says nothing about the large one.
    db.write(|tx| add(tx, "small", 10)).await.unwrap();
    assert!(db.storage_problem().is_some());
    let checked = health::check(&db, Timestamp::from_micros(0)).await.unwrap_err();
    assert_eq!(checked.storage_fault(), Some(StorageFault::Full), "{checked:?}");

    limit_pages(&db, None).await;
    db.write(|tx| add(tx, "large", 200_000)).await.unwrap();
    assert_eq!(number(&db, ROWS).await, 2);
    health::check(&db, Timestamp::from_micros(0)).await.unwrap();
    assert_eq!(db.storage_problem(), None);
    assert_eq!(number(&db, "SELECT count(*) FROM write_checks").await, 1, "the trial leaves nothing behind");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_disk_of_postgres_is_over_when_a_large_write_succeeds() {
    let TestDb { db, .. } = &TestDb::postgres().await;
    let full = "DO $$ BEGIN RAISE EXCEPTION 'no space left' USING ERRCODE = 'disk_full'; END $$";
    let refused = run(db, full).await.unwrap_err();
    assert_eq!(refused.storage_fault(), Some(StorageFault::Full), "{refused:?}");
    db.write(|tx| add(tx, "small", 10)).await.unwrap();
    assert!(db.storage_problem().is_some(), "a small write may fit");
    health::check(db, Timestamp::from_micros(0)).await.unwrap();
    assert_eq!(db.storage_problem(), None);
    assert_eq!(number(db, "SELECT count(*) FROM write_checks").await, 1, "the trial leaves nothing behind");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writes_of_a_group_with_one_that_does_not_fit_are_all_answered() {
    let (_dir, db) = open().await;
    limit_pages(&db, Some(4)).await;
    let writes = (0..40).map(|n| {
        let bytes = if n % 4 == 0 { 300_000 } else { 10 };
        db.write(move |tx| add(tx, &format!("row {n}"), bytes))
    });
    let outcomes = join_all(writes).await;
    let written = outcomes.iter().filter(|outcome| outcome.is_ok()).count();
    for outcome in &outcomes {
        if let Err(error) = outcome {
            assert_eq!(error.storage_fault(), Some(StorageFault::Full), "{error:?}");
        }
    }
    assert_eq!(number(&db, ROWS).await, written as i64, "exactly the acknowledged ones are there");
    limit_pages(&db, None).await;
    db.write(|tx| add(tx, "after", 300_000)).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_damaged_page_is_told_as_such() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("test.db");
    let db = Db::open(DbConfig::Sqlite { path: path.clone() }).await.unwrap();
    db.write(|tx| {
        for n in 0..2_000 {
            add(tx, &format!("row {n}"), 500)?;
        }
        Ok::<_, Error>(())
    })
    .await
    .unwrap();
    // The schema stays intact, and everything after it is overwritten.
    let root = db
        .read(|tx| {
            tx.query_opt("SELECT rootpage FROM sqlite_schema WHERE name = 'leases'", params![], |row| {
                row.get::<i64>(0)
            })
        })
        .await
        .unwrap()
        .unwrap();
    drop(db);
    let page = 8_192;
    let mut bytes = std::fs::read(&path).unwrap();
    let start = (root as usize - 1) * page;
    bytes[start..start + page].fill(0xA5);
    std::fs::write(&path, bytes).unwrap();
    let db = Db::open(DbConfig::Sqlite { path }).await.unwrap();
    let broken: Result<Option<i64>, Error> =
        db.read(|tx| tx.query_opt("SELECT count(owner) FROM leases", params![], |row| row.get(0))).await;
    assert_eq!(broken.unwrap_err().storage_fault(), Some(StorageFault::Corrupt));
    assert_eq!(db.storage_problem().expect("a problem").fault, StorageFault::Corrupt);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_without_changes_says_nothing_about_a_full_disk() {
    let db = emergent_testkit::TestDb::postgres().await;
    let full = "DO $$ BEGIN RAISE EXCEPTION 'no space left' USING ERRCODE = 'disk_full'; END $$";
    let refused = db.write(move |tx| tx.execute(full, params![])).await.unwrap_err();
    assert_eq!(refused.storage_fault(), Some(StorageFault::Full), "{refused:?}");
    let nothing = |tx: &mut Tx<'_>| tx.execute("DELETE FROM leases WHERE name = 'x'", params![]);
    assert_eq!(db.write(nothing).await.unwrap(), 0);
    db.write(|tx| tx.query("SELECT name FROM leases FOR UPDATE", params![], |_| Ok(()))).await.unwrap();
    assert_eq!(db.storage_problem().expect("still").fault, StorageFault::Full);
    db.write(|tx| {
        let added = "INSERT INTO leases (name, owner, until) VALUES ('a', 'x', now()) RETURNING name";
        tx.query(added, params![], |_| Ok(()))
    })
    .await
    .unwrap();
    assert_eq!(db.storage_problem().expect("still").fault, StorageFault::Full, "a small write may fit");
    emergent_store::health::check(&db, emergent_domain::time::Timestamp::from_micros(1)).await.unwrap();
    assert_eq!(db.storage_problem(), None);
}

emergent_testkit::both_engines! {
    async fn a_hook_that_panics_ends_neither_its_write_nor_the_writer(db: TestDb) {
        let written = db
            .write(|tx| {
                add(tx, "a", 1)?;
                tx.after_commit(|| panic!("a hook of this test panics"));
                Ok::<_, Error>(())
            })
            .await;
        assert!(written.is_ok(), "{written:?}");
        db.write(|tx| add(tx, "b", 1)).await.unwrap();
        assert_eq!(number(&db, ROWS).await, 2);
    }
}

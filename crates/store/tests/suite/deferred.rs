//! Statements of which only their failure matters. On PostgreSQL they are sent with the next statement or with the
//! commit; what a transaction does is the same on both engines.

use emergent_store::{Error, Tx, params};
use emergent_testkit::{TestDb, both_engines};

use crate::number;

const ROWS: &str = "SELECT count(*) FROM leases";

fn add_later(tx: &mut Tx<'_>, name: &str) -> Result<(), Error> {
    tx.execute_later(
        "INSERT INTO leases (name, owner, until) SELECT $1, 'x', max(applied_at) FROM schema_migrations",
        params![name],
    )
}

fn count(tx: &mut Tx<'_>) -> Result<i64, Error> {
    Ok(tx.query_opt(ROWS, params![], |row| row.get(0))?.unwrap_or(0))
}

both_engines! {
    async fn a_later_statement_of_the_transaction_sees_what_was_written(db: TestDb) {
        let counts = db
            .write(|tx| {
                add_later(tx, "one")?;
                let first = count(tx)?;
                for name in 0..40 {
                    add_later(tx, &format!("row {name}"))?;
                }
                Ok::<_, Error>((first, count(tx)?))
            })
            .await
            .unwrap();
        assert_eq!(counts, (1, 41));
        assert_eq!(number(&db, ROWS).await, 41);
    }

    async fn a_transaction_of_nothing_else_is_committed(db: TestDb) {
        db.write(|tx| add_later(tx, "one")).await.unwrap();
        db.write(|_| Ok::<_, Error>(())).await.unwrap();
        assert_eq!(number(&db, ROWS).await, 1);
    }

    async fn nothing_is_left_of_a_transaction_that_fails_afterwards(db: TestDb) {
        let done: Result<(), Error> = db
            .write(|tx| {
                add_later(tx, "half")?;
                Err(Error::Closed)
            })
            .await;
        assert!(matches!(done, Err(Error::Closed)));
        db.write(|tx| add_later(tx, "next")).await.unwrap();
        assert_eq!(number(&db, ROWS).await, 1, "and the connection is fit for the next transaction");
    }

    async fn its_failure_fails_the_transaction(db: TestDb) {
        db.write(|tx| add_later(tx, "one")).await.unwrap();
        // At the commit, and before another statement.
        for reads in [false, true] {
            let done = db.write(move |tx| {
                add_later(tx, "two")?;
                add_later(tx, "one")?;
                if reads { count(tx) } else { Ok(0) }
            });
            assert!(done.await.is_err(), "`one` is there already");
            assert_eq!(number(&db, ROWS).await, 1, "nothing of it is there");
        }
        // A statement that cannot even be prepared.
        let done = db.write(|tx| {
            add_later(tx, "two")?;
            tx.execute_later("INSERT INTO no_such_table VALUES (1)", params![])
        });
        assert!(done.await.is_err());
        db.write(|tx| add_later(tx, "three")).await.unwrap();
        assert_eq!(number(&db, ROWS).await, 2);
    }

    async fn what_follows_a_statement_that_cannot_be_prepared_is_not_committed_by_itself(db: TestDb) {
        let done = db.write(|tx| {
            let _ = tx.execute_later("INSERT INTO no_such_table VALUES (1)", params![]);
            let _ = count(tx);
            let _ = add_later(tx, "one");
            let _ = tx.execute("DELETE FROM leases", params![]);
            Ok::<_, Error>(())
        });
        assert!(done.await.is_err());
        assert_eq!(number(&db, ROWS).await, 0);
        db.write(|tx| add_later(tx, "two")).await.unwrap();
        assert_eq!(number(&db, ROWS).await, 1, "and the connection is fit for the next transaction");
    }

    async fn many_rows_are_inserted_in_their_order_and_duplicates_are_skipped(db: TestDb) {
        let inserted = db
            .write(|tx| {
                let now: emergent_domain::time::Timestamp = "2026-01-31T08:00:00Z".parse().unwrap();
                let rows: Vec<Vec<_>> = (0..2_500_i64)
                    .map(|n| params![format!("name {}", n % 2_000), format!("{n}"), now].to_vec())
                    .collect();
                tx.insert_many(
                    "INSERT INTO leases (name, owner, until) VALUES",
                    3,
                    &rows,
                    "ON CONFLICT (name) DO NOTHING",
                )
            })
            .await
            .unwrap();
        assert_eq!(inserted, 2_000);
        let first = "SELECT count(*) FROM leases WHERE owner = substr(name, 6)";
        assert_eq!(number(&db, first).await, 2_000, "the first of the same name is the one that is kept");
    }
}

/// A statement that is refused before it is sent, because a name is not a number.
fn add_unencodable(tx: &mut Tx<'_>) -> Result<(), Error> {
    tx.execute_later(
        "INSERT INTO leases (name, owner, until) SELECT $1, 'x', max(applied_at) FROM schema_migrations",
        params![5_i64],
    )
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_committed_if_one_of_them_cannot_be_encoded() {
    let test = TestDb::postgres().await;
    let db = &test.db;
    for reads in [false, true] {
        let done = db.write(move |tx| {
            add_later(tx, "one")?;
            add_unencodable(tx)?;
            add_later(tx, "two")?;
            if reads {
                let _ = count(tx);
            }
            Ok::<_, Error>(())
        });
        assert!(done.await.is_err());
        assert_eq!(number(db, ROWS).await, 0);
    }
    db.write(|tx| add_later(tx, "three")).await.unwrap();
    assert_eq!(number(db, ROWS).await, 1, "and the connection is fit for the next transaction");
}

//! Tests whether the database can be written.

use emergent_domain::time::Timestamp;

use crate::{Db, error::Result, params, storage_health::StorageFault, tx::Tx};

/// How many rows a trial writes: with their index, they take about a megabyte on both engines.
const TRIAL_ROWS: u32 = 30_000;

/// Tests whether the database can be written. A full disk often has room for one more row, and none for the object that
/// somebody wants to write. So once a write has failed for lack of room, the test writes as much as a large write does.
/// If that succeeds, the problem is over.
pub async fn check(db: &Db, now: Timestamp) -> Result<()> {
    if db.storage_problem().is_none_or(|problem| problem.fault != StorageFault::Full) {
        return db.write(move |tx| check_write(tx, now)).await;
    }
    // The rows are committed, because only a commit of SQLite needs the room.
    db.write(move |tx| {
        check_write(tx, now)?;
        remove_trial(tx)?;
        write_trial(tx)
    })
    .await?;
    db.write(remove_trial).await?;
    db.report_room();
    Ok(())
}

/// Writes the rows of a trial, which are copies of the row that [`check_write`] keeps. Those that another server is
/// writing at this moment are left to it.
fn write_trial(tx: &mut Tx<'_>) -> Result<()> {
    let sql = format!(
        "WITH RECURSIVE numbers (n) AS (SELECT 2 UNION ALL SELECT n + 1 FROM numbers WHERE n <= {TRIAL_ROWS})
         INSERT INTO write_checks (id, checked_at)
         SELECT n, checked_at FROM numbers CROSS JOIN write_checks WHERE id = 1
         ON CONFLICT (id) DO NOTHING"
    );
    tx.execute(&sql, params![])?;
    Ok(())
}

fn remove_trial(tx: &mut Tx<'_>) -> Result<()> {
    tx.execute("DELETE FROM write_checks WHERE id > 1", params![])?;
    Ok(())
}

/// Writes the row of `write_checks` that stays. A row that another server is writing at this moment is left to it: that
/// it can be locked shows as much.
fn check_write(tx: &mut Tx<'_>, now: Timestamp) -> Result<()> {
    let sql = format!(
        "UPDATE write_checks SET checked_at = $1
         WHERE id = (SELECT id FROM write_checks WHERE id = 1{})",
        tx.skip_locked()
    );
    if tx.execute(&sql, params![now])? == 0 {
        let sql = "INSERT INTO write_checks (id, checked_at) VALUES (1, $1) ON CONFLICT (id) DO NOTHING";
        tx.execute(sql, params![now])?;
    }
    Ok(())
}

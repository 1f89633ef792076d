//! Named leases for work that only one server should do. A lease has one owner at a time and expires.
//!
//! Callers pass the time in, so that a test decides when a lease expires. An owner that was silent for
//! longer than its lease learns at its next [`renew`] whether it lost the lease.

use emergent_domain::time::Timestamp;

use crate::{error::Result, params, tx::Tx};

/// Acquires a lease that has no owner, has expired, or already belongs to this owner; false when another
/// owner has it.
pub fn acquire(tx: &mut Tx<'_>, name: &str, owner: &str, until: Timestamp, now: Timestamp) -> Result<bool> {
    let acquired = tx.execute(
        "INSERT INTO leases (name, owner, until) VALUES ($1, $2, $3)
         ON CONFLICT (name) DO UPDATE SET owner = excluded.owner, until = excluded.until
         WHERE leases.until <= $4 OR leases.owner = excluded.owner",
        params![name, owner, until, now],
    )?;
    Ok(acquired == 1)
}

/// Extends a lease; false when the owner no longer has it. An expired lease that no other owner acquired in
/// the meantime still belongs to its owner.
pub fn renew(tx: &mut Tx<'_>, name: &str, owner: &str, until: Timestamp) -> Result<bool> {
    let renewed = tx.execute(
        "UPDATE leases SET until = $3 WHERE name = $1 AND owner = $2",
        params![name, owner, until],
    )?;
    Ok(renewed == 1)
}

/// Releases a lease; false when the owner no longer had it.
pub fn release(tx: &mut Tx<'_>, name: &str, owner: &str) -> Result<bool> {
    Ok(tx.execute("DELETE FROM leases WHERE name = $1 AND owner = $2", params![name, owner])? == 1)
}

/// Ends every lease, including those of jobs and workflows. Only for a process that has the database to
/// itself, such as a server with SQLite when it starts: the processes that owned the leases no longer run.
pub fn expire_all(tx: &mut Tx<'_>, now: Timestamp) -> Result<()> {
    tx.execute("UPDATE leases SET until = $1 WHERE until > $1", params![now])?;
    tx.execute(
        "UPDATE jobs SET lease_until = $1 WHERE status = 'running' AND lease_until > $1",
        params![now],
    )?;
    tx.execute("UPDATE workflows SET lease_until = $1 WHERE lease_until > $1", params![now])?;
    Ok(())
}

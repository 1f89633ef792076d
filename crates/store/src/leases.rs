//! Named leases: one holder at a time, until a moment. For what only one server should do.
//!
//! Times are handed in, so that a test decides when a lease lapses. A holder that was away longer
//! than its lease finds out at its next [`renew`].

use emergent_domain::time::Timestamp;

use crate::{error::Result, params, tx::Tx};

/// Takes a lease that is free, lapsed, or the owner's already; false when another holds it.
pub fn acquire(tx: &mut Tx<'_>, name: &str, owner: &str, until: Timestamp, now: Timestamp) -> Result<bool> {
    let taken = tx.execute(
        "INSERT INTO leases (name, owner, until) VALUES ($1, $2, $3)
         ON CONFLICT (name) DO UPDATE SET owner = excluded.owner, until = excluded.until
         WHERE leases.until <= $4 OR leases.owner = excluded.owner",
        params![name, owner, until, now],
    )?;
    Ok(taken == 1)
}

/// Keeps a lease longer; false when it is no longer the owner's. A lapsed lease that nobody took
/// meanwhile is still the owner's.
pub fn renew(tx: &mut Tx<'_>, name: &str, owner: &str, until: Timestamp) -> Result<bool> {
    let kept = tx.execute(
        "UPDATE leases SET until = $3 WHERE name = $1 AND owner = $2",
        params![name, owner, until],
    )?;
    Ok(kept == 1)
}

/// Gives a lease back; false when it was no longer the owner's.
pub fn release(tx: &mut Tx<'_>, name: &str, owner: &str) -> Result<bool> {
    Ok(tx.execute("DELETE FROM leases WHERE name = $1 AND owner = $2", params![name, owner])? == 1)
}

/// Ends every lease, those of jobs and workflows too. Only for a process that is alone with the database, as the
/// one that holds an embedded database is when it starts: whoever had them is dead.
pub fn expire_all(tx: &mut Tx<'_>, now: Timestamp) -> Result<()> {
    tx.execute("UPDATE leases SET until = $1 WHERE until > $1", params![now])?;
    tx.execute(
        "UPDATE jobs SET lease_until = $1 WHERE status = 'running' AND lease_until > $1",
        params![now],
    )?;
    tx.execute("UPDATE workflows SET lease_until = $1 WHERE lease_until > $1", params![now])?;
    Ok(())
}

//! Tests whether the database can be written.

use emergent_domain::time::Timestamp;

use crate::{error::Result, params, tx::Tx};

/// Writes the one row of `write_checks`. A row that another server is writing at this moment is left to it: that
/// it can be locked shows as much.
pub fn check_write(tx: &mut Tx<'_>, now: Timestamp) -> Result<()> {
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

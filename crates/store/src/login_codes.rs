//! One-time codes with which a browser logs in. Only their hashes are stored.

use emergent_domain::{ids::TokenId, time::Timestamp};

use crate::{error::Result, params, tx::Tx};

/// Inserts a code that stands for a token. `hash` is the hash of the code.
pub fn insert(
    tx: &mut Tx<'_>,
    hash: &[u8],
    token: TokenId,
    now: Timestamp,
    expires_at: Timestamp,
) -> Result<()> {
    tx.execute(
        "INSERT INTO login_codes (hash, token_id, created_at, expires_at) VALUES ($1, $2, $3, $4)",
        params![hash, token, now, expires_at],
    )?;
    Ok(())
}

/// Deletes all unused codes of a token but the newest `count`.
pub fn delete_older(tx: &mut Tx<'_>, token: TokenId, count: usize) -> Result<u64> {
    tx.execute(
        "DELETE FROM login_codes WHERE token_id = $1 AND used_at IS NULL AND hash NOT IN (
             SELECT hash FROM login_codes WHERE token_id = $1 AND used_at IS NULL
             ORDER BY created_at DESC, expires_at DESC, hash LIMIT $2)",
        params![token, count],
    )
}

/// Whether a code is known, has not expired and was not used before.
pub fn is_usable(tx: &mut Tx<'_>, hash: &[u8], now: Timestamp) -> Result<bool> {
    let sql = "SELECT 1 FROM login_codes WHERE hash = $1 AND used_at IS NULL AND expires_at > $2";
    Ok(tx.query_opt(sql, params![hash, now], |_| Ok(()))?.is_some())
}

/// Uses up a code and returns its token; `None` when it is unknown, has expired or was used before.
pub fn consume(tx: &mut Tx<'_>, hash: &[u8], now: Timestamp) -> Result<Option<TokenId>> {
    tx.query_opt(
        "UPDATE login_codes SET used_at = $2 WHERE hash = $1 AND used_at IS NULL AND expires_at > $2
         RETURNING token_id",
        params![hash, now],
        |row| row.get(0),
    )
}

/// Deletes up to `limit` codes that ended before a time, and returns how many there were.
pub fn delete_expired(tx: &mut Tx<'_>, before: Timestamp, limit: usize) -> Result<u64> {
    tx.execute(
        "DELETE FROM login_codes WHERE hash IN (
             SELECT hash FROM login_codes WHERE expires_at < $1 ORDER BY expires_at LIMIT $2)",
        params![before, limit],
    )
}

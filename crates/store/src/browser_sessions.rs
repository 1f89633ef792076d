//! Sessions of browsers. Only the hash of the secret of a session is stored.

use std::sync::Arc;

use emergent_domain::{
    browser_session::{BrowserSession, Login},
    ids::{BrowserSessionId, TokenId},
    time::Timestamp,
    token::Token,
};

use crate::{
    error::Result,
    page, params,
    row::{TableRow, row},
    tx::Tx,
    value::{Param, Row},
};

row! {
    BrowserSession in "browser_sessions" {
        id: "id",
        token: "token_id",
        created_at: "created_at",
        expires_at: "expires_at",
    }
}

/// Inserts a session. `hash` is the hash of its secret.
pub fn insert(tx: &mut Tx<'_>, session: &BrowserSession, hash: &[u8]) -> Result<()> {
    tx.insert_row(session, [("hash", Param::from(hash))], "")?;
    Ok(())
}

/// Ends all sessions of a token but the newest `count`, and returns those that it ended.
pub fn delete_older(tx: &mut Tx<'_>, token: TokenId, count: usize) -> Result<Vec<BrowserSession>> {
    let sql = format!(
        "DELETE FROM browser_sessions WHERE token_id = $1 AND id NOT IN (
             SELECT id FROM browser_sessions WHERE token_id = $1 ORDER BY created_at DESC, id DESC LIMIT $2)
         RETURNING {}",
        BrowserSession::COLUMNS
    );
    tx.query(&sql, params![token, count], BrowserSession::from_row)
}

/// The sessions whose secrets have these hashes, with their tokens, even if they are expired or revoked. Those
/// without a token, or whose token belongs to a deleted project, are left out.
pub fn list_by_hash(tx: &mut Tx<'_>, hashes: &[&[u8]]) -> Result<Vec<(Vec<u8>, Login)>> {
    let mut logins = Vec::new();
    for list in page::in_chunks(hashes) {
        let sql = format!(
            "SELECT {}, {}, s.hash FROM browser_sessions AS s JOIN tokens AS t ON t.id = s.token_id
             LEFT JOIN projects AS p ON p.id = t.project_id
             WHERE s.hash IN ({}) AND (t.project_id IS NULL OR (p.id IS NOT NULL AND p.deleted_at IS NULL))",
            Token::columns_of("t"),
            BrowserSession::columns_of("s"),
            page::placeholders(1, list.len())
        );
        let params: Vec<Param<'_>> = list.iter().map(|hash| Param::from(*hash)).collect();
        let read = |row: &Row<'_>| {
            let session = BrowserSession::from_row_at(row, Token::COLUMN_COUNT)?;
            let hash = row.get(Token::COLUMN_COUNT + BrowserSession::COLUMN_COUNT)?;
            Ok((hash, Login { token: Arc::new(Token::from_row(row)?), session: Some(session) }))
        };
        logins.extend(tx.query(&sql, &params, read)?);
    }
    Ok(logins)
}

/// Moves the end of a session to a later time. A session that has ended stays so.
pub fn renew(tx: &mut Tx<'_>, id: BrowserSessionId, expires_at: Timestamp, now: Timestamp) -> Result<()> {
    tx.execute(
        "UPDATE browser_sessions SET expires_at = $2 WHERE id = $1 AND expires_at < $2 AND expires_at > $3",
        params![id, expires_at, now],
    )?;
    Ok(())
}

/// Ends a session; false when it has ended before.
pub fn delete(tx: &mut Tx<'_>, id: BrowserSessionId) -> Result<bool> {
    Ok(tx.execute("DELETE FROM browser_sessions WHERE id = $1", params![id])? == 1)
}

/// Deletes up to `limit` sessions that ended before a time, and returns how many there were.
pub fn delete_expired(tx: &mut Tx<'_>, before: Timestamp, limit: usize) -> Result<u64> {
    tx.execute(
        "DELETE FROM browser_sessions WHERE id IN (
             SELECT id FROM browser_sessions WHERE expires_at < $1 ORDER BY expires_at LIMIT $2)",
        params![before, limit],
    )
}

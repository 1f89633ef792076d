//! Tokens, found by the hash of their secret.

use emergent_domain::{
    cursor::{Cursor, Page, ResultPage},
    ids::{ProjectId, TokenId},
    time::Timestamp,
    token::Token,
};

use crate::{
    error::Result,
    page, params,
    tx::Tx,
    value::{Param, Row, json_strings},
};

const COLUMNS: &str = "t.id, t.project_id, t.name, t.scopes, t.created_at, t.expires_at, t.revoked_at";

fn from_row(row: &Row<'_>) -> Result<Token> {
    let scopes: Vec<String> = row.get(3)?;
    Ok(Token {
        id: row.get(0)?,
        project: row.get(1)?,
        name: row.get(2)?,
        // A scope this program does not know gives no right.
        scopes: scopes.iter().filter_map(|scope| scope.parse().ok()).collect(),
        created_at: row.get(4)?,
        expires_at: row.get(5)?,
        revoked_at: row.get(6)?,
    })
}

/// Keeps a token; false when another has the same secret.
pub fn insert(tx: &mut Tx<'_>, token: &Token, hash: &[u8]) -> Result<bool> {
    let scopes: Vec<String> = token.scopes.iter().map(ToString::to_string).collect();
    let made = tx.execute(
        "INSERT INTO tokens (id, project_id, name, hash, scopes, created_at, expires_at, revoked_at)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8) ON CONFLICT (hash) DO NOTHING",
        &[
            Param::from(token.id),
            Param::from(token.project),
            Param::from(&token.name),
            Param::from(hash),
            json_strings(&scopes),
            Param::from(token.created_at),
            Param::from(token.expires_at),
            Param::from(token.revoked_at),
        ],
    )?;
    Ok(made == 1)
}

/// The token of a secret; those of a deleted project are nobody's.
pub fn get_by_hash(tx: &mut Tx<'_>, hash: &[u8]) -> Result<Option<Token>> {
    let sql = format!(
        "SELECT {COLUMNS} FROM tokens AS t LEFT JOIN projects AS p ON p.id = t.project_id
         WHERE t.hash = $1 AND (t.project_id IS NULL OR (p.id IS NOT NULL AND p.deleted_at IS NULL))"
    );
    tx.query_opt(&sql, params![hash], from_row)
}

pub fn get(tx: &mut Tx<'_>, id: TokenId) -> Result<Option<Token>> {
    tx.query_opt(&format!("SELECT {COLUMNS} FROM tokens AS t WHERE t.id = $1"), params![id], from_row)
}

/// The tokens of a project, or all; newest first.
pub fn list(tx: &mut Tx<'_>, project: Option<ProjectId>, page: &Page) -> Result<ResultPage<Token>> {
    let mut params = Vec::new();
    let mut conditions = String::new();
    if let Some(project) = project {
        params.push(Param::from(project));
        conditions.push_str(" AND t.project_id = $1");
    }
    let (after, values) = page::after_cursor_sql(page, "t.created_at", "t.id", params.len() + 1);
    params.extend(values);
    let sql = format!(
        "SELECT {COLUMNS} FROM tokens AS t WHERE 1 = 1{conditions}{after}
         ORDER BY t.created_at DESC, t.id DESC{}",
        page::limit_sql(page)
    );
    let rows = tx.query(&sql, &params, from_row)?;
    Ok(ResultPage::from_rows(rows, page.limit, |token| Cursor {
        created_at: token.created_at,
        id: token.id.0,
    }))
}

/// Ends a token; one that has ended keeps its moment.
pub fn revoke(tx: &mut Tx<'_>, id: TokenId, now: Timestamp) -> Result<()> {
    tx.execute("UPDATE tokens SET revoked_at = $2 WHERE id = $1 AND revoked_at IS NULL", params![id, now])?;
    Ok(())
}

/// Lets a token be used again, without an end.
pub fn reinstate(tx: &mut Tx<'_>, id: TokenId) -> Result<()> {
    tx.execute("UPDATE tokens SET revoked_at = NULL, expires_at = NULL WHERE id = $1", params![id])?;
    Ok(())
}

//! API tokens. Only the hash of the secret of a token is stored.

use std::collections::BTreeSet;

use emergent_domain::{
    cursor::{Cursor, Page, ResultPage},
    ids::{ProjectId, TokenId},
    time::Timestamp,
    token::{Scope, Token},
};

use crate::{
    error::Result,
    page, params,
    row::{RowReader, TableRow, row},
    tx::Tx,
    value::{Param, Row, json_strings},
};

row! {
    Token in "tokens" {
        id: "id",
        project: "project_id",
        name: "name",
        scopes: ScopesColumn("scopes"),
        created_at: "created_at",
        expires_at: "expires_at",
        revoked_at: "revoked_at",
    }
}

/// Codec of the scopes. A scope that this version does not know is skipped when it is read: the token stays
/// usable for its other scopes. The stored list is not changed, because scopes are never written again.
struct ScopesColumn;

impl ScopesColumn {
    fn read(reader: &mut RowReader<'_, '_>, [column]: [&'static str; 1]) -> Result<BTreeSet<Scope>> {
        Ok(reader.next::<Vec<String>>(column)?.iter().filter_map(|scope| scope.parse().ok()).collect())
    }

    fn write(scopes: &BTreeSet<Scope>, params: &mut Vec<Param<'_>>) -> Result<()> {
        let names: Vec<String> = scopes.iter().map(ToString::to_string).collect();
        params.push(json_strings(&names));
        Ok(())
    }
}

/// Inserts a token; false when another token has the same secret. `hash` is the hash of the secret.
pub fn insert(tx: &mut Tx<'_>, token: &Token, hash: &[u8]) -> Result<bool> {
    let inserted = tx.insert_row(token, [("hash", Param::from(hash))], "ON CONFLICT (hash) DO NOTHING")?;
    Ok(inserted == 1)
}

/// The token whose secret has this hash, even if it is revoked or expired. `None` when there is no such
/// token or its project was deleted.
pub fn get_by_hash(tx: &mut Tx<'_>, hash: &[u8]) -> Result<Option<Token>> {
    let sql = format!(
        "SELECT {} FROM tokens AS t LEFT JOIN projects AS p ON p.id = t.project_id
         WHERE t.hash = $1 AND (t.project_id IS NULL OR (p.id IS NOT NULL AND p.deleted_at IS NULL))",
        Token::columns_of("t")
    );
    tx.query_opt(&sql, params![hash], Token::from_row)
}

/// Like [`get_by_hash`], for many secrets. Those without a token are left out.
pub fn list_by_hash(tx: &mut Tx<'_>, hashes: &[&[u8]]) -> Result<Vec<(Vec<u8>, Token)>> {
    let mut tokens = Vec::new();
    for list in page::in_chunks(hashes) {
        let sql = format!(
            "SELECT {}, t.hash FROM tokens AS t LEFT JOIN projects AS p ON p.id = t.project_id
             WHERE t.hash IN ({}) AND (t.project_id IS NULL OR (p.id IS NOT NULL AND p.deleted_at IS NULL))",
            Token::columns_of("t"),
            page::placeholders(1, list.len())
        );
        let params: Vec<Param<'_>> = list.iter().map(|hash| Param::from(*hash)).collect();
        let read = |row: &Row<'_>| Ok((row.get(Token::COLUMN_COUNT)?, Token::from_row(row)?));
        tokens.extend(tx.query(&sql, &params, read)?);
    }
    Ok(tokens)
}

pub fn get(tx: &mut Tx<'_>, id: TokenId) -> Result<Option<Token>> {
    let sql = format!("SELECT {} FROM tokens WHERE id = $1", Token::COLUMNS);
    tx.query_opt(&sql, params![id], Token::from_row)
}

/// Like [`get`], and locks the token: it is not revoked before the end of the transaction.
pub fn lock(tx: &mut Tx<'_>, id: TokenId) -> Result<Option<Token>> {
    let sql = format!("SELECT {} FROM tokens WHERE id = $1{}", Token::COLUMNS, tx.for_update());
    tx.query_opt(&sql, params![id], Token::from_row)
}

/// The tokens that these tokens created, according to the audit log.
pub fn list_created_by(tx: &mut Tx<'_>, creators: &[TokenId]) -> Result<Vec<Token>> {
    let mut ids = Vec::new();
    for list in page::in_chunks(creators) {
        let sql = format!(
            "SELECT target_id FROM audit_log WHERE action = 'token.create' AND token_id IN ({})",
            page::placeholders(1, list.len())
        );
        let params: Vec<Param<'_>> = list.iter().map(|id| Param::from(*id)).collect();
        let found: Vec<String> = tx.query(&sql, &params, |row| row.get(0))?;
        ids.extend(found.iter().filter_map(|id| id.parse::<TokenId>().ok()));
    }
    let mut tokens = Vec::new();
    for list in page::in_chunks(&ids) {
        let placeholders = page::placeholders(1, list.len());
        let sql = format!("SELECT {} FROM tokens WHERE id IN ({placeholders})", Token::COLUMNS);
        let params: Vec<Param<'_>> = list.iter().map(|id| Param::from(*id)).collect();
        tokens.extend(tx.query(&sql, &params, Token::from_row)?);
    }
    Ok(tokens)
}

/// The tokens of a project, or all tokens when `project` is `None`, newest first.
pub fn list(tx: &mut Tx<'_>, project: Option<ProjectId>, page: &Page) -> Result<ResultPage<Token>> {
    let mut params = Vec::new();
    let mut conditions = String::new();
    if let Some(project) = project {
        params.push(Param::from(project));
        conditions.push_str(" AND project_id = $1");
    }
    let (after, values) = page::after_cursor_sql(page, "created_at", "id", params.len() + 1);
    params.extend(values);
    let sql = format!(
        "SELECT {} FROM tokens WHERE 1 = 1{conditions}{after} ORDER BY created_at DESC, id DESC{}",
        Token::COLUMNS,
        page::limit_sql(page)
    );
    page::query_page(tx, page.limit, &sql, &params, Token::from_row, |token| Cursor {
        created_at: token.created_at,
        id: token.id.0,
    })
}

/// Revokes a token. A token that is revoked already keeps its time of revocation.
pub fn revoke(tx: &mut Tx<'_>, id: TokenId, now: Timestamp) -> Result<()> {
    tx.execute("UPDATE tokens SET revoked_at = $2 WHERE id = $1 AND revoked_at IS NULL", params![id, now])?;
    Ok(())
}

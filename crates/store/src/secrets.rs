//! Sealed secrets, and which keys there are. What is sealed is bytes here, and stays that.

use std::collections::BTreeMap;

use emergent_domain::{
    ids::{ProjectId, TokenId},
    time::Timestamp,
};

use crate::{
    error::Result,
    params,
    row::{TableRow, read_row},
    tx::Tx,
};

/// A key by its public name; the key itself is never here.
#[derive(Debug, Clone)]
pub struct KeyRow {
    pub id: String,
    /// What only the key itself can have sealed.
    pub proof: Vec<u8>,
    pub retired_at: Option<Timestamp>,
}

read_row! {
    KeyRow in "secret_keys" { id: "id", proof: "proof", retired_at: "retired_at" }
}

impl KeyRow {
    /// Whether secrets may be sealed with it.
    pub fn is_active(&self) -> bool {
        self.retired_at.is_none()
    }
}

/// What a reader of the keys means to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LockMode {
    None,
    /// Seal with one of them: they stay as they are until the transaction ends.
    ForShare,
    /// Change them: waits for the transactions that seal with them.
    ForUpdate,
}

/// Oldest first.
pub fn list_keys(tx: &mut Tx<'_>, hold: LockMode) -> Result<Vec<KeyRow>> {
    let hold = match hold {
        LockMode::None => "",
        LockMode::ForShare => tx.for_share(),
        LockMode::ForUpdate => tx.for_update(),
    };
    let columns = KeyRow::COLUMNS;
    let sql = format!("SELECT {columns} FROM secret_keys ORDER BY created_at, id{hold}");
    tx.query(&sql, &[], KeyRow::from_row)
}

pub fn insert_key(tx: &mut Tx<'_>, id: &str, proof: &[u8], now: Timestamp) -> Result<()> {
    tx.execute(
        "INSERT INTO secret_keys (id, proof, created_at) VALUES ($1, $2, $3)
         ON CONFLICT (id) DO UPDATE SET proof = excluded.proof, retired_at = NULL",
        params![id, proof, now],
    )?;
    Ok(())
}

/// Nothing is sealed any more but with this key.
pub fn retire_other_keys(tx: &mut Tx<'_>, id: &str, now: Timestamp) -> Result<()> {
    tx.execute(
        "UPDATE secret_keys SET retired_at = $2 WHERE id <> $1 AND retired_at IS NULL",
        params![id, now],
    )?;
    Ok(())
}

/// The ids of the keys that secrets are sealed with.
pub fn keys_in_use(tx: &mut Tx<'_>) -> Result<Vec<String>> {
    tx.query("SELECT DISTINCT key_id FROM secrets", &[], |row| row.get(0))
}

/// The public part of a secret.
#[derive(Debug, Clone)]
pub struct SecretRow {
    pub name: String,
    pub version: i64,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

read_row! {
    SecretRow in "secrets" {
        name: "name",
        version: "version",
        created_at: "created_at",
        updated_at: "updated_at",
    }
}

const COLUMNS: &str = SecretRow::COLUMNS;

/// Stores a sealed value, in place of the previous one.
pub fn upsert(
    tx: &mut Tx<'_>,
    project: ProjectId,
    name: &str,
    key: &str,
    sealed: &[u8],
    author: Option<TokenId>,
    now: Timestamp,
) -> Result<SecretRow> {
    let sql = format!(
        "INSERT INTO secrets (project_id, name, key_id, sealed, version, created_at, updated_at, author_token)
         VALUES ($1, $2, $3, $4, 1, $5, $5, $6)
         ON CONFLICT (project_id, name) DO UPDATE SET key_id = excluded.key_id, sealed = excluded.sealed,
             version = secrets.version + 1, updated_at = excluded.updated_at,
             author_token = excluded.author_token
         RETURNING {COLUMNS}"
    );
    let kept = tx.query_opt(&sql, params![project, name, key, sealed, now, author], SecretRow::from_row)?;
    kept.ok_or(crate::Error::Broken)
}

/// By name.
pub fn list(tx: &mut Tx<'_>, project: ProjectId) -> Result<Vec<SecretRow>> {
    let sql = format!("SELECT {COLUMNS} FROM secrets WHERE project_id = $1 ORDER BY name");
    tx.query(&sql, params![project], SecretRow::from_row)
}

pub fn count(tx: &mut Tx<'_>, project: ProjectId) -> Result<usize> {
    let count: Option<i64> =
        tx.query_opt("SELECT count(*) FROM secrets WHERE project_id = $1", params![project], |row| {
            row.get(0)
        })?;
    Ok(usize::try_from(count.unwrap_or(0)).unwrap_or(usize::MAX))
}

/// What was deleted; `None` when there is none of this name.
pub fn delete(tx: &mut Tx<'_>, project: ProjectId, name: &str) -> Result<Option<SecretRow>> {
    let sql = format!("DELETE FROM secrets WHERE project_id = $1 AND name = $2 RETURNING {COLUMNS}");
    tx.query_opt(&sql, params![project, name], SecretRow::from_row)
}

/// Key and sealed value of each of these names that there is.
pub fn get_sealed(
    tx: &mut Tx<'_>,
    project: ProjectId,
    names: &[String],
) -> Result<BTreeMap<String, (String, Vec<u8>)>> {
    let mut all = BTreeMap::new();
    for name in names {
        let found = tx.query_opt(
            "SELECT key_id, sealed FROM secrets WHERE project_id = $1 AND name = $2",
            params![project, name],
            |row| Ok((row.get(0)?, row.get(1)?)),
        )?;
        all.extend(found.map(|sealed| (name.clone(), sealed)));
    }
    Ok(all)
}

/// A sealed value and where it belongs.
pub struct SealedRow {
    pub project: ProjectId,
    pub name: String,
    pub key: String,
    pub sealed: Vec<u8>,
}

read_row! {
    SealedRow in "secrets" { project: "project_id", name: "name", key: "key_id", sealed: "sealed" }
}

/// Secrets of all projects that are sealed with another key than this.
pub fn list_sealed_with_other_keys(tx: &mut Tx<'_>, key: &str, limit: usize) -> Result<Vec<SealedRow>> {
    let sql = format!(
        "SELECT {} FROM secrets WHERE key_id <> $1 ORDER BY project_id, name LIMIT $2{}",
        SealedRow::COLUMNS,
        tx.for_update()
    );
    tx.query(&sql, params![key, limit], SealedRow::from_row)
}

/// The same value under another key: its version and its time stay.
pub fn reseal(tx: &mut Tx<'_>, project: ProjectId, name: &str, key: &str, sealed: &[u8]) -> Result<()> {
    tx.execute(
        "UPDATE secrets SET key_id = $3, sealed = $4 WHERE project_id = $1 AND name = $2",
        params![project, name, key, sealed],
    )?;
    Ok(())
}

/// The project's external servers by name, each with the JSON that says how it is reached.
pub fn server_configs(tx: &mut Tx<'_>, project: ProjectId) -> Result<Vec<(String, String)>> {
    tx.query(
        "SELECT name, config FROM project_mcp_servers WHERE project_id = $1 ORDER BY name",
        params![project],
        |row| Ok((row.get(0)?, row.get(1)?)),
    )
}

//! Sealed secrets and the ids of the keys that seal them. This module stores sealed bytes; it never opens
//! them.

use std::collections::BTreeMap;

use emergent_domain::{
    ids::{ProjectId, TokenId},
    time::Timestamp,
};

use crate::{
    a2a_push,
    error::Result,
    params,
    row::{TableRow, read_row},
    secret_bindings,
    tx::Tx,
};

/// The public part of a key. The key itself is not stored in the database.
#[derive(Debug, Clone)]
pub struct KeyRow {
    pub id: String,
    /// A known value sealed with the key. It proves that a configured key is this key.
    pub proof: Vec<u8>,
    /// Since when nothing is sealed with the key any more; `None` for an active key.
    pub retired_at: Option<Timestamp>,
}

read_row! {
    KeyRow in "secret_keys" { id: "id", proof: "proof", retired_at: "retired_at" }
}

impl KeyRow {
    /// Whether secrets may be sealed with this key.
    pub fn is_active(&self) -> bool {
        self.retired_at.is_none()
    }
}

/// How the rows of the keys are locked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LockMode {
    None,
    /// For a caller that seals with a key: the keys cannot change until the transaction ends.
    ForShare,
    /// For a caller that changes keys: waits for the transactions that seal with them.
    ForUpdate,
}

/// All keys, oldest first.
pub fn list_keys(tx: &mut Tx<'_>, mode: LockMode) -> Result<Vec<KeyRow>> {
    let lock = match mode {
        LockMode::None => "",
        LockMode::ForShare => tx.for_share(),
        LockMode::ForUpdate => tx.for_update(),
    };
    let columns = KeyRow::COLUMNS;
    let sql = format!("SELECT {columns} FROM secret_keys ORDER BY created_at, id{lock}");
    tx.query(&sql, &[], KeyRow::from_row)
}

/// Inserts a key, or makes a retired key active again.
pub fn insert_key(tx: &mut Tx<'_>, id: &str, proof: &[u8], now: Timestamp) -> Result<()> {
    tx.execute(
        "INSERT INTO secret_keys (id, proof, created_at) VALUES ($1, $2, $3)
         ON CONFLICT (id) DO UPDATE SET proof = excluded.proof, retired_at = NULL",
        params![id, proof, now],
    )?;
    Ok(())
}

/// Retires all keys except this one, so that new values are sealed with this key only.
pub fn retire_other_keys(tx: &mut Tx<'_>, id: &str, now: Timestamp) -> Result<()> {
    tx.execute(
        "UPDATE secret_keys SET retired_at = $2 WHERE id <> $1 AND retired_at IS NULL",
        params![id, now],
    )?;
    Ok(())
}

/// The ids of the keys that stored secrets are sealed with.
pub fn keys_in_use(tx: &mut Tx<'_>) -> Result<Vec<String>> {
    let mut keys: Vec<String> = tx.query("SELECT DISTINCT key_id FROM secrets", &[], |row| row.get(0))?;
    keys.extend(a2a_push::keys_in_use(tx)?);
    keys.sort();
    keys.dedup();
    Ok(keys)
}

/// The public part of a secret.
#[derive(Debug, Clone)]
pub struct SecretRow {
    pub name: String,
    pub version: i64,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    /// The token that gave the current value.
    pub author: Option<TokenId>,
}

read_row! {
    SecretRow in "secrets" {
        name: "name",
        version: "version",
        created_at: "created_at",
        updated_at: "updated_at",
        author: "author_token",
    }
}

const COLUMNS: &str = SecretRow::COLUMNS;

/// Stores a sealed value and replaces the previous one. `key` is the id of the key that sealed it.
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
    let row = tx.query_opt(&sql, params![project, name, key, sealed, now, author], SecretRow::from_row)?;
    row.ok_or(crate::Error::Broken)
}

/// The secrets of a project, by name.
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

/// Deletes a secret and returns it; `None` when the project has no secret of this name.
pub fn delete(tx: &mut Tx<'_>, project: ProjectId, name: &str) -> Result<Option<SecretRow>> {
    let sql = format!("DELETE FROM secrets WHERE project_id = $1 AND name = $2 RETURNING {COLUMNS}");
    tx.query_opt(&sql, params![project, name], SecretRow::from_row)
}

/// The sealed value of a secret, for a destination.
#[derive(Debug, Clone)]
pub struct SealedSecret {
    /// The id of the key that sealed the value.
    pub key: String,
    pub sealed: Vec<u8>,
    /// Whether a binding that counts allows the destination.
    pub is_bound: bool,
}

/// Where a secret is sent, as bindings name it.
#[derive(Debug, Clone, Copy)]
pub struct BoundTargets<'a> {
    pub current: &'a str,
    /// How earlier versions named it, as far as such bindings still count.
    pub earlier: [Option<&'a str>; 2],
}

/// The sealed value of each secret, by name, and whether the owner may send it to the target. Names without a
/// secret are left out. One statement reads both, so that a value that was replaced in the meantime is not
/// sent where only its predecessor was allowed.
pub fn get_sealed(
    tx: &mut Tx<'_>,
    project: ProjectId,
    names: &[String],
    owner: &str,
    targets: BoundTargets<'_>,
) -> Result<BTreeMap<String, SealedSecret>> {
    let sql = format!(
        "SELECT s.key_id, s.sealed, EXISTS (
             SELECT 1 FROM secret_bindings AS b WHERE b.project_id = s.project_id AND b.owner = $3
                 AND b.secret = s.name AND (b.target = $4 OR b.target = $5 OR b.target = $6) AND {})
         FROM secrets AS s WHERE s.project_id = $1 AND s.name = $2",
        secret_bindings::COUNTS_SQL
    );
    let mut sealed_by_name = BTreeMap::new();
    for name in names {
        let [first, second] = targets.earlier;
        let params = params![project, name, owner, targets.current, first, second];
        let sealed = tx.query_opt(&sql, params, |row| {
            Ok(SealedSecret { key: row.get(0)?, sealed: row.get(1)?, is_bound: row.get(2)? })
        })?;
        sealed_by_name.extend(sealed.map(|sealed| (name.clone(), sealed)));
    }
    Ok(sealed_by_name)
}

/// The secret of this name.
pub fn get(tx: &mut Tx<'_>, project: ProjectId, name: &str) -> Result<Option<SecretRow>> {
    let sql = format!("SELECT {COLUMNS} FROM secrets WHERE project_id = $1 AND name = $2");
    tx.query_opt(&sql, params![project, name], SecretRow::from_row)
}

/// A sealed value with its project, its name and the id of its key.
pub struct SealedRow {
    pub project: ProjectId,
    pub name: String,
    pub key: String,
    pub sealed: Vec<u8>,
}

read_row! {
    SealedRow in "secrets" { project: "project_id", name: "name", key: "key_id", sealed: "sealed" }
}

/// The sealed value of a secret if this token gave it.
pub fn get_value(
    tx: &mut Tx<'_>,
    project: ProjectId,
    name: &str,
    author: Option<TokenId>,
) -> Result<Option<SealedRow>> {
    let Some(author) = author else { return Ok(None) };
    let sql = format!(
        "SELECT {} FROM secrets WHERE project_id = $1 AND name = $2 AND author_token = $3",
        SealedRow::COLUMNS
    );
    tx.query_opt(&sql, params![project, name, author], SealedRow::from_row)
}

/// Secrets of all projects, and what is sealed like them, that are sealed with another key than this, `limit` at most,
/// locked until the transaction ends.
pub fn list_sealed_with_other_keys(tx: &mut Tx<'_>, key: &str, limit: usize) -> Result<Vec<SealedRow>> {
    let sql = format!(
        "SELECT {} FROM secrets WHERE key_id <> $1 ORDER BY project_id, name LIMIT $2{}",
        SealedRow::COLUMNS,
        tx.for_update()
    );
    let mut found = tx.query(&sql, params![key, limit], SealedRow::from_row)?;
    if found.len() < limit {
        found.extend(a2a_push::list_sealed_with_other_keys(tx, key, limit - found.len())?);
    }
    Ok(found)
}

/// Stores the same value sealed with another key. The version and the times of the secret do not change.
pub fn reseal(tx: &mut Tx<'_>, project: ProjectId, name: &str, key: &str, sealed: &[u8]) -> Result<()> {
    if a2a_push::reseal(tx, name, key, sealed)? {
        return Ok(());
    }
    tx.execute(
        "UPDATE secrets SET key_id = $3, sealed = $4 WHERE project_id = $1 AND name = $2",
        params![project, name, key, sealed],
    )?;
    Ok(())
}

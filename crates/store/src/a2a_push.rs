//! Push notifications of A2A: where the updates of a task are sent, and up to which event they were.
//!
//! A delivery is a job that is written in the transaction that changes the task, at most one for each configuration.
//! It sends what was recorded after the position of the configuration, in order, and moves the position. `api`
//! delivers them.

use emergent_domain::{
    ids::{ProjectId, RunId, TokenId},
    json::JsonObject,
    run::Origin,
    time::Timestamp,
};
use uuid::Uuid;

use crate::{
    error::Result,
    jobs::{self, NewJob},
    params,
    row::{TableRow, read_row},
    runs,
    secrets::SealedRow,
    tx::Tx,
};

/// The queue of the deliveries.
pub const QUEUE: &str = "a2a-push";
/// After so many attempts, about an hour, a delivery is given up until the task changes again.
pub const MAX_ATTEMPTS: i64 = crate::webhooks::MAX_ATTEMPTS;
/// The names of what configurations seal begin with this.
const SECRET_PREFIX: &str = "A2A_PUSH_";

/// A stored configuration.
#[derive(Debug, Clone, PartialEq)]
pub struct PushConfig {
    /// The first run of the task.
    pub task: RunId,
    pub uid: Uuid,
    /// As the client names it.
    pub id: String,
    pub project: ProjectId,
    /// The token that set it.
    pub token: TokenId,
    pub url: String,
    /// The scheme of the header `Authorization`.
    pub auth_scheme: Option<String>,
    /// The id of the key that sealed `sealed`.
    pub key: Option<String>,
    pub sealed: Option<Vec<u8>>,
    /// The run whose updates are delivered; `None` before the first delivery.
    pub followed_run: Option<RunId>,
    /// The last event of that run that was delivered.
    pub after_seq: i64,
    pub created_at: Timestamp,
}

read_row! {
    PushConfig in "a2a_push_configs" {
        task: "run_id",
        uid: "uid",
        id: "id",
        project: "project_id",
        token: "token_id",
        url: "url",
        auth_scheme: "auth_scheme",
        key: "key_id",
        sealed: "sealed",
        followed_run: "followed_run_id",
        after_seq: "after_seq",
        created_at: "created_at",
    }
}

/// The name under which the token and the credentials of a configuration are sealed.
pub fn secret_name(uid: Uuid) -> String {
    format!("{SECRET_PREFIX}{}", uid.simple().to_string().to_ascii_uppercase())
}

fn uid_of(secret_name: &str) -> Option<Uuid> {
    secret_name.strip_prefix(SECRET_PREFIX)?.parse().ok()
}

/// Stores a configuration in place of the one with the same id, and starts its deliveries. False when the task has
/// `limit` others.
pub fn upsert(tx: &mut Tx<'_>, config: &PushConfig, limit: usize) -> Result<bool> {
    // Whoever changes the newest run of the task afterwards finds the configuration. What was changed before is
    // found by its first delivery.
    lock_newest(tx, config.project, config.task)?;
    delete(tx, config.task, &config.id)?;
    let count: Option<i64> = tx.query_opt(
        "SELECT count(*) FROM a2a_push_configs WHERE run_id = $1",
        params![config.task],
        |row| row.get(0),
    )?;
    if usize::try_from(count.unwrap_or(0)).unwrap_or(usize::MAX) >= limit {
        return Ok(false);
    }
    let sql = format!(
        "INSERT INTO a2a_push_configs ({}) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)",
        PushConfig::COLUMNS
    );
    let PushConfig { task, uid, id, project, token, url, auth_scheme, key, sealed, .. } = config;
    let (followed_run, after_seq, created_at) = (config.followed_run, config.after_seq, config.created_at);
    tx.execute(
        &sql,
        params![
            *task,
            *uid,
            id,
            *project,
            *token,
            url,
            auth_scheme.as_deref(),
            key.as_deref(),
            sealed.as_deref(),
            followed_run,
            after_seq,
            created_at
        ],
    )?;
    enqueue(tx, config.project, config.uid, config.created_at)?;
    Ok(true)
}

fn lock_newest(tx: &mut Tx<'_>, project: ProjectId, task: RunId) -> Result<()> {
    loop {
        let Some(newest) = runs::chains::get_newest(tx, project, task)? else { return Ok(()) };
        runs::waiting::lock(tx, project, newest.id)?;
        // It may have been resumed before it was locked.
        if runs::resumed_as(tx, newest.id)?.is_none() {
            return Ok(());
        }
    }
}

/// The configurations of a task, the oldest first.
pub fn list(tx: &mut Tx<'_>, task: RunId) -> Result<Vec<PushConfig>> {
    let columns = PushConfig::COLUMNS;
    let sql = format!("SELECT {columns} FROM a2a_push_configs WHERE run_id = $1 ORDER BY created_at, uid");
    tx.query(&sql, params![task], PushConfig::from_row)
}

/// The configuration of a delivery.
pub fn get(tx: &mut Tx<'_>, uid: Uuid) -> Result<Option<PushConfig>> {
    let sql = format!("SELECT {} FROM a2a_push_configs WHERE uid = $1", PushConfig::COLUMNS);
    tx.query_opt(&sql, params![uid], PushConfig::from_row)
}

/// Deletes a configuration, if there is one with this id.
pub fn delete(tx: &mut Tx<'_>, task: RunId, id: &str) -> Result<()> {
    tx.execute("DELETE FROM a2a_push_configs WHERE run_id = $1 AND id = $2", params![task, id])?;
    Ok(())
}

/// Deletes the configuration of a delivery.
pub fn delete_by_uid(tx: &mut Tx<'_>, uid: Uuid) -> Result<()> {
    tx.execute("DELETE FROM a2a_push_configs WHERE uid = $1", params![uid])?;
    Ok(())
}

/// Stores that the updates up to an event of a run were delivered.
pub fn set_position(tx: &mut Tx<'_>, uid: Uuid, run: RunId, seq: i64) -> Result<()> {
    let sql = "UPDATE a2a_push_configs SET followed_run_id = $2, after_seq = $3 WHERE uid = $1";
    tx.execute(sql, params![uid, run, seq])?;
    Ok(())
}

/// Starts the deliveries about a run whose status changed, if a client wants them. The caller has written the status
/// in this transaction: a configuration that is not visible yet waits for the lock of the run.
pub(crate) fn run_changed(tx: &mut Tx<'_>, run: RunId, origin: Origin, now: Timestamp) -> Result<()> {
    match origin {
        Origin::Invoke | Origin::Resume => run_changed_in_chain(tx, run, now),
        _ => Ok(()),
    }
}

/// Like `run_changed`, for a caller that does not know what started the run.
pub fn run_changed_in_chain(tx: &mut Tx<'_>, run: RunId, now: Timestamp) -> Result<()> {
    let sql = "WITH RECURSIVE chain (id) AS (
                   SELECT id FROM agent_runs WHERE id = $1
                   UNION ALL
                   SELECT r.resumed_from FROM agent_runs AS r JOIN chain ON r.id = chain.id
                   WHERE r.resumed_from IS NOT NULL)
               SELECT c.project_id, c.uid FROM chain JOIN a2a_push_configs AS c ON c.run_id = chain.id ORDER BY c.uid";
    let found: Vec<(ProjectId, Uuid)> = tx.query(sql, params![run], |row| Ok((row.get(0)?, row.get(1)?)))?;
    for (project, uid) in found {
        enqueue(tx, project, uid, now)?;
    }
    Ok(())
}

fn enqueue(tx: &mut Tx<'_>, project: ProjectId, uid: Uuid, now: Timestamp) -> Result<()> {
    let key = uid.to_string();
    let job = NewJob {
        project: Some(project),
        key: Some(&key),
        payload: JsonObject::empty(),
        max_attempts: MAX_ATTEMPTS,
        ..NewJob::new(QUEUE, now)
    };
    jobs::enqueue(tx, &job)?;
    Ok(())
}

/// The ids of the keys that configurations are sealed with.
pub(crate) fn keys_in_use(tx: &mut Tx<'_>) -> Result<Vec<String>> {
    tx.query("SELECT DISTINCT key_id FROM a2a_push_configs WHERE key_id IS NOT NULL", &[], |row| row.get(0))
}

/// What configurations have sealed with another key than this, `limit` at most, locked until the transaction ends.
pub(crate) fn list_sealed_with_other_keys(
    tx: &mut Tx<'_>,
    key: &str,
    limit: usize,
) -> Result<Vec<SealedRow>> {
    let sql = format!(
        "SELECT project_id, uid, key_id, sealed FROM a2a_push_configs
         WHERE key_id <> $1 AND sealed IS NOT NULL ORDER BY uid LIMIT $2{}",
        tx.for_update()
    );
    tx.query(&sql, params![key, limit], |row| {
        Ok(SealedRow {
            project: row.get(0)?,
            name: secret_name(row.get(1)?),
            key: row.get(2)?,
            sealed: row.get(3)?,
        })
    })
}

/// Stores what a configuration sealed under this name, sealed with another key. False when the name is not one of a
/// configuration.
pub(crate) fn reseal(tx: &mut Tx<'_>, name: &str, key: &str, sealed: &[u8]) -> Result<bool> {
    let Some(uid) = uid_of(name) else { return Ok(false) };
    let sql = "UPDATE a2a_push_configs SET key_id = $2, sealed = $3 WHERE uid = $1";
    Ok(tx.execute(sql, params![uid, key, sealed])? == 1)
}

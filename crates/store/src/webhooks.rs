//! Notices of the inbox for other systems. A notice is a job that is written in the transaction that changes the
//! inbox, one for each address that wants it. `executor` delivers them.

use emergent_domain::{
    cursor::Page,
    ids::ProjectId,
    inbox::{InboxNotice, Webhook},
    json::JsonObject,
    time::Timestamp,
};
use serde_json::{Value, json};

use crate::{
    error::Result,
    jobs::{self, Job, NewJob},
    params,
    tx::Tx,
};

/// The queue of the notices that are not delivered yet to the addresses of projects. Earlier versions of the server
/// put all notices there.
pub const QUEUE: &str = "webhooks";
/// The queue of those to the address of the server's operator, who does not wait for the receivers of projects.
pub const SERVER_QUEUE: &str = "server-webhook";

/// After so many attempts, about an hour, a delivery is given up.
pub const MAX_ATTEMPTS: i64 = 20;

/// Whose address a notice goes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WebhookTarget {
    /// The address in the settings of the project.
    Project,
    /// The address in the settings of the server.
    Server,
}

impl WebhookTarget {
    const ALL: [WebhookTarget; 2] = [WebhookTarget::Project, WebhookTarget::Server];

    /// The queue of its notices.
    fn queue(self) -> &'static str {
        match self {
            Self::Project => QUEUE,
            Self::Server => SERVER_QUEUE,
        }
    }

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Project => "project",
            Self::Server => "server",
        }
    }
}

/// Adds a job for each address that wants a notice.
pub fn enqueue(tx: &mut Tx<'_>, notice: &InboxNotice) -> Result<()> {
    let sql =
        "SELECT webhook_url IS NOT NULL, EXISTS (SELECT 1 FROM server_webhook) FROM projects WHERE id = $1";
    let wanted = tx.query_opt(sql, params![notice.project_id], |row| Ok([row.get(0)?, row.get(1)?]))?;
    let Some(wanted): Option<[bool; 2]> = wanted else { return Ok(()) };
    for (target, is_wanted) in WebhookTarget::ALL.into_iter().zip(wanted) {
        if !is_wanted {
            continue;
        }
        let payload = json!({ "target": target.as_str(), "notice": notice });
        let Value::Object(payload) = payload else { continue };
        let job = NewJob {
            project: Some(notice.project_id),
            payload: JsonObject::from_map(&payload),
            max_attempts: MAX_ATTEMPTS,
            ..NewJob::new(target.queue(), notice.at)
        };
        jobs::enqueue(tx, &job)?;
    }
    Ok(())
}

/// Reads the target and the notice of a job; `None` if this version does not know them.
pub fn read_job(job: &Job) -> Option<(WebhookTarget, Value)> {
    let mut payload = job.payload.to_map();
    let target = payload.get("target")?.as_str()?;
    let target = WebhookTarget::ALL.into_iter().find(|one| one.as_str() == target)?;
    Some((target, payload.remove("notice")?))
}

/// The address of a project; `None` if it has none, or was deleted.
pub fn get_project_webhook(tx: &mut Tx<'_>, project: ProjectId) -> Result<Option<Webhook>> {
    let sql = "SELECT webhook_url, webhook_secret FROM projects WHERE id = $1 AND deleted_at IS NULL";
    let columns: Option<(Option<String>, Option<String>)> =
        tx.query_opt(sql, params![project], |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok(columns.and_then(|(url, secret)| Some(Webhook { url: url?, secret: secret? })))
}

/// Stores whether the settings of the server have an address for the notices of all projects.
pub fn set_server_webhook(tx: &mut Tx<'_>, is_set: bool, now: Timestamp) -> Result<()> {
    let sql = match is_set {
        true => "INSERT INTO server_webhook (id, updated_at) VALUES (1, $1) ON CONFLICT (id) DO NOTHING",
        false => "DELETE FROM server_webhook WHERE updated_at <= $1",
    };
    tx.execute(sql, params![now])?;
    Ok(())
}

/// Whether the settings of a server that shares this database have such an address.
pub fn has_server_webhook(tx: &mut Tx<'_>) -> Result<bool> {
    Ok(tx.query_opt("SELECT 1 FROM server_webhook", params![], |_| Ok(()))?.is_some())
}

/// How many notices are not delivered yet, how many were given up, and why the newest of these was.
pub fn count_deliveries(tx: &mut Tx<'_>) -> Result<(i64, i64, Option<String>)> {
    let count = |tx: &mut Tx<'_>, statuses: &str| -> Result<i64> {
        let sql = format!("SELECT count(*) FROM jobs WHERE queue IN ($1, $2) AND status IN ({statuses})");
        Ok(tx.query_opt(&sql, params![QUEUE, SERVER_QUEUE], |row| row.get(0))?.unwrap_or(0))
    };
    let waiting = count(tx, "'queued', 'running'")?;
    let given_up = count(tx, "'dead'")?;
    let mut newest: Option<Job> = None;
    for queue in [QUEUE, SERVER_QUEUE] {
        let job = jobs::dead_letters(tx, Some(queue), Page::first(1))?.items.into_iter().next();
        newest = newest.into_iter().chain(job).max_by_key(|job| job.finished_at);
    }
    Ok((waiting, given_up, newest.and_then(|job| job.last_error)))
}

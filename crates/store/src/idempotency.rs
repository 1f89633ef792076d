//! Idempotency keys: a request that starts work, and to which its client gave a key, is accepted once.
//!
//! The row of a key is written in the transaction that accepts the work, together with the answer. Whenever a
//! server is killed, there is either the work with its key, or neither. A second transaction with the same key
//! waits for the first one, and writes nothing if that commits.
//!
//! Like the origin of the audit log, the key belongs to the request: the API runs the request inside of
//! [`with_request`], and [`crate::Db::write`] gives it to the transactions of that task. A transaction that
//! accepts work does so with [`accept_once`].

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use emergent_domain::{
    approval::Approval,
    ids::{ChatMessageId, ProjectId, RunId, TokenId},
    run::Run,
    time::Timestamp,
    workflow::Workflow,
};
use uuid::Uuid;

use crate::{
    error::{Error, Result},
    params,
    tx::Tx,
    value::Row,
};

/// How long a repeated request gets the first answer.
pub const LIFETIME: Duration = Duration::from_secs(24 * 60 * 60);

tokio::task_local! {
    static REQUEST: Option<Arc<KeyedRequest>>;
}

/// What a request started.
#[derive(Debug, Clone, Copy)]
pub enum AcceptedWork<'a> {
    Run(&'a Run),
    Workflow(&'a Workflow),
    /// A message of a conversation. Its answer is a stream, so only the id is stored: whoever repeats the request
    /// follows the same answer.
    Message(ChatMessageId),
    /// A decision about a request of this run, which goes on.
    Decision(RunId),
}

/// The kind of [`AcceptedWork::Run`] and of [`AcceptedWork::Decision`].
pub const RUN_KIND: &str = "run";
/// The kind of [`AcceptedWork::Message`].
pub const MESSAGE_KIND: &str = "message";

/// The kind of work of [`accept_bulk`].
pub const BULK_KIND: &str = "bulk";

/// The result of accepting work.
pub trait AsAcceptedWork {
    fn as_accepted_work(&self) -> AcceptedWork<'_>;
}

impl AsAcceptedWork for Run {
    fn as_accepted_work(&self) -> AcceptedWork<'_> {
        AcceptedWork::Run(self)
    }
}

impl AsAcceptedWork for Approval {
    fn as_accepted_work(&self) -> AcceptedWork<'_> {
        AcceptedWork::Decision(self.run)
    }
}

impl AsAcceptedWork for Workflow {
    fn as_accepted_work(&self) -> AcceptedWork<'_> {
        AcceptedWork::Workflow(self)
    }
}

impl AcceptedWork<'_> {
    fn kind(self) -> &'static str {
        match self {
            Self::Run(_) | Self::Decision(_) => RUN_KIND,
            Self::Workflow(_) => "workflow",
            Self::Message(_) => MESSAGE_KIND,
        }
    }

    fn id(self) -> Uuid {
        match self {
            Self::Run(run) => run.id.0,
            Self::Workflow(workflow) => workflow.id.0,
            Self::Message(message) => message.0,
            Self::Decision(run) => run.0,
        }
    }
}

/// The answer to a request: its HTTP status and its JSON body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    pub status: u16,
    pub body: String,
}

/// Which request a key belongs to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestKey {
    pub project: ProjectId,
    pub token: TokenId,
    pub key: String,
    /// The hash of what the request says. Another request must not use the same key.
    pub digest: Vec<u8>,
}

type AnswerFn = Box<dyn Fn(AcceptedWork<'_>) -> Option<Answer> + Send + Sync>;

/// A request with a key, while it is handled.
pub struct KeyedRequest {
    key: RequestKey,
    now: Timestamp,
    answer: AnswerFn,
    was_used: AtomicBool,
    awaits_answer: AtomicBool,
}

impl KeyedRequest {
    /// `answer` returns the answer to the request, given what it started. `None` stores only what that is.
    pub fn new(
        key: RequestKey,
        now: Timestamp,
        answer: impl Fn(AcceptedWork<'_>) -> Option<Answer> + Send + Sync + 'static,
    ) -> Self {
        Self {
            key,
            now,
            answer: Box::new(answer),
            was_used: AtomicBool::new(false),
            awaits_answer: AtomicBool::new(false),
        }
    }

    /// Whether the request was accepted by [`accept_bulk`], so that its answer is stored later.
    pub fn awaits_answer(&self) -> bool {
        self.awaits_answer.load(Ordering::Acquire)
    }

    /// Whether another request with the same key was accepted while this one was handled.
    pub fn was_used(&self) -> bool {
        self.was_used.load(Ordering::Acquire)
    }
}

/// A request that was accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AcceptedRequest {
    pub digest: Vec<u8>,
    /// `run`, `workflow`, `message` or `bulk`, and its id.
    pub work: (String, Uuid),
    pub answer: Option<Answer>,
    /// The runs of a request that changes many, while it has no answer.
    pub runs: Vec<RunId>,
}

/// Runs `work` for a request with a key.
pub async fn with_request<F: Future>(request: Arc<KeyedRequest>, work: F) -> F::Output {
    REQUEST.scope(Some(request), work).await
}

/// Runs a part of a request that accepts work of its own: the key is that of the whole request.
pub async fn without_request<F: Future>(work: F) -> F::Output {
    REQUEST.scope(None, work).await
}

/// Returns work that can be spawned as a task of its own: it still belongs to the request of the current task.
pub fn for_current_request<F: Future>(work: F) -> impl Future<Output = F::Output> {
    let request = current_request();
    async move {
        match request {
            Some(request) => with_request(request, work).await,
            None => work.await,
        }
    }
}

/// The request of the current task, if it has a key.
pub(crate) fn current_request() -> Option<Arc<KeyedRequest>> {
    REQUEST.try_with(Option::clone).ok().flatten()
}

/// Accepts work in a transaction. If the request of the transaction has a key, the key is stored with the work;
/// if it was used before, nothing is written and the error is [`Error::KeyUsed`].
pub fn accept_once<T: AsAcceptedWork, E: From<Error>>(
    tx: &mut Tx<'_>,
    accept: impl FnOnce(&mut Tx<'_>) -> Result<T, E>,
) -> Result<T, E> {
    let Some(request) = tx.keyed_request.clone() else { return accept(tx) };
    // The key comes first: a request that waits for another one with the same key must not see its effects
    // and fail because of them.
    let is_free = take_key(tx, &request)?;
    request.was_used.store(!is_free, Ordering::Release);
    if !is_free {
        return Err(Error::KeyUsed.into());
    }
    let accepted = accept(tx)?;
    complete(tx, &request, accepted.as_accepted_work())?;
    Ok(accepted)
}

/// Accepts a request that changes many runs, each in a transaction of its own. If the request has a key, the key is
/// stored with the runs; the answer follows when all are changed ([`store_answer`]). If the key was used before, nothing
/// is written and the error is [`Error::KeyUsed`].
pub fn accept_bulk(tx: &mut Tx<'_>, runs: &[RunId]) -> Result<()> {
    let Some(request) = tx.keyed_request.clone() else { return Ok(()) };
    let is_free = take_key(tx, &request)?;
    request.was_used.store(!is_free, Ordering::Release);
    if !is_free {
        return Err(Error::KeyUsed);
    }
    let RequestKey { project, token, key, .. } = &request.key;
    let ids: Vec<String> = runs.iter().map(ToString::to_string).collect();
    tx.execute(
        "UPDATE idempotency_keys SET work_kind = $4, work_id = $5, body = $6
         WHERE project_id = $1 AND token_id = $2 AND key = $3",
        params![*project, *token, key, BULK_KIND, Uuid::now_v7(), ids.join(" ")],
    )?;
    request.awaits_answer.store(true, Ordering::Release);
    Ok(())
}

/// Stores the answer to a request that was accepted by [`accept_bulk`]; the first answer counts.
pub fn store_answer(tx: &mut Tx<'_>, key: &RequestKey, answer: &Answer) -> Result<()> {
    tx.execute(
        "UPDATE idempotency_keys SET status = $4, body = $5
         WHERE project_id = $1 AND token_id = $2 AND key = $3 AND status IS NULL AND work_kind = $6",
        params![key.project, key.token, &key.key, i64::from(answer.status), &answer.body, BULK_KIND],
    )?;
    Ok(())
}

/// Inserts the row of a key; false when there is one that is still valid. Waits for a transaction that has
/// inserted it and has not ended.
fn take_key(tx: &mut Tx<'_>, request: &KeyedRequest) -> Result<bool> {
    let RequestKey { project, token, key, digest } = &request.key;
    let changed = tx.execute(
        "INSERT INTO idempotency_keys (project_id, token_id, key, digest, created_at, expires_at)
         VALUES ($1, $2, $3, $4, $5, $6)
         ON CONFLICT (project_id, token_id, key) DO UPDATE SET digest = $4, work_kind = NULL, work_id = NULL,
             status = NULL, body = NULL, created_at = $5, expires_at = $6
         WHERE idempotency_keys.expires_at <= $5",
        params![*project, *token, key, digest.as_slice(), request.now, request.now + LIFETIME],
    )?;
    Ok(changed == 1)
}

fn complete(tx: &mut Tx<'_>, request: &KeyedRequest, work: AcceptedWork<'_>) -> Result<()> {
    let RequestKey { project, token, key, .. } = &request.key;
    let (status, body) = (request.answer)(work).map(|answer| (i64::from(answer.status), answer.body)).unzip();
    tx.execute(
        "UPDATE idempotency_keys SET work_kind = $4, work_id = $5, status = $6, body = $7
         WHERE project_id = $1 AND token_id = $2 AND key = $3",
        params![*project, *token, key, work.kind(), work.id(), status, body],
    )?;
    Ok(())
}

/// Returns the request that was accepted with this key, if its answer is still kept.
pub fn get(tx: &mut Tx<'_>, key: &RequestKey, now: Timestamp) -> Result<Option<AcceptedRequest>> {
    let read = |row: &Row<'_>| {
        let (status, body): (Option<i64>, Option<String>) = (row.get(3)?, row.get(4)?);
        let work: (String, Uuid) = (row.get(1)?, row.get(2)?);
        let ids = body.as_deref().filter(|_| status.is_none() && work.0 == BULK_KIND).unwrap_or_default();
        let runs = ids.split_whitespace().filter_map(|id| id.parse().ok()).collect();
        let answer = status.zip(body).map(|(status, body)| Answer {
            // A status has three digits.
            status: u16::try_from(status).unwrap_or(500),
            body,
        });
        Ok(AcceptedRequest { digest: row.get(0)?, work, answer, runs })
    };
    tx.query_opt(
        "SELECT digest, work_kind, work_id, status, body FROM idempotency_keys
         WHERE project_id = $1 AND token_id = $2 AND key = $3 AND expires_at > $4 AND work_id IS NOT NULL",
        params![key.project, key.token, &key.key, now],
        read,
    )
}

/// Deletes up to `limit` keys that ended before a time, and returns how many there were.
pub fn delete_expired(tx: &mut Tx<'_>, before: Timestamp, limit: usize) -> Result<u64> {
    tx.execute(
        "DELETE FROM idempotency_keys WHERE (project_id, token_id, key) IN (
             SELECT project_id, token_id, key FROM idempotency_keys WHERE expires_at < $1
             ORDER BY expires_at LIMIT $2)",
        params![before, limit],
    )
}

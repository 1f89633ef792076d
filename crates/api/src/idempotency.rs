//! `Idempotency-Key`: a request that starts work is accepted once, however often it is sent. The same request with
//! the same key gets the first answer for 24 hours.
//!
//! A route opts in where it is registered ([`crate::access::Routes::starts_work`]), and says how what was
//! accepted is answered. The transaction that accepts the work stores the key and this answer
//! (`emergent_store::idempotency`). Requests that were refused store nothing and may be repeated.

use std::{borrow::Cow, collections::HashSet, sync::Arc};

use axum::{
    body::{Body, Bytes},
    extract::{FromRequestParts, Request, State},
    http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header, request::Parts},
    middleware::Next,
    response::{IntoResponse, Response},
};
use emergent_domain::{
    foreign_json,
    ids::{ChatMessageId, ProjectId, RunId, TokenId},
    patch::canonical_json,
    time::Timestamp,
};
use emergent_store::{
    Tx,
    idempotency::{
        self, AcceptedRequest, AcceptedWork, Answer, BULK_KIND, KeyedRequest, MESSAGE_KIND, RUN_KIND,
        RequestKey, with_request,
    },
};
use parking_lot::Mutex;
use serde::Serialize;
use sha2::{Digest, Sha256};

use crate::{
    ApiError, App,
    auth::{Caller, InProject},
    extract::{parse_body_with, read_limited},
    limits,
    response::{Result as ApiResult, accepted},
    views::run::StartedRun,
};

pub(crate) const KEY_HEADER: HeaderName = HeaderName::from_static("idempotency-key");
/// Tells a client that its request was accepted before.
const REPLAYED: HeaderName = HeaderName::from_static("idempotency-replayed");
const MAX_KEY_BYTES: usize = 255;

/// Returns the answer to a request that started this work; `None` if it is not work of this route.
pub(crate) type AnswerFn = fn(&App, &Caller, AcceptedWork<'_>) -> Option<Answer>;

/// Returns a response in the form in which it is stored.
pub(crate) fn stored_answer<T: Serialize>(response: ApiResult<T>) -> Option<Answer> {
    response.ok()?.into_answer()
}

/// The answer to a request that started a run.
pub(crate) fn started_run(_: &App, _: &Caller, work: AcceptedWork<'_>) -> Option<Answer> {
    let AcceptedWork::Run(run) = work else { return None };
    stored_answer(accepted::<StartedRun>(run.clone()))
}

/// The answer to a request that is answered with a stream, or that waits for a run, is not stored; see
/// [`AcceptedMessage`] and [`AcceptedRun`].
pub(crate) fn streamed(_: &App, _: &Caller, _: AcceptedWork<'_>) -> Option<Answer> {
    None
}

/// An extension of a request that was accepted before with the same key: the message that it stored. The handler
/// streams the same answer again.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AcceptedMessage(pub ChatMessageId);

/// An extension of a request to change many runs that was accepted before with the same key: the runs that it named.
#[derive(Debug, Clone)]
pub(crate) struct AcceptedRuns(pub Vec<RunId>);

/// The answer to a request that changes many runs follows when all are changed; see [`keep_bulk_answer`].
pub(crate) fn answered_later(_: &App, _: &Caller, _: AcceptedWork<'_>) -> Option<Answer> {
    None
}

/// Like [`AcceptedMessage`], for a request that started a run without a conversation. The handler answers about the
/// same run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AcceptedRun(pub RunId);

/// An extension of a request that has a key: whoever repeats it follows the same work.
#[derive(Debug, Clone, Copy)]
pub(crate) struct HasKey;

/// The keys of requests that this server handles at this moment.
#[derive(Default)]
pub(crate) struct KeysInProgress(Mutex<HashSet<InProgressKey>>);

type InProgressKey = (ProjectId, TokenId, String);

impl KeysInProgress {
    /// Enters a key until the guard is dropped; `None` if it is there.
    fn enter(&self, key: &RequestKey) -> Option<InProgress<'_>> {
        let key = (key.project, key.token, key.key.clone());
        let is_new = self.0.lock().insert(key.clone());
        // Only the guard of the request that entered the key may remove it.
        is_new.then(|| InProgress { keys: self, key })
    }
}

struct InProgress<'a> {
    keys: &'a KeysInProgress,
    key: InProgressKey,
}

impl Drop for InProgress<'_> {
    fn drop(&mut self) {
        self.keys.0.lock().remove(&self.key);
    }
}

/// Handles a request to a route that starts work. It has been authorised.
pub(crate) async fn handle_once(
    State(answer): State<AnswerFn>,
    request: Request,
    next: Next,
) -> Result<Response, ApiError> {
    let Some(key) = read_key(request.headers())? else { return Ok(next.run(request).await) };
    let Some(app) = request.extensions().get::<App>().cloned() else {
        return Err(ApiError::internal_text("the router was built without its app"));
    };
    let (mut parts, body) = request.into_parts();
    parts.extensions.insert(HasKey);
    let body = read_limited(&parts, body, limits::BODY, "the body").await?;
    let InProject(project) = InProject::from_request_parts(&mut parts, &app).await?;
    let caller = Caller::from_request_parts(&mut parts, &app).await?;
    let token = caller.token.id;
    let canonical =
        parse_body_with(&parts, body.clone(), |bytes| Ok(canonical_body(bytes).into_owned())).await?;
    let key = RequestKey { project, token, key, digest: digest(&parts, &canonical) };
    let Some(_in_progress) = app.keys_in_progress.enter(&key) else {
        return Err(ApiError::key_in_progress());
    };
    let now = app.graph.clock().now();
    let repeated = (parts.clone(), body.clone(), next.clone());
    if let Some(accepted) = find(&app, &key, now).await? {
        return replay(&app, &key, accepted, repeated).await;
    }
    let answering_app = app.clone();
    let keyed = KeyedRequest::new(key.clone(), now, move |work| answer(&answering_app, &caller, work));
    let keyed = Arc::new(keyed);
    let request = Request::from_parts(parts, Body::from(body));
    let response = with_request(Arc::clone(&keyed), next.run(request)).await;
    if !keyed.was_used() {
        return match keyed.awaits_answer() {
            true => keep_bulk_answer(&app, &key, response).await,
            false => Ok(response),
        };
    }
    // Another server accepted the same request meanwhile.
    match find(&app, &key, now).await? {
        Some(accepted) => replay(&app, &key, accepted, repeated).await,
        None => Err(ApiError::key_in_progress()),
    }
}

/// Returns the key of a request, if it has one.
fn read_key(headers: &HeaderMap) -> Result<Option<String>, ApiError> {
    let mut values = headers.get_all(KEY_HEADER).iter();
    let Some(value) = values.next() else { return Ok(None) };
    let bytes = value.as_bytes();
    let is_printable = bytes.iter().all(|byte| (b' '..=b'~').contains(byte));
    if values.next().is_some() || !is_printable || !(1..=MAX_KEY_BYTES).contains(&bytes.len()) {
        let reason = format!("must be one value of 1 to {MAX_KEY_BYTES} printable ASCII characters");
        return Err(ApiError::invalid("Idempotency-Key", reason));
    }
    Ok(Some(String::from_utf8_lossy(bytes).into_owned()))
}

/// The body of a request in the form that is compared: JSON with other white space, or with its fields in another order,
/// says the same. What is no JSON stays as it is.
fn canonical_body(body: &[u8]) -> Cow<'_, [u8]> {
    match foreign_json::from_slice(body) {
        Ok(value) => Cow::Owned(canonical_json(&value).into_bytes()),
        Err(_) => Cow::Borrowed(body),
    }
}

/// Stores the answer to a request that changed many runs, each in a transaction of its own. The answer to every other
/// request is stored in the transaction that accepts its work.
async fn keep_bulk_answer(app: &App, key: &RequestKey, response: Response) -> Result<Response, ApiError> {
    if !response.status().is_success() {
        return Ok(response);
    }
    let (parts, body) = response.into_parts();
    let body = axum::body::to_bytes(body, limits::BODY).await.map_err(|error| {
        ApiError::internal_text(&format!("the answer could not be read before it was stored: {error}"))
    })?;
    let answer = Answer { status: parts.status.as_u16(), body: String::from_utf8_lossy(&body).into_owned() };
    let stored = key.clone();
    let work = move |tx: &mut Tx<'_>| idempotency::store_answer(tx, &stored, &answer);
    app.graph.db().write(work).await?;
    Ok(Response::from_parts(parts, Body::from(body)))
}

/// The hash of what a request says. The length of each part is included, so that no two requests have the same.
fn digest(parts: &Parts, body: &[u8]) -> Vec<u8> {
    let path = parts.uri.path_and_query().map_or("", |path| path.as_str());
    let mut hasher = Sha256::new();
    for part in [parts.method.as_str().as_bytes(), path.as_bytes(), body] {
        hasher.update((part.len() as u64).to_le_bytes());
        hasher.update(part);
    }
    hasher.finalize().to_vec()
}

async fn find(app: &App, key: &RequestKey, now: Timestamp) -> Result<Option<AcceptedRequest>, ApiError> {
    let key = key.clone();
    Ok(app.graph.db().read(move |tx| idempotency::get(tx, &key, now)).await?)
}

/// Answers a request that was accepted before. A stream is opened again by its handler.
async fn replay(
    app: &App,
    key: &RequestKey,
    accepted: AcceptedRequest,
    (mut parts, body, next): (Parts, Bytes, Next),
) -> Result<Response, ApiError> {
    // An earlier version of the server compared the bytes.
    if accepted.digest != key.digest && accepted.digest != digest(&parts, &body) {
        return Err(ApiError::key_reused());
    }
    if accepted.answer.is_none() && accepted.work.0 == BULK_KIND {
        // The server died before all runs were changed: the handler goes on with them.
        parts.extensions.insert(AcceptedRuns(accepted.runs));
        let response = next.run(Request::from_parts(parts, Body::from(body))).await;
        let mut response = keep_bulk_answer(app, key, response).await?;
        if response.status().is_success() {
            response.headers_mut().insert(REPLAYED, HeaderValue::from_static("true"));
        }
        return Ok(response);
    }
    let (kind, id) = (accepted.work.0.as_str(), accepted.work.1);
    if accepted.answer.is_none() && matches!(kind, MESSAGE_KIND | RUN_KIND) {
        match kind {
            MESSAGE_KIND => parts.extensions.insert(AcceptedMessage(ChatMessageId(id))).is_some(),
            _ => parts.extensions.insert(AcceptedRun(RunId(id))).is_some(),
        };
        let mut response = next.run(Request::from_parts(parts, Body::from(body))).await;
        if response.status().is_success() {
            response.headers_mut().insert(REPLAYED, HeaderValue::from_static("true"));
        }
        return Ok(response);
    }
    let Some(Answer { status, body }) = accepted.answer else {
        let (kind, id) = accepted.work;
        return Err(ApiError::already_accepted(&kind, id));
    };
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static("application/json")),
        (REPLAYED, HeaderValue::from_static("true")),
    ];
    Ok((status, headers, body).into_response())
}

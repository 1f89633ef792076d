//! Delivers the updates of tasks to the addresses that clients set. A delivery begins with the task as it is, and goes
//! on with the changes of its status in the order of the record, like a stream. Each update is sent until its receiver
//! accepts it, so one that was accepted just before the server was killed is sent twice.

use emergent_domain::{agent::Visibility, foreign_json, ids::RunId, run_event::RunEvent};
use emergent_executor::{
    Error,
    run_chains::{ChainParts, RunChain},
    webhooks,
};
use emergent_graph::worker::{ClaimedJob, JobOutcome, Worker};
use emergent_net::errors::error_chain;
use emergent_secrets::SealedText;
use emergent_store::{Tx, a2a_push as rows, jobs, tokens};
use emergent_surfaces::a2a::{
    MEDIA_TYPE,
    push::TOKEN_HEADER,
    stream::TaskUpdates,
    types::{StreamResponse, TaskStatusUpdate},
};
use tokio::sync::watch;
use tracing::debug;

use super::{
    push::{PushSecrets, secret_name},
    tasks::{ids, show},
};
use crate::App;

/// How many deliveries a server makes at once, and how many of them are of one project.
const CONCURRENCY: usize = 32;
const PER_PROJECT: usize = 4;
/// How many updates are sent before other deliveries have their turn.
const BATCH: usize = 10;

type Result<T, E = String> = std::result::Result<T, E>;

impl App {
    /// Delivers push notifications of A2A until `stop` becomes true.
    pub async fn run_a2a_push(&self, stop: watch::Receiver<bool>) {
        let worker = Worker {
            concurrency: CONCURRENCY,
            per_project: Some(PER_PROJECT),
            ..Worker::for_outside_calls(rows::QUEUE)
        };
        let app = self.clone();
        let handler = move |claimed: ClaimedJob| {
            let app = app.clone();
            async move { deliver(&app, claimed).await }
        };
        worker.run(self.graph.db().clone(), self.graph.clock().clone(), stop, handler).await;
    }
}

/// Sends what is new for one configuration. The error says why an update was not accepted.
async fn deliver(app: &App, claimed: ClaimedJob) -> Result<JobOutcome> {
    let Some(uid) = claimed.job.key.as_deref().and_then(|key| key.parse().ok()) else {
        return Err("this version of the server cannot read the delivery".to_owned());
    };
    for _ in 0..BATCH {
        let config = app.graph.db().read(move |tx| rows::get(tx, uid)).await.map_err(text)?;
        let Some(config) = config else {
            debug!(job.id = %claimed.job.id, "the client deleted the configuration of a push notification");
            return Ok(JobOutcome::Done);
        };
        let Some(next) = next_updates(app, &config).await? else {
            // Whoever changes the task while this delivery is active adds no other one. It is visible here.
            match finish(app, &claimed, &config).await? {
                true => return Ok(JobOutcome::Completed),
                false => continue,
            }
        };
        // This comes after the update was read: what happens after a token was revoked is never sent for it.
        if !may_send(app, &config).await? {
            app.graph.db().write(move |tx| rows::delete_by_uid(tx, uid)).await.map_err(text)?;
            return Ok(JobOutcome::Done);
        }
        for update in &next.updates {
            send(app, &config, update).await?;
        }
        let (run, seq) = next.position;
        app.graph.db().write(move |tx| rows::set_position(tx, uid, run, seq)).await.map_err(text)?;
    }
    Ok(JobOutcome::More)
}

fn text(error: impl std::error::Error) -> String {
    error_chain(&error)
}

/// Whether the client may still see the task: its token is valid, and the agent is there for callers from outside.
async fn may_send(app: &App, config: &rows::PushConfig) -> Result<bool> {
    let token = config.token;
    let token = app.graph.db().read(move |tx| tokens::get(tx, token)).await.map_err(text)?;
    if !token.is_some_and(|token| token.is_valid(app.graph.clock().now())) {
        return Ok(false);
    }
    let Some(chain) = load(app, config, ChainParts::default()).await? else { return Ok(false) };
    match app.executor.find_agent(config.project, &chain.first.agent.to_string()).await {
        Ok(agent) => Ok(agent.definition.visibility == Visibility::External),
        Err(Error::NotFound { .. }) => Ok(false),
        Err(error) => Err(text(error)),
    }
}

async fn load(app: &App, config: &rows::PushConfig, parts: ChainParts) -> Result<Option<RunChain>> {
    match app.executor.run_chain(config.project, config.task, parts).await {
        Ok(chain) => Ok(Some(chain)),
        Err(Error::NotFound { .. }) => Ok(None),
        Err(error) => Err(text(error)),
    }
}

/// What is sent next, and the position after it.
struct NextUpdates {
    updates: Vec<StreamResponse>,
    position: (RunId, i64),
}

/// Returns the next updates; `None` if there is nothing new.
async fn next_updates(app: &App, config: &rows::PushConfig) -> Result<Option<NextUpdates>> {
    // Only the task itself, which is sent first, shows artifacts.
    let parts = ChainParts { artifacts: config.followed_run.is_none(), ..ChainParts::default() };
    let Some(chain) = load(app, config, parts).await? else { return Ok(None) };
    let Some(run) = config.followed_run else {
        // What was recorded before is in the task.
        let updates = vec![StreamResponse::Task(show(&chain, 0))];
        return Ok(Some(NextUpdates { updates, position: (chain.newest.id, chain.newest.seq) }));
    };
    let events = app.executor.status_events(config.project, run, config.after_seq, 1).await.map_err(text)?;
    let Some(event) = events.into_iter().next() else {
        // A paused run that was resumed is followed by the one that resumes it.
        let resumed = app.executor.resumed_as(run).await.map_err(text)?;
        return Ok(resumed.map(|next| NextUpdates { updates: Vec::new(), position: (next, 0) }));
    };
    let position = (run, event.seq.unwrap_or(config.after_seq));
    Ok(Some(NextUpdates { updates: updates(app, &chain, run, &event).await?, position }))
}

async fn updates(app: &App, chain: &RunChain, run: RunId, event: &RunEvent) -> Result<Vec<StreamResponse>> {
    let mut state = TaskUpdates::new(ids(chain));
    if !TaskUpdates::needs_requests(event) {
        return Ok(state.on_event(event, &[]));
    }
    let requests = app.executor.pending_requests(run).await.map_err(text)?;
    let mut updates = state.on_event(event, &requests);
    if requests.is_empty() {
        // The request was decided meanwhile: what it asked for does not matter any more.
        for update in &mut updates {
            if let StreamResponse::StatusUpdate(TaskStatusUpdate { status, .. }) = update {
                status.message = None;
            }
        }
    }
    Ok(updates)
}

/// Completes the delivery if nothing was recorded meanwhile; false when there is more.
async fn finish(app: &App, claimed: &ClaimedJob, config: &rows::PushConfig) -> Result<bool> {
    let (id, owner, now) = (claimed.job.id, claimed.owner.clone(), app.graph.clock().now());
    let (run, after) = (config.followed_run, config.after_seq);
    let work = move |tx: &mut Tx<'_>| {
        if !jobs::lock_owned(tx, id, &owner)? {
            // Another worker has the delivery.
            return Ok(true);
        }
        if let Some(run) = run
            && (!emergent_store::runs::timeline::list_status_events(tx, run, after, 1)?.is_empty()
                || emergent_store::runs::resumed_as(tx, run)?.is_some())
        {
            return Ok(false);
        }
        jobs::complete(tx, id, &owner, now)?;
        Ok::<_, emergent_store::Error>(true)
    };
    app.graph.db().write(work).await.map_err(text)
}

/// Sends one update, with the headers that the client asked for.
async fn send(app: &App, config: &rows::PushConfig, update: &StreamResponse) -> Result<()> {
    let body = serde_json::to_vec(update).map_err(text)?;
    let mut headers = vec![("content-type", MEDIA_TYPE.to_owned())];
    let PushSecrets { token, credentials } = secrets(app, config)?;
    headers.extend(token.map(|token| (TOKEN_HEADER, token)));
    if let (Some(scheme), Some(credentials)) = (&config.auth_scheme, credentials) {
        headers.push(("authorization", format!("{scheme} {credentials}")));
    }
    let allow_private = app.executor.settings().allow_private_hosts;
    webhooks::post(&config.url, allow_private, &headers, body).await
}

fn secrets(app: &App, config: &rows::PushConfig) -> Result<PushSecrets> {
    let (Some(key), Some(bytes)) = (config.key.clone(), config.sealed.clone()) else {
        return Ok(PushSecrets::default());
    };
    let name = secret_name(config.uid).map_err(text)?;
    let opened = app.secrets.open_sealed(config.project, &name, SealedText { key, bytes });
    let opened = opened.map_err(text)?;
    foreign_json::from_str(opened.expose()).map_err(|_| "the sealed headers cannot be read".to_owned())
}

//! Whether requests can be answered. The check writes to the database, so its result is used for a second, and
//! one check runs at a time.
//!
//! On SQLite the check waits for the write that is under way, as the renewals of leases do. It is judged like
//! them: the server is ready while the last check that succeeded is no older than their time limit. A request
//! is answered within a second all the same, and the check goes on with the next one.
//!
//! While the storage is known to be full, a check writes much, and the server is not ready until one succeeds.

use std::{pin::Pin, time::Duration};

use emergent_graph::{self as graph, Graph};
use emergent_store::{
    Engine, PRIORITY_TIME, StorageFault,
    requester::{Requester, on_behalf_of},
};
use tokio::{sync::Mutex, time::Instant};

use crate::ApiError;

/// How long a request waits for a check. A health check is answered within a second.
const RESPONSE_TIME: Duration = Duration::from_millis(900);
const TTL: Duration = Duration::from_secs(1);

#[derive(Default)]
pub(crate) struct Readiness {
    /// When the last check that succeeded was started.
    succeeded: parking_lot::Mutex<Option<Instant>>,
    /// When the last check was started that writes much, because the storage is full.
    trial_started: parking_lot::Mutex<Option<Instant>>,
    running: Mutex<Option<RunningCheck>>,
}

/// A check that was started, and that the requests for it drive.
struct RunningCheck {
    started_at: Instant,
    outcome: Pin<Box<dyn Future<Output = graph::Result<()>> + Send>>,
}

impl RunningCheck {
    fn start(graph: &Graph) -> Self {
        let graph = graph.clone();
        let check = async move { graph.check_database().await };
        Self { started_at: Instant::now(), outcome: Box::pin(on_behalf_of(Requester::Priority, check)) }
    }
}

impl Readiness {
    /// Fails if the database cannot be read and written within the time limit.
    pub(crate) async fn check(&self, graph: &Graph) -> Result<(), ApiError> {
        let failure = match tokio::time::timeout(RESPONSE_TIME, self.check_database(graph)).await {
            Ok(Ok(())) => return Ok(()),
            Ok(Err(graph::Error::NotFound { .. })) => {
                return Err(ApiError::unavailable("the server is still setting up"));
            }
            Ok(Err(failure)) => failure.to_string(),
            Err(_) if graph.db().engine() == Engine::Sqlite && self.has_succeeded_within(PRIORITY_TIME) => {
                return Ok(());
            }
            Err(_) => format!("no answer within {} milliseconds", RESPONSE_TIME.as_millis()),
        };
        tracing::warn!(cause = failure, "the server is not ready: the database cannot be read and written");
        Err(ApiError::database_unavailable())
    }

    fn has_succeeded_within(&self, time: Duration) -> bool {
        self.succeeded.lock().is_some_and(|at| at.elapsed() < time)
    }

    /// Whether the last check answers this request as well. One that was made before the storage was full does not. One
    /// that wrote much does, also if it failed: callers must not have so much written all the time.
    fn is_recent(&self, is_full: bool) -> bool {
        match is_full {
            true => self.trial_started.lock().is_some_and(|at| at.elapsed() < TTL),
            false => self.has_succeeded_within(TTL),
        }
    }

    async fn check_database(&self, graph: &Graph) -> graph::Result<()> {
        let mut running = self.running.lock().await;
        let problem = graph.db().storage_problem();
        let is_full = problem.is_some_and(|problem| problem.fault == StorageFault::Full);
        if self.is_recent(is_full) {
            return Ok(());
        }
        // The outcome of a check that nobody has asked for since says nothing about this moment.
        if running.as_ref().is_some_and(|check| check.started_at.elapsed() >= PRIORITY_TIME) {
            *running = None;
        }
        let check = running.get_or_insert_with(|| RunningCheck::start(graph));
        let started_at = check.started_at;
        if is_full {
            *self.trial_started.lock() = Some(started_at);
        }
        let outcome = check.outcome.as_mut().await;
        *running = None;
        if outcome.is_ok() {
            *self.succeeded.lock() = Some(started_at);
        }
        outcome
    }
}

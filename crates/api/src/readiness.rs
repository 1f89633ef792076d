//! Whether requests can be answered. The check writes to the database, so its result is used for a second, and
//! one check runs at a time.

use std::time::Duration;

use emergent_graph::{self as graph, Graph};
use emergent_store::requester::{Requester, on_behalf_of};
use tokio::{sync::Mutex, time::Instant};

use crate::ApiError;

/// How long a check may take. A health check is answered within a second.
const TIME_LIMIT: Duration = Duration::from_millis(900);
const TTL: Duration = Duration::from_secs(1);

/// The time of the last check that succeeded.
#[derive(Default)]
pub(crate) struct Readiness(Mutex<Option<Instant>>);

impl Readiness {
    /// Fails if the database cannot be read and written within the time limit.
    pub(crate) async fn check(&self, graph: &Graph) -> Result<(), ApiError> {
        let check = on_behalf_of(Requester::Priority, self.check_database(graph));
        let failure = match tokio::time::timeout(TIME_LIMIT, check).await {
            Ok(Ok(())) => return Ok(()),
            Ok(Err(graph::Error::NotFound { .. })) => {
                return Err(ApiError::unavailable("the server is still setting up"));
            }
            Ok(Err(failure)) => failure.to_string(),
            Err(_) => format!("no answer within {} milliseconds", TIME_LIMIT.as_millis()),
        };
        tracing::warn!(cause = failure, "the server is not ready: the database cannot be read and written");
        Err(ApiError::database_unavailable())
    }

    async fn check_database(&self, graph: &Graph) -> graph::Result<()> {
        let mut checked = self.0.lock().await;
        if checked.is_some_and(|at| at.elapsed() < TTL) {
            return Ok(());
        }
        graph.check_database().await?;
        *checked = Some(Instant::now());
        Ok(())
    }
}

//! Waits for the end of a run on behalf of a caller.

use std::time::Duration;

use emergent_domain::{
    ids::{ProjectId, RunId},
    run::{Run, RunStatus},
};
use emergent_store::{read_memory::release_rows, runs};
use tokio::time::Instant;

use crate::{ApiError, App, auth::Caller, request_context::RequestContext, sse, stream_limit::StreamPermit};

/// How often the run is read without being woken. Every end of a run wakes those who wait on all servers, and so does a
/// run that begins to wait for a person: this finds what a lost wake missed.
const POLL_INTERVAL: Duration = Duration::from_millis(500);

/// Counts a request that waits as an open stream instead of a request in progress, because it needs no more than one.
/// A request that starts something acquires this before, so that it is not refused afterwards.
pub(crate) fn permit(
    app: &App,
    caller: &Caller,
    context: Option<&RequestContext>,
) -> Result<StreamPermit, ApiError> {
    let permit = sse::permit(app, caller)?;
    if let Some(context) = context {
        context.release_permit();
    }
    Ok(permit)
}

/// Waits until a run has ended or waits for a person, at most for this time, and returns it as it is then. Also
/// returns when the server closes. Fails when the access of the caller ends.
pub(crate) async fn wait_for_run(
    app: &App,
    caller: &Caller,
    project: ProjectId,
    run: RunId,
    limit: Duration,
) -> Result<Run, ApiError> {
    let deadline = Instant::now() + limit;
    // The waiter exists before the first read, so that no end is missed in between.
    let mut ended = app.graph.db().waiter(&runs::ended_channel(run));
    let mut access_ended = std::pin::pin!(caller.access_ended(app));
    let mut closed = std::pin::pin!(app.closed());
    loop {
        let found = app.executor.get_run(project, run).await?;
        let left = deadline.saturating_duration_since(Instant::now());
        if found.status.is_terminal() || found.status == RunStatus::Waiting || left.is_zero() {
            return Ok(found);
        }
        // Nothing of what this request read is needed while it waits, which may take minutes.
        release_rows();
        tokio::select! {
            () = ended.wait(left.min(POLL_INTERVAL)) => {}
            () = &mut closed => return Ok(found),
            () = &mut access_ended => return Err(ApiError::unknown_token()),
        }
    }
}

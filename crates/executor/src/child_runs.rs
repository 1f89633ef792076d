//! Runs below a run: admitted a few at a time, waited for, cancelled when time is up. Which there
//! are is in the database, so a parent that is taken up again finds them and starts none twice.

use std::sync::Arc;

use emergent_domain::{
    ids::ToolCallId,
    run::{MAX_CONCURRENT_CHILDREN, Run},
};
use emergent_store::{Tx, runs};
use tokio::time::{Duration, Instant};

use crate::{
    Error, Executor, Result,
    recorder::{RunPosition, fence},
};

/// How often to look without being woken.
const POLL: Duration = Duration::from_millis(500);

/// Admits the child at a place; an error the caller can tell is that child's own failure.
pub(crate) type AdmitChild = Arc<dyn Fn(&mut Tx<'_>, usize) -> Result<Run> + Send + Sync>;

/// A child, or why it could not be started.
#[derive(Debug, Clone)]
pub(crate) enum Child {
    Run(Box<Run>),
    Refused(String),
}

/// The children of one call, or of one round of a flow.
pub(crate) struct ChildBatch {
    pub call: Option<ToolCallId>,
    pub first_part: i64,
    /// One for each place: what an earlier run of the chain brought to its end there, if it did.
    pub existing: Vec<Option<Run>>,
    pub at: RunPosition,
    pub deadline: Instant,
    pub admit: AdmitChild,
}

/// Starts children, at most a few at once, and waits for the end of all of them. At the deadline
/// those that have not ended are cancelled.
pub(crate) async fn run_children(
    executor: &Executor,
    parent: &Run,
    wanted: ChildBatch,
) -> Result<Vec<Child>> {
    let ChildBatch { call, first_part, existing: had, at, deadline, admit } = wanted;
    let count = had.len();
    let mut waiter = executor.db().waiter(&runs::ended_channel(parent.id));
    let mut refused: Vec<Option<String>> = vec![None; count];
    loop {
        let (id, last_part) = (parent.id, first_part + i64::try_from(count).unwrap_or(i64::MAX));
        let found = executor.db().read(move |tx| runs::list_children(tx, id, call)).await?;
        let mut children = had.clone();
        for run in found.into_iter().filter(|run| (first_part..last_part).contains(&run.child_index)) {
            let place = usize::try_from(run.child_index - first_part).unwrap_or(0);
            children[place] = Some(run);
        }
        let live = children.iter().flatten().filter(|run| !run.status.is_terminal()).count();
        let missing: Vec<usize> =
            (0..count).filter(|place| children[*place].is_none() && refused[*place].is_none()).collect();
        if live == 0 && missing.is_empty() {
            return Ok(children
                .into_iter()
                .zip(refused)
                .map(|(run, why)| match run {
                    Some(run) => Child::Run(Box::new(run)),
                    None => Child::Refused(why.unwrap_or_default()),
                })
                .collect());
        }
        if Instant::now() >= deadline {
            cancel_children(executor, parent, children.into_iter().flatten().collect()).await?;
            missing.into_iter().for_each(|place| refused[place] = Some("not started: time is up".into()));
            continue;
        }
        let mut admitted = false;
        for place in missing.into_iter().take(MAX_CONCURRENT_CHILDREN.saturating_sub(live)) {
            let (admit, at) = (Arc::clone(&admit), at.clone());
            let done = executor
                .db()
                .write(move |tx| {
                    // The parent's row is ours until the commit: a cancel either sees this child or
                    // comes first and stops it here.
                    fence(tx, &at)?;
                    admit(tx, place)
                })
                .await;
            match done {
                Ok(_) => admitted = true,
                Err(error @ (Error::Store(_) | Error::Lost(_))) => return Err(error),
                Err(error) => refused[place] = Some(error.to_string()),
            }
        }
        if !admitted && live > 0 {
            let left = deadline.saturating_duration_since(Instant::now());
            waiter.wait(POLL.min(left.max(Duration::from_millis(1)))).await;
        }
    }
}

async fn cancel_children(executor: &Executor, parent: &Run, children: Vec<Run>) -> Result<()> {
    let (project, now) = (parent.project, executor.clock().now());
    let ids: Vec<_> = children.iter().filter(|run| !run.status.is_terminal()).map(|run| run.id).collect();
    let why = "the time of its parent was up";
    let work = move |tx: &mut Tx<'_>| runs::record::cancel_trees(tx, project, ids.clone(), why, now);
    let cancelled = executor.db().write(work).await?;
    executor.stop_driving(&cancelled);
    Ok(())
}

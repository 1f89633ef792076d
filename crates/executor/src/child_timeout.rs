//! How long the children of a run may take: spawned agents, and the parts of flows.

use emergent_domain::{
    agent::AgentDefinition,
    run::{DEFAULT_TIMEOUT_SECONDS, Reason, Run},
};
use emergent_store::{Tx, agents};
use tokio::time::{Duration, Instant};

use crate::{Executor, Result, child_runs::Child};

/// Returns the maximum timeout of a child, in seconds. The child needs time to sum up before the deadline of its
/// parent, and the parent needs time to use the result.
pub(crate) fn max_child_timeout(deadline: Instant, grace: Duration) -> i64 {
    let remaining = deadline.saturating_duration_since(Instant::now());
    let usable = remaining.saturating_sub(grace).max(remaining / 2);
    i64::try_from(usable.as_secs()).unwrap_or(i64::MAX).max(1)
}

/// Returns how many seconds a run of an agent has if its start sets no timeout.
pub(crate) fn default_timeout(definition: &AgentDefinition) -> i64 {
    definition.default_timeout.map_or(DEFAULT_TIMEOUT_SECONDS, i64::from)
}

/// Returns how many seconds a child has that resumes a paused one, if its start sets no timeout. The paused run may
/// have had less time than its definition says because the time of its parent ended; the parent has new time.
pub(crate) fn resumed_timeout(tx: &mut Tx<'_>, paused: &Run) -> Result<i64, emergent_store::Error> {
    let agent = agents::get(tx, paused.project, paused.agent)?;
    let default = agent.map_or(0, |agent| default_timeout(&agent.definition));
    Ok(paused.timeout_seconds.max(default))
}

/// Returns for each child that ran out of time how many seconds its definition gives it; `None` for the others.
pub(crate) async fn default_timeouts(executor: &Executor, children: &[Child]) -> Result<Vec<Option<i64>>> {
    let timed_out = |child: &Child| match child {
        Child::Run(run) if run.reason == Some(Reason::Timeout) => Some((run.agent, run.agent_version)),
        _ => None,
    };
    let versions: Vec<_> = children.iter().map(timed_out).collect();
    if versions.iter().all(Option::is_none) {
        return Ok(vec![None; children.len()]);
    }
    let work = move |tx: &mut Tx<'_>| {
        let mut timeouts = Vec::with_capacity(versions.len());
        for version in &versions {
            let definition = match *version {
                Some((agent, version)) => agents::get_version(tx, agent, version)?,
                None => None,
            };
            timeouts.push(definition.as_ref().map(default_timeout));
        }
        Ok::<_, emergent_store::Error>(timeouts)
    };
    Ok(executor.db().read(work).await?)
}

//! Claims runs for the free slots of a runner: runs whose runner crashed, then queued ones. When slots are
//! scarce, they are divided fairly between the projects that wait ([`crate::fair_queue`]).

use std::{collections::HashSet, sync::Arc, time::Duration};

use emergent_domain::{ids::ProjectId, run::Run, time::Timestamp};
use emergent_store::{Tx, runs::claim};
use tracing::warn;
use uuid::Uuid;

use crate::{
    Executor,
    fair_queue::{Candidate, ClaimOrder, WaitingProjects},
    run_task,
    slots::{RunSlot, RunnerHandle, Slots},
};

/// How long a silent runner keeps its runs. As runners poll every second, another one claims them
/// within eleven seconds.
pub(crate) const LEASE: Duration = Duration::from_secs(9);
/// The most runs that one transaction claims.
const CLAIM_BATCH: usize = 256;

/// What an attempt to claim runs found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Claimed {
    /// Runs were claimed, and there may be more.
    Some,
    /// Runs wait for a slot.
    Waiting,
    /// No run waits.
    None,
}

/// Claims runs for one runner.
pub(crate) struct Claims {
    executor: Executor,
    runner: RunnerHandle,
    order: ClaimOrder,
    /// Where the list of waiting projects continues, if it is longer than one statement returns.
    after: ProjectId,
}

/// What there is to claim.
struct Queue {
    /// The projects with queued runs.
    projects: Vec<ProjectId>,
    /// Those of them that may use more slots.
    startable: Vec<ProjectId>,
    /// Whether a runner that lost its lease owns runs. It is looked up only if no project is startable:
    /// otherwise the claim looks for such runs anyway.
    has_orphans: bool,
}

/// The runs that a transaction claimed, each with its slot.
struct Batch {
    runs: Vec<(Run, RunSlot)>,
    order: ClaimOrder,
}

impl Claims {
    pub fn new(executor: &Executor, runner: &RunnerHandle) -> Self {
        let (executor, runner) = (executor.clone(), runner.clone());
        Self { executor, runner, order: ClaimOrder::default(), after: first_project() }
    }

    /// Claims as many runs as one transaction may, and starts their drivers.
    pub async fn claim(&mut self) -> Claimed {
        // The read comes first, because a write transaction is needed only if there is something to claim.
        let queue = match self.read_queue().await {
            Ok(queue) => queue,
            Err(error) => {
                warn!(error = %error, "could not read the queue of runs, trying again");
                return Claimed::None;
            }
        };
        let nothing_claimed = if queue.projects.is_empty() { Claimed::None } else { Claimed::Waiting };
        if self.runner.slots.free() == 0 {
            *self.runner.waiting.lock() = WaitingProjects::new(queue.startable);
            return nothing_claimed;
        }
        if queue.startable.is_empty() && !queue.has_orphans {
            *self.runner.waiting.lock() = WaitingProjects::None;
            return nothing_claimed;
        }
        match self.claim_batch(queue.startable).await {
            Ok(Batch { runs, order }) => {
                self.order = order;
                if runs.is_empty() {
                    *self.runner.waiting.lock() = WaitingProjects::None;
                    return nothing_claimed;
                }
                for (run, slot) in runs {
                    run_task::spawn(&self.executor, run, Arc::clone(&self.runner.owner), slot, None);
                }
                Claimed::Some
            }
            Err(error) => {
                warn!(error = %error, "could not claim runs, trying again");
                nothing_claimed
            }
        }
    }

    async fn read_queue(&mut self) -> Result<Queue, emergent_store::Error> {
        let (after, now, slots) = (self.after, self.executor.clock().now(), Arc::clone(&self.runner.slots));
        let read = move |tx: &mut Tx<'_>| {
            let mut projects = claim::list_waiting_projects(tx, after)?;
            if projects.len() < claim::MAX_WAITING_PROJECTS && after != first_project() {
                let known: HashSet<ProjectId> = projects.iter().copied().collect();
                let from_start = claim::list_waiting_projects(tx, first_project())?;
                projects.extend(from_start.into_iter().filter(|project| !known.contains(project)));
            }
            let may_start = |project: &ProjectId| slots.left_for(*project) > 0;
            let startable: Vec<ProjectId> = projects.iter().copied().filter(may_start).collect();
            let has_orphans = startable.is_empty() && claim::has_orphaned(tx, now)?;
            Ok::<_, emergent_store::Error>(Queue { projects, startable, has_orphans })
        };
        let queue = self.executor.db().read(read).await?;
        let is_full = queue.projects.len() >= claim::MAX_WAITING_PROJECTS;
        self.after = queue.projects.last().copied().filter(|_| is_full).unwrap_or_else(first_project);
        Ok(queue)
    }

    async fn claim_batch(&self, projects: Vec<ProjectId>) -> Result<Batch, emergent_store::Error> {
        let (slots, order) = (Arc::clone(&self.runner.slots), self.order.clone());
        let (owner, now) = (Arc::clone(&self.runner.owner), self.executor.clock().now());
        let work = move |tx: &mut Tx<'_>| {
            let mut batch = Batch { runs: Vec::new(), order: order.clone() };
            claim_orphaned(tx, &slots, &owner, now, &mut batch)?;
            claim_queued(tx, &slots, &owner, now, &projects, &mut batch)?;
            Ok(batch)
        };
        self.executor.db().write(work).await
    }
}

/// The id before those of all projects.
fn first_project() -> ProjectId {
    ProjectId(Uuid::nil())
}

/// How many more runs a transaction may claim.
fn capacity(slots: &Slots, batch: &Batch) -> usize {
    slots.free().min(CLAIM_BATCH.saturating_sub(batch.runs.len()))
}

/// Takes over the runs of runners that lost their lease, as far as the projects may use slots here.
fn claim_orphaned(
    tx: &mut Tx<'_>,
    slots: &Arc<Slots>,
    owner: &str,
    now: Timestamp,
    batch: &mut Batch,
) -> Result<(), emergent_store::Error> {
    let mut full: Vec<ProjectId> = Vec::new();
    loop {
        let limit = capacity(slots, batch);
        if limit == 0 {
            return Ok(());
        }
        let orphans = claim::lock_orphaned(tx, owner, &full, now, limit)?;
        let full_before = full.len();
        for orphan in orphans {
            let project = orphan.run.project;
            if full.contains(&project) {
                continue;
            }
            // A slot is acquired before a run is claimed, so that nobody else takes it in between.
            let Some(slot) = slots.try_acquire(project) else {
                full.push(project);
                continue;
            };
            if let Some(run) = claim::claim_orphan(tx, owner, orphan, LEASE, now)? {
                batch.runs.push((run, slot));
            }
        }
        // The runs of projects that may use no more slots were in the way of others.
        if full.len() == full_before {
            return Ok(());
        }
    }
}

/// Claims queued runs of these projects, and divides the free slots between them.
fn claim_queued(
    tx: &mut Tx<'_>,
    slots: &Arc<Slots>,
    owner: &str,
    now: Timestamp,
    projects: &[ProjectId],
    batch: &mut Batch,
) -> Result<(), emergent_store::Error> {
    let mut waiting = projects.to_vec();
    while !waiting.is_empty() {
        let candidate = |project: ProjectId| Candidate {
            project,
            in_use: slots.in_use(project),
            left: slots.left_for(project),
        };
        let candidates: Vec<Candidate> = waiting.iter().copied().map(candidate).collect();
        let free = capacity(slots, batch);
        let shares = batch.order.divide(free, &candidates);
        waiting.clear();
        for share in shares {
            let mut runs = claim::lock_queued(tx, share.project, share.runs)?;
            // A project with fewer runs than its share leaves slots to the others.
            if runs.len() == share.runs {
                waiting.push(share.project);
            }
            let acquired: Vec<RunSlot> =
                std::iter::from_fn(|| slots.try_acquire(share.project)).take(runs.len()).collect();
            runs.truncate(acquired.len());
            claim::mark_started(tx, owner, now, &mut runs)?;
            batch.runs.extend(runs.into_iter().zip(acquired));
        }
    }
    Ok(())
}

//! Claims workflows that no server drives and drives each in a task of its own. A lease per workflow
//! says which server owns it. A server that cannot renew its leases drops its drivers before another
//! server takes over.

use std::sync::Arc;

use emergent_domain::{
    ids::WorkflowId,
    time::Timestamp,
    workflow::{Escalation, Workflow, WorkflowStatus},
    workflow_event::{WorkflowEventBody, WorkflowMove},
};
use emergent_store::{
    Tx,
    lease_keeper::{LeaseExpired, LeaseKeeper},
    requester::{Requester, on_behalf_of},
    workflows::{self, ClaimLimits},
};
use tokio::{
    sync::{Mutex, watch},
    task::AbortHandle,
    time::{Duration, Instant, sleep},
};
use tracing::{error, warn};

use crate::{
    dispatcher::{Dispatcher, LEASE, RunningDriver},
    driver_failures::{AfterFailure, DriverFailures},
    error::{Error, Result},
    transactions::new_event,
    workflow_driver::WorkflowDriver,
};

/// How often the dispatcher tries to claim workflows without being woken.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// The most workflows that are claimed in one transaction.
const CLAIM_BATCH: usize = 64;

impl Dispatcher {
    /// Drives workflows until `stop` is true, and adopts new tasks meanwhile. A workflow that is not finished then
    /// stays as it is, and the next start or another server continues it.
    pub async fn run(&self, stop: watch::Receiver<bool>) {
        tokio::join!(self.claim_and_drive(stop.clone()), self.adopt_until_stopped(stop));
    }

    async fn claim_and_drive(&self, mut stop: watch::Receiver<bool>) {
        while !*stop.borrow() {
            let owner: Arc<str> = uuid::Uuid::now_v7().to_string().into();
            let ended = self.run_with_owner(&owner, &mut stop).await;
            self.abort_all();
            let Err(error) = ended else { return };
            warn!(error = %error, "the dispatcher starts again under a new owner name");
            tokio::select! { () = sleep(POLL_INTERVAL) => {}, _ = stop.changed() => {} }
        }
    }

    /// Claims and drives workflows under one owner name, until it stops or loses its leases.
    async fn run_with_owner(&self, owner: &Arc<str>, stop: &mut watch::Receiver<bool>) -> Result<()> {
        let clock = self.executor().graph().clock();
        let keeper = LeaseKeeper::new("the workflows of this server", clock, LEASE);
        // A renewal compares the drivers with the leases, so it must not see a workflow that is claimed and
        // has no driver yet.
        let claiming = Mutex::new(());
        tokio::select! {
            // Leases are renewed concurrently with the loop, so that a slow claim does not hide their expiry.
            biased;
            expired = self.keep_leases(owner, keeper, &claiming) => {
                return Err(Error::Conflict(expired.to_string()));
            }
            () = self.claim_until_stopped(owner, stop, &claiming) => {}
        }
        self.abort_all();
        let (owner, now) = (Arc::clone(owner), clock.now());
        let released: Result<(), emergent_store::Error> =
            self.executor().graph().db().write(move |tx| workflows::release_all(tx, &owner, now)).await;
        Ok(released?)
    }

    async fn claim_until_stopped(
        &self,
        owner: &Arc<str>,
        stop: &mut watch::Receiver<bool>,
        claiming: &Mutex<()>,
    ) {
        let mut waiting = self.executor().graph().db().waiter(workflows::CLAIMABLE_CHANNEL);
        while !*stop.borrow() {
            let guard = claiming.lock().await;
            if let Err(error) = self.claim_workflows(owner).await {
                warn!(error = %error, "could not claim workflows, trying again");
            }
            drop(guard);
            tokio::select! {
                () = waiting.wait(POLL_INTERVAL) => {}
                stopped = stop.changed() => if stopped.is_err() { return },
            }
        }
    }

    /// Renews the leases of all workflows. Returns when this server must stop driving them.
    async fn keep_leases(
        &self,
        owner: &Arc<str>,
        mut keeper: LeaseKeeper,
        claiming: &Mutex<()>,
    ) -> LeaseExpired {
        loop {
            let renewal = |until| async move {
                let _guard = claiming.lock().await;
                self.renew_leases(owner, until).await
            };
            if let Err(expired) = keeper.renew(renewal).await {
                return expired;
            }
        }
    }

    /// Renews the leases, and stops the drivers of workflows that were lost.
    async fn renew_leases(&self, owner: &Arc<str>, until: Timestamp) -> Result<()> {
        let owner_name = Arc::clone(owner);
        let owned: Result<Vec<WorkflowId>, emergent_store::Error> =
            self.executor().graph().db().write(move |tx| workflows::renew(tx, &owner_name, until)).await;
        let owned = owned?;
        let undriven: Vec<WorkflowId> = {
            let mut drivers = self.drivers().lock();
            drivers.retain(|id, RunningDriver { handle, .. }| {
                let is_driven = owned.contains(id) && !handle.is_finished();
                if !is_driven {
                    handle.abort();
                }
                is_driven
            });
            owned.into_iter().filter(|id| !drivers.contains_key(id)).collect()
        };
        // This server owns these workflows without driving them, because their driver crashed or the reply
        // to the claim was lost.
        for id in undriven {
            let now = self.executor().graph().clock().now();
            let released: Result<(), emergent_store::Error> =
                self.executor().graph().db().write(move |tx| workflows::make_claimable(tx, id, now)).await;
            released?;
        }
        Ok(())
    }

    async fn claim_workflows(&self, owner: &Arc<str>) -> Result<()> {
        let capacity = self.settings().max_workflows.saturating_sub(self.driven_count()).min(CLAIM_BATCH);
        if capacity == 0 {
            return Ok(());
        }
        let (now, owner_name) = (self.executor().graph().clock().now(), Arc::clone(owner));
        let limits = ClaimLimits {
            total: capacity,
            per_project: emergent_executor::project_share(self.settings().max_workflows),
            owned: self.count_driven_by_project(),
        };
        let db = self.executor().graph().db();
        // A renewal waits for a claim, so a claim has the same priority.
        let claim = on_behalf_of(
            Requester::Priority,
            db.write(move |tx| workflows::claim(tx, &owner_name, &limits, now, now + LEASE)),
        );
        let claimed: Result<Vec<Workflow>, emergent_store::Error> = claim.await;
        for workflow in claimed? {
            self.spawn_driver(workflow, owner);
        }
        Ok(())
    }

    fn spawn_driver(&self, workflow: Workflow, owner: &Arc<str>) {
        let (id, project, dispatcher) = (workflow.id, workflow.project, self.clone());
        let owner = Arc::clone(owner);
        let number = self.next_driver_number();
        // The lock is held until the handle is in the map, so that the task cannot remove itself before.
        let mut drivers = self.drivers().lock();
        #[expect(
            clippy::disallowed_methods,
            reason = "`drivers` keeps the handle, and the dispatcher aborts these tasks when it stops"
        )]
        let task = tokio::spawn(async move {
            let _guard = DriverGuard { dispatcher: dispatcher.clone(), workflow: id, number };
            let mut driver = WorkflowDriver::new(&dispatcher, &workflow, &owner);
            let mut failures = DriverFailures::new(id);
            loop {
                let begin = Instant::now();
                let Err(error) = driver.run().await else { return };
                error!(workflow.id = %id, error = %error, "workflow `{id}` was interrupted, driving it again");
                let delay = match failures.record(&error, begin.elapsed()) {
                    AfterFailure::Retry { delay } => delay,
                    AfterFailure::Escalate { delay } => {
                        if dispatcher.escalate_unwritable(&workflow, &owner, &error).await {
                            return;
                        }
                        delay
                    }
                };
                sleep(delay).await;
            }
        });
        let running = RunningDriver { number, project, handle: task.abort_handle() };
        if let Some(replaced) = drivers.insert(id, running) {
            replaced.handle.abort();
        }
    }

    /// Escalates a workflow whose changes cannot be written. Returns false if that failed too, and the
    /// workflow has to be driven again.
    async fn escalate_unwritable(&self, workflow: &Workflow, owner: &Arc<str>, error: &Error) -> bool {
        let (project, id, owner) = (workflow.project, workflow.id, Arc::clone(owner));
        let reason = format!("it could not go on: {error}");
        let now = self.executor().graph().clock().now();
        let work = move |tx: &mut Tx<'_>| {
            if workflows::fence(tx, id, &owner, now + LEASE)?.is_none() {
                return Ok(false);
            }
            let Some(mut workflow) = workflows::get(tx, project, id)? else { return Ok(false) };
            let from = workflow.status;
            // No task is the cause: a person can only resume the workflow once the cause is fixed.
            let options = ["resume", "cancel"].map(str::to_owned).to_vec();
            workflow.status = WorkflowStatus::Escalated;
            workflow.updated_at = now;
            let reason = reason.clone();
            let escalated = WorkflowEventBody::Escalated(WorkflowMove {
                status: WorkflowStatus::Escalated,
                reason: reason.clone(),
                options: Some(options.clone()),
                summary: None,
            });
            workflow.escalation = Some(Escalation { reason, task: None, discussion: None, options, at: now });
            workflows::update(tx, from, &workflow)?;
            workflows::append_events(tx, id, &[new_event(None, None, &escalated, now)])?;
            Ok(true)
        };
        let escalated: Result<bool, emergent_store::Error> = self.executor().graph().db().write(work).await;
        if let Ok(true) = escalated {
            self.counters().record_escalation();
        }
        escalated
            .inspect_err(|error| warn!(workflow.id = %id, error = %error, "could not escalate the workflow"))
            .is_ok()
    }

    fn abort_all(&self) {
        let handles: Vec<AbortHandle> =
            self.drivers().lock().drain().map(|(_, driver)| driver.handle).collect();
        handles.iter().for_each(AbortHandle::abort);
    }
}

/// Removes a driver from the map when its task ends, even by a panic.
struct DriverGuard {
    dispatcher: Dispatcher,
    workflow: WorkflowId,
    number: u64,
}

impl Drop for DriverGuard {
    fn drop(&mut self) {
        let mut drivers = self.dispatcher.drivers().lock();
        if drivers.get(&self.workflow).is_some_and(|driver| driver.number == self.number) {
            drivers.remove(&self.workflow);
        }
    }
}

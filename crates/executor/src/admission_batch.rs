//! The runs that one transaction admits. While there are free slots, a run is admitted as running and owned
//! by this server, and its driver starts as soon as the transaction is committed.

use std::sync::Arc;

use emergent_domain::run::Run;
use emergent_graph::WriteContext;
use emergent_store::Tx;

use crate::{
    Executor, Result,
    run_task::{self, LoadedRun},
    sessions::{self, GraphDrafts, SessionMessages},
    slots::OwnedSlot,
};

/// A run that a transaction admitted.
pub(crate) struct AdmittedRun {
    pub run: Run,
    /// The first messages of the run, for its session in the graph.
    pub session_messages: Option<SessionMessages>,
    /// The loaded state of a run that was started in the transaction that admitted it. The driver then
    /// does not read it from the database again.
    pub loaded: Option<LoadedRun>,
}

/// Assigns slots to runs while one transaction admits them, and buffers their session messages until the
/// caller writes them.
#[derive(Default)]
pub struct AdmissionBatch {
    owner: Option<Arc<str>>,
    free_slots: usize,
    started: Vec<(Run, Option<LoadedRun>)>,
    session_messages: Vec<SessionMessages>,
}

impl AdmissionBatch {
    /// Returns the owner of the next admitted run, or `None` when no slot is free and the run is queued.
    pub(crate) fn next_owner(&self) -> Option<Arc<str>> {
        self.owner.clone().filter(|_| self.started.len() < self.free_slots)
    }

    pub(crate) fn push(&mut self, admitted: AdmittedRun) {
        let AdmittedRun { run, session_messages, loaded } = admitted;
        self.session_messages.extend(session_messages);
        if run.owner.is_some() {
            self.started.push((run, loaded));
        }
    }

    /// Writes the drafts to the graph, together with the buffered session messages of the admitted runs.
    pub fn write_drafts(
        &mut self,
        tx: &mut Tx<'_>,
        ctx: &WriteContext,
        drafts: GraphDrafts,
    ) -> emergent_graph::Result<()> {
        sessions::write_drafts(tx, ctx, drafts, self.session_messages.drain(..))
    }
}

impl Executor {
    /// Commits `work`, then drives the runs that it admitted into `slots`. The commit and the start of the
    /// drivers continue when the caller is dropped meanwhile: a run that this runner owns and does not
    /// drive would make no progress.
    pub async fn commit_and_drive<T, E>(
        &self,
        slots: Vec<OwnedSlot>,
        work: impl Fn(&mut Tx<'_>, &mut AdmissionBatch) -> Result<T, E> + Send + 'static,
    ) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<emergent_store::Error> + Send + 'static,
    {
        let executor = self.clone();
        let commit = async move {
            let (owner, free_slots) = (slots.first().map(|slot| Arc::clone(&slot.owner)), slots.len());
            let work = move |tx: &mut Tx<'_>| {
                let mut admissions =
                    AdmissionBatch { owner: owner.clone(), free_slots, ..AdmissionBatch::default() };
                let output = work(tx, &mut admissions)?;
                Ok::<_, E>((output, admissions.started))
            };
            let (output, started) = executor.db().write(work).await?;
            executor.drive_started(started, slots);
            Ok(output)
        };
        let closed = |_| Err(emergent_store::Error::Closed.into());
        #[expect(
            clippy::disallowed_methods,
            reason = "awaited here; it is one transaction, and outlives a caller who gives up"
        )]
        let committed = tokio::spawn(commit);
        committed.await.unwrap_or_else(closed)
    }

    /// Starts the drivers of runs that were admitted into slots. A runner that lost its lease or stopped in
    /// the meantime drives nothing: another runner takes these runs over, as it does with all its runs.
    fn drive_started(&self, started: Vec<(Run, Option<LoadedRun>)>, slots: Vec<OwnedSlot>) {
        let runner = self.runner().lock();
        let Some(runner) = runner.as_ref() else { return };
        let _runtime = runner.runtime.enter();
        for ((run, loaded), slot) in started.into_iter().zip(slots) {
            if slot.owner == runner.owner {
                run_task::spawn(self, run, slot.owner, slot.slot, loaded);
            }
        }
    }
}

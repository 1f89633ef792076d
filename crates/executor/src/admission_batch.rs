//! The runs that one transaction admits. While there are free slots, a run is admitted as running and owned
//! by this server, and its driver starts as soon as the transaction is committed.

use std::sync::Arc;

use emergent_domain::run::Run;
use emergent_graph::WriteContext;
use emergent_store::Tx;

use crate::{
    loaded_run::LoadedRun,
    sessions::{self, GraphDrafts, SessionMessages},
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
pub struct AdmissionBatch {
    owner: Option<Arc<str>>,
    free_slots: usize,
    started: Vec<(Run, Option<LoadedRun>)>,
    session_messages: Vec<SessionMessages>,
}

impl AdmissionBatch {
    /// `owner` is the runner of this process, if it has free slots.
    pub(crate) fn new(owner: Option<Arc<str>>, free_slots: usize) -> Self {
        Self { owner, free_slots, started: Vec::new(), session_messages: Vec::new() }
    }

    /// Returns the runs that were admitted as running, which the caller drives after the commit.
    pub(crate) fn into_started(self) -> Vec<(Run, Option<LoadedRun>)> {
        self.started
    }

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

//! The runs that one transaction admits. While there are free slots, a run is admitted as running and owned
//! by this server, and its driver starts as soon as the transaction is committed.

use std::sync::Arc;

use emergent_domain::{
    ids::{ProjectId, RunId, WorkflowId},
    run::Run,
    run_event::RecordedMessage,
    workflow::{Limit, WorkflowLink},
};

use crate::{budget::KnownLimits, loaded_run::LoadedRun};

/// A run that a transaction admitted.
pub(crate) struct AdmittedRun {
    pub run: Run,
    pub first_messages: Vec<RecordedMessage>,
    /// The loaded state of a run that was started in the transaction that admitted it. The driver then
    /// does not read it from the database again.
    pub loaded: Option<LoadedRun>,
}

/// The messages that a run was admitted with. The hooks of the run see only later ones, so the caller that
/// admitted the run writes what it needs of these itself.
pub struct FirstMessages {
    pub run: RunId,
    pub link: WorkflowLink,
    pub messages: Vec<RecordedMessage>,
}

/// What a transaction knows when it admits a run. It reads the rest.
#[derive(Debug, Default)]
pub(crate) struct KnownFacts {
    /// The project whose row the transaction has locked against its deletion.
    pub held_project: Option<ProjectId>,
    pub limits: KnownLimits,
}

/// Assigns slots to runs while one transaction admits them, and collects their first messages for the
/// caller.
pub struct AdmissionBatch {
    owner: Option<Arc<str>>,
    free_slots: usize,
    started: Vec<(Run, Option<LoadedRun>)>,
    first_messages: Vec<FirstMessages>,
    pub(crate) known: KnownFacts,
}

impl AdmissionBatch {
    /// `owner` is the runner of this process, if it has free slots.
    pub(crate) fn new(owner: Option<Arc<str>>, free_slots: usize) -> Self {
        Self {
            owner,
            free_slots,
            started: Vec::new(),
            first_messages: Vec::new(),
            known: KnownFacts::default(),
        }
    }

    /// Says that the transaction has locked the row of a live project against its deletion, and of one of its workflows, which
    /// has this limit. Admissions do not read them again.
    pub fn set_locked(&mut self, project: ProjectId, workflow: WorkflowId, limit: Limit) {
        self.known.held_project = Some(project);
        self.known.limits.workflow = Some((workflow, limit));
    }

    /// Returns the runs that were admitted as running, which the caller drives after the commit.
    pub(crate) fn into_started(self) -> Vec<(Run, Option<LoadedRun>)> {
        self.started
    }

    /// Returns the owner of the next admitted run, or `None` when no slot is free and the run is queued.
    pub(crate) fn next_owner(&self) -> Option<Arc<str>> {
        self.owner.clone().filter(|_| self.started.len() < self.free_slots)
    }

    /// Adds an admitted run. If it has an owner, it takes a slot.
    pub(crate) fn push(&mut self, admitted: AdmittedRun) {
        let AdmittedRun { run, first_messages, loaded } = admitted;
        let (id, link) = (run.id, run.workflow_link);
        self.first_messages.push(FirstMessages { run: id, link, messages: first_messages });
        if run.owner.is_some() {
            self.started.push((run, loaded));
        }
    }

    /// Returns the first messages of the runs admitted since the last call, in the order of admission.
    pub fn take_first_messages(&mut self) -> Vec<FirstMessages> {
        std::mem::take(&mut self.first_messages)
    }
}

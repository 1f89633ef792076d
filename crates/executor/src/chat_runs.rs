//! Admits the runs that answer messages of conversations, in the transaction of the layer that stores the messages.

use emergent_domain::{
    agent::{Agent, Visibility},
    ids::{RunId, TokenId},
    run::{Origin, Run},
};
use emergent_store::Tx;

use crate::{
    Executor, Result, StartOptions,
    admission::{self, Admission},
    admission_batch::AdmissionBatch,
};

/// A run that answers a message. The caller chooses the id, because the message refers to the run.
#[derive(Debug, Clone, Copy)]
pub struct ChatRun {
    pub id: RunId,
    /// What sent the message: `chat` or `invoke`.
    pub origin: Origin,
    pub started_by: Option<TokenId>,
}

/// Refuses an agent that no message can start, so that no conversation with it is made.
pub fn check_chat_agent(agent: &Agent) -> Result<()> {
    match agent.definition.visibility {
        Visibility::Internal => Err(admission::internal_agent(&agent.definition.name)),
        Visibility::Project | Visibility::External => Ok(()),
    }
}

/// Starts a run if a slot is free, and queues it otherwise. An error means that nothing was written.
pub fn admit_chat_run(
    tx: &mut Tx<'_>,
    executor: &Executor,
    admissions: &mut AdmissionBatch,
    agent: &Agent,
    run: ChatRun,
    start: &StartOptions,
) -> Result<Run> {
    let admission = Admission { id: Some(run.id), started_by: run.started_by, ..Admission::new(run.origin) };
    admission::admit_in_batch(tx, executor, admissions, agent, &admission, start)
}

impl Executor {
    /// Fails if no more runs of a project can be queued.
    pub async fn check_capacity(&self, project: emergent_domain::ids::ProjectId) -> Result<()> {
        self.check_queue_capacity(project).await
    }
}

//! Starts agents for external callers that wait for the result. Only agents with external visibility
//! can be started this way.

use emergent_domain::{
    author::Author,
    ids::AgentId,
    invalid::Invalid,
    run::{Origin, Run},
};
use emergent_graph::Actor;
use emergent_store::{Tx, agents, idempotency::accept_once};

use crate::{
    Error, Executor, Result, StartOptions,
    admission::{Admission, admit},
};

impl Executor {
    /// Starts an external agent and returns at once with the queued run. Any other agent is refused.
    pub async fn invoke(&self, actor: Actor, agent: AgentId, start: StartOptions) -> Result<Run> {
        if start.input.trim().is_empty() {
            return Err(Invalid::new("input", "is required: it tells the agent what to do").into());
        }
        self.check_queue_capacity(actor.project).await?;
        let started_by = match actor.author {
            Author::Token { id } => Some(id),
            _ => None,
        };
        let (executor, start) = (self.clone(), start.with_trace_context());
        let work = move |tx: &mut Tx<'_>| {
            let agent = agents::get(tx, actor.project, agent)?
                .filter(|agent| agent.deleted_at.is_none())
                .ok_or_else(|| Error::not_found("agent", agent))?;
            let admission = Admission { started_by, ..Admission::new(Origin::Invoke) };
            admit(tx, &executor, &agent, &admission, &start)
        };
        self.db().write(move |tx| accept_once(tx, &work)).await
    }
}

//! Started from outside, by somebody who waits for the answer: only what is open to the outside.

use emergent_domain::{
    author::Author,
    ids::AgentId,
    invalid::Invalid,
    run::{Origin, Run},
};
use emergent_graph::Actor;
use emergent_store::{Tx, agents};

use crate::{
    Error, Executor, Result, StartOptions,
    admission::{Admission, admit},
};

impl Executor {
    /// Starts an external agent; returns at once with the queued run. Any other is refused.
    pub async fn invoke(&self, actor: Actor, agent: AgentId, start: StartOptions) -> Result<Run> {
        if start.input.trim().is_empty() {
            return Err(Invalid::new("input", "is required: what the agent is to do").into());
        }
        self.check_queue_capacity().await?;
        let started_by = match actor.author {
            Author::Token { id } => Some(id),
            _ => None,
        };
        let executor = self.clone();
        let work = move |tx: &mut Tx<'_>| {
            let agent = agents::get(tx, actor.project, agent)?
                .filter(|agent| agent.deleted_at.is_none())
                .ok_or_else(|| Error::not_found("agent", agent))?;
            let door = Admission { started_by, ..Admission::new(Origin::Invoke) };
            admit(tx, &executor, &agent, &door, &start)
        };
        self.db().write(work).await
    }
}

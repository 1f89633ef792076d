//! Starts agents for external callers that wait for the result. Only agents with external visibility
//! can be started this way.

use emergent_domain::{
    agent::FlowType,
    ids::{AgentId, RunId},
    invalid::Invalid,
    run::{Origin, Run},
};
use emergent_graph::Actor;
use emergent_store::{Tx, agents, idempotency::accept_once};

use crate::{
    Error, Executor, Result, StartOptions,
    admission::{Admission, admit_in_batch, author_token},
    admission_batch::AdmissionBatch,
};

impl Executor {
    /// Starts an external agent and returns at once. Any other agent is refused. The run starts in the same
    /// transaction if a slot is free, because its caller often waits for it, and is queued otherwise.
    pub async fn invoke(&self, actor: Actor, agent_id: AgentId, start: StartOptions) -> Result<Run> {
        self.invoke_with(actor, agent_id, start, |_, _| Ok(())).await
    }

    /// Like [`Executor::invoke`]; `write` writes in the same transaction, before the run is admitted, what the caller
    /// keeps about the run with this id. If it fails, nothing is started.
    pub async fn invoke_with(
        &self,
        actor: Actor,
        agent_id: AgentId,
        start: StartOptions,
        write: impl Fn(&mut Tx<'_>, RunId) -> Result<()> + Send + 'static,
    ) -> Result<Run> {
        if start.input.trim().is_empty() {
            return Err(Invalid::new("input", "is required: it tells the agent what to do").into());
        }
        self.check_client_tools(actor.project, agent_id, &start.client_tools).await?;
        let schema = start.output_schema.clone().map(|schema| ("outputSchema".to_owned(), schema));
        self.graph().compile_output_schemas(actor.project, schema.into_iter().collect()).await?;
        self.check_queue_capacity(actor.project).await?;
        let slots = self.try_acquire_slots(actor.project, 1);
        let (executor, start) = (self.clone(), start.with_trace_context());
        let work = move |tx: &mut Tx<'_>, admissions: &mut AdmissionBatch| {
            accept_once(tx, |tx| {
                let agent = agents::get(tx, actor.project, agent_id)?;
                let agent = agent.ok_or_else(|| Error::not_found("agent", agent_id))?;
                // All parts would run, and their texts below one another are never one JSON value.
                if start.output_schema.is_some() && agent.definition.flow_type == FlowType::Parallel {
                    let reason =
                        "is not for an agent whose parts run in parallel: its result joins their texts";
                    return Err(Invalid::new("outputSchema", reason).into());
                }
                let id = RunId::new();
                write(tx, id)?;
                let started_by = author_token(actor);
                let admission = Admission { id: Some(id), started_by, ..Admission::new(Origin::Invoke) };
                admit_in_batch(tx, &executor, admissions, &agent, &admission, &start)
            })
        };
        self.commit_and_drive(slots, work).await
    }
}

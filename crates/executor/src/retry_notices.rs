//! Tells those who follow the runs above a run, or its workflow, that its model is asked again and how long it waits:
//! otherwise they see nothing in the meantime. The record of the run has the event already.

use emergent_domain::{
    run::Run,
    run_event::{ModelRetry, RetryingChild, RunEvent, RunEventBody},
    workflow_event::{AGENT_ASKER, WorkflowEventBody},
};
use emergent_store::{
    Tx,
    runs::history,
    workflows::{self, NewWorkflowEvent},
};
use tracing::warn;

use crate::Executor;

/// Publishes a retry of a run to the followers of the runs above it, and records it as an event of its workflow. A failure
/// does not end the run.
pub(crate) async fn tell_followers(executor: &Executor, run: &Run, step: i64, retry: &ModelRetry) {
    let told = match publish_above(executor, run, step, retry).await {
        Ok(()) => record_in_workflow(executor, run, retry).await,
        failed => failed,
    };
    if let Err(error) = told {
        warn!(run.id = %run.id, error = %error, "could not tell that the model of run `{}` is asked again", run.id);
    }
}

async fn publish_above(
    executor: &Executor,
    run: &Run,
    step: i64,
    retry: &ModelRetry,
) -> Result<(), emergent_store::Error> {
    let Some(parent) = run.parent else { return Ok(()) };
    let list = move |tx: &mut Tx<'_>| -> Result<_, emergent_store::Error> {
        let (mut above, mut next) = (Vec::new(), Some(parent));
        while let Some(id) = next {
            above.push(id);
            next = history::find_child(tx, id)?.and_then(|run| run.parent);
        }
        Ok(above)
    };
    let child = RetryingChild { run: run.id, agent: run.agent_name.clone() };
    for above in executor.db().read(list).await? {
        if executor.hub().has_subscribers(above) {
            let body = RunEventBody::ModelRetry { step, retry: retry.clone(), child: Some(child.clone()) };
            executor.hub().publish(RunEvent { run: above, seq: None, at: executor.clock().now(), body });
        }
    }
    Ok(())
}

async fn record_in_workflow(
    executor: &Executor,
    run: &Run,
    retry: &ModelRetry,
) -> Result<(), emergent_store::Error> {
    let Some(workflow) = run.workflow_link.workflow else { return Ok(()) };
    let ModelRetry { model, error, attempt, wait_ms } = retry.clone();
    let (asker, agent) = (AGENT_ASKER.to_owned(), Some(run.agent_name.clone()));
    let body = WorkflowEventBody::ModelRetry { asker, agent, model, error, attempt, wait_ms };
    let event = NewWorkflowEvent {
        kind: body.kind(),
        task: run.workflow_link.task,
        run: Some(run.id),
        data: body.data(),
        at: executor.clock().now(),
    };
    let append =
        move |tx: &mut Tx<'_>| workflows::append_own_events(tx, workflow, std::slice::from_ref(&event));
    executor.db().write(append).await
}

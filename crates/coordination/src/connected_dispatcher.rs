//! Creates a dispatcher and connects it with the executor: the executor calls its hooks for runs of workflows and for
//! triggers that start workflows.

use emergent_executor::Executor;

use crate::{
    dispatcher::{Dispatcher, Settings},
    ended_runs::EndedRunSenders,
    run_hooks::run_hooks,
    triggered_workflows::workflow_hooks,
};

impl Dispatcher {
    /// Also makes the executor call the hooks of workflows, so it has to be called before the executor drives runs.
    pub fn new(executor: Executor, settings: Settings) -> Self {
        let ended_runs = EndedRunSenders::default();
        executor.set_run_hooks(run_hooks(executor.graph().clone(), ended_runs.clone()));
        let dispatcher = Self::assemble(executor, settings, ended_runs);
        dispatcher.executor().set_workflow_hooks(workflow_hooks(dispatcher.downgrade()));
        dispatcher
    }
}

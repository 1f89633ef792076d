//! The interface to the layer that starts workflows, for triggers that start one. The executor stores the template of
//! such a workflow and does not interpret it.

use std::sync::Arc;

use emergent_domain::{
    author::Author,
    ids::{ProjectId, WorkflowId},
    workflow::WorkflowOrigin,
    workflow_template::WorkflowTemplate,
};
use emergent_store::Tx;

use crate::{Error, Executor, Result};

/// The functions that check and start the workflows of triggers.
pub struct WorkflowHooks {
    /// Checks a template that somebody sends before it is saved, as a dispatch checks a request. The fields of problems are
    /// those of the template.
    pub check: CheckTemplate,
    /// Starts a workflow in the transaction of its caller. If it fails, the transaction has to be rolled back.
    pub start: StartWorkflow,
}

/// See [`WorkflowHooks::check`].
pub type CheckTemplate =
    Box<dyn Fn(&mut Tx<'_>, ProjectId, Author, &WorkflowTemplate) -> Result<()> + Send + Sync>;
/// See [`WorkflowHooks::start`].
pub type StartWorkflow =
    Box<dyn Fn(&mut Tx<'_>, ProjectId, &TriggeredWorkflow) -> Result<WorkflowId> + Send + Sync>;

/// A workflow that a trigger starts.
#[derive(Debug, Clone, PartialEq)]
pub struct TriggeredWorkflow {
    pub template: WorkflowTemplate,
    pub origin: WorkflowOrigin,
    /// What happened, for the agents; `None` for a schedule.
    pub event: Option<String>,
}

impl Executor {
    /// Sets the functions for triggers that start workflows. They replace earlier ones.
    pub fn set_workflow_hooks(&self, hooks: WorkflowHooks) {
        *self.workflow_hooks_cell().write() = Some(Arc::new(hooks));
    }

    /// The functions for triggers that start workflows; `None` if this process starts none.
    pub(crate) fn workflow_hooks(&self) -> Option<Arc<WorkflowHooks>> {
        self.workflow_hooks_cell().read().clone()
    }

    /// Checks the workflow of a trigger in the transaction that saves it.
    pub fn check_workflow_template(
        &self,
        tx: &mut Tx<'_>,
        project: ProjectId,
        author: Author,
        template: &WorkflowTemplate,
    ) -> Result<()> {
        template.check()?;
        match self.workflow_hooks() {
            Some(hooks) => (hooks.check)(tx, project, author, template),
            None => Err(Error::Conflict("this process cannot start workflows".to_owned())),
        }
    }
}

//! The author and project of a write, and the context that a write needs.

use std::{sync::Arc, time::Duration};

use emergent_domain::{
    author::Author,
    ids::{ProjectId, WorkflowId},
    pack::PackSet,
    project::Project,
    task::{TASK_TYPE, TaskAuthority},
    task_links::DISCUSSION_TYPE,
    time::Timestamp,
    workflow::Workflow,
};
use emergent_store::{
    Tx, projects,
    workflows::{self, NewWorkflowEvent},
};

use crate::{
    Graph,
    error::{Error, Result},
    judged_names::JudgedNames,
    validation::TxValidation,
    withheld::limits::SentSizes,
};

/// An author and the project it acts in. The API builds it from a token, a run from its tool call.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Actor {
    pub project: ProjectId,
    pub author: Author,
}

/// The context of a write transaction: the project row, its compiled packs, the timestamp and the
/// author.
#[derive(Debug, Clone)]
pub struct WriteContext {
    pub project: Project,
    pub packs: Arc<PackSet>,
    pub author: Author,
    pub now: Timestamp,
    /// The tasks that the writer decides about. Not public: only [`Graph::workflow_write_context`],
    /// [`Graph::dispatcher_write_context`], [`Graph::unassigned_write_context`] and
    /// [`WriteContext::insert_workflow`] give a writer more than an editor may do.
    pub(crate) decides: DecidesTasks,
    /// Whether the writer may link tasks and discussions to workflows, runs and decisions. Not public: only
    /// [`WriteContext::with_links`] sets it.
    pub(crate) links: bool,
    /// Whether patches contain stored content, which their author may not be allowed to read.
    pub(crate) writes_stored_content: bool,
    /// The sizes of what this transaction changes.
    pub(crate) sent_sizes: SentSizes,
    /// Bounds the time that validations take in this transaction.
    pub(crate) validation: TxValidation,
    /// Whether changed texts are queued for embedding.
    pub embed: bool,
    /// The reason that is stored with every version written in this context. Usually none.
    pub reason: Option<String>,
    /// What the names in the input of a tool call meant when rules or a person decided that it may be made; empty if nobody
    /// decided.
    pub judged: Arc<[JudgedNames]>,
}

/// The tasks that a writer decides about, beyond what every editor of a task may do.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum DecidesTasks {
    #[default]
    None,
    /// The tasks that belong to no workflow.
    Unassigned,
    /// The tasks of this workflow, whose row the transaction has locked.
    Of(WorkflowId),
}

impl WriteContext {
    /// Returns what the writer may do to a task of this workflow, or to one without a workflow.
    pub(crate) fn task_authority(&self, workflow: Option<WorkflowId>) -> TaskAuthority {
        let decides = match self.decides {
            DecidesTasks::None => false,
            DecidesTasks::Unassigned => workflow.is_none(),
            DecidesTasks::Of(id) => workflow == Some(id),
        };
        if decides { TaskAuthority::Workflow } else { TaskAuthority::Editor }
    }

    /// Returns this context for a command that links tasks and discussions to workflows, runs and decisions,
    /// such as starting a workflow. The caller has checked that the author may do so; what an author writes
    /// itself, through the API or a tool of the graph, must not get this context.
    #[must_use]
    pub fn with_links(&self) -> Self {
        Self { links: true, ..self.clone() }
    }

    /// Inserts a workflow with its first events, and returns the context of a writer that decides about its tasks. Nobody else
    /// sees the workflow before the transaction is committed, so nobody has to be locked out or notified.
    pub fn insert_workflow(
        &self,
        tx: &mut Tx<'_>,
        workflow: &mut Workflow,
        events: &[NewWorkflowEvent],
    ) -> Result<WriteContext> {
        workflows::insert_with_events(tx, workflow, events)?;
        Ok(WriteContext { decides: DecidesTasks::Of(workflow.id), ..self.clone() })
    }

    /// Whether the writer may change the tasks of every workflow: the server itself, and commands on workflows,
    /// whose authors were checked before.
    pub(crate) fn is_trusted_with_tasks(&self) -> bool {
        self.decides != DecidesTasks::None || self.author == Author::System
    }

    /// Whether packs do not apply to an update of an object of this type. A command on a workflow must succeed
    /// although a pack was assigned that its own writes do not conform to: a cancelled workflow would otherwise
    /// go on.
    pub(crate) fn skips_packs(&self, type_: &str) -> bool {
        let is_own = [TASK_TYPE, DISCUSSION_TYPE, "Session"].contains(&type_);
        self.decides != DecidesTasks::None && is_own
    }

    pub(crate) fn may_link(&self) -> bool {
        self.links || self.decides != DecidesTasks::None || self.author == Author::System
    }

    /// Whether changes of tasks are counted in the revisions of their workflows, which notifies the
    /// dispatchers. A writer that decides for a workflow increments the revision itself: the fence of
    /// its dispatcher has done so, and a dispatcher would take a second increment for a change by
    /// somebody else. It notifies no other workflow either, because two such writers would lock each
    /// other's rows.
    pub(crate) fn notifies_workflows(&self) -> bool {
        self.decides == DecidesTasks::None
    }

    /// Returns the timestamp for a change of something last written at `last`. The result is later
    /// than `last`, so that two versions never share a timestamp even if the clocks of several
    /// servers differ.
    pub(crate) fn timestamp_after(&self, last: Timestamp) -> Timestamp {
        self.now.max(last + Duration::from_micros(1))
    }
}

impl Graph {
    /// Loads the context of a write. Returns `NotFound` if the project was deleted.
    pub fn write_context(&self, tx: &mut Tx<'_>, actor: Actor) -> Result<WriteContext> {
        let project = projects::get(tx, actor.project)?;
        self.context_for(tx, actor, project)
    }

    fn context_for(&self, tx: &mut Tx<'_>, actor: Actor, project: Option<Project>) -> Result<WriteContext> {
        let project = project.ok_or_else(|| Error::not_found("project", actor.project))?;
        let packs = self.project_packs(tx, &project)?;
        Ok(WriteContext {
            packs,
            project,
            author: actor.author,
            now: self.clock().now(),
            decides: DecidesTasks::None,
            links: false,
            writes_stored_content: false,
            sent_sizes: SentSizes::default(),
            validation: self.tx_validation(),
            embed: self.embedder().is_some(),
            reason: None,
            judged: Arc::default(),
        })
    }

    /// Loads the context of a writer that decides about the tasks of a workflow. Locks the row of the
    /// workflow until the transaction ends and returns it: nobody else decides meanwhile. The caller
    /// increments the revision of the workflow, with its fence or with `workflows::bump_revision`.
    /// Returns `NotFound` if the project has no such workflow.
    pub fn workflow_write_context(
        &self,
        tx: &mut Tx<'_>,
        actor: Actor,
        id: WorkflowId,
    ) -> Result<(WriteContext, Workflow)> {
        let workflow =
            workflows::lock(tx, actor.project, id)?.ok_or_else(|| Error::not_found("workflow", id))?;
        let ctx = self.write_context(tx, actor)?;
        Ok((WriteContext { decides: DecidesTasks::Of(id), ..ctx }, workflow))
    }

    /// As [`Graph::workflow_write_context`], for the dispatcher that owns the workflow; `None` if it does not. The caller ends
    /// its transaction with `workflows::write_decisions`, which increments the revision. With `holds_project`,
    /// the project is not deleted before the transaction ends.
    pub fn dispatcher_write_context(
        &self,
        tx: &mut Tx<'_>,
        actor: Actor,
        id: WorkflowId,
        owner: &str,
        holds_project: bool,
    ) -> Result<Option<(WriteContext, Workflow)>> {
        let Some(workflow) = workflows::lock_owned(tx, actor.project, id, owner)? else { return Ok(None) };
        let project = match holds_project {
            true => projects::hold(tx, actor.project)?,
            false => projects::get(tx, actor.project)?,
        };
        let ctx = self.context_for(tx, actor, project)?;
        Ok(Some((WriteContext { decides: DecidesTasks::Of(id), ..ctx }, workflow)))
    }

    /// Loads the context of a writer that decides about tasks without a workflow: no dispatcher drives
    /// them, so a person's command decides alone.
    pub fn unassigned_write_context(&self, tx: &mut Tx<'_>, actor: Actor) -> Result<WriteContext> {
        Ok(WriteContext { decides: DecidesTasks::Unassigned, ..self.write_context(tx, actor)? })
    }

    /// Runs a write in a transaction of its own.
    pub(crate) async fn write<T, F>(&self, actor: Actor, work: F) -> Result<T>
    where
        F: Fn(&mut Tx<'_>, &WriteContext) -> Result<T> + Send + Sync + 'static,
        T: Send + 'static,
    {
        let graph = self.clone();
        let work = move |tx: &mut Tx<'_>| {
            let ctx = graph.write_context(tx, actor)?;
            work(tx, &ctx)
        };
        self.write_validated(actor.project, work).await
    }
}

//! The run that calls a tool, the workflow that the call is about, and how an input names a task.

use std::collections::BTreeSet;

use emergent_domain::{
    author::Author,
    ids::{ObjectId, ProjectId, RunId, WorkflowId},
    invalid::Invalid,
    object::{Object, limits},
    pack::nearest_name,
    task::{TASK_TYPE, Task},
    token::Scope,
    workflow::WorkflowLink,
};
use emergent_graph::{
    Error, Result, WriteContext,
    judged_names::{self, JudgedNames},
};
use emergent_store::{Tx, objects, runs, tasks, tokens, workflows};
use schemars::JsonSchema;
use serde::Deserialize;

/// The run that calls a tool, and its workflow link.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Caller {
    pub run: Option<RunId>,
    pub link: WorkflowLink,
}

impl Caller {
    /// Loads the workflow link of the calling run. It is empty for a caller that is not a run.
    pub fn load(tx: &mut Tx<'_>, project: ProjectId, run: Option<RunId>) -> Result<Self> {
        let calling_run = match run {
            Some(run) => runs::get(tx, project, run)?,
            None => None,
        };
        Ok(Self { run, link: calling_run.map(|run| run.workflow_link).unwrap_or_default() })
    }

    /// The workflow of a call: the one it names, the run's own, or the one the run started.
    pub fn workflow(
        &self,
        tx: &mut Tx<'_>,
        project: ProjectId,
        workflow: Option<WorkflowId>,
    ) -> Result<Option<WorkflowId>> {
        if let Some(id) = workflow {
            let exists = workflows::get(tx, project, id)?.is_some();
            return if exists { Ok(Some(id)) } else { Err(not_found("workflow", id)) };
        }
        match (self.link.workflow, self.run) {
            (Some(own), _) => Ok(Some(own)),
            (None, Some(run)) => Ok(workflows::find_started_by(tx, project, run)?),
            (None, None) => Ok(None),
        }
    }
}

/// Refuses a token that names a task or a workflow that is there and may read neither tasks nor the graph. The answers and
/// the errors say what they are. `field` is the one that names it.
pub(super) fn check_may_read(tx: &mut Tx<'_>, author: Author, field: &str) -> Result<()> {
    if may_read(tx, author)? {
        return Ok(());
    }
    let reason = format!(
        "names what is there already, which needs a token with the scope `{}` or `{}`",
        Scope::GraphRead,
        Scope::AgentsRead
    );
    Err(Invalid::new(field, reason).into())
}

/// Whether the author may read tasks or the graph. A run reads with the tools that it was given.
fn may_read(tx: &mut Tx<'_>, author: Author) -> Result<bool> {
    let Author::Token { id } = author else { return Ok(true) };
    let reads =
        |scopes: &BTreeSet<Scope>| scopes.contains(&Scope::GraphRead) || scopes.contains(&Scope::AgentsRead);
    Ok(tokens::get(tx, id)?.is_some_and(|token| reads(&token.scopes)))
}

pub(super) fn not_found(what: &'static str, id: impl ToString) -> Error {
    Error::NotFound { what, id: id.to_string() }
}

/// How an input names a task: by its key in the workflow, or by its id.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(transparent)]
#[schemars(inline)]
pub(super) struct TaskRef(#[schemars(length(min = 1, max = 700))] pub String);

/// How a task was found.
#[derive(Clone, Copy)]
enum Found {
    /// By the key of its object, which can be given to another one.
    ByObjectKey(ObjectId),
    /// By its id, or by its key in the workflow.
    Otherwise(ObjectId),
}

impl Found {
    fn id(self) -> ObjectId {
        match self {
            Self::ByObjectKey(id) | Self::Otherwise(id) => id,
        }
    }
}

/// Whether an error about a key names one of the workflow that is like it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Hint {
    Shown,
    /// The caller may not read, so it is not told which tasks there are.
    Withheld,
}

impl TaskRef {
    /// Loads the task. `workflow` is where its key is looked up. Fails if the key of the object was given to another one
    /// since it was decided that the call may be made, when it meant `judged`.
    pub fn resolve(
        &self,
        tx: &mut Tx<'_>,
        project: ProjectId,
        workflow: Option<WorkflowId>,
        judged: &[JudgedNames],
    ) -> Result<Object> {
        let found = self.find(tx, project, workflow, Hint::Shown)?;
        self.load_judged(tx, project, found, judged)
    }

    /// Like [`TaskRef::resolve`], in the change of a call.
    pub fn resolve_for(
        &self,
        tx: &mut Tx<'_>,
        writer: &WriteContext,
        workflow: Option<WorkflowId>,
    ) -> Result<Object> {
        let hint = if may_read(tx, writer.author)? { Hint::Shown } else { Hint::Withheld };
        let found = self.find(tx, writer.project.id, workflow, hint)?;
        self.load_judged(tx, writer.project.id, found, &writer.judged)
    }

    fn load_judged(
        &self,
        tx: &mut Tx<'_>,
        project: ProjectId,
        found: Found,
        judged: &[JudgedNames],
    ) -> Result<Object> {
        if let Found::ByObjectKey(id) = found {
            judged_names::check_key(tx, project, judged, &self.0, id)?;
        }
        self.load(tx, project, found.id())
    }

    fn load(&self, tx: &mut Tx<'_>, project: ProjectId, id: ObjectId) -> Result<Object> {
        let task = objects::get(tx, project, id)?.filter(|object| object.type_ == TASK_TYPE);
        task.ok_or_else(|| not_found("task", &self.0))
    }

    /// Finds the task. A key of an object is tried before a key in the workflow.
    fn find(
        &self,
        tx: &mut Tx<'_>,
        project: ProjectId,
        workflow: Option<WorkflowId>,
        hint: Hint,
    ) -> Result<Found> {
        let text = self.0.as_str();
        if text.contains('\0') {
            return Err(not_found("task", text.replace('\0', "")));
        }
        if let Ok(id) = text.parse() {
            return Ok(Found::Otherwise(id));
        }
        let object_key = text.strip_prefix(TASK_TYPE).and_then(|rest| rest.strip_prefix('/'));
        if let Some(id) = objects::id_by_key(tx, project, TASK_TYPE, object_key.unwrap_or(text))? {
            return Ok(Found::ByObjectKey(id));
        }
        // Rules read such a text as the key of an object only, so they would not hold for a task with this key in a workflow.
        if object_key.is_some() || text.len() > limits::KEY {
            let message = format!("there is no task `{text}`: give its id, or its key in the workflow alone");
            return Err(Error::Conflict { message });
        }
        let Some(workflow) = workflow else {
            let message = format!("there is no task `{text}`: give its id, or `workflowId` with its key");
            return Err(Error::Conflict { message });
        };
        let tasks = tasks::list_keys(tx, project, workflow)?;
        if let Some((_, id)) = tasks.iter().find(|(key, _)| key == text) {
            return Ok(Found::Otherwise(*id));
        }
        let nearest = match hint {
            Hint::Shown => nearest_name(text, tasks.iter().map(|(key, _)| key.as_str())),
            Hint::Withheld => None,
        };
        let hint = nearest.map(|key| format!("; did you mean `{key}`?")).unwrap_or_default();
        Err(Error::Conflict { message: format!("this workflow has no task `{text}`{hint}") })
    }

    /// The key of the task in a workflow. A name that is not found is returned unchanged, so that the
    /// check of the tasks reports it with its path.
    pub fn key_in_workflow(
        &self,
        tx: &mut Tx<'_>,
        writer: &WriteContext,
        workflow: Option<WorkflowId>,
    ) -> Result<String> {
        let is_key = !self.0.contains('/') && self.0.parse::<ObjectId>().is_err();
        if is_key {
            return Ok(self.0.clone());
        }
        let found = match self.find(tx, writer.project.id, None, Hint::Withheld) {
            Ok(found) => found,
            Err(Error::NotFound { .. } | Error::Conflict { .. }) => return Ok(self.0.clone()),
            Err(error) => return Err(error),
        };
        if let Found::ByObjectKey(id) = found {
            writer.check_key(tx, &self.0, id)?;
        }
        match self.load(tx, writer.project.id, found.id()) {
            Ok(object) => {
                let task = Task::from_object(&object);
                Ok(if task.workflow.is_some() && task.workflow == workflow {
                    task.key
                } else {
                    self.0.clone()
                })
            }
            Err(Error::NotFound { .. }) => Ok(self.0.clone()),
            Err(error) => Err(error),
        }
    }
}

//! Keeps the links of tasks and discussions to workflows, runs and decisions for the dispatcher, however an
//! object is written.

use emergent_domain::{
    author::Author,
    ids::WorkflowId,
    invalid::{Invalid, Problem},
    object::Object,
    task_links::{LinkAuthor, RefusedLink, find_link_of_task, find_refused_links},
};
use emergent_store::{Tx, runs, workflows};
use serde_json::{Map, Value};

use super::{is_task, task_workflow};
use crate::{WriteContext, error::Result, objects::ObjectDraft};

/// Checks which links an author may write.
pub(super) enum LinkCheck {
    /// The dispatcher, or a command on a workflow.
    All,
    Token,
    /// A run may create tasks in the workflow that it works for, and in the one that it started.
    Run(Vec<WorkflowId>),
}

impl LinkCheck {
    /// `is_needed`: whether a draft names a workflow, so that the workflows of the run have to be known.
    pub(super) fn load(tx: &mut Tx<'_>, ctx: &WriteContext, is_needed: bool) -> Result<Self> {
        match ctx.author {
            _ if ctx.may_link() => Ok(Self::All),
            Author::Run { run_id, .. } => {
                let mut own = Vec::new();
                if is_needed {
                    let run = runs::get(tx, ctx.project.id, run_id)?;
                    own.extend(run.and_then(|run| run.workflow_link.workflow));
                    own.extend(workflows::find_started_by(tx, ctx.project.id, run_id)?);
                }
                Ok(Self::Run(own))
            }
            Author::Token { .. } | Author::System => Ok(Self::Token),
        }
    }

    /// Checks a new object.
    pub(super) fn check_new(&self, draft: &ObjectDraft) -> Result<(), Invalid> {
        self.check(draft.type_(), None, draft.properties())
    }

    fn check(
        &self,
        type_: &str,
        before: Option<&Map<String, Value>>,
        after: &Map<String, Value>,
    ) -> Result<(), Invalid> {
        let (author, own): (LinkAuthor, &[WorkflowId]) = match self {
            Self::All => return Ok(()),
            Self::Token => (LinkAuthor::Token, &[]),
            Self::Run(own) => (LinkAuthor::Run, own),
        };
        let joins_own = before.and_then(task_workflow).is_none()
            && task_workflow(after).is_some_and(|workflow| own.contains(&workflow));
        let problem =
            |link: RefusedLink| Problem::new(format!("properties.{}", link.property), link.reason());
        let refused = find_refused_links(type_, before, after, author).into_iter();
        Invalid::if_any(refused.filter(|link| !(joins_own && link.names_workflow())).map(problem).collect())
    }
}

/// Checks a change of an object. `was` holds the properties that the change is compared with.
pub(super) fn check_change(
    tx: &mut Tx<'_>,
    ctx: &WriteContext,
    before: &Object,
    was: &Map<String, Value>,
    after: &ObjectDraft,
) -> Result<()> {
    // An object of another type has no links: what its properties of these names say was never checked.
    let was = (before.type_ == after.type_()).then_some(was);
    let is_needed = is_task(after.type_()) && task_workflow(after.properties()).is_some();
    Ok(LinkCheck::load(tx, ctx, is_needed)?.check(after.type_(), was, after.properties())?)
}

/// Checks that a change leaves a task with links a task.
pub(super) fn check_type_change(
    ctx: &WriteContext,
    before: &Object,
    was: &Map<String, Value>,
    after_type: &str,
) -> Result<(), Invalid> {
    if before.type_ == after_type || ctx.may_link() {
        return Ok(());
    }
    match find_link_of_task(&before.type_, was) {
        Some(link) => Err(Invalid::new(
            "type",
            format!(
                "cannot change: `properties.{link}` links this task to its workflow or run; cancel the workflow or skip \
                 the task if it is not to be done"
            ),
        )),
        None => Ok(()),
    }
}

/// Checks that a task of a workflow keeps its key. The tasks that name it, approval rules and people call it by this key, so
/// that another one would free it from what they say. `was` holds the properties of the task, `compared` those that the
/// change is compared with.
pub(super) fn check_key(
    ctx: &WriteContext,
    (type_before, was): (&str, &Map<String, Value>),
    compared: &Map<String, Value>,
    (type_after, after): (&str, &Map<String, Value>),
) -> Result<(), Invalid> {
    let stays_in_workflow = is_task(type_before) && is_task(type_after) && task_workflow(was).is_some();
    if !stays_in_workflow || ctx.may_link() || key(compared) == key(after) {
        return Ok(());
    }
    Err(Invalid::new(
        "properties.key",
        "cannot change: it names the task in its workflow; change `title` instead, or create another task",
    ))
}

fn key(properties: &Map<String, Value>) -> Option<&Value> {
    properties.get("key").filter(|key| !key.is_null())
}

/// Checks the content that a deleted object is restored with, which may be that of another version.
pub(super) fn check_restored(
    tx: &mut Tx<'_>,
    ctx: &WriteContext,
    deleted: &Object,
    (type_, properties): (&str, &Map<String, Value>),
) -> Result<()> {
    let was = deleted.properties.to_map();
    let is_needed = is_task(type_) && task_workflow(properties).is_some();
    let same_type = (deleted.type_ == type_).then_some(&was);
    LinkCheck::load(tx, ctx, is_needed)?.check(type_, same_type, properties)?;
    check_key(ctx, (deleted.type_.as_str(), &was), &was, (type_, properties))?;
    Ok(check_type_change(ctx, deleted, &was, type_)?)
}

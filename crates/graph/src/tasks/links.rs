//! Keeps the links of tasks and discussions to workflows, runs and decisions for the dispatcher, however an
//! object is written.

use emergent_domain::{
    author::Author,
    ids::WorkflowId,
    invalid::{Invalid, Problem},
    object::Object,
    task_links::{LinkAuthor, RefusedLink, find_refused_links},
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

/// Checks a change of an object. `was` holds its current properties.
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

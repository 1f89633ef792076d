//! Who may decide what waits for a person, and who may do what would come to the same: add to a workflow that waits, take
//! over what one has left, or allow it to spend more.

use emergent_domain::{
    author::Author,
    ids::{RunId, WorkflowId},
    token::Scope,
    workflow::{Limit, Workflow, WorkflowStatus},
};
use emergent_graph::WriteContext;
use emergent_store::{Tx, runs, tokens, workflows, workflows::EscalationChange};

use crate::error::{Error, Result};

/// Why a workflow waits for a person whose tasks are being ended.
pub(crate) const CANCELLING_REASON: &str =
    "it is being cancelled, and some of its tasks have ended: cancel it again to end the others";

/// Refuses a decision about what waits for a person, unless the author may decide: a token with the scope of decisions,
/// or a command that works on the data folder. A run never may, whatever started it. The check is made in the
/// transaction of the decision, because a workflow can be escalated after a request was authorised.
pub(crate) fn check_may_decide(
    tx: &mut Tx<'_>,
    author: Author,
    what: &'static str,
    id: impl ToString,
) -> Result<()> {
    if may_decide(tx, author)? { Ok(()) } else { Err(Error::MayNotDecide { what, id: id.to_string() }) }
}

/// Refuses a budget that allows more than the one before, unless the author may decide. Otherwise whoever may start
/// workflows could spend more with those of others, and would not need the decision about one that used up its budget.
pub(crate) fn check_may_raise(
    tx: &mut Tx<'_>,
    author: Author,
    workflow: &Workflow,
    limit: Limit,
) -> Result<()> {
    if limit.is_within(workflow.settings.budget) || may_decide(tx, author)? {
        return Ok(());
    }
    Err(Error::MayNotRaiseBudget { id: workflow.id.to_string() })
}

fn may_decide(tx: &mut Tx<'_>, author: Author) -> emergent_store::Result<bool> {
    Ok(match author {
        Author::System => true,
        Author::Run { .. } => false,
        Author::Token { id } => {
            tokens::get(tx, id)?.is_some_and(|token| token.scopes.contains(&Scope::ApprovalsDecide))
        }
    })
}

/// Refuses new tasks for a workflow that waits for a person, unless the author may decide, or is an agent of the workflow,
/// whose tasks wait with the others. A task changes what the decision is about.
pub(crate) fn check_may_add(
    tx: &mut Tx<'_>,
    writer: &WriteContext,
    workflow: &Workflow,
) -> emergent_graph::Result<()> {
    if workflow.status != WorkflowStatus::Escalated {
        return Ok(());
    }
    let may_add = match writer.author {
        Author::Run { run_id, .. } => works_for(tx, run_id, workflow)?,
        author => may_decide(tx, author)?,
    };
    if may_add {
        return Ok(());
    }
    Err(emergent_graph::Error::WaitsForDecision { workflow: workflow.id, scope: Scope::ApprovalsDecide })
}

/// Whether a run works for a workflow, or has started it.
fn works_for(tx: &mut Tx<'_>, run: RunId, workflow: &Workflow) -> emergent_store::Result<bool> {
    if workflow.started_by_run == Some(run) {
        return Ok(true);
    }
    let run = runs::get(tx, workflow.project, run)?;
    Ok(run.is_some_and(|run| run.workflow_link.workflow == Some(workflow.id)))
}

/// Refuses to take tasks from a cancelled workflow that waited for a person or had a budget, unless the author may decide.
/// Otherwise whoever may cancel it could go on with its tasks without the decision or the budget. Returns why the
/// author had to be asked.
pub(crate) fn check_may_take_over(
    tx: &mut Tx<'_>,
    author: Author,
    workflow: &Workflow,
) -> Result<Option<&'static str>> {
    let open = load_open_questions(tx, workflow.id)?;
    let waited = open.about_workflow || !open.discussions.is_empty();
    let why = match (waited, workflow.settings.budget.is_unlimited()) {
        (true, _) => "waited for a decision when it was cancelled",
        (false, false) => "had a budget",
        (false, true) => return Ok(None),
    };
    if may_decide(tx, author)? {
        return Ok(Some(why));
    }
    Err(Error::MayNotTakeOver { id: workflow.id.to_string(), why })
}

/// What people were asked about a workflow and have not decided.
#[derive(Debug, Default)]
pub(crate) struct OpenQuestions {
    /// Whether the workflow itself waited. Cancelling a large one takes several transactions, in which it waits as well,
    /// but not for a decision.
    about_workflow: bool,
    /// Its discussions that wait, with what each waits for. The workflow may go on with other tasks meanwhile.
    discussions: Vec<(String, String)>,
}

impl OpenQuestions {
    /// What the first discussion that waits asks a person for.
    pub(crate) fn of_discussion(&self) -> Option<&str> {
        self.discussions.first().map(|(_, reason)| reason.as_str())
    }
}

/// Reads what people were asked about a workflow from its events: a cancelled workflow and its discussions no longer wait.
pub(crate) fn load_open_questions(tx: &mut Tx<'_>, id: WorkflowId) -> Result<OpenQuestions> {
    let mut open = OpenQuestions::default();
    for change in workflows::list_escalations(tx, id)? {
        match change {
            EscalationChange::Escalated { reason } => open.about_workflow |= reason != CANCELLING_REASON,
            EscalationChange::Resumed => open.about_workflow = false,
            EscalationChange::DiscussionEscalated { discussion, reason } => {
                open.discussions.retain(|(other, _)| *other != discussion);
                open.discussions.push((discussion, reason));
            }
            EscalationChange::DiscussionEnded { discussion } => {
                open.discussions.retain(|(other, _)| *other != discussion);
            }
        }
    }
    Ok(open)
}

//! The discussions and workflows of the inbox: lists them, and decides them for a person. A decision about a workflow
//! resumes or cancels it; one about a discussion is its outcome.

use emergent_domain::{
    approval::{ApprovalStatus, Choice, NewDecision},
    audit::{AuditAction, NewAuditEntry},
    cursor::{Page, ResultPage},
    ids::{ObjectId, ProjectId, WorkflowId},
    inbox::{InboxItem, InboxItemKind},
    invalid::Invalid,
    time::Timestamp,
    workflow::{Workflow, WorkflowStatus},
};
use emergent_graph::Actor;
use emergent_store::{Tx, audit, inbox_items, objects, workflows};
use serde_json::json;
use uuid::Uuid;

pub use emergent_store::inbox_items::InboxItemFilter;

use super::{cancel::is_being_cancelled, discussions::offered_options};
use crate::{
    dispatcher::Dispatcher,
    error::{Error, Result},
};

/// The longest reason of a decision, as for a tool call.
const MAX_REASON_CHARS: usize = 4_000;

/// An item with what a person can choose from.
#[derive(Debug, Clone, PartialEq)]
pub struct InboxItemDetail {
    pub item: InboxItem,
    /// Suggestions of the discussion or the workflow; none after it was decided.
    pub options: Vec<String>,
}

/// Where a person asked for a change of a workflow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DecidedIn {
    /// At the workflow itself, whatever its status is.
    Workflow,
    /// In the inbox, which decides only what waits for a person.
    Inbox(Choice),
    /// In the inbox, where a person denied a discussion of the workflow.
    Discussion(ObjectId),
}

impl DecidedIn {
    /// Checks that a workflow still waits for the decision. One with several discussions without a decision names one
    /// of them as its reason, and each of them can be denied.
    pub(super) fn check_waiting(self, tx: &mut Tx<'_>, workflow: &Workflow) -> Result<()> {
        let is_escalated = workflow.status == WorkflowStatus::Escalated;
        let is_waiting = match self {
            Self::Workflow => true,
            Self::Inbox(_) => is_escalated,
            Self::Discussion(_) if is_being_cancelled(workflow) => true,
            Self::Discussion(id) => {
                let item = inbox_items::get(tx, workflow.project, id.0)?;
                is_escalated && item.is_some_and(|item| item.status == ApprovalStatus::Pending)
            }
        };
        if is_waiting {
            return Ok(());
        }
        let (id, status) = (workflow.id, workflow.status);
        Err(Error::Conflict(format!(
            "workflow `{id}` is {status}: it does not wait for this decision; to give it up, cancel the workflow"
        )))
    }

    /// The item that was decided, and how; `None` outside of the inbox.
    pub(super) fn decision(self, workflow: WorkflowId) -> Option<(Uuid, Choice)> {
        match self {
            Self::Workflow => None,
            Self::Inbox(choice) => Some((workflow.0, choice)),
            Self::Discussion(discussion) => Some((discussion.0, Choice::Deny)),
        }
    }

    /// Checks that a workflow still waits for the decision, and adds the decision to the audit log.
    pub(super) fn check(self, tx: &mut Tx<'_>, workflow: &Workflow, now: Timestamp) -> Result<()> {
        self.check_waiting(tx, workflow)?;
        let Some((_, choice)) = self.decision(workflow.id) else { return Ok(()) };
        let title = workflow.escalation.as_ref().map_or(&workflow.description, |why| &why.reason);
        let entry = NewAuditEntry::new(AuditAction::ApprovalDecide, Some(workflow.project), title)
            .id(workflow.id)
            .detail("decision", choice.as_str());
        Ok(audit::record(tx, &entry, now)?)
    }
}

impl Dispatcher {
    /// Lists the discussions and workflows of the inbox, newest first.
    pub async fn inbox_items(
        &self,
        project: ProjectId,
        filter: InboxItemFilter,
        page: Page,
    ) -> Result<ResultPage<InboxItem>> {
        let read = move |tx: &mut Tx<'_>| inbox_items::list(tx, project, &filter, &page);
        Ok(self.executor().graph().db().read(read).await?)
    }

    pub async fn inbox_item(&self, project: ProjectId, id: Uuid) -> Result<InboxItemDetail> {
        let read = move |tx: &mut Tx<'_>| {
            let item = inbox_items::get(tx, project, id)?.ok_or_else(|| Error::not_found("approval", id))?;
            let options = match item.status {
                ApprovalStatus::Pending => options(tx, &item)?,
                _ => Vec::new(),
            };
            Ok::<_, Error>(InboxItemDetail { item, options })
        };
        self.executor().graph().db().snapshot(read).await
    }

    /// Decides an item for a person. `approve` resumes a workflow, or accepts the last proposal of a discussion;
    /// `deny` cancels a workflow, also by the discussion that it waits for; `answer` is the outcome of a discussion. Of
    /// several decisions about one item the first counts; the others fail with [`Error::Decided`].
    pub async fn decide_inbox_item(
        &self,
        actor: Actor,
        id: Uuid,
        new: NewDecision,
    ) -> Result<InboxItemDetail> {
        let InboxItemDetail { item, .. } = self.inbox_item(actor.project, id).await?;
        if item.status != ApprovalStatus::Pending {
            return Err(Error::Decided(Box::new(item)));
        }
        check_fields(item.kind, &new)?;
        let NewDecision { choice, answer, reason, .. } = new;
        let done = match (item.kind, choice) {
            (InboxItemKind::Escalation, Choice::Deny) => {
                self.cancel_in(actor, WorkflowId(id), reason, DecidedIn::Inbox(choice)).await.map(|_| ())
            }
            (InboxItemKind::Escalation, _) => {
                let decided_in = DecidedIn::Inbox(choice);
                self.resume_in(actor, WorkflowId(id), reason, None, decided_in).await.map(|_| ())
            }
            (InboxItemKind::Discussion, Choice::Deny) => {
                let discussion = ObjectId(id);
                let workflow = self.workflow_of_discussion(actor.project, discussion).await?;
                let workflow = workflow.ok_or_else(|| {
                    Invalid::new(
                        "decision",
                        "a discussion that no workflow conducts is answered with its outcome, or approved, which \
                         accepts the last proposal",
                    )
                })?;
                let decided_in = DecidedIn::Discussion(discussion);
                self.cancel_in(actor, workflow, reason, decided_in).await.map(|_| ())
            }
            (_, _) => {
                let decision = answer.unwrap_or_else(|| json!("approve"));
                self.decide_in(actor, ObjectId(id), choice, ("answer", decision), reason).await.map(|_| ())
            }
        };
        let detail = self.inbox_item(actor.project, id).await;
        match (done, detail) {
            (Ok(()), detail) => detail,
            // Somebody else was faster.
            (Err(Error::Conflict(_)), Ok(detail)) if detail.item.status != ApprovalStatus::Pending => {
                Err(Error::Decided(Box::new(detail.item)))
            }
            (Err(error), _) => Err(error),
        }
    }
}

/// Checks that the fields belong to the choice, and the choice to the kind of item.
fn check_fields(kind: InboxItemKind, new: &NewDecision) -> Result<()> {
    let invalid = |field: &str, problem: &str| Err(Invalid::new(field, problem).into());
    match (kind, new.choice) {
        (InboxItemKind::Escalation, Choice::Answer) => {
            return invalid(
                "decision",
                "a workflow is approved, which resumes it, or denied, which cancels it",
            );
        }
        (_, Choice::Answer) if new.answer.is_none() => {
            return invalid("answer", "is required with the decision `answer`");
        }
        _ => {}
    }
    if new.answer.is_some() && new.choice != Choice::Answer {
        return invalid("answer", "is only for the decision `answer`");
    }
    if new.edited_input.is_some() {
        return invalid("editedInput", "is only for tool calls");
    }
    if new.digest.is_some() {
        return invalid("digest", "is only for tool calls and questions");
    }
    if new.reason.as_ref().is_some_and(|reason| reason.chars().count() > MAX_REASON_CHARS) {
        return Err(Invalid::new("reason", format!("is longer than {MAX_REASON_CHARS} characters")).into());
    }
    Ok(())
}

/// What the discussion or the workflow offers.
fn options(tx: &mut Tx<'_>, item: &InboxItem) -> Result<Vec<String>> {
    match item.kind {
        InboxItemKind::Escalation => {
            let workflow = workflows::get(tx, item.project, WorkflowId(item.id))?;
            let escalation = workflow.and_then(|workflow| workflow.escalation);
            Ok(escalation.map(|escalation| escalation.options).unwrap_or_default())
        }
        _ => {
            let discussion = objects::get(tx, item.project, ObjectId(item.id))?;
            Ok(discussion.as_ref().map(offered_options).unwrap_or_default())
        }
    }
}

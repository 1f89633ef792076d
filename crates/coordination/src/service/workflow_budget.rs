//! Changes the budget of a workflow that has not ended.

use emergent_domain::{
    author::Author,
    ids::WorkflowId,
    invalid::Invalid,
    text::counted,
    workflow::{Limit, Workflow, WorkflowStatus},
    workflow_event::{EventActor, WorkflowEventBody},
};
use emergent_graph::Actor;
use emergent_store::{Tx, workflows};

use super::{
    changes::{check_not_ended, check_note},
    decision_audit::record_budget,
};
use crate::{
    decision_rights::{check_may_decide, check_may_raise},
    dispatcher::Dispatcher,
    error::{Error, Result},
    transactions::{lock_workflow, new_event},
};

impl Dispatcher {
    /// Replaces the budget of a workflow that is at work or waits for a person. An unlimited `limit` removes it. What the
    /// workflow has spent counts, and a workflow that waits goes on waiting. More than before is for those who decide.
    pub async fn set_workflow_budget(
        &self,
        actor: Actor,
        id: WorkflowId,
        limit: Limit,
        reason: Option<String>,
    ) -> Result<Workflow> {
        check_note("reason", reason.as_deref())?;
        if reason.as_deref().is_some_and(|reason| reason.trim().is_empty()) {
            return Err(Invalid::new("reason", "must not be empty; leave it out if there is none").into());
        }
        let now = self.executor().graph().clock().now();
        let work = move |tx: &mut Tx<'_>| {
            let mut workflow = lock_workflow(tx, actor.project, id)?;
            check_takes_budget(&workflow)?;
            // What an escalated workflow needs is decided by a person, and its budget is part of that, as in a resumption.
            if workflow.status == WorkflowStatus::Escalated {
                check_may_decide(tx, actor.author, "workflow", id)?;
            }
            check_may_raise(tx, actor.author, &workflow, limit)?;
            let before = workflow.settings.budget;
            if before == limit {
                return Ok(workflow);
            }
            record_budget(tx, actor, &workflow, limit, now)?;
            workflow.settings.budget = limit;
            workflow.updated_at = now;
            workflows::set_settings(tx, id, &workflow.settings)?;
            workflows::update(tx, workflow.status, &workflow)?;
            // A driver that has read the old budget reads the workflow again before it commits.
            workflows::bump_revision(tx, actor.project, id)?;
            let changed = budget_changed(actor.author, before, limit, reason.as_deref());
            workflows::append_events(tx, id, &[new_event(None, None, &changed, now)])?;
            Ok::<_, Error>(workflow)
        };
        self.executor().graph().db().write(work).await
    }
}

/// Refuses a workflow that has ended. One that has failed can be resumed, and takes a new budget only then: until that,
/// nothing of it would run.
fn check_takes_budget(workflow: &Workflow) -> Result<()> {
    if workflow.status != WorkflowStatus::Failed {
        return check_not_ended(workflow);
    }
    Err(Error::Conflict(format!(
        "workflow `{id}` is failed: resume it with the new budget, `emergent workflow resume {id} --budget-usd DOLLARS` or \
         `--budget-tokens N`",
        id = workflow.id
    )))
}

#[expect(clippy::cast_precision_loss, reason = "exact up to nine billion dollars")]
fn budget_changed(author: Author, before: Limit, limit: Limit, reason: Option<&str>) -> WorkflowEventBody {
    let change = format!("from {} to {}", limit_text(before), limit_text(limit));
    let by = match author {
        Author::Run { run_id, .. } => EventActor::Run(run_id),
        _ => EventActor::Person,
    };
    WorkflowEventBody::BudgetChanged {
        usd: limit.microusd.map(|microusd| microusd as f64 / 1e6),
        tokens: limit.tokens,
        reason: match reason {
            Some(reason) => format!("{change}: {reason}"),
            None => change,
        },
        by,
    }
}

/// A limit as text: `$5.00 and 100000 tokens`, or `no limit`.
fn limit_text(limit: Limit) -> String {
    let parts = [limit.microusd.map(dollars), limit.tokens.map(|tokens| counted(tokens, "token"))];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    if parts.is_empty() { "no limit".to_owned() } else { parts.join(" and ") }
}

/// Writes dollars with at least two digits after the point, and no more than they need.
fn dollars(microusd: i64) -> String {
    let text = format!("${}.{:06}", microusd / 1_000_000, microusd % 1_000_000);
    let length = text.trim_end_matches('0').len().max(text.len() - 4);
    text[..length].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_a_text_for_people() {
        let text = |microusd, tokens| limit_text(Limit { microusd, tokens });
        assert_eq!(text(None, None), "no limit");
        assert_eq!(text(Some(5_000_000), None), "$5.00");
        assert_eq!(text(Some(1_234), Some(10)), "$0.001234 and 10 tokens");
        assert_eq!(text(Some(20_500_000), None), "$20.50");
    }
}

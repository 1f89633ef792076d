//! Goes on with a run that was interrupted: stores what a person decided and answered, and the new part of the run, in
//! one transaction.

use emergent_domain::{
    approval::{ApprovalKind, ApprovalStatus},
    author::Author,
    ids::ApprovalId,
    token::Scope,
};
use emergent_executor::Error as ExecutorError;
use emergent_graph::Actor;
use emergent_store::{
    Tx,
    agui_runs::{self, AguiRun, AguiThread, InterruptedPart},
};
use emergent_surfaces::agui::{interrupt::decision, request::ResumeEntry};

use super::{
    Refusal,
    run::{insert, new_part},
};
use crate::{ApiError, App, auth::Caller};

/// Returns the part of the run that follows after these responses. Responses to what was decided before decide nothing:
/// the first decision counts.
pub(super) async fn resume(
    app: &App,
    caller: &Caller,
    actor: Actor,
    thread: &AguiThread,
    client_run: &str,
    responses: &[ResumeEntry],
) -> Result<AguiRun, Refusal> {
    let InterruptedPart { part, requests } = find_interrupted(app, thread, responses).await?;
    let response_to = |id: ApprovalId| {
        let id = id.to_string();
        responses.iter().enumerate().find(|(_, response)| response.interrupt_id.eq_ignore_ascii_case(&id))
    };
    let mut decisions = Vec::new();
    let mut missing = Vec::new();
    for request in requests {
        match (request.status, response_to(request.id)) {
            (ApprovalStatus::Pending, Some((index, response))) => {
                // The caller started the run, so it may answer its questions. Approving a call is another right.
                if request.kind == ApprovalKind::Approval
                    && !caller.token.scopes.contains(&Scope::ApprovalsDecide)
                {
                    return Err(ApiError::missing_scope(Scope::ApprovalsDecide).into());
                }
                let new = decision(&request, response, &format!("resume[{index}]"))
                    .map_err(|invalid| Refusal::protocol("invalid_payload", invalid.to_string()))?;
                decisions.push((request, new));
            }
            (ApprovalStatus::Pending, None) => missing.push(format!("`{}`", request.id)),
            (ApprovalStatus::Expired, Some(_)) => {
                let message = format!(
                    "the time for interrupt `{}` was up, and the run went on without it: repeat the interrupted \
                     `runId` for the rest of its events",
                    request.id
                );
                return Err(Refusal::protocol("interrupt_expired", message));
            }
            (ApprovalStatus::Withdrawn, Some(_)) => {
                let message = format!("interrupt `{}` is no longer open: its run has ended", request.id);
                return Err(Refusal::protocol("interrupt_withdrawn", message));
            }
            (ApprovalStatus::Decided, _) | (ApprovalStatus::Expired | ApprovalStatus::Withdrawn, None) => {}
        }
    }
    if !missing.is_empty() {
        let message =
            format!("`resume` must respond to all open interrupts: {} are missing", missing.join(", "));
        return Err(Refusal::protocol("interrupts_open", message));
    }
    let Author::Token { id: token } = actor.author else {
        return Err(ApiError::forbidden("only a token can decide").into());
    };
    let next = new_part(app, thread, client_run, part.run, part.ended_seq.unwrap_or(0));
    let row = next.clone();
    let write = move |tx: &mut Tx<'_>| insert(tx, &row);
    match app.executor.decide_together(decisions, token, write).await {
        Ok(()) => Ok(next),
        Err(ExecutorError::Invalid(invalid)) => {
            Err(Refusal::protocol("invalid_payload", format!("a payload in `resume` is wrong: {invalid}")))
        }
        Err(error) => Err(error.into()),
    }
}

/// Finds the part of the thread that ended with these interrupts.
async fn find_interrupted(
    app: &App,
    thread: &AguiThread,
    responses: &[ResumeEntry],
) -> Result<InterruptedPart, Refusal> {
    let unknown = |id: &str| {
        let id: String = id.chars().take(100).collect();
        Refusal::protocol(
            "unknown_interrupt",
            format!("this thread has no run that was interrupted with `{id}`"),
        )
    };
    let mut ids: Vec<ApprovalId> = Vec::with_capacity(responses.len());
    for response in responses {
        ids.push(response.interrupt_id.parse().map_err(|_| unknown(&response.interrupt_id))?);
    }
    let asked = thread.clone();
    let found = app.graph.db().read(move |tx| agui_runs::find_interrupted(tx, &asked, &ids)).await?;
    found.ok_or_else(|| unknown(responses.first().map_or("", |response| &response.interrupt_id)))
}

//! Requests with the results of tools of the caller: they go on with the run that made the calls.

use std::time::Duration;

use axum::response::{IntoResponse, Response};
use emergent_domain::{
    approval::ApprovalKind,
    client_tool::ClientResult,
    ids::{ProjectId, RunId},
    run::{Run, RunStatus},
    run_event::RunEventBody,
};
use emergent_executor::{self as executor, client_tools::ClientAnswer};
use emergent_graph::Actor;
use emergent_surfaces::{
    invoke::MAX_WAIT_SECONDS,
    openai::{
        AnswerForm,
        error::RunFailure,
        segment::Segment,
        tools::{ToolMessage, rename_result_fields},
    },
};
use futures_util::StreamExt;
use serde_json::Value;
use tokio::time::{Instant, sleep_until};

use super::errors::without_retry;
use crate::{ApiError, App, auth::Caller};

/// The run whose events after a `seq` are the answer to a request.
pub(super) struct FollowedRun {
    pub run: Run,
    pub after_seq: i64,
    /// Whether the request has the results of calls of the run.
    pub has_results: bool,
}

impl FollowedRun {
    pub fn from_start(run: Run) -> Self {
        Self { run, after_seq: 0, has_results: false }
    }
}

/// Returns the run of a request that was accepted before with the same key.
pub(super) async fn follow_accepted(
    app: &App,
    project: ProjectId,
    run: RunId,
    results: &[ToolMessage],
) -> Result<FollowedRun, ApiError> {
    let after_seq = match results.iter().find_map(|result| result.call) {
        Some(call) => app.executor.seq_after_client_call(project, run, call).await?,
        None => 0,
    };
    let run = app.executor.get_run(project, run).await?;
    Ok(FollowedRun { run, after_seq, has_results: after_seq > 0 })
}

/// Gives the results of a request to the run that waits for them; `None` if the calls are not known here, or are those
/// of another agent: then they are a part of the conversation.
pub(super) async fn answer_calls(
    app: &App,
    actor: Actor,
    model: &str,
    results: &[ToolMessage],
) -> Result<Option<FollowedRun>, ApiError> {
    let Some(first_call) = results.first().and_then(|result| result.call) else { return Ok(None) };
    let Some(run) = app.executor.run_of_client_call(actor.project, first_call).await? else {
        return Ok(None);
    };
    if app.executor.get_run(actor.project, run).await?.agent_name != model {
        return Ok(None);
    }
    let mut client_results = Vec::with_capacity(results.len());
    for ToolMessage { index, call, text } in results {
        let field = || format!("messages[{index}].tool_call_id");
        let call = call.ok_or_else(|| ApiError::invalid(field(), "is not a call of the last answer"))?;
        client_results.push(ClientResult { call, output: Value::String(text.clone()), is_error: false });
    }
    let answered = app.executor.answer_client_calls(actor, run, client_results).await;
    let ClientAnswer { run, after_seq, .. } = answered.map_err(|error| match error {
        executor::Error::Invalid(invalid) => rename_result_fields(invalid, results).into(),
        error => ApiError::from(error),
    })?;
    Ok(Some(FollowedRun { run, after_seq, has_results: true }))
}

/// Waits until a run has ended, calls tools of its caller, or waits for a person, and returns the whole answer.
pub(super) async fn whole_segment(
    app: &App,
    caller: &Caller,
    run: Run,
    after_seq: i64,
    form: AnswerForm,
) -> Result<Response, ApiError> {
    let (project, id) = (run.project, run.id);
    let mut segment = Segment::new(run, after_seq, form);
    let mut events = app.executor.follow(project, id, after_seq).boxed();
    let mut access_ended = std::pin::pin!(caller.access_ended(app));
    let mut closed = std::pin::pin!(app.closed());
    let deadline = Instant::now() + Duration::from_secs(MAX_WAIT_SECONDS);
    loop {
        let event = tokio::select! {
            event = events.next() => event.transpose()?,
            () = sleep_until(deadline) => None,
            () = &mut closed => None,
            () = &mut access_ended => return Err(ApiError::unknown_token()),
        };
        let Some(event) = event else {
            let run = app.executor.get_run(project, id).await?;
            return Ok(without_retry(RunFailure::from_run(&run)));
        };
        let may_wait_for_person = matches!(
            event.body,
            RunEventBody::Waiting { waiting_for: ApprovalKind::Approval | ApprovalKind::Question }
        );
        match segment.on_event(event.body) {
            Some(Ok(completion)) => return Ok(axum::Json(completion).into_response()),
            Some(Err(failure)) => return Ok(without_retry(failure)),
            None => {}
        }
        if may_wait_for_person {
            // The event may be an old one: the run is read as it is now.
            let run = app.executor.get_run(project, id).await?;
            if run.status == RunStatus::Waiting && run.waiting_for != Some(ApprovalKind::ClientTool) {
                return Ok(without_retry(RunFailure::from_run(&run)));
            }
        }
    }
}

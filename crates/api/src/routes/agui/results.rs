//! Goes on with a run that called tools of its client: stores their results, and the new part of the run, in one
//! transaction.

use emergent_domain::{
    client_tool::ClientResult,
    ids::{ApprovalId, RunId},
    invalid::Invalid,
};
use emergent_executor::{Error as ExecutorError, client_tools::ClientAnswer};
use emergent_graph::Actor;
use emergent_store::{
    Tx,
    agui_runs::{self, AguiRun, AguiThread},
};
use emergent_surfaces::agui::tools::{ToolResult, rename_result_fields, unknown_call};

use super::{
    Refusal,
    run::{insert, new_part},
};
use crate::App;

/// Returns the part of the run that follows from these results. Results that were sent before change nothing: the first
/// ones count.
pub(super) async fn continue_run(
    app: &App,
    actor: Actor,
    thread: &AguiThread,
    client_run: &str,
    results: &[ToolResult],
) -> Result<AguiRun, Refusal> {
    let mut client_results: Vec<ClientResult> = Vec::with_capacity(results.len());
    for result in results {
        client_results.push(result.to_client_result()?);
    }
    let (Some(first), Some(message)) = (client_results.first(), results.first()) else {
        return Err(Invalid::new("messages", "must end with the results of the calls").into());
    };
    let unknown = unknown_call(message.index);
    let Some(run) = app.executor.run_of_client_call(actor.project, first.call).await? else {
        return Err(unknown.into());
    };
    let next = new_part(app, thread, client_run, run, 0);
    let row = next.clone();
    let write = move |tx: &mut Tx<'_>, answer: &ClientAnswer, requests: &[ApprovalId]| {
        let run: RunId = answer.run.id;
        if !agui_runs::end_at_client_wait(tx, &row.thread, run, answer.after_seq, requests)? {
            return Err(ExecutorError::Invalid(unknown.clone()));
        }
        insert(tx, &AguiRun { after_seq: answer.after_seq, ..row.clone() })
    };
    match app.executor.answer_client_calls_with(actor, run, client_results, write).await {
        Ok(answer) => Ok(AguiRun { after_seq: answer.after_seq, ..next }),
        Err(ExecutorError::Invalid(invalid)) => Err(rename_result_fields(invalid, results).into()),
        Err(error) => Err(error.into()),
    }
}

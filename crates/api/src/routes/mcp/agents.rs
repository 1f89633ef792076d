//! Agents with external visibility, called as tools: a run is started and followed to its end.

use emergent_domain::{
    ids::{AgentId, RunId},
    run::RunStatus,
    run_event::{RunEvent, RunEventBody},
};
use emergent_executor::{Error, Executor, StartOptions};
use emergent_graph::{self as graph, Actor};
use emergent_mcp::server::{CallOutcome, Fault, HostCall, Level};
use emergent_store::requester::{self, on_behalf_of};
use futures_util::StreamExt;
use serde_json::{Value, json};
use tracing::Instrument;

use super::{
    catalog::AgentTool,
    database_errors::{change_failure, follow_failure},
    host::McpCaller,
    tool_calls::{tool_error, tool_result},
};
use crate::{invoke_rate::InvokeRate, waited_run::WaitedRun};

/// Starts the agent, reports its progress, and returns its result. If the client cancels the call or
/// disconnects, the run is cancelled.
pub(super) async fn call(
    executor: &Executor,
    invoke_rate: &InvokeRate,
    agent: &AgentTool,
    call: HostCall<McpCaller>,
) -> Result<CallOutcome, Fault> {
    let input = match call.arguments {
        Value::Object(ref fields) if fields.keys().all(|name| name == "input") => fields.get("input"),
        _ => None,
    };
    let Some(input) = input.and_then(Value::as_str) else {
        return tool_error("Give the agent its task as a text: { \"input\": \"…\" }, and nothing else.");
    };
    if let Err(refused) = invoke_rate.take(call.caller.token.id, agent.id) {
        return tool_error(&refused.message);
    }
    let actor = call.caller.to_actor();
    let start = StartOptions { input: input.to_owned(), ..StartOptions::default() };
    // The run starts in its own task: a client that disconnects while the run is being committed would
    // otherwise leave an untracked run. Here it is guarded as soon as it exists.
    let start = start_run(executor.clone(), actor, agent.id, start).in_current_span();
    #[expect(
        clippy::disallowed_methods,
        reason = "awaited here; it is one transaction, and outlives a client that disconnects"
    )]
    let starting = tokio::spawn(on_behalf_of(requester::current(), start));
    let started = starting.await.map_err(Fault::internal)?;
    let started = invoke_rate.unless_invalid(call.caller.token.id, agent.id, started);
    let mut waited_run = match started {
        Ok(waited_run) => waited_run,
        Err(Error::Store(error) | Error::Graph(graph::Error::Store(error))) => {
            return tool_error(&change_failure(error)?);
        }
        Err(refused) => return tool_error(&refused.to_string()),
    };
    let run = waited_run.run;
    let mut events = std::pin::pin!(executor.follow(actor.project, run, 0));
    // The protocol requires a number that increases with each notification.
    let mut notifications = 0.0;
    while let Some(event) = events.next().await {
        let event = match event {
            Ok(event) => event,
            // The run is cancelled when this function returns.
            Err(error) => return not_followed(run, &error),
        };
        if let RunEventBody::Ended { status, summary, output, error, .. } = &event.body {
            waited_run.keep();
            return run_result(run, *status, summary, output.as_ref(), error.as_deref());
        }
        if let Some(text) = progress_text(&event) {
            notifications += 1.0;
            call.channel.progress(notifications, None, Some(&text));
            call.channel.log(Level::Info, &call.name, &json!({ "runId": run, "message": text }));
        }
    }
    Err(Fault::internal("a run was followed to its end without a final event"))
}

/// Starts a run that is cancelled when the returned value is dropped.
async fn start_run(
    executor: Executor,
    actor: Actor,
    agent: AgentId,
    start: StartOptions,
) -> Result<WaitedRun, Error> {
    let run = executor.invoke(actor, agent, start).await?.id;
    Ok(WaitedRun::new(executor, actor, run))
}

/// Returns a failed call for a run whose events could not be read to the end.
fn not_followed(run: RunId, error: &Error) -> Result<CallOutcome, Fault> {
    let reason = match error.store_error() {
        Some(error) => follow_failure(error)?,
        None => error.to_string(),
    };
    tool_error(&format!("The run `{run}` could not be followed to its end and is cancelled: {reason}"))
}

/// Returns the result of an ended run as text and as JSON.
fn run_result(
    run: RunId,
    status: RunStatus,
    summary: &str,
    output: Option<&Value>,
    error: Option<&str>,
) -> Result<CallOutcome, Fault> {
    let mut structured = json!({ "runId": run, "status": status, "summary": summary });
    if let Some(output) = output {
        structured["output"] = output.clone();
    }
    let text = match status {
        RunStatus::Completed => summary.to_owned(),
        RunStatus::Paused => format!(
            "{summary}\n\n(The run `{run}` is paused at a limit and is not complete: `emergent run resume {run}` continues it.)"
        ),
        _ => format!("The run `{run}` ended as {status}: {}", error.unwrap_or("no reason is recorded")),
    };
    tool_result(&text, Some(&structured), matches!(status, RunStatus::Failed | RunStatus::Cancelled))
}

/// Returns a progress message for an event, if it is of interest to a person who waits.
fn progress_text(event: &RunEvent) -> Option<String> {
    match &event.body {
        RunEventBody::Started { recovered: false } => Some("started".to_owned()),
        RunEventBody::Started { recovered: true } => Some("taken up again".to_owned()),
        RunEventBody::Waiting { .. } => Some("waits for a person, who finds it in the inbox".to_owned()),
        // The names of servers belong to the project, and the caller is from outside.
        RunEventBody::ServersUnavailable { .. } => {
            Some("goes on without tools that are not available".to_owned())
        }
        RunEventBody::ToolStarted(call) => Some(format!("step {}: calls `{}`", call.step, call.tool)),
        RunEventBody::LimitReached { reason } => Some(format!("sums up: {reason}")),
        RunEventBody::LoopDetected { tool, .. } => Some(format!("repeats `{tool}`")),
        RunEventBody::ModelRetry { retry, .. } => {
            Some(format!("waits {:.1} s for the model: {}", retry.wait_ms as f64 / 1000.0, retry.error))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use emergent_store as store;

    use super::*;

    #[test]
    fn a_run_that_cannot_be_followed_is_a_failed_call_that_says_why() {
        let run = RunId::new();
        let check = |error: Error, expected: &str| {
            let Ok(CallOutcome::Done(fields)) = not_followed(run, &error) else {
                panic!("{expected}: not a failed call")
            };
            let text = String::from_utf8_lossy(fields.as_bytes()).into_owned();
            assert!(text.contains(r#""isError":true"#), "{text}");
            assert!(text.contains(&run.to_string()) && text.contains(expected), "{text}");
        };
        let too_slow = || store::Error::TooSlow { limit: Duration::from_secs(5) };
        check(Error::Store(too_slow()), "5 seconds");
        check(Error::Graph(graph::Error::Store(too_slow())), "5 seconds");
        let too_many_rows = store::Error::TooManyRows { limit: 1_024, waited: Duration::from_secs(5) };
        check(Error::Store(too_many_rows), "1024 bytes");
        check(Error::not_found("run", run), "there is no run");
        let defect = not_followed(run, &Error::Store(store::Error::Broken));
        assert!(matches!(defect, Err(Fault::Error(_))), "a defect of the server is not for the model");
    }
}

//! `emergent agent invoke`: starts an external agent, as a caller from outside does. Unlike `trigger`, this needs no
//! other scope than `agents:invoke`.

use emergent_domain::{agent::is_valid_name, run::RunStatus, token::Scope};
use emergent_wire::{
    invoke::{InvocationView, InvokeAgent},
    run_event::{BodyView, RunEventView},
};
use uuid::Uuid;

use super::parse_context;
use crate::{
    client::{Client, Received},
    commands::{
        resolve::{CONVERSATIONS, resolve_id},
        watch_run::{
            self, CONNECTION_LOST, Event, Events, Spinner, View, listen_for_interrupt, lost_changed,
            notice_lost,
        },
        watch_workflow,
    },
    error::{Error, Result},
    hints, output,
    text::is_id,
};

#[derive(Debug, clap::Args)]
pub struct Invoke {
    /// The name or the id of an external agent
    agent: String,
    /// What to do
    #[arg(long, value_name = "TEXT")]
    input: String,
    /// More to know, as JSON
    #[arg(long, value_name = "JSON")]
    context: Option<String>,
    /// Go on with this conversation: the `conversationId` of an earlier answer; with the scope `chat:use` also the end
    /// of an id, or `last`
    #[arg(long, value_name = "ID")]
    conversation: Option<String>,
    /// Print only the result, after at most this time
    #[arg(long, value_name = "SECONDS")]
    wait: Option<u64>,
    /// A name for this request: sent again with it, it starts nothing more
    #[arg(long, value_name = "KEY")]
    idempotency_key: Option<String>,
}

impl Invoke {
    pub async fn run(self, client: &Client, as_json: bool) -> Result<()> {
        // The agents are not listed to find the name: that would need another scope.
        if !is_id(&self.agent) && !is_valid_name(&self.agent) {
            return Err(Error::Usage(format!("`{}` is neither the name nor the id of an agent", self.agent)));
        }
        let conversation_id = match &self.conversation {
            Some(reference) => Some(conversation_id(client, reference).await?),
            None => None,
        };
        let body = InvokeAgent {
            input: self.input,
            context: parse_context(self.context.as_deref())?,
            conversation_id,
            wait: self.wait,
            stream: false,
        };
        let path = format!("/api/agents/{}/invoke", self.agent);
        let driver = client.drive_runs();
        let invoked = async {
            let started = client.post_once(&path, &body, self.idempotency_key.as_deref()).await;
            let started = started.map_err(for_outside)?;
            let started: Received<InvocationView> = started.data().await?;
            match self.wait {
                Some(_) => Ok(Some(started)),
                None if follow(client, &started, as_json)
                    .await
                    .map_err(|error| left_behind(error, &started))? =>
                {
                    client.get(&started.links.result).await?.data().await.map(Some)
                }
                None => {
                    let run = started.run_id.to_string();
                    let now: Received<InvocationView> =
                        client.get(&started.links.result).await?.data().await?;
                    let ended = now.status.is_terminal().then(|| now.status.to_string());
                    let driver = client.other_driver();
                    let notice = watch_workflow::interrupted_message(driver, "run", &run, ended.as_deref());
                    output::print_notice(&notice);
                    Ok(None)
                }
            }
        };
        let invoked: Result<Option<Received<InvocationView>>> = invoked.await;
        driver.stop().await;
        let Some(result) = invoked? else { return Err(Error::Interrupted) };
        print_result(&result, &self.agent, self.wait.is_some(), as_json)
    }
}

/// The conversation that a person names. A whole id needs no right to list conversations.
async fn conversation_id(client: &Client, reference: &str) -> Result<Uuid> {
    let id = match resolve_id(client, &CONVERSATIONS, reference).await {
        Err(Error::Refused { code, .. }) if code == "forbidden" => {
            return Err(Error::Usage(format!(
                "--conversation: `{reference}` is not the whole id of a conversation, and this token may not list \
                 conversations (scope `{}`): give the `conversationId` of an earlier answer",
                Scope::ChatUse
            )));
        }
        found => found?,
    };
    id.parse().map_err(|error| Error::Unexpected(format!("`{id}` is not an id: {error}")))
}

/// The error of a server that stopped while the run was followed says what becomes of the run.
fn left_behind(error: Error, started: &InvocationView) -> Error {
    match error {
        Error::Unreachable { server, .. } => Error::Usage(format!(
            "the server at `{server}` does not answer any more; the run {} is kept and goes on when a server starts: then \
             {server}{} has its result",
            started.run_id, started.links.result
        )),
        other => other,
    }
}

/// Names the list that a caller from outside may read, instead of one that needs another scope.
fn for_outside(error: Error) -> Error {
    match error {
        Error::Refused { code, message, details } if code == "not_found" => {
            let list = format!("`{}` lists them", hints::command("agent list --internal"));
            let card = "`GET /api/agents/card` lists those that describe themselves";
            Error::Refused { code, message: message.replace(&list, card), details }
        }
        other => other,
    }
}

/// Prints the events of a run until it ends: its text, or with `as_json` each event as a line. Returns false after
/// Ctrl-C.
async fn follow(client: &Client, started: &InvocationView, as_json: bool) -> Result<bool> {
    let mut view = View::new(output::use_colour(), output::terminal_width());
    let (mut events, mut spinner) = (Events::new(client, &started.links.result), Spinner::default());
    let (mut interrupt, mut lost, mut is_lost) = (listen_for_interrupt().await, events.lost(), false);
    loop {
        match is_lost {
            true => spinner.show(CONNECTION_LOST.to_owned()),
            false if !as_json && !view.is_mid_line() => spinner.show(view.activity()),
            false => {}
        }
        let event: Event<RunEventView> = tokio::select! {
            event = events.next() => event?,
            changed = lost_changed(&mut lost) => {
                is_lost = changed;
                spinner.hide();
                output::print_part(&view.lines(&[]))?;
                if !Spinner::is_visible() {
                    notice_lost(is_lost);
                }
                continue;
            }
            _ = &mut interrupt => {
                spinner.hide();
                output::print_part(&view.lines(&[]))?;
                return Ok(false);
            }
        };
        spinner.hide();
        if as_json {
            output::print_json_line(&event.raw)?;
        }
        // Kinds of events that only a newer server knows are not shown.
        let Some(event) = event.parsed else { continue };
        if matches!(event.body, BodyView::RunEnded { .. }) {
            output::print_part(&view.lines(&[]))?;
            return Ok(true);
        }
        if !as_json {
            output::print_part(&view.event(&event.body))?;
        }
    }
}

/// Prints what was not printed while the run was followed. Fails when the run failed or was cancelled.
fn print_result(result: &Received<InvocationView>, agent: &str, is_alone: bool, as_json: bool) -> Result<()> {
    let status = watch_run::status(result.status, result.reason);
    if is_alone && as_json {
        output::print_json(result)?;
    } else if is_alone && let Some(text) = &result.text {
        output::print_text(text)?;
    }
    match result.status {
        RunStatus::Completed => {}
        RunStatus::Failed | RunStatus::Cancelled => {
            let error = result.error_message.as_ref().map(|error| format!(": {error}")).unwrap_or_default();
            return Err(Error::Usage(format!("run {} {status}{error}", result.run_id)));
        }
        _ if as_json => return Ok(()),
        _ => output::print_notice(&format!("run {} is {status}: {}", result.run_id, result.links.result)),
    }
    if !as_json && output::terminal_width().is_some() {
        let id = result.conversation_id;
        let command = hints::command(&format!("agent invoke {agent} --conversation {id} --input TEXT"));
        // Notices have short ids, and a caller from outside may be unable to look the whole one up.
        eprintln!("to go on: {command}");
    }
    Ok(())
}

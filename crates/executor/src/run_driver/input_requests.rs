//! Asks a person when an external MCP server requests input during a tool call. The run waits meanwhile, as it does
//! for `ask_user`, but the call stays in progress: only this process has the connection over which the server gets the
//! answer. If this process ends, the call is interrupted like every external call, and the request is withdrawn.

use std::pin::Pin;

use async_trait::async_trait;
use emergent_domain::{
    approval::{Approval, ApprovalKind, ApprovalStatus, Choice, OnExpiry, Question},
    ids::ApprovalId,
};
use emergent_store::runs;
use emergent_tools::{CallInput, Form, FormAnswer, GuardedOutput, InputHandler};
use serde_json::{Value, json};
use tokio::{
    sync::{mpsc, oneshot},
    time::{Duration, sleep_until},
};
use tracing::{info, warn};

use super::{RunDriver, approvals::call_digest, ask_user, call_reports::CallReports};
use crate::{Error, Result, recorder::RecordBatch, scrub};

/// What nobody answers in a day is declined: a connection to a server is not kept open for longer.
const MAX_WAIT: Duration = Duration::from_secs(24 * 3600);
/// How often the request is looked at when no wake-up arrives.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
const CALL_ENDED: &str = "the tool call ended before anybody answered";
const NOT_WANTED: &str = "the server no longer wants an answer";

/// Passes the requests of the server of one call to the driver of the run.
struct InputChannel(mpsc::Sender<InputRequest>);

/// A request of the server, and where the answer goes. If the other end is dropped, the server no longer waits.
pub(super) struct InputRequest {
    question: Question,
    reply: oneshot::Sender<FormAnswer>,
}

/// Returns who is asked during a call, and the requests.
pub(super) fn input_channel() -> (CallInput, mpsc::Receiver<InputRequest>) {
    let (sender, requests) = mpsc::channel(1);
    (CallInput::new(std::sync::Arc::new(InputChannel(sender))), requests)
}

#[async_trait]
impl InputHandler for InputChannel {
    async fn ask(&self, form: Form) -> Result<FormAnswer, String> {
        let question = parse_form(form)?;
        let (reply, answer) = oneshot::channel();
        let sent = self.0.send(InputRequest { question, reply }).await;
        sent.map_err(|_| "the call has ended".to_owned())?;
        Ok(answer.await.unwrap_or(FormAnswer::Cancel))
    }
}

/// Returns what a person is asked. The error tells the server why its form cannot be used.
fn parse_form(form: Form) -> Result<Question, String> {
    let Form { message: mut text, mut schema } = form;
    scrub::scrub_text(&mut text);
    scrub::scrub_value(&mut schema);
    if let Value::Object(fields) = &mut schema {
        fields.remove("$schema");
        let kind = fields.entry("type").or_insert_with(|| json!("object"));
        if kind.as_str() != Some("object") {
            return Err("`requestedSchema` must have the type `object`".to_owned());
        }
    }
    ask_user::check_schema(&schema)
        .map_err(|reason| format!("`requestedSchema` cannot be used: {reason}"))?;
    if text.trim().is_empty() {
        "The server asks for input.".clone_into(&mut text);
    }
    Ok(Question { text, options: Vec::new(), response_schema: Some(schema) })
}

impl RunDriver {
    /// Waits for the result of an external call, and asks a person whenever its server requests input. `None` if the
    /// time of the run is up before.
    pub(super) async fn wait_for_external_call(
        &mut self,
        index: usize,
        call: impl Future<Output = GuardedOutput>,
        mut requests: mpsc::Receiver<InputRequest>,
        reports: &mut CallReports,
    ) -> Result<Option<GuardedOutput>> {
        let mut call = std::pin::pin!(call);
        loop {
            tokio::select! {
                biased;
                output = call.as_mut() => return Ok(Some(output)),
                Some(wait) = reports.next_wait() => match self.record_wait(&wait).await {
                    // The call goes on: without it, what the other system does would be lost for one event.
                    Err(error @ Error::Store(_)) => {
                        warn!(run.id = %self.run.id, error = %error, "could not record what run `{}` waits for", self.run.id);
                    }
                    recorded => recorded?,
                },
                Some(request) = requests.recv() => {
                    if let Some(output) = self.ask_for_input(index, request, call.as_mut()).await? {
                        return Ok(Some(output));
                    }
                }
                () = sleep_until(self.deadline) => return Ok(None),
            }
        }
    }

    /// Lets the run wait until a person has answered, and passes the answer on. Returns the output of the call if the
    /// call ends before that.
    async fn ask_for_input<F: Future<Output = GuardedOutput>>(
        &mut self,
        index: usize,
        request: InputRequest,
        mut call: Pin<&mut F>,
    ) -> Result<Option<GuardedOutput>> {
        let InputRequest { question, mut reply } = request;
        if reply.is_closed() {
            return Ok(None);
        }
        let request = self.input_request(index, question);
        let mut changed = self.executor.db().waiter(&runs::ended_channel(self.run.id));
        let mut batch = RecordBatch::default();
        self.recorder.add_input_request(&mut batch, request.clone());
        self.recorder.commit(batch, self.machine.steps()).await?;
        info!(run.id = %self.run.id, "run `{}` waits: the server of `{}` asks for input", self.run.id, request.tool);
        self.slot.release();
        let (mut output, mut unwanted) = (None, None);
        let decided = loop {
            tokio::select! {
                biased;
                ended = call.as_mut(), if output.is_none() => {
                    (output, unwanted) = (Some(ended), Some(CALL_ENDED));
                }
                () = reply.closed(), if unwanted.is_none() => unwanted = Some(NOT_WANTED),
                () = changed.wait(POLL_INTERVAL) => {}
            }
            match self.look_at_request(&request, unwanted).await {
                Ok(Some(decided)) => break decided,
                Ok(None) => {}
                // The call is still in progress, so the run is not driven anew because of a failed read.
                Err(error @ Error::Store(_)) => {
                    warn!(run.id = %self.run.id, error = %error, "a request for input could not be read, trying again");
                }
                Err(error) => return Err(error),
            }
        };
        self.slot.acquire().await;
        let waited = self.recorder.continue_owned().await?;
        self.deadline += waited;
        if let Some(answer) = form_answer(&decided) {
            // Fails if the server gave up in the meantime.
            let _ = reply.send(answer);
        }
        Ok(output)
    }

    /// Returns the request if the run waits no longer. First withdraws it if nobody wants the answer.
    async fn look_at_request(
        &self,
        request: &Approval,
        unwanted: Option<&'static str>,
    ) -> Result<Option<Approval>> {
        if let Some(reason) = unwanted {
            self.recorder.withdraw_request(request, reason).await?;
        }
        self.recorder.decided_request(request).await
    }

    fn input_request(&self, index: usize, question: Question) -> Approval {
        let (call, now) = (&self.calls[index], self.executor.clock().now());
        let tool = self.tools.get(&call.tool);
        let server = tool.and_then(|tool| tool.info().server.clone());
        let definition = tool.and_then(|tool| tool.definition_digest());
        Approval {
            id: ApprovalId::new(),
            project: self.run.project,
            kind: ApprovalKind::Question,
            run: self.run.id,
            call: call.id,
            agent: self.run.agent,
            agent_name: self.run.agent_name.clone(),
            tool: call.tool.clone(),
            server: Some(server.unwrap_or_default()),
            digest: call_digest(call.id, &call.tool, definition, &call.input),
            input: call.input.clone(),
            question: Some(question),
            status: ApprovalStatus::Pending,
            decision: None,
            expires_at: Some(now + MAX_WAIT),
            on_expiry: OnExpiry::Deny,
            is_overdue: false,
            created_at: now,
        }
    }
}

/// What the server is told. `None` if it no longer waits for an answer.
fn form_answer(request: &Approval) -> Option<FormAnswer> {
    match (request.status, &request.decision) {
        (ApprovalStatus::Decided, Some(decision)) if decision.choice == Choice::Answer => {
            Some(FormAnswer::Accept(decision.answer.clone().unwrap_or_default()))
        }
        (ApprovalStatus::Decided | ApprovalStatus::Expired, _) => Some(FormAnswer::Decline),
        (ApprovalStatus::Pending | ApprovalStatus::Withdrawn, _) => None,
    }
}

//! Client tools of a run: a caller offers tools of its own with [`StartOptions::client_tools`], and executes their
//! calls itself.
//!
//! A run that calls such tools has the status `waiting` (for `client_tool`) until its caller sends the results with
//! [`Executor::answer_client_calls`]. The calls are in its events: `tool_started` with the input of each call, then one
//! `approval_requested` of the kind `client_tool` for each call that the caller has to answer, then `run_waiting`.
//! Whatever the run records after that event follows from the results, so a caller follows it from there
//! ([`ClientAnswer::after_seq`]). A run whose caller sends nothing is cancelled after [`crate::Settings::client_wait`].
//!
//! [`StartOptions::client_tools`]: crate::StartOptions::client_tools

use emergent_domain::{
    agent::FlowType,
    approval::{Approval, ApprovalKind, Choice},
    client_tool::{self, ClientResult, ClientTool},
    ids::{AgentId, ApprovalId, ProjectId, RunId, ToolCallId},
    invalid::Invalid,
    run::Run,
    time::Timestamp,
};
use emergent_graph::Actor;
use emergent_store::{
    Tx,
    approvals::{self as rows, Decided},
    idempotency::{AcceptedWork, AsAcceptedWork, accept_once},
    runs::{self, record},
};
use tracing::info;

use crate::{Error, Executor, Result, admission::author_token};

/// A run that has the results of its caller.
#[derive(Debug, Clone)]
pub struct ClientAnswer {
    pub run: Run,
    /// The events of the run after this `seq` follow from the results.
    pub after_seq: i64,
    /// Whether these results were sent before. Nothing was written then: the first results count.
    pub is_repeated: bool,
}

impl AsAcceptedWork for ClientAnswer {
    fn as_accepted_work(&self) -> AcceptedWork<'_> {
        AcceptedWork::Run(&self.run)
    }
}

impl Executor {
    /// Checks that an agent can be offered these tools: they are no tools of its own, and it is no flow, whose parts
    /// have other tools.
    pub async fn check_client_tools(
        &self,
        project: ProjectId,
        agent: AgentId,
        tools: &[ClientTool],
    ) -> Result<()> {
        if tools.is_empty() {
            return Ok(());
        }
        client_tool::check_tools(tools)?;
        let definition = self.get_agent(project, agent).await?.definition;
        if definition.flow_type != FlowType::Single {
            let reason = "cannot be given to this agent: it is a flow of other agents";
            return Err(Invalid::new("clientTools", reason).into());
        }
        let may_delegate = definition.allows_delegation();
        let own = self.tools().resolve(project, &definition.tools, 0, may_delegate).await;
        Ok(client_tool::check_names(tools, |name| own.get(name).is_some())?)
    }

    /// Returns the run that makes this call to its caller; `None` if the call is not known.
    pub async fn run_of_client_call(&self, project: ProjectId, call: ToolCallId) -> Result<Option<RunId>> {
        Ok(self.db().read(move |tx| rows::run_of_client_call(tx, project, call)).await?)
    }

    /// Stores the results of calls to client tools, and queues the run again. All calls that the run waits for are
    /// answered together. Results of calls that were answered before change nothing. Only the caller that started the
    /// run may send results; somebody with the scope for it decides about the request instead
    /// ([`Executor::decide_approval`]).
    pub async fn answer_client_calls(
        &self,
        actor: Actor,
        run: RunId,
        results: Vec<ClientResult>,
    ) -> Result<ClientAnswer> {
        self.answer_client_calls_with(actor, run, results, |_, _, _| Ok(())).await
    }

    /// Like [`Executor::answer_client_calls`]; `write` writes in the same transaction what the caller keeps about the
    /// answer and the requests that these results belong to. If it fails, nothing is stored.
    pub async fn answer_client_calls_with(
        &self,
        actor: Actor,
        run: RunId,
        results: Vec<ClientResult>,
        write: impl Fn(&mut Tx<'_>, &ClientAnswer, &[ApprovalId]) -> Result<()> + Send + 'static,
    ) -> Result<ClientAnswer> {
        if results.is_empty() {
            return Err(Invalid::new("results", "must have the results of the calls").into());
        }
        let now = self.clock().now();
        let choices: Vec<Choice> = results.iter().map(ClientResult::choice).collect();
        let work = move |tx: &mut Tx<'_>| {
            // The lock makes two requests with the same results follow one another.
            let found = runs::get_for_update(tx, actor.project, run)?;
            let found = found.ok_or_else(|| Error::not_found("run", run))?;
            if found.started_by != author_token(actor) {
                return Err(Error::Forbidden(
                    "this run was started by somebody else, who sends the results of its tools".to_owned(),
                ));
            }
            let requests = rows::list_client_calls(tx, run)?;
            let (token, first_call) = (author_token(actor), results.first().map(|result| result.call));
            let decisions = client_tool::decide_results(&requests, results.clone(), token, now)?;
            for (id, decision) in &decisions {
                let Some(request) = requests.iter().find(|request| request.id == *id) else { continue };
                if let Decided::NotPending(current) = rows::decide(tx, request, decision)? {
                    return Err(Error::Decided(current));
                }
            }
            let after_seq = after_seq(tx, run, first_call)?;
            let current = runs::get(tx, actor.project, run)?.unwrap_or(found);
            let answer = ClientAnswer { run: current, after_seq, is_repeated: decisions.is_empty() };
            let is_answered = |request: &&Approval| results.iter().any(|result| result.call == request.call);
            let answered: Vec<ApprovalId> =
                requests.iter().filter(is_answered).map(|request| request.id).collect();
            write(tx, &answer, &answered)?;
            Ok(answer)
        };
        let answer = self.db().write(move |tx| accept_once(tx, &work)).await?;
        if !answer.is_repeated {
            for choice in choices {
                self.telemetry().record_decision(ApprovalKind::ClientTool, Some(choice));
            }
            info!(run.id = %run, "run `{run}` has the results of its caller");
        }
        Ok(answer)
    }

    /// Returns the `seq` after which the events of a run follow from the result of a call to its caller.
    pub async fn seq_after_client_call(
        &self,
        project: ProjectId,
        run: RunId,
        call: ToolCallId,
    ) -> Result<i64> {
        self.get_run(project, run).await?;
        self.db().read(move |tx| after_seq(tx, run, Some(call))).await
    }
}

fn after_seq(tx: &mut Tx<'_>, run: RunId, call: Option<ToolCallId>) -> Result<i64> {
    let seq = match call {
        Some(call) => rows::seq_of_client_wait(tx, run, call)?,
        None => None,
    };
    Ok(seq.unwrap_or(0))
}

/// Cancels a run whose caller has not sent the result of a call in time. Returns the runs that it cancelled.
pub(crate) fn cancel_unanswered(tx: &mut Tx<'_>, request: &Approval, now: Timestamp) -> Result<Vec<RunId>> {
    let waited = request.expires_at.map_or(0, |until| until.since(request.created_at).as_secs());
    let reason = format!(
        "the caller did not send the result of its tool `{}` within {waited} seconds; start a new run",
        request.tool
    );
    Ok(record::cancel_tree(tx, request.project, request.run, &reason, now)?)
}

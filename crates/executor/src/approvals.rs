//! Requests to people: lists them, stores decisions about them, and ends those whose time is up.

use emergent_domain::{
    approval::{
        self, Approval, ApprovalKind, ApprovalRule, ApprovalStatus, Choice, Decision, DecisionError,
        NewDecision, OnExpiry,
    },
    audit::{AuditAction, NewAuditEntry},
    cursor::{Page, ResultPage},
    ids::{ApprovalId, ProjectId, RunId, TokenId},
    run::{Run, RunStatus},
};
use emergent_graph::worker::{ClaimedJob, JobOutcome, Worker};
use emergent_store::{
    Tx, agents,
    approvals::{self as rows, Decided},
    audit,
    idempotency::accept_once,
    runs,
};
use emergent_tools::ToolSet;
use serde_json::Value;
use tokio::sync::watch;
use tracing::info;

pub use emergent_store::approvals::ApprovalFilter;

use crate::{
    Error, Executor, Result, client_tools,
    named_objects::{Denial, too_many_objects, too_many_steps},
    run_driver::ask_user,
};

/// The reason of the decision about a request whose time is up.
const EXPIRED_REASON: &str = "nobody decided in time";
/// Why a call cannot be approved that would now be made with other objects than when it was shown.
const RENAMED_REASON: &str = "the call names another object now than when approval was requested, because something was renamed or \
                              created anew since: deny the call, and the agent can make it again, or approve it with an edited \
                              input";

impl Executor {
    /// Lists the requests of a project, newest first.
    pub async fn list_approvals(
        &self,
        project: ProjectId,
        filter: ApprovalFilter,
        page: Page,
    ) -> Result<ResultPage<Approval>> {
        Ok(self.db().read(move |tx| rows::list(tx, project, &filter, &page)).await?)
    }

    pub async fn get_approval(&self, project: ProjectId, id: ApprovalId) -> Result<Approval> {
        self.db().read(move |tx| get(tx, project, id)).await
    }

    /// Stores a decision about a request. The run goes on when it was the last one that it waited for. Of several
    /// decisions about one request the first counts; the others fail with [`Error::Decided`].
    pub async fn decide_approval(
        &self,
        project: ProjectId,
        id: ApprovalId,
        new: NewDecision,
        by: TokenId,
    ) -> Result<Approval> {
        let approval = self.get_approval(project, id).await?;
        let decision = self.check_decision(&approval, new, by).await?;
        let now = decision.at;
        let choice = decision.choice;
        let work = move |tx: &mut Tx<'_>| {
            accept_once(tx, |tx| {
                match rows::decide(tx, &approval, &decision)? {
                    Decided::Stored { .. } => {}
                    Decided::NotPending(current) => return Err(Error::Decided(current)),
                }
                audit::record(tx, &audit_entry(&approval, &decision), now)?;
                get(tx, project, id)
            })
        };
        let decided = self.db().write(work).await?;
        self.telemetry().record_decision(decided.kind, Some(choice));
        info!(approval.id = %id, run.id = %decided.run, "request `{id}` of run `{}` was decided: {choice}", decided.run);
        Ok(decided)
    }

    /// Stores decisions about several requests in one transaction, together with what `write` writes. All are checked
    /// before anything is written. A request that was decided meanwhile keeps its decision.
    pub async fn decide_together(
        &self,
        decisions: Vec<(Approval, NewDecision)>,
        by: TokenId,
        write: impl Fn(&mut Tx<'_>) -> Result<()> + Send + 'static,
    ) -> Result<()> {
        let mut checked = Vec::with_capacity(decisions.len());
        for (approval, new) in decisions {
            let decision = self.check_decision(&approval, new, by).await?;
            checked.push((approval, decision));
        }
        let work = move |tx: &mut Tx<'_>| {
            write(tx)?;
            let mut stored = Vec::new();
            for (approval, decision) in &checked {
                if let Decided::Stored { .. } = rows::decide(tx, approval, decision)? {
                    audit::record(tx, &audit_entry(approval, decision), decision.at)?;
                    stored.push((approval.id, approval.run, approval.kind, decision.choice));
                }
            }
            Ok::<_, Error>(stored)
        };
        for (id, run, kind, choice) in self.db().write(work).await? {
            self.telemetry().record_decision(kind, Some(choice));
            info!(approval.id = %id, run.id = %run, "request `{id}` of run `{run}` was decided: {choice}");
        }
        Ok(())
    }

    /// Returns the requests that a run and the runs below it wait for, with the run, if it waits; `None` otherwise.
    pub async fn open_requests(&self, project: ProjectId, id: RunId) -> Result<Option<(Run, Vec<Approval>)>> {
        let read = self.db().read(move |tx| {
            let run = runs::get(tx, project, id)?.ok_or_else(|| Error::not_found("run", id))?;
            match run.status {
                RunStatus::Waiting => Ok::<_, Error>(Some((run, rows::list_pending_below(tx, id)?))),
                _ => Ok(None),
            }
        });
        read.await
    }

    /// Checks a decision as a person sent it against the request, the schema of the tool and the rules of the agent.
    async fn check_decision(&self, approval: &Approval, new: NewDecision, by: TokenId) -> Result<Decision> {
        let mut new = new;
        // An input that is no object is refused by the check below.
        let checked = match new.edited_input.take_if(|input| input.is_object()) {
            Some(input) if approval.status == ApprovalStatus::Pending => {
                Some(self.check_edited_input(approval, input).await?)
            }
            _ => None,
        };
        let check_input = match checked {
            Some(Ok(input)) => {
                new.edited_input = Some(input);
                Ok(())
            }
            Some(Err(reason)) => {
                new.edited_input = Some(Value::Object(serde_json::Map::new()));
                Err(reason)
            }
            None => Ok(()),
        };
        let now = self.clock().now();
        let pending = approval.clone();
        // The answer is validated against a schema that the agent gave.
        let check = move || new.check(&pending, by, now, |_| check_input, ask_user::check_answer);
        let checked = self.graph().run_validation(approval.project, check).await?;
        let mut decision = checked.map_err(|error| match error {
            DecisionError::NotPending(_) => Error::Decided(Box::new(approval.clone())),
            DecisionError::OtherCall(_) => Error::Conflict(error.to_string()),
            DecisionError::Invalid(invalid) => Error::Invalid(invalid),
        })?;
        if approval.kind == ApprovalKind::Approval && decision.choice == Choice::Approve {
            self.bind_to_objects(approval, &mut decision).await?;
        }
        Ok(decision)
    }

    /// Makes the approval of a call count for the objects that its input names now. These have to be those of the request,
    /// unless the person has given another input.
    async fn bind_to_objects(&self, approval: &Approval, decision: &mut Decision) -> Result<()> {
        if decision.edited_input.is_none() && approval.objects_digest().is_some() {
            return match self.names_approved_objects(approval, decision, &approval.input).await? {
                Some(_) => Ok(()),
                None => Err(Error::Conflict(RENAMED_REASON.to_owned())),
            };
        }
        let input = decision.edited_input.as_ref().unwrap_or(&approval.input);
        // The tools of other servers know no objects: their calls are made without a digest, however many ids are in them.
        let objects = self.objects_digest(approval.project, input, decision.at).await?;
        decision.objects_digest = objects.unwrap_or_default();
        Ok(())
    }

    /// Checks an edited input against the schema of the tool and the rules of the agent, and returns it as the tool
    /// gets it. The inner error says what is wrong with the input.
    async fn check_edited_input(&self, approval: &Approval, input: Value) -> Result<Result<Value, String>> {
        let (tools, rules) = self.tools_of_run(approval).await?;
        Ok(match tools.get(&approval.tool) {
            Some(tool) => {
                let guard = &self.settings().guard;
                let checked = guard.check(self.graph(), approval.project, tool.as_ref(), input).await;
                let denied_by = match &checked {
                    Ok(input) if tool.info().server.is_none() && approval::references(input).is_none() => {
                        return Ok(Err(too_many_objects()));
                    }
                    Ok(input) => {
                        let named = (approval.tool.as_str(), tool.as_ref());
                        self.denial((approval.project, approval.run), &rules, named, input).await?
                    }
                    Err(_) => None,
                };
                match denied_by {
                    None => checked,
                    Some(Denial::TooManySteps) => Err(too_many_steps()),
                    Some(Denial::Rule(rule)) => Err(format!(
                        "makes a call that rule {rule} of the agent's approvals denies, and nobody can approve \
                         such a call: change the input, or deny the call"
                    )),
                }
            }
            None => Err(format!(
                "cannot be checked, because the tool `{}` is not available at the moment: approve the call as it \
                 is, or try again later",
                approval.tool
            )),
        })
    }

    /// The tools of the run that made a request, as they are now, and the rules that the run has.
    async fn tools_of_run(&self, approval: &Approval) -> Result<(ToolSet, Vec<ApprovalRule>)> {
        let (project, id) = (approval.project, approval.run);
        let read = self.db().read(move |tx| {
            let run = runs::get(tx, project, id)?.ok_or_else(|| Error::not_found("run", id))?;
            let definition = agents::get_version(tx, run.agent, run.agent_version)?;
            Ok::<_, Error>((run, definition))
        });
        let (run, Some(definition)) = read.await? else { return Ok((ToolSet::default(), Vec::new())) };
        let may_delegate = definition.allows_delegation();
        let mut tools = self.tools().resolve(project, &definition.tools, run.depth, may_delegate).await;
        if let Some(hooks) = self.hooks_for(&run) {
            (hooks.add_tools)(&run, &mut tools);
        }
        Ok((tools, definition.approvals))
    }

    /// Ends requests whose time is up, until `stop` becomes true.
    pub async fn run_approval_expiry(&self, stop: watch::Receiver<bool>) {
        let executor = self.clone();
        let worker = Worker { concurrency: 4, ..Worker::new(rows::QUEUE) };
        worker
            .run(self.db().clone(), self.clock().clone(), stop, move |claimed: ClaimedJob| {
                let executor = executor.clone();
                async move {
                    executor.expire_request(&claimed).await?;
                    Ok::<_, Error>(JobOutcome::Done)
                }
            })
            .await;
    }

    /// Ends the request of a job, or marks it as overdue. Does nothing if it was decided. A run whose caller sent no
    /// result is cancelled: nobody reads its answer.
    async fn expire_request(&self, claimed: &ClaimedJob) -> Result<()> {
        let id = claimed.job.key.as_deref().and_then(|key| key.parse().ok());
        let (Some(project), Some(id)) = (claimed.job.project, id) else { return Ok(()) };
        let id: ApprovalId = id;
        let now = self.clock().now();
        let work = move |tx: &mut Tx<'_>| {
            let Some(approval) = rows::get(tx, project, id)? else { return Ok((None, Vec::new())) };
            let decision = Decision {
                choice: Choice::Deny,
                edited_input: None,
                answer: None,
                reason: Some(EXPIRED_REASON.to_owned()),
                objects_digest: None,
                by: None,
                at: now,
            };
            if approval.kind == ApprovalKind::ClientTool {
                let has_expired = matches!(rows::expire(tx, &approval, &decision)?, Decided::Stored { .. });
                let cancelled = match has_expired {
                    true => client_tools::cancel_unanswered(tx, &approval, now)?,
                    false => Vec::new(),
                };
                return Ok((has_expired.then_some(approval), cancelled));
            }
            let has_expired = match approval.on_expiry {
                OnExpiry::Deny => matches!(rows::expire(tx, &approval, &decision)?, Decided::Stored { .. }),
                OnExpiry::Escalate => {
                    rows::mark_overdue(tx, &approval, now)?;
                    false
                }
            };
            Ok::<_, Error>((has_expired.then_some(approval), Vec::new()))
        };
        let (expired, cancelled) = self.db().write(work).await?;
        self.stop_driving(&cancelled);
        if let Some(expired) = expired {
            self.telemetry().record_decision(expired.kind, None);
            info!(approval.id = %id, run.id = %expired.run, "the time of request `{id}` was up");
        }
        Ok(())
    }
}

fn get(tx: &mut Tx<'_>, project: ProjectId, id: ApprovalId) -> Result<Approval> {
    rows::get(tx, project, id)?.ok_or_else(|| Error::not_found("approval", id))
}

/// The entry says what was decided about which call. The inputs and answers stay with the request.
fn audit_entry(approval: &Approval, decision: &Decision) -> NewAuditEntry {
    NewAuditEntry::new(AuditAction::ApprovalDecide, Some(approval.project), &approval.tool)
        .id(approval.id)
        .detail("decision", decision.choice.as_str())
        .detail("edited", decision.edited_input.is_some())
        .detail("runId", approval.run.to_string())
        .detail("agent", approval.agent_name.as_str())
}

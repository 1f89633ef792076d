//! Holds the tool calls for which a person has to be asked, and carries out what was decided about them.
//!
//! A held call is recorded with its answer, and the run waits from that commit on. No call of the answer is made
//! before every held one is decided. The run is then driven again from its record.

use emergent_domain::{
    approval::{self, Approval, ApprovalKind, ApprovalStatus, Choice, Decision, OnExpiry, Verdict},
    chat::ToolCall,
    ids::{ApprovalId, ToolCallId},
    run::ToolCallStatus,
    time::Timestamp,
};
use emergent_graph::judged_names::JudgedNames;
use emergent_rules::run::CallDecision;
use emergent_tools::Effect;
use serde_json::{Value, json};
use tokio::time::{Duration, Instant};

use super::{RunDriver, ask_user, denied_output, error_output, tool_calls::INTERRUPTED_MESSAGE};
use crate::{
    Result,
    named_objects::{Denial, hash, too_many_steps},
};

const UNDECIDED_MESSAGE: &str = "Nobody approved this call, so it was not made.";
const EXPIRED_MESSAGE: &str =
    "Nobody decided about this call in time, so it was not made. Continue without it.";
const RENAMED_MESSAGE: &str = "This call was not made: a person has to be asked about the object that it names now, after what was \
                               changed since your answer. Make the call again if it is still needed.";
const CHANGED_MESSAGE: &str = "The call was approved, but it was not made: its tool is not the one any more for which it was \
                               approved. Make the call again if it is still needed.";

/// What happens to a call of an answer.
pub(super) enum CallVerdict {
    Make,
    /// The call is not made, and the model reads this instead of a result.
    Refuse(Value),
    /// The call waits until a person has decided about it.
    Hold(Box<Approval>),
    /// The caller of the run executes the call.
    AskClient,
}

/// What follows when a call is decided about once more, directly before it is made.
pub(super) enum Judged {
    /// The call is made if its names still mean this.
    Make(Vec<JudgedNames>),
    /// The call got an error instead.
    Refused,
}

/// What follows from a decision about a held call.
enum DecidedCall {
    Make,
    Result(ToolCallStatus, Value),
    /// The caller has not been asked yet for the result.
    AskClient,
}

impl RunDriver {
    /// Returns what happens to a call: the machine or a rule refuses it, the run does not have the tool, a
    /// person has to be asked first, or it is made.
    pub(super) async fn call_verdict(
        &self,
        call: &ToolCall,
        decision: &CallDecision,
        now: Timestamp,
    ) -> Result<CallVerdict> {
        if let CallDecision::Refuse { text, .. } = decision {
            return Ok(CallVerdict::Refuse(error_output(text.clone())));
        }
        let Some(tool) = self.tools.get(&call.name) else {
            if self.has_client_tool(&call.name) {
                return Ok(CallVerdict::AskClient);
            }
            return Ok(CallVerdict::Refuse(error_output(self.unknown_tool_message(&call.name))));
        };
        let is_question = tool.info().effect == Effect::Asks;
        let rules = &self.definition.approvals;
        let (expires_in, on_expiry) = match self
            .executor
            .decide_call((self.run.project, self.run.id), rules, (&call.name, tool.as_ref()), &call.input)
            .await?
        {
            Verdict::Deny { rule } => {
                return Ok(CallVerdict::Refuse(denied_output(denied_by_rule(rule))));
            }
            Verdict::TooManySteps => return Ok(CallVerdict::Refuse(denied_output(too_many_steps()))),
            Verdict::Ask { expires_in, on_expiry } => (expires_in, on_expiry),
            Verdict::Allow if is_question => (None, OnExpiry::Deny),
            Verdict::Allow => return Ok(CallVerdict::Make),
        };
        if Instant::now() >= self.deadline {
            return Ok(CallVerdict::Refuse(error_output(INTERRUPTED_MESSAGE)));
        }
        // Nobody is asked about a call that could not be made.
        let guard = &self.executor.settings().guard;
        let (graph, project) = (self.executor.graph(), self.run.project);
        let question = match guard.check(graph, project, tool.as_ref(), call.input.clone()).await {
            Err(reason) => return Ok(CallVerdict::Refuse(error_output(reason))),
            Ok(input) if is_question => match ask_user::parse_question(input) {
                Err(reason) => return Ok(CallVerdict::Refuse(error_output(reason))),
                Ok(question) => Some(question),
            },
            Ok(_) => None,
        };
        let objects = match question.is_some() || tool.info().server.is_some() {
            true => None,
            false => match self.executor.objects_digest(project, &call.input, now).await? {
                Ok(objects) => objects,
                Err(reason) => return Ok(CallVerdict::Refuse(error_output(reason))),
            },
        };
        let digest = call_digest(call.id, &call.name, tool.definition_digest(), &call.input);
        Ok(CallVerdict::Hold(Box::new(Approval {
            id: ApprovalId::new(),
            project: self.run.project,
            kind: if is_question { ApprovalKind::Question } else { ApprovalKind::Approval },
            run: self.run.id,
            call: call.id,
            agent: self.run.agent,
            agent_name: self.run.agent_name.clone(),
            tool: call.name.clone(),
            server: None,
            input: call.input.clone(),
            digest: Approval::digest_of(&digest, objects.as_deref()),
            question,
            status: ApprovalStatus::Pending,
            decision: None,
            expires_at: expires_in.map(|seconds| now + Duration::from_secs(u64::from(seconds))),
            on_expiry,
            is_overdue: false,
            created_at: now,
        })))
    }

    /// Decides once more about a call, directly before it is made: an earlier call, or another run, may have given the
    /// names in it to other objects since the rules were asked, or since a person approved it. Such a call gets an error
    /// instead of being made. Returns what the names of one that can be made may mean now, which it has to find as well.
    pub(super) async fn judge_again(&mut self, index: usize) -> Result<Judged> {
        let output = match self.judged_again(index).await? {
            Ok(names) => return Ok(Judged::Make(names)),
            Err(output) => output,
        };
        self.record_result(index, ToolCallStatus::Error, output, Instant::now()).await?;
        Ok(Judged::Refused)
    }

    /// The inner error is the output of a call that is not made.
    async fn judged_again(&self, index: usize) -> Result<Result<Vec<JudgedNames>, Value>> {
        let call = &self.calls[index];
        let mut names = Vec::new();
        // A call that was begun before the run was recovered goes on.
        if call.status != ToolCallStatus::Pending {
            return Ok(Ok(names));
        }
        let Some(tool) = self.tools.get(&call.tool).filter(|tool| tool.info().server.is_none()) else {
            return Ok(Ok(names));
        };
        let approved = self.approval_of(call.id);
        if let Some((approval, decision)) = approved {
            match self.executor.names_approved_objects(approval, decision, &call.input).await? {
                Some(approved) => names.push(approved),
                None => return Ok(Err(error_output(RENAMED_MESSAGE))),
            }
        }
        let rules = &self.definition.approvals;
        if rules.iter().all(|rule| rule.when.is_empty()) {
            return Ok(Ok(names));
        }
        let named = (call.tool.as_str(), tool.as_ref());
        let (verdict, judged) =
            self.executor.decide_names((self.run.project, self.run.id), rules, named, &call.input).await?;
        names.extend(judged);
        Ok(match verdict {
            Verdict::Deny { rule } => Err(denied_output(denied_by_rule(rule))),
            Verdict::TooManySteps => Err(denied_output(too_many_steps())),
            Verdict::Ask { .. } if approved.is_none() => Err(error_output(RENAMED_MESSAGE)),
            Verdict::Ask { .. } | Verdict::Allow => Ok(names),
        })
    }

    /// The approval of a call, and the decision that approved it.
    fn approval_of(&self, call: ToolCallId) -> Option<(&Approval, &Decision)> {
        self.approvals.iter().filter(|approval| approval.call == call).find_map(|approval| {
            let decision = approval.decision.as_ref()?;
            (decision.choice == Choice::Approve).then_some((approval, decision))
        })
    }

    /// Carries out what was decided about the held calls of the newest answer: a call that was approved can be
    /// made, and every other one gets its result.
    pub(super) async fn apply_decisions(&mut self) -> Result<()> {
        for index in 0..self.calls.len() {
            if self.calls[index].status != ToolCallStatus::Held {
                continue;
            }
            match self.decided_call(index).await? {
                // The row of the call stays held until the call is started or has its result, so that a
                // recovered run looks at the decision again.
                DecidedCall::Make => self.calls[index].status = ToolCallStatus::Pending,
                // The call stays held, until every other call of the answer has its result.
                DecidedCall::AskClient => {}
                DecidedCall::Result(status, output) => {
                    self.record_result(index, status, output, Instant::now()).await?;
                }
            }
        }
        Ok(())
    }

    async fn decided_call(&self, index: usize) -> Result<DecidedCall> {
        let call = &self.calls[index];
        let error = |message: String| DecidedCall::Result(ToolCallStatus::Error, error_output(message));
        let denied = |message: String| DecidedCall::Result(ToolCallStatus::Error, denied_output(message));
        let Some(approval) = self.approvals.iter().find(|approval| approval.call == call.id) else {
            if self.has_client_tool(&call.tool) {
                return Ok(DecidedCall::AskClient);
            }
            return Ok(error(UNDECIDED_MESSAGE.to_owned()));
        };
        let decision = match (&approval.decision, approval.status) {
            (Some(decision), ApprovalStatus::Decided) => decision,
            (_, ApprovalStatus::Expired) => return Ok(denied(EXPIRED_MESSAGE.to_owned())),
            _ => return Ok(error(UNDECIDED_MESSAGE.to_owned())),
        };
        if approval.kind == ApprovalKind::ClientTool {
            let (status, output) = self.client_result(decision);
            return Ok(DecidedCall::Result(status, output));
        }
        Ok(match decision.choice {
            Choice::Deny => denied(denial_message(approval.kind, decision.reason.as_deref())),
            Choice::Answer => {
                let answer = decision.answer.clone().unwrap_or_default();
                DecidedCall::Result(ToolCallStatus::Completed, json!({ "answer": answer }))
            }
            Choice::Approve => {
                // If the run does not have the tool any more, the call gets the error that says so.
                let Some(tool) = self.tools.get(&call.tool) else { return Ok(DecidedCall::Make) };
                let digest = call_digest(call.id, &approval.tool, tool.definition_digest(), &approval.input);
                let approved_input = decision.edited_input.as_ref().unwrap_or(&approval.input);
                let is_approved_call = digest == approval.call_digest()
                    && call.tool == approval.tool
                    && call.input == *approved_input
                    && tool.info().effect != Effect::Asks;
                if !is_approved_call {
                    return Ok(error(CHANGED_MESSAGE.to_owned()));
                }
                let rules = &self.definition.approvals;
                let named = (call.tool.as_str(), tool.as_ref());
                let owner = (self.run.project, self.run.id);
                match self.executor.denial(owner, rules, named, approved_input).await? {
                    Some(Denial::Rule(rule)) => denied(denied_by_rule(rule)),
                    Some(Denial::TooManySteps) => denied(too_many_steps()),
                    None => DecidedCall::Make,
                }
            }
        })
    }
}

fn denied_by_rule(rule: usize) -> String {
    format!("this call is not allowed: rule {rule} of the agent's approvals denies it; do not repeat it")
}

pub(super) fn denial_message(kind: ApprovalKind, reason: Option<&str>) -> String {
    let what = match kind {
        ApprovalKind::Approval => "A person denied this call, so it was not made",
        ApprovalKind::Question => "A person declined to answer",
        ApprovalKind::ClientTool => "The caller did not make this call",
    };
    match reason.map(str::trim).filter(|reason| !reason.is_empty()) {
        Some(reason) => format!("{what}: {reason}"),
        None => format!("{what}. Continue without it."),
    }
}

/// The hash that binds a decision to a call, its tool and its input.
pub(super) fn call_digest(call: ToolCallId, tool: &str, definition: Option<&str>, input: &Value) -> String {
    hash(approval::call_text(call, tool, definition, input))
}

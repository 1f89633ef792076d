//! What a person decides about a held call, and the checks on it.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Approval, ApprovalKind, ApprovalStatus, Question};
use crate::{
    agent::{json_has_nul, string_enum},
    ids::TokenId,
    invalid::Invalid,
    time::Timestamp,
};

const MAX_REASON_CHARS: usize = 4_000;
const MAX_ANSWER_BYTES: usize = 256 << 10;

string_enum! {
    Choice {
        Approve = "approve",
        Deny = "deny",
        Answer = "answer",
    }
}

/// A decision as a person sends it.
#[derive(Debug, Clone, PartialEq)]
pub struct NewDecision {
    pub choice: Choice,
    /// Replaces the whole input of an approved call.
    pub edited_input: Option<Value>,
    /// The answer to a question.
    pub answer: Option<Value>,
    pub reason: Option<String>,
    /// The digest of the call that the person saw. If it is sent, it has to be that of the call.
    pub digest: Option<String>,
}

/// A decision as it is stored.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Decision {
    pub choice: Choice,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub edited_input: Option<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The hash of the objects that the approved input named by keys at the time of the decision, where the digest of
    /// the request does not say it: for an edited input, and for a request of an earlier version of the server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub objects_digest: Option<String>,
    /// The token that decided. `None` if the time was up.
    pub by: Option<TokenId>,
    pub at: Timestamp,
}

/// Why a decision is refused.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum DecisionError {
    /// Somebody else was faster, or the call no longer waits.
    #[error("this request is already {0}")]
    NotPending(ApprovalStatus),
    /// The call is another one than the person saw.
    #[error("the call is not the one that was shown: its digest is `{0}`")]
    OtherCall(String),
    #[error(transparent)]
    Invalid(#[from] Invalid),
}

impl NewDecision {
    /// Checks a decision against the request. `check_input` validates an edited input against the schema of
    /// the tool, and `check_answer` an answer against a schema; its fields begin with `answer`.
    pub fn check(
        self,
        approval: &Approval,
        by: TokenId,
        at: Timestamp,
        check_input: impl FnOnce(&Value) -> Result<(), String>,
        check_answer: impl FnOnce(&Value, &Value) -> Result<(), Invalid>,
    ) -> Result<Decision, DecisionError> {
        if approval.status != ApprovalStatus::Pending {
            return Err(DecisionError::NotPending(approval.status));
        }
        if self.digest.as_ref().is_some_and(|digest| *digest != approval.digest) {
            return Err(DecisionError::OtherCall(approval.digest.clone()));
        }
        self.check_fields(approval)?;
        if let Some(input) = &self.edited_input {
            check_input(input).map_err(|reason| Invalid::new("editedInput", reason))?;
        }
        if let (Some(question), Some(answer)) = (&approval.question, &self.answer) {
            check_question_answer(question, answer, check_answer)?;
        }
        let Self { choice, edited_input, answer, reason, digest: _ } = self;
        Ok(Decision { choice, edited_input, answer, reason, objects_digest: None, by: Some(by), at })
    }

    /// Checks that the fields belong to the choice, and the choice to the kind of request.
    fn check_fields(&self, approval: &Approval) -> Result<(), Invalid> {
        match (self.choice, approval.kind) {
            (Choice::Approve, ApprovalKind::Question) => {
                return Err(Invalid::new("decision", "a question is answered or denied, not approved"));
            }
            (Choice::Answer, ApprovalKind::Approval) => {
                return Err(Invalid::new("decision", "a tool call is approved or denied, not answered"));
            }
            (Choice::Approve, ApprovalKind::ClientTool) => {
                return Err(Invalid::new(
                    "decision",
                    "a call to a tool of the caller is answered with its result or denied, not approved",
                ));
            }
            (Choice::Answer, ApprovalKind::Question | ApprovalKind::ClientTool) if self.answer.is_none() => {
                return Err(Invalid::new("answer", "is required with the decision `answer`"));
            }
            _ => {}
        }
        if self.answer.is_some() && self.choice != Choice::Answer {
            return Err(Invalid::new("answer", "is only for the decision `answer`"));
        }
        match &self.edited_input {
            Some(_) if self.choice != Choice::Approve => {
                return Err(Invalid::new("editedInput", "is only for the decision `approve`"));
            }
            Some(input) if !input.is_object() => {
                return Err(Invalid::new("editedInput", "must be an object: the whole input of the call"));
            }
            _ => {}
        }
        if self.reason.as_ref().is_some_and(|reason| reason.chars().count() > MAX_REASON_CHARS) {
            return Err(Invalid::new("reason", format!("is longer than {MAX_REASON_CHARS} characters")));
        }
        if self.reason.as_ref().is_some_and(|reason| reason.contains('\0')) {
            return Err(Invalid::new("reason", "must not contain a NUL character"));
        }
        for (field, value) in [("editedInput", &self.edited_input), ("answer", &self.answer)] {
            if value.as_ref().is_some_and(|value| value.to_string().len() > MAX_ANSWER_BYTES) {
                return Err(Invalid::new(field, format!("is longer than {MAX_ANSWER_BYTES} bytes")));
            }
            if value.as_ref().is_some_and(json_has_nul) {
                return Err(Invalid::new(field, "must not contain a NUL character"));
            }
        }
        Ok(())
    }
}

fn check_question_answer(
    question: &Question,
    answer: &Value,
    check_answer: impl FnOnce(&Value, &Value) -> Result<(), Invalid>,
) -> Result<(), Invalid> {
    if let Some(schema) = &question.response_schema {
        return check_answer(schema, answer);
    }
    let Some(text) = answer.as_str() else {
        return Err(Invalid::new("answer", "must be a text"));
    };
    if !question.options.is_empty() && !question.options.iter().any(|option| option == text) {
        let options = question.options.join("`, `");
        return Err(Invalid::new("answer", format!("must be one of `{options}`")));
    }
    Ok(())
}

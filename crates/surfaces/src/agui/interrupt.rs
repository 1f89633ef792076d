//! Interrupts: what a run waits for, as a client shows it to a person, and the responses as decisions.

use emergent_domain::{
    approval::{Approval, ApprovalKind, Choice, NewDecision},
    ids::{RunId, ToolCallId},
    invalid::Invalid,
};
use serde::Serialize;
use serde_json::{Value, json};
use utoipa::ToSchema;

use super::request::{ResumeEntry, ResumeStatus};

/// The reason of a decision when the person did not respond.
const CANCELLED: &str = "the person cancelled without a response";

/// A call that has to be approved, or a question.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = AguiInterrupt)]
pub struct Interrupt {
    pub id: String,
    /// `tool_call`: the call has to be approved. `confirmation`: a call of an agent that this one started has to be
    /// approved. `input_required`: a question.
    pub reason: &'static str,
    pub message: String,
    /// The call of this run that waits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_call_id: Option<String>,
    /// The JSON Schema of the `payload` with which the run is resumed.
    pub response_schema: Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<String>,
    pub metadata: Value,
}

impl Interrupt {
    /// `run` is the run that the client follows. A request of a run below it belongs to no call that the client knows.
    pub fn new(run: RunId, approval: &Approval) -> Self {
        let own_call: Option<ToolCallId> = (approval.run == run).then_some(approval.call);
        let tool = &approval.tool;
        let (reason, message) = match (approval.kind, &approval.question) {
            (ApprovalKind::Question, question) => {
                let text = question.as_ref().map(|question| question.text.clone());
                ("input_required", text.unwrap_or_default())
            }
            (ApprovalKind::Approval, _) => {
                let reason = if own_call.is_some() { "tool_call" } else { "confirmation" };
                (reason, format!("`{}` wants to call `{tool}`. Approve the call?", approval.agent_name))
            }
            // A call to the client of this run is no interrupt; the run below it may be of another caller.
            (ApprovalKind::ClientTool, _) => {
                ("client_tool", format!("waits for the caller that executes `{tool}`"))
            }
        };
        let mut details = json!({ "kind": approval.kind, "agent": approval.agent_name, "tool": tool });
        if approval.kind == ApprovalKind::Approval {
            details["input"] = approval.input.clone();
        }
        if let Some(server) = &approval.server {
            details["server"] = json!(server);
        }
        Self {
            id: approval.id.to_string(),
            reason,
            message,
            tool_call_id: own_call.map(|call| call.to_string()),
            response_schema: response_schema(approval),
            expires_at: approval.expires_at.map(|at| at.to_string()),
            metadata: json!({ "emergent": details }),
        }
    }
}

fn response_schema(approval: &Approval) -> Value {
    match (approval.kind, &approval.question) {
        (ApprovalKind::Approval, _) => json!({
            "type": "object",
            "properties": {
                "approved": { "type": "boolean" },
                "editedArgs": { "type": "object", "description": "Replaces the whole input of the call." },
                "reason": { "type": "string", "description": "What the agent is told about the decision." },
            },
            "required": ["approved"],
            "additionalProperties": false,
        }),
        (ApprovalKind::Question, Some(question)) => match &question.response_schema {
            Some(schema) => schema.clone(),
            None if question.options.is_empty() => json!({ "type": "string" }),
            None => json!({ "type": "string", "enum": question.options }),
        },
        (ApprovalKind::Question, None) => json!({ "type": "string" }),
        (ApprovalKind::ClientTool, _) => json!({}),
    }
}

/// Returns the decision that a response says. The fields of an error begin with `field`, the place of the response.
/// The answer to a question is checked against its schema later, like every other answer.
pub fn decision(approval: &Approval, response: &ResumeEntry, field: &str) -> Result<NewDecision, Invalid> {
    let new = |choice| NewDecision { choice, edited_input: None, answer: None, reason: None, digest: None };
    if response.status == ResumeStatus::Cancelled {
        return Ok(NewDecision { reason: Some(CANCELLED.to_owned()), ..new(Choice::Deny) });
    }
    let payload = response.payload.as_ref().filter(|payload| !payload.is_null());
    if approval.kind == ApprovalKind::Question {
        let missing = || Invalid::new(format!("{field}.payload"), "is required: it is the answer");
        return Ok(NewDecision {
            answer: Some(payload.cloned().ok_or_else(missing)?),
            ..new(Choice::Answer)
        });
    }
    let invalid = |name: &str, reason: &str| Err(Invalid::new(format!("{field}.payload{name}"), reason));
    let choice = |approved| new(if approved { Choice::Approve } else { Choice::Deny });
    match payload {
        // Interfaces that ask only for yes or no send this.
        Some(Value::Bool(approved)) => Ok(choice(*approved)),
        Some(Value::Object(fields)) => {
            if let Some(name) =
                fields.keys().find(|name| !["approved", "editedArgs", "reason"].contains(&name.as_str()))
            {
                return invalid(
                    &format!(".{name}"),
                    "is no field of a decision: these are `approved`, `editedArgs` and `reason`",
                );
            }
            let Some(approved) = fields.get("approved").and_then(Value::as_bool) else {
                return invalid(".approved", "must be true or false");
            };
            let reason = match fields.get("reason") {
                None | Some(Value::Null) => None,
                Some(Value::String(reason)) => Some(reason.clone()),
                Some(_) => return invalid(".reason", "must be a text"),
            };
            let edited_input = fields.get("editedArgs").filter(|args| !args.is_null()).cloned();
            Ok(NewDecision { edited_input, reason, ..choice(approved) })
        }
        _ => invalid("", "must be an object with `approved`"),
    }
}

#[cfg(test)]
mod tests {
    use emergent_domain::approval::Question;

    use super::*;
    use crate::samples::{approval, run};
    use emergent_domain::run::RunStatus;

    fn response(payload: Value) -> ResumeEntry {
        ResumeEntry { interrupt_id: "i".into(), status: ResumeStatus::Resolved, payload: Some(payload) }
    }

    #[test]
    fn a_call_and_a_question_say_what_their_response_must_be() {
        let run = run(RunStatus::Waiting);
        let mut call = approval(run.id, ApprovalKind::Approval);
        let interrupt = Interrupt::new(run.id, &call);
        assert_eq!((interrupt.reason, interrupt.tool_call_id), ("tool_call", Some(call.call.to_string())));
        assert_eq!(interrupt.response_schema["required"], json!(["approved"]));
        assert_eq!(interrupt.metadata["emergent"]["input"], call.input);
        call.run = RunId::new();
        let below = Interrupt::new(run.id, &call);
        assert_eq!((below.reason, below.tool_call_id), ("confirmation", None), "a call of another run");

        let mut question = approval(run.id, ApprovalKind::Question);
        let schema = |question: &Approval| Interrupt::new(run.id, question).response_schema;
        assert_eq!(schema(&question), json!({ "type": "string" }));
        let asked = |options: &[&str], response_schema| {
            let options = options.iter().map(|option| (*option).to_owned()).collect();
            Some(Question { text: "Which?".into(), options, response_schema })
        };
        question.question = asked(&["a", "b"], None);
        assert_eq!(schema(&question), json!({ "type": "string", "enum": ["a", "b"] }));
        question.question = asked(&[], Some(json!({ "type": "number" })));
        assert_eq!(schema(&question), json!({ "type": "number" }));
        assert_eq!(Interrupt::new(run.id, &question).message, "Which?");
    }

    #[test]
    fn a_response_is_a_decision() {
        let call = approval(RunId::new(), ApprovalKind::Approval);
        let decided = |payload| decision(&call, &response(payload), "resume[0]");
        assert_eq!(decided(json!(true)).unwrap().choice, Choice::Approve);
        assert_eq!(
            decided(json!({ "approved": false, "reason": "no" })).unwrap().reason.as_deref(),
            Some("no")
        );
        let edited = decided(json!({ "approved": true, "editedArgs": { "id": 2 } })).unwrap();
        assert_eq!((edited.choice, edited.edited_input), (Choice::Approve, Some(json!({ "id": 2 }))));
        for (payload, field) in [
            (json!("yes"), "resume[0].payload"),
            (json!(null), "resume[0].payload"),
            (json!({}), "resume[0].payload.approved"),
            (json!({ "approved": "yes" }), "resume[0].payload.approved"),
            (json!({ "approved": true, "reason": 1 }), "resume[0].payload.reason"),
            (json!({ "approved": true, "args": {} }), "resume[0].payload.args"),
        ] {
            assert_eq!(decided(payload).unwrap_err().problems[0].field, field);
        }
        let cancelled = ResumeEntry { status: ResumeStatus::Cancelled, ..response(json!(true)) };
        assert_eq!(decision(&call, &cancelled, "resume[0]").unwrap().choice, Choice::Deny);

        let question = approval(RunId::new(), ApprovalKind::Question);
        let answered = decision(&question, &response(json!({ "any": 1 })), "resume[0]").unwrap();
        assert_eq!((answered.choice, answered.answer), (Choice::Answer, Some(json!({ "any": 1 }))));
        let missing = decision(&question, &response(json!(null)), "resume[1]").unwrap_err();
        assert_eq!(missing.problems[0].field, "resume[1].payload");
    }
}

//! The part of a run that one completion answers: up to the end of the run, or up to calls of tools of the caller. The
//! results of these begin the next part.

use emergent_domain::{
    approval::ApprovalKind,
    chat::{Usage as TokenCounts, join_text},
    run::{MessageRole, Run},
    run_event::{MessageContent, RunEventBody},
};

use super::{
    AnswerForm,
    completion::{AnswerMessage, Completion, FinishReason, completion, with_message},
    completion_id,
    error::RunFailure,
    tools::{ClientCalls, ToolCallView},
};

/// Collects the whole answer from the events of a run. Events come in their order: from the first one on, or after a
/// `seq` at which the run got the results of tools of its caller.
#[derive(Debug)]
pub struct Segment {
    run: Run,
    after_seq: i64,
    form: AnswerForm,
    usage: TokenCounts,
    /// The text of the newest answer of the model.
    text: String,
    calls: ClientCalls,
}

impl Segment {
    pub fn new(run: Run, after_seq: i64, form: AnswerForm) -> Self {
        let (usage, text, calls) = (TokenCounts::default(), String::new(), ClientCalls::new(&run));
        Self { run, after_seq, form, usage, text, calls }
    }

    /// Applies an event. Returns the completion if the event is the last one that belongs to it, or why there is none.
    pub fn on_event(&mut self, body: RunEventBody) -> Option<Result<Completion, RunFailure>> {
        self.calls.on_event(&body);
        match body {
            RunEventBody::Message(message) if message.role == MessageRole::Assistant && message.step > 0 => {
                if let Some(usage) = message.usage {
                    self.usage.input += usage.input;
                    self.usage.output += usage.output;
                    self.usage.reasoning += usage.reasoning;
                    self.usage.cache_read += usage.cache_read;
                    self.usage.cache_write += usage.cache_write;
                }
                if let (AnswerForm::Text, MessageContent::Parts(parts)) = (self.form, &message.content) {
                    self.text = join_text(parts);
                }
                None
            }
            RunEventBody::Waiting { waiting_for: ApprovalKind::ClientTool } => {
                let calls: Vec<ToolCallView> = self.calls.views().collect();
                let content = Some(std::mem::take(&mut self.text)).filter(|text| !text.is_empty());
                let message = AnswerMessage {
                    role: "assistant",
                    content,
                    refusal: None,
                    tool_calls: Some(calls),
                    output: None,
                };
                let usage = self.usage.into();
                Some(Ok(self.named(with_message(&self.run, message, FinishReason::ToolCalls, usage))))
            }
            RunEventBody::Ended { status, reason, summary, output, error } => {
                (self.run.status, self.run.reason, self.run.error) = (status, reason, error);
                (self.run.summary, self.run.output) = (Some(summary), output);
                Some(completion(&self.run, self.usage.into()).map(|completion| self.named(completion)))
            }
            _ => None,
        }
    }

    fn named(&self, completion: Completion) -> Completion {
        Completion { id: completion_id(self.run.id, self.after_seq), ..completion }
    }
}

#[cfg(test)]
mod tests {
    use emergent_domain::{
        ids::ApprovalId,
        run::{RunStatus, ToolCallStatus},
        run_event::RecordedMessage,
    };
    use serde_json::json;

    use super::*;
    use crate::samples::{client_tool, message, run, tool_call};

    fn answer(step: i64, text: &str) -> RunEventBody {
        let usage = TokenCounts { input: 10, output: 2, ..TokenCounts::default() };
        let message = message(MessageRole::Assistant, step, text);
        RunEventBody::Message(RecordedMessage { usage: Some(usage), ..message })
    }

    #[test]
    fn a_segment_ends_with_the_calls_of_the_callers_tools_or_with_the_run() {
        let mut run = run(RunStatus::Running);
        run.terms.client_tools = vec![client_tool("get_weather")];
        let mut asked = tool_call("get_weather", ToolCallStatus::Running);
        asked.input = json!({ "city": "Oslo" });
        let mut segment = Segment::new(run.clone(), 0, AnswerForm::Text);
        let requested = RunEventBody::ApprovalRequested {
            approval: ApprovalId::new(),
            call: asked.id,
            tool: asked.tool.clone(),
            kind: ApprovalKind::ClientTool,
            child: None,
        };
        for event in [answer(1, "First."), answer(2, ""), RunEventBody::ToolStarted(asked.clone()), requested]
        {
            assert_eq!(segment.on_event(event), None);
        }
        let waiting = |waiting_for| RunEventBody::Waiting { waiting_for };
        assert_eq!(segment.on_event(waiting(ApprovalKind::Question)), None);
        let found = segment.on_event(waiting(ApprovalKind::ClientTool)).unwrap().unwrap();
        let found = serde_json::to_value(found).unwrap();
        assert_eq!(found["choices"][0]["finish_reason"], "tool_calls");
        let expected = json!({ "role": "assistant", "content": null, "refusal": null, "tool_calls": [{
            "id": format!("call_{}", asked.id.0.simple()), "type": "function",
            "function": { "name": "get_weather", "arguments": "{\"city\":\"Oslo\"}" },
        }] });
        assert_eq!(found["choices"][0]["message"], expected);
        assert_eq!(
            (&found["usage"]["total_tokens"], &found["id"]),
            (&json!(24), &json!(format!("chatcmpl-{}", run.id)))
        );

        let mut segment = Segment::new(run.clone(), 9, AnswerForm::Text);
        let end = |status, error: Option<&str>| RunEventBody::Ended {
            status,
            reason: None,
            summary: "Sunny.".to_owned(),
            output: None,
            error: error.map(str::to_owned),
        };
        assert_eq!(segment.on_event(answer(3, "Sunny.")), None);
        let found = segment.on_event(end(RunStatus::Completed, None)).unwrap().unwrap();
        assert_eq!(found.choices[0].message.content.as_deref(), Some("Sunny."));
        assert_eq!((found.usage.total_tokens, found.id), (12, format!("chatcmpl-{}-9", run.id)));
        let failure = segment.on_event(end(RunStatus::Cancelled, Some("too late"))).unwrap().unwrap_err();
        assert!(failure.message.contains("too late"), "{}", failure.message);
    }
}

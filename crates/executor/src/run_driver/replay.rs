//! Rebuilds the machine of a run from its record, and converts answers and results to what the machine
//! sees.

use emergent_domain::{
    chat::{Part, StopReason, ToolCall, join_text},
    loops::CallEffect,
    run::{Reason, ToolCallStatus},
    run_event::{MessageContent, RecordedMessage, RecordedToolCall},
};
use emergent_rules::run::{AnswerView, CallView, NextAction, ResultView, TRUNCATED_CALL_RESULT};
use emergent_store::runs::conversation::Conversation;
use emergent_tools::Effect;

use super::{RunDriver, error_output, tool_calls::has_unknown_outcome, tool_calls_in};

impl RunDriver {
    /// Replays the record into the machine, and returns the next action.
    pub(super) fn replay(&mut self, own: &Conversation) -> NextAction {
        let mut last_calls = Vec::new();
        for (index, message) in own.messages.iter().enumerate() {
            match &message.content {
                // It was said before this run.
                _ if message.step == 0 => {}
                // The machine has replayed these with the answer before them.
                MessageContent::Text {
                    injected: Some(Reason::Truncated | Reason::Empty | Reason::InvalidOutput),
                    ..
                } => {}
                MessageContent::Text { injected: Some(reason), .. } => self.machine.replay_wrap_up(*reason),
                MessageContent::Parts(parts) => {
                    last_calls =
                        own.calls.iter().filter(|call| call.message == message.id).cloned().collect();
                    let next = own.messages.get(index + 1);
                    self.replay_answer(parts, next, &last_calls);
                }
                _ => {}
            }
        }
        if last_calls.iter().any(|call| !call.status.is_terminal()) {
            self.calls = last_calls;
            return NextAction::CallTools(Vec::new());
        }
        self.has_unknown_outcome = has_unknown_outcome(&last_calls);
        self.machine.next_action()
    }

    /// Replays an answer and the results of its calls. The message after it, and the results, show whether
    /// the answer was truncated.
    fn replay_answer(&mut self, parts: &[Part], next: Option<&RecordedMessage>, calls: &[RecordedToolCall]) {
        let truncated_call = error_output(TRUNCATED_CALL_RESULT);
        let is_continued = next.is_some_and(|message| {
            matches!(message.content, MessageContent::Text { injected: Some(Reason::Truncated), .. })
        });
        let is_truncated =
            is_continued || calls.iter().any(|call| call.output.as_ref() == Some(&truncated_call));
        let text = join_text(parts);
        let stop = if is_truncated { StopReason::MaxTokens } else { StopReason::End };
        let view = AnswerView {
            text: &text,
            calls: self.call_views(parts, calls),
            stop: &stop,
            ends_in_call: ends_in_call(parts),
        };
        self.machine.replay_answer(&view);
        // The results of an answer are applied together, as soon as all of them are recorded.
        if calls.iter().all(|call| call.status.is_terminal()) {
            self.machine.replay_tool_results(&result_views(calls));
        }
    }

    /// Returns the tool calls of an answer, with what each may change. For a call in `recorded` that is what it
    /// could change when it was made, so that the loop guard decides as it did then.
    pub(super) fn call_views<'a>(
        &self,
        parts: &'a [Part],
        recorded: &[RecordedToolCall],
    ) -> Vec<CallView<'a>> {
        let recorded_effect = |id| recorded.iter().find(|call| call.id == id).and_then(|call| call.effect);
        let view = |call: &'a ToolCall| {
            let effect = recorded_effect(call.id).unwrap_or_else(|| self.loop_effect(&call.name));
            CallView { call, effect }
        };
        tool_calls_in(parts).into_iter().map(view).collect()
    }

    /// Returns what a call of a tool may change now, as the loop guard distinguishes it.
    fn loop_effect(&self, tool: &str) -> CallEffect {
        match self.tools.get(tool).map(|tool| tool.info().effect) {
            Some(Effect::Reads | Effect::External { read_only: true, .. }) => CallEffect::Reads,
            Some(Effect::Writes { .. } | Effect::Coordinates | Effect::Asks) => CallEffect::Writes,
            Some(Effect::External { .. }) => CallEffect::External,
            None => CallEffect::NoTool,
        }
    }
}

/// Returns whether the last thing in an answer is a tool call.
pub(super) fn ends_in_call(parts: &[Part]) -> bool {
    matches!(parts.last(), Some(Part::Call(_)))
}

/// Returns the results of tool calls for the machine. A call without a result is left out.
pub(super) fn result_views(calls: &[RecordedToolCall]) -> Vec<ResultView<'_>> {
    let mut views = Vec::with_capacity(calls.len());
    for call in calls {
        let failed = call.status == ToolCallStatus::Error;
        views.extend(call.output.as_ref().map(|output| ResultView { call: call.id, output, failed }));
    }
    views
}

//! What a run ends with when its model did not finish: the text that it has written so far.

use emergent_domain::{
    chat::StopReason,
    run::{Reason, RunEnd},
    run_summary,
};

use super::{
    AnswerView, CallDecision, CallView, MAX_CONTINUATIONS, Machine, NextAction,
    prompts::{
        BUDGET_EXHAUSTED, CONTINUE_EMPTY_PROMPT, CONTINUE_PROMPT, EMPTY_SUMMARY_PROMPT, SHORTER_PROMPT,
        TOOLS_DISABLED_RESULT,
    },
    refuse_call,
};

impl Machine {
    /// A model call was dropped or failed after the model had written this text. It is not recorded as an
    /// answer, but it belongs to the summary if no answer follows.
    pub fn record_unfinished_answer(&mut self, text: &str) {
        if text.trim().is_empty() {
            return;
        }
        match self.incomplete.text.is_empty() {
            // A few words of a summary must not replace the answer that was dropped so that the model sums up.
            true if self.wrap_up.is_some() => text.clone_into(&mut self.unfinished_summary),
            true => text.clone_into(&mut self.unfinished_text),
            // The text continues the truncated answers before it.
            false => self.last_text = format!("{}{text}", self.incomplete.text),
        }
    }

    /// The model was told to sum up, and answered. A summary is continued and asked for again like any other answer, but
    /// what is known counts in the end: the run ends at its limit in any case.
    pub(super) fn on_summary(&mut self, limit: Reason, answer: &AnswerView<'_>) -> NextAction {
        let (is_empty, is_truncated) = (answer.text.trim().is_empty(), *answer.stop == StopReason::MaxTokens);
        let incomplete = &mut self.incomplete;
        if is_truncated && answer.calls.is_empty() {
            incomplete.text.push_str(answer.text);
            incomplete.truncated += 1;
            incomplete.asked_again &= is_empty;
        }
        let has_text = !incomplete.text.trim().is_empty();
        let (reason, prompt) = match answer.stop {
            StopReason::MaxTokens if has_text => (Reason::Truncated, CONTINUE_PROMPT),
            StopReason::MaxTokens => (Reason::Truncated, SHORTER_PROMPT),
            _ if !is_empty => return self.end_with_summary(limit, None, answer),
            _ if has_text => (Reason::Empty, CONTINUE_EMPTY_PROMPT),
            _ => (Reason::Empty, EMPTY_SUMMARY_PROMPT),
        };
        let is_last = match reason {
            Reason::Truncated => incomplete.truncated > MAX_CONTINUATIONS,
            _ => std::mem::replace(&mut incomplete.asked_again, true),
        };
        // Calls get a result, and a provider that refuses to answer will refuse again.
        let is_final = is_last || !answer.calls.is_empty() || matches!(answer.stop, StopReason::Refused(_));
        match is_final {
            true if has_text => self.end_with_summary(limit, Some(Reason::Truncated), answer),
            true => self.end_with_summary(limit, Some(reason), answer),
            false => NextAction::AskAgain { reason, text: prompt.into() },
        }
    }

    fn end_with_summary(
        &mut self,
        limit: Reason,
        incomplete: Option<Reason>,
        answer: &AnswerView<'_>,
    ) -> NextAction {
        self.incomplete.summary = incomplete;
        let refused = answer.calls.iter().map(|view| refuse_call(view.call, TOOLS_DISABLED_RESULT));
        NextAction::End { refused: refused.collect(), end: self.end_at_limit(limit) }
    }

    /// Why the summary that a run ended with at its limit is incomplete: it is truncated or empty.
    pub fn incomplete_summary(&self) -> Option<Reason> {
        self.incomplete.summary
    }

    /// Counts the calls of an answer that are made.
    pub(super) fn count_calls(&mut self, calls: &[CallView<'_>], decisions: &[CallDecision]) {
        let is_made = |decision: &CallDecision| matches!(decision, CallDecision::Make(_));
        for (CallView { call, .. }, _) in calls.iter().zip(decisions).filter(|(_, made)| is_made(made)) {
            *self.tool_calls.entry(call.name.clone()).or_default() += 1;
        }
    }

    /// The newest answer with text, the text of an unfinished answer after it, and that of an unfinished summary.
    pub(super) fn summary(&self) -> String {
        let texts = [&self.last_text, &self.unfinished_text, &self.unfinished_summary];
        let written: Vec<&str> =
            texts.into_iter().map(String::as_str).filter(|text| !text.trim().is_empty()).collect();
        written.join("\n\n")
    }

    /// How a run ends at a limit. A resumed run has new steps and new time, but no new budget, so only
    /// a run that its budget ends has failed. There is always a summary.
    pub(super) fn end_at_limit(&self, reason: Reason) -> RunEnd {
        let summary = match self.summary() {
            text if text.trim().is_empty() => {
                let tools = self.tool_calls.iter().map(|(name, count)| (name.as_str(), *count));
                run_summary::describe_work(reason, self.steps, tools)
            }
            text => text,
        };
        match reason {
            Reason::Budget => {
                let error = self.budget_refusal.clone().unwrap_or_else(|| BUDGET_EXHAUSTED.to_owned());
                RunEnd::Failed { reason, error, summary }
            }
            _ => RunEnd::Paused { reason, summary },
        }
    }
}

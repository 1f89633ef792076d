//! What a run ends with when its model did not finish: the text that it has written so far.

use emergent_domain::{
    run::{Reason, RunEnd},
    run_summary,
};

use super::{CallDecision, CallView, Machine, prompts::BUDGET_EXHAUSTED};

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

//! The summary of a run that a limit ended before its model had written any text.

use crate::{run::Reason, text::counted};

/// How every such summary starts. Readers that have better text, such as flows, recognize it by this.
const BEGINNING: &str = "The model wrote no text before the run ended at its";

/// Says what a run did until a limit ended it, for a run whose model wrote no text. `tools` has how often each tool was
/// called.
pub fn describe_work<'a>(
    reason: Reason,
    steps: i64,
    tools: impl IntoIterator<Item = (&'a str, usize)>,
) -> String {
    let limit = match reason {
        Reason::Timeout => "timeout",
        Reason::StepLimit => "step limit",
        Reason::Budget => "budget",
        other => other.as_str(),
    };
    let tools: Vec<String> = tools.into_iter().map(|(name, count)| format!("`{name}` ({count})")).collect();
    let called = match tools.is_empty() {
        true => "called no tool".to_owned(),
        false => format!("called {}", tools.join(", ")),
    };
    let steps = counted(steps, "step");
    format!("{BEGINNING} {limit}. It took {steps} and {called}; the record of the run has everything.")
}

/// Returns whether a summary has no text of a model: it is empty, or comes from [`describe_work`].
pub fn has_no_answer(summary: &str) -> bool {
    summary.trim().is_empty() || summary.starts_with(BEGINNING)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_summary_without_an_answer_says_what_was_done() {
        let summary = describe_work(Reason::Timeout, 1, [("search", 3), ("tell", 1)]);
        assert_eq!(
            summary,
            "The model wrote no text before the run ended at its timeout. It took 1 step and called `search` (3), \
             `tell` (1); the record of the run has everything."
        );
        assert!(describe_work(Reason::Budget, 0, []).contains("0 steps and called no tool"));
        assert!(has_no_answer(&summary) && has_no_answer(" ") && !has_no_answer("Half a text."));
    }
}

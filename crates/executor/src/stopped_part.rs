//! Parts of flows that did not complete: how they ended, and what the result of the flow says of them.

use emergent_domain::{
    run::{Reason, Run, RunEnd, RunStatus},
    run_summary,
};

/// A part that did not complete.
pub(crate) struct StoppedPart {
    pub end: RunEnd,
    /// How the run of the part ended, if it was started and did not run out of time.
    own_end: Option<RunEnd>,
    /// What a reader of the result is told besides: that the timeout of the part was shortened.
    note: Option<String>,
}

impl StoppedPart {
    /// The run of the part ended, and the flow takes this as the end of the part.
    pub fn new(run: &Run, end: RunEnd, note: Option<String>) -> Self {
        Self { own_end: own_end(run, end.status()), end, note }
    }

    /// The part has no run.
    pub fn from_end(end: RunEnd) -> Self {
        Self { end, own_end: None, note: None }
    }

    /// Adds the result of the part or round before if this part has no text: that is what is known so far.
    pub fn with_earlier_result(self, earlier: &str, result: &str) -> Self {
        if !run_summary::has_no_answer(self.end.summary()) {
            return self;
        }
        let summary = format!("The result of the {earlier} before:\n{result}");
        Self { end: with_summary(self.end, summary), ..self }
    }

    /// Returns how the part itself ended, with its own reason and error.
    pub fn into_own_end(mut self) -> RunEnd {
        if let Some(end) = self.own_end.take() {
            self.end = end;
        }
        self.into_end()
    }

    pub fn into_end(self) -> RunEnd {
        let Some(note) = self.note else { return self.end };
        let summary = format!("{}\n\n{note}", self.end.summary());
        with_summary(self.end, summary.trim_start().to_owned())
    }
}

fn with_summary(end: RunEnd, summary: String) -> RunEnd {
    match end {
        RunEnd::Completed { output, .. } => RunEnd::Completed { summary, output },
        RunEnd::Paused { reason, .. } => RunEnd::Paused { reason, summary },
        RunEnd::Failed { reason, error, .. } => RunEnd::Failed { reason, error, summary },
        RunEnd::Cancelled { .. } => RunEnd::Cancelled { summary },
    }
}

/// A part of a parallel flow that did not complete.
pub(crate) struct StoppedSection<'a> {
    pub name: &'a str,
    pub end: RunEnd,
}

impl StoppedSection<'_> {
    /// The section of the part in the summary of the flow.
    pub fn to_text(&self) -> String {
        let error = self.end.error().map_or_else(String::new, |error| format!(": {error}"));
        let text = format!("## {}\n\n({}{error}) {}", self.name, self.end, self.end.summary());
        text.trim_end().to_owned()
    }

    pub fn describe(&self) -> String {
        match self.end.error() {
            Some(error) => format!("`{}` is {}: {error}", self.name, self.end),
            None => format!("`{}` is {}", self.name, self.end),
        }
    }
}

/// Returns the reason for which all parts failed, or `flow` if they failed for different ones.
pub(crate) fn common_reason(stopped: &[StoppedSection<'_>]) -> Reason {
    let first = stopped.first().and_then(|part| part.end.reason());
    first.filter(|_| stopped.iter().all(|part| part.end.reason() == first)).unwrap_or(Reason::Flow)
}

/// Returns the end of a part's own run, if the flow counts it as failed.
fn own_end(run: &Run, counted_as: RunStatus) -> Option<RunEnd> {
    let summary = run.summary.clone().unwrap_or_default();
    match (counted_as, run.status) {
        (RunStatus::Failed, RunStatus::Failed) => Some(RunEnd::Failed {
            reason: run.reason.unwrap_or(Reason::Error),
            error: run.error.clone().unwrap_or_else(|| "no reason given".to_owned()),
            summary,
        }),
        (RunStatus::Failed, RunStatus::Cancelled) => Some(RunEnd::Cancelled { summary }),
        _ => None,
    }
}

/// Returns what a reader of the flow's result is told of a part that ran out of a time that was shortened.
pub(crate) fn shortened_timeout_note(part: &Run, default_timeout: Option<i64>) -> Option<String> {
    let wanted = default_timeout.filter(|wanted| part.timeout_seconds < *wanted)?;
    Some(format!(
        "(The timeout of the part `{}` was shortened from {wanted} to {} seconds, because the time of the flow ends soon \
         after.)",
        part.agent_name, part.timeout_seconds
    ))
}

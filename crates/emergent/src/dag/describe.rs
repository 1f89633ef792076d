//! Describes a workflow event in one line, for output that is not a terminal.

use emergent_domain::workflow::WorkflowStatus;
use emergent_wire::workflow_event::{WorkflowEventBody as Body, WorkflowEventView};

use super::Dag;
use crate::output::first_line;

const MAX_LINE_CHARS: usize = 160;
/// Why a task failed or a person is needed ends with what to do, which is not cut off.
const MAX_PROBLEM_CHARS: usize = 600;

impl Dag {
    /// The event as one line; `None` for events without a line of their own and for unknown kinds.
    pub fn describe_event(&self, event: &WorkflowEventView) -> Option<String> {
        let task = event.task_id.map(|id| self.name(id)).unwrap_or_default();
        Some(match event.body() {
            Body::WorkflowStarted { description } => format!("▸ {}", line(&description)),
            Body::PlanningStarted {} => "▸ planning".to_owned(),
            Body::PlanMade { reason } => format!("✓ planned{}", reason_suffix(&reason)),
            Body::PlanRefused { reason } => format!("↻ the plan was not taken{}", reason_suffix(&reason)),
            Body::TaskAdded { key } => format!("+ {}", key.unwrap_or(task)),
            Body::TasksRefused { reason } => {
                format!("✗ tasks that a discussion asked for were refused{}", reason_suffix(&reason))
            }
            Body::TaskStarted { agent, attempt, reason } => {
                let attempt = attempt.filter(|attempt| *attempt > 1);
                let attempt = attempt.map(|attempt| format!(", attempt {attempt}")).unwrap_or_default();
                format!("▸ {task}  {}{attempt}{}", agent.unwrap_or_default(), reason_suffix(&reason))
            }
            Body::TaskResumed { agent, reason, .. } => {
                format!("▸ {task}  {} goes on{}", agent.unwrap_or_default(), reason_suffix(&reason))
            }
            Body::TaskCompleted { reason } => format!("✓ {task}{}", reason_suffix(&reason)),
            Body::TaskFailed { reason } => format!("✗ {task}{}", problem_suffix(&reason)),
            Body::TaskSkipped { reason } => format!("⊘ {task}{}", reason_suffix(&reason)),
            Body::TaskPaused { reason } => format!("⏸ {task}{}", reason_suffix(&reason)),
            Body::TaskAskedAgain { reason } => format!("↻ {task} is asked again{}", reason_suffix(&reason)),
            Body::TaskWaiting { reason } => format!("· {task}{}", reason_suffix(&reason)),
            Body::ModelRetry { asker, agent, error, wait_ms } => {
                let who = match agent {
                    Some(agent) => format!("the model of {agent}"),
                    None => format!("the {}", asker.as_deref().unwrap_or("model")),
                };
                let seconds = wait_ms.unwrap_or(0) as f64 / 1_000.0;
                format!("↻ {task}  {who} is asked again in {seconds:.1} s{}", reason_suffix(&error))
            }
            Body::JudgeFailed { role, reason } => {
                format!(
                    "✗ {task}  the {} failed{}",
                    role.as_deref().unwrap_or("judge"),
                    reason_suffix(&reason)
                )
            }
            Body::TaskRetried { reason } => format!("↻ {task} is tried again{}", reason_suffix(&reason)),
            Body::TaskSentBack { reason } => format!("↻ {task} is sent back{}", reason_suffix(&reason)),
            Body::TaskReopened { reason } => format!("↻ {task} is open again{}", reason_suffix(&reason)),
            Body::TaskVerdict { verdict, reason } => {
                let verdict = verdict.unwrap_or_default();
                // The reason may begin with both again, because it is also read by itself.
                let begin = format!("`{task}` says {verdict}: ");
                let reason = reason.map(|reason| match reason.strip_prefix(&begin) {
                    Some(rest) => rest.to_owned(),
                    None => reason,
                });
                format!("⚖ {task}  {verdict}{}", reason_suffix(&reason))
            }
            Body::DiscussionStarted { topic, note } => {
                let note = note.map(|note| format!(" ({note})")).unwrap_or_default();
                format!("  {task}  discussion: {}{note}", line(&topic))
            }
            Body::DiscussionEntry { agent, entry_type, text, .. } => format!(
                "  {task}  {} ({}): {}",
                agent.unwrap_or_default(),
                entry_type.unwrap_or_default(),
                line(&text)
            ),
            Body::DiscussionResolved { text } => format!("  {task}  decided: {}", line(&text)),
            Body::DiscussionEscalated { reason } => {
                format!("⚑ {task}  the discussion did not come to an end{}", problem_suffix(&reason))
            }
            Body::DiscussionDecided { reason } => {
                format!("  {task}  a person decided{}", reason_suffix(&reason))
            }
            Body::Escalated { reason } => {
                format!("⚑ a person has to say how it goes on{}", problem_suffix(&reason))
            }
            Body::WorkflowResumed { reason } => format!("▸ goes on{}", reason_suffix(&reason)),
            Body::BudgetChanged { reason } => format!("  the budget was changed{}", reason_suffix(&reason)),
            Body::WorkflowEnded { status, reason } => {
                let sign = if status == Some(WorkflowStatus::Completed) { "✓" } else { "✗" };
                let status = status.map(WorkflowStatus::as_str).unwrap_or_default();
                format!("{sign} {status}{}", problem_suffix(&reason))
            }
            // The entry that a turn produces has its own event and line.
            Body::DiscussionTurn { .. } | Body::Unknown => return None,
        })
    }
}

/// The first line of an optional text, shortened.
fn line(text: &Option<String>) -> String {
    first_line(text.as_deref().unwrap_or_default(), MAX_LINE_CHARS)
}

/// `: reason`, or nothing without a reason.
fn reason_suffix(reason: &Option<String>) -> String {
    suffix(reason, MAX_LINE_CHARS)
}

fn problem_suffix(reason: &Option<String>) -> String {
    suffix(reason, MAX_PROBLEM_CHARS)
}

fn suffix(reason: &Option<String>, max_chars: usize) -> String {
    match first_line(reason.as_deref().unwrap_or_default(), max_chars) {
        reason if reason.is_empty() => String::new(),
        reason => format!(": {reason}"),
    }
}

//! What happened, in a line: for whoever reads along without a terminal.

use emergent_domain::workflow::WorkflowStatus;
use emergent_wire::workflow_event::{WorkflowEventBody as Body, WorkflowEventView};

use super::Dag;
use crate::output::first_line;

const MAX_LINE_CHARS: usize = 160;

impl Dag {
    /// The event as a line; nothing for a kind that this client does not know.
    pub fn describe_event(&self, event: &WorkflowEventView) -> Option<String> {
        let task = event.task_id.map(|id| self.name(id)).unwrap_or_default();
        Some(match event.body() {
            Body::WorkflowStarted { description } => format!("▸ {}", line(&description)),
            Body::PlanningStarted {} => "▸ planning".to_owned(),
            Body::PlanMade { reason } => format!("✓ planned{}", because(&reason)),
            Body::PlanRefused { reason } => format!("↻ the plan was not taken{}", because(&reason)),
            Body::TaskAdded { key } => format!("+ {}", key.unwrap_or(task)),
            Body::TasksRefused { reason } => {
                format!("✗ tasks that a discussion asked for were refused{}", because(&reason))
            }
            Body::TaskStarted { agent, attempt, reason } => {
                let attempt = attempt.filter(|attempt| *attempt > 1);
                let attempt = attempt.map(|attempt| format!(", attempt {attempt}")).unwrap_or_default();
                format!("▸ {task}  {}{attempt}{}", agent.unwrap_or_default(), because(&reason))
            }
            Body::TaskResumed { agent, reason, .. } => {
                format!("▸ {task}  {} goes on{}", agent.unwrap_or_default(), because(&reason))
            }
            Body::TaskCompleted { reason } => format!("✓ {task}{}", because(&reason)),
            Body::TaskFailed { reason } => format!("✗ {task}{}", because(&reason)),
            Body::TaskSkipped { reason } => format!("⊘ {task}{}", because(&reason)),
            Body::TaskPaused { reason } => format!("⏸ {task}{}", because(&reason)),
            Body::TaskAskedAgain { reason } => format!("↻ {task} is asked again{}", because(&reason)),
            Body::TaskWaiting { reason } => format!("· {task}{}", because(&reason)),
            Body::TaskRetried { reason } => format!("↻ {task} is tried again{}", because(&reason)),
            Body::TaskSentBack { reason } => format!("↻ {task} is sent back{}", because(&reason)),
            Body::TaskReopened { reason } => format!("↻ {task} is open again{}", because(&reason)),
            Body::TaskVerdict { verdict, reason } => {
                format!("⚖ {task}  {}{}", verdict.unwrap_or_default(), because(&reason))
            }
            Body::DiscussionStarted { topic } => format!("  {task}  discussion: {}", line(&topic)),
            Body::DiscussionEntry { agent, entry_type, text, .. } => format!(
                "  {task}  {} ({}): {}",
                agent.unwrap_or_default(),
                entry_type.unwrap_or_default(),
                line(&text)
            ),
            Body::DiscussionResolved { text } => format!("  {task}  decided: {}", line(&text)),
            Body::DiscussionEscalated { reason } => {
                format!("⚑ {task}  the discussion did not come to an end{}", because(&reason))
            }
            Body::DiscussionDecided { reason } => format!("  {task}  a person decided{}", because(&reason)),
            Body::Escalated { reason } => format!("⚑ a person has to say how it goes on{}", because(&reason)),
            Body::WorkflowResumed { reason } => format!("▸ goes on{}", because(&reason)),
            Body::WorkflowEnded { status, reason } => {
                let sign = if status == Some(WorkflowStatus::Completed) { "✓" } else { "✗" };
                let status = status.map(WorkflowStatus::as_str).unwrap_or_default();
                format!("{sign} {status}{}", because(&reason))
            }
            // What is said in a turn has a line of its own.
            Body::DiscussionTurn { .. } | Body::Unknown => return None,
        })
    }
}

fn line(text: &Option<String>) -> String {
    first_line(text.as_deref().unwrap_or_default(), MAX_LINE_CHARS)
}

fn because(reason: &Option<String>) -> String {
    match line(reason) {
        reason if reason.is_empty() => String::new(),
        reason => format!(": {reason}"),
    }
}

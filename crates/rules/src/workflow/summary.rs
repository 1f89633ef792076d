//! The summary of a workflow that has ended: what was done, what failed and why, what it cost, how long
//! it took, and where the results are.

use emergent_domain::{
    task::{Task, TaskStatus},
    text::counted,
    time::Timestamp,
    workflow::{Amount, WorkflowStatus},
};

use crate::workflow::{
    question::truncate,
    snapshot::Snapshot,
    threading::{newest_failure, newest_failure_text},
};

pub fn summary_text(snapshot: &Snapshot, status: WorkflowStatus, spent: Amount, now: Timestamp) -> String {
    let all = snapshot.tasks();
    let of = |wanted: TaskStatus| all.iter().filter(move |task| task.status == wanted);
    let count = |wanted: TaskStatus| of(wanted).count();
    let workflow = &snapshot.workflow;
    // Nothing is known to be spent on a scripted or local model, or on one without a price.
    let cost = match spent.microusd {
        0 => String::new(),
        microusd => format!(", ${:.6}", to_usd(microusd)),
    };
    let mut lines = vec![format!(
        "{} of {} completed, {} failed, {} skipped; {status} after {:.1} s, {}{cost}.",
        count(TaskStatus::Completed),
        counted(all.len() as u64, "task"),
        count(TaskStatus::Failed),
        count(TaskStatus::Skipped),
        now.since(workflow.created_at).as_secs_f64(),
        counted(spent.tokens, "token"),
    )];
    let named = |task: &Task| format!("`{}`", task.key);
    for task in of(TaskStatus::Completed) {
        let tries = match snapshot.attempt_number(task) {
            0 | 1 => String::new(),
            number => format!(", attempt {number}"),
        };
        let said = task.summary.as_deref().or_else(|| task.output.as_ref()?.as_str()).unwrap_or_default();
        lines.push(format!("- {} by {}{tries}: {}", named(task), agent_of(task), first_line(said)));
    }
    for task in of(TaskStatus::Failed) {
        lines.push(format!(
            "- {} failed: {}",
            named(task),
            first_line(newest_failure(&task.failure_context))
        ));
    }
    for task in of(TaskStatus::Skipped) {
        lines.push(format!("- {} was skipped", named(task)));
    }
    // Markdown takes a line below a list for a part of its last item.
    lines.push(String::new());
    lines.push(format!(
        "The tasks, their sessions and what they wrote are in the graph: SpecTask objects with workflow_id {}.",
        workflow.id
    ));
    lines.join("\n")
}

fn agent_of(task: &Task) -> &str {
    task.assigned_agent.as_deref().unwrap_or("nobody")
}

#[expect(clippy::cast_precision_loss, reason = "for people to read")]
fn to_usd(amount: i64) -> f64 {
    amount as f64 / 1e6
}

/// Why a task failed, in one line: the newest entry of its failure context. Empty for a task that was
/// never tried.
pub fn last_failure(task: &Task) -> String {
    first_line(newest_failure_text(&task.failure_context))
}

fn first_line(text: &str) -> String {
    truncate(text.lines().find(|line| !line.trim().is_empty()).unwrap_or_default().trim(), 200)
}

#[cfg(test)]
mod tests {
    use emergent_domain::{ids::ProjectId, task::NewTask, workflow::WorkflowSettings};
    use emergent_testkit::fixtures;

    use super::*;

    #[test]
    fn the_last_sentence_is_no_part_of_the_list_of_tasks() {
        let start = Timestamp::from_micros(0);
        let workflow = fixtures::workflow(ProjectId::new(), WorkflowSettings::default(), start);
        let task = fixtures::task(NewTask { key: "build".into(), ..NewTask::default() });
        let task = Task { status: TaskStatus::Completed, summary: Some("Built it.".to_owned()), ..task };
        let snapshot = Snapshot::new(workflow, vec![task], &[], &[]);
        let text = summary_text(&snapshot, WorkflowStatus::Completed, Amount::default(), start);
        assert!(text.starts_with("1 of 1 task completed"), "{text}");
        assert!(text.contains("\n- `build` by nobody: Built it.\n\nThe tasks, their sessions"), "{text}");
    }
}

//! Collects the prior results that the prompt of a task can contain.

use std::collections::HashMap;

use emergent_domain::{
    ids::ObjectId,
    task::{Task, TaskStatus, VerdictKind},
};
use serde_json::Value;

use super::{PriorResult, PriorResults};
use crate::workflow::{
    discussion::TaskDiscussion,
    snapshot::{DiscussionProgress, Snapshot},
};

/// How many indirect blockers are included. In a wide graph nearly every task is an indirect blocker,
/// and distant ones say little about this task.
const MAX_INDIRECT: usize = 8;

/// Returns everything that the prompt of a task could contain.
pub fn collect_results(
    snapshot: &Snapshot,
    discussions: &HashMap<ObjectId, Vec<TaskDiscussion>>,
    task: &Task,
) -> PriorResults {
    let verified: Vec<ObjectId> = match task.verdict {
        VerdictKind::None => Vec::new(),
        _ => snapshot.verified_tasks(task).into_iter().map(|one| one.id).collect(),
    };
    let source = |other: &Task| PriorResult {
        id: other.id,
        title: task_title(other),
        kind: other.kind.clone(),
        agent: other.assigned_agent.clone(),
        text: output_text(other.output.as_ref()).or_else(|| other.summary.clone()).unwrap_or_default(),
        verified: verified.contains(&other.id),
    };
    let direct = direct_results(snapshot, task, &verified);
    let discussions = direct
        .iter()
        .flat_map(|one| discussions.get(&one.id).into_iter().flatten().map(|discussion| (one.id, discussion)))
        .filter(|(_, discussion)| discussion.progress() == DiscussionProgress::Resolved)
        .map(|(of, discussion)| PriorResult {
            id: discussion.id,
            title: discussion.topic().to_owned(),
            kind: discussion.kind().to_owned(),
            agent: None,
            text: discussion.transcript(),
            verified: verified.contains(&of),
        })
        .collect();
    let mut indirect = snapshot.indirect_blockers(task.id, MAX_INDIRECT + verified.len());
    indirect.retain(|far| direct.iter().all(|one| one.id != far.id));
    indirect.truncate(MAX_INDIRECT);
    PriorResults {
        direct: direct.into_iter().map(source).collect(),
        discussions,
        indirect: indirect.into_iter().map(source).collect(),
    }
}

/// The direct blockers of a task, whether its workflow drives them or not, and the tasks that it verifies, however far back they are.
fn direct_results<'a>(snapshot: &'a Snapshot, task: &Task, verified: &[ObjectId]) -> Vec<&'a Task> {
    let foreign = snapshot.foreign_results.get(&task.id).map(Vec::as_slice).unwrap_or_default();
    let mut direct: Vec<&Task> = snapshot.blockers(task.id).chain(foreign).collect();
    let far = verified.iter().filter_map(|id| snapshot.get(*id));
    for one in far.filter(|one| one.status == TaskStatus::Completed) {
        if direct.iter().all(|known| known.id != one.id) {
            direct.push(one);
        }
    }
    direct
}

fn task_title(task: &Task) -> String {
    if task.title.is_empty() { task.key.clone() } else { task.title.clone() }
}

fn output_text(output: Option<&Value>) -> Option<String> {
    match output? {
        Value::String(text) => Some(text.clone()),
        other => Some(other.to_string()),
    }
}

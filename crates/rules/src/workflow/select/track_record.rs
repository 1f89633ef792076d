//! What became of earlier tasks: an agent that completed tasks of a kind is likely to complete the next.

use std::collections::HashMap;

use emergent_domain::{
    task::{Task, TaskStatus},
    text::counted,
};

/// About as much as one word that a definition shares with the task. What an author or a person says
/// about an agent must outweigh it, so that one wrong choice does not reinforce itself.
const WEIGHT: f64 = 2.0;

/// How many tasks of each kind an agent completed, and how many it failed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TrackRecord(HashMap<String, Outcomes>);

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Outcomes {
    completed: usize,
    failed: usize,
}

impl TrackRecord {
    /// Counts a task of this agent. A task without a kind, one that has not ended, and one that somebody
    /// completed without a run say nothing.
    pub fn count_task(&mut self, task: &Task) {
        match task.status {
            TaskStatus::Completed if task.run.is_some() => self.add(&task.kind, 1, 0),
            TaskStatus::Failed if task.run.is_some() => self.add(&task.kind, 0, 1),
            _ => {}
        }
    }

    pub fn add(&mut self, kind: &str, completed: usize, failed: usize) {
        if !kind.is_empty() {
            let outcomes = self.0.entry(kind.to_lowercase()).or_default();
            outcomes.completed += completed;
            outcomes.failed += failed;
        }
    }

    /// Between `-WEIGHT` and `WEIGHT`; closer to 0 the fewer tasks there are.
    pub(super) fn score(&self, kind: &str) -> (f64, Option<String>) {
        let Some(Outcomes { completed, failed }) = self.0.get(&kind.to_lowercase()).copied() else {
            return (0.0, None);
        };
        let all = completed + failed;
        let score = WEIGHT * (completed as f64 - failed as f64) / (all as f64 + 1.0);
        (score, Some(format!("it completed {completed} of {} of kind `{kind}`", counted(all as u64, "task"))))
    }
}

//! What holds, at every moment and in the end.

use std::collections::{BTreeMap, HashSet};

use emergent_domain::{
    ids::RunId,
    task::TaskStatus,
    workflow::{Amount, WorkflowStatus},
};

use super::World;

impl World {
    /// What holds at every moment.
    pub(super) fn check(&self) {
        let at_work = self.db.tasks.iter().filter(|task| task.status == TaskStatus::InProgress).count();
        let slots = self.db.workflow.settings.max_concurrent;
        assert!(at_work <= slots, "{at_work} tasks at work, {slots} slots");
        let used = self.db.spent + self.db.reserved;
        assert!(self.db.workflow.settings.budget.allows(used), "the budget is exceeded: {used:?}");
        for task in &self.db.tasks {
            assert!(task.retry_count <= task.max_retries, "retries are bounded: {task:?}");
        }
    }

    pub(super) fn check_end(&self) {
        if self.db.workflow.status == WorkflowStatus::Completed {
            let open = self.db.tasks.iter().find(|task| !task.status.is_terminal());
            assert!(open.is_none(), "a completed workflow has nothing left to do: {open:?}");
        }
        for (task, runs) in &self.db.attempts {
            let different: HashSet<&RunId> = runs.iter().collect();
            assert_eq!(different.len(), runs.len(), "every attempt at {task} is a run of its own");
        }
        let open: Vec<_> = self.db.runs.values().filter(|run| !run.attempt.status.is_terminal()).collect();
        let reserved: Amount = open.iter().map(|run| run.reserved).sum();
        assert_eq!(reserved, self.db.reserved, "what is reserved is what runs under way reserved");
    }

    pub(super) fn tell(&self) -> String {
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        for task in &self.db.tasks {
            *counts.entry(task.status.as_str()).or_default() += 1;
        }
        format!("{} {counts:?} {:?}", self.db.workflow.status, self.db.workflow.escalation)
    }
}

//! A workflow once more, from its events: every step from where it was possible, and in the end the
//! tasks as they stand.

use std::collections::{HashMap, HashSet};

use emergent_coordination::WorkflowDetail;
use emergent_domain::{
    ids::{ObjectId, RunId},
    task::TaskStatus::{self, Completed, Failed, InProgress, Paused, Pending, Skipped},
    workflow::WorkflowEvent,
};

pub struct Replay<'a> {
    shown: &'a WorkflowDetail,
    keys: HashMap<&'a str, ObjectId>,
    /// Those that were there by now: what a task waits for may have been added later.
    status: HashMap<ObjectId, TaskStatus>,
    /// Those that take a slot. One whose discussion waits for a person takes none.
    at_work: HashSet<ObjectId>,
    attempts: HashMap<ObjectId, Vec<RunId>>,
}

impl<'a> Replay<'a> {
    pub fn of(shown: &'a WorkflowDetail, events: &[WorkflowEvent]) -> Self {
        let keys = shown.tasks.iter().map(|one| (one.task.key.as_str(), one.task.id)).collect();
        let (status, at_work, attempts) = (HashMap::new(), HashSet::new(), HashMap::new());
        let mut replay = Self { shown, keys, status, at_work, attempts };
        for (at, event) in events.iter().enumerate() {
            assert_eq!(event.seq, i64::try_from(at).unwrap() + 1, "events are counted without a gap");
            if let Some(task) = event.task {
                replay.step(task, event);
            }
            let (busy, slots) = (replay.at_work.len(), shown.workflow.settings.max_concurrent);
            assert!(busy <= slots, "{busy} tasks at work with {slots} slots, at {event:?}");
        }
        for one in &shown.tasks {
            let (id, key) = (one.task.id, &one.task.key);
            assert_eq!(replay.status.get(&id), Some(&one.task.status), "`{key}` is what its events say");
        }
        replay
    }

    /// The runs of a task's attempts, in order of their ids.
    pub fn attempts(&self, task: ObjectId) -> Vec<RunId> {
        let mut runs = self.attempts.get(&task).cloned().unwrap_or_default();
        runs.sort_unstable();
        runs
    }

    fn step(&mut self, task: ObjectId, event: &WorkflowEvent) {
        let (from, to): (&[TaskStatus], TaskStatus) = match event.kind.as_str() {
            "task_added" => {
                assert_eq!(self.status.insert(task, Pending), None, "a task is added once: {event:?}");
                return;
            }
            "task_started" => {
                self.is_free(task, event);
                self.attempt(task, event);
                (&[Pending], InProgress)
            }
            "task_resumed" => {
                self.attempt(task, event);
                (&[Paused], InProgress)
            }
            "task_completed" => (&[InProgress], Completed),
            // A judge that owes its verdict is asked for it by going on with its run.
            "task_paused" | "task_asked_again" => (&[InProgress], Paused),
            "task_retried" | "task_verdict" => (&[InProgress], Pending),
            // One that waits already is told of a second verdict.
            "task_sent_back" => (&[Completed, Pending], Pending),
            "task_reopened" => (&[Completed], Pending),
            // At its end, when a verdict finds no retries left, or before it could start.
            "task_failed" => (&[InProgress, Completed, Pending], Failed),
            "task_skipped" => (&[Pending], Skipped),
            "discussion_escalated" => {
                self.at_work.remove(&task);
                return;
            }
            _ => return,
        };
        let was = self.status.insert(task, to);
        assert!(was.is_some_and(|was| from.contains(&was)), "{was:?} becomes {to:?}: {event:?}");
        match to {
            InProgress => self.at_work.insert(task),
            _ => self.at_work.remove(&task),
        };
    }

    fn is_free(&self, task: ObjectId, event: &WorkflowEvent) {
        let found = self.shown.tasks.iter().find(|one| one.task.id == task).expect("a task of the workflow");
        for key in &found.blocked_by {
            let status = self.status.get(&self.keys[key.as_str()]);
            assert!(
                status.is_none_or(|status| *status == Completed),
                "`{}` starts while `{key}` is {status:?}: {event:?}",
                found.task.key
            );
        }
    }

    fn attempt(&mut self, task: ObjectId, event: &WorkflowEvent) {
        let run = event.run.expect("an attempt has a run");
        self.attempts.entry(task).or_default().push(run);
    }
}

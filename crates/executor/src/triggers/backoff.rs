//! The pause before triggers are fired again after the run queue was full. It grows with each attempt that
//! finds the queue still full. A project that has queued as many runs as it may has a pause of its own, so that the
//! triggers of others go on.

use std::{collections::HashMap, time::Duration};

use emergent_domain::ids::ProjectId;
use emergent_net::backoff as net;
use tokio::time::Instant;

use crate::{Error, Result, queue::PROJECT_LIMIT};

const DELAYS: net::Backoff = net::Backoff::new(Duration::from_millis(50), Duration::from_secs(5));

/// The current pauses of this server.
#[derive(Debug, Default)]
pub(super) struct Backoffs {
    /// The pause of all triggers, after the whole queue was full.
    pub queue: Backoff,
    /// The pauses of the events of projects that had queued as many runs as they may.
    projects: HashMap<ProjectId, Backoff>,
}

impl Backoffs {
    /// Whether it is too early to fire the events of a project again.
    pub fn is_waiting(&self, project: ProjectId) -> bool {
        self.queue.is_waiting() || self.projects.get(&project).is_some_and(Backoff::is_waiting)
    }

    /// Updates the pauses from the result of firing the events of a project.
    pub fn record(&mut self, project: ProjectId, fired: &Result<usize>) {
        if let Err(Error::Overloaded { limit: PROJECT_LIMIT, .. }) = fired {
            self.projects.entry(project).or_default().record(fired);
            return;
        }
        if matches!(fired, Ok(count) if *count > 0) {
            self.projects.remove(&project);
        }
        self.queue.record(fired);
    }

    /// Forgets the pauses of all projects but these, which have due events.
    pub fn keep_projects(&mut self, due: &[ProjectId]) {
        self.projects.retain(|project, _| due.contains(project));
    }
}

/// A pause.
#[derive(Debug, Default)]
pub(super) struct Backoff {
    /// How often in a row the queue was full.
    failures: u32,
    /// The end of the current pause.
    until: Option<Instant>,
}

impl Backoff {
    /// Whether it is too early to try again.
    pub fn is_waiting(&self) -> bool {
        self.until.is_some_and(|until| Instant::now() < until)
    }

    /// Updates the pause from the result of firing triggers.
    pub fn record(&mut self, fired: &Result<usize>) {
        match fired {
            Ok(count) if *count > 0 => *self = Self::default(),
            Err(Error::Overloaded { .. }) => {
                self.until = Some(Instant::now() + DELAYS.delay(self.failures));
                self.failures = self.failures.saturating_add(1);
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_queue_starts_a_pause_that_ends_when_a_firing_succeeds() {
        let mut backoff = Backoff::default();
        assert!(!backoff.is_waiting());
        backoff.record(&Err(Error::Overloaded { limit: "max_queued", waiting: 1 }));
        assert!(backoff.is_waiting());
        backoff.record(&Ok(0));
        assert!(backoff.is_waiting(), "nothing was due, which says nothing about the queue");
        backoff.record(&Ok(1));
        assert!(!backoff.is_waiting());
    }

    #[test]
    fn a_project_at_its_limit_pauses_alone() {
        let (mut backoffs, full, other) = (Backoffs::default(), ProjectId::new(), ProjectId::new());
        backoffs.record(full, &Err(Error::Overloaded { limit: PROJECT_LIMIT, waiting: 1 }));
        assert!(backoffs.is_waiting(full) && !backoffs.is_waiting(other) && !backoffs.queue.is_waiting());
        backoffs.record(other, &Ok(1));
        assert!(backoffs.is_waiting(full), "what another project does says nothing about this one");
        backoffs.record(other, &Err(Error::Overloaded { limit: "max_queued", waiting: 1 }));
        assert!(backoffs.is_waiting(other) && backoffs.queue.is_waiting(), "the whole queue is full");
        backoffs.record(full, &Ok(1));
        assert!(!backoffs.is_waiting(full) && !backoffs.is_waiting(other));
        backoffs.record(full, &Err(Error::Overloaded { limit: PROJECT_LIMIT, waiting: 1 }));
        backoffs.keep_projects(&[other]);
        assert!(!backoffs.is_waiting(full));
    }
}

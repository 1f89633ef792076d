//! What follows when the driver of a workflow fails: it is started again after a delay, or the workflow is
//! escalated to a person.

use emergent_domain::ids::WorkflowId;
use emergent_net::backoff::{Backoff, spread_of};
use tokio::time::Duration;

use crate::error::Error;

/// After this many failures in a row, a workflow is escalated to a person.
const MAX_FAILURES: u32 = 6;
/// A driver that worked for this long has recovered from the failures before.
const RECOVERED_AFTER: Duration = Duration::from_secs(60);
/// With jitter, because a failure of the database concerns all drivers at once.
const BACKOFF: Backoff =
    Backoff::new(Duration::from_millis(100), Duration::from_millis(6_400)).with_jitter(1.0, 1.5);

/// Counts the failures of one driver.
pub(crate) struct DriverFailures {
    workflow: WorkflowId,
    /// Failures in a row, whatever the cause.
    in_a_row: u32,
    /// Those of them that the workflow itself causes.
    of_workflow: u32,
}

/// What to do after a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AfterFailure {
    Retry {
        delay: Duration,
    },
    /// Escalate, or retry after the delay if that fails as well.
    Escalate {
        delay: Duration,
    },
}

impl DriverFailures {
    pub fn new(workflow: WorkflowId) -> Self {
        Self { workflow, in_a_row: 0, of_workflow: 0 }
    }

    /// Counts a failure of the driver, which had worked for some time. A failure of the database is not caused
    /// by the workflow, so it is never escalated. A transaction that takes too long is: a pass that is too large
    /// for one would be repeated for ever.
    pub fn record(&mut self, error: &Error, worked_for: Duration) -> AfterFailure {
        if worked_for >= RECOVERED_AFTER {
            (self.in_a_row, self.of_workflow) = (0, 0);
        }
        let spread = spread_of(self.workflow.0.as_u64_pair().1, u64::from(self.in_a_row));
        let delay = BACKOFF.jittered(self.in_a_row, spread);
        self.in_a_row = self.in_a_row.saturating_add(1);
        if error.is_database_failure() {
            return AfterFailure::Retry { delay };
        }
        self.of_workflow = self.of_workflow.saturating_add(1);
        match self.of_workflow > MAX_FAILURES {
            true => AfterFailure::Escalate { delay },
            false => AfterFailure::Retry { delay },
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use emergent_executor::Error as ExecutorError;
    use emergent_graph::Error as GraphError;
    use emergent_store::Error as StoreError;

    use super::*;

    const AT_ONCE: Duration = Duration::ZERO;

    fn database_failures() -> Vec<StoreError> {
        vec![
            StoreError::TooManyWrites { limit: 512 },
            StoreError::Busy { waited: Duration::from_secs(10) },
            StoreError::Pool(Box::new(io::Error::from(io::ErrorKind::ConnectionReset))),
            StoreError::Unresponsive,
            StoreError::StorageFull(Box::new(io::Error::from(io::ErrorKind::StorageFull))),
        ]
    }

    fn is_escalated(next: AfterFailure) -> bool {
        matches!(next, AfterFailure::Escalate { .. })
    }

    #[test]
    fn a_failure_of_the_database_is_retried_however_it_is_wrapped() {
        let wraps: [fn(StoreError) -> Error; 4] = [
            Error::Store,
            |error| Error::Graph(GraphError::Store(error)),
            |error| Error::Executor(ExecutorError::Store(error)),
            |error| Error::Executor(ExecutorError::Graph(GraphError::Store(error))),
        ];
        let mut failures = DriverFailures::new(WorkflowId::new());
        for _ in 0..10 {
            for wrap in wraps {
                for error in database_failures() {
                    let error = wrap(error);
                    assert!(!is_escalated(failures.record(&error, AT_ONCE)), "{error:?}");
                }
            }
        }
        let AfterFailure::Retry { delay } = failures.record(&Error::Store(StoreError::Unresponsive), AT_ONCE)
        else {
            panic!("it is retried")
        };
        assert!(delay >= Duration::from_millis(6_400), "the delay has grown: {delay:?}");
    }

    #[test]
    fn failures_of_the_workflow_in_a_row_are_escalated() {
        let refused =
            || Error::Executor(ExecutorError::Store(StoreError::Duplicate { constraint: "a".into() }));
        let mut failures = DriverFailures::new(WorkflowId::new());
        for _ in 0..6 {
            assert!(!is_escalated(failures.record(&refused(), AT_ONCE)));
            assert!(!is_escalated(failures.record(&Error::Store(StoreError::Unresponsive), AT_ONCE)));
        }
        assert!(is_escalated(failures.record(&refused(), AT_ONCE)));
        assert!(!is_escalated(failures.record(&refused(), RECOVERED_AFTER)), "it worked in between");
    }

    #[test]
    fn a_pass_that_takes_too_long_again_and_again_is_escalated() {
        let too_slow = || {
            let limit = Duration::from_millis(2_500);
            Error::Executor(ExecutorError::Graph(GraphError::Store(StoreError::TooSlow { limit })))
        };
        let mut failures = DriverFailures::new(WorkflowId::new());
        for _ in 0..MAX_FAILURES {
            assert!(!is_escalated(failures.record(&too_slow(), AT_ONCE)), "it may pass");
        }
        assert!(is_escalated(failures.record(&too_slow(), AT_ONCE)));
    }
}

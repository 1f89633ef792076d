//! Skips what triggers have not started yet, for a restored copy of a database: the original may have started it,
//! or it is long past.

use emergent_store::{
    Tx,
    schedules::{self as schedule_rows, ScheduleTarget},
    triggers::{self as trigger_rows, firings},
};

use super::schedules::parse_rule;
use crate::{Error, Executor, Result};

/// How many schedules are read at once.
const BATCH_SIZE: usize = 1_000;
/// The reason that skipped firings record.
const REASON: &str = "skipped when the backup was restored";

/// What was skipped.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SkippedTriggers {
    /// Firings that had not started a run.
    pub firings: u64,
    /// Schedules that were due.
    pub schedules: u64,
}

impl Executor {
    /// Skips what the triggers of all projects have not started: pending firings, changes that event triggers
    /// have not read, and times of schedules that have passed. Later changes and times start runs as always.
    /// Nobody else may use the database.
    pub async fn skip_past_triggers(&self) -> Result<SkippedTriggers> {
        let now = self.clock().now();
        let work = move |tx: &mut Tx<'_>| {
            let firings = firings::skip_pending(tx, REASON, now)?;
            trigger_rows::skip_unread_changes(tx)?;
            let mut schedules = 0;
            loop {
                let mut due = schedule_rows::lock_due(tx, ScheduleTarget::Agent, now, BATCH_SIZE)?;
                due.extend(schedule_rows::lock_due(tx, ScheduleTarget::Workflow, now, BATCH_SIZE)?);
                if due.is_empty() {
                    return Ok::<_, Error>(SkippedTriggers { firings, schedules });
                }
                for schedule in due {
                    match parse_rule(&schedule) {
                        Ok(rule) => {
                            let next_at = rule.cron.next(now, &rule.zone);
                            schedule_rows::advance(tx, schedule.id, next_at, None)?;
                        }
                        Err(reason) => schedule_rows::suspend(tx, schedule.id, &reason)?,
                    }
                    schedules += 1;
                }
            }
        };
        self.db().write(work).await
    }
}

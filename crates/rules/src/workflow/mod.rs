//! What a workflow does next.
//!
//! A [`snapshot::Snapshot`] holds the tasks of a workflow and how far their attempts are. [`decide`]
//! chooses the next actions, [`conclude`] says what the end of an attempt means, [`select`] chooses
//! an agent, [`threading`] writes a task's prompt, and [`discussion`] says whose turn it is. Where
//! rules leave something open, [`evaluate`], [`triage`] and [`select`] word the question to a model
//! and read its answer; asking is left to `coordination`.

pub mod conclude;
pub mod decide;
pub mod discussion;
pub mod evaluate;
pub mod foreign_blockers;
pub mod planning;
pub mod question;
pub mod select;
pub mod snapshot;
pub mod summary;
pub mod threading;
pub mod transition;
pub mod triage;
pub mod verdicts;

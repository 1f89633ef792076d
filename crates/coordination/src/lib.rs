//! Tasks and workflows: what agents do to them, and who walks them.
//!
//! A dispatcher takes workflows and walks each: it looks (`known`), decides in values (`plan`,
//! `settle`, `discuss`, `select`), and writes what was decided in one transaction (`apply`). What a
//! person does to a workflow is in `service`; what agents do, in `tools`. SQL is the store's, HTTP
//! the API's.

mod apply;
mod budgets;
pub mod conclude;
pub mod create;
pub mod decide;
pub mod discuss;
mod discussion;
mod discussions;
mod dispatch;
mod dispatcher;
pub mod error;
pub mod evaluate;
mod follow;
pub mod foreign_blockers;
mod judge;
mod keywords;
mod loaded_workflow;
mod metrics;
mod planning;
mod prepare_attempt;
pub mod question;
pub mod select;
mod service;
pub mod snapshot;
mod steer;
pub mod summary;
mod telling;
pub mod threading;
pub mod tools;
pub mod triage;
pub mod verdicts;
mod workflow_driver;

pub use budgets::{Budgets, DayBudget};
pub use discussions::DiscussionDetail;
pub use dispatch::{DryRun, DryRunTask};
pub use dispatcher::{Dispatcher, Settings};
pub use error::{Error, Result};
pub use planning::DEFAULT_PLANNER;
pub use service::{TaskDetail, WorkflowDetail};
pub use steer::TaskCommand;

//! Tasks and workflows: what agents do to them, and who walks them.
//!
//! A dispatcher takes workflows and walks each: it looks (`known`), decides in values (`plan`,
//! `settle`, `discuss`, `select`), and writes what was decided in one transaction (`apply`). What a
//! person does to a workflow is in `service`; what agents do, in `tools`. SQL is the store's, HTTP
//! the API's.

mod apply;
mod budgets;
pub mod create;
mod discussion;
mod discussions;
mod dispatch;
mod dispatcher;
pub mod error;
mod follow;
mod foreign_blockers;
mod judge;
mod loaded_workflow;
mod metrics;
mod planning;
mod prepare_attempt;
mod service;
mod steer;
mod telling;
pub mod tools;
mod workflow_driver;

pub use budgets::{Budgets, DayBudget};
pub use discussions::DiscussionDetail;
pub use dispatch::{DryRun, DryRunTask};
pub use dispatcher::{Dispatcher, Settings};
pub use error::{Error, Result};
pub use metrics::MetricsSnapshot;
pub use planning::DEFAULT_PLANNER;
pub use service::{TaskDetail, WorkflowDetail};
pub use steer::TaskCommand;

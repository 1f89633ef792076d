//! Workflows: the dispatcher that claims and drives them, what people do to them, and the tools that
//! agents use on tasks.
//!
//! A driver loads a workflow (`loaded_workflow`), lets `emergent_rules::workflow` decide over values,
//! asks a model where the rules leave something open (`judge`), and writes the decisions in one
//! transaction (`apply`). What people call is in `service`, what agents call in `tools`. SQL is in
//! `store`, HTTP in `api`.

mod agent_cards;
mod agent_similarity;
mod apply;
mod attempts;
pub mod create;
mod discussion;
mod dispatch_loop;
mod dispatcher;
mod ended_runs;
pub mod error;
mod foreign_blockers;
mod judge;
mod loaded_workflow;
mod metrics;
mod planning;
mod prepare_attempt;
mod run_hooks;
mod service;
pub mod sessions;
mod submission_tools;
mod task_prompt;
pub mod tools;
mod transactions;
mod workflow_driver;
pub mod workflow_runs;
mod workflow_tx;

pub use dispatcher::{Dispatcher, Settings};
pub use error::{Error, Result};
pub use planning::DEFAULT_PLANNER;
pub use service::{
    budgets::{Budgets, DayBudget},
    discussions::DiscussionDetail,
    dispatch::{DryRun, DryRunTask},
    tasks::TaskCommand,
    workflows::{TaskDetail, WorkflowDetail},
};

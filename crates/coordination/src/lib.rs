//! Workflows: the dispatcher that claims and drives them, the commands of people, and the tools with which
//! agents work on tasks.
//!
//! A driver loads a workflow (`loaded_workflow`), calls the pure functions of `emergent_rules::workflow` to
//! decide what to do, asks a model where the rules do not decide (`judge`), and writes the decisions in one
//! transaction (`apply`). The methods for people and clients are in `service`, the tools of agents in
//! `tools`. SQL is in `store`, HTTP in `api`.

#![cfg_attr(not(test), warn(clippy::disallowed_methods, clippy::expect_used, clippy::unwrap_used))]

mod agent_cards;
mod agent_similarity;
mod apply;
mod attempts;
mod connected_dispatcher;
pub mod create;
mod decision_rights;
mod discussion;
mod dispatch_loop;
mod dispatchable;
mod dispatcher;
mod driver_failures;
mod ended_runs;
pub mod error;
mod existing_tasks;
mod foreign_blockers;
mod judge;
mod loaded_workflow;
mod metrics;
mod model_check;
mod named_tasks;
mod open_choices;
mod planning;
mod prepare_attempt;
mod run_hooks;
mod run_times;
mod service;
mod session_end;
pub mod sessions;
mod standing_workflow;
mod submission_tools;
mod task_adoption;
mod task_prompt;
mod task_slots;
pub mod tools;
mod transactions;
mod triggered_workflows;
mod workflow_driver;
pub mod workflow_runs;
mod workflow_tx;

pub use dispatcher::{Dispatcher, Settings};
pub use error::{Error, Result};
pub use existing_tasks::{ExistingTasks, TaskSelection};
pub use planning::DEFAULT_PLANNER;
pub use service::{
    budgets::{Budgets, DayBudget},
    discussions::DiscussionDetail,
    dry_run::{DryRun, DryRunTask},
    inbox::{InboxItemDetail, InboxItemFilter},
    tasks::TaskCommand,
    workflows::{ListedTask, ListedWorkflow, TaskDetail, WorkflowDetail},
};

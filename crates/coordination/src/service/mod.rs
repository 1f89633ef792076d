//! What people and clients do with workflows, as methods of [`Dispatcher`](crate::Dispatcher).

pub(crate) mod budgets;
mod cancel;
mod changes;
mod decision_audit;
pub(crate) mod discussions;
pub(crate) mod dispatch;
pub(crate) mod dry_run;
mod follow;
pub(crate) mod inbox;
mod standalone_task;
pub(crate) mod tasks;
mod workflow_budget;
pub(crate) mod workflows;

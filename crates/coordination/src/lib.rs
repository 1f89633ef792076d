//! Tasks and workflows: what agents do to them, and who walks them.
//!
//! A dispatcher takes workflows and walks each: it looks (`known`), decides in values (`plan`,
//! `settle`, `discuss`, `select`), and writes what was decided in one transaction (`apply`). What a
//! person does to a workflow is in `service`; what agents do, in `tools`. SQL is the store's, HTTP
//! the API's.

mod apply;
mod begin;
mod budgets;
pub mod discuss;
mod discussions;
mod dispatch;
mod dispatcher;
pub mod error;
pub mod evaluate;
mod figures;
mod follow;
mod known;
pub mod outside;
pub mod plan;
mod planning;
pub mod question;
mod said;
pub mod select;
mod service;
pub mod settle;
pub mod start;
pub mod state;
mod steer;
pub mod summary;
mod talk;
mod telling;
mod think;
pub mod threading;
pub mod tools;
pub mod triage;
pub mod verdicts;
mod walk;

pub use budgets::{Budgets, DayBudget};
pub use discussions::ShownDiscussion;
pub use dispatch::{Checked, CheckedTask};
pub use dispatcher::{Dispatcher, Settings};
pub use error::{Error, Result};
pub use figures::Figures;
pub use planning::PLANNER;
pub use service::{Shown, ShownTask};
pub use steer::Steer;

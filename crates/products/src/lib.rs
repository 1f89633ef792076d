//! Products: packages of agents, template packs, jobs, MCP servers and prompts. A manifest
//! describes a product, and a project installs, upgrades or uninstalls it as a whole.
//!
//! [`validate`] checks whether a manifest can be used, and `plan` decides what a change will do;
//! both are pure functions. `apply` executes the plan in one transaction, so a project is never
//! left half-changed. HTTP is in `api`, and reading files is left to the command line.

#![cfg_attr(not(test), warn(clippy::disallowed_methods, clippy::expect_used, clippy::unwrap_used))]

mod apply;
pub mod builtin;
mod change;
pub mod diff;
pub mod error;
mod fetch;
mod job_rules;
pub mod manifest;
pub mod plan;
pub mod problem;
mod readable;
pub mod schema;
mod service;
pub mod source;
pub mod state;
pub mod tool_forecast;
mod updates;
pub mod uses;
pub mod validate;

pub use error::{Error, Result};
pub use manifest::Manifest;
pub use plan::{Plan, plan};
pub use problem::ManifestProblem;
pub use service::{ChangeOptions, ManifestInput, ProductOutcome, Products, Settings};
pub use source::ManifestSource;
pub use state::{Product, ProjectState};
pub use tool_forecast::ToolForecast;
pub use updates::ProductUpdate;
pub use uses::{Consent, Uses};

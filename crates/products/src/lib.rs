//! Products: manifests that bring agents, schemas, schedules, servers and prompts to a project, all
//! or nothing.
//!
//! `validate` says whether a manifest can be used, `plan` what installing it would do; both are
//! values in, values out. `apply` does it, in one transaction, so that a project is always wholly
//! before or wholly after. HTTP is the API's, files are the command line's.

mod apply;
pub mod builtin;
pub mod diff;
pub mod error;
mod fetch;
pub mod manifest;
pub mod plan;
pub mod problem;
pub mod schema;
mod service;
pub mod source;
pub mod state;
pub mod tool_forecast;
mod updates;
pub mod validate;

pub use error::{Error, Result};
pub use manifest::Manifest;
pub use plan::{Plan, plan};
pub use problem::ManifestProblem;
pub use service::{ManifestInput, ProductOutcome, Products, Settings};
pub use source::ManifestSource;
pub use state::{Product, ProjectState};
pub use tool_forecast::ToolForecast;
pub use updates::ProductUpdate;

//! The tools that every project has, with one file for each group of them.
//!
//! `define`, `input`, `reference`, `schema` and `view` are shared by all tools, also by those of
//! other crates.
//!
//! Answers are objects in camelCase. An input names an object by its id or as `Type/key`.

use std::sync::Arc;

use crate::Tool;

pub mod define;
mod documents;
mod entities;
pub mod input;
mod packs;
mod project;
pub mod reference;
mod relationships;
mod runs;
pub mod schema;
mod search;
mod source;
mod traverse;
mod types;
pub mod view;

/// Returns every built-in tool over the data of a project. The executor adds the tools that start and
/// coordinate agents to its own pool.
pub fn tools() -> Vec<Arc<dyn Tool>> {
    [
        entities::tools(),
        relationships::tools(),
        search::tools(),
        traverse::tools(),
        types::tools(),
        packs::tools(),
        documents::tools(),
        project::tools(),
        runs::tools(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

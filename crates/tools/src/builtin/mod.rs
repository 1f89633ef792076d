//! The tools that every project has: one file for each family.
//!
//! `define`, `schema`, `view` and `reference` are what they are put together from; tools of other
//! crates use them, too.
//!
//! Answers are objects in camelCase. Wherever an object is named, its id or `Type/key` will do.

use std::sync::Arc;

use crate::Tool;

pub mod define;
mod documents;
mod entities;
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

/// Every built-in tool over a project's data. Those that start or coordinate agents are the executor's,
/// which adds them to its pool with [`crate::ToolPool::with`].
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

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
mod types;
pub mod view;
mod walk;

/// Every built-in tool over a project's data. Those that start or coordinate agents are the executor's,
/// which adds them to its pool with [`crate::ToolPool::with`].
pub fn all() -> Vec<Arc<dyn Tool>> {
    [
        entities::all(),
        relationships::all(),
        search::all(),
        walk::all(),
        types::all(),
        packs::all(),
        documents::all(),
        project::all(),
        runs::all(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

//! The tools that every project has: one file for each family.
//!
//! Answers are objects in camelCase. Wherever an object is named, its id or `Type/key` will do.

use std::sync::Arc;

use crate::Tool;

mod define;
mod documents;
mod entities;
mod packs;
mod project;
mod reference;
mod relationships;
mod runs;
mod schema;
mod search;
mod source;
mod types;
mod view;
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

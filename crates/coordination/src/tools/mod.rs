//! The tools with which agents see and make tasks and discussions.
//!
//! A run that works for a workflow means that one wherever none is named. A task is named by its
//! id, by its key in that workflow, or as `SpecTask/<key of the object>`.

use std::sync::Arc;

use emergent_tools::Tool;

mod caller;
mod create;
mod dependencies;
mod discussions;
mod list;
mod update;
mod view;

/// Every tool of coordination, to be put into a pool beside the built-in ones.
pub fn tools() -> Vec<Arc<dyn Tool>> {
    [create::tools(), list::tools(), update::tools(), dependencies::tools(), discussions::tools()]
        .into_iter()
        .flatten()
        .collect()
}

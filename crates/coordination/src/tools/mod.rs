//! The tools with which agents list, create and change tasks, and read and start discussions.
//!
//! If a call names no workflow, it is about the workflow that its run works for. An input names a task by
//! its id, by its key in that workflow, or as `SpecTask/<key of the object>`.

use std::sync::Arc;

use emergent_tools::Tool;

mod caller;
mod create;
mod dependencies;
mod discussion_input;
mod discussions;
mod list;
mod update;
mod view;

/// All tools of this crate. The server adds them to the pool of built-in tools.
pub fn tools() -> Vec<Arc<dyn Tool>> {
    [create::tools(), list::tools(), update::tools(), dependencies::tools(), discussions::tools()]
        .into_iter()
        .flatten()
        .collect()
}

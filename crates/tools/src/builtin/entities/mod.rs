//! The tools that create, read, change, delete and restore objects, which agents know as entities.

use std::sync::Arc;

use crate::Tool;

mod change;
mod create;
mod dispatch_hint;
mod merge;
mod query;
mod read;
mod sort;

pub(super) fn tools() -> Vec<Arc<dyn Tool>> {
    let mut tools = vec![create::tool(), query::tool()];
    tools.extend(read::tools());
    tools.extend(change::tools());
    tools
}

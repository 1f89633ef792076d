//! Objects, which agents know as entities: made, read, changed, taken away and brought back.

use std::sync::Arc;

use crate::Tool;

mod change;
mod create;
mod merge;
mod query;
mod read;
mod sort;

pub(super) fn tools() -> Vec<Arc<dyn Tool>> {
    let mut all = vec![create::tool(), query::tool()];
    all.extend(read::tools());
    all.extend(change::tools());
    all
}

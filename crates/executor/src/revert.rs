//! Undoing what a run wrote.

use emergent_domain::ids::RunId;
use emergent_graph::{Actor, revert};
use emergent_store::runs;

pub use emergent_graph::revert::{EntityKind, RevertConflict, RevertReport, RevertedEntity, UndoAction};

use crate::{Error, Executor, Result};

impl Executor {
    /// Undoes what a run wrote to the graph, once it has ended; what was changed since is reported
    /// and stays. A second time finds everything undone.
    pub async fn revert_run(&self, actor: Actor, id: RunId) -> Result<RevertReport> {
        let graph = self.graph().clone();
        self.db()
            .write(move |tx| {
                let writer = graph.write_context(tx, actor)?;
                let run = runs::get_for_update(tx, actor.project, id)?
                    .ok_or_else(|| Error::not_found("run", id))?;
                if !run.status.is_terminal() {
                    return Err(Error::Conflict(format!(
                        "run `{id}` is {}: what it writes can be undone once it has ended; cancel it, or wait",
                        run.status
                    )));
                }
                Ok(revert::revert(tx, &writer, id)?)
            })
            .await
    }
}

//! Reverts what a run wrote to the graph.

use emergent_domain::ids::RunId;
use emergent_graph::{Actor, revert};
use emergent_store::runs;

pub use emergent_graph::revert::{EntityKind, RevertConflict, RevertReport, RevertedEntity, UndoAction};

use crate::{Error, Executor, Result};

impl Executor {
    /// Reverts what a run wrote to the graph, once the run has ended. Entities that were changed since are
    /// reported and stay as they are. Reverting again changes nothing.
    pub async fn revert_run(&self, actor: Actor, id: RunId) -> Result<RevertReport> {
        let graph = self.graph().clone();
        self.db()
            .write(move |tx| {
                let ctx = graph.write_context(tx, actor)?;
                let run = runs::get_for_update(tx, actor.project, id)?
                    .ok_or_else(|| Error::not_found("run", id))?;
                if !run.status.is_terminal() {
                    return Err(Error::Conflict(format!(
                        "run `{id}` is {}: what it writes can be undone once it has ended; cancel it, or wait",
                        run.status
                    )));
                }
                Ok(revert::revert(tx, &ctx, id)?)
            })
            .await
    }
}

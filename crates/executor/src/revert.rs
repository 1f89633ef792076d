//! Reverts what a run wrote to the graph.

use emergent_domain::{
    audit::{AuditAction, NewAuditEntry},
    ids::RunId,
};
use emergent_graph::{Actor, revert};
use emergent_store::{audit, runs};

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
                let report = revert::revert(tx, &ctx, id)?;
                if !report.undone.is_empty() {
                    let entry = NewAuditEntry::new(AuditAction::RunRevert, Some(actor.project), &run.agent_name)
                        .id(id)
                        .detail("undone", report.undone.len())
                        .detail("conflicts", report.conflicts.len());
                    audit::record(tx, &entry, ctx.now)?;
                }
                Ok(report)
            })
            .await
    }
}

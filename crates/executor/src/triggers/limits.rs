//! How many triggers a project may have, and how large they may be together. They are compared with every change of the
//! project, so without a limit a project could occupy the servers that others use as well.

use emergent_domain::{ids::ProjectId, invalid::Invalid};
use emergent_store::{
    Tx,
    triggers::totals::{TriggerTotals, totals},
};

use crate::Result;

/// The most triggers of a project, whether agents, products or people have them.
const MAX_TRIGGERS: i64 = 1_000;
/// The most bytes that their settings and workflows have together.
const MAX_BYTES: i64 = 4 << 20;

/// The triggers of a project before a change.
pub struct TriggerLimits {
    project: ProjectId,
    before: TriggerTotals,
}

impl TriggerLimits {
    /// Counts the triggers of a locked project before a change.
    pub fn before_change(tx: &mut Tx<'_>, project: ProjectId) -> Result<Self> {
        Ok(Self { project, before: totals(tx, project)? })
    }

    /// Refuses a change that makes the triggers more or larger than they may be. A project that had too many already, from
    /// before there was a limit, can go on changing and removing them. `count_field` is the field of the request because
    /// of which there is another trigger, and `bytes_field` the one that says what it has.
    pub fn check(self, tx: &mut Tx<'_>, count_field: &str, bytes_field: &str) -> Result<()> {
        let after = totals(tx, self.project)?;
        if after.count > MAX_TRIGGERS.max(self.before.count) {
            let reason = format!(
                "makes {} triggers, and a project may have {MAX_TRIGGERS}, of agents, products and people together: remove \
                 others first",
                after.count
            );
            return Err(Invalid::new(count_field, reason).into());
        }
        if after.bytes > MAX_BYTES.max(self.before.bytes) {
            let reason = format!(
                "is too long: the settings and workflows of all triggers of the project would have {} bytes together, and \
                 may have {MAX_BYTES}; shorten it, or remove other triggers first",
                after.bytes
            );
            return Err(Invalid::new(bytes_field, reason).into());
        }
        Ok(())
    }
}

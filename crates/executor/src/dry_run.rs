//! Runs the code of a change and rolls it back, so that its outcome is exact and nothing is changed.

use emergent_store::Tx;

use crate::{Executor, Result};

/// Whether a change is made, or only its outcome is returned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Save {
    Commit,
    DryRun,
}

impl Executor {
    /// Runs a transaction, and commits it or rolls it back.
    pub(crate) async fn write_or_try<T, F>(&self, save: Save, work: F) -> Result<T>
    where
        F: Fn(&mut Tx<'_>) -> Result<T> + Send + 'static,
        T: Send + 'static,
    {
        match save {
            Save::Commit => self.db().write(work).await,
            Save::DryRun => self.db().write_and_roll_back(work).await,
        }
    }
}

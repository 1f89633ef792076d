//! Runs the code of a change and rolls it back, so that its outcome is exact and nothing is changed.

use emergent_store::Tx;

use crate::{Error, Executor, Result};

/// Whether a change is made, or only its outcome is returned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Save {
    Commit,
    DryRun,
}

/// Why a transaction ended without a commit.
enum Uncommitted<T> {
    DryRun(Box<T>),
    Failed(Error),
}

impl<T> From<emergent_store::Error> for Uncommitted<T> {
    fn from(error: emergent_store::Error) -> Self {
        Self::Failed(error.into())
    }
}

impl Executor {
    /// Runs a transaction, and commits it or rolls it back.
    pub(crate) async fn write_or_try<T, F>(&self, save: Save, work: F) -> Result<T>
    where
        F: Fn(&mut Tx<'_>) -> Result<T> + Send + 'static,
        T: Send + 'static,
    {
        if save == Save::Commit {
            return self.db().write(work).await;
        }
        let rolled_back = self
            .db()
            .write(move |tx| -> Result<(), Uncommitted<T>> {
                Err(match work(tx) {
                    Ok(outcome) => Uncommitted::DryRun(Box::new(outcome)),
                    Err(error) => Uncommitted::Failed(error),
                })
            })
            .await;
        match rolled_back {
            Err(Uncommitted::DryRun(outcome)) => Ok(*outcome),
            Err(Uncommitted::Failed(error)) => Err(error),
            Ok(()) => Err(Error::Conflict("the dry run was not rolled back".to_owned())),
        }
    }
}

//! Transactions that are rolled back for their result: what a change would do, found out by the code that makes it.

use std::convert::Infallible;

use crate::{Db, Error, Tx};

/// Why a transaction that never commits has ended.
enum Uncommitted<T, E> {
    Finished(Box<T>),
    Failed(E),
}

impl<T, E: From<Error>> From<Error> for Uncommitted<T, E> {
    fn from(error: Error) -> Self {
        Self::Failed(error.into())
    }
}

impl Db {
    /// Runs a transaction as [`Db::write`] does, and rolls it back in every case. Returns its result.
    pub async fn write_and_roll_back<T, E, F>(&self, work: F) -> Result<T, E>
    where
        F: Fn(&mut Tx<'_>) -> Result<T, E> + Send + 'static,
        T: Send + 'static,
        E: From<Error> + Send + 'static,
    {
        // A transaction is rolled back if it returns an error, so the result is an error too.
        let work = move |tx: &mut Tx<'_>| -> Result<Infallible, Uncommitted<T, E>> {
            Err(match work(tx) {
                Ok(result) => Uncommitted::Finished(Box::new(result)),
                Err(error) => Uncommitted::Failed(error),
            })
        };
        let Err(ended) = self.write(work).await;
        match ended {
            Uncommitted::Finished(result) => Ok(*result),
            Uncommitted::Failed(error) => Err(error),
        }
    }
}

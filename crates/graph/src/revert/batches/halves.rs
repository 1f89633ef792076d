//! Divides a transaction that took too long.

use std::{collections::HashSet, sync::Arc};

use emergent_domain::ids::ObjectId;
use parking_lot::{RwLock, RwLockReadGuard};

use super::{Batch, BatchOutcome};
use crate::Error;

pub(super) fn is_too_slow(error: &Error) -> bool {
    matches!(error, Error::Store(emergent_store::Error::TooSlow { .. }))
}

impl Batch {
    /// Takes the objects of the batch out of those that later transactions roll back, and returns the set of these.
    pub(super) fn begin(&self) -> Option<Arc<RwLock<HashSet<ObjectId>>>> {
        let Batch::RollBackObjects(written, later) = self else { return None };
        let mut ids = later.write();
        for one in written {
            ids.remove(&one.id);
        }
        drop(ids);
        Some(Arc::clone(later))
    }

    /// The objects that later transactions roll back.
    pub(super) fn later(&self) -> Option<RwLockReadGuard<'_, HashSet<ObjectId>>> {
        match self {
            Batch::RollBackObjects(_, later) => Some(later.read()),
            _ => None,
        }
    }

    /// Returns two smaller batches, or `None` for one that cannot be divided. There is no second one where the caller
    /// goes on after the entities that were examined.
    pub(super) fn into_halves(self) -> Option<(Batch, Option<Batch>)> {
        Some(match self {
            Batch::DeleteEdges(written) => (Batch::DeleteEdges(divide(written)?.0), None),
            Batch::DeleteObjects(written) => (Batch::DeleteObjects(divide(written)?.0), None),
            Batch::DeleteDocuments(written) => {
                let (first, second) = divide(written)?;
                (Batch::DeleteDocuments(first), Some(Batch::DeleteDocuments(second)))
            }
            Batch::RollBackObjects(written, later) => {
                let (first, second) = divide(written)?;
                later.write().extend(second.iter().map(|one| one.id));
                let second = Batch::RollBackObjects(second, Arc::clone(&later));
                (Batch::RollBackObjects(first, later), Some(second))
            }
            Batch::ExchangeKeys(_) => return None,
            Batch::RestoreObjects(written) => {
                let (first, second) = divide(written)?;
                (Batch::RestoreObjects(first), Some(Batch::RestoreObjects(second)))
            }
            Batch::RestoreEdges(planned) => {
                let (first, second) = divide(planned)?;
                (Batch::RestoreEdges(first), Some(Batch::RestoreEdges(second)))
            }
        })
    }
}

impl BatchOutcome {
    /// Adds the outcome of the second half of a batch.
    pub(super) fn append(&mut self, second: BatchOutcome) {
        self.edges.extend(second.edges);
        self.dormant.extend(second.dormant);
        self.objects.extend(second.objects);
        self.postponed.extend(second.postponed);
        self.at = self.at.max(second.at);
    }
}

/// Divides items in the middle, unless there is only one.
fn divide<T>(mut items: Vec<T>) -> Option<(Vec<T>, Vec<T>)> {
    if items.len() < 2 {
        return None;
    }
    let second = items.split_off(items.len().div_ceil(2));
    Some((items, second))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_is_divided_until_it_has_one_item() {
        assert_eq!(divide(vec![1, 2, 3]), Some((vec![1, 2], vec![3])));
        assert_eq!(divide(vec![1, 2]), Some((vec![1], vec![2])));
        assert_eq!(divide(vec![1]), None);
        assert_eq!(divide(Vec::<i32>::new()), None);
    }
}

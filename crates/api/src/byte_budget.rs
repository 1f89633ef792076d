//! Counts bytes that are in memory on behalf of clients, in total and by requester. Beyond a limit nothing is
//! counted, and the caller refuses the request or answer.

use std::{collections::HashMap, sync::Arc};

use emergent_store::requester::Requester;
use parking_lot::Mutex;

/// The bytes in memory and their limits; clones share them.
#[derive(Clone)]
pub(crate) struct ByteBudget {
    max_total: usize,
    max_own: usize,
    used: Arc<Mutex<Used>>,
}

#[derive(Default)]
struct Used {
    total: usize,
    by_requester: HashMap<Requester, usize>,
}

/// The limit that would be exceeded.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Exceeded {
    /// Whose limit it is, such as "of this project".
    pub owner: &'static str,
    pub limit: usize,
}

impl ByteBudget {
    /// One requester may use half of the total.
    pub(crate) fn new(max_total: usize) -> Self {
        Self { max_total, max_own: max_total / 2, used: Arc::default() }
    }

    /// Counts bytes for a requester.
    pub(crate) fn hold(&self, requester: Requester, bytes: usize) -> Result<HeldBytes, Exceeded> {
        let mut held = HeldBytes { used: Arc::clone(&self.used), requester, bytes: 0 };
        self.grow(&mut held, bytes)?;
        Ok(held)
    }

    /// Counts further bytes. What is alone in memory is never refused, however large it is.
    pub(crate) fn grow(&self, held: &mut HeldBytes, bytes: usize) -> Result<(), Exceeded> {
        let mut used = self.used.lock();
        let own = used.by_requester.get(&held.requester).copied().unwrap_or_default();
        let limit = match (own + bytes > self.max_own, used.total + bytes > self.max_total) {
            (true, _) if own > held.bytes => Some(("of this project", self.max_own)),
            (_, true) if used.total > held.bytes => Some(("in all", self.max_total)),
            _ => None,
        };
        if let Some((owner, limit)) = limit {
            return Err(Exceeded { owner, limit });
        }
        used.total += bytes;
        *used.by_requester.entry(held.requester).or_default() += bytes;
        held.bytes += bytes;
        Ok(())
    }

    #[cfg(test)]
    pub(crate) fn is_unused(&self) -> bool {
        let used = self.used.lock();
        used.total == 0 && used.by_requester.is_empty()
    }
}

/// Counted bytes. Dropping it ends the count.
pub(crate) struct HeldBytes {
    used: Arc<Mutex<Used>>,
    requester: Requester,
    bytes: usize,
}

impl HeldBytes {
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Counts at most this many bytes from now on. With 0, the count ends.
    pub(crate) fn shrink(&mut self, bytes: usize) {
        let freed = self.bytes.saturating_sub(bytes);
        if freed == 0 {
            return;
        }
        self.bytes -= freed;
        let mut used = self.used.lock();
        used.total -= freed;
        if let Some(own) = used.by_requester.get_mut(&self.requester) {
            *own -= freed;
            if *own == 0 {
                used.by_requester.remove(&self.requester);
            }
        }
    }
}

impl Drop for HeldBytes {
    fn drop(&mut self) {
        self.shrink(0);
    }
}

#[cfg(test)]
mod tests {
    use emergent_domain::ids::ProjectId;

    use super::*;

    #[test]
    fn one_project_leaves_half_of_the_bytes_to_others() {
        let budget = ByteBudget::new(100);
        let (one, two) = (Requester::Project(ProjectId::new()), Requester::Project(ProjectId::new()));
        let mut first = budget.hold(one, 30).unwrap();
        let second = budget.hold(one, 10).unwrap();
        assert_eq!(
            budget.grow(&mut first, 20).unwrap_err(),
            Exceeded { owner: "of this project", limit: 50 }
        );
        budget.grow(&mut first, 10).unwrap();
        let other = budget.hold(two, 50).unwrap();
        let refused = budget.hold(Requester::AllProjects, 1).err().unwrap();
        assert_eq!(refused, Exceeded { owner: "in all", limit: 100 });
        drop((first, second, other));
        assert!(budget.is_unused());
        let alone = budget.hold(one, 1_000).unwrap();
        assert_eq!(alone.bytes(), 1_000);
    }
}

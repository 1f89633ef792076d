//! Limits the work of comparing the rules of an agent with the input of a call. The agent, its rules, the input and the
//! names of objects are all a project's own, and together they can ask for any amount of work.

use std::cell::Cell;

/// This many steps are taken on a thread that serves requests; what needs more is compared in the pool of validations.
pub const IN_PLACE_STEPS: u64 = 20_000;

/// The most steps that a decision about a call may take. A call that needs more is not made.
pub const MAX_DECISION_STEPS: u64 = 2_000_000;

/// How many bytes are searched in one step: of the text, and of what is searched.
const SEARCHED_BYTES: usize = 8;
/// How many bytes are compared in one step.
const COMPARED_BYTES: usize = 64;

/// The steps that a decision may still take.
#[derive(Debug)]
pub struct Steps(Cell<Option<u64>>);

impl Steps {
    pub fn new(limit: u64) -> Self {
        Self(Cell::new(Some(limit)))
    }

    /// Takes some steps; false if they do not suffice, then and from then on.
    pub(super) fn take(&self, count: usize) -> bool {
        let left = self.0.get().and_then(|left| left.checked_sub(u64::try_from(count).ok()?));
        self.0.set(left);
        left.is_some()
    }

    /// Takes the steps of searching texts with this many bytes.
    pub(super) fn take_search(&self, bytes: usize) -> bool {
        self.take(1 + bytes / SEARCHED_BYTES)
    }

    /// Takes the steps of comparing this many values, which have this many bytes together.
    pub(super) fn take_comparisons(&self, count: usize, bytes: usize) -> bool {
        self.take(count + bytes / COMPARED_BYTES)
    }

    pub(super) fn ran_out(&self) -> bool {
        self.0.get().is_none()
    }
}

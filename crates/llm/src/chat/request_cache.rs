//! A conversation is sent whole at every step, and only its end is new. What was written for the
//! step before is kept here, so that a step costs what is new in it rather than all that was said.

use std::sync::{Mutex, PoisonError};

/// The turns of one conversation in a provider's words, up to where they were last sent. It belongs
/// to one conversation with one model; whoever changes a turn that was sent begins a new one.
#[derive(Debug, Default)]
pub struct RequestCache {
    serialized: Mutex<SerializedTurns>,
}

#[derive(Debug, Default)]
pub(crate) struct SerializedTurns {
    /// How many turns `text` has.
    pub turns: usize,
    pub text: Vec<u8>,
}

impl RequestCache {
    /// Lets an adapter add what is new and read all of it.
    pub(crate) fn with_turns<T>(kept: Option<&Self>, read: impl FnOnce(&mut SerializedTurns) -> T) -> T {
        match kept {
            // What was half written when a thread panicked is written again.
            Some(kept) => read(&mut kept.serialized.lock().unwrap_or_else(|poisoned| {
                let mut written = PoisonError::into_inner(poisoned);
                *written = SerializedTurns::default();
                written
            })),
            None => read(&mut SerializedTurns::default()),
        }
    }
}

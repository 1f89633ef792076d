//! A conversation is sent in full at every step, although only its end is new. The serialised turns of
//! the previous step are cached here, so that a step costs only its new part.

use std::sync::{Mutex, PoisonError};

/// The serialised turns of one conversation with one model, up to the last request. A caller that
/// changes a turn which was already sent has to start a new cache.
#[derive(Debug, Default)]
pub struct RequestCache {
    serialized: Mutex<SerializedTurns>,
}

#[derive(Debug, Default)]
pub(crate) struct SerializedTurns {
    /// The number of turns in `text`.
    pub turns: usize,
    pub text: Vec<u8>,
}

impl RequestCache {
    /// Lets an adapter append new turns and read all of them.
    pub(crate) fn with_turns<T>(cache: Option<&Self>, read: impl FnOnce(&mut SerializedTurns) -> T) -> T {
        match cache {
            // A cache that a panic left half written is rebuilt.
            Some(cache) => read(&mut cache.serialized.lock().unwrap_or_else(|poisoned| {
                let mut written = PoisonError::into_inner(poisoned);
                *written = SerializedTurns::default();
                written
            })),
            None => read(&mut SerializedTurns::default()),
        }
    }
}

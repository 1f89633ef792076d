//! What a caller sent, which redaction leaves as it is. Otherwise a caller could guess: a text that comes
//! back as a placeholder would be the value of a secret.

use std::{cell::RefCell, collections::HashMap, sync::Arc};

use super::decoded::DecodedText;

/// The text of a request or of the input of a tool. Clones share it.
#[derive(Clone)]
pub(super) struct SentText(Arc<str>);

impl SentText {
    pub fn new(text: String) -> Self {
        Self(text.into())
    }

    /// Prepares lookups for one text that is redacted.
    pub fn search(&self) -> SentSearch {
        let mut views: Vec<Vec<u8>> = vec![self.0.as_bytes().to_vec()];
        views.extend(DecodedText::decodings(self.0.as_bytes()).into_iter().map(DecodedText::into_bytes));
        SentSearch { views, known: RefCell::default() }
    }
}

/// Says whether parts of a text were sent. It remembers its answers, because a text may repeat the same part
/// many times, and what was sent may be long.
pub(super) struct SentSearch {
    views: Vec<Vec<u8>>,
    known: RefCell<HashMap<Vec<u8>, bool>>,
}

impl SentSearch {
    pub fn contains(&self, part: &[u8]) -> bool {
        if let Some(known) = self.known.borrow().get(part) {
            return *known;
        }
        let found = !part.is_empty()
            && self.views.iter().any(|view| view.windows(part.len()).any(|window| window == part));
        self.known.borrow_mut().insert(part.to_vec(), found);
        found
    }
}

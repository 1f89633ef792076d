//! What a stream has sent of an answer. A stream lasts as long as its client follows, and an answer may have megabytes,
//! so this keeps the length and a hash of the text instead of the text.

use std::hash::{DefaultHasher, Hasher};

#[derive(Debug, Clone, Default)]
pub(crate) struct SentText {
    bytes: usize,
    whole: DefaultHasher,
    /// The text without white space at its ends.
    trimmed: DefaultHasher,
    /// Whether something other than white space was sent.
    has_words: bool,
    /// The white space at the end. It belongs to the trimmed text when more follows.
    trailing: String,
}

impl SentText {
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// The number of bytes that were sent.
    pub fn len(&self) -> usize {
        self.bytes
    }

    pub fn clear(&mut self) {
        *self = Self::default();
    }

    pub fn push_str(&mut self, text: &str) {
        self.bytes += text.len();
        self.whole.write(text.as_bytes());
        let content = if self.has_words { text } else { text.trim_start() };
        let words = content.trim_end();
        if !words.is_empty() {
            self.has_words = true;
            self.trimmed.write(self.trailing.as_bytes());
            self.trimmed.write(words.as_bytes());
            self.trailing.clear();
        }
        self.trailing.push_str(&content[words.len()..]);
    }

    /// Returns what follows in a text that begins with what was sent; `None` if it begins otherwise.
    pub fn rest_of<'a>(&self, text: &'a str) -> Option<&'a str> {
        let (sent, rest) = text.split_at_checked(self.bytes)?;
        (hash(sent) == self.whole.finish()).then_some(rest)
    }

    /// Whether this text was sent, apart from white space at its ends.
    pub fn is_same(&self, text: &str) -> bool {
        hash(text.trim()) == self.trimmed.finish()
    }
}

fn hash(text: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(text.as_bytes());
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_answers_as_the_text_itself_would(
            parts in prop::collection::vec("[ab \n\u{2003}é]{0,4}", 0..8),
            other in "[ab \n\u{2003}é]{0,12}",
        ) {
            let (text, mut sent) = (parts.concat(), SentText::default());
            parts.iter().for_each(|part| sent.push_str(part));
            prop_assert_eq!(sent.is_empty(), text.is_empty());
            for candidate in [other.clone(), format!("{text}{other}"), format!(" {text}\n")] {
                prop_assert_eq!(sent.rest_of(&candidate), candidate.strip_prefix(text.as_str()));
                prop_assert_eq!(sent.is_same(&candidate), candidate.trim() == text.trim());
            }
            sent.clear();
            prop_assert!(sent.is_empty() && sent.rest_of("a") == Some("a"));
        }
    }
}

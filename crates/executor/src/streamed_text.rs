//! The text of an answer while it is streamed, for runs that end before the answer is complete.

use emergent_llm::Delta;

/// So much of the text of an unfinished answer is buffered.
const MAX_STREAMED_TEXT_BYTES: usize = 1 << 20;

/// The text of the newest attempt of a model call that wrote any.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct StreamedText {
    text: String,
    /// Whether the attempt that wrote the text was restarted. Its text is better than none.
    is_void: bool,
}

impl StreamedText {
    pub fn record(&mut self, delta: &Delta) {
        match delta {
            Delta::Text(text) => {
                if std::mem::take(&mut self.is_void) {
                    self.text.clear();
                }
                if self.text.len() + text.len() <= MAX_STREAMED_TEXT_BYTES {
                    self.text.push_str(text);
                }
            }
            Delta::Restart { .. } => self.is_void = true,
            Delta::Thought(_) | Delta::Retry(_) => {}
        }
    }

    pub fn into_text(self) -> String {
        self.text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_of_a_restarted_attempt_counts_until_the_next_one_writes() {
        let mut streamed = StreamedText::default();
        streamed.record(&Delta::Text("Bees ".into()));
        streamed.record(&Delta::Thought("hm".into()));
        streamed.record(&Delta::Restart { why: "broken".into() });
        assert_eq!(streamed.clone().into_text(), "Bees ");
        streamed.record(&Delta::Text("Wasps".into()));
        assert_eq!(streamed.into_text(), "Wasps");
    }
}

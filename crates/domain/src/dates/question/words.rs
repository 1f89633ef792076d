//! The words of a question, and the punctuation between them.

/// A word of the question, without the punctuation around it and without `'s`.
struct Word {
    /// In lower case.
    text: String,
    /// The punctuation in front of it and behind it.
    before: String,
    after: String,
    is_capitalised: bool,
    is_possessive: bool,
}

/// Other signs belong to the word: `#2023` and `$2000` are no years.
fn is_punctuation(c: char) -> bool {
    "\"'“”‘’()[],.;:!?".contains(c)
}

/// Behind these, a full stop ends no sentence: a number follows.
const ABBREVIATIONS: [&str; 9] = ["no", "nos", "nr", "p", "pp", "vol", "art", "sec", "fig"];

pub(super) struct Words(Vec<Word>);

impl Words {
    pub(super) fn split(question: &str) -> Self {
        let mut words: Vec<Word> = Vec::new();
        for raw in question.split_whitespace() {
            let rest = raw.trim_start_matches(is_punctuation);
            let word = rest.trim_end_matches(is_punctuation);
            if word.is_empty() {
                if let Some(last) = words.last_mut() {
                    last.after.push_str(raw);
                }
                continue;
            }
            let (before, after) = (&raw[..raw.len() - rest.len()], &rest[word.len()..]);
            let owner = word.strip_suffix("'s").or_else(|| word.strip_suffix("’s"));
            words.push(Word {
                text: owner.unwrap_or(word).to_lowercase(),
                before: before.to_owned(),
                after: after.to_owned(),
                is_capitalised: word.starts_with(char::is_uppercase),
                is_possessive: owner.is_some(),
            });
        }
        Self(words)
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// The text of a word; empty if there is none.
    pub(super) fn text(&self, index: usize) -> &str {
        self.0.get(index).map_or("", |word| word.text.as_str())
    }

    pub(super) fn is_capitalised(&self, index: usize) -> bool {
        self.0.get(index).is_some_and(|word| word.is_capitalised)
    }

    /// The words in front of a word, the nearest first.
    pub(super) fn words_before(&self, index: usize) -> impl Iterator<Item = &str> {
        self.0.iter().take(index).rev().map(|word| word.text.as_str())
    }

    /// Whether punctuation stands in front of a word, or it is the first one.
    pub(super) fn follows_break(&self, index: usize) -> bool {
        let previous = index.checked_sub(1).and_then(|previous| self.0.get(previous));
        let has_before = self.0.get(index).is_some_and(|word| !word.before.is_empty());
        has_before || previous.is_none_or(|word| !word.after.is_empty())
    }

    /// Whether punctuation stands behind a word, or it is the last one.
    pub(super) fn ends_at_break(&self, index: usize) -> bool {
        index + 1 >= self.0.len() || self.follows_break(index + 1)
    }

    pub(super) fn follows_comma(&self, index: usize) -> bool {
        let previous = index.checked_sub(1).and_then(|previous| self.0.get(previous));
        previous.is_some_and(|word| word.after.contains(','))
    }

    /// Whether something new begins with a word: the question, a sentence, a part after a comma, a bracket or a
    /// quotation. A colon does not count, since what follows it may be a number of anything: `Error: 2003`.
    pub(super) fn begins_part(&self, index: usize) -> bool {
        let opens = |text: &str| text.contains(['(', '[', '"', '\'', '“', '‘']);
        let Some(previous) = index.checked_sub(1).and_then(|previous| self.0.get(previous)) else {
            return true;
        };
        let is_abbreviation = previous.after == "." && ABBREVIATIONS.contains(&previous.text.as_str());
        self.0.get(index).is_some_and(|word| opens(&word.before))
            || (previous.after.contains([',', ';', '.', '!', '?']) && !is_abbreviation)
    }

    /// The word that belongs to what stands in front of it: directly behind it, without punctuation and without `'s`.
    pub(super) fn joined_after(&self, index: usize) -> Option<&str> {
        let is_possessive = self.0.get(index)?.is_possessive;
        (!is_possessive && !self.ends_at_break(index)).then(|| self.text(index + 1))
    }
}

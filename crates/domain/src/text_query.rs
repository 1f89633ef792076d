//! Parses the text of a search box. Parsing never fails.
//!
//! `apples "red pears" plum* -rotten` contains a word, a phrase, a prefix and an exclusion.
//! Everything else is plain text: operators, parentheses, colons and stray quotes of the query
//! languages of SQLite and PostgreSQL have no meaning. The two renderers generate engine-specific
//! queries from words that consist only of letters, digits and combining marks.

use std::fmt::Write;

mod included;

pub use included::{included_text, only_excludes, without_exclusion_signs};

/// The most terms of a query that are searched for, and the most that are excluded: a long question must not lose what
/// it excludes at its end.
const MAX_TERMS: usize = 32;
const MAX_WORDS: usize = 16;
const MAX_CHARS: usize = 128;

/// The English stop words of PostgreSQL.
const STOP_WORDS: &[&str] = &[
    "i",
    "me",
    "my",
    "myself",
    "we",
    "our",
    "ours",
    "ourselves",
    "you",
    "your",
    "yours",
    "yourself",
    "yourselves",
    "he",
    "him",
    "his",
    "himself",
    "she",
    "her",
    "hers",
    "herself",
    "it",
    "its",
    "itself",
    "they",
    "them",
    "their",
    "theirs",
    "themselves",
    "what",
    "which",
    "who",
    "whom",
    "this",
    "that",
    "these",
    "those",
    "am",
    "is",
    "are",
    "was",
    "were",
    "be",
    "been",
    "being",
    "have",
    "has",
    "had",
    "having",
    "do",
    "does",
    "did",
    "doing",
    "a",
    "an",
    "the",
    "and",
    "but",
    "if",
    "or",
    "because",
    "as",
    "until",
    "while",
    "of",
    "at",
    "by",
    "for",
    "with",
    "about",
    "against",
    "between",
    "into",
    "through",
    "during",
    "before",
    "after",
    "above",
    "below",
    "to",
    "from",
    "up",
    "down",
    "in",
    "out",
    "on",
    "off",
    "over",
    "under",
    "again",
    "further",
    "then",
    "once",
    "here",
    "there",
    "when",
    "where",
    "why",
    "how",
    "all",
    "any",
    "both",
    "each",
    "few",
    "more",
    "most",
    "other",
    "some",
    "such",
    "no",
    "nor",
    "not",
    "only",
    "own",
    "same",
    "so",
    "than",
    "too",
    "very",
    "s",
    "t",
    "can",
    "will",
    "just",
    "don",
    "should",
    "now",
];

/// A query as a list of terms without duplicates, in the order in which they were typed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TextQuery {
    terms: Vec<Term>,
}

/// A term to search for: a word, or several consecutive words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Term {
    /// The words. There is at least one, and none is empty.
    pub words: Vec<String>,
    /// If true, the last word is only a prefix.
    pub prefix: bool,
    /// If true, results that contain the term are excluded.
    pub excluded: bool,
}

/// Whether a hit must contain every term, or any of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MatchMode {
    All,
    Any,
}

impl Term {
    fn has_only_stop_words(&self) -> bool {
        self.words.iter().all(|word| is_stop_word(word))
    }
}

impl TextQuery {
    /// Parses any text. At most 32 terms of 16 words are searched for, and as many are excluded; the rest is ignored. A
    /// word of more than 128 characters is searched by its prefix.
    ///
    /// Words joined by punctuation become a phrase, because both engines index them as neighbours:
    /// `node.js` is "node js", `has_session` is "has session". The ending of a possessive is left out:
    /// `Ada's` is "Ada".
    ///
    /// An excluded term of stop words excludes nothing: PostgreSQL does not index them.
    pub fn parse(text: &str) -> Self {
        let mut query = Self::default();
        let mut rest = text;
        loop {
            rest = rest.trim_start_matches(is_space);
            if rest.is_empty() {
                return query;
            }
            rest = query.take_term(rest);
        }
    }

    /// A query with a single term.
    pub fn from_term(term: Term) -> Self {
        Self { terms: vec![term] }
    }

    /// Returns the query without stop words such as "of" and "the", unless it has no other words.
    /// PostgreSQL drops stop words by itself. In an engine that does not, they would match nearly
    /// everything. Phrases, prefixes and exclusions keep them.
    #[must_use]
    pub fn without_stop_words(&self) -> Self {
        let stops = |term: &&Term| {
            !term.excluded && !term.prefix && matches!(term.words.as_slice(), [word] if is_stop_word(word))
        };
        let terms: Vec<Term> = self.terms.iter().filter(|term| !stops(term)).cloned().collect();
        if terms.iter().any(|term| !term.excluded) { Self { terms } } else { self.clone() }
    }

    /// Returns the query without its exclusions.
    #[must_use]
    pub fn without_exclusions(&self) -> Self {
        Self { terms: self.terms.iter().filter(|term| !term.excluded).cloned().collect() }
    }

    /// Returns a query for what this one excludes; `None` if it excludes nothing.
    pub fn exclusions(&self) -> Option<Self> {
        let excluded = self.terms.iter().filter(|term| term.excluded);
        let terms: Vec<Term> = excluded.map(|term| Term { excluded: false, ..term.clone() }).collect();
        (!terms.is_empty()).then_some(Self { terms })
    }

    /// Returns whether the query has no terms at all.
    pub fn is_empty(&self) -> bool {
        self.terms.is_empty()
    }

    pub fn terms(&self) -> &[Term] {
        &self.terms
    }

    /// Renders the right side of `MATCH` for SQLite's FTS5. Returns `None` if the query has only
    /// exclusions, because FTS5 can only exclude from a set of matches.
    pub fn to_fts5(&self, mode: MatchMode) -> Option<String> {
        let joined = |terms: &[String], word: &str| match terms {
            [single] => single.clone(),
            several => format!("({})", several.join(word)),
        };
        let word = match mode {
            MatchMode::All => " AND ",
            MatchMode::Any => " OR ",
        };
        let (included, excluded) = self.render(fts5_term);
        match (included.as_slice(), excluded.as_slice()) {
            ([], _) => None,
            (_, []) => Some(included.join(word)),
            _ => Some(format!("{} NOT {}", joined(&included, word), joined(&excluded, " OR "))),
        }
    }

    /// Renders the argument of `to_tsquery('english', $1)` for PostgreSQL. Returns `None` in the
    /// same cases as [`TextQuery::to_fts5`], so that both engines return the same results.
    pub fn to_tsquery(&self, mode: MatchMode) -> Option<String> {
        let word = match mode {
            MatchMode::All => " & ",
            MatchMode::Any => " | ",
        };
        let (included, excluded) = self.render(tsquery_term);
        if included.is_empty() {
            return None;
        }
        let mut text = included.join(word);
        if !excluded.is_empty() {
            text = format!("({text})");
        }
        for term in excluded {
            let _ = write!(text, " & !{term}");
        }
        Some(text)
    }

    /// Renders the terms, separated into included and excluded ones.
    fn render(&self, render: fn(&Term) -> String) -> (Vec<String>, Vec<String>) {
        let texts =
            |excluded: bool| self.terms.iter().filter(|term| term.excluded == excluded).map(render).collect();
        (texts(false), texts(true))
    }

    /// Consumes the term at the beginning of `text`, which is not empty, and returns the remaining
    /// text.
    fn take_term<'a>(&mut self, text: &'a str) -> &'a str {
        let excluded = strip_exclusion(text);
        let start = excluded.unwrap_or(text);
        let excluded = excluded.is_some();

        if let Some(quoted) = start.strip_prefix('"') {
            // An unclosed quote is ignored: `"red pears` is two words.
            let Some((inside, after)) = quoted.split_once('"') else {
                return self.take_chunk(quoted, excluded);
            };
            let prefix = after.starts_with('*');
            self.add(words(inside), prefix, excluded);
            return after;
        }
        self.take_chunk(start, excluded)
    }

    /// Consumes the text up to the next space or quote.
    fn take_chunk<'a>(&mut self, text: &'a str, excluded: bool) -> &'a str {
        let end = text.find(|c| is_space(c) || c == '"').unwrap_or(text.len());
        let (chunk, rest) = text.split_at(end);
        let mut after = chunk;
        while !after.is_empty() && self.has_room(excluded) {
            let end = after.find(|c| !is_word(c) && !is_joiner(c)).unwrap_or(after.len());
            let (part, others) = after.split_at(end);
            // A star in the middle, as in `a*b`, is only a separator.
            let star = others
                .strip_prefix('*')
                .is_some_and(|next| part.ends_with(is_word) && !next.starts_with(is_word));
            // Texts say `Ada` where a question says `Ada's`, and the index has `Ada` for both.
            let part = if star { part } else { without_possessive(part) };
            self.add(words(part), star, excluded);
            after = others.trim_start_matches(|c| !is_word(c));
        }
        rest
    }

    fn add<'a>(&mut self, words: impl Iterator<Item = &'a str>, prefix: bool, excluded: bool) {
        let mut term = Term { words: Vec::new(), prefix: false, excluded };
        let mut words = words.peekable();
        while let Some(word) = words.next() {
            let cut = word.char_indices().nth(MAX_CHARS).map(|(index, _)| &word[..index]);
            term.words.push(cut.unwrap_or(word).to_owned());
            term.prefix = cut.is_some() || (prefix && words.peek().is_none());
            if cut.is_some() || term.words.len() == MAX_WORDS {
                break;
            }
        }
        if term.words.is_empty() || (excluded && term.has_only_stop_words()) {
            return;
        }
        if self.has_room(excluded) && !self.terms.contains(&term) {
            self.terms.push(term);
        }
    }

    /// Whether a further term can be searched for or excluded.
    fn has_room(&self, excluded: bool) -> bool {
        self.terms.iter().filter(|term| term.excluded == excluded).count() < MAX_TERMS
    }
}

/// Returns what follows the dash of an exclusion; `None` if `text` does not begin with one. Only a dash before a word or
/// a quote excludes: `--verbose` and a single dash are plain text.
fn strip_exclusion(text: &str) -> Option<&str> {
    text.strip_prefix('-').filter(|rest| rest.starts_with(|c| c == '"' || is_word(c)))
}

/// Splits a text into words in the same way as queries. An index over these words, joined with
/// spaces, is consistent with every query. The parser of PostgreSQL would otherwise index `node.js`
/// as a host name.
pub fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c| !is_word(c)).filter(|word| word.contains(char::is_alphanumeric))
}

/// Returns whether a word is an English stop word, in any case.
pub fn is_stop_word(word: &str) -> bool {
    STOP_WORDS.contains(&word.to_ascii_lowercase().as_str())
}

/// Returns a word without the ending `'s`.
fn without_possessive(word: &str) -> &str {
    let stem = word.strip_suffix(['s', 'S']).and_then(|stem| stem.strip_suffix(['\'', '’']));
    stem.filter(|stem| stem.ends_with(is_word)).unwrap_or(word)
}

fn is_space(c: char) -> bool {
    c.is_whitespace() || c.is_control()
}

/// Characters that join words: `node.js`, `well-known`, `has_session`, `I/O`, `don't`, `a@b.c`.
fn is_joiner(c: char) -> bool {
    matches!(c, '.' | '-' | '_' | '/' | '@' | '\'' | '’' | '+' | '#' | '&')
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || is_mark(c)
}

/// Returns whether a character is a mark that belongs to a word although it is neither a letter nor
/// a digit, such as a combining accent or a vowel sign. The engines index such words as a whole, so
/// splitting at the mark would miss them.
fn is_mark(c: char) -> bool {
    matches!(c,
        '\u{0300}'..='\u{036F}' | '\u{0483}'..='\u{0489}' | '\u{0591}'..='\u{05BD}'
        | '\u{064B}'..='\u{065F}' | '\u{06D6}'..='\u{06ED}' | '\u{0E31}'..='\u{0E4E}'
        | '\u{1AB0}'..='\u{1AFF}' | '\u{1DC0}'..='\u{1DFF}' | '\u{20D0}'..='\u{20FF}'
        | '\u{200C}' | '\u{200D}' | '\u{FE20}'..='\u{FE2F}')
        // The Indic scripts place their signs at the same offsets. The full stops are excluded.
        || matches!(c, '\u{0900}'..='\u{0DFF}') && !matches!(c, '\u{0964}' | '\u{0965}' | '\u{0970}' | '\u{0DF4}')
}

/// Renders `"red pears" *`. FTS5 has no operators inside quotes, and a quote is escaped by doubling
/// it.
fn fts5_term(term: &Term) -> String {
    let quoted = format!("\"{}\"", term.words.join(" ").replace('"', "\"\""));
    if term.prefix { format!("{quoted} *") } else { quoted }
}

/// Renders `('red' <-> 'pears':*)`. Quotes and backslashes are doubled, in case a word ever
/// contains them.
fn tsquery_term(term: &Term) -> String {
    let mut words: Vec<String> = term
        .words
        .iter()
        .map(|word| format!("'{}'", word.replace('\\', "\\\\").replace('\'', "''")))
        .collect();
    if let Some(last) = words.last_mut().filter(|_| term.prefix) {
        last.push_str(":*");
    }
    match words.as_slice() {
        [single] => single.clone(),
        several => format!("({})", several.join(" <-> ")),
    }
}

#[cfg(test)]
mod tests;

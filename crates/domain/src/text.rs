//! Texts for people to read.

use unicode_segmentation::UnicodeSegmentation as _;

/// The first `max` characters, with a mark where something was left out.
pub fn truncate(text: &str, max: usize) -> String {
    match text.char_indices().nth(max) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// As [`truncate`], but never between code points that people see as one character: a letter and its accent, or the
/// parts of an emoji.
pub fn truncate_graphemes(text: &str, max: usize) -> String {
    let Some((limit, _)) = text.char_indices().nth(max) else { return text.to_owned() };
    let ends = text.grapheme_indices(true).map(|(start, grapheme)| start + grapheme.len());
    // A single one that is longer than the text may be is cut after all.
    let end = ends.take_while(|end| *end <= limit).last().unwrap_or(limit);
    format!("{}…", &text[..end])
}

/// A message with what follows it, such as `; ` or `: ` and a hint. After a message that ends as a sentence does, for
/// example with the question of what was meant, the rest is a sentence of its own.
pub fn append(message: &str, link: &str, rest: &str) -> String {
    if !message.ends_with(['?', '!', '.']) {
        return format!("{message}{link}{rest}");
    }
    let mut letters = rest.chars();
    let first = letters.next().into_iter().flat_map(char::to_uppercase);
    format!("{message} {}{}", first.collect::<String>(), letters.as_str())
}

/// Whether a character controls what shows it rather than being shown: it moves the cursor or clears the screen of a
/// terminal, ends a line where no line feed is, or reverses the direction of the text around it. Line feeds and tabs are
/// no such characters.
pub fn is_control(char: char) -> bool {
    match char {
        '\n' | '\t' => false,
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => true,
        other => other.is_control(),
    }
}

/// The text on one line: each run of white space is one space.
pub fn on_one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The text with a full stop, unless it ends as a sentence does.
pub fn as_sentence(text: &str) -> String {
    append(text, ".", "").trim_end().to_owned()
}

/// A number with the noun that it counts: `1 run`, `2 runs`. The plural of `noun` ends in `s`.
pub fn counted(count: impl TryInto<u64>, noun: &str) -> String {
    let count = count.try_into().unwrap_or(0);
    let ending = if count == 1 { "" } else { "s" };
    format!("{count} {noun}{ending}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_are_counted_not_bytes() {
        assert_eq!(truncate("füñf", 4), "füñf");
        assert_eq!(truncate("füñf wörter", 4), "füñf…");
        assert_eq!(truncate("", 0), "");
    }

    #[test]
    fn no_mark_follows_the_end_of_a_sentence() {
        assert_eq!(append("there is no agent `x`", ": ", "create it"), "there is no agent `x`: create it");
        let asked = append("there is no agent `x`; did you mean `y`?", ": ", "or create it");
        assert_eq!(asked, "there is no agent `x`; did you mean `y`? Or create it");
        assert_eq!(append("It failed.", "; ", "`b` is left"), "It failed. `b` is left");
        assert_eq!(append("", "; ", ""), "; ");
        assert_eq!((as_sentence("done"), as_sentence("done?")), ("done.".into(), "done?".into()));
    }

    #[test]
    fn letters_of_every_direction_and_line_feeds_control_nothing() {
        assert!("a\n\tüא👩\u{200d}👧\u{301}".chars().all(|char| !is_control(char)));
        let controls = "\0\r\u{7}\u{1b}\u{7f}\u{9b}\u{61c}\u{200e}\u{200f}\u{2028}\u{2029}\u{202a}\u{202e}\u{2066}\u{2069}";
        assert!(controls.chars().all(is_control));
    }

    #[test]
    fn a_noun_has_a_plural_unless_there_is_exactly_one() {
        assert_eq!((counted(0_usize, "run"), counted(1_i64, "run")), ("0 runs".into(), "1 run".into()));
        assert_eq!(counted(2_u32, "tool call"), "2 tool calls");
    }
}

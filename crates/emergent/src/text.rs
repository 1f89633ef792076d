//! Fits text to the width of a terminal: truncates lines and wraps paragraphs between words, and shortens ids.

use console::{measure_text_width, strip_ansi_codes, truncate_str};

/// How many characters of an id are shown. The end of an id is random, so this many are unique in practice.
pub const SHORT_ID_CHARS: usize = 8;
/// The length of a UUID as text.
const UUID_CHARS: usize = 36;

/// Whether the text has the form of a UUID.
pub fn is_id(text: &str) -> bool {
    text.len() == UUID_CHARS
        && text.bytes().enumerate().all(|(index, byte)| match index {
            8 | 13 | 18 | 23 => byte == b'-',
            _ => byte.is_ascii_hexdigit(),
        })
}

/// The end of an id, which every command accepts in place of the whole.
pub fn short_id(id: &str) -> &str {
    match id.len().checked_sub(SHORT_ID_CHARS) {
        Some(start) if is_id(id) => &id[start..],
        _ => id,
    }
}

/// The text with each id in it shortened.
pub fn shorten_ids(text: &str) -> String {
    let mut shortened = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        match rest.get(..UUID_CHARS) {
            Some(id) if is_id(id) => {
                shortened.push_str(short_id(id));
                rest = &rest[UUID_CHARS..];
            }
            _ => {
                shortened.push(first);
                rest = &rest[first.len_utf8()..];
            }
        }
    }
    shortened
}

/// A line that shows fewer columns than this is not cut between words if that leaves a part of the next word out.
const MIN_SHOWN_COLUMNS: usize = 10;
/// The fewest columns of a cut word that say something.
const MIN_PART_COLUMNS: usize = 4;
/// A word is cut rather than left out if so many of its columns fit. JSON without spaces is one word.
const LONG_PART_COLUMNS: usize = 8;

/// The line, truncated to the width with an ellipsis. It ends after a whole word, unless much of the next word fits, or
/// little would be shown. An id or an address is not cut. The line may contain colour codes.
pub fn fit_line(line: &str, width: usize) -> String {
    if measure_text_width(line) <= width {
        return line.to_owned();
    }
    let plain = strip_ansi_codes(line);
    // One column is for the ellipsis.
    let available = width.saturating_sub(1);
    let (mut column, mut last_end, mut word_start) = (0, 0, None);
    for char in plain.chars() {
        if column + 1 > width {
            break;
        }
        if char.is_whitespace() {
            if word_start.take().is_some() {
                last_end = column;
            }
        } else if word_start.is_none() {
            word_start = Some(column);
        }
        column += measure_text_width(char.encode_utf8(&mut [0; 4]));
    }
    let part = word_start.map_or(0, |start| available.saturating_sub(start));
    let shows_enough =
        part >= LONG_PART_COLUMNS || (part >= MIN_PART_COLUMNS && last_end < MIN_SHOWN_COLUMNS);
    let next_word = || {
        let rest = plain.get(column_start(&plain, last_end)..).unwrap_or_default();
        rest.split_whitespace().next().unwrap_or_default()
    };
    let is_word_cut = last_end == 0 || (shows_enough && !is_unbreakable(next_word()));
    let end = if is_word_cut { available } else { last_end };
    // A text that was truncated before has an ellipsis already.
    truncate_str(line, end + 1, "…").replace("……", "…")
}

/// The byte at which a column of a text without colour codes starts.
fn column_start(plain: &str, column: usize) -> usize {
    let mut columns = 0;
    for (index, char) in plain.char_indices() {
        if columns >= column {
            return index;
        }
        columns += measure_text_width(char.encode_utf8(&mut [0; 4]));
    }
    plain.len()
}

/// Whether a word is of use as a whole only: an id, a time or an address, perhaps with punctuation around it.
fn is_unbreakable(word: &str) -> bool {
    let bare = word.trim_matches(|char: char| !char.is_ascii_alphanumeric());
    word.contains("://") || is_id(bare) || (is_time(bare) && bare.len() <= MAX_TIME_LENGTH)
}

/// The lines of a text without colour codes, wrapped between words. A word that is wider than a line is split, unless it
/// is an id, a time or an address: that one gets a line of its own.
pub fn wrap(text: &str, width: usize) -> Vec<String> {
    text.lines().flat_map(|line| wrap_line(line, width.max(1))).collect()
}

/// The length of a time up to its minutes: `2026-01-31T00:00`.
pub const MINUTES_LENGTH: usize = 16;

/// The length of the longest time: `2026-01-31T00:00:00.123456789+00:00`.
const MAX_TIME_LENGTH: usize = 35;

/// Whether the text is a time with seconds, such as `2026-01-31T00:00:00Z`.
pub fn is_time(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes.len() > MINUTES_LENGTH
        && text.is_ascii()
        && [(4, b'-'), (7, b'-'), (10, b'T'), (13, b':'), (16, b':')]
            .iter()
            .all(|(index, byte)| bytes[*index] == *byte)
}

/// The fewest columns for the text beside a label.
pub const MIN_TEXT_COLUMNS: usize = 20;

/// The columns before a text that stands below its label.
const TEXT_BELOW_INDENT: usize = 4;

/// The lines of a text after a label. The text is wrapped beside the label, which may have colour codes; below it if
/// there is an id, a time or an address that does not fit beside the label.
pub fn wrap_item(label: &str, text: &str, width: usize) -> Vec<String> {
    let indent = measure_text_width(label);
    let beside = width.saturating_sub(indent).max(MIN_TEXT_COLUMNS);
    if text.split_whitespace().any(|word| is_unbreakable(word) && measure_text_width(word) > beside) {
        let below = wrap(text, width.saturating_sub(TEXT_BELOW_INDENT).max(MIN_TEXT_COLUMNS));
        let below = below.into_iter().map(|line| format!("{:TEXT_BELOW_INDENT$}{line}", ""));
        return std::iter::once(label.trim_end().to_owned()).chain(below).collect();
    }
    let lines = wrap(text, beside);
    let whole = |(index, line): (usize, String)| match index {
        0 => format!("{label}{line}"),
        _ => format!("{:indent$}{line}", ""),
    };
    lines.into_iter().enumerate().map(whole).collect()
}

/// The text with a note at its end, such as ` (2026-01-31T08:00:00Z)`. After several lines, which may be quoted, the
/// note has a line of its own.
pub fn with_note(text: &str, note: &str) -> String {
    match text.contains('\n') {
        true => format!("{text}\n{}", note.trim_start_matches([' ', ';'])).trim_end().to_owned(),
        false => format!("{text}{note}"),
    }
}

/// The text with the lines after its first one indented, such as those that a program of somebody else has printed: they
/// do not look like lines of this program.
pub fn indent_lines(text: &str) -> String {
    text.replace('\n', &format!("\n{:TEXT_BELOW_INDENT$}", ""))
}

/// Wraps one line. The following lines repeat its indentation.
fn wrap_line(line: &str, width: usize) -> Vec<String> {
    if measure_text_width(line) <= width {
        return vec![line.trim_end().to_owned()];
    }
    let indent: String = line.chars().take_while(|char| *char == ' ').take(width / 2).collect();
    let (mut lines, mut current) = (Vec::new(), indent.clone());
    for word in line.split_whitespace() {
        let gap = usize::from(current.len() > indent.len());
        if gap > 0 && measure_text_width(&current) + gap + measure_text_width(word) > width {
            lines.push(std::mem::replace(&mut current, indent.clone()));
        } else if gap > 0 {
            current.push(' ');
        }
        if is_unbreakable(word) {
            current.push_str(word);
            continue;
        }
        for char in word.chars() {
            let char_width = measure_text_width(char.encode_utf8(&mut [0; 4]));
            if measure_text_width(&current) + char_width > width && current.len() > indent.len() {
                lines.push(std::mem::replace(&mut current, indent.clone()));
            }
            current.push(char);
        }
    }
    lines.push(current);
    lines
}

/// Wraps text that arrives in parts, such as the answer of a model: a word is printed when it is complete.
pub struct StreamWrap {
    /// `None` when the text is not wrapped.
    width: Option<usize>,
    column: usize,
    /// The word that is not complete.
    word: String,
    /// Spaces before it.
    spaces: usize,
}

impl StreamWrap {
    pub fn new(width: Option<usize>) -> Self {
        Self { width, column: 0, word: String::new(), spaces: 0 }
    }

    /// The text to print for this part.
    pub fn push(&mut self, part: &str) -> String {
        let Some(width) = self.width else { return part.to_owned() };
        let mut out = String::new();
        for char in part.chars() {
            match char {
                '\n' => {
                    self.push_word(width, &mut out);
                    out.push('\n');
                    (self.column, self.spaces) = (0, 0);
                }
                ' ' => {
                    self.push_word(width, &mut out);
                    self.spaces += 1;
                }
                other => self.word.push(other),
            }
        }
        out
    }

    /// The rest of the text, when something else is printed next.
    pub fn flush(&mut self) -> String {
        let mut out = String::new();
        if let Some(width) = self.width {
            self.push_word(width, &mut out);
        }
        (self.column, self.spaces) = (0, 0);
        out
    }

    fn push_word(&mut self, width: usize, out: &mut String) {
        if self.word.is_empty() {
            return;
        }
        let word = std::mem::take(&mut self.word);
        let word_width = measure_text_width(&word);
        if self.column > 0 && self.column + self.spaces + word_width > width {
            out.push('\n');
            self.column = 0;
        } else {
            out.extend(std::iter::repeat_n(' ', self.spaces));
            self.column += self.spaces;
        }
        self.spaces = 0;
        out.push_str(&word);
        self.column = (self.column + word_width) % width.max(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "0198c0de-0000-7000-8000-0000deadbeef";

    #[test]
    fn a_line_is_truncated_between_words() {
        assert_eq!(fit_line("one two three", 13), "one two three");
        assert_eq!(fit_line("one two three", 12), "one two…");
        assert_eq!(fit_line("one two three", 8), "one two…");
        assert_eq!(fit_line("one two three", 7), "one…");
        assert_eq!(fit_line("incomprehensibly", 6), "incom…");
        assert_eq!(fit_line("a line that is rather long", 24), "a line that is rather…");
        assert_eq!(fit_line("one two… three", 9), "one two…");
        let data = format!("one {}", "{\"a\":1,".repeat(9));
        assert_eq!(fit_line(&data, 12), "one {\"a\":1,…");
        assert_eq!(fit_line(&format!("see https://example.com/{}", "x".repeat(40)), 12), "see…");
        let coloured = fit_line("\x1b[1mone two\x1b[0m three", 9);
        assert_eq!(strip_ansi_codes(&coloured), "one two…");
    }

    #[test]
    fn a_long_word_is_truncated_rather_than_left_out() {
        let call = r#"✓ entities_create  62ms  {"type":"Note","key":"old","properties":{}}"#;
        assert_eq!(fit_line(call, 50), r#"✓ entities_create  62ms  {"type":"Note","key":"ol…"#);
        assert_eq!(fit_line("google/gemini-2.5-flash", 12), "google/gemi…");
        assert_eq!(fit_line("It is incomprehensible", 12), "It is incom…");
        let coloured = fit_line("\x1b[1mcall\x1b[0m {\"type\":\"Note\"}", 16);
        assert_eq!(strip_ansi_codes(&coloured), "call {\"type\":\"N…");
    }

    #[test]
    fn paragraphs_are_wrapped_between_words() {
        assert_eq!(wrap("one two three\nfour", 8), ["one two", "three", "four"]);
        assert_eq!(wrap("  - one two three", 10), ["  - one", "  two", "  three"]);
        assert_eq!(wrap("abcdefgh", 3), ["abc", "def", "gh"]);
    }

    #[test]
    fn a_text_is_wrapped_beside_its_label() {
        let lines = wrap_item("  ? host  ", "one two three four five", 30);
        assert_eq!(lines, ["  ? host  one two three four", "          five"]);
        assert_eq!(wrap_item("\x1b[31m✗\x1b[0m ", "one", 30), ["\x1b[31m✗\x1b[0m one"]);
        assert!(wrap_item("label ", "", 30).is_empty());
    }

    #[test]
    fn the_lines_of_a_reason_are_indented_and_its_note_is_not() {
        assert_eq!(indent_lines("one"), "one");
        assert_eq!(
            with_note(&indent_lines("it ends with:\ngone"), " (now)"),
            "it ends with:\n    gone\n(now)"
        );
    }

    #[test]
    fn ids_times_and_addresses_are_never_split() {
        assert_eq!(wrap(&format!("see {ID}, then go on"), 20), ["see", &format!("{ID},"), "then go on"]);
        let address = "https://example.com/a/rather/long/path";
        assert_eq!(
            wrap_item("  webhook  ", &format!("{address} (signed)"), 40),
            ["  webhook", &format!("    {address}"), "    (signed)"]
        );
        assert_eq!(wrap_item("  id   ", ID, 40), ["  id", &format!("    {ID}")]);
        assert_eq!(wrap_item("  id   ", ID, 80), [format!("  id   {ID}")]);
        let time = "2026-01-31T10:11:12.123456Z";
        assert_eq!(wrap_item("  created      ", time, 40), ["  created", &format!("    {time}")]);
    }

    #[test]
    fn ids_are_shortened_to_their_end() {
        assert_eq!(shorten_ids(&format!("run {ID}, é {ID}")), "run deadbeef, é deadbeef");
        assert_eq!(shorten_ids("0198c0de-0000"), "0198c0de-0000");
        assert!(is_id(ID) && !is_id(&ID.replace('-', "0")));
    }

    #[test]
    fn streamed_words_are_never_split_between_lines() {
        let mut wrapping = StreamWrap::new(Some(10));
        let mut out: String =
            ["The qu", "ick brown", " fox\nju", "mps"].iter().map(|part| wrapping.push(part)).collect();
        out.push_str(&wrapping.flush());
        assert_eq!(out, "The quick\nbrown fox\njumps");
        assert_eq!(StreamWrap::new(None).push("as it is "), "as it is ");
    }
}

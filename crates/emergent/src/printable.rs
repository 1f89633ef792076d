//! Texts of others on a terminal: a character that would control the terminal is shown as an escape, such as `\u{1b}`.
//!
//! Texts of agents, tools and objects could otherwise hide what a person decides about, or show something else.

use std::{
    borrow::Cow,
    io::{self, Write},
};

use emergent_domain::text;

/// The codes of our own colours.
const COLOURS: [&str; 7] =
    ["\u{1b}[0m", "\u{1b}[1m", "\u{1b}[2m", "\u{1b}[31m", "\u{1b}[32m", "\u{1b}[33m", "\u{1b}[36m"];

/// A text that may have several lines.
pub fn printable(text: &str) -> Cow<'_, str> {
    escape(text, is_control, |_| 0)
}

/// A text that is one line, without line breaks and tabs.
pub fn printable_line(text: &str) -> Cow<'_, str> {
    escape(text, is_control_or_break, |_| 0)
}

/// A line that is printed as it is. See [`printable_output`].
pub fn printable_output_line(text: &str, has_colours: bool) -> Cow<'_, str> {
    match has_colours {
        true => escape(text, is_control_or_break, colour_length),
        false => printable_line(text),
    }
}

/// Whether a character controls the terminal, or has no width and so makes two different names look alike.
fn is_control(char: char) -> bool {
    text::is_control(char) || matches!(char, '\u{200b}' | '\u{2060}' | '\u{feff}')
}

fn is_control_or_break(char: char) -> bool {
    matches!(char, '\n' | '\t') || is_control(char)
}

/// Lines that are printed as they are: they have our own colours, if `has_colours`, and texts of others.
pub fn printable_output(text: &str, has_colours: bool) -> Cow<'_, str> {
    match has_colours {
        true => escape(text, is_control, colour_length),
        false => printable(text),
    }
}

/// The text of a JSON document. It stays the same document.
pub fn printable_json(json: &str) -> Cow<'_, str> {
    if !json.chars().any(is_control) {
        return Cow::Borrowed(json);
    }
    let mut shown = String::with_capacity(json.len());
    for char in json.chars() {
        match is_control(char) {
            // JSON has such characters in its texts only, and none of them is above U+FFFF.
            true => shown.push_str(&format!("\\u{:04x}", u32::from(char))),
            false => shown.push(char),
        }
    }
    Cow::Owned(shown)
}

/// The length of the colour code that the text begins with; 0 if it begins with something else.
fn colour_length(text: &str) -> usize {
    COLOURS.iter().find(|code| text.starts_with(**code)).map_or(0, |code| code.len())
}

/// Escapes characters, except in what `kept` gives the length of. A line that ends as on Windows ends with a line feed.
fn escape(text: &str, is_escaped: impl Fn(char) -> bool, kept: impl Fn(&str) -> usize) -> Cow<'_, str> {
    if !text.chars().any(&is_escaped) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(char) = rest.chars().next() {
        let length = kept(rest);
        if length > 0 {
            shown.push_str(&rest[..length]);
            rest = &rest[length..];
            continue;
        }
        match char {
            '\r' if rest.starts_with("\r\n") && !is_escaped('\n') => {}
            char if is_escaped(char) => shown.extend(char.escape_default()),
            char => shown.push(char),
        }
        rest = &rest[char.len_utf8()..];
    }
    Cow::Owned(shown)
}

/// Writes a text that comes in parts. Each line is written once it is complete, and printable.
pub struct PrintableWriter<W: Write> {
    out: W,
    /// The start of a line that is not complete.
    line: Vec<u8>,
}

impl<W: Write> PrintableWriter<W> {
    pub fn new(out: W) -> Self {
        Self { out, line: Vec::new() }
    }

    fn write_line(&mut self) -> io::Result<()> {
        let line = std::mem::take(&mut self.line);
        self.out.write_all(printable(&String::from_utf8_lossy(&line)).as_bytes())
    }
}

impl<W: Write> Write for PrintableWriter<W> {
    fn write(&mut self, part: &[u8]) -> io::Result<usize> {
        for piece in part.split_inclusive(|byte| *byte == b'\n') {
            self.line.extend_from_slice(piece);
            if piece.ends_with(b"\n") {
                self.write_line()?;
            }
        }
        Ok(part.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.write_line()?;
        self.out.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// It clears the screen, rings the bell, returns to the start of the line, and reverses the direction.
    const CONTROLS: &str = "a\u{1b}[2Jb\u{7}c\rd\u{9b}e\u{202e}f\u{2028}g";
    const SHOWN: &str = r"a\u{1b}[2Jb\u{7}c\rd\u{9b}e\u{202e}f\u{2028}g";

    #[test]
    fn characters_that_control_a_terminal_are_visible() {
        assert_eq!(printable(CONTROLS), SHOWN);
        assert_eq!(printable_line(CONTROLS), SHOWN);
        assert_eq!(printable_output(CONTROLS, true), SHOWN);
        assert_eq!(printable("ad\u{200b}min"), r"ad\u{200b}min");
        assert!(matches!(printable("ü\n\t👩\u{200d}👧"), Cow::Borrowed(_)));
    }

    #[test]
    fn only_a_text_of_several_lines_has_line_breaks() {
        assert_eq!(printable("a\nb\r\nc\rd"), "a\nb\nc\\rd");
        assert_eq!(printable_line("a\nb\r\n\tc"), r"a\nb\r\n\tc");
        assert_eq!(printable_output_line("\u{1b}[1ma\n\u{1b}[0m", true), "\u{1b}[1ma\\n\u{1b}[0m");
    }

    #[test]
    fn own_colours_stay_and_no_other_codes() {
        let own = "\u{1b}[1mbold\u{1b}[0m \u{1b}[32m✓\u{1b}[0m";
        assert_eq!(printable_output(&format!("{own}\u{7}"), true), format!(r"{own}\u{{7}}"));
        assert_eq!(printable_output("\u{1b}[1mx", false), r"\u{1b}[1mx");
        for other in
            ["\u{1b}[8mx", "\u{1b}[", "\u{1b}[1", "\u{1b}[1;8m", "\u{1b}[35mx", "\u{1b}[mx", "\u{1b}[1ü"]
        {
            assert_eq!(printable_output(other, true), printable(other));
            assert!(!printable(other).contains('\u{1b}'), "{other:?}");
        }
    }

    #[test]
    fn a_text_in_parts_is_written_line_by_line() {
        let mut writer = PrintableWriter::new(Vec::new());
        // A character is in two parts, and so is a control sequence.
        for part in [&b"a\xc3"[..], b"\xbc\nb\x1b", b"[2J\r", b"\nc\xc2\x9b"] {
            writer.write_all(part).unwrap();
        }
        assert_eq!(writer.out, "aü\nb\\u{1b}[2J\n".as_bytes());
        writer.flush().unwrap();
        assert_eq!(writer.out, "aü\nb\\u{1b}[2J\nc\\u{9b}".as_bytes());
    }

    #[test]
    fn json_stays_the_same_document() {
        let value = serde_json::json!({ CONTROLS: [CONTROLS, "\n\t\u{7f}"] });
        let shown = printable_json(&serde_json::to_string_pretty(&value).unwrap()).into_owned();
        assert!(!shown.chars().any(is_control), "{shown:?}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&shown).unwrap(), value);
    }
}

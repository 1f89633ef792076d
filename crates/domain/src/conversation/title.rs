//! The titles of conversations.

use crate::{invalid::Invalid, text::truncate_graphemes};

/// The maximum length of a title in characters.
pub const MAX_TITLE_CHARS: usize = 200;
/// A title that is made from a message has at most this many characters, and the sign that it was cut.
const MADE_TITLE_CHARS: usize = 60;

/// Validates a title, and returns it without white space around it.
pub fn check_title(title: &str) -> Result<String, Invalid> {
    let title = title.trim();
    if title.is_empty() || title.chars().count() > MAX_TITLE_CHARS {
        return Err(Invalid::new("title", format!("must be 1 to {MAX_TITLE_CHARS} characters")));
    }
    if title.chars().any(char::is_control) {
        return Err(Invalid::new("title", "must not contain control characters"));
    }
    Ok(title.to_owned())
}

/// Makes a title from the first message: its words in one line, cut at a character as people see it, which may consist
/// of several code points.
pub fn title_from_message(message: &str) -> String {
    let separates = |c: char| c.is_whitespace() || c.is_control();
    let (mut line, mut length) = (String::new(), 0);
    // Words are joined only as far as the title needs them.
    for word in message.split(separates).filter(|word| !word.is_empty()) {
        if length > 0 {
            line.push(' ');
        }
        line.push_str(word);
        length += word.chars().count() + 1;
        if length > MADE_TITLE_CHARS + 1 {
            break;
        }
    }
    truncate_graphemes(&line, MADE_TITLE_CHARS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_title_is_one_line_and_is_cut_at_a_character() {
        assert_eq!(title_from_message("  What is\n\na\tgraph?  "), "What is a graph?");
        let long = title_from_message(&"ü".repeat(200));
        assert_eq!(long, format!("{}…", "ü".repeat(60)));
        let family = "👩‍👩‍👧";
        let families = title_from_message(&family.repeat(100));
        assert_eq!(
            families,
            format!("{}…", family.repeat(12)),
            "five code points each, and none is cut in two"
        );
        let accents = title_from_message(&"e\u{301}".repeat(100));
        assert_eq!(accents, format!("{}…", "e\u{301}".repeat(30)));
        assert_eq!(title_from_message(&"🇫🇷".repeat(100)), format!("{}…", "🇫🇷".repeat(30)));
        assert_eq!(title_from_message(&"a ".repeat(32_000)).chars().count(), 61);
    }

    #[test]
    fn a_title_is_refused_by_name() {
        for text in ["", "  ", "a\nb", &"x".repeat(MAX_TITLE_CHARS + 1)] {
            assert_eq!(check_title(text).unwrap_err().problems[0].field, "title");
        }
        assert_eq!(check_title("  A title ").unwrap(), "A title");
    }
}

//! The input of a run in its record: the text before the input of a resumption, and the preview that lists show.

use crate::text::truncate_graphemes;

/// Precedes the input of a resumption in the first message of the resumed run.
pub const RESUME_PREFIX: &str = "Continue your work. Here is additional context: ";

/// The most characters of a preview, with the mark where something was left out.
pub const MAX_PREVIEW_CHARS: usize = 200;

/// Returns the beginning of a run's input as one line, from the message that it became; `None` if there is no text.
pub fn input_preview(message: &str) -> Option<String> {
    let input = message.strip_prefix(RESUME_PREFIX).unwrap_or(message);
    // Control characters would change the terminal that shows a list.
    let is_space = |c: char| c.is_whitespace() || c.is_control();
    let line = input.split(is_space).filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ");
    if line.is_empty() {
        return None;
    }
    if line.chars().count() <= MAX_PREVIEW_CHARS {
        return Some(line);
    }
    Some(truncate_graphemes(&line, MAX_PREVIEW_CHARS - 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_preview_is_one_line_of_bounded_length() {
        assert_eq!(input_preview("  Read\n\n\tthe  file ").as_deref(), Some("Read the file"));
        assert_eq!(input_preview(" \n "), None);
        assert_eq!(input_preview("\u{1b}[2J\u{1b}]0;owned\u{7}").as_deref(), Some("[2J ]0;owned"));
        let exact = "ü".repeat(MAX_PREVIEW_CHARS);
        assert_eq!(input_preview(&exact), Some(exact.clone()));
        let long = input_preview(&format!("{exact}x")).unwrap();
        assert_eq!((long.chars().count(), long.ends_with('…')), (MAX_PREVIEW_CHARS, true));
    }

    #[test]
    fn a_resumption_shows_what_it_was_told() {
        assert_eq!(input_preview(&format!("{RESUME_PREFIX}try again")).as_deref(), Some("try again"));
        assert_eq!(input_preview("Continue your work.").as_deref(), Some("Continue your work."));
    }
}

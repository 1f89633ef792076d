//! The line about a tool call that has ended.

use console::measure_text_width;

use crate::{output::first_line, printable::printable_line, text::fit_line};

/// Where there is no terminal, inputs are shortened to this length, and errors to twice as much.
const MAX_INPUT_CHARS: usize = 60;
/// With fewer columns, an input says nothing.
const MIN_INPUT_COLUMNS: usize = 6;
/// Between the parts of the line.
const GAP: &str = "  ";

/// What is said of a tool call that has ended.
pub struct CallLine<'a> {
    /// The mark and the name of the tool, which may have colour codes.
    pub head: String,
    /// As JSON; empty if it is not known.
    pub input: &'a str,
    /// How long it took.
    pub took: Option<String>,
    pub error: Option<&'a str>,
}

impl CallLine<'_> {
    /// The line. On a terminal of this width, the input and the error share what the name and the time leave, so that
    /// the time is always there. `paint` paints the input and the time.
    pub fn text(&self, width: Option<usize>, paint: impl Fn(&str) -> String) -> String {
        let (input, error) = match width {
            Some(width) => self.fitted(width),
            None => (
                first_line(self.input, MAX_INPUT_CHARS),
                self.error.map(|error| first_line(error, MAX_INPUT_CHARS * 2)),
            ),
        };
        let mut parts = vec![self.head.clone()];
        parts.extend(Some(input).filter(|input| !input.is_empty()).map(|input| paint(&input)));
        parts.extend(self.took.as_deref().map(paint));
        parts.extend(error.filter(|error| !error.is_empty()));
        let line = parts.join(GAP);
        width.map_or_else(|| line.clone(), |width| fit_line(&line, width))
    }

    /// The input and the error as a terminal of this width has room for them.
    fn fitted(&self, width: usize) -> (String, Option<String>) {
        let took = self.took.as_ref().map_or(0, |took| GAP.len() + measure_text_width(took));
        let rest = width.saturating_sub(measure_text_width(&self.head) + took);
        let Some(error) = self.error else {
            return (input_text(self.input, rest.saturating_sub(GAP.len())), None);
        };
        let error = &*printable_line(error.lines().next().unwrap_or_default());
        // The error matters more: the input gets a third, or what a short error leaves.
        let beside_error = rest.saturating_sub(GAP.len() + measure_text_width(error));
        let input = input_text(self.input, beside_error.max(rest / 3).saturating_sub(GAP.len()));
        let input_width = if input.is_empty() { 0 } else { GAP.len() + measure_text_width(&input) };
        let error = fit_line(error, rest.saturating_sub(input_width + GAP.len()));
        (input, Some(error))
    }
}

fn input_text(input: &str, columns: usize) -> String {
    match columns < MIN_INPUT_COLUMNS {
        true => String::new(),
        false => first_line(input, columns),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INPUT: &str = r#"{"limit":5,"query":"so that the pattern is found in all of the documents"}"#;

    fn line(input: &str, error: Option<&str>, width: Option<usize>) -> String {
        let (head, took) = ("✓ search_hybrid".to_owned(), Some("12ms".to_owned()));
        CallLine { head, input, took, error }.text(width, str::to_owned)
    }

    #[test]
    fn the_time_is_there_at_any_width() {
        for width in [24, 30, 40, 60, 80, 100, 120] {
            for error in
                [None, Some("no index"), Some("the index of this project cannot be read at the moment")]
            {
                let line = line(INPUT, error, Some(width));
                assert!(measure_text_width(&line) <= width, "{width}: {line}");
                assert!(line.contains("  12ms"), "{width}: {line}");
            }
        }
    }

    #[test]
    fn the_input_uses_the_width_of_the_terminal() {
        assert_eq!(line(INPUT, None, Some(120)), format!("✓ search_hybrid  {INPUT}  12ms"));
        assert_eq!(line(INPUT, None, Some(50)), r#"✓ search_hybrid  {"limit":5,"query":"so…  12ms"#);
        assert_eq!(line("", None, Some(50)), "✓ search_hybrid  12ms");
        assert_eq!(
            line(INPUT, Some("no index"), Some(60)),
            r#"✓ search_hybrid  {"limit":5,"query":"so…  12ms  no index"#
        );
    }
}

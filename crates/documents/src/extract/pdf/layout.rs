//! Reconstructs the lines and paragraphs of a page from the positions of its text.

use super::matrix::{Matrix, Point};

/// The text of one page in drawing order, which is nearly always the reading order.
#[derive(Default)]
pub(super) struct Layout {
    lines: Vec<Line>,
    /// The position at which the last text ended.
    end: Option<Point>,
}

struct Line {
    text: String,
    /// The largest font size in the line.
    size: f64,
    /// The distance to the previous line, in either direction.
    distance: f64,
}

/// The smallest gap between words, as a fraction of the font size. A kern is smaller, and a space between
/// justified words is larger.
const WORD_GAP: f64 = 0.16;
/// The smallest distance between lines, as a fraction of the font size. A superscript is raised less.
const LINE_GAP: f64 = 0.5;
/// A distance of more than this many usual distances starts a paragraph.
const PARAGRAPH_DISTANCE: f64 = 1.3;
/// A distance of more than this many font sizes, more than double spacing, starts a paragraph.
const MAX_LINE_DISTANCE: f64 = 2.6;

impl Layout {
    /// Adds text drawn from `start`, whose matrix defines the direction of the text.
    pub fn add(&mut self, text: &str, start: Matrix, end: Point, size: f64) {
        let begin = start.origin();
        let direction = start.direction();
        match (self.end, self.lines.last_mut()) {
            (Some(last_end), Some(line)) => {
                let (dx, dy) = (begin.x - last_end.x, begin.y - last_end.y);
                let forward = dx * direction.x + dy * direction.y;
                let across = (dy * direction.x - dx * direction.y).abs();
                let unit = size.max(line.size).max(f64::MIN_POSITIVE);
                if across > LINE_GAP * unit {
                    self.begin_line(size, across);
                } else if forward > WORD_GAP * unit || forward < -unit {
                    line.text.push(' ');
                }
            }
            _ => self.begin_line(size, 0.0),
        }
        if let Some(line) = self.lines.last_mut() {
            line.text.extend(text.chars().flat_map(plain_chars));
            line.size = line.size.max(size);
        }
        self.end = Some(end);
    }

    fn begin_line(&mut self, size: f64, distance: f64) {
        self.lines.push(Line { text: String::new(), size, distance });
    }

    /// Returns the paragraphs of the page, with a line break where a line was drawn.
    pub fn paragraphs(mut self) -> Vec<String> {
        self.lines.retain(|line| !line.text.trim().is_empty());
        let usual_distance = self.usual_distance();
        let mut paragraphs: Vec<String> = Vec::new();
        for line in self.lines {
            let text = line.text.trim();
            let starts_paragraph = line.distance > usual_distance * PARAGRAPH_DISTANCE
                || line.distance > line.size * MAX_LINE_DISTANCE;
            match paragraphs.last_mut() {
                Some(paragraph) if !starts_paragraph => join_line(paragraph, text),
                _ => paragraphs.push(text.to_owned()),
            }
        }
        paragraphs
    }

    /// Returns the median distance between lines.
    fn usual_distance(&self) -> f64 {
        let distances = self.lines.iter().skip(1).map(|line| line.distance);
        let mut distances: Vec<f64> = distances.filter(|distance| distance.is_finite()).collect();
        distances.sort_by(f64::total_cmp);
        distances.get(distances.len() / 2).copied().unwrap_or(0.0)
    }
}

/// Appends a line to a paragraph, and rejoins a word that was hyphenated between them.
fn join_line(paragraph: &mut String, line: &str) {
    let word = paragraph.strip_suffix('-').map(|text| {
        let start = text.rfind(|c: char| c.is_whitespace() || c == '-');
        (start, text.ends_with(char::is_lowercase))
    });
    match word {
        // A word that contains another hyphen keeps this one: state-of-the-art.
        Some((start, true))
            if !start.is_some_and(|offset| paragraph[offset..].starts_with('-'))
                && line.starts_with(char::is_lowercase) =>
        {
            paragraph.pop();
        }
        _ => paragraph.push('\n'),
    }
    paragraph.push_str(line);
}

/// Replaces ligatures by their letters so that words can be found, and drops invisible characters.
fn plain_chars(c: char) -> impl Iterator<Item = char> {
    let letters = match c {
        '\u{fb00}' => "ff",
        '\u{fb01}' => "fi",
        '\u{fb02}' => "fl",
        '\u{fb03}' => "ffi",
        '\u{fb04}' => "ffl",
        '\u{fb05}' | '\u{fb06}' => "st",
        _ => "",
    };
    let itself = (letters.is_empty() && !c.is_control() && c != '\u{fffd}').then_some(c);
    letters.chars().chain(itself)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks lines of 10-point text at these heights.
    fn check(lines: &[(f64, &str)], expected: &[&str]) {
        let mut layout = Layout::default();
        for (y, text) in lines {
            let start = Matrix::translation(72.0, *y);
            layout.add(text, start, Point { x: 200.0, y: *y }, 10.0);
        }
        assert_eq!(layout.paragraphs(), expected);
    }

    #[test]
    fn a_wider_gap_between_lines_begins_a_paragraph() {
        check(
            &[(700.0, "One"), (688.0, "two."), (664.0, "Three"), (652.0, "four.")],
            &["One\ntwo.", "Three\nfour."],
        );
    }

    #[test]
    fn a_hyphenated_word_is_joined() {
        check(&[(700.0, "knowl-"), (688.0, "edge")], &["knowledge"]);
        check(&[(700.0, "state-of-the-"), (688.0, "art")], &["state-of-the-\nart"]);
        check(&[(700.0, "Anna-"), (688.0, "Maria")], &["Anna-\nMaria"]);
    }

    #[test]
    fn text_further_right_on_a_line_is_another_word() {
        let mut layout = Layout::default();
        let mut add = |x: f64, text: &str, width: f64| {
            layout.add(text, Matrix::translation(x, 0.0), Point { x: x + width, y: 0.0 }, 10.0);
        };
        add(0.0, "kn", 10.0);
        add(10.2, "ow", 10.0);
        add(23.0, "ef\u{fb01}cient\u{0}", 30.0);
        assert_eq!(layout.paragraphs(), ["know efficient"]);
    }
}

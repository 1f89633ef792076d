//! Splits a text into the units that chunks consist of: headings, sentences, and parts of sentences
//! that are too long for one chunk.

use std::ops::Range;

use crate::extract::{ExtractedText, Heading};
use crate::sentences::sentences;
use crate::tokens::{Atom, CHARS_PER_TOKEN, atoms};

/// A range of text that begins and ends with a visible character and fits into a chunk.
#[derive(Clone, Debug)]
pub(crate) struct Unit {
    pub start: usize,
    pub end: usize,
    pub tokens: usize,
    /// What the unit is the start of.
    pub begins: UnitStart,
    /// False for a part of a sentence.
    pub whole: bool,
    /// The index of the last heading at or before the unit.
    pub section: Option<usize>,
}

/// What starts with a unit. The greater the value, the better a chunk can start there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum UnitStart {
    /// A later part of a long sentence.
    Piece,
    Sentence,
    Paragraph,
    Heading,
    /// A heading of level 1 or 2.
    TopHeading,
}

impl Unit {
    pub fn is_heading(&self) -> bool {
        self.begins >= UnitStart::Heading
    }
}

/// Headings of this level and above start a new chunk more readily.
pub(crate) const TOP_LEVEL: u8 = 2;

/// Returns the units of a text in order. Together they contain all visible text, and none is longer
/// than `max_tokens`.
pub(crate) fn units(extracted: &ExtractedText, max_tokens: usize) -> Vec<Unit> {
    let text = &extracted.text;
    let mut units = Vec::new();
    let mut position = 0;
    let mut section = None;
    for (index, heading) in extracted.headings.iter().enumerate() {
        if heading.offset < position || !begins_word(text, heading.offset) {
            continue;
        }
        push_body(text, position..heading.offset, section, max_tokens, &mut units);
        section = Some(index);
        position = line_end(text, heading.offset);
        let line = heading.offset..position;
        push_sentence(text, line, heading_start(heading), section, max_tokens, &mut units);
    }
    push_body(text, position..text.len(), section, max_tokens, &mut units);
    units
}

/// Whether a word starts at the offset. This is true for every heading that `extract` finds, but a caller may
/// provide others, and splitting a word at a heading would change its number of tokens.
fn begins_word(text: &str, offset: usize) -> bool {
    text.split_at_checked(offset).is_some_and(|(before, after)| {
        (before.is_empty() || before.ends_with(char::is_whitespace))
            && after.starts_with(|c: char| !c.is_whitespace())
    })
}

fn heading_start(heading: &Heading) -> UnitStart {
    match heading.level <= TOP_LEVEL {
        true => UnitStart::TopHeading,
        false => UnitStart::Heading,
    }
}

fn line_end(text: &str, start: usize) -> usize {
    text[start..].find('\n').map_or(text.len(), |n| start + n)
}

/// Adds the units of the text between two headings.
fn push_body(
    text: &str,
    range: Range<usize>,
    section: Option<usize>,
    max_tokens: usize,
    units: &mut Vec<Unit>,
) {
    for paragraph in paragraphs(text, range) {
        let mut begins = UnitStart::Paragraph;
        for sentence in sentences(&text[paragraph.clone()]) {
            let sentence = paragraph.start + sentence.start..paragraph.start + sentence.end;
            push_sentence(text, sentence, begins, section, max_tokens, units);
            begins = UnitStart::Sentence;
        }
    }
}

/// Returns the ranges of consecutive lines that are not blank.
fn paragraphs(text: &str, range: Range<usize>) -> impl Iterator<Item = Range<usize>> {
    let mut position = range.start;
    std::iter::from_fn(move || {
        let mut paragraph: Option<Range<usize>> = None;
        while position < range.end {
            let start = position;
            position = line_end(&text[..range.end], start).saturating_add(1).min(range.end);
            match (text[start..position].trim().is_empty(), &mut paragraph) {
                (true, None) => {}
                (true, Some(_)) => break,
                (false, None) => paragraph = Some(start..position),
                (false, Some(paragraph)) => paragraph.end = position,
            }
        }
        paragraph
    })
}

/// Adds a sentence, in parts if it has more than `max_tokens`.
fn push_sentence(
    text: &str,
    range: Range<usize>,
    begins: UnitStart,
    section: Option<usize>,
    max_tokens: usize,
    units: &mut Vec<Unit>,
) {
    let first = units.len();
    let mut splitter = Splitter::new(text, max_tokens);
    let mut push = |piece: Piece| {
        units.push(Unit {
            start: piece.start,
            end: piece.end,
            tokens: piece.tokens,
            begins: UnitStart::Piece,
            whole: false,
            section,
        });
    };
    for atom in atoms(&text[range.clone()]) {
        let atom = Atom { start: range.start + atom.start, end: range.start + atom.end, ..atom };
        for part in split_atom(text, atom, max_tokens) {
            splitter.add(part, &mut push);
        }
    }
    splitter.finish(&mut push);
    if let [only] = &mut units[first..] {
        only.whole = true;
    }
    if let Some(unit) = units.get_mut(first) {
        unit.begins = begins;
    }
}

/// Returns the atom itself, or parts of `max_tokens` each if it has more.
fn split_atom(text: &str, atom: Atom, max_tokens: usize) -> impl Iterator<Item = Atom> {
    let mut position = atom.start;
    std::iter::from_fn(move || {
        if position == atom.end {
            return None;
        }
        let mut part = Atom { start: position, ..atom };
        if atom.tokens > max_tokens {
            let piece = &text[position..atom.end];
            if let Some((cut, _)) = piece.char_indices().nth(max_tokens * CHARS_PER_TOKEN) {
                part.end = position + cut;
            }
            part.tokens = crate::count_tokens(&text[part.start..part.end]);
        }
        position = part.end;
        Some(part)
    })
}

/// A part of a sentence that fits into a chunk.
struct Piece {
    start: usize,
    end: usize,
    tokens: usize,
}

/// A position at which the current piece may end. `tokens` are those of the piece up to there, and `next` is
/// the start of the text after it.
#[derive(Clone, Copy)]
struct Boundary {
    end: usize,
    next: usize,
    tokens: usize,
}

/// Fills pieces with atoms, and ends them at a line break, at a space, or wherever necessary.
struct Splitter<'a> {
    text: &'a str,
    max_tokens: usize,
    piece: Option<Piece>,
    /// The last line break in the piece.
    last_line: Option<Boundary>,
    /// The last position in the piece at which a line may break.
    last_space: Option<Boundary>,
}

impl<'a> Splitter<'a> {
    fn new(text: &'a str, max_tokens: usize) -> Self {
        Splitter { text, max_tokens, piece: None, last_line: None, last_space: None }
    }

    fn add(&mut self, atom: Atom, push: &mut impl FnMut(Piece)) {
        if let Some(piece) = &self.piece {
            let gap = &self.text[piece.end..atom.start];
            let boundary = Boundary { end: piece.end, next: atom.start, tokens: piece.tokens };
            if gap.contains('\n') {
                self.last_line = Some(boundary);
            }
            if !gap.is_empty() || atom.breakable {
                self.last_space = Some(boundary);
            }
        }
        while let Some(piece) = &self.piece
            && piece.tokens + atom.tokens > self.max_tokens
        {
            let forced = Boundary { end: piece.end, next: atom.start, tokens: piece.tokens };
            let line = self.last_line.filter(|boundary| boundary.tokens >= self.max_tokens / 2);
            self.end_piece(line.or(self.last_space).unwrap_or(forced), push);
        }
        let piece = self.piece.get_or_insert(Piece { start: atom.start, end: atom.start, tokens: 0 });
        piece.end = atom.end;
        piece.tokens += atom.tokens;
    }

    /// Ends the current piece at a boundary, and starts the next one with the text after it.
    fn end_piece(&mut self, boundary: Boundary, push: &mut impl FnMut(Piece)) {
        let Some(piece) = self.piece.take() else { return };
        push(Piece { start: piece.start, end: boundary.end, tokens: boundary.tokens });
        if piece.end > boundary.end {
            let tokens = piece.tokens - boundary.tokens;
            self.piece = Some(Piece { start: boundary.next, end: piece.end, tokens });
        }
        let rebase = |later: Option<Boundary>| {
            let later = later.filter(|later| later.end > boundary.end)?;
            Some(Boundary { tokens: later.tokens - boundary.tokens, ..later })
        };
        self.last_line = rebase(self.last_line);
        self.last_space = rebase(self.last_space);
    }

    fn finish(mut self, push: &mut impl FnMut(Piece)) {
        if let Some(piece) = self.piece.take() {
            push(piece);
        }
    }
}

//! Splits a text into chunks for search.
//!
//! A chunk is as long as allowed, unless a section or paragraph starts in its second half, which is
//! a better end. The last sentences of a chunk are repeated in the next one, so that a passage
//! across the boundary can be found in either of them.

use crate::error::Error;
use crate::extract::{ExtractedText, Heading};
use crate::units::{Unit, UnitStart, units};

/// The size of chunks, measured by [`count_tokens`](crate::count_tokens).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkOptions {
    max_tokens: usize,
    overlap_tokens: usize,
}

impl ChunkOptions {
    /// The smallest allowed `max_tokens`.
    pub const MIN_TOKENS: usize = 8;

    /// Creates options with at most `max_tokens` per chunk, of which at most `overlap_tokens`
    /// repeat the previous chunk.
    pub fn new(max_tokens: usize, overlap_tokens: usize) -> Result<ChunkOptions, Error> {
        // With a larger overlap, chunks would consist mostly of their predecessors.
        if max_tokens < Self::MIN_TOKENS || overlap_tokens > max_tokens / 2 {
            return Err(Error::ChunkOptions { max_tokens, overlap_tokens });
        }
        Ok(ChunkOptions { max_tokens, overlap_tokens })
    }

    pub fn max_tokens(&self) -> usize {
        self.max_tokens
    }

    pub fn overlap_tokens(&self) -> usize {
        self.overlap_tokens
    }
}

impl Default for ChunkOptions {
    fn default() -> Self {
        ChunkOptions { max_tokens: 400, overlap_tokens: 60 }
    }
}

/// A part of a text: `text[start..end]`. It begins and ends with a visible character.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chunk {
    /// The number of the chunk in its text, from 0.
    pub index: usize,
    /// The byte offset of the start, on a character boundary. It is greater than that of the
    /// previous chunk.
    pub start: usize,
    /// The byte offset of the end, exclusive.
    pub end: usize,
    pub tokens: usize,
    /// The path of headings above the chunk's own text: `Guide > Install`.
    pub heading: Option<String>,
}

/// Splits a text into chunks that together contain everything visible in it.
///
/// No chunk has more than `max_tokens`, none is empty, and an empty text has none.
pub fn chunk(extracted: &ExtractedText, options: &ChunkOptions) -> Vec<Chunk> {
    let units = units(extracted, options.max_tokens);
    let parents = heading_parents(&extracted.headings);
    let mut chunks = Vec::new();
    // A chunk consists of `units[from..end]`. The units before `first_new` repeat the previous chunk.
    let (mut from, mut first_new) = (0, 0);
    while first_new < units.len() {
        let end = chunk_end(&units, from, first_new, options.max_tokens);
        chunks.push(Chunk {
            index: chunks.len(),
            start: units[from].start,
            end: units[end - 1].end,
            tokens: tokens(&units[from..end]),
            heading: section_of(&units[first_new..end])
                .map(|section| heading_path(&extracted.headings, &parents, section)),
        });
        from = overlap_start(&units, from, end, options);
        first_new = end;
    }
    chunks
}

fn tokens(units: &[Unit]) -> usize {
    units.iter().map(|unit| unit.tokens).sum()
}

/// Returns the end of a chunk that starts at `from` and contains at least the unit at `first_new`.
fn chunk_end(units: &[Unit], from: usize, first_new: usize, max_tokens: usize) -> usize {
    let mut length = tokens(&units[from..=first_new]);
    for index in first_new + 1..units.len() {
        let min_length = match units[index].begins {
            UnitStart::TopHeading => max_tokens / 2,
            UnitStart::Heading => max_tokens * 3 / 4,
            UnitStart::Piece | UnitStart::Sentence | UnitStart::Paragraph => max_tokens,
        };
        if length >= min_length && !units[index - 1].is_heading() {
            return index;
        }
        if length + units[index].tokens > max_tokens {
            return best_end(units, first_new, index, length, max_tokens / 2);
        }
        length += units[index].tokens;
    }
    units.len()
}

/// Returns the best end of a chunk that must end at `limit`, where it has `length` tokens: the last
/// of the strongest boundaries that leave it with at least `min_tokens`.
fn best_end(units: &[Unit], first_new: usize, limit: usize, mut length: usize, min_tokens: usize) -> usize {
    let mut best = limit;
    for end in (first_new + 1..limit).rev() {
        length -= units[end].tokens;
        if length < min_tokens {
            break;
        }
        if cut_strength(units, end) > cut_strength(units, best) {
            best = end;
        }
    }
    // A heading stays with the text below it, even if the chunk becomes short.
    let after_text = (first_new + 1..=best).rev().find(|&end| !units[end - 1].is_heading());
    after_text.unwrap_or(best)
}

/// Returns how good a boundary before a unit is. `None` is the weakest, directly after a heading.
fn cut_strength(units: &[Unit], end: usize) -> Option<UnitStart> {
    (!units[end - 1].is_heading()).then_some(units[end].begins)
}

/// Returns the first unit to repeat in the chunk that starts at `end`, or `end` if there is none.
fn overlap_start(units: &[Unit], from: usize, end: usize, options: &ChunkOptions) -> usize {
    let Some(next) = units.get(end).filter(|next| next.begins != UnitStart::TopHeading) else {
        return end;
    };
    let max_overlap = options.overlap_tokens.min(options.max_tokens - next.tokens);
    let mut length = 0;
    let mut start = end;
    // The whole chunk is never repeated, because each chunk must start after the previous one.
    while start > from + 1 {
        let unit = &units[start - 1];
        length += unit.tokens;
        if length > max_overlap || !unit.whole || unit.begins == UnitStart::TopHeading {
            break;
        }
        start -= 1;
    }
    start
}

/// Returns the section of a chunk: that of its first text, rather than that of the headings before
/// it.
fn section_of(units: &[Unit]) -> Option<usize> {
    let first_text = units.iter().find(|unit| !unit.is_heading());
    first_text.or(units.last())?.section
}

/// Returns the index of the parent of each heading; `None` for a heading without one.
fn heading_parents(headings: &[Heading]) -> Vec<Option<usize>> {
    let mut ancestors: Vec<usize> = Vec::new();
    let mut parents = Vec::with_capacity(headings.len());
    for (index, heading) in headings.iter().enumerate() {
        ancestors.retain(|&ancestor| headings[ancestor].level < heading.level);
        parents.push(ancestors.last().copied());
        ancestors.push(index);
    }
    parents
}

/// Returns the titles of a heading and of those above it: `Guide > Install`.
fn heading_path(headings: &[Heading], parents: &[Option<usize>], section: usize) -> String {
    let mut titles: Vec<_> = std::iter::successors(Some(section), |&heading| parents[heading])
        .map(|heading| truncate_title(&headings[heading].title))
        .collect();
    titles.reverse();
    titles.join(" > ")
}

/// Truncates a title. The heading path is repeated with every chunk, so a very long title would be
/// too.
fn truncate_title(title: &str) -> String {
    const MAX_TITLE_CHARS: usize = 120;
    match title.char_indices().nth(MAX_TITLE_CHARS) {
        Some((cut, _)) => format!("{}…", &title[..cut]),
        None => title.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Mime, count_tokens, extract};

    /// Returns the chunks of a Markdown text, with their headings.
    fn chunks(markdown: &str, max_tokens: usize, overlap_tokens: usize) -> Vec<String> {
        let page = extract(Mime::MARKDOWN, markdown.as_bytes()).unwrap();
        let options = ChunkOptions::new(max_tokens, overlap_tokens).unwrap();
        let chunks = chunk(&page, &options).into_iter().map(|chunk| {
            let text = &page.text[chunk.start..chunk.end];
            assert_eq!(chunk.tokens, count_tokens(text));
            assert!(chunk.tokens <= max_tokens, "{text}");
            match chunk.heading {
                Some(heading) => format!("[{heading}] {text}"),
                None => text.to_owned(),
            }
        });
        chunks.collect()
    }

    #[test]
    fn a_short_text_is_one_chunk_and_an_empty_one_none() {
        assert_eq!(chunks("Just this.", 400, 60), ["Just this."]);
        assert!(chunks(" \n\n ", 400, 60).is_empty());
    }

    #[test]
    fn a_chunk_ends_with_a_paragraph_if_it_can() {
        assert_eq!(
            chunks("One two three four.\n\nFive six seven. Eight nine ten eleven.", 11, 0),
            ["One two three four.", "Five six seven. Eight nine ten eleven."],
        );
    }

    #[test]
    fn without_a_paragraph_boundary_a_chunk_ends_with_a_sentence() {
        assert_eq!(
            chunks("One two three. Four five six. Seven eight nine.", 9, 0),
            ["One two three. Four five six.", "Seven eight nine."],
        );
    }

    #[test]
    fn a_long_sentence_is_split_between_words_and_a_long_word_inside() {
        assert_eq!(chunks("a b c d e f g h i j", 8, 0), ["a b c d e f g h", "i j"],);
        let word = "x".repeat(80);
        assert_eq!(chunks(&word, 8, 0), ["x".repeat(32), "x".repeat(32), "x".repeat(16)]);
        assert_eq!(chunks("知识图谱是一种结构", 8, 0), ["知识图谱是一种结", "构"]);
    }

    #[test]
    fn long_preformatted_text_is_split_between_lines() {
        let code = "```\na b c d\ne f g h\ni j k l\nm n o p\n```";
        assert_eq!(chunks(code, 10, 0), ["a b c d\ne f g h", "i j k l\nm n o p"]);
    }

    #[test]
    fn the_last_sentences_of_a_chunk_are_repeated_in_the_next() {
        assert_eq!(
            chunks("One two three. Four five. Six seven eight nine. Ten.", 11, 4),
            ["One two three. Four five.", "Four five. Six seven eight nine. Ten."],
        );
    }

    const GUIDE: &str = "# Guide\n\nRead me now please.\n\n## Install\n\nGet it. Then run \
        it.\n\n### Linux\n\nUse the package.\n\n## Use\n\nCall it often.";

    #[test]
    fn a_new_section_begins_a_chunk_and_nothing_is_repeated_in_it() {
        assert_eq!(
            chunks(GUIDE, 14, 7),
            [
                "[Guide] Guide\n\nRead me now please.\n\nInstall\n\nGet it. Then run it.",
                "[Guide > Install > Linux] Get it. Then run it.\n\nLinux\n\nUse the package.",
                "[Guide > Use] Use\n\nCall it often.",
            ],
        );
    }

    #[test]
    fn a_small_document_is_not_split_at_its_headings() {
        assert_eq!(chunks(GUIDE, 400, 60).len(), 1);
    }

    #[test]
    fn a_heading_is_in_the_same_chunk_as_the_text_below_it() {
        let page = "One two three four five. Six seven.\n\n### Next\n\nEight nine ten eleven.";
        assert_eq!(
            chunks(page, 12, 0),
            ["One two three four five. Six seven.", "[Next] Next\n\nEight nine ten eleven."],
        );
    }

    #[test]
    fn a_very_long_title_is_truncated_in_the_heading_path() {
        let page = ExtractedText {
            text: format!("{}\n\ntext", "t".repeat(1000)),
            headings: vec![Heading { offset: 0, level: 1, title: "t".repeat(1000) }],
            title: None,
        };
        let chunks = chunk(&page, &ChunkOptions::default());
        assert_eq!(chunks[0].heading.as_ref().unwrap().chars().count(), 121);
    }

    #[test]
    fn invalid_options_are_rejected() {
        for (max_tokens, overlap_tokens) in [(7, 0), (400, 201), (0, 0), (10, usize::MAX)] {
            let error = ChunkOptions::new(max_tokens, overlap_tokens).unwrap_err();
            assert!(error.to_string().contains("at least 8 tokens"), "{error}");
        }
        assert_eq!(ChunkOptions::new(400, 60).unwrap(), ChunkOptions::default());
    }
}

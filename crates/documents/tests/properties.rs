//! Properties that hold for every document. A failing case prints its seed and can be repeated with
//! it.

use std::ops::Range;

use emergent_documents::{ChunkOptions, ExtractedText, Heading, Mime, chunk, count_tokens, extract};
use proptest::prelude::*;
use proptest::test_runner::{RngAlgorithm, TestRng, TestRunner};

/// Runs a property test on `cases` inputs with a seed that is printed. `SEED` sets it.
fn check<S: Strategy>(cases: u32, input: S, property: impl Fn(S::Value) -> Result<(), TestCaseError>) {
    let seed = match std::env::var("SEED") {
        Ok(seed) => seed.parse().expect("SEED is a number"),
        Err(_) => std::process::id() as u64 ^ 0x5eed_0000,
    };
    println!("SEED={seed}");
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&u64::to_le_bytes(seed));
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
    let config = ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() };
    if let Err(error) = TestRunner::new_with_rng(config, rng).run(&input, property) {
        panic!("SEED={seed}: {error}");
    }
}

fn words() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        8 => "[a-zA-Z]{1,12}",
        2 => "[a-z]{1,6}[.!?,;:]",
        1 => "[一-龥]{1,8}。?",
        1 => "[\\PC]{1,4}",
        1 => Just("e.g.".to_owned()),
        1 => Just("3.14".to_owned()),
        1 => "[x-]{30,200}",
        1 => "\\PC{0,6}",
    ];
    let gap = prop_oneof![
        12 => Just(" "), 2 => Just("\n"), 2 => Just("\n\n"), 1 => Just(" \t\n \n"), 1 => Just(""),
        1 => Just("\n- "), 1 => Just("\u{a0}"),
    ];
    prop::collection::vec((piece, gap), 0..80)
        .prop_map(|parts| parts.into_iter().flat_map(|(piece, gap)| [piece, gap.to_owned()]).collect())
}

/// A text with headings at arbitrary positions, even where `extract` would not put them.
fn documents() -> impl Strategy<Value = ExtractedText> {
    let headings = prop::collection::vec((any::<prop::sample::Index>(), 1..=6_u8), 0..8);
    (words(), headings).prop_map(|(text, headings)| {
        let starts: Vec<usize> = text.char_indices().map(|(index, _)| index).collect();
        let mut headings: Vec<_> = headings
            .into_iter()
            .filter(|_| !starts.is_empty())
            .map(|(at, level)| Heading { offset: *at.get(&starts), level, title: format!("L{level}") })
            .collect();
        headings.sort_by_key(|heading| heading.offset);
        ExtractedText { text, headings, title: None }
    })
}

fn options() -> impl Strategy<Value = ChunkOptions> {
    (8..120_usize)
        .prop_flat_map(|max| (Just(max), 0..=max / 2))
        .prop_map(|(max, overlap)| ChunkOptions::new(max, overlap).unwrap())
}

#[test]
fn chunks_cover_the_text_in_order_and_within_their_size() {
    check(1_000, (documents(), options()), |(page, options)| {
        let text = &page.text;
        let chunks = chunk(&page, &options);
        let mut covered = 0;
        let mut previous: Option<Range<usize>> = None;
        for (index, chunk) in chunks.iter().enumerate() {
            prop_assert_eq!(chunk.index, index);
            let part = &text[chunk.start..chunk.end];
            prop_assert!(!part.is_empty() && part.trim() == part);
            prop_assert_eq!(chunk.tokens, count_tokens(part));
            prop_assert!(chunk.tokens <= options.max_tokens());
            if chunk.start > covered {
                prop_assert!(text[covered..chunk.start].trim().is_empty(), "a gap before {}", index);
            }
            if let Some(previous) = previous {
                prop_assert!(chunk.start > previous.start && chunk.end > previous.end);
                let overlap = &text[chunk.start..previous.end.max(chunk.start)];
                prop_assert!(count_tokens(overlap) <= options.overlap_tokens());
                // A heading that is not at the start of a word was added by the test, and does not
                // count.
                let crossed = page.headings.iter().filter(|heading| {
                    heading.level <= 2
                        && text[..heading.offset].ends_with(char::is_whitespace)
                        && !text[heading.offset..].starts_with(char::is_whitespace)
                });
                let crossed = crossed.filter(|h| chunk.start < h.offset && h.offset < previous.end);
                for heading in crossed {
                    // A heading in the middle of another heading's line is not a separate one.
                    prop_assert!(page.headings.iter().any(|other| other != heading
                        && other.offset <= heading.offset
                        && !text[other.offset..heading.offset].contains('\n')));
                }
            }
            covered = chunk.end;
            previous = Some(chunk.start..chunk.end);
        }
        prop_assert!(text[covered..].trim().is_empty());
        Ok(())
    });
}

fn any_mime() -> impl Strategy<Value = Mime> {
    prop::sample::select(vec![
        Mime::TEXT,
        Mime::MARKDOWN,
        Mime::HTML,
        Mime::Pdf,
        "text/plain; charset=utf-16le".parse().unwrap(),
        "text/html; charset=shift_jis".parse().unwrap(),
    ])
}

fn holds_together(page: &ExtractedText) -> Result<(), TestCaseError> {
    prop_assert!(!page.text.contains('\0'));
    let mut last = 0;
    for heading in &page.headings {
        prop_assert!(heading.offset >= last);
        prop_assert!(page.text[heading.offset..].starts_with(&heading.title));
        prop_assert!((1..=6).contains(&heading.level) && !heading.title.is_empty());
        last = heading.offset;
    }
    chunk(page, &ChunkOptions::default());
    Ok(())
}

#[test]
fn random_bytes_never_panic() {
    let bytes = prop::collection::vec(any::<u8>(), 0..2_000);
    check(1_000, (any_mime(), bytes), |(mime, bytes)| {
        let _ = Mime::sniff("name", &bytes);
        match extract(mime, &bytes) {
            Ok(page) => holds_together(&page),
            Err(_) => Ok(()),
        }
    });
}

#[test]
fn random_markup_is_always_read() {
    let part = prop_oneof![
        3 => "[a-z]{1,8} ?",
        4 => prop::sample::select(vec![
            "<p>", "</p>", "<h1>", "</h1>", "<h3>", "</h3>", "<ul>", "<li>", "</ul>", "<table>", "<tr>",
            "<td>", "</td>", "</table>", "<pre>", "</pre>", "<nav>", "</nav>", "<script>", "</script>",
            "<br>", "<img alt=' x '>", "&amp;", "&shy;", "&#0;", "<title>", "</title>", "<!--", "-->",
        ]).prop_map(str::to_owned),
        4 => prop::sample::select(vec![
            "\n# ", "\n## ", "\n---\n", "\n\n", "\n- ", "\n1. ", "\n> ", "\n```\n", "| a | b |\n|---|---|\n| ",
            "**", "`", "[", "](x)", "[^1]", "\n[^1]: ", "\n    ", "\\", "~~", "\t",
        ]).prop_map(str::to_owned),
    ];
    let markup = prop::collection::vec(part, 0..80).prop_map(|parts| parts.concat());
    let mime = prop::sample::select(vec![Mime::MARKDOWN, Mime::HTML]);
    check(1_000, (mime, markup), |(mime, markup)| {
        let page = extract(mime, markup.as_bytes());
        holds_together(&page.map_err(|error| TestCaseError::fail(error.to_string()))?)
    });
}

//! One test for each parser that reads bytes of others.

use emergent_fuzz::{
    runner::check,
    targets::{ALL, documents, protocols, texts},
};

macro_rules! parsers {
    ($($test:ident: $target:expr,)*) => {
        $(
            #[test]
            fn $test() {
                check(&$target);
            }
        )*

        const TESTED: &[&str] = &[$($target.name),*];
    };
}

parsers! {
    pdf: documents::PDF,
    html: documents::HTML,
    markdown: documents::MARKDOWN,
    text: documents::PLAIN,
    sse: protocols::SSE,
    mcp: protocols::MCP,
    manifest: texts::MANIFEST,
    script: texts::SCRIPT,
    text_query: texts::TEXT_QUERY,
    cron: texts::CRON,
    cursor: texts::CURSOR,
    filter: texts::FILTER,
    reserved_keys: texts::RESERVED_KEYS,
}

#[test]
fn every_parser_is_tested() {
    let all: Vec<_> = ALL.iter().map(|target| target.name).collect();
    assert_eq!(TESTED, all);
}

//! The parsers, each with valid samples and words that mean something to it.

pub mod documents;
pub mod protocols;
pub mod texts;

/// A parser to fuzz.
pub struct Target {
    pub name: &'static str,
    /// Valid inputs.
    pub samples: fn() -> Vec<Vec<u8>>,
    pub tokens: &'static [&'static str],
    /// Parses an input and returns everything that came out of it, also for an error. `Err` when a property of
    /// the output does not hold.
    pub parse: fn(&[u8]) -> Result<String, String>,
    /// The most bytes of output for an input of this length.
    pub max_output: fn(usize) -> usize,
}

/// All parsers.
pub const ALL: &[Target] = &[
    documents::PDF,
    documents::HTML,
    documents::MARKDOWN,
    documents::PLAIN,
    protocols::SSE,
    protocols::MCP,
    texts::MANIFEST,
    texts::SCRIPT,
    texts::TEXT_QUERY,
    texts::CRON,
    texts::CURSOR,
    texts::FILTER,
    texts::RESERVED_KEYS,
];

/// The parser's result as text.
fn shown<T: std::fmt::Debug, E: std::fmt::Debug>(result: &Result<T, E>) -> String {
    match result {
        Ok(value) => format!("ok {value:?}"),
        Err(error) => format!("error {error:?}"),
    }
}

/// Output that grows with the input. The text of a value has quotes, escapes and field names.
fn proportional(input: usize) -> usize {
    (64 << 10) + 16 * input
}

fn owned(samples: &[&str]) -> Vec<Vec<u8>> {
    samples.iter().map(|sample| sample.as_bytes().to_vec()).collect()
}

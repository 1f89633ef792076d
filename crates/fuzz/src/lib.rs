//! Fuzzing of every parser that reads bytes of others: documents, event streams, MCP messages, manifests, rehearsal
//! scripts, search queries, cron expressions, cursors, filters and reserved keys.
//!
//! A case is arbitrary bytes, or a valid sample with bytes changed, cut, repeated and mixed with words that mean
//! something to the parser. For each case the parser must not panic, must return in bounded time with an output of
//! bounded size, and must return the same when it is called again. A failing case is shrunk, and printed with the
//! seed that repeats it.
//!
//! `cargo test -p emergent-fuzz` runs a few hundred cases of each; `PROPTEST_CASES` sets how many, and
//! `scripts/parser-fuzz SECONDS` runs each parser for as long as asked. `scripts/coverage-fuzz SECONDS` does it with
//! libFuzzer (`coverage/`), which keeps the inputs that reach new code and changes those.

pub mod input;
pub mod runner;
pub mod targets;

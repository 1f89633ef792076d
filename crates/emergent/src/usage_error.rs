//! Errors of the command line in plain words. The parser of the command line says of a number what the parser of Rust
//! says, such as `invalid digit found in string`.

use std::{error::Error as _, process::ExitCode};

/// The exit code of a command line that cannot be used.
const EXIT_CODE: u8 = 2;
/// What Rust says about a text that is no number, and what a person reads instead.
const REASONS: [(&str, &str); 6] = [
    ("invalid digit found in string", "it is not a whole number"),
    ("number too large to fit in target type", "it is too large"),
    ("number too small to fit in target type", "it is too small"),
    ("cannot parse integer from empty string", "it is empty"),
    ("invalid float literal", "it is not a number"),
    ("cannot parse float from empty string", "it is empty"),
];

/// Prints why the command line cannot be used, or the help that was requested, and ends the process or returns its exit
/// code.
pub fn report(error: clap::Error) -> ExitCode {
    let reason = error.source().map(ToString::to_string).unwrap_or_default();
    let Some((said, plain)) = REASONS.iter().find(|(said, _)| *said == reason) else { error.exit() };
    let text = match console::colors_enabled_stderr() {
        true => error.render().ansi().to_string(),
        false => error.render().to_string(),
    };
    eprint!("{}", text.replacen(*said, plain, 1));
    ExitCode::from(EXIT_CODE)
}

//! Writes logs to stderr with known secrets redacted, whatever the level and whichever crate logs them:
//! libraries may log credentials at trace level.

use std::{
    io::{self, Write},
    sync::LazyLock,
};

use emergent_domain::redact::Redactor;
use tracing_subscriber::{EnvFilter, filter::LevelFilter, fmt::MakeWriter};

static REDACTOR: LazyLock<Redactor> = LazyLock::new(Redactor::default);

/// The redactor of this process, with the secrets it knows. It is global because logging starts before
/// the secrets are opened.
pub fn redactor() -> &'static Redactor {
    &REDACTOR
}

/// The crate for HTTP/2. It warns about each frame of a hostile connection, so that whoever can connect could fill the
/// disk with the log.
const HTTP2: &str = "h2";

/// The levels that a filter may name.
const LEVELS: &str = "`off`, `error`, `warn`, `info`, `debug` or `trace`";
/// The formats of the logs.
const FORMATS: [&str; 2] = ["text", "json"];

/// What is wrong with a filter of the logs; `None` if it can be used. A word alone has to be a level: as the name of a
/// module, which the filter would also accept, a misspelt level would silently switch the logs off.
pub fn filter_problem(filter: &str) -> Option<String> {
    let is_level = |word: &str| word.parse::<LevelFilter>().is_ok();
    for directive in filter.split(',').map(str::trim).filter(|directive| !directive.is_empty()) {
        let is_one_word =
            directive.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | ':' | '-'));
        let is_usable = if is_one_word { is_level(directive) } else { EnvFilter::try_new(directive).is_ok() };
        if !is_usable {
            return Some(format!(
                "`{directive}` is not a filter of the logs: use {LEVELS}, or one for a part of the program, such as \
                 `info,emergent_executor=debug`"
            ));
        }
    }
    None
}

/// What is wrong with a format of the logs; `None` if there is such a format.
pub fn format_problem(format: &str) -> Option<String> {
    (!FORMATS.contains(&format)).then(|| format!("`{format}` is not one of `{}`", FORMATS.join("`, `")))
}

/// The filter of the logs: the configured one if it can be used, or else the default. Unless it names the crate for
/// HTTP/2, only errors of that crate are logged.
pub fn filter(configured: Option<&str>, default: &str) -> EnvFilter {
    // One that cannot be used is refused when the settings are loaded, which is logged already.
    let is_usable = |filter: &&str| !filter.trim().is_empty() && filter_problem(filter).is_none();
    let usable = configured.filter(is_usable);
    let text = usable.unwrap_or(default);
    let names_http2 = text.split(',').any(|directive| {
        let target = directive.trim().split(['=', '[', ':']).next();
        target == Some(HTTP2)
    });
    match names_http2 {
        true => EnvFilter::new(text),
        false => EnvFilter::new(format!("{text},{HTTP2}=error")),
    }
}

/// Writes log events to stderr, redacted.
pub struct RedactingWriter;

impl<'a> MakeWriter<'a> for RedactingWriter {
    type Writer = Self;
    fn make_writer(&'a self) -> Self {
        Self
    }
}

impl Write for RedactingWriter {
    /// `tracing` passes each event in one call, so a secret is never split between two.
    fn write(&mut self, event: &[u8]) -> io::Result<usize> {
        io::stderr().write_all(&redactor().redact_bytes(event))?;
        Ok(event.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_that_is_no_level_is_no_filter() {
        for filter in [
            "info",
            "DEBUG",
            "off",
            "",
            "warn,",
            "emergent_executor=debug,warn",
            "info,h2=debug",
            "[run]=info",
        ] {
            assert_eq!(filter_problem(filter), None, "{filter}");
        }
        for filter in ["banana", "warn,banana", "x=loud", "emergent_executor", "infos"] {
            let problem = filter_problem(filter).unwrap();
            assert!(problem.contains("`trace`") && problem.contains("emergent_executor=debug"), "{problem}");
        }
        assert_eq!(format_problem("json"), None);
        assert_eq!(format_problem("xml").unwrap(), "`xml` is not one of `text`, `json`");
    }

    #[test]
    fn warnings_about_hostile_connections_are_left_out_unless_somebody_asks_for_them() {
        let directives = |configured, default| {
            let text = filter(configured, default).to_string();
            let mut directives: Vec<String> = text.split(',').map(str::to_owned).collect();
            directives.sort();
            directives
        };
        assert_eq!(directives(None, "info"), ["h2=error", "info"]);
        assert_eq!(directives(Some("debug"), "info"), ["debug", "h2=error"]);
        assert_eq!(directives(Some("info,h2=debug"), "info"), ["h2=debug", "info"]);
        assert_eq!(directives(Some("info,h2::proto=warn"), "info"), ["h2::proto=warn", "info"]);
        assert_eq!(directives(Some("x=loud"), "warn"), ["h2=error", "warn"]);
    }
}

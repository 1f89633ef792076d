//! Writes logs to stderr with known secrets redacted, whatever the level and whichever crate logs them:
//! libraries may log credentials at trace level.

use std::{
    io::{self, Write},
    sync::LazyLock,
};

use emergent_domain::redact::Redactor;
use tracing_subscriber::{EnvFilter, fmt::MakeWriter};

static REDACTOR: LazyLock<Redactor> = LazyLock::new(Redactor::default);

/// The redactor of this process, with the secrets it knows. It is global because logging starts before
/// the secrets are opened.
pub fn redactor() -> &'static Redactor {
    &REDACTOR
}

/// The crate for HTTP/2. It warns about each frame of a hostile connection, so that whoever can connect could fill the
/// disk with the log.
const HTTP2: &str = "h2";

/// The filter of the logs: the configured one if it can be parsed, or else the default. Unless it names the crate for
/// HTTP/2, only errors of that crate are logged.
pub fn filter(configured: Option<&str>, default: &str) -> EnvFilter {
    let is_usable = |filter: &&str| !filter.trim().is_empty() && EnvFilter::try_new(filter).is_ok();
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

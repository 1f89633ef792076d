//! Writes logs to stderr with known secrets redacted, whatever the level and whichever crate logs them:
//! libraries may log credentials at trace level.

use std::{
    io::{self, Write},
    sync::LazyLock,
};

use emergent_domain::redact::Redactor;
use tracing_subscriber::fmt::MakeWriter;

static REDACTOR: LazyLock<Redactor> = LazyLock::new(Redactor::default);

/// The redactor of this process, with the secrets it knows. It is global because logging starts before
/// the secrets are opened.
pub fn redactor() -> &'static Redactor {
    &REDACTOR
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

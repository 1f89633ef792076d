//! What is logged goes to stderr, without the secrets this process knows: at every level, whoever
//! logs it. What libraries say at trace level is nobody's promise.

use std::{
    io::{self, Write},
    sync::LazyLock,
};

use emergent_domain::redact::Redactor;
use tracing_subscriber::fmt::MakeWriter;

static REDACTOR: LazyLock<Redactor> = LazyLock::new(Redactor::default);

/// What this process knows of secrets. Logs are there before anything is opened, so it is the
/// process's.
pub fn redactor() -> &'static Redactor {
    &REDACTOR
}

/// Where logs are written.
pub struct RedactingWriter;

impl<'a> MakeWriter<'a> for RedactingWriter {
    type Writer = Self;
    fn make_writer(&'a self) -> Self {
        Self
    }
}

impl Write for RedactingWriter {
    /// An event arrives whole, so that no secret is cut in two.
    fn write(&mut self, event: &[u8]) -> io::Result<usize> {
        io::stderr().write_all(&redactor().redact_bytes(event))?;
        Ok(event.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
    }
}

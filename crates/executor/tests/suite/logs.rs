//! The log of all tests of this process.

use std::{
    io,
    sync::{Arc, OnceLock},
};

use parking_lot::Mutex;
use tracing_subscriber::fmt::MakeWriter;

/// The lines that were logged since the first call of [`capture`].
#[derive(Clone, Default)]
pub struct Logs(Arc<Mutex<Vec<u8>>>);

/// Returns the log of this process. It is written from the first call on.
pub fn capture() -> &'static Logs {
    static LOGS: OnceLock<Logs> = OnceLock::new();
    LOGS.get_or_init(|| {
        let logs = Logs::default();
        tracing_subscriber::fmt().with_writer(logs.clone()).with_ansi(false).init();
        logs
    })
}

impl Logs {
    /// Returns the lines that contain a text.
    pub fn lines_with(&self, text: &str) -> Vec<String> {
        let logged = String::from_utf8_lossy(&self.0.lock()).into_owned();
        logged.lines().filter(|line| line.contains(text)).map(str::to_owned).collect()
    }
}

impl io::Write for Logs {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Logs {
    type Writer = Logs;

    fn make_writer(&'a self) -> Logs {
        self.clone()
    }
}

//! Progress of long operations on stderr, on a terminal only.

use std::{io::IsTerminal, time::Duration};

use indicatif::{ProgressBar, ProgressStyle};

use crate::printable::printable_line;

/// How often the spinner and the elapsed time are redrawn.
pub const TICK_INTERVAL: Duration = Duration::from_millis(120);

/// A progress bar that counts bytes, or a spinner when the total is unknown. It is hidden off a terminal.
pub fn bytes(total: Option<u64>, activity: &str) -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let (bar, template) = match total {
        Some(total) => {
            (ProgressBar::new(total), "{msg}  {bar:30}  {bytes}/{total_bytes}  {bytes_per_sec}  {eta} left")
        }
        None => (ProgressBar::new_spinner(), "{spinner} {msg}  {bytes}  {bytes_per_sec}  {elapsed}"),
    };
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
    bar.set_message(printable_line(activity).into_owned());
    bar.enable_steady_tick(TICK_INTERVAL);
    bar
}

/// Runs an operation of unknown length, and shows what the command does and for how long.
pub async fn show_while<T>(activity: &str, operation: impl Future<Output = T>) -> T {
    let bar = match std::io::stderr().is_terminal() {
        true => ProgressBar::new_spinner(),
        false => ProgressBar::hidden(),
    };
    if let Ok(style) = ProgressStyle::with_template("{spinner} {msg}  {elapsed}") {
        bar.set_style(style);
    }
    bar.set_message(printable_line(activity).into_owned());
    bar.enable_steady_tick(TICK_INTERVAL);
    let outcome = operation.await;
    bar.finish_and_clear();
    outcome
}

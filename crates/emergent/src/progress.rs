//! Progress for what takes longer than a second, on a terminal only.

use std::{io::IsTerminal, time::Duration};

use indicatif::{ProgressBar, ProgressStyle};

/// A bar over a known number of bytes, or a spinner when nobody knows how many.
pub fn bytes(total: Option<u64>, what: &str) -> ProgressBar {
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
    bar.set_message(what.to_owned());
    bar.enable_steady_tick(Duration::from_millis(120));
    bar
}

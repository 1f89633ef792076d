//! How often tests kill a server, and when.

use std::{
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

/// How long a test waits for its clients before it kills the server anyway.
const PATIENCE: Duration = Duration::from_secs(3);

/// How often the server is killed: `usual`, or what `EMERGENT_SOAK_KILLS` says.
pub fn kills(usual: usize) -> usize {
    match std::env::var("EMERGENT_SOAK_KILLS") {
        Ok(text) => text.parse().expect("EMERGENT_SOAK_KILLS is a number"),
        Err(_) => usual,
    }
}

/// Waits until the clients are that far, or for as long as anybody would wait for them.
pub async fn wait_for_progress(progress: &AtomicUsize, moment: usize) {
    let reached = async {
        while progress.load(Ordering::Relaxed) < moment {
            tokio::time::sleep(Duration::from_micros(500)).await;
        }
    };
    let _ = tokio::time::timeout(PATIENCE, reached).await;
}

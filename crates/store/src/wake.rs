//! Wakes: hints that something changed, within this process and, through PostgreSQL `LISTEN/NOTIFY`, between
//! processes. A wake may be lost or arrive twice, so every waiter also polls.

use std::{collections::HashMap, time::Duration};

use parking_lot::Mutex;
use tokio::sync::watch;

/// The channels of this process.
#[derive(Default)]
pub struct Wake {
    /// The number of wakes of each channel. It only matters that the number changes.
    channels: Mutex<HashMap<String, watch::Sender<u64>>>,
}

impl Wake {
    /// Returns a waiter for the wakes of a channel from now on.
    pub fn subscribe(&self, channel: &str) -> Waiter {
        let mut channels = self.channels.lock();
        // Removes channels without waiters. Names contain ids, so the map would grow without limit.
        channels.retain(|name, sender| sender.receiver_count() > 0 || name == channel);
        let sender = channels.entry(channel.to_owned()).or_insert_with(|| watch::channel(0).0);
        Waiter(sender.subscribe())
    }

    /// Wakes a channel and its family: `events:<project>` also wakes the waiters of `events`.
    pub(crate) fn notify(&self, channel: &str) {
        let channels = self.channels.lock();
        let family = channel.split_once(':').map(|(family, _)| family);
        for name in [Some(channel), family].into_iter().flatten() {
            if let Some(sender) = channels.get(name) {
                sender.send_modify(|count| *count += 1);
            }
        }
    }

    /// Wakes every channel. Called when the connection that receives wakes was lost, since some may be
    /// missing.
    pub(crate) fn notify_all(&self) {
        for sender in self.channels.lock().values() {
            sender.send_modify(|count| *count += 1);
        }
    }
}

/// Waits for the wakes of one channel.
pub struct Waiter(watch::Receiver<u64>);

impl Waiter {
    /// Returns at the first wake since the last call, and at the latest after `timeout`, because a wake can
    /// be lost.
    pub async fn wait(&mut self, timeout: Duration) {
        self.wait_for_wake(timeout).await;
    }

    /// As [`Waiter::wait`]; false when no wake came in that time.
    pub async fn wait_for_wake(&mut self, timeout: Duration) -> bool {
        match tokio::time::timeout(timeout, self.0.changed()).await {
            Ok(Ok(())) => true,
            // The channel closes only when the `Wake` is dropped. No wake can arrive then, so this only waits.
            Ok(Err(_)) => {
                tokio::time::sleep(timeout).await;
                false
            }
            Err(_) => false,
        }
    }
}

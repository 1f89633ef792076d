//! Wakes: a hint that something changed, in this process and, over `LISTEN/NOTIFY`, in the
//! others. A hint may be lost or come twice; whoever waits also polls.

use std::{collections::HashMap, time::Duration};

use parking_lot::Mutex;
use tokio::sync::watch;

#[derive(Default)]
pub struct Wake {
    channels: Mutex<HashMap<String, watch::Sender<u64>>>,
}

impl Wake {
    /// Hears what happens on a channel from now on.
    pub fn subscribe(&self, channel: &str) -> Waiter {
        let mut channels = self.channels.lock();
        // Channels that nobody listens to any more are forgotten, so names may carry ids.
        channels.retain(|name, sender| sender.receiver_count() > 0 || name == channel);
        let sender = channels.entry(channel.to_owned()).or_insert_with(|| watch::channel(0).0);
        Waiter(sender.subscribe())
    }

    /// Wakes a channel and its family: whoever listens to `events` hears `events:<project>` too.
    pub(crate) fn notify(&self, channel: &str) {
        let channels = self.channels.lock();
        let family = channel.split_once(':').map(|(family, _)| family);
        for name in [Some(channel), family].into_iter().flatten() {
            if let Some(sender) = channels.get(name) {
                sender.send_modify(|count| *count += 1);
            }
        }
    }

    /// Every channel at once: after a connection that carried wakes was lost.
    pub(crate) fn notify_all(&self) {
        for sender in self.channels.lock().values() {
            sender.send_modify(|count| *count += 1);
        }
    }
}

pub struct Waiter(watch::Receiver<u64>);

impl Waiter {
    /// Returns at a wake since the last call, or after `at_most`: the safety net.
    pub async fn wait(&mut self, at_most: Duration) {
        // A closed channel cannot happen while the store lives; then the poll is all there is.
        if let Ok(Err(_)) = tokio::time::timeout(at_most, self.0.changed()).await {
            tokio::time::sleep(at_most).await;
        }
    }
}

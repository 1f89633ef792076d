//! Distributes live events of the runs that this process drives. Nothing is stored here: the durable
//! events are in the database, and a subscriber that falls behind reads them there.

use std::{collections::HashMap, sync::Arc};

use emergent_domain::{ids::RunId, run_event::RunEvent};
use parking_lot::Mutex;
use tokio::sync::broadcast;

/// A subscriber that falls behind by more events than this has to read the database.
const CHANNEL_CAPACITY: usize = 256;

/// The channels of the runs that have subscribers. Clones share them.
#[derive(Clone, Default)]
pub struct EventHub(Arc<Mutex<HashMap<RunId, broadcast::Sender<Arc<RunEvent>>>>>);

impl EventHub {
    /// Receives all events that the run publishes from now on.
    pub fn subscribe(&self, run: RunId) -> broadcast::Receiver<Arc<RunEvent>> {
        let mut runs = self.0.lock();
        // Runs without subscribers are removed, so the map does not grow.
        runs.retain(|_, sender| sender.receiver_count() > 0);
        runs.entry(run).or_insert_with(|| broadcast::channel(CHANNEL_CAPACITY).0).subscribe()
    }

    /// Whether anyone is subscribed. Callers check this first, so that no event is built for nobody.
    pub fn has_subscribers(&self, run: RunId) -> bool {
        self.0.lock().get(&run).is_some_and(|sender| sender.receiver_count() > 0)
    }

    /// Sends an event to the subscribers of its run.
    pub fn publish(&self, event: RunEvent) {
        let sender = self.0.lock().get(&event.run).cloned();
        if let Some(sender) = sender {
            // Sending fails only without receivers, which is not an error.
            let _ = sender.send(Arc::new(event));
        }
    }
}

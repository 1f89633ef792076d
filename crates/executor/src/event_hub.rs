//! Live events of the runs this process drives, for whoever follows them. Nothing here is kept:
//! what lasts is in the database, and a follower that falls behind reads it there.

use std::{collections::HashMap, sync::Arc};

use emergent_domain::{ids::RunId, run_event::RunEvent};
use parking_lot::Mutex;
use tokio::sync::broadcast;

/// What a follower may be behind before it has to read the database.
const CHANNEL_CAPACITY: usize = 256;

#[derive(Clone, Default)]
pub struct EventHub(Arc<Mutex<HashMap<RunId, broadcast::Sender<Arc<RunEvent>>>>>);

impl EventHub {
    /// Hears what a run tells from now on.
    pub fn subscribe(&self, run: RunId) -> broadcast::Receiver<Arc<RunEvent>> {
        let mut runs = self.0.lock();
        // Of runs that nobody follows any more, nothing stays.
        runs.retain(|_, sender| sender.receiver_count() > 0);
        runs.entry(run).or_insert_with(|| broadcast::channel(CHANNEL_CAPACITY).0).subscribe()
    }

    /// Whether anybody listens: events are not even made for nobody.
    pub fn has_subscribers(&self, run: RunId) -> bool {
        self.0.lock().get(&run).is_some_and(|sender| sender.receiver_count() > 0)
    }

    pub fn publish(&self, event: RunEvent) {
        let sender = self.0.lock().get(&event.run).cloned();
        if let Some(sender) = sender {
            // Nobody listening is no error.
            let _ = sender.send(Arc::new(event));
        }
    }
}

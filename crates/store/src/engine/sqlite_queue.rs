//! The queue of the SQLite writer. Leases and health checks are taken first: otherwise the renewal of a lease
//! would wait for every write that came before it, and several slow ones would make it late.

use std::collections::VecDeque;

use tokio::sync::mpsc;

/// The capacity of the channel. When it is full, callers wait until an item is taken from it.
const CAPACITY: usize = 4096;

/// Something that waits in the queue.
pub(super) trait Queued {
    /// Whether it is taken before others.
    fn is_urgent(&self) -> bool;
}

/// The receiving end of the queue, which belongs to the writer thread.
pub(super) struct WriteQueue<T> {
    channel: mpsc::Receiver<T>,
    urgent: VecDeque<T>,
    ordinary: VecDeque<T>,
}

/// Creates a queue and the handle with which callers add to it.
pub(super) fn write_queue<T: Queued>() -> (mpsc::Sender<T>, WriteQueue<T>) {
    let (sender, channel) = mpsc::channel(CAPACITY);
    (sender, WriteQueue { channel, urgent: VecDeque::new(), ordinary: VecDeque::new() })
}

impl<T: Queued> WriteQueue<T> {
    /// Takes the next item if there is one.
    pub(super) fn try_take(&mut self) -> Option<T> {
        // What has arrived is sorted, up to a limit, so that callers still wait when there is too much.
        while self.ordinary.len() < CAPACITY {
            let Ok(item) = self.channel.try_recv() else { break };
            self.sort(item);
        }
        self.urgent.pop_front().or_else(|| self.ordinary.pop_front())
    }

    /// Takes the next item, and waits for one. Returns `None` when the queue is empty and nobody can add to it
    /// any more.
    pub(super) fn take(&mut self) -> Option<T> {
        self.try_take().or_else(|| self.channel.blocking_recv())
    }

    fn sort(&mut self, item: T) {
        if item.is_urgent() {
            self.urgent.push_back(item);
        } else {
            self.ordinary.push_back(item);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq)]
    struct Item(&'static str, bool);

    impl Queued for Item {
        fn is_urgent(&self) -> bool {
            self.1
        }
    }

    #[test]
    fn urgent_items_are_taken_first_and_others_in_their_order() {
        let (sender, mut queue) = write_queue();
        for item in [Item("a", false), Item("b", false), Item("lease", true)] {
            sender.try_send(item).unwrap();
        }
        assert_eq!(queue.take().unwrap().0, "lease");
        assert_eq!(queue.take().unwrap().0, "a");
        sender.try_send(Item("check", true)).unwrap();
        assert_eq!(queue.take().unwrap().0, "check");
        drop(sender);
        assert_eq!(queue.take().unwrap().0, "b");
        assert_eq!(queue.take(), None);
    }
}

//! Limits how many connections are used at once, and divides them fairly.
//!
//! One project may use two thirds of the connections, so that others are served while its queries run. When
//! all are in use, the next free one goes to the requester that uses the fewest. Some more are reserved for
//! authentication and health checks.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
    time::Duration,
};

use parking_lot::Mutex;
use tokio::sync::oneshot;

use crate::requester::Requester;

/// The slots for connections; clones share them.
#[derive(Clone)]
pub(crate) struct Slots(Arc<Inner>);

struct Inner {
    /// The slots for everybody.
    general: usize,
    /// Further slots, for [`Requester::Priority`] only.
    reserved: usize,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The slots in use without those of [`Requester::Priority`].
    general_in_use: usize,
    in_use: usize,
    queues: HashMap<Requester, Queue>,
    next_ticket: u64,
}

/// The use of one requester.
#[derive(Default)]
struct Queue {
    in_use: usize,
    /// Those that wait, with a number that increases in the order of their arrival.
    waiting: VecDeque<(u64, oneshot::Sender<Slot>)>,
}

/// The permission to use a connection, until it is dropped.
pub(crate) struct Slot {
    slots: Slots,
    requester: Requester,
}

impl Slots {
    pub(crate) fn new(general: usize, reserved: usize) -> Self {
        Self(Arc::new(Inner { general: general.max(1), reserved, state: Mutex::default() }))
    }

    /// Takes a slot if one is free for this requester.
    pub(crate) fn try_take(&self, requester: Requester) -> Option<Slot> {
        let mut state = self.0.state.lock();
        self.0.may_take(&state, requester).then(|| {
            state.count(requester);
            Slot { slots: self.clone(), requester }
        })
    }

    /// Takes a slot, and waits for one if necessary. Returns `None` if none became free in time.
    pub(crate) async fn take(&self, requester: Requester, max_wait: Duration) -> Option<Slot> {
        let receiver = {
            let mut state = self.0.state.lock();
            if self.0.may_take(&state, requester) {
                state.count(requester);
                return Some(Slot { slots: self.clone(), requester });
            }
            let (sender, receiver) = oneshot::channel();
            let ticket = state.next_ticket;
            state.next_ticket += 1;
            state.queues.entry(requester).or_default().waiting.push_back((ticket, sender));
            receiver
        };
        tokio::time::timeout(max_wait, receiver).await.ok()?.ok()
    }

    /// Ends the use of a slot, and gives it to the next that waits.
    fn release(&self, requester: Requester) {
        let mut state = self.0.state.lock();
        state.uncount(requester);
        while let Some((next, sender)) = self.0.pop_next(&mut state) {
            if sender.is_closed() {
                continue;
            }
            state.count(next);
            drop(state);
            // If the receiver was dropped at this moment, the slot is dropped here and released again.
            let _ = sender.send(Slot { slots: self.clone(), requester: next });
            return;
        }
    }
}

impl Inner {
    fn may_take(&self, state: &State, requester: Requester) -> bool {
        if state.in_use >= self.general + self.reserved {
            return false;
        }
        let own = state.queues.get(&requester).map_or(0, |queue| queue.in_use);
        match requester {
            Requester::Priority => true,
            Requester::Server => state.general_in_use < self.general,
            Requester::AllProjects | Requester::Project(_) => {
                state.general_in_use < self.general && own < self.per_requester()
            }
        }
    }

    /// The most slots of one project.
    fn per_requester(&self) -> usize {
        (self.general - self.general / 3).max(1)
    }

    /// Removes the waiter that may take a slot now and whose requester uses the fewest.
    fn pop_next(&self, state: &mut State) -> Option<(Requester, oneshot::Sender<Slot>)> {
        let now: &State = state;
        let next = now
            .queues
            .iter()
            .filter(|(requester, _)| self.may_take(now, **requester))
            .filter_map(|(requester, queue)| {
                let (ticket, _) = queue.waiting.front()?;
                Some((*requester != Requester::Priority, queue.in_use, *ticket, *requester))
            })
            .min_by_key(|(after_priority, in_use, ticket, _)| (*after_priority, *in_use, *ticket));
        let (.., requester) = next?;
        let queue = state.queues.get_mut(&requester)?;
        let (_, sender) = queue.waiting.pop_front()?;
        if queue.in_use == 0 && queue.waiting.is_empty() {
            state.queues.remove(&requester);
        }
        Some((requester, sender))
    }
}

impl State {
    fn count(&mut self, requester: Requester) {
        self.in_use += 1;
        self.general_in_use += usize::from(requester != Requester::Priority);
        self.queues.entry(requester).or_default().in_use += 1;
    }

    fn uncount(&mut self, requester: Requester) {
        self.in_use -= 1;
        self.general_in_use -= usize::from(requester != Requester::Priority);
        if let Some(queue) = self.queues.get_mut(&requester) {
            queue.in_use -= 1;
            if queue.in_use == 0 && queue.waiting.is_empty() {
                self.queues.remove(&requester);
            }
        }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.slots.release(self.requester);
    }
}

#[cfg(test)]
mod tests {
    use emergent_domain::ids::ProjectId;

    use super::*;

    fn take_all(slots: &Slots, requester: Requester) -> Vec<Slot> {
        std::iter::from_fn(|| slots.try_take(requester)).collect()
    }

    #[tokio::test]
    async fn one_project_leaves_slots_for_others_and_for_authentication() {
        let slots = Slots::new(6, 2);
        let (one, two) = (Requester::Project(ProjectId::new()), Requester::Project(ProjectId::new()));
        let of_one = take_all(&slots, one);
        let of_two = take_all(&slots, two);
        assert_eq!((of_one.len(), of_two.len()), (4, 2));
        assert!(slots.try_take(Requester::Server).is_none());
        assert_eq!(take_all(&slots, Requester::Priority).len(), 2);
        drop((of_one, of_two));
        assert!(slots.0.state.lock().queues.is_empty(), "requesters without a slot use no memory");
    }

    #[tokio::test]
    async fn the_requester_that_uses_the_fewest_is_next() {
        let slots = Slots::new(3, 0);
        let (one, two) = (Requester::Project(ProjectId::new()), Requester::Project(ProjectId::new()));
        let mut of_one = take_all(&slots, one);
        let _of_server = slots.try_take(Requester::Server).unwrap();
        let wait = Duration::from_secs(60);
        let (first, second) = (slots.clone(), slots.clone());
        let first = tokio::spawn(async move { first.take(one, wait).await });
        tokio::task::yield_now().await;
        let second = tokio::spawn(async move { second.take(two, wait).await });
        tokio::task::yield_now().await;
        of_one.pop();
        let second = second.await.unwrap().expect("a slot");
        assert!(!first.is_finished(), "it came earlier, but its project still uses one");
        drop(second);
        assert!(first.await.unwrap().is_some());
    }

    #[tokio::test]
    async fn a_waiter_that_gave_up_gets_no_slot() {
        let slots = Slots::new(1, 0);
        let taken = slots.try_take(Requester::Server).unwrap();
        assert!(slots.take(Requester::Server, Duration::from_millis(5)).await.is_none());
        drop(taken);
        assert!(slots.try_take(Requester::Server).is_some());
    }
}

//! Limits how many connections are used at once, and divides them fairly.
//!
//! One project may use two thirds of the connections, so that others are served while its queries run, and a few for
//! each processor, because each connection that reads megabytes keeps a processor busy. All projects together leave a
//! quarter to the server's own work, which is one requester among many projects and drives the runs of all of them; it
//! leaves a quarter to them. When all are in use, the next free one goes to the requester that uses the fewest. The
//! server's own work has a few for each processor as well, and more of them the farther the database is. Some more are
//! reserved: for authentication, and one of them for leases and health checks only.

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
    /// Further slots, for [`Requester::Priority`] and [`Requester::Authentication`].
    reserved: usize,
    /// The most slots of one project.
    max_of_project: usize,
    /// The most slots of the server's own work, if its share allows as many.
    max_of_server: usize,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    in_use: usize,
    /// The slots in use for the work of projects and of the server.
    general_in_use: usize,
    /// The slots in use on behalf of projects and operators.
    projects_in_use: usize,
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
        Self::with_limits(general, reserved, usize::MAX, usize::MAX)
    }

    /// Like [`Slots::new`], but neither one project nor the server's own work ever has more than this many slots.
    pub(crate) fn with_limits(
        general: usize,
        reserved: usize,
        max_of_project: usize,
        max_of_server: usize,
    ) -> Self {
        let general = general.max(1);
        let max_of_project = max_of_project.min(general - general / 3).max(1);
        Self(Arc::new(Inner { general, reserved, max_of_project, max_of_server, state: Mutex::default() }))
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

    /// Ends the use of a slot, and gives slots to all that wait and may take one now. They can be several: what one
    /// of them waited for is not always what the other one waited for.
    fn release(&self, requester: Requester) {
        let mut given = Vec::new();
        {
            let mut state = self.0.state.lock();
            state.uncount(requester);
            while let Some((next, sender)) = self.0.pop_next(&mut state) {
                if !sender.is_closed() {
                    state.count(next);
                    given.push((next, sender));
                }
            }
        }
        for (next, sender) in given {
            // If the receiver was dropped at this moment, the slot is dropped here and released again.
            let _ = sender.send(Slot { slots: self.clone(), requester: next });
        }
    }
}

impl Inner {
    fn may_take(&self, state: &State, requester: Requester) -> bool {
        let total = self.general + self.reserved;
        if state.in_use >= total {
            return false;
        }
        let own = state.queues.get(&requester).map_or(0, |queue| queue.in_use);
        match requester {
            Requester::Priority => true,
            Requester::Authentication => {
                own < self.max_of_authentication() && self.leaves_room_for_priority(state)
            }
            Requester::DoubtedAuthentication => own == 0 && state.general_in_use < self.general,
            Requester::Server => state.general_in_use < self.general && own < self.max_of_server(),
            Requester::AllProjects | Requester::Project(_) => {
                state.general_in_use < self.general
                    && state.projects_in_use < self.general - self.share_of_server()
                    && own < self.max_of_project
            }
        }
    }

    /// Whether one more slot may be used without taking the last one, which is left for leases and health
    /// checks. With a single reserved slot, authentication shares it.
    fn leaves_room_for_priority(&self, state: &State) -> bool {
        self.reserved < 2 || state.in_use + 1 < self.general + self.reserved
    }

    /// The slots that projects leave to the server's own work.
    fn share_of_server(&self) -> usize {
        match self.general {
            1 => 0,
            general => (general / 4).max(1),
        }
    }

    /// The most slots of the server's own work. It leaves at least as many to projects as they leave to it.
    fn max_of_server(&self) -> usize {
        (self.general - self.share_of_server()).min(self.max_of_server).max(1)
    }

    /// The most slots of authentication. Its reads are short, so a few suffice.
    fn max_of_authentication(&self) -> usize {
        self.reserved.max(self.general / 4).max(1)
    }

    /// The order in which waiters of different requesters get a slot: first by class, then by use. Below its
    /// share the server comes before projects, and above it counts as a project for each share it uses. Doubted
    /// lookups count as a project: they use one slot, so they can delay others little, and valid tokens are among
    /// them.
    fn rank(&self, requester: Requester, in_use: usize) -> (u8, usize) {
        let share = self.share_of_server().max(1);
        match requester {
            Requester::Priority => (0, in_use),
            Requester::Authentication => (1, in_use),
            Requester::Server if in_use < share => (2, in_use),
            Requester::Server => (3, in_use / share),
            Requester::AllProjects | Requester::Project(_) | Requester::DoubtedAuthentication => (3, in_use),
        }
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
                Some((self.rank(*requester, queue.in_use), *ticket, *requester))
            })
            .min_by_key(|(rank, ticket, _)| (*rank, *ticket));
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
        let (is_general, is_project) = kind(requester);
        self.in_use += 1;
        self.general_in_use += usize::from(is_general);
        self.projects_in_use += usize::from(is_project);
        self.queues.entry(requester).or_default().in_use += 1;
    }

    fn uncount(&mut self, requester: Requester) {
        let (is_general, is_project) = kind(requester);
        self.in_use -= 1;
        self.general_in_use -= usize::from(is_general);
        self.projects_in_use -= usize::from(is_project);
        if let Some(queue) = self.queues.get_mut(&requester) {
            queue.in_use -= 1;
            if queue.in_use == 0 && queue.waiting.is_empty() {
                self.queues.remove(&requester);
            }
        }
    }
}

/// Whether a requester uses general slots, and whether it counts as a project.
fn kind(requester: Requester) -> (bool, bool) {
    match requester {
        Requester::Priority | Requester::Authentication => (false, false),
        Requester::Server | Requester::DoubtedAuthentication => (true, false),
        Requester::AllProjects | Requester::Project(_) => (true, true),
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
        assert_eq!((of_one.len(), of_two.len()), (4, 1));
        let of_server = take_all(&slots, Requester::Server);
        assert_eq!(of_server.len(), 1, "projects leave a share to the server");
        assert!(slots.try_take(Requester::DoubtedAuthentication).is_none());
        let of_authentication = take_all(&slots, Requester::Authentication);
        assert_eq!(of_authentication.len(), 1);
        assert_eq!(take_all(&slots, Requester::Priority).len(), 1, "the last one is for leases");
        drop((of_one, of_two, of_server, of_authentication));
        assert!(slots.0.state.lock().queues.is_empty(), "requesters without a slot use no memory");
    }

    #[tokio::test]
    async fn one_project_has_at_most_as_many_slots_as_its_limit_says() {
        let slots = Slots::with_limits(30, 2, 8, usize::MAX);
        let (one, two) = (Requester::Project(ProjectId::new()), Requester::Project(ProjectId::new()));
        let of_one = take_all(&slots, one);
        assert_eq!((of_one.len(), take_all(&slots, two).len()), (8, 8));
    }

    #[tokio::test]
    async fn the_server_has_at_most_as_many_slots_as_its_limit_and_its_share_allow() {
        for (max_of_server, expected) in [(10, 10), (100, 23)] {
            let slots = Slots::with_limits(30, 2, 8, max_of_server);
            assert_eq!(take_all(&slots, Requester::Server).len(), expected);
        }
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
    async fn many_projects_cannot_starve_the_server() {
        let slots = Slots::new(12, 2);
        let of_projects: Vec<Slot> =
            (0..40).filter_map(|_| slots.try_take(Requester::Project(ProjectId::new()))).collect();
        assert_eq!(of_projects.len(), 9);
        let of_server = take_all(&slots, Requester::Server);
        assert_eq!(of_server.len(), 3);
        drop((of_projects, of_server));
        let _of_server = take_all(&slots, Requester::Server);
        let of_projects: Vec<Slot> =
            (0..40).filter_map(|_| slots.try_take(Requester::Project(ProjectId::new()))).collect();
        assert_eq!(of_projects.len(), 3, "and the server cannot starve them");
    }

    #[tokio::test]
    async fn the_server_comes_first_until_it_has_its_share() {
        let slots = Slots::new(8, 0);
        let mut in_use: Vec<Slot> = take_all(&slots, Requester::Server);
        assert_eq!(in_use.len(), 6, "the server leaves a quarter");
        let _of_another = take_all(&slots, Requester::Project(ProjectId::new()));
        let wait = Duration::from_secs(60);
        let mut waiting = Vec::new();
        for requester in [Requester::Project(ProjectId::new()), Requester::Server] {
            let slots = slots.clone();
            waiting.push(tokio::spawn(async move { slots.take(requester, wait).await }));
            tokio::task::yield_now().await;
        }
        // Above its share of two, the server waits for a project that uses fewer.
        in_use.pop();
        let of_project = waiting.remove(0).await.unwrap();
        assert!(of_project.is_some() && !waiting[0].is_finished());
        in_use.truncate(1);
        assert!(waiting.remove(0).await.unwrap().is_some());
    }

    #[tokio::test]
    async fn a_flood_of_logins_leaves_slots_for_all_others() {
        let slots = Slots::new(6, 2);
        let logins = take_all(&slots, Requester::Authentication);
        let doubted = take_all(&slots, Requester::DoubtedAuthentication);
        assert_eq!((logins.len(), doubted.len()), (2, 1));
        assert!(slots.try_take(Requester::Server).is_some());
        assert!(slots.try_take(Requester::Project(ProjectId::new())).is_some());
        assert!(slots.try_take(Requester::Priority).is_some());
    }

    #[tokio::test]
    async fn a_release_serves_everybody_who_may_take_a_slot_now() {
        let slots = Slots::new(6, 2);
        let (one, other) = (Requester::Project(ProjectId::new()), Requester::Project(ProjectId::new()));
        let mut of_one = take_all(&slots, one);
        let _others = (slots.try_take(other).unwrap(), take_two(&slots, Requester::Priority));
        // The project has all that it may have. Authentication would take the last slot, which is for leases.
        let wait = Duration::from_secs(60);
        let mut waiting = Vec::new();
        for requester in [one, Requester::Authentication] {
            let slots = slots.clone();
            waiting.push(tokio::spawn(async move { slots.take(requester, wait).await }));
            tokio::task::yield_now().await;
        }
        assert!(waiting.iter().all(|waiting| !waiting.is_finished()));
        of_one.pop();
        for waiting in waiting {
            let slot = tokio::time::timeout(Duration::from_secs(5), waiting).await;
            assert!(slot.expect("in time").unwrap().is_some());
        }
    }

    fn take_two(slots: &Slots, requester: Requester) -> [Slot; 2] {
        [slots.try_take(requester).unwrap(), slots.try_take(requester).unwrap()]
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

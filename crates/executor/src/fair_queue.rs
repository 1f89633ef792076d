//! Whose queued runs come next when slots are scarce: those of the project that uses the fewest slots and,
//! among equals, of the project whose last share was the longest ago. Everything here is a value; the runner
//! reads the queue and claims the runs.

use std::{
    cmp::Reverse,
    collections::{BinaryHeap, HashMap, HashSet},
};

use emergent_domain::ids::ProjectId;

/// The order of this many projects is stored; then it starts anew.
const MAX_ORDERED: usize = 10_000;

/// A project with queued runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Candidate {
    pub project: ProjectId,
    /// How many slots it uses.
    pub in_use: usize,
    /// How many more slots it may use.
    pub left: usize,
}

/// How many runs of a project to claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Share {
    pub project: ProjectId,
    pub runs: usize,
}

/// The order in which projects last got a share.
#[derive(Debug, Clone, Default)]
pub(crate) struct ClaimOrder {
    count: u64,
    last: HashMap<ProjectId, u64>,
}

impl ClaimOrder {
    /// Divides free slots between the candidates, one slot after the other. The shares are in the order
    /// in which they begin. Candidates that are equal in everything else come in the order of the list.
    pub fn divide(&self, free: usize, candidates: &[Candidate]) -> Vec<Share> {
        let last = |project: &ProjectId| self.last.get(project).copied().unwrap_or(0);
        let mut next: BinaryHeap<_> = candidates
            .iter()
            .enumerate()
            .filter(|(_, candidate)| candidate.left > 0)
            .map(|(index, candidate)| Reverse((candidate.in_use, last(&candidate.project), index)))
            .collect();
        let mut shares: Vec<Share> = Vec::new();
        let mut given: HashMap<usize, usize> = HashMap::new();
        for _ in 0..free {
            let Some(Reverse((in_use, last, index))) = next.pop() else { break };
            let candidate = &candidates[index];
            let share = *given.entry(index).or_insert_with(|| {
                shares.push(Share { project: candidate.project, runs: 0 });
                shares.len() - 1
            });
            shares[share].runs += 1;
            if shares[share].runs < candidate.left {
                next.push(Reverse((in_use + 1, last, index)));
            }
        }
        shares
    }

    /// Records that runs of a project were claimed.
    pub fn record(&mut self, project: ProjectId) {
        if self.last.len() > MAX_ORDERED {
            self.last.clear();
        }
        self.count += 1;
        self.last.insert(project, self.count);
    }
}

/// What a runner knows about the runs that wait for its slots.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct WaitingProjects {
    /// Runs were queued since the queue was read, and it is not known whose they are.
    is_unread: bool,
    /// The projects with queued runs that can be claimed.
    queued: HashSet<ProjectId>,
    /// Whether one of them could start a run if a slot were free.
    has_startable: bool,
}

impl WaitingProjects {
    /// What was read: the projects with queued runs, and whether one of them may use more slots.
    pub fn new(queued: impl IntoIterator<Item = ProjectId>, has_startable: bool) -> Self {
        Self { is_unread: false, queued: queued.into_iter().collect(), has_startable }
    }

    /// Records that a run was queued which this value does not include.
    pub fn add_unread(&mut self) {
        self.is_unread = true;
    }

    /// Whether a new run of a project has to wait: behind the queued runs of the same project, which are older,
    /// or behind another project, because the runner decides which project is next.
    pub fn is_before(&self, project: ProjectId) -> bool {
        self.is_unread || self.has_startable || self.queued.contains(&project)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidates<const N: usize>(use_and_left: [(usize, usize); N]) -> [Candidate; N] {
        use_and_left.map(|(in_use, left)| Candidate { project: ProjectId::new(), in_use, left })
    }

    /// How many runs each candidate gets.
    fn counts(shares: &[Share], candidates: &[Candidate]) -> Vec<usize> {
        let count = |candidate: &Candidate| {
            shares.iter().find(|share| share.project == candidate.project).map_or(0, |share| share.runs)
        };
        candidates.iter().map(count).collect()
    }

    #[test]
    fn slots_go_to_the_projects_that_use_the_fewest() {
        for (free, waiting, expected) in [
            (1, [(3, 9), (2, 9), (5, 9)], [0, 1, 0]),
            (4, [(3, 9), (2, 9), (5, 9)], [2, 2, 0]),
            (9, [(3, 9), (2, 9), (5, 9)], [4, 4, 1]),
            (9, [(0, 1), (0, 2), (0, 3)], [1, 2, 3]),
            (5, [(0, 9), (0, 0), (7, 1)], [5, 0, 0]),
        ] {
            let waiting = candidates(waiting);
            let shares = ClaimOrder::default().divide(free, &waiting);
            assert_eq!(counts(&shares, &waiting), expected, "{free} slots");
        }
    }

    #[test]
    fn equal_projects_alternate() {
        let waiting = candidates([(1, 5), (1, 5), (1, 5)]);
        let mut order = ClaimOrder::default();
        let mut total = vec![0; 3];
        for _ in 0..6 {
            let shares = order.divide(1, &waiting);
            shares.iter().for_each(|share| order.record(share.project));
            total = total.iter().zip(counts(&shares, &waiting)).map(|(a, b)| a + b).collect();
        }
        assert_eq!(total, [2, 2, 2]);
    }

    #[test]
    fn a_tie_goes_to_the_project_whose_last_share_was_the_longest_ago() {
        let waiting = candidates([(3, 5), (3, 5)]);
        let mut order = ClaimOrder::default();
        assert_eq!(counts(&order.divide(1, &waiting), &waiting), [1, 0], "the order of the list");
        order.record(waiting[0].project);
        assert_eq!(counts(&order.divide(1, &waiting), &waiting), [0, 1]);
        assert_eq!(counts(&order.divide(1, &waiting), &waiting), [0, 1], "a share alone does not count");
        order.record(waiting[1].project);
        assert_eq!(counts(&order.divide(1, &waiting), &waiting), [1, 0]);
    }

    #[test]
    fn a_new_run_waits_behind_its_own_project_and_behind_others_that_could_start() {
        let (one, other) = (ProjectId::new(), ProjectId::new());
        assert!(!WaitingProjects::default().is_before(one));
        assert!(WaitingProjects::new([one], true).is_before(one));
        assert!(WaitingProjects::new([one], false).is_before(one), "its older runs are first");
        assert!(WaitingProjects::new([other], true).is_before(one));
        assert!(!WaitingProjects::new([other], false).is_before(one), "the other may use no more slots");
        let mut unread = WaitingProjects::default();
        unread.add_unread();
        assert!(unread.is_before(one));
    }
}

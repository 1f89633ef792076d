//! Whose queued runs come next when slots are scarce: those of the project that uses the fewest slots and,
//! among equals, of the project whose last share was the longest ago. Everything here is a value; the runner
//! reads the queue and claims the runs.

use std::{
    cmp::Reverse,
    collections::{BinaryHeap, HashMap},
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
    /// in which they begin.
    pub fn divide(&mut self, free: usize, candidates: &[Candidate]) -> Vec<Share> {
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
        if self.last.len() > MAX_ORDERED {
            self.last.clear();
        }
        for share in &shares {
            self.count += 1;
            self.last.insert(share.project, self.count);
        }
        shares
    }
}

/// The projects whose queued runs could start if a slot were free.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum WaitingProjects {
    #[default]
    None,
    One(ProjectId),
    Several,
}

impl WaitingProjects {
    pub fn new(projects: impl IntoIterator<Item = ProjectId>) -> Self {
        let mut projects = projects.into_iter();
        match (projects.next(), projects.next()) {
            (None, _) => Self::None,
            (Some(project), None) => Self::One(project),
            (Some(_), Some(_)) => Self::Several,
        }
    }

    /// Whether another project than this one waits.
    pub fn includes_other_than(self, project: ProjectId) -> bool {
        match self {
            Self::None => false,
            Self::One(waiting) => waiting != project,
            Self::Several => true,
        }
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
            total = total.iter().zip(counts(&shares, &waiting)).map(|(a, b)| a + b).collect();
        }
        assert_eq!(total, [2, 2, 2]);
    }

    #[test]
    fn only_another_project_is_in_the_way() {
        let (one, other) = (ProjectId::new(), ProjectId::new());
        assert!(!WaitingProjects::new([]).includes_other_than(one));
        assert!(!WaitingProjects::new([one]).includes_other_than(one));
        assert!(WaitingProjects::new([other]).includes_other_than(one));
        assert!(WaitingProjects::new([one, other]).includes_other_than(one));
    }
}

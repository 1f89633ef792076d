//! Which of many new dependencies would close a cycle, found in time that grows with their number and not with its
//! square: whoever adds them chooses both what is there and what is new.

use std::{
    collections::{HashMap, VecDeque},
    hash::Hash,
};

/// How many new edges are told apart and shown with the cycle that they close.
pub const MAX_SHOWN_CYCLES: usize = 10;

/// The most tasks of a cycle that a message names.
const MAX_NAMED: usize = 10;

/// A cycle in a message, such as `a → b → a`. Of a long one, the first and the last names are given, and the others are
/// counted.
pub fn name_cycle<T>(cycle: &[T], name: impl Fn(&T) -> String) -> String {
    let (first, last) = named_ends(cycle);
    let mut names: Vec<String> = first.iter().map(&name).collect();
    let left_out = cycle.len() - first.len() - last.len();
    if left_out > 0 {
        names.push(format!("… {left_out} more …"));
    }
    names.extend(last.iter().map(name));
    names.join(" → ")
}

/// Those of a cycle that a message names: the first and the last ones.
pub fn named_ends<T>(cycle: &[T]) -> (&[T], &[T]) {
    match cycle.len() {
        count if count > MAX_NAMED => (&cycle[..MAX_NAMED / 2], &cycle[count - MAX_NAMED / 2..]),
        _ => (cycle, &[]),
    }
}

/// The new edges that cannot be added, by their positions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClosingEdges<T> {
    /// The first edges that close a cycle with the existing edges and the new ones before them, each with a shortest
    /// such cycle: it begins with the start of the edge, and ends with it.
    pub shown: Vec<(usize, Vec<T>)>,
    /// If there are more than can be shown: the other new edges that are part of a cycle of all edges that are left.
    /// Some of them alone would close none, but finding out which takes too long.
    pub others: Vec<usize>,
}

/// Finds the new edges that would close a cycle. Without them, the others close none. Cycles that the existing edges
/// form among themselves do not matter. `check` is called at least once for each time that all edges are looked at,
/// and can stop the search.
pub fn find_closing_edges<T: Copy + Eq + Hash, E>(
    existing: &[(T, T)],
    new: &[(T, T)],
    mut check: impl FnMut() -> Result<(), E>,
) -> Result<ClosingEdges<T>, E> {
    let mut nodes = Nodes::default();
    let existing: Vec<Edge> = existing.iter().map(|edge| nodes.edge(*edge)).collect();
    let mut open: Vec<(usize, Edge)> =
        new.iter().enumerate().map(|(at, edge)| (at, nodes.edge(*edge))).collect();
    // Nodes of one existing cycle count as one node, so that only cycles with a new edge are left.
    let merged = components(nodes.names.len(), &existing);
    let merge = |(from, to): Edge| (merged[from], merged[to]);
    // First the existing edges, later also the new ones that are added.
    let mut edges: Vec<Edge> = existing.iter().copied().map(merge).filter(|(from, to)| from != to).collect();
    let mut unmerged = existing;
    let count = nodes.names.len();
    let mut closing = ClosingEdges { shown: Vec::new(), others: Vec::new() };
    loop {
        let mut has_cycle = |prefix: usize| {
            check()?;
            let new = open[..prefix].iter().map(|(_, edge)| merge(*edge));
            let all: Vec<Edge> = edges.iter().copied().chain(new).collect();
            let merged = components(count, &all);
            Ok(all.iter().any(|(from, to)| merged[*from] == merged[*to]))
        };
        if !has_cycle(open.len())? {
            return Ok(closing);
        }
        if closing.shown.len() == MAX_SHOWN_CYCLES {
            break;
        }
        // The most new edges that form no cycle: the next one closes one.
        let (mut without, mut with) = (0, open.len());
        while with - without > 1 {
            let middle = without + (with - without) / 2;
            match has_cycle(middle)? {
                true => with = middle,
                false => without = middle,
            }
        }
        for (_, edge) in open.drain(..without) {
            edges.push(merge(edge));
            unmerged.push(edge);
        }
        let (index, (from, to)) = open.remove(0);
        let mut cycle = vec![nodes.names[from]];
        cycle.extend(shortest_path(count, &unmerged, to, from).into_iter().map(|node| nodes.names[node]));
        closing.shown.push((index, cycle));
    }
    let all: Vec<Edge> = edges.iter().copied().chain(open.iter().map(|(_, edge)| merge(*edge))).collect();
    let together = components(count, &all);
    let is_part = |edge: Edge| together[merge(edge).0] == together[merge(edge).1];
    closing.others = open.iter().filter(|(_, edge)| is_part(*edge)).map(|(index, _)| *index).collect();
    Ok(closing)
}

/// An edge between nodes that are numbered.
type Edge = (usize, usize);

/// Numbers nodes from 0.
struct Nodes<T> {
    numbers: HashMap<T, usize>,
    names: Vec<T>,
}

impl<T> Default for Nodes<T> {
    fn default() -> Self {
        Self { numbers: HashMap::new(), names: Vec::new() }
    }
}

impl<T: Copy + Eq + Hash> Nodes<T> {
    fn edge(&mut self, (from, to): (T, T)) -> Edge {
        (self.number(from), self.number(to))
    }

    fn number(&mut self, name: T) -> usize {
        *self.numbers.entry(name).or_insert_with(|| {
            self.names.push(name);
            self.names.len() - 1
        })
    }
}

/// Where each node's edges lead, as ranges of one list.
struct Successors {
    starts: Vec<usize>,
    ends: Vec<usize>,
}

impl Successors {
    fn new(count: usize, edges: &[Edge]) -> Self {
        let mut starts = vec![0; count + 1];
        for (from, _) in edges {
            starts[from + 1] += 1;
        }
        for node in 0..count {
            starts[node + 1] += starts[node];
        }
        let (mut next, mut ends) = (starts.clone(), vec![0; edges.len()]);
        for (from, to) in edges {
            ends[next[*from]] = *to;
            next[*from] += 1;
        }
        Self { starts, ends }
    }

    fn list(&self, node: usize) -> &[usize] {
        &self.ends[self.starts[node]..self.starts[node + 1]]
    }
}

/// The number of the strongly connected component of each node: two nodes have the same one if each can be reached from
/// the other. This is Tarjan's algorithm, without recursion.
fn components(count: usize, edges: &[Edge]) -> Vec<usize> {
    const UNSEEN: usize = usize::MAX;
    let successors = Successors::new(count, edges);
    let mut component = vec![UNSEEN; count];
    let (mut order, mut lowest) = (vec![UNSEEN; count], vec![0; count]);
    let (mut seen, mut found) = (0, 0);
    // Nodes that have no component yet, and the path on which the search is, with how many edges of each it has taken.
    let (mut open, mut path): (Vec<usize>, Vec<(usize, usize)>) = (Vec::new(), Vec::new());
    for start in 0..count {
        if order[start] != UNSEEN {
            continue;
        }
        path.push((start, 0));
        while let Some((node, taken)) = path.last_mut() {
            let node = *node;
            if *taken == 0 {
                (order[node], lowest[node]) = (seen, seen);
                seen += 1;
                open.push(node);
            }
            if let Some(&next) = successors.list(node).get(*taken) {
                *taken += 1;
                if order[next] == UNSEEN {
                    path.push((next, 0));
                } else if component[next] == UNSEEN {
                    lowest[node] = lowest[node].min(order[next]);
                }
                continue;
            }
            path.pop();
            if let Some((parent, _)) = path.last() {
                lowest[*parent] = lowest[*parent].min(lowest[node]);
            }
            if lowest[node] == order[node] {
                while let Some(member) = open.pop() {
                    component[member] = found;
                    if member == node {
                        break;
                    }
                }
                found += 1;
            }
        }
    }
    component
}

/// A shortest path between two nodes, including both; empty if there is none.
fn shortest_path(count: usize, edges: &[Edge], from: usize, to: usize) -> Vec<usize> {
    let successors = Successors::new(count, edges);
    let mut came_from: Vec<Option<usize>> = vec![None; count];
    came_from[from] = Some(from);
    let mut waiting = VecDeque::from([from]);
    while let Some(node) = waiting.pop_front() {
        if node == to {
            break;
        }
        for &next in successors.list(node) {
            if came_from[next].is_none() {
                came_from[next] = Some(node);
                waiting.push_back(next);
            }
        }
    }
    let (mut path, mut node) = (vec![to], to);
    while node != from {
        match came_from[node] {
            Some(before) => node = before,
            None => return Vec::new(),
        }
        path.push(node);
    }
    path.reverse();
    path
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use proptest::prelude::*;

    use super::*;

    type Found = ClosingEdges<u32>;

    fn find(existing: &[(u32, u32)], new: &[(u32, u32)]) -> Found {
        find_closing_edges(existing, new, || Ok::<(), Infallible>(())).unwrap()
    }

    #[test]
    fn edges_that_close_a_cycle_are_found_in_their_order_with_a_shortest_one() {
        assert_eq!(find(&[(1, 2), (2, 3)], &[(1, 3)]), ClosingEdges { shown: vec![], others: vec![] });
        let found = find(&[(1, 2), (2, 3), (1, 3)], &[(4, 1), (3, 4), (5, 5), (3, 5)]);
        assert_eq!(found.shown, [(1, vec![3, 4, 1, 3]), (2, vec![5, 5])]);
        // A cycle among the existing edges does not matter, but nothing is added to it.
        assert!(find(&[(1, 2), (2, 1)], &[(3, 1), (2, 4)]).shown.is_empty());
        assert_eq!(find(&[(1, 2), (2, 1)], &[(3, 1), (1, 2)]).shown, [(1, vec![1, 2, 1])]);
    }

    fn reaches(edges: &[(u32, u32)], from: u32, to: u32) -> bool {
        let (mut seen, mut open) = (vec![from], vec![from]);
        while let Some(node) = open.pop() {
            for (_, next) in edges.iter().filter(|(start, _)| *start == node) {
                if !seen.contains(next) {
                    seen.push(*next);
                    open.push(*next);
                }
            }
        }
        seen.contains(&to)
    }

    fn edges(count: usize) -> impl Strategy<Value = Vec<(u32, u32)>> {
        proptest::collection::vec((0..12_u32, 0..12_u32), 0..count)
    }

    proptest! {
        #[test]
        fn the_first_ones_are_those_that_are_found_one_by_one_and_the_rest_closes_nothing(
            existing in edges(12), new in edges(40)
        ) {
            let found = find(&existing, &new);
            let mut added = existing.clone();
            let mut one_by_one = Vec::new();
            for (index, (from, to)) in new.iter().enumerate() {
                match reaches(&added, *to, *from) {
                    true => one_by_one.push(index),
                    false => added.push((*from, *to)),
                }
            }
            let shown: Vec<usize> = found.shown.iter().map(|(index, _)| *index).collect();
            prop_assert_eq!(&shown, &one_by_one[..one_by_one.len().min(MAX_SHOWN_CYCLES)]);
            for (index, cycle) in &found.shown {
                let (from, to) = new[*index];
                prop_assert_eq!((cycle[0], cycle[1], cycle.last()), (from, to, Some(&from)));
            }
            // What is left can be added in any order.
            let mut added = existing;
            for (index, (from, to)) in new.iter().enumerate() {
                if !shown.contains(&index) && !found.others.contains(&index) {
                    prop_assert!(!reaches(&added, *to, *from));
                    added.push((*from, *to));
                }
            }
        }
    }

    #[test]
    fn a_long_cycle_is_named_by_its_ends() {
        let name = |cycle: &[u32]| name_cycle(cycle, u32::to_string);
        assert_eq!(name(&[1, 2, 1]), "1 → 2 → 1");
        let long: Vec<u32> = (1..=5_000).collect();
        assert_eq!(name(&long), "1 → 2 → 3 → 4 → 5 → … 4990 more … → 4996 → 4997 → 4998 → 4999 → 5000");
    }

    #[test]
    fn many_edges_that_close_many_cycles_take_few_looks_at_all_of_them() {
        // Each of 100 nodes leads to each of 100 others, and 1,000 new edges lead from the last ones back to the first.
        let existing: Vec<(u32, u32)> = (0..100).flat_map(|a| (100..200).map(move |b| (a, b))).collect();
        let new: Vec<(u32, u32)> = (0..1_000).map(|n| (100 + n % 100, n / 10)).collect();
        let mut looks = 0;
        let found = find_closing_edges(&existing, &new, || {
            looks += 1;
            Ok::<(), Infallible>(())
        });
        let found = found.unwrap();
        assert_eq!((found.shown.len(), found.others.len()), (MAX_SHOWN_CYCLES, 1_000 - MAX_SHOWN_CYCLES));
        assert!(looks < 130, "{looks}");
        let stopped = find_closing_edges(&existing, &new, || Err("too slow"));
        assert_eq!(stopped, Err("too slow"));
    }
}

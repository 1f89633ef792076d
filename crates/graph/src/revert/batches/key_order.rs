//! The transactions of objects that wait for the keys of each other.

use std::{
    collections::{HashMap, HashSet},
    iter,
};

use emergent_domain::ids::ObjectId;
use emergent_store::revert::WrittenVersions;

/// Splits objects into transactions of at most `at_once` and `max_bytes`, so that each comes after the one that has its
/// key. `holders` has that one for each object. Objects that wait for each other in a cycle are in one transaction,
/// however large they are, because one of them has to release its key there. A cycle of more than `at_once` objects is
/// split, and its objects become conflicts.
pub(super) fn split_by_keys(
    objects: &[WrittenVersions<ObjectId>],
    holders: &HashMap<ObjectId, ObjectId>,
    at_once: usize,
    max_bytes: usize,
    bytes_of: impl Fn(ObjectId) -> usize,
) -> Vec<Vec<WrittenVersions<ObjectId>>> {
    let by_id: HashMap<ObjectId, &WrittenVersions<ObjectId>> =
        objects.iter().map(|one| (one.id, one)).collect();
    let (mut placed, mut transactions, mut bytes) = (HashSet::new(), Vec::<Vec<_>>::new(), 0_usize);
    for one in objects {
        let (mut row, mut next) = (Vec::new(), Some(one));
        while let Some(waiting) = next.filter(|waiting| placed.insert(waiting.id)) {
            row.push(*waiting);
            next = holders.get(&waiting.id).and_then(|holder| by_id.get(holder).copied());
        }
        // In a cycle, the last one of the row waits for another one of it.
        let first = next.and_then(|holder| row.iter().position(|other| other.id == holder.id));
        let cycle = row.split_off(first.unwrap_or(row.len()));
        for together in iter::once(cycle.as_slice()).chain(row.chunks(1).rev()) {
            for part in together.chunks(at_once) {
                let part_bytes: usize = part.iter().map(|one| bytes_of(one.id)).sum();
                match transactions.last_mut() {
                    Some(last) if last.len() + part.len() <= at_once && bytes + part_bytes <= max_bytes => {
                        last.extend_from_slice(part);
                        bytes += part_bytes;
                    }
                    _ => {
                        transactions.push(part.to_vec());
                        bytes = part_bytes;
                    }
                }
            }
        }
    }
    transactions
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    fn id(number: u128) -> ObjectId {
        ObjectId(Uuid::from_u128(number))
    }

    /// Each pair is an object and the one that has its key.
    fn check(count: u128, waits: &[(u128, u128)], at_once: usize, expected: &[&[u128]]) {
        let objects: Vec<_> =
            (0..count).map(|number| WrittenVersions { id: id(number), first: 2, count: 1 }).collect();
        let holders = waits.iter().map(|(waiting, holder)| (id(*waiting), id(*holder))).collect();
        // Each object has one byte more than its number, and ten bytes fit.
        let bytes_of = |id: ObjectId| id.0.as_u128() as usize + 1;
        let split = split_by_keys(&objects, &holders, at_once, 10, bytes_of);
        let numbers: Vec<Vec<u128>> =
            split.iter().map(|list| list.iter().map(|one| one.id.0.as_u128()).collect()).collect();
        assert_eq!(numbers, expected, "{waits:?}");
    }

    #[test]
    fn each_object_comes_after_the_one_that_has_its_key() {
        check(3, &[(0, 1), (1, 2)], 2, &[&[2, 1], &[0]]);
        check(4, &[(0, 3), (1, 0), (2, 1), (3, 9)], 2, &[&[3, 0], &[1, 2]]);
        check(3, &[], 2, &[&[0, 1], &[2]]);
        check(0, &[], 2, &[]);
    }

    #[test]
    fn large_objects_are_split_and_a_cycle_of_them_is_not() {
        check(6, &[], 9, &[&[0, 1, 2, 3], &[4], &[5]]);
        check(6, &[(5, 4), (4, 5)], 9, &[&[0, 1, 2, 3], &[4, 5]]);
    }

    #[test]
    fn a_cycle_is_not_split_unless_it_is_too_long() {
        check(5, &[(0, 4), (1, 3), (3, 1), (4, 0)], 3, &[&[0, 4], &[1, 3, 2]]);
        check(3, &[(0, 1), (1, 2), (2, 1)], 3, &[&[1, 2, 0]]);
        check(3, &[(0, 1), (1, 2), (2, 0)], 2, &[&[0, 1], &[2]]);
    }
}

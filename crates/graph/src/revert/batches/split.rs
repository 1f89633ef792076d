//! Splits what is reverted into transactions.

/// Splits items into transactions of at most `at_once` items whose sizes are at most `max_size` together. An item that is
/// larger has a transaction of its own.
pub(super) fn split_by_size<T: Copy>(
    items: &[T],
    at_once: usize,
    max_size: usize,
    size: impl Fn(&T) -> usize,
) -> Vec<Vec<T>> {
    let (mut transactions, mut total) = (Vec::<Vec<T>>::new(), 0_usize);
    for item in items {
        let size = size(item);
        match transactions.last_mut() {
            Some(last) if last.len() < at_once && total.saturating_add(size) <= max_size => {
                last.push(*item);
                total += size;
            }
            _ => {
                transactions.push(vec![*item]);
                total = size;
            }
        }
    }
    transactions
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(sizes: &[usize], at_once: usize, max_size: usize, expected: &[&[usize]]) {
        assert_eq!(split_by_size(sizes, at_once, max_size, |size| *size), expected, "{sizes:?}");
    }

    #[test]
    fn a_transaction_ends_before_it_has_too_many_items_or_too_large_ones() {
        check(&[1, 1, 1, 1, 1], 2, 10, &[&[1, 1], &[1, 1], &[1]]);
        check(&[4, 4, 4, 2, 4], 10, 10, &[&[4, 4], &[4, 2, 4]]);
        check(&[3, 99, 3, usize::MAX, 3], 10, 10, &[&[3], &[99], &[3], &[usize::MAX], &[3]]);
        check(&[], 10, 10, &[]);
    }
}

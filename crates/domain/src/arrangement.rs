//! Arranges the hits of a search for a reader: those of one parent together, and as many as fit into a prompt.

use std::{collections::HashMap, mem};

use uuid::Uuid;

use crate::{
    invalid::Invalid,
    object::check_type,
    query::{Direction, SearchResult},
};

/// The largest budget of tokens that a search can have.
pub const MAX_BUDGET_TOKENS: usize = 1_000_000;
/// A token is about this many bytes of English text.
const BYTES_PER_TOKEN: usize = 4;

/// The relationship that leads from an object to its parent, such as from a message to its session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupBy {
    pub relationship: String,
    /// [`Direction::Out`] if the relationship starts at the hit, [`Direction::In`] if it ends there.
    pub direction: Direction,
}

impl GroupBy {
    pub fn check(&self) -> Result<(), Invalid> {
        check_type(&self.relationship)
            .map_err(|problem| Invalid::new("group.relationship", problem.problems[0].reason.clone()))?;
        match self.direction {
            Direction::Out | Direction::In => Ok(()),
            Direction::Both => Err(Invalid::new(
                "group.direction",
                "must be `out` if the relationship starts at the hit, or `in` if it ends there",
            )),
        }
    }
}

/// Checks a budget of tokens.
pub fn check_budget(tokens: Option<usize>) -> Result<(), Invalid> {
    match tokens {
        Some(tokens) if !(1..=MAX_BUDGET_TOKENS).contains(&tokens) => {
            Err(Invalid::new("budgetTokens", format!("must be 1 to {MAX_BUDGET_TOKENS}")))
        }
        _ => Ok(()),
    }
}

/// Puts the hits of each group together. The groups are in the order of their best hits, and so are the hits of each.
pub fn group_hits<T>(result: &mut SearchResult<T>, group: impl Fn(&T) -> Uuid) {
    let hits = mem::take(&mut result.hits);
    let mut first_of_group: HashMap<Uuid, usize> = HashMap::new();
    let mut placed = Vec::with_capacity(hits.len());
    for (index, mut hit) in hits.into_iter().enumerate() {
        let group = group(&hit.item);
        hit.group = Some(group);
        placed.push((*first_of_group.entry(group).or_insert(index), hit));
    }
    // The sort is stable, so the hits of a group keep their order.
    placed.sort_by_key(|(place, _)| *place);
    result.hits = placed.into_iter().map(|(_, hit)| hit).collect();
}

/// Drops the hits from the first one on that does not fit. `bytes` is the size of what a prompt has of a hit.
pub fn cut_to_budget<T>(result: &mut SearchResult<T>, max_tokens: usize, bytes: impl Fn(&T) -> usize) {
    let fitting = count_fitting(result.hits.iter().map(|hit| bytes(&hit.item)), max_tokens);
    if fitting < result.hits.len() {
        result.hits.truncate(fitting);
        result.truncated = true;
    }
}

/// How many hits of these sizes in bytes fit into a budget, from the best one on. The best hit fits in any case, since a
/// result without any would look as if nothing was found.
pub fn count_fitting(sizes: impl ExactSizeIterator<Item = usize>, max_tokens: usize) -> usize {
    let at_least = sizes.len().min(1);
    let mut tokens: usize = 0;
    let fits = |bytes: &usize| {
        tokens = tokens.saturating_add(bytes.div_ceil(BYTES_PER_TOKEN));
        tokens <= max_tokens
    };
    sizes.take_while(fits).count().max(at_least)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::query::Hit;

    fn result(texts: &[&str]) -> SearchResult<String> {
        let hit = |text: &&str| Hit {
            item: (*text).to_owned(),
            score: 1.0,
            text: None,
            vector: None,
            link: None,
            date: None,
            group: None,
        };
        SearchResult { hits: texts.iter().map(hit).collect(), embedding: None, truncated: false }
    }

    fn items(result: &SearchResult<String>) -> Vec<&str> {
        result.hits.iter().map(|hit| hit.item.as_str()).collect()
    }

    #[test]
    fn groups_are_in_the_order_of_their_best_hits() {
        let mut found = result(&["a1", "b1", "a2", "c1", "b2", "a3"]);
        group_hits(&mut found, |item| Uuid::from_u128(u128::from(item.as_bytes()[0])));
        assert_eq!(items(&found), ["a1", "a2", "a3", "b1", "b2", "c1"]);
        assert_eq!(found.hits[0].group, Some(Uuid::from_u128(u128::from(b'a'))));
        assert!(!found.truncated);
    }

    #[test]
    fn hits_fill_the_budget_and_the_best_one_is_always_there() {
        let check = |budget: usize, expected: &[&str], truncated: bool| {
            let mut found = result(&["12345678", "1234", "123456789"]);
            cut_to_budget(&mut found, budget, String::len);
            assert_eq!(items(&found), expected, "{budget}");
            assert_eq!(found.truncated, truncated, "{budget}");
        };
        check(6, &["12345678", "1234", "123456789"], false);
        check(5, &["12345678", "1234"], true);
        check(2, &["12345678"], true);
        check(1, &["12345678"], true);
        let mut nothing = result(&[]);
        cut_to_budget(&mut nothing, 1, String::len);
        assert_eq!((nothing.hits.len(), nothing.truncated), (0, false));
    }

    #[test]
    fn a_group_and_a_budget_are_checked() {
        let group =
            |relationship: &str, direction| GroupBy { relationship: relationship.to_owned(), direction };
        assert!(group("part_of", Direction::Out).check().is_ok());
        let field = |problem: Invalid| problem.problems[0].field.clone();
        assert_eq!(field(group("", Direction::In).check().unwrap_err()), "group.relationship");
        assert_eq!(field(group("part_of", Direction::Both).check().unwrap_err()), "group.direction");
        assert_eq!(field(check_budget(Some(0)).unwrap_err()), "budgetTokens");
        assert!(check_budget(Some(1)).is_ok() && check_budget(None).is_ok());
    }
}

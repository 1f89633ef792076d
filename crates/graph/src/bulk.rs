//! Bulk creation: errors carry the index of the item that they concern.

use emergent_domain::invalid::Invalid;

use crate::{Error, error::Result};

/// Returns all items, or the first error with its index, as in `list[3]`.
pub(crate) fn all_or_first_error<T>(
    drafts: impl Iterator<Item = Result<T, Invalid>>,
    list: &str,
) -> Result<Vec<T>> {
    drafts
        .enumerate()
        .map(|(index, draft)| draft.map_err(|invalid| Error::from(invalid).at_index(list, index)))
        .collect()
}

/// Separates the valid items from the errors, and remembers the positions of the errors.
pub(crate) fn split_valid<T>(drafts: impl Iterator<Item = Result<T, Invalid>>) -> (Vec<T>, Outcomes) {
    let mut good = Vec::new();
    let refused = drafts
        .map(|draft| match draft {
            Ok(draft) => {
                good.push(draft);
                None
            }
            Err(invalid) => Some(invalid),
        })
        .collect();
    (good, Outcomes(refused))
}

/// The validation errors of a list, with `None` for each valid item.
pub(crate) struct Outcomes(Vec<Option<Invalid>>);

impl Outcomes {
    /// Returns all results in the order of the list. `created` holds the results of the valid
    /// items.
    pub(crate) fn merge_results<T>(self, created: Vec<Result<T>>) -> Vec<Result<T>> {
        let mut created = created.into_iter();
        self.0
            .into_iter()
            .filter_map(|refused| match refused {
                Some(invalid) => Some(Err(invalid.into())),
                None => created.next(),
            })
            .collect()
    }
}

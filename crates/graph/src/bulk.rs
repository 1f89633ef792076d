//! Lists of new things: what is wrong with one is told with its place.

use emergent_domain::invalid::Invalid;

use crate::{Error, error::Result};

/// All of them, or the first error as `list[3]`.
pub(crate) fn all_or_first_error<T>(
    drafts: impl Iterator<Item = Result<T, Invalid>>,
    list: &str,
) -> Result<Vec<T>> {
    drafts
        .enumerate()
        .map(|(at, draft)| draft.map_err(|invalid| Error::from(invalid).at_index(list, at)))
        .collect()
}

/// The good ones, and where the others were.
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

/// Who was refused before anything was written.
pub(crate) struct Outcomes(Vec<Option<Invalid>>);

impl Outcomes {
    /// Every outcome in the order of the list, `made` being those of the good ones.
    pub(crate) fn merge_results<T>(self, made: Vec<Result<T>>) -> Vec<Result<T>> {
        let mut made = made.into_iter();
        self.0
            .into_iter()
            .filter_map(|refused| match refused {
                Some(invalid) => Some(Err(invalid.into())),
                None => made.next(),
            })
            .collect()
    }
}

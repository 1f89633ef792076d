//! Converts the results of bulk requests: each item is the written object or an error.

use emergent_graph as graph;
pub(crate) use emergent_wire::bulk::*;

use super::IntoView;
use crate::{ApiError, limits};

/// Checks the number of items in one request; `field` is the list.
pub(crate) fn check_count(field: &str, count: usize) -> Result<(), ApiError> {
    if count > limits::BULK {
        let reason = format!("has {count} items, more than the limit of {} in one request", limits::BULK);
        return Err(ApiError::invalid(field, reason));
    }
    Ok(())
}

/// The most refused items of a response that say why.
const MAX_REASONS: usize = 100;
/// The most bytes of these reasons together. The first one is always there.
const MAX_REASON_BYTES: usize = 1 << 20;

/// Converts the results of the items of one request. The first refused items say why; the others are counted, because a
/// small request can have very many of them.
pub(crate) fn bulk_items<T, U: IntoView<T>>(results: Vec<graph::Result<U>>) -> Vec<BulkItem<T>> {
    let refused = results.iter().filter(|result| result.is_err()).count();
    let (mut reasons, mut bytes) = (0, 0);
    let convert = |result: graph::Result<U>| -> BulkItem<T> {
        match result {
            Ok(written) => BulkItem::Made(written.into_view()),
            Err(failure) => {
                let mut error = ApiError::from(failure).into_body();
                // The details have the message once more, field by field.
                bytes += error.message.len() * if error.details.is_some() { 2 } else { 1 };
                if reasons == MAX_REASONS || (reasons > 0 && bytes > MAX_REASON_BYTES) {
                    error.message = format!(
                        "this item is one of {refused} that were refused, of which the first {reasons} say why; send it by \
                     itself to see the reason"
                    );
                    error.details = None;
                    return BulkItem::Refused(Refused { error });
                }
                reasons += 1;
                BulkItem::Refused(Refused { error })
            }
        }
    };
    results.into_iter().map(convert).collect()
}

#[cfg(test)]
mod tests {
    use emergent_domain::invalid::Invalid;
    use emergent_graph::Error;

    use super::*;

    fn messages(count: usize, reason: &str) -> Vec<(String, bool)> {
        let results = (0..count).map(|_| Err(Error::Invalid(Invalid::new("toId", reason)))).collect();
        let message = |item| match item {
            BulkItem::Made(()) => panic!("nothing was made"),
            BulkItem::Refused(refused) => (refused.error.message, refused.error.details.is_some()),
        };
        bulk_items::<(), ()>(results).into_iter().map(message).collect()
    }

    #[test]
    fn the_first_refused_items_say_why_and_the_others_are_counted() {
        let few = messages(MAX_REASONS, "is wrong");
        assert!(few.iter().all(|(message, has_details)| message == "`toId`: is wrong" && *has_details));
        let many = messages(1_000, "is wrong");
        assert_eq!(many[MAX_REASONS - 1].0, "`toId`: is wrong");
        assert!(
            many[MAX_REASONS].0.contains("one of 1000 that were refused, of which the first 100 say why")
        );
        assert!(!many[999].1);
        let long = messages(1_000, &"x".repeat(400_000));
        assert_eq!(long.iter().filter(|(_, has_details)| *has_details).count(), 1);
        let bytes: usize = long.iter().map(|(message, _)| message.len()).sum();
        assert!(bytes < 600_000, "{bytes}");
    }
}

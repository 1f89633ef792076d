//! Limits the number of open streams: events, exports, imports. A request is no longer counted as concurrent
//! once its response starts; but a stream uses resources as long as it is open.

use emergent_domain::token::Token;
use futures_util::{Stream, StreamExt};
use tokio::sync::OwnedSemaphorePermit;

use crate::{
    ApiError,
    shares::{Limiter, TokenShares},
};

/// Counts one stream as open until it is dropped.
#[expect(dead_code, reason = "dropping them ends the count")]
pub(crate) struct StreamPermit {
    permit: OwnedSemaphorePermit,
    shares: TokenShares,
}

impl StreamPermit {
    /// Returns a permit for one more stream of this token, or the error that names the limit.
    pub(crate) fn acquire(streams: &Limiter, token: &Token) -> Result<Self, ApiError> {
        let shares = streams.take_share(token)?;
        if token.project.is_some() && streams.only_reserved_left() {
            return Err(streams.refuse());
        }
        let permit = streams.try_acquire().ok_or_else(|| streams.refuse())?;
        Ok(Self { permit, shares })
    }
}

/// Returns the same stream, which owns `guard`: both are dropped together.
pub(crate) fn with_guard<S: Stream>(stream: S, guard: impl Send + 'static) -> impl Stream<Item = S::Item> {
    stream.inspect(move |_| {
        let _owned = &guard;
    })
}

//! The data of one request that the outermost middleware, the authorisation and long responses share.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::OwnedSemaphorePermit;

use crate::shares::TokenShares;

/// The context of a request; clones share it. The request counts as in progress until all clones are dropped.
#[derive(Clone, Default)]
pub(crate) struct RequestContext(Arc<Inner>);

#[derive(Default)]
struct Inner {
    #[allow(dead_code, reason = "dropping it ends the count of the request")]
    permit: Option<OwnedSemaphorePermit>,
    /// True if only the part of a limit was left that is reserved for health checks and operators.
    reserved: bool,
    /// Counts the request for its token and project.
    shares: Mutex<Option<TokenShares>>,
}

impl RequestContext {
    pub(crate) fn new(permit: OwnedSemaphorePermit, reserved: bool) -> Self {
        Self(Arc::new(Inner { permit: Some(permit), reserved, ..Inner::default() }))
    }

    /// Whether only a token that spans projects may be served.
    pub(crate) fn is_reserved(&self) -> bool {
        self.0.reserved
    }

    /// Counts the request for its token as long as it is in progress.
    pub(crate) fn hold(&self, shares: TokenShares) {
        *self.0.shares.lock() = Some(shares);
    }
}

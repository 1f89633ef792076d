//! The data of one request that the outermost middleware, the authorisation and long responses share.

use std::sync::Arc;

use emergent_store::requester::Requester;
use parking_lot::Mutex;
use tokio::sync::OwnedSemaphorePermit;

use crate::{
    byte_budget::{ByteBudget, Exceeded, HeldBytes},
    shares::TokenShares,
};

/// The context of a request; clones share it. The request counts as in progress until all clones are dropped.
#[derive(Clone, Default)]
pub(crate) struct RequestContext(Arc<Inner>);

#[derive(Default)]
struct Inner {
    /// Dropping it ends the count of the request.
    permit: Mutex<Option<OwnedSemaphorePermit>>,
    /// True if only the part of a limit was left that is reserved for health checks and operators.
    reserved: bool,
    /// Counts the request for its token and project.
    shares: Mutex<Option<TokenShares>>,
    /// Counts the memory of the request's body.
    body: Mutex<Option<HeldBytes>>,
}

impl RequestContext {
    pub(crate) fn new(permit: OwnedSemaphorePermit, reserved: bool) -> Self {
        Self(Arc::new(Inner { permit: Mutex::new(Some(permit)), reserved, ..Inner::default() }))
    }

    /// Whether only a token that spans projects may be served.
    pub(crate) fn is_reserved(&self) -> bool {
        self.0.reserved
    }

    /// Counts the request for its token as long as it is in progress.
    pub(crate) fn hold(&self, shares: TokenShares) {
        *self.0.shares.lock() = Some(shares);
    }

    /// No longer counts the request as one of the total. It is counted elsewhere.
    pub(crate) fn release_permit(&self) {
        self.0.permit.lock().take();
    }

    /// Counts this many bytes for the request's body, as long as the request is in progress. Bytes that are
    /// counted already are not counted twice.
    pub(crate) fn hold_body(
        &self,
        bodies: &ByteBudget,
        requester: Requester,
        bytes: usize,
    ) -> Result<(), Exceeded> {
        let mut body = self.0.body.lock();
        match body.as_mut() {
            Some(held) => {
                let more = bytes.saturating_sub(held.bytes());
                bodies.grow(held, more)
            }
            None => {
                *body = Some(bodies.hold(requester, bytes)?);
                Ok(())
            }
        }
    }

    /// Returns the count of the body, for a stream that holds a part of it after the request has ended.
    pub(crate) fn take_body(&self) -> Option<HeldBytes> {
        self.0.body.lock().take()
    }

    /// Ends the count of a body that is discarded.
    pub(crate) fn release_body(&self) {
        self.0.body.lock().take();
    }
}

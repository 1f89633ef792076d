//! Limits the requests that need no token, such as logins. Nobody is known whose share they could use, so they have
//! a small pool of their own: whoever leaves many of them unfinished keeps out nobody who has a token.

use std::{net::IpAddr, sync::Arc};

use axum::{extract::Request, middleware::Next, response::Response};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::{
    ApiError, App,
    extract::BodyDeadline,
    limits,
    request_context::RequestContext,
    server::Peer,
    shares::{Share, Shares},
};

/// Counts requests without a token, in total and by address.
pub(crate) struct PublicRequests {
    permits: Arc<Semaphore>,
    addresses: Shares<IpAddr>,
}

/// One request without a token. It is counted until this is dropped.
#[expect(dead_code, reason = "dropping them ends the count")]
struct PublicPermit {
    permit: OwnedSemaphorePermit,
    address: Option<Share<IpAddr>>,
}

impl Default for PublicRequests {
    fn default() -> Self {
        Self { permits: Arc::new(Semaphore::new(limits::PUBLIC_REQUESTS)), addresses: Shares::default() }
    }
}

impl PublicRequests {
    /// Counts one request, or returns the error that names the limit. A command that works on a data folder has no
    /// address.
    fn acquire(&self, address: Option<IpAddr>) -> Result<PublicPermit, ApiError> {
        let refuse = |owner, limit| ApiError::overloaded("requests without a token", owner, limit);
        let address = match address {
            None => None,
            Some(address) => {
                let limit = limits::PUBLIC_REQUESTS_PER_ADDRESS;
                let share = self.addresses.take(address, limit);
                Some(share.ok_or_else(|| refuse("of this address", limit))?)
            }
        };
        let permit = Arc::clone(&self.permits).try_acquire_owned();
        let permit = permit.map_err(|_| refuse("in all", limits::PUBLIC_REQUESTS))?;
        Ok(PublicPermit { permit, address })
    }
}

/// The middleware of each route that needs no token.
pub(crate) async fn limit(mut request: Request, next: Next) -> Result<Response, ApiError> {
    let Some(app) = request.extensions().get::<App>().cloned() else {
        return Err(ApiError::internal_text("the router was built without its app"));
    };
    // What such a request waits for must not take a place from those with a token.
    if let Some(context) = request.extensions().get::<RequestContext>() {
        context.release_permit();
    }
    if crate::middleware::is_health_check(&request) {
        return Ok(next.run(request).await);
    }
    let _permit = app.public_requests.acquire(request.extensions().get::<Peer>().map(|peer| peer.address))?;
    request.extensions_mut().insert(BodyDeadline(limits::PUBLIC_BODY_TIME));
    Ok(next.run(request).await)
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    #[test]
    fn one_address_leaves_requests_without_a_token_to_others() {
        let requests = PublicRequests::default();
        let address = |n: u8| Some(IpAddr::V4(Ipv4Addr::new(192, 0, 2, n)));
        let mut taken: Vec<_> = (0..100).map_while(|_| requests.acquire(address(1)).ok()).collect();
        assert_eq!(taken.len(), limits::PUBLIC_REQUESTS_PER_ADDRESS);
        taken.extend((0..100).filter_map(|n| requests.acquire(address(n)).ok()));
        assert_eq!(taken.len(), limits::PUBLIC_REQUESTS);
        drop(taken);
        assert!(requests.acquire(address(1)).is_ok());
    }
}

//! Data that accompanies a request from the outer middleware to its response.

use std::{borrow::Cow, sync::Arc};

use emergent_domain::{ids::ProjectId, redact::Redactor};
use parking_lot::Mutex;
use tokio::sync::OwnedSemaphorePermit;

use crate::shares::TokenShares;

/// Clones share it. A clone keeps the request counted as in progress.
#[derive(Clone, Default)]
pub(crate) struct RequestContext(Arc<Inner>);

#[derive(Default)]
struct Inner {
    #[allow(dead_code, reason = "held, not used")]
    permit: Option<OwnedSemaphorePermit>,
    /// Only the part of the limits that is kept for health checks and operators was left.
    reserved: bool,
    shares: Mutex<Option<TokenShares>>,
    audience: Mutex<Audience>,
}

/// Who reads the response.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Audience {
    /// A request without a valid token.
    #[default]
    Anonymous,
    /// A token in a project.
    Project(ProjectId),
    /// A token that spans projects, in a request that names none.
    AllProjects,
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

    pub(crate) fn set_audience(&self, project: Option<ProjectId>) {
        *self.0.audience.lock() = project.map_or(Audience::AllProjects, Audience::Project);
    }

    /// Redacts an error response, which may quote the request. A caller in a project sees the names of that
    /// project's secrets instead of their values; a token that spans projects sees no names. An
    /// unauthenticated caller is never quoted anything, so redaction cannot confirm a guess.
    pub(crate) fn redact<'a>(&self, refusal: &'a [u8], redactor: &Redactor) -> Cow<'a, [u8]> {
        let reader = *self.0.audience.lock();
        match reader {
            Audience::Anonymous => Cow::Borrowed(refusal),
            Audience::Project(project) => redactor.for_project(project).redact_bytes(refusal),
            Audience::AllProjects => redactor.without_names().redact_bytes(refusal),
        }
    }
}

//! The data of one request that the outermost middleware, the authorisation and long responses share.

use std::{borrow::Cow, sync::Arc};

use emergent_domain::{ids::ProjectId, redact::Redactor};
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

    /// Sets the reader of the response to a token in this project, or to a token that spans projects.
    pub(crate) fn set_audience(&self, project: Option<ProjectId>) {
        *self.0.audience.lock() = project.map_or(Audience::AllProjects, Audience::Project);
    }

    /// Redacts an error response, which may quote the request. A caller in a project sees the names of that
    /// project's secrets instead of their values; a token that spans projects sees no names. An
    /// unauthenticated caller is never quoted anything, so redaction cannot confirm a guess.
    pub(crate) fn redact<'a>(&self, body: &'a [u8], redactor: &Redactor) -> Cow<'a, [u8]> {
        let audience = *self.0.audience.lock();
        match audience {
            Audience::Anonymous => Cow::Borrowed(body),
            Audience::Project(project) => redactor.for_project(project).redact_bytes(body),
            Audience::AllProjects => redactor.without_names().redact_bytes(body),
        }
    }
}

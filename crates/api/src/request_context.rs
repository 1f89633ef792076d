//! What goes along with a request on its way in, for what happens around it on the way out.

use std::{borrow::Cow, sync::Arc};

use emergent_domain::{ids::ProjectId, redact::Redactor};
use parking_lot::Mutex;
use tokio::sync::OwnedSemaphorePermit;

/// Clones share it. Whoever keeps one keeps the request's place among those being answered.
#[derive(Clone, Default)]
pub(crate) struct RequestContext(Arc<Inner>);

#[derive(Default)]
struct Inner {
    #[allow(dead_code, reason = "held, not used")]
    permit: Option<OwnedSemaphorePermit>,
    audience: Mutex<Audience>,
}

/// Who gets to read the answer.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Audience {
    /// No token, or none that is known.
    #[default]
    Anonymous,
    /// A token in a project.
    Project(ProjectId),
    /// A token that spans projects, and named none.
    AllProjects,
}

impl RequestContext {
    pub(crate) fn new(place: OwnedSemaphorePermit) -> Self {
        Self(Arc::new(Inner { permit: Some(place), audience: Mutex::default() }))
    }

    pub(crate) fn set_audience(&self, project: Option<ProjectId>) {
        *self.0.audience.lock() = project.map_or(Audience::AllProjects, Audience::Project);
    }

    /// A refusal cites what it was sent, wherever that was. Of a secret of the reader's own project the
    /// name is enough; what others call theirs is nobody's business. A stranger is cited nothing, and
    /// so learns nothing from what is left out.
    pub(crate) fn redact<'a>(&self, refusal: &'a [u8], redactor: &Redactor) -> Cow<'a, [u8]> {
        let reader = *self.0.audience.lock();
        match reader {
            Audience::Anonymous => Cow::Borrowed(refusal),
            Audience::Project(project) => redactor.for_project(project).redact_bytes(refusal),
            Audience::AllProjects => redactor.without_names().redact_bytes(refusal),
        }
    }
}

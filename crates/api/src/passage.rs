//! What goes along with a request on its way in, for what happens around it on the way out.

use std::{borrow::Cow, sync::Arc};

use emergent_domain::{ids::ProjectId, redact::Redactor};
use parking_lot::Mutex;
use tokio::sync::OwnedSemaphorePermit;

/// Clones share it. Whoever keeps one keeps the request's place among those being answered.
#[derive(Clone, Default)]
pub(crate) struct Passage(Arc<Inner>);

#[derive(Default)]
struct Inner {
    #[allow(dead_code, reason = "held, not used")]
    place: Option<OwnedSemaphorePermit>,
    reader: Mutex<Reader>,
}

/// Who gets to read the answer.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Reader {
    /// No token, or none that is known.
    #[default]
    Stranger,
    /// A token in a project.
    In(ProjectId),
    /// A token that spans projects, and named none.
    Spanning,
}

impl Passage {
    pub(crate) fn with(place: OwnedSemaphorePermit) -> Self {
        Self(Arc::new(Inner { place: Some(place), reader: Mutex::default() }))
    }

    pub(crate) fn is_read_by(&self, project: Option<ProjectId>) {
        *self.0.reader.lock() = project.map_or(Reader::Spanning, Reader::In);
    }

    /// A refusal cites what it was sent, wherever that was. Of a secret of the reader's own project the
    /// name is enough; what others call theirs is nobody's business. A stranger is cited nothing, and
    /// so learns nothing from what is left out.
    pub(crate) fn clean<'a>(&self, refusal: &'a [u8], redactor: &Redactor) -> Cow<'a, [u8]> {
        let reader = *self.0.reader.lock();
        match reader {
            Reader::Stranger => Cow::Borrowed(refusal),
            Reader::In(project) => redactor.of(project).bytes(refusal),
            Reader::Spanning => redactor.nameless().bytes(refusal),
        }
    }
}

//! Converts the progress of an import for the API.

use emergent_graph::transfer::{Counts, ImportProgress, LineError};
pub(crate) use emergent_wire::import::*;

use super::IntoView;

impl IntoView<ImportView> for ImportProgress {
    fn into_view(self) -> ImportView {
        let progress = self;
        ImportView {
            lines: progress.lines,
            bytes: progress.bytes,
            objects: progress.objects.into_view(),
            relationships: progress.relationships.into_view(),
            failed: progress.failed,
            errors: progress.errors.into_iter().map(IntoView::into_view).collect(),
            done: progress.done,
            stopped: progress.stopped,
        }
    }
}

/// The progress of an import for a caller who may not read. How many lines changed nothing would tell whether what they say
/// is what is stored.
pub(crate) fn without_unchanged(mut progress: ImportProgress) -> ImportProgress {
    for counts in [&mut progress.objects, &mut progress.relationships] {
        counts.updated += std::mem::take(&mut counts.unchanged);
    }
    progress
}

impl IntoView<CountsView> for Counts {
    fn into_view(self) -> CountsView {
        let counts = self;
        CountsView { created: counts.created, updated: counts.updated, unchanged: counts.unchanged }
    }
}

impl IntoView<LineErrorView> for LineError {
    fn into_view(self) -> LineErrorView {
        let error = self;
        LineErrorView { line: error.line, field: error.field, message: error.message }
    }
}

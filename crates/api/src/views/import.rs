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

//! Converts the report of a reverted run for the API.

use emergent_executor::revert::{RevertConflict, RevertReport, RevertedEntity};
pub(crate) use emergent_wire::revert::*;

use super::IntoView;

impl IntoView<UndoneView> for RevertedEntity {
    fn into_view(self) -> UndoneView {
        let RevertedEntity { kind, id, how, version } = self;
        UndoneView { kind: kind.as_str().to_owned(), id, how: how.as_str().to_owned(), version }
    }
}

impl IntoView<RevertConflictView> for RevertConflict {
    fn into_view(self) -> RevertConflictView {
        let RevertConflict { kind, id, reason, current_version } = self;
        RevertConflictView { kind: kind.as_str().to_owned(), id, reason, current_version }
    }
}

impl IntoView<RevertView> for RevertReport {
    fn into_view(self) -> RevertView {
        let report = self;
        RevertView {
            undone: report.undone.into_iter().map(IntoView::into_view).collect(),
            conflicts: report.conflicts.into_iter().map(IntoView::into_view).collect(),
        }
    }
}

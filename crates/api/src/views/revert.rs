use emergent_executor::revert::{RevertConflict, RevertReport, RevertedEntity};
pub(crate) use emergent_wire::revert::*;

use super::IntoView;

impl IntoView<UndoneView> for RevertedEntity {
    fn into_view(self) -> UndoneView {
        let undone = self;
        let RevertedEntity { kind: what, id, how, version } = undone;
        UndoneView { kind: what.as_str().to_owned(), id, how: how.as_str().to_owned(), version }
    }
}

impl IntoView<RevertConflictView> for RevertConflict {
    fn into_view(self) -> RevertConflictView {
        let conflict = self;
        let RevertConflict { kind: what, id, reason, current_version } = conflict;
        RevertConflictView { kind: what.as_str().to_owned(), id, reason, current_version }
    }
}

impl IntoView<RevertView> for RevertReport {
    fn into_view(self) -> RevertView {
        let reverted = self;
        RevertView {
            undone: reverted.undone.into_iter().map(IntoView::into_view).collect(),
            conflicts: reverted.conflicts.into_iter().map(IntoView::into_view).collect(),
        }
    }
}

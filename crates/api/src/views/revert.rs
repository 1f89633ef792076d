use emergent_executor::revert::{RevertConflict, RevertReport, RevertedEntity};
use serde::Serialize;
use utoipa::ToSchema;
use uuid::Uuid;

/// What came of undoing a run.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Reverted)]
pub(crate) struct RevertView {
    undone: Vec<UndoneView>,
    /// What stays as it is, and why.
    conflicts: Vec<RevertConflictView>,
}

#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Undone)]
pub(crate) struct UndoneView {
    /// `object`, `relationship` or `document`.
    kind: &'static str,
    id: Uuid,
    /// `deleted` what the run had made, `put_back` what it had changed, `restored` what it had
    /// deleted.
    how: &'static str,
    /// The version that this made.
    version: i64,
}

#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = RevertConflict)]
pub(crate) struct RevertConflictView {
    /// `object`, `relationship` or `document`.
    kind: &'static str,
    id: Uuid,
    reason: String,
    current_version: i64,
}

impl From<RevertedEntity> for UndoneView {
    fn from(undone: RevertedEntity) -> Self {
        let RevertedEntity { kind: what, id, how, version } = undone;
        Self { kind: what.as_str(), id, how: how.as_str(), version }
    }
}

impl From<RevertConflict> for RevertConflictView {
    fn from(conflict: RevertConflict) -> Self {
        let RevertConflict { kind: what, id, reason, current_version } = conflict;
        Self { kind: what.as_str(), id, reason, current_version }
    }
}

impl From<RevertReport> for RevertView {
    fn from(reverted: RevertReport) -> Self {
        Self {
            undone: reverted.undone.into_iter().map(Into::into).collect(),
            conflicts: reverted.conflicts.into_iter().map(Into::into).collect(),
        }
    }
}

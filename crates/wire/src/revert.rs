//! The report of a reverted run: what was undone, and what could not be.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use uuid::Uuid;

/// What came of undoing a run.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Reverted)]
pub struct RevertView {
    pub undone: Vec<UndoneView>,
    /// What stays as it is, and why.
    pub conflicts: Vec<RevertConflictView>,
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Undone)]
pub struct UndoneView {
    /// `object`, `relationship` or `document`.
    pub kind: String,
    pub id: Uuid,
    /// `deleted` what the run had made, `put_back` what it had changed, `restored` what it had
    /// deleted.
    pub how: String,
    /// The version that this made.
    pub version: i64,
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = RevertConflict)]
pub struct RevertConflictView {
    /// `object`, `relationship` or `document`.
    pub kind: String,
    pub id: Uuid,
    pub reason: String,
    pub current_version: i64,
}

//! The report of a reverted run: what was undone, and what could not be.

use emergent_domain::time::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use uuid::Uuid;

/// How a run is reverted.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RevertRun {
    /// Also what the runs wrote that this run started, and those that they started.
    #[serde(default)]
    pub tree: bool,
    /// Return what would be undone, and change nothing.
    #[serde(default)]
    pub dry_run: bool,
}

/// What came of undoing a run.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Reverted)]
pub struct RevertView {
    /// The first 10,000.
    pub undone: Vec<UndoneView>,
    /// How many more were undone than `undone` lists.
    #[serde(default)]
    pub unlisted_undone: usize,
    /// What stays as it is, and why: the first 1,000.
    pub conflicts: Vec<RevertConflictView>,
    /// How many more stay as they are than `conflicts` lists.
    #[serde(default)]
    pub unlisted_conflicts: usize,
    /// The runs whose writes were undone.
    #[serde(default)]
    pub runs: Vec<Uuid>,
    /// Runs that this run started, directly or not, whose writes stand and were not part of this: `tree`
    /// undoes them as well.
    #[serde(default)]
    pub children: Vec<ChildWritesView>,
    /// Nothing was changed: this is what would be done.
    #[serde(default)]
    pub dry_run: bool,
    /// How many objects, relationships and documents the runs wrote, whether they stand or not.
    #[serde(default)]
    pub written: usize,
    /// When the run was reverted before, if nothing was left to undo.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub reverted_at: Option<Timestamp>,
}

/// What a child run wrote and still stands.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = ChildWrites)]
pub struct ChildWritesView {
    pub run_id: Uuid,
    pub agent_name: String,
    pub objects: i64,
    pub relationships: i64,
    pub documents: i64,
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Undone)]
pub struct UndoneView {
    /// `object`, `relationship` or `document`.
    pub kind: String,
    pub id: Uuid,
    /// `Type/key` of an object, with its id if it has no key; the type of a relationship; the title of a document.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
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
    /// As in `undone`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    pub reason: String,
    pub current_version: i64,
}

//! The progress of an import, one line for each batch.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// How far an import is. Counts are of what is committed.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = ImportProgress)]
pub struct ImportView {
    pub lines: u64,
    pub bytes: u64,
    pub objects: CountsView,
    pub relationships: CountsView,
    /// How many lines were wrong so far.
    pub failed: u64,
    /// Those that were found wrong since the last progress.
    pub errors: Vec<LineErrorView>,
    /// This is the last line.
    pub done: bool,
    /// The last batch was not written because of its errors.
    pub stopped: bool,
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = ImportCounts)]
pub struct CountsView {
    pub created: u64,
    pub updated: u64,
    pub unchanged: u64,
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = ImportLineError)]
pub struct LineErrorView {
    /// The first line is 1.
    pub line: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub field: Option<String>,
    pub message: String,
}

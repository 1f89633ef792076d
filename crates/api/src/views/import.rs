use emergent_graph::transfer::{Counts, ImportProgress, LineError};
use serde::Serialize;
use utoipa::ToSchema;

/// How far an import is. Counts are of what is committed.
#[derive(Serialize, ToSchema)]
#[schema(as = ImportProgress)]
pub(crate) struct ImportView {
    lines: u64,
    bytes: u64,
    objects: CountsView,
    relationships: CountsView,
    /// How many lines were wrong so far.
    failed: u64,
    /// Those that were found wrong since the last progress.
    errors: Vec<LineErrorView>,
    /// This is the last line.
    done: bool,
    /// The last batch was not written because of its errors.
    stopped: bool,
}

#[derive(Serialize, ToSchema)]
#[schema(as = ImportCounts)]
struct CountsView {
    created: u64,
    updated: u64,
    unchanged: u64,
}

#[derive(Serialize, ToSchema)]
#[schema(as = ImportLineError)]
struct LineErrorView {
    /// The first line is 1.
    line: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    field: Option<String>,
    message: String,
}

impl From<ImportProgress> for ImportView {
    fn from(progress: ImportProgress) -> Self {
        Self {
            lines: progress.lines,
            bytes: progress.bytes,
            objects: progress.objects.into(),
            relationships: progress.relationships.into(),
            failed: progress.failed,
            errors: progress.errors.into_iter().map(LineErrorView::from).collect(),
            done: progress.done,
            stopped: progress.stopped,
        }
    }
}

impl From<Counts> for CountsView {
    fn from(counts: Counts) -> Self {
        Self { created: counts.created, updated: counts.updated, unchanged: counts.unchanged }
    }
}

impl From<LineError> for LineErrorView {
    fn from(error: LineError) -> Self {
        Self { line: error.line, field: error.field, message: error.message }
    }
}

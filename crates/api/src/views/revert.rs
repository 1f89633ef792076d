//! Converts the report of a reverted run for the API.

use emergent_executor::revert::{ChildWrites, RevertConflict, RevertOptions, RevertOutcome, RevertedEntity};
pub(crate) use emergent_wire::revert::*;

use super::IntoView;

impl IntoView<UndoneView> for RevertedEntity {
    fn into_view(self) -> UndoneView {
        let RevertedEntity { kind, id, name, how, version } = self;
        UndoneView { kind: kind.as_str().to_owned(), id, name, how: how.as_str().to_owned(), version }
    }
}

impl IntoView<RevertConflictView> for RevertConflict {
    fn into_view(self) -> RevertConflictView {
        let RevertConflict { kind, id, name, reason, current_version } = self;
        RevertConflictView { kind: kind.as_str().to_owned(), id, name, reason, current_version }
    }
}

impl IntoView<ChildWritesView> for ChildWrites {
    fn into_view(self) -> ChildWritesView {
        let ChildWrites { run, agent_name, writes } = self;
        ChildWritesView {
            run_id: run.0,
            agent_name,
            objects: writes.objects,
            relationships: writes.relationships,
            documents: writes.documents,
        }
    }
}

impl IntoView<RevertView> for RevertOutcome {
    fn into_view(self) -> RevertView {
        let RevertOutcome { report, runs, children, dry_run, written, reverted_at } = self;
        RevertView {
            undone: report.undone.into_iter().map(IntoView::into_view).collect(),
            unlisted_undone: report.unlisted_undone,
            conflicts: report.conflicts.into_iter().map(IntoView::into_view).collect(),
            unlisted_conflicts: report.unlisted_conflicts,
            runs: runs.into_iter().map(|run| run.0).collect(),
            children: children.into_iter().map(IntoView::into_view).collect(),
            dry_run,
            written,
            reverted_at,
        }
    }
}

pub(crate) fn revert_options(body: RevertRun) -> RevertOptions {
    RevertOptions { tree: body.tree, dry_run: body.dry_run }
}

//! `source` of the tools that write, and how answers show sources and the outcome of a merge.

use std::collections::HashMap;

use emergent_domain::{
    ids::{ChunkId, ProjectId},
    merge::{MatchedBy, MergeConflict, Replacement, Source},
};
use emergent_graph::{Result, UpsertOutcome, WriteContext, merge::MergeOutcome, sources};
use emergent_store::Tx;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::input::Uuid;

/// Names the chunk of a document that says something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct SourceRef {
    /// `id` from documents_chunks or documents_search.
    #[schemars(with = "Uuid")]
    chunk_id: ChunkId,
}

/// The sources that a tool call names, so that each chunk is read only once.
pub(super) struct SourceCache {
    project: ProjectId,
    sources: HashMap<ChunkId, Source>,
}

impl SourceCache {
    pub(super) fn new(writer: &WriteContext) -> Self {
        Self { project: writer.project.id, sources: HashMap::new() }
    }

    /// The source of one entity or relationship: its own, or else that of the whole tool call. `None` if
    /// neither is given.
    pub(super) fn get(
        &mut self,
        tx: &mut Tx<'_>,
        own: Option<SourceRef>,
        of_call: Option<SourceRef>,
    ) -> Result<Option<Source>> {
        let Some(SourceRef { chunk_id }) = own.or(of_call) else { return Ok(None) };
        if let Some(cached) = self.sources.get(&chunk_id) {
            return Ok(Some(cached.clone()));
        }
        let source = sources::find(tx, self.project, chunk_id)?;
        self.sources.insert(chunk_id, source.clone());
        Ok(Some(source))
    }
}

/// Adds the outcome of a merge to an item of the answer.
pub(super) fn add_merge_outcome<T>(mut view: Value, outcome: &MergeOutcome<T>) -> Value {
    view["outcome"] = json!(match outcome.written {
        UpsertOutcome::Created => "created",
        UpsertOutcome::Updated => "updated",
        UpsertOutcome::Unchanged => "unchanged",
    });
    if let Some(by) = outcome.by {
        view["mergedBy"] = json!(by.as_str());
        if let MatchedBy::Similar(score) = by {
            view["similarity"] = json!((score * 1_000.0).round() / 1_000.0);
        }
    }
    if !outcome.replaced.is_empty() {
        view["replaced"] = outcome.replaced.iter().map(replacement_json).collect();
    }
    if !outcome.conflicts.is_empty() {
        view["kept"] = outcome.conflicts.iter().map(conflict_json).collect();
    }
    view
}

fn replacement_json(replaced: &Replacement) -> Value {
    json!({ "field": replaced.field, "before": replaced.before, "after": replaced.after })
}

fn conflict_json(conflict: &MergeConflict) -> Value {
    json!({ "field": conflict.field, "kept": conflict.kept, "offered": conflict.offered })
}

/// Sources as an answer shows them.
pub(super) fn sources_json(sources: &[Source]) -> Value {
    let source_json = |source: &Source| {
        let mut view = json!({
            "chunkId": source.chunk, "documentId": source.document, "title": source.title, "index": source.index,
        });
        if let Some(heading) = &source.heading {
            view["heading"] = json!(heading);
        }
        if source.deleted {
            view["documentDeleted"] = json!(true);
        }
        if let (Some(message), Some(conversation), Some(run)) =
            (source.message, source.conversation, source.run)
        {
            view["messageId"] = json!(message);
            view["conversationId"] = json!(conversation);
            view["runId"] = json!(run);
        }
        view
    };
    sources.iter().map(source_json).collect()
}

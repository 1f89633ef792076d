//! The end of a session: what its object says as soon as its run has ended.

use emergent_domain::{
    ids::{ObjectId, RunId, WorkflowId},
    object::ObjectPatch,
    run::RunStatus,
    time::Timestamp,
};
use emergent_graph::{WriteContext, objects};
use emergent_store::{
    Tx, relationships,
    workflows::{self, ConversationStats},
};
use serde_json::{Value, json};

use crate::{
    error::{Error, Result},
    workflow_tx::run_author,
};

/// Writes how and when a session ended, and what it consists of. The author is its run. Returns what the conversation of
/// the run took.
pub(crate) fn end_session(
    tx: &mut Tx<'_>,
    writer: &WriteContext,
    session: ObjectId,
    run: RunId,
    status: RunStatus,
    now: Timestamp,
) -> Result<ConversationStats> {
    let status = match status {
        RunStatus::Completed | RunStatus::Paused => "completed",
        RunStatus::Cancelled => "cancelled",
        _ => "failed",
    };
    let stats = workflows::conversation_stats(tx, run)?;
    // Resumed attempts share a session, so the messages are counted in the graph.
    let messages = relationships::count_from(tx, writer.project.id, session, "has_message")?;
    let properties = json!({
        "status": status,
        "completed_at": now,
        "message_count": messages,
        "tokens_in": stats.input_tokens,
        "tokens_out": stats.output_tokens,
    });
    let Value::Object(properties) = properties else { return Ok(stats) };
    let patch = ObjectPatch { properties: Some(properties), ..ObjectPatch::default() };
    let mut writer = writer.with_links();
    (writer.author, writer.embed) = (run_author(run), false);
    objects::update(tx, &writer, session, &patch)?;
    Ok(stats)
}

/// Ends at most `limit` sessions of a workflow whose runs have ended while nothing concluded their attempts: the
/// workflow is cancelled, or a discussion goes on. Returns their number.
pub(crate) fn end_open_sessions(
    tx: &mut Tx<'_>,
    writer: &WriteContext,
    workflow: WorkflowId,
    limit: usize,
) -> Result<usize> {
    let open = workflows::list_open_sessions(tx, workflow, limit)?;
    for ended in &open {
        match end_session(tx, writer, ended.session, ended.run, ended.status, writer.now) {
            // The session was deleted in the meantime.
            Ok(_) | Err(Error::Graph(emergent_graph::Error::NotFound { .. })) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(open.len())
}

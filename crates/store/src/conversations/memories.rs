//! Messages of conversations whose agent remembers what people write. The transaction that writes the answer also adds
//! the job that passes the message on to the extraction, so that a crash forgets none, and the status makes it happen
//! once.

use std::collections::HashMap;

use emergent_domain::{
    conversation::{ChatMemory, ChatMemoryStatus, ChatMessage},
    ids::{ChatMessageId, ConversationId, DocumentId, ProjectId, RunId},
    time::Timestamp,
};

use crate::{
    error::Result,
    jobs::{self, NewJob},
    page, params,
    row::{TableRow, row},
    tx::Tx,
    value::Param,
};

row! {
    ChatMemory in "chat_memories" {
        message: "message_id",
        project: "project_id",
        conversation: "conversation_id",
        run: "run_id",
        status: "status",
        reason: "reason",
        document: "document_id",
        created_at: "created_at",
        updated_at: "updated_at",
    }
}

const COLUMNS: &str = ChatMemory::COLUMNS;

/// The queue of the jobs that store messages as documents. The key of a job is the message, or [`forget_key`].
pub const QUEUE: &str = "chat_memory";

/// The key of the job that deletes the documents of a deleted conversation.
pub fn forget_key(conversation: ConversationId) -> String {
    format!("forget:{conversation}")
}

/// Records that the facts of a message are to be extracted when it is answered.
pub fn begin(tx: &mut Tx<'_>, question: &ChatMessage, run: RunId, now: Timestamp) -> Result<()> {
    let memory = ChatMemory {
        message: question.id,
        project: question.project,
        conversation: question.conversation,
        run,
        status: ChatMemoryStatus::Waiting,
        reason: None,
        document: None,
        created_at: now,
        updated_at: now,
    };
    tx.insert_row(&memory, [], "ON CONFLICT (message_id) DO NOTHING")?;
    Ok(())
}

/// Adds the job that stores a message as a document, if its facts are to be extracted. Called in the transaction
/// that writes the answer.
pub(super) fn enqueue(tx: &mut Tx<'_>, question: &ChatMessage, now: Timestamp) -> Result<()> {
    let changed = tx.execute(
        "UPDATE chat_memories SET status = 'queued', updated_at = $2 WHERE message_id = $1 AND status = 'waiting'",
        params![question.id, now],
    )?;
    if changed == 0 {
        return Ok(());
    }
    let key = question.id.to_string();
    add_job(tx, question.project, &key, now)
}

/// Adds the job that deletes the documents of a deleted conversation, if it can have any.
pub fn enqueue_forgetting(
    tx: &mut Tx<'_>,
    project: ProjectId,
    conversation: ConversationId,
    now: Timestamp,
) -> Result<()> {
    let sql = "SELECT 1 FROM chat_memories WHERE conversation_id = $1 LIMIT 1";
    if tx.query_opt(sql, params![conversation], |_| Ok(()))?.is_some() {
        add_job(tx, project, &forget_key(conversation), now)?;
    }
    Ok(())
}

fn add_job(tx: &mut Tx<'_>, project: ProjectId, key: &str, now: Timestamp) -> Result<()> {
    let job = NewJob { project: Some(project), key: Some(key), ..NewJob::new(QUEUE, now) };
    jobs::enqueue(tx, &job)?;
    Ok(())
}

pub fn get(tx: &mut Tx<'_>, project: ProjectId, message: ChatMessageId) -> Result<Option<ChatMemory>> {
    let sql = format!("SELECT {COLUMNS} FROM chat_memories WHERE message_id = $1 AND project_id = $2");
    tx.query_opt(&sql, params![message, project], ChatMemory::from_row)
}

/// Records what became of a message that is queued; false when that is recorded already.
pub fn settle(
    tx: &mut Tx<'_>,
    message: ChatMessageId,
    outcome: Result<DocumentId, &str>,
    now: Timestamp,
) -> Result<bool> {
    let (status, document, reason) = match outcome {
        Ok(document) => (ChatMemoryStatus::Stored, Some(document), None),
        Err(reason) => (ChatMemoryStatus::Skipped, None, Some(reason)),
    };
    let changed = tx.execute(
        "UPDATE chat_memories SET status = $2, document_id = $3, reason = $4, updated_at = $5
         WHERE message_id = $1 AND status = 'queued'",
        params![message, status, document, reason, now],
    )?;
    Ok(changed == 1)
}

/// What became of messages, by their ids. Messages whose agent does not remember are left out.
pub fn list_for(
    tx: &mut Tx<'_>,
    project: ProjectId,
    messages: &[ChatMessageId],
) -> Result<HashMap<ChatMessageId, ChatMemory>> {
    let mut found = HashMap::new();
    for list in page::in_chunks(messages) {
        let sql = format!(
            "SELECT {COLUMNS} FROM chat_memories WHERE project_id = $1 AND message_id IN ({})",
            page::placeholders(2, list.len())
        );
        let mut params = vec![Param::from(project)];
        params.extend(list.into_iter().map(Param::from));
        let memories = tx.query(&sql, &params, ChatMemory::from_row)?;
        found.extend(memories.into_iter().map(|memory| (memory.message, memory)));
    }
    Ok(found)
}

/// Some messages of a conversation that are stored as documents.
pub fn list_stored(tx: &mut Tx<'_>, conversation: ConversationId, limit: usize) -> Result<Vec<ChatMemory>> {
    let sql = format!(
        "SELECT {COLUMNS} FROM chat_memories WHERE conversation_id = $1 AND status = 'stored' LIMIT $2"
    );
    tx.query(&sql, params![conversation, limit], ChatMemory::from_row)
}

/// Records that the document of a message was deleted, because its conversation was.
pub fn mark_forgotten(tx: &mut Tx<'_>, message: ChatMessageId, now: Timestamp) -> Result<()> {
    tx.execute(
        "UPDATE chat_memories SET status = 'skipped', reason = 'its conversation was deleted', updated_at = $2
         WHERE message_id = $1",
        params![message, now],
    )?;
    Ok(())
}

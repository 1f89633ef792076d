//! Conversations. Their messages are in [`messages`]; [`answers`] starts and ends the answers, which are runs.

pub mod answers;
pub mod memories;
pub mod messages;

use emergent_domain::{
    conversation::Conversation,
    cursor::{Cursor, Page, ResultPage},
    ids::{ConversationId, ProjectId},
    time::Timestamp,
};

use crate::{
    author,
    error::Result,
    page, params, project_events,
    row::{TableRow, read_row, row},
    tx::Tx,
    value::Param,
};

row! {
    Conversation in "chat_conversations" {
        id: "id",
        project: "project_id",
        title: "title",
        agent: "agent_definition_id",
        agent_name: "agent_name",
        status: "status",
        active_run: "active_run_id",
        message_count: "message_count",
        author: author("author_token", "author_run", "author_tool_call"),
        created_at: "created_at",
        updated_at: "updated_at",
        deleted_at: "deleted_at",
        external_id: "external_id",
    }
}

const COLUMNS: &str = Conversation::COLUMNS;

/// The queue of the jobs that start the answers to messages that waited for their turn. The key of a job is the
/// conversation.
pub const QUEUE: &str = "chat";

/// The channel that is woken when a conversation has a new message or a new status.
pub fn changed_channel(id: ConversationId) -> String {
    format!("chat:{id}")
}

/// Wakes those who follow a conversation, and those who follow its project.
fn wake(tx: &mut Tx<'_>, project: ProjectId, id: ConversationId) -> Result<()> {
    tx.wake(&changed_channel(id))?;
    tx.wake(&project_events::channel(project))
}

pub fn insert(tx: &mut Tx<'_>, conversation: &Conversation) -> Result<()> {
    tx.insert_row(conversation, [], "")?;
    wake(tx, conversation.project, conversation.id)
}

/// As [`insert`], unless there is a conversation with this id already, also a deleted one. Of two requests at once, one
/// waits for the other, and inserts nothing.
pub fn insert_new(tx: &mut Tx<'_>, conversation: &Conversation) -> Result<()> {
    tx.insert_row(conversation, [], "ON CONFLICT (id) DO NOTHING")?;
    wake(tx, conversation.project, conversation.id)
}

/// A conversation that is not deleted.
pub fn get(tx: &mut Tx<'_>, project: ProjectId, id: ConversationId) -> Result<Option<Conversation>> {
    select(tx, project, id, "")
}

/// Whether there is a conversation with this id in any project, or was one that is deleted.
pub fn exists(tx: &mut Tx<'_>, id: ConversationId) -> Result<bool> {
    let sql = "SELECT 1 FROM chat_conversations WHERE id = $1";
    Ok(tx.query_opt(sql, params![id], |_| Ok(()))?.is_some())
}

/// As [`get`], and locks the conversation until the transaction ends: it gets no message and no answer meanwhile.
pub fn lock(tx: &mut Tx<'_>, project: ProjectId, id: ConversationId) -> Result<Option<Conversation>> {
    let lock = tx.for_update();
    select(tx, project, id, lock)
}

fn select(
    tx: &mut Tx<'_>,
    project: ProjectId,
    id: ConversationId,
    lock: &str,
) -> Result<Option<Conversation>> {
    let sql = format!(
        "SELECT {COLUMNS} FROM chat_conversations WHERE id = $1 AND {}{lock}",
        page::on_row("project_id = $2 AND deleted_at IS NULL")
    );
    tx.query_opt(&sql, params![id, project], Conversation::from_row)
}

/// The conversations of a project, newest first. With `words`, only those whose title or messages contain this
/// text, whatever the case of its letters.
pub fn list(
    tx: &mut Tx<'_>,
    project: ProjectId,
    words: Option<&str>,
    page: &Page,
) -> Result<ResultPage<Conversation>> {
    let mut params = vec![Param::from(project)];
    let mut condition = String::new();
    if let Some(words) = words {
        params.push(Param::from(like_pattern(words)));
        let lower = tx.engine().lower_function();
        condition = format!(
            r" AND ({lower}(title) LIKE $2 ESCAPE '\' OR EXISTS (
            SELECT 1 FROM chat_messages AS m WHERE m.conversation_id = chat_conversations.id
                AND {lower}(m.content) LIKE $2 ESCAPE '\'))"
        );
    }
    let (after, values) = page::after_cursor_sql(page, "created_at", "id", params.len() + 1);
    params.extend(values);
    let sql = format!(
        "SELECT {COLUMNS} FROM chat_conversations
         WHERE project_id = $1 AND deleted_at IS NULL{condition}{after} ORDER BY created_at DESC, id DESC{}",
        page::limit_sql(page)
    );
    let cursor_of = |found: &Conversation| Cursor { created_at: found.created_at, id: found.id.0 };
    page::query_page(tx, page.limit, &sql, &params, Conversation::from_row, cursor_of)
}

/// A pattern that matches texts in lower case which contain these words.
fn like_pattern(words: &str) -> String {
    let words = words.to_lowercase();
    let mut pattern = String::from("%");
    for c in words.chars() {
        if matches!(c, '%' | '_' | '\\') {
            pattern.push('\\');
        }
        pattern.push(c);
    }
    pattern.push('%');
    pattern
}

/// Changes the title; false when there is no such conversation.
pub fn rename(
    tx: &mut Tx<'_>,
    project: ProjectId,
    id: ConversationId,
    title: &str,
    now: Timestamp,
) -> Result<bool> {
    let renamed = tx.execute(
        "UPDATE chat_conversations SET title = $3, updated_at = $4
         WHERE id = $1 AND project_id = $2 AND deleted_at IS NULL",
        params![id, project, title, now],
    )?;
    wake(tx, project, id)?;
    Ok(renamed == 1)
}

/// Marks a conversation as deleted; false when there is no such conversation. The caller ends its run.
pub fn delete(tx: &mut Tx<'_>, project: ProjectId, id: ConversationId, now: Timestamp) -> Result<bool> {
    let deleted = tx.execute(
        "UPDATE chat_conversations SET status = 'deleted', updated_at = $3, deleted_at = $3
         WHERE id = $1 AND project_id = $2 AND deleted_at IS NULL",
        params![id, project, now],
    )?;
    wake(tx, project, id)?;
    Ok(deleted == 1)
}

/// The tokens and the cost of the answers of a conversation.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct ChatUsage {
    pub input_tokens: i64,
    pub output_tokens: i64,
    /// In US dollars; `None` when no answer has a cost.
    pub cost: Option<f64>,
}

read_row! {
    ChatUsage in "chat_messages" {
        input_tokens: "CAST(coalesce(sum(input_tokens), 0) AS bigint)",
        output_tokens: "CAST(coalesce(sum(output_tokens), 0) AS bigint)",
        cost: "sum(cost)",
    }
}

pub fn usage(tx: &mut Tx<'_>, id: ConversationId) -> Result<ChatUsage> {
    let sql = format!("SELECT {} FROM chat_messages WHERE conversation_id = $1", ChatUsage::COLUMNS);
    Ok(tx.query_opt(&sql, params![id], ChatUsage::from_row)?.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signs_of_patterns_are_searched_as_they_are() {
        assert_eq!(like_pattern(r"50%_AÜ\b"), r"%50\%\_aü\\b%");
    }
}

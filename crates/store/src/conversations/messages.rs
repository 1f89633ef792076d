//! The messages of conversations: those of people, and answers.

use emergent_domain::{
    conversation::{ChatMessage, HistoryTurn, MAX_HISTORY_TURNS},
    cursor::{Cursor, Page, ResultPage},
    ids::{ChatMessageId, ConversationId, ProjectId, RunId},
};
use uuid::Uuid;

use crate::{
    author,
    error::Result,
    page, params,
    row::{TableRow, row},
    tx::Tx,
    value::{Param, Row},
};

row! {
    ChatMessage in "chat_messages" {
        id: "id",
        project: "project_id",
        conversation: "conversation_id",
        seq: "seq",
        parent: "parent_id",
        role: "role",
        content: "content",
        status: "status",
        reason: "reason",
        error: "error_message",
        run: "run_id",
        answer: "answer_id",
        retrieval_context: "retrieval_context",
        citations: "citations",
        input_tokens: "input_tokens",
        output_tokens: "output_tokens",
        cost: "cost",
        author: author("author_token", "author_run", "author_tool_call"),
        created_at: "created_at",
    }
}

const COLUMNS: &str = ChatMessage::COLUMNS;

/// Inserts a message as the newest one of its conversation, which the caller has locked, and sets its `seq`.
pub fn insert(tx: &mut Tx<'_>, message: &mut ChatMessage) -> Result<()> {
    let seq: Option<i64> = tx.query_opt(
        "UPDATE chat_conversations SET message_count = message_count + 1, updated_at = $2 WHERE id = $1
         RETURNING message_count",
        params![message.conversation, message.created_at],
        |row| row.get(0),
    )?;
    message.seq = seq.unwrap_or_default();
    tx.insert_row(message, [], "")?;
    super::wake(tx, message.project, message.conversation)
}

/// A message of a conversation.
pub fn get(tx: &mut Tx<'_>, conversation: ConversationId, id: ChatMessageId) -> Result<Option<ChatMessage>> {
    find(tx, "coalesce(conversation_id = $1, false) AND id = $2", params![conversation, id])
}

/// A message of any conversation of a project.
pub fn get_by_id(tx: &mut Tx<'_>, project: ProjectId, id: ChatMessageId) -> Result<Option<ChatMessage>> {
    find(tx, "id = $1 AND coalesce(project_id = $2, false)", params![id, project])
}

/// The conversation of the message that a run answers or has answered, if it does.
pub fn conversation_of_run(
    tx: &mut Tx<'_>,
    project: ProjectId,
    run: RunId,
) -> Result<Option<ConversationId>> {
    let sql = "SELECT conversation_id FROM chat_messages
               WHERE run_id = $1 AND role = 'user' AND coalesce(project_id = $2, false)";
    tx.query_opt(sql, params![run, project], |row| row.get(0))
}

/// The message of a person whose answer has this id, also before there is one.
pub fn get_question(
    tx: &mut Tx<'_>,
    conversation: ConversationId,
    answer: ChatMessageId,
) -> Result<Option<ChatMessage>> {
    find(tx, "coalesce(conversation_id = $1, false) AND answer_id = $2", params![conversation, answer])
}

/// The newest message of a person.
pub fn newest_question(tx: &mut Tx<'_>, conversation: ConversationId) -> Result<Option<ChatMessage>> {
    find(tx, "conversation_id = $1 AND role = 'user' ORDER BY seq DESC LIMIT 1", params![conversation])
}

/// The newest message of a person that is answered or being answered.
pub fn newest_started(tx: &mut Tx<'_>, conversation: ConversationId) -> Result<Option<ChatMessage>> {
    let condition = "conversation_id = $1 AND role = 'user' AND status IN ('answering', 'answered') ORDER BY seq DESC LIMIT 1";
    find(tx, condition, params![conversation])
}

/// The oldest message that waits for its turn.
pub fn next_queued(tx: &mut Tx<'_>, conversation: ConversationId) -> Result<Option<ChatMessage>> {
    find(tx, "conversation_id = $1 AND status = 'queued' ORDER BY seq LIMIT 1", params![conversation])
}

pub(super) fn find(tx: &mut Tx<'_>, condition: &str, params: &[Param<'_>]) -> Result<Option<ChatMessage>> {
    let sql = format!("SELECT {COLUMNS} FROM chat_messages WHERE {condition}");
    tx.query_opt(&sql, params, ChatMessage::from_row)
}

/// How many messages wait for their turn.
pub fn count_queued(tx: &mut Tx<'_>, conversation: ConversationId) -> Result<i64> {
    let sql = "SELECT count(*) FROM chat_messages WHERE conversation_id = $1 AND status = 'queued'";
    Ok(tx.query_opt(sql, params![conversation], |row| row.get(0))?.unwrap_or(0))
}

/// The messages of a conversation after a place, each answer behind its question, and these in the order in which they
/// were sent. With `branch`, only that message and those before it in its branch.
///
/// A message can be sent before the one before it is answered, so the place of an answer follows from its question and
/// not from its own `seq`: this is the order in which a branch is read.
pub fn list(
    tx: &mut Tx<'_>,
    project: ProjectId,
    conversation: ConversationId,
    branch: Option<ChatMessageId>,
    after: i64,
    limit: usize,
) -> Result<ResultPage<ChatMessage>> {
    // Nothing whose place comes later has a smaller `seq`: an answer is written after its question.
    let min_seq = (after - 1).max(0) / 2;
    let mut params =
        vec![Param::from(conversation), Param::from(project), Param::from(after), Param::from(min_seq)];
    let (mut with, mut condition) = ("", "");
    if let Some(branch) = branch {
        params.push(Param::from(branch));
        // A message that waits for its turn follows an answer that is not written yet, and thereby its question.
        with = "WITH RECURSIVE branch (id, parent_id) AS (
                    SELECT id, parent_id FROM chat_messages WHERE id = $5 AND conversation_id = $1
                    UNION
                    SELECT b.id, b.parent_id FROM chat_messages AS b
                    JOIN branch ON b.id = branch.parent_id OR b.answer_id = branch.parent_id
                    WHERE b.conversation_id = $1) ";
        condition = " AND m.id IN (SELECT id FROM branch)";
    }
    let sql = format!(
        "{with}SELECT * FROM (
             SELECT {}, CASE WHEN q.seq IS NULL THEN 2 * m.seq ELSE 2 * q.seq + 1 END AS place
             FROM chat_messages AS m LEFT JOIN chat_messages AS q ON q.answer_id = m.id
             WHERE m.conversation_id = $1 AND m.project_id = $2 AND m.seq > $4{condition}) AS placed
         WHERE place > $3 ORDER BY place LIMIT {}",
        ChatMessage::columns_of("m"),
        limit + 1
    );
    let read = |row: &Row<'_>| Ok((ChatMessage::from_row(row)?, row.get(ChatMessage::COLUMN_COUNT)?));
    Ok(page::query_page(tx, limit, &sql, &params, read, cursor)?.map(|(message, _)| message))
}

/// The cursor of a list that is ordered by places holds the place instead of an id.
fn cursor((message, place): &(ChatMessage, i64)) -> Cursor {
    Cursor { created_at: message.created_at, id: Uuid::from_u128(u128::from(place.unsigned_abs())) }
}

/// The place after which a page starts; 0 on the first page. Fails for a cursor of another list.
pub fn place_after(page: &Page) -> Result<i64, emergent_domain::invalid::Invalid> {
    crate::runs::timeline::seq_after(page)
}

/// The questions and answers up to an answer, newest first, as many as an agent is shown. An answer that has no
/// text says how it ended: models refuse a conversation with an empty answer.
pub fn list_turns_before(
    tx: &mut Tx<'_>,
    conversation: ConversationId,
    answer: Option<ChatMessageId>,
) -> Result<Vec<HistoryTurn>> {
    let (mut turns, mut next) = (Vec::new(), answer);
    while let Some(id) = next.filter(|_| turns.len() < MAX_HISTORY_TURNS) {
        let Some(answer) = get(tx, conversation, id)? else { break };
        let Some(question) = answer.parent.map(|id| get(tx, conversation, id)).transpose()?.flatten() else {
            break;
        };
        let text = match answer.content.trim().is_empty() {
            true => format!("(no answer: {})", answer.status),
            false => answer.content,
        };
        turns.push(HistoryTurn { question: question.content, answer: text });
        next = question.parent;
    }
    Ok(turns)
}

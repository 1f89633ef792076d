//! Starts and ends answers. The end of an answer is written in the transaction that ends its run, whatever ends it:
//! so there is exactly one answer to each message, and it is what the run recorded.

use std::collections::HashSet;

use emergent_domain::{
    author::Author,
    conversation::{
        ChatMessage, ChatMessageStatus, ChatRole, Citation, CitationKind, Conversation, MAX_CITATIONS,
        RetrievalContext, find_citations,
    },
    ids::{ChatMessageId, ProjectId, RunId},
    run::{Run, RunEnd, RunStatus},
    time::Timestamp,
};
use serde_json::Value;
use uuid::Uuid;

use super::{QUEUE, memories, messages};
use crate::{
    error::Result,
    jobs::{self, NewJob},
    page, params,
    row::TableRow,
    runs::{self, history},
    tx::Tx,
    value::Param,
};

/// How many bytes of the results of a run are searched for citations.
const MAX_RESULT_BYTES: usize = 1 << 20;

/// Records that a run answers a message. The caller has locked the conversation and admits the run.
pub fn start(tx: &mut Tx<'_>, question: &ChatMessage, run: RunId, now: Timestamp) -> Result<()> {
    tx.execute(
        "UPDATE chat_messages SET status = 'answering', run_id = $2 WHERE id = $1",
        params![question.id, run],
    )?;
    tx.execute(
        "UPDATE chat_conversations SET status = 'answering', active_run_id = $2, updated_at = $3 WHERE id = $1",
        params![question.conversation, run, now],
    )?;
    super::wake(tx, question.project, question.conversation)
}

/// Writes the answer to a message that could not be answered, because no run could be started. The caller has locked
/// the conversation.
pub fn fail(tx: &mut Tx<'_>, question: &ChatMessage, error: &str, now: Timestamp) -> Result<()> {
    let mut answer = empty_answer(question, ChatMessageStatus::Failed, now);
    answer.error = Some(error.replace('\0', "\u{fffd}"));
    write(tx, question, answer)
}

/// Writes the answer of a run that has ended. Called for each run of a conversation in the transaction that ends it.
pub(crate) fn end(
    tx: &mut Tx<'_>,
    project: ProjectId,
    run: RunId,
    end: &RunEnd,
    now: Timestamp,
) -> Result<()> {
    let condition = "run_id = $1 AND role = 'user' AND status = 'answering' AND project_id = $2";
    let Some(question) = messages::find(tx, condition, params![run, project])? else { return Ok(()) };
    // A run that somebody else ended has a summary if that one knew what its model was writing.
    let (recorded, error): (Option<String>, Option<String>) = tx
        .query_opt("SELECT summary, error_message FROM agent_runs WHERE id = $1", params![run], |row| {
            Ok((row.get(0)?, row.get(1)?))
        })?
        .unwrap_or_default();
    let has_text = |text: &String| !text.trim().is_empty();
    let content = match Some(end.summary().to_owned()).filter(has_text).or(recorded.filter(has_text)) {
        Some(content) => content,
        None => runs::newest_text(tx, run)?,
    };
    // What the answer says is what the run says.
    tx.execute(
        "UPDATE agent_runs SET summary = $2 WHERE id = $1 AND coalesce(summary, '') = ''",
        params![run, &content],
    )?;
    let mut answer = empty_answer(&question, ChatMessageStatus::from_run(end.status()), now);
    let tokens = history::token_totals(tx, &[run])?.remove(&run).unwrap_or_default();
    let passages = question.retrieval_context.clone().unwrap_or_default().passages;
    let citations = find_citations(&passages, &list_results(tx, run)?, &content);
    answer.citations = take_existing(tx, project, citations)?;
    answer.content = content;
    answer.reason = end.reason();
    answer.error = error;
    answer.run = Some(run);
    answer.retrieval_context = Some(RetrievalContext { agent_run_id: Some(run), passages });
    (answer.input_tokens, answer.output_tokens, answer.cost) =
        (Some(tokens.input), Some(tokens.output), tokens.cost);
    write(tx, &question, answer)?;
    memories::enqueue(tx, &question, now)?;
    tx.execute(
        "UPDATE chat_conversations SET status = 'idle' WHERE id = $1 AND deleted_at IS NULL",
        params![question.conversation],
    )?;
    tx.execute(
        "UPDATE chat_conversations SET active_run_id = NULL WHERE id = $1",
        params![question.conversation],
    )?;
    // The answer to the next message is started by a job of this transaction, so that it is never forgotten.
    if messages::next_queued(tx, question.conversation)?.is_some() {
        enqueue(tx, &question, now)?;
    }
    super::wake(tx, project, question.conversation)
}

/// Adds the job that starts the next answer of a conversation, unless there is one.
pub fn enqueue(tx: &mut Tx<'_>, message: &ChatMessage, now: Timestamp) -> Result<()> {
    let key = message.conversation.to_string();
    let job = NewJob { project: Some(message.project), key: Some(&key), ..NewJob::new(QUEUE, now) };
    jobs::enqueue(tx, &job)?;
    Ok(())
}

/// Writes the answer of a conversation whose run has ended without it, because a server of an earlier version ended
/// the run. Returns the conversation as it is then. The caller has locked it.
pub fn repair(tx: &mut Tx<'_>, conversation: Conversation, now: Timestamp) -> Result<Conversation> {
    let (project, Some(id)) = (conversation.project, conversation.active_run) else {
        return Ok(conversation);
    };
    let ended = match runs::get(tx, project, id)? {
        Some(run) if !run.status.is_terminal() => return Ok(conversation),
        Some(run) => run_end(run),
        None => RunEnd::Cancelled { summary: String::new() },
    };
    end(tx, project, id, &ended, now)?;
    Ok(super::get(tx, project, conversation.id)?.unwrap_or(conversation))
}

fn run_end(run: Run) -> RunEnd {
    let summary = run.summary.unwrap_or_default();
    match (run.status, run.reason) {
        (RunStatus::Completed, _) => RunEnd::Completed { summary, output: run.output },
        (RunStatus::Paused, Some(reason)) => RunEnd::Paused { reason, summary },
        (RunStatus::Failed, Some(reason)) => {
            RunEnd::Failed { reason, error: run.error.unwrap_or_default(), summary }
        }
        _ => RunEnd::Cancelled { summary },
    }
}

fn empty_answer(question: &ChatMessage, status: ChatMessageStatus, now: Timestamp) -> ChatMessage {
    ChatMessage {
        id: question.answer.unwrap_or_else(ChatMessageId::new),
        project: question.project,
        conversation: question.conversation,
        seq: 0,
        parent: Some(question.id),
        role: ChatRole::Assistant,
        content: String::new(),
        status,
        reason: None,
        error: None,
        run: None,
        answer: None,
        retrieval_context: question.retrieval_context.clone(),
        citations: Vec::new(),
        input_tokens: None,
        output_tokens: None,
        cost: None,
        author: Author::System,
        created_at: now,
    }
}

fn write(tx: &mut Tx<'_>, question: &ChatMessage, mut answer: ChatMessage) -> Result<()> {
    tx.execute("UPDATE chat_messages SET status = 'answered' WHERE id = $1", params![question.id])?;
    messages::insert(tx, &mut answer)
}

/// The first citations of what the project has. The others were made up by whoever wrote the results, or are deleted by
/// now, often by the run itself: nobody could open them.
fn take_existing(tx: &mut Tx<'_>, project: ProjectId, citations: Vec<Citation>) -> Result<Vec<Citation>> {
    let mut existing: HashSet<Uuid> = HashSet::new();
    for kind in [CitationKind::Object, CitationKind::Relationship, CitationKind::Chunk, CitationKind::Run] {
        let (table, is_live) = match kind {
            CitationKind::Object => ("graph_objects", " AND deleted_at IS NULL"),
            CitationKind::Relationship => ("graph_relationships", " AND deleted_at IS NULL"),
            CitationKind::Chunk => (
                "document_chunks",
                " AND EXISTS (SELECT 1 FROM documents d WHERE d.id = document_id AND d.deleted_at IS NULL)",
            ),
            CitationKind::Run => ("agent_runs", ""),
        };
        let ids: Vec<Uuid> =
            citations.iter().filter(|citation| citation.kind == kind).map(|citation| citation.id).collect();
        for list in page::in_chunks(&ids) {
            let sql = format!(
                "SELECT id FROM {table} WHERE id IN ({}) AND {}",
                page::placeholders(2, list.len()),
                page::on_row(&format!("project_id = $1{is_live}"))
            );
            let mut params = vec![Param::from(project)];
            params.extend(list.into_iter().map(Param::from));
            existing.extend(tx.query(&sql, &params, |row| row.get::<Uuid>(0))?);
        }
    }
    Ok(citations.into_iter().filter(|one| existing.contains(&one.id)).take(MAX_CITATIONS).collect())
}

/// The results of the tool calls of a run, the newest first, as far as they are searched.
fn list_results(tx: &mut Tx<'_>, run: RunId) -> Result<Vec<Value>> {
    use emergent_domain::run_event::RecordedToolCall;
    let sql = format!(
        "SELECT {} FROM agent_run_tool_calls WHERE run_id = $1 AND status = 'completed' ORDER BY seq DESC",
        RecordedToolCall::COLUMNS
    );
    let (calls, _) = tx.query_up_to(MAX_RESULT_BYTES, &sql, params![run], RecordedToolCall::from_row)?;
    Ok(calls.into_iter().filter_map(|call| call.output).collect())
}

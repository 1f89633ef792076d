//! Lists, shows, renames and deletes conversations, and stops their answers.

use emergent_domain::{
    approval::{Approval, ApprovalKind},
    audit::{AuditAction, NewAuditEntry},
    conversation::{ChatMemory, ChatMessage, ChatRole, Conversation, ConversationStatus, check_title},
    cursor::{Page, ResultPage},
    ids::{AgentId, ChatMessageId, ConversationId, ProjectId, RunId},
    invalid::Invalid,
};
use emergent_executor::check_chat_agent;
use emergent_graph::Actor;
use emergent_store::{
    Tx, agents, approvals, audit,
    conversations::{self as rows, ChatUsage, answers, memories, messages},
    projects, runs,
    runs::{history, rehearsals},
};

use crate::{Chat, Error, Result, unknown_conversation};

/// A conversation with what its answers needed, and what the current one waits for.
#[derive(Debug, Clone)]
pub struct ConversationDetail {
    pub conversation: Conversation,
    pub usage: ChatUsage,
    /// The pending requests to people of the run that answers and of those below it.
    pub waiting_for: Vec<Approval>,
}

/// A conversation in a list.
#[derive(Debug, Clone)]
pub struct ListedConversation {
    pub conversation: Conversation,
    /// What its answer waits for.
    pub waiting_for: Option<ApprovalKind>,
}

/// A message in a list.
#[derive(Debug, Clone)]
pub struct ListedMessage {
    pub message: ChatMessage,
    /// What became of its facts, if the agent remembers.
    pub memory: Option<ChatMemory>,
    /// How many tools the run of an answer called; `None` for a message of a person.
    pub tool_call_count: Option<i64>,
    /// Whether it is an answer that a script gave instead of a model.
    pub is_rehearsal: bool,
}

/// The longest text that conversations are searched for.
const MAX_WORDS_BYTES: usize = 1_000;

impl Chat {
    /// Makes a conversation without messages. Its agent never changes.
    pub async fn create_conversation(
        &self,
        actor: Actor,
        title: Option<String>,
        agent: Option<AgentId>,
    ) -> Result<Conversation> {
        let title = title.map(|title| check_title(&title)).transpose()?.unwrap_or_default();
        let now = self.clock().now();
        let work = move |tx: &mut Tx<'_>| {
            if !projects::hold_live(tx, actor.project)? {
                return Err(Error::not_found("project", actor.project));
            }
            let conversation = new_conversation(tx, actor, title.clone(), agent, now)?;
            rows::insert(tx, &conversation)?;
            Ok(conversation)
        };
        self.db().write(work).await
    }

    /// Lists conversations, newest first. `words` are searched in titles and messages.
    pub async fn list_conversations(
        &self,
        project: ProjectId,
        words: Option<String>,
        page: Page,
    ) -> Result<ResultPage<ListedConversation>> {
        let words = words.filter(|words| !words.is_empty());
        if words.as_ref().is_some_and(|words| words.len() > MAX_WORDS_BYTES || words.contains('\0')) {
            let reason = format!("must be at most {MAX_WORDS_BYTES} bytes, without a NUL character");
            return Err(Invalid::new("q", reason).into());
        }
        let read = move |tx: &mut Tx<'_>| {
            let listed = rows::list(tx, project, words.as_deref(), &page)?;
            let active: Vec<RunId> = listed.items.iter().filter_map(|found| found.active_run).collect();
            let waiting = history::waiting_kinds(tx, &active)?;
            Ok::<_, Error>(listed.map(|conversation| ListedConversation {
                waiting_for: conversation.active_run.and_then(|run| waiting.get(&run).copied()),
                conversation,
            }))
        };
        self.db().snapshot(read).await
    }

    pub async fn get_conversation(&self, project: ProjectId, id: ConversationId) -> Result<Conversation> {
        self.db().read(move |tx| get(tx, project, id)).await
    }

    /// Returns a conversation with the tokens and the cost of its answers, and what the current one waits for.
    pub async fn conversation_detail(
        &self,
        project: ProjectId,
        id: ConversationId,
    ) -> Result<ConversationDetail> {
        let read = move |tx: &mut Tx<'_>| {
            let (conversation, usage) = (get(tx, project, id)?, rows::usage(tx, id)?);
            let waiting_for = match conversation.active_run {
                Some(run) => approvals::list_pending_below(tx, run)?,
                None => Vec::new(),
            };
            Ok::<_, Error>(ConversationDetail { conversation, usage, waiting_for })
        };
        self.db().snapshot(read).await
    }

    pub async fn rename_conversation(
        &self,
        project: ProjectId,
        id: ConversationId,
        title: &str,
    ) -> Result<Conversation> {
        let (title, now) = (check_title(title)?, self.clock().now());
        let work = move |tx: &mut Tx<'_>| {
            if !rows::rename(tx, project, id, &title, now)? {
                return Err(unknown_conversation(id));
            }
            get(tx, project, id)
        };
        self.db().write(work).await
    }

    /// Deletes a conversation, and ends its answer. Messages that wait for their turn are not answered.
    pub async fn delete_conversation(&self, project: ProjectId, id: ConversationId) -> Result<Conversation> {
        let now = self.clock().now();
        let work = move |tx: &mut Tx<'_>| {
            let conversation = get(tx, project, id)?;
            let mut cancelled = Vec::new();
            // The run comes before its conversation, as in every transaction that ends a run.
            if let Some(run) = conversation.active_run {
                let reason = "its conversation was deleted";
                cancelled = runs::record::cancel_tree(tx, project, run, reason, now)?;
            }
            rows::delete(tx, project, id, now)?;
            memories::enqueue_forgetting(tx, project, id, now)?;
            let entry =
                NewAuditEntry::new(AuditAction::ConversationDelete, Some(project), &conversation.title);
            let entry = entry.id(id).detail("messages", conversation.message_count);
            audit::record(tx, &entry, now)?;
            Ok::<_, Error>((conversation, cancelled))
        };
        let (conversation, cancelled) = self.db().write(work).await?;
        self.executor.stop_driving(&cancelled);
        Ok(Conversation {
            status: ConversationStatus::Deleted,
            active_run: None,
            deleted_at: Some(now),
            ..conversation
        })
    }

    /// Stops the answer of a conversation. What its model has written so far becomes the answer. A conversation
    /// without an answer in progress is refused.
    pub async fn stop_answer(&self, project: ProjectId, id: ConversationId) -> Result<Conversation> {
        let now = self.clock().now();
        let active = self.get_conversation(project, id).await?.active_run.ok_or_else(no_answer)?;
        let written = self.executor.text_in_progress(active).await?;
        let work = move |tx: &mut Tx<'_>| {
            if let Some(text) = &written {
                runs::set_partial_summary(tx, active, text)?;
            }
            let reason = "stopped in its conversation";
            let cancelled = runs::record::cancel_tree(tx, project, active, reason, now)?;
            if cancelled.is_empty() {
                return Err(no_answer());
            }
            Ok((get(tx, project, id)?, cancelled))
        };
        let (conversation, cancelled) = self.db().write(work).await?;
        self.executor.stop_driving(&cancelled);
        Ok(conversation)
    }

    /// Returns the messages, each answer behind its question and the oldest first, with what became of their facts if
    /// the agent remembers, how many tools were called, and whether a script answered. With `branch`, only that message
    /// and those before it in its branch.
    pub async fn list_messages(
        &self,
        project: ProjectId,
        id: ConversationId,
        branch: Option<ChatMessageId>,
        page: Page,
    ) -> Result<ResultPage<ListedMessage>> {
        let after = messages::place_after(&page)?;
        let read = move |tx: &mut Tx<'_>| {
            get(tx, project, id)?;
            if let Some(branch) = branch
                && messages::get(tx, id, branch)?.is_none()
            {
                return Err(Invalid::new("branch", "is not a message of this conversation").into());
            }
            let ResultPage { items, next } = messages::list(tx, project, id, branch, after, page.limit)?;
            let ids: Vec<ChatMessageId> = items.iter().map(|message| message.id).collect();
            let mut memories = memories::list_for(tx, project, &ids)?;
            let answering: Vec<RunId> = items.iter().filter_map(run_of_answer).collect();
            let calls = history::tool_call_counts(tx, &answering)?;
            let rehearsed = rehearsals::list_rehearsed(tx, &answering)?;
            let items = items.into_iter().map(|message| {
                let run = run_of_answer(&message);
                ListedMessage {
                    memory: memories.remove(&message.id),
                    tool_call_count: run.map(|run| calls.get(&run).copied().unwrap_or(0)),
                    is_rehearsal: run.is_some_and(|run| rehearsed.contains(&run)),
                    message,
                }
            });
            Ok::<_, Error>(ResultPage { items: items.collect(), next })
        };
        self.db().snapshot(read).await
    }

    /// Writes the answer of a run that has ended without it; see [`answers::repair`].
    pub(crate) async fn repair(&self, project: ProjectId, id: ConversationId) -> Result<()> {
        let now = self.clock().now();
        let work = move |tx: &mut Tx<'_>| {
            if let Some(conversation) = rows::lock(tx, project, id)? {
                answers::repair(tx, conversation, now)?;
            }
            Ok::<_, Error>(())
        };
        self.db().write(work).await
    }
}

/// Returns the run that wrote an answer; `None` for a message of a person.
fn run_of_answer(message: &ChatMessage) -> Option<RunId> {
    message.run.filter(|_| message.role == ChatRole::Assistant)
}

fn no_answer() -> Error {
    Error::Conflict("no message of this conversation is being answered".to_owned())
}

pub(crate) fn get(tx: &mut Tx<'_>, project: ProjectId, id: ConversationId) -> Result<Conversation> {
    rows::get(tx, project, id)?.ok_or_else(|| unknown_conversation(id))
}

/// Returns a conversation that is not stored yet. An agent that the project does not have is refused, and so is one
/// that cannot be started by a message.
pub(crate) fn new_conversation(
    tx: &mut Tx<'_>,
    actor: Actor,
    title: String,
    agent: Option<AgentId>,
    now: emergent_domain::time::Timestamp,
) -> Result<Conversation> {
    let agent = match agent {
        None => None,
        Some(id) => {
            let agent = agents::get(tx, actor.project, id)?;
            let agent = agent.ok_or_else(|| Error::not_found("agent", id))?;
            check_chat_agent(&agent)?;
            Some(agent)
        }
    };
    Ok(Conversation {
        id: ConversationId::new(),
        project: actor.project,
        title,
        agent: agent.as_ref().map(|agent| agent.id),
        agent_name: agent.map(|agent| agent.definition.name),
        status: ConversationStatus::Idle,
        active_run: None,
        message_count: 0,
        author: actor.author,
        created_at: now,
        updated_at: now,
        deleted_at: None,
        external_id: None,
    })
}

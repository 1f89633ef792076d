//! Goes on with a conversation for a caller from outside. The caller names a conversation, or a run that it started
//! without one: the conversation is then made from that run, with the same id. So a caller that never goes on leaves
//! no conversation behind. A caller may also name a conversation itself: the first message makes it.

use emergent_domain::{
    author::Author,
    conversation::{
        ChatMessage, ChatMessageStatus, ChatRole, Conversation, ConversationStatus, MAX_MESSAGE_BYTES,
        RetrievalContext, title_from_message,
    },
    ids::{AgentId, ChatMessageId, ConversationId, ProjectId, RunId, TokenId},
    invalid::Invalid,
    run::{MessageRole, Origin, Run},
    run_event::MessageContent,
    time::Timestamp,
};
use emergent_executor::{AdmissionBatch, StartOptions};
use emergent_graph::Actor;
use emergent_store::{
    Tx,
    conversations::{self as rows, messages},
    idempotency::accept_once,
    runs,
};

use serde_json::json;
use sha2::{Digest, Sha256};

use crate::{
    Chat, Error, NewMessage, Result, SentMessage, answer::AnswerTerms, conversations, send::store_message,
    unknown_conversation,
};

/// How many messages of a run are read to find its input: the system prompt, what was said before, and the input.
const MAX_FIRST_MESSAGES: usize = 200;

/// How a caller from outside names a conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ConversationRef {
    /// By the id of the conversation, or of the run from which it is made.
    Id(ConversationId),
    /// By a name that the caller made. Each caller has its own names for each agent: the same name of another caller is
    /// another conversation, so that nobody learns which names others use.
    Name(String),
}

/// The conversation that a caller from outside goes on with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContinuedConversation {
    pub conversation: ConversationRef,
    /// The agent that the caller starts. The conversation has to be one with this agent.
    pub agent: AgentId,
    /// Whether the caller may use all conversations of the project. Otherwise only its own: an answer may repeat what
    /// was said before.
    pub of_others: bool,
}

impl Chat {
    /// Stores the input as the next message of a conversation and starts the run that answers it. Only an external
    /// agent is started. A conversation in which a message is being answered is refused.
    pub async fn invoke(
        &self,
        actor: Actor,
        continued: ContinuedConversation,
        start: StartOptions,
    ) -> Result<SentMessage> {
        check_input(&start.input)?;
        self.executor.check_capacity(actor.project).await?;
        let slots = self.executor.try_acquire_slots(actor.project, 1);
        let (executor, now) = (self.executor.clone(), self.clock().now());
        let StartOptions { input, context, traceparent, .. } = start.with_trace_context();
        let id = match &continued.conversation {
            ConversationRef::Id(id) => *id,
            ConversationRef::Name(name) => named_id(actor, continued.agent, name),
        };
        let new = NewMessage { text: input, conversation: Some(id), agent: None, parent: None, queue: false };
        let terms = AnswerTerms { origin: Origin::Invoke, context, traceparent };
        let work = move |tx: &mut Tx<'_>, admissions: &mut AdmissionBatch| {
            accept_once(tx, |tx| {
                match &continued.conversation {
                    ConversationRef::Id(id) => open(tx, actor, *id, &continued, now)?,
                    ConversationRef::Name(name) => {
                        open_named(tx, actor, id, name, continued.agent, &new.text, now)?;
                    }
                }
                store_message(tx, &executor, admissions, actor, &new, &[], terms.clone(), now)
            })
        };
        self.executor.commit_and_drive(slots, work).await
    }

    /// Returns the conversation of a run, if it answers a message of one.
    pub async fn conversation_of_run(
        &self,
        project: ProjectId,
        run: RunId,
    ) -> Result<Option<ConversationId>> {
        Ok(self.db().read(move |tx| messages::conversation_of_run(tx, project, run)).await?)
    }

    /// Returns the run that answers a message which was stored before.
    pub async fn run_of_message(&self, project: ProjectId, id: ChatMessageId) -> Result<RunId> {
        let message = self.db().read(move |tx| messages::get_by_id(tx, project, id)).await?;
        let run = message.and_then(|message| message.run);
        run.ok_or_else(|| Error::NotFound { what: "message", id: id.to_string(), similar: None })
    }
}

fn check_input(input: &str) -> Result<(), Invalid> {
    let reason = match input {
        text if text.trim().is_empty() => "is required: it tells the agent what to do".to_owned(),
        text if text.len() > MAX_MESSAGE_BYTES => {
            format!("is longer than {MAX_MESSAGE_BYTES} bytes, which a message of a conversation may have")
        }
        text if text.contains('\0') => "has a NUL character".to_owned(),
        _ => return Ok(()),
    };
    Err(Invalid::new("input", reason))
}

/// Checks that the caller may go on with the conversation, and makes it from a run if there is none. What the caller
/// may not see is not found.
fn open(
    tx: &mut Tx<'_>,
    actor: Actor,
    id: ConversationId,
    continued: &ContinuedConversation,
    now: Timestamp,
) -> Result<()> {
    let conversation = match rows::get(tx, actor.project, id)? {
        Some(conversation) => conversation,
        None => from_run(tx, actor, id, continued, now)?,
    };
    if conversation.author != actor.author && !continued.of_others {
        return Err(unknown_conversation(id));
    }
    if conversation.agent != Some(continued.agent) {
        let reason = "is not a conversation with this agent: begin another one, or name its agent";
        return Err(Invalid::new("conversationId", reason).into());
    }
    Ok(())
}

/// The id of the conversation to which a caller gave a name. It is made of the caller, so that nobody else's name leads
/// there, and of nothing else, so that it is the same after a restart and on every server.
fn named_id(actor: Actor, agent: AgentId, name: &str) -> ConversationId {
    let mut hash = Sha256::new();
    let caller = json!([actor.project, actor.author, agent, name]);
    hash.update(caller.to_string());
    let digest = hash.finalize();
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&digest[..16]);
    // Version 8 has no meaning of its own, so that it is the id of nothing else.
    ConversationId(uuid::Builder::from_custom_bytes(bytes).into_uuid())
}

/// Makes the conversation to which the caller gave this name, unless there is one.
fn open_named(
    tx: &mut Tx<'_>,
    actor: Actor,
    id: ConversationId,
    name: &str,
    agent: AgentId,
    input: &str,
    now: Timestamp,
) -> Result<()> {
    if rows::get(tx, actor.project, id)?.is_some() {
        return Ok(());
    }
    let new = conversations::new_conversation(tx, actor, title_from_message(input), Some(agent), now)?;
    rows::insert_new(tx, &Conversation { id, external_id: Some(name.to_owned()), ..new })?;
    match rows::get(tx, actor.project, id)? {
        Some(_) => Ok(()),
        None => Err(Invalid::new("conversationId", "was deleted: choose another name").into()),
    }
}

/// Makes a conversation from a run that a caller started, with its input and its answer.
fn from_run(
    tx: &mut Tx<'_>,
    actor: Actor,
    conversation: ConversationId,
    continued: &ContinuedConversation,
    now: Timestamp,
) -> Result<Conversation> {
    let unknown = || unknown_conversation(conversation);
    let id = RunId(conversation.0);
    // The lock makes one of two requests at once wait, which then finds the conversation.
    let run = runs::get_for_update(tx, actor.project, id)?.ok_or_else(unknown)?;
    if let Some(conversation) = rows::get(tx, actor.project, conversation)? {
        return Ok(conversation);
    }
    let is_of_caller = run.started_by.is_some_and(|token| is_token(actor, token));
    let is_readable = is_of_caller || continued.of_others;
    // The conversation was deleted, or the run answers a message of another one.
    let is_taken =
        rows::exists(tx, conversation)? || messages::conversation_of_run(tx, actor.project, id)?.is_some();
    if run.origin != Origin::Invoke || !is_readable || is_taken {
        return Err(unknown());
    }
    // A run that was paused may have been resumed since: its answer is that of the last run of the chain.
    let newest = runs::chains::get_newest(tx, actor.project, id)?.unwrap_or_else(|| run.clone());
    if !newest.status.is_terminal() {
        let unfinished = newest.id;
        let message = format!("run `{unfinished}` has not ended: wait for its answer, or cancel it");
        return Err(Error::Conflict(message));
    }
    let input = input_of(tx, id)?;
    let conversation = new_conversation(&run, &input, now);
    rows::insert(tx, &conversation)?;
    let mut question = question(&conversation, &run, input, now);
    messages::insert(tx, &mut question)?;
    let mut answer = answer(tx, &question, &newest, now)?;
    messages::insert(tx, &mut answer)?;
    Ok(conversation)
}

fn is_token(actor: Actor, token: TokenId) -> bool {
    actor.author == Author::Token { id: token }
}

fn new_conversation(run: &Run, input: &str, now: Timestamp) -> Conversation {
    Conversation {
        id: ConversationId(run.id.0),
        project: run.project,
        title: title_from_message(input),
        agent: Some(run.agent),
        agent_name: Some(run.agent_name.clone()),
        status: ConversationStatus::Idle,
        active_run: None,
        message_count: 0,
        author: run.started_by.map_or(Author::System, |id| Author::Token { id }),
        created_at: now,
        updated_at: now,
        deleted_at: None,
        external_id: None,
    }
}

/// The input that a run was started with: the message of a person that is not of what was said before.
fn input_of(tx: &mut Tx<'_>, run: RunId) -> Result<String> {
    let first =
        runs::timeline::messages_with_calls(tx, run, runs::timeline::SeqRange::after(0), MAX_FIRST_MESSAGES)?;
    let input = first.into_iter().find(|message| message.role == MessageRole::User && message.step > 0);
    Ok(match input.map(|message| message.content) {
        Some(MessageContent::Text { text, .. }) => text,
        _ => String::new(),
    })
}

fn question(conversation: &Conversation, run: &Run, content: String, now: Timestamp) -> ChatMessage {
    ChatMessage {
        id: ChatMessageId::new(),
        project: run.project,
        conversation: conversation.id,
        seq: 0,
        parent: None,
        role: ChatRole::User,
        content,
        status: ChatMessageStatus::Answered,
        reason: None,
        error: None,
        run: Some(run.id),
        answer: Some(ChatMessageId::new()),
        retrieval_context: None,
        citations: Vec::new(),
        input_tokens: None,
        output_tokens: None,
        cost: None,
        author: conversation.author,
        created_at: now,
    }
}

fn answer(tx: &mut Tx<'_>, question: &ChatMessage, run: &Run, now: Timestamp) -> Result<ChatMessage> {
    let tokens = runs::history::token_totals(tx, &[run.id])?.remove(&run.id).unwrap_or_default();
    Ok(ChatMessage {
        id: question.answer.unwrap_or_else(ChatMessageId::new),
        parent: Some(question.id),
        role: ChatRole::Assistant,
        content: run.summary.clone().unwrap_or_default(),
        status: ChatMessageStatus::from_run(run.status),
        reason: run.reason,
        error: run.error.clone(),
        answer: None,
        retrieval_context: Some(RetrievalContext { agent_run_id: Some(run.id), passages: Vec::new() }),
        input_tokens: Some(tokens.input),
        output_tokens: Some(tokens.output),
        cost: tokens.cost,
        author: Author::System,
        created_at: now,
        ..question.clone()
    })
}

//! Stores a message of a person and admits the run that answers it, in one transaction. A message that is sent while
//! another one is being answered can wait for its turn.

use emergent_domain::{
    conversation::{
        ChatMessage, ChatMessageStatus, ChatRole, Conversation, ConversationStatus, MAX_MESSAGES, MAX_QUEUED,
        RetrievalContext, RetrievedPassage, check_message, title_from_message,
    },
    ids::{AgentId, ChatMessageId, ConversationId},
    invalid::Invalid,
    run::Origin,
    time::Timestamp,
};
use emergent_executor::{AdmissionBatch, Executor, StartOptions};
use emergent_graph::Actor;
use emergent_store::{
    Tx,
    conversations::{self as rows, answers, messages},
    idempotency::{AcceptedWork, AsAcceptedWork, accept_once},
    projects,
};

use crate::{
    Chat, Error, Result,
    answer::{self, AnswerTerms},
    conversations::{self, new_conversation},
    unknown_conversation,
};

/// A message of a person.
#[derive(Debug, Clone, PartialEq)]
pub struct NewMessage {
    pub text: String,
    /// `None` makes a new conversation.
    pub conversation: Option<ConversationId>,
    /// The agent of a new conversation.
    pub agent: Option<AgentId>,
    /// The answer that the message follows, or the message of a person whose place it takes. `None` is the newest
    /// answer.
    pub parent: Option<ChatMessageId>,
    /// Whether the message waits for its turn while another one is being answered.
    pub queue: bool,
}

/// A message that is stored.
#[derive(Debug, Clone, PartialEq)]
pub struct SentMessage {
    pub conversation: Conversation,
    /// Its `run` is `None` while it waits for its turn.
    pub message: ChatMessage,
}

impl AsAcceptedWork for SentMessage {
    fn as_accepted_work(&self) -> AcceptedWork<'_> {
        AcceptedWork::Message(self.message.id)
    }
}

impl Chat {
    /// Stores a message and starts its answer, or queues it. Nothing is stored if the message is refused.
    pub async fn send(&self, actor: Actor, new: NewMessage) -> Result<SentMessage> {
        check_message(&new.text)?;
        let passages = self.find_passages(actor, &new).await?;
        self.executor.check_capacity(actor.project).await?;
        let slots = self.executor.try_acquire_slots(actor.project, 1);
        let (executor, now) = (self.executor.clone(), self.clock().now());
        let terms = AnswerTerms::for_chat(StartOptions::default().with_trace_context().traceparent);
        let work = move |tx: &mut Tx<'_>, admissions: &mut AdmissionBatch| {
            accept_once(tx, |tx| {
                store_message(tx, &executor, admissions, actor, &new, &passages, terms.clone(), now)
            })
        };
        self.executor.commit_and_drive(slots, work).await
    }

    /// What a search finds for a message of a conversation without an agent.
    async fn find_passages(&self, actor: Actor, new: &NewMessage) -> Result<Vec<RetrievedPassage>> {
        let agent = match new.conversation {
            None => new.agent,
            Some(id) => {
                let project = actor.project;
                self.db().read(move |tx| conversations::get(tx, project, id)).await?.agent
            }
        };
        if agent.is_some() { Ok(Vec::new()) } else { self.retrieve(actor.project, &new.text).await }
    }
}

/// Stores a message and starts its answer, or queues it.
#[expect(clippy::too_many_arguments, reason = "the parts of one transaction, which may run more than once")]
pub(crate) fn store_message(
    tx: &mut Tx<'_>,
    executor: &Executor,
    admissions: &mut AdmissionBatch,
    actor: Actor,
    new: &NewMessage,
    passages: &[RetrievedPassage],
    terms: AnswerTerms,
    now: Timestamp,
) -> Result<SentMessage> {
    let mut conversation = open_conversation(tx, actor, new, now)?;
    let is_free = conversation.status == ConversationStatus::Idle
        && messages::next_queued(tx, conversation.id)?.is_none();
    check_room(tx, &conversation, is_free, new.queue, terms.origin)?;
    let status = if is_free { ChatMessageStatus::Answering } else { ChatMessageStatus::Queued };
    let parent = choose_parent(tx, &conversation, new)?;
    let mut message = new_message(actor, &conversation, new, passages, now);
    (message.parent, message.status) = (parent, status);
    messages::insert(tx, &mut message)?;
    if is_free {
        // If the run is refused, the transaction is rolled back, and nothing is stored.
        let run = answer::start(tx, executor, admissions, &conversation, &message, terms, now)?;
        message.run = Some(run);
    } else if conversation.status == ConversationStatus::Idle {
        answers::enqueue(tx, &message, now)?;
    }
    if let Some(stored) = rows::get(tx, actor.project, conversation.id)? {
        conversation = stored;
    }
    Ok(SentMessage { conversation, message })
}

/// Locks the conversation of a message, or makes a new one.
fn open_conversation(
    tx: &mut Tx<'_>,
    actor: Actor,
    new: &NewMessage,
    now: Timestamp,
) -> Result<Conversation> {
    let Some(id) = new.conversation else {
        if new.parent.is_some() {
            let reason = "needs `conversationId`: a new conversation has no messages";
            return Err(Invalid::new("parentId", reason).into());
        }
        if !projects::hold_live(tx, actor.project)? {
            return Err(Error::not_found("project", actor.project));
        }
        let conversation = new_conversation(tx, actor, title_from_message(&new.text), new.agent, now)?;
        rows::insert(tx, &conversation)?;
        return Ok(conversation);
    };
    let conversation = rows::lock(tx, actor.project, id)?.ok_or_else(|| unknown_conversation(id))?;
    let mut conversation = answers::repair(tx, conversation, now)?;
    if conversation.title.is_empty() {
        conversation.title = title_from_message(&new.text);
        rows::rename(tx, actor.project, id, &conversation.title, now)?;
    }
    Ok(conversation)
}

/// Refuses a message while another one is being answered, unless it may wait, and a conversation that is full.
fn check_room(
    tx: &mut Tx<'_>,
    conversation: &Conversation,
    is_free: bool,
    may_wait: bool,
    origin: Origin,
) -> Result<()> {
    if conversation.message_count >= MAX_MESSAGES {
        return Err(Error::Conflict(format!(
            "this conversation has {MAX_MESSAGES} messages, which is the limit: begin a new one"
        )));
    }
    if is_free {
        return Ok(());
    }
    if !may_wait {
        // Callers from outside cannot queue a message.
        let advice = match origin {
            Origin::Chat => "wait for the answer, stop it, or send the message with `queue: true`",
            _ => "wait for the answer, or cancel its run",
        };
        return Err(Error::Conflict(format!("a message of this conversation is being answered: {advice}")));
    }
    let queued = messages::count_queued(tx, conversation.id)?;
    if queued >= MAX_QUEUED {
        return Err(Error::Conflict(format!(
            "{queued} messages of this conversation wait for their turn, which is the limit"
        )));
    }
    Ok(())
}

/// Returns the answer that a message follows; `None` for the first message of a branch at the very beginning.
fn choose_parent(
    tx: &mut Tx<'_>,
    conversation: &Conversation,
    new: &NewMessage,
) -> Result<Option<ChatMessageId>> {
    let Some(id) = new.parent else {
        // The answer has its id before it exists, so that messages can wait for it.
        return Ok(messages::newest_question(tx, conversation.id)?.and_then(|question| question.answer));
    };
    if let Some(message) = messages::get(tx, conversation.id, id)? {
        return Ok(match message.role {
            ChatRole::Assistant => Some(message.id),
            ChatRole::User => message.parent,
        });
    }
    match messages::get_question(tx, conversation.id, id)? {
        Some(question) => Ok(question.answer),
        None => Err(Invalid::new("parentId", "is not a message of this conversation").into()),
    }
}

fn new_message(
    actor: Actor,
    conversation: &Conversation,
    new: &NewMessage,
    passages: &[RetrievedPassage],
    now: Timestamp,
) -> ChatMessage {
    let context = RetrievalContext { agent_run_id: None, passages: passages.to_vec() };
    ChatMessage {
        id: ChatMessageId::new(),
        project: actor.project,
        conversation: conversation.id,
        seq: 0,
        parent: None,
        role: ChatRole::User,
        content: new.text.clone(),
        status: ChatMessageStatus::Queued,
        reason: None,
        error: None,
        run: None,
        answer: Some(ChatMessageId::new()),
        retrieval_context: Some(context).filter(|context| !context.passages.is_empty()),
        citations: Vec::new(),
        input_tokens: None,
        output_tokens: None,
        cost: None,
        author: actor.author,
        created_at: now,
    }
}

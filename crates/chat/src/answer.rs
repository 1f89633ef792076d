//! Starts the answer to a message, in the transaction that stores the message or takes it from the queue.

use emergent_domain::{
    agent::Agent,
    author::Author,
    conversation::{ChatMessage, Conversation, select_history},
    ids::RunId,
    run::Origin,
    time::Timestamp,
};
use emergent_executor::{AdmissionBatch, ChatRun, Executor, StartOptions, admit_chat_run};
use emergent_store::{
    Tx, agents,
    conversations::{answers, memories, messages},
};
use serde_json::Value;

use crate::{Error, Result, retrieval};

/// What the run of an answer is started with, besides the message.
#[derive(Debug, Clone)]
pub(crate) struct AnswerTerms {
    /// What sent the message: `chat` or `invoke`.
    pub origin: Origin,
    /// This JSON is shown to the agent below the message.
    pub context: Option<Value>,
    pub traceparent: Option<String>,
}

impl AnswerTerms {
    /// The terms of a message of a chat.
    pub fn for_chat(traceparent: Option<String>) -> Self {
        Self { origin: Origin::Chat, context: None, traceparent }
    }
}

/// Admits the run that answers a stored message, and returns its id. The caller has locked the conversation. An error
/// that is not one of the database means that nothing was written.
pub(crate) fn start(
    tx: &mut Tx<'_>,
    executor: &Executor,
    admissions: &mut AdmissionBatch,
    conversation: &Conversation,
    question: &ChatMessage,
    terms: AnswerTerms,
    now: Timestamp,
) -> Result<RunId> {
    let agent = answering_agent(tx, conversation, now)?;
    let turns = messages::list_turns_before(tx, conversation.id, question.parent)?;
    let input = match conversation.agent {
        Some(_) => question.content.clone(),
        None => {
            let found = question.retrieval_context.as_ref().map_or(&[][..], |context| &context.passages);
            retrieval::with_passages(&question.content, found)
        }
    };
    let AnswerTerms { origin, context, traceparent } = terms;
    let history = select_history(turns);
    let start = StartOptions { input, context, history, traceparent, ..StartOptions::default() };
    let started_by = match question.author {
        Author::Token { id } => Some(id),
        _ => None,
    };
    let run = ChatRun { id: RunId::new(), origin, started_by };
    admit_chat_run(tx, executor, admissions, &agent, run, &start)?;
    answers::start(tx, question, run.id, now)?;
    // The retrieval agent of a conversation without an agent never remembers.
    if conversation.agent.is_some() && agent.definition.remembers() {
        memories::begin(tx, question, run.id, now)?;
    }
    Ok(run.id)
}

/// The agent that answers in a conversation.
fn answering_agent(tx: &mut Tx<'_>, conversation: &Conversation, now: Timestamp) -> Result<Agent> {
    let Some(id) = conversation.agent else {
        return Ok(retrieval::stored_agent(tx, conversation.project, now)?);
    };
    agents::get(tx, conversation.project, id)?.ok_or_else(|| {
        let name = conversation.agent_name.as_deref().unwrap_or_default();
        Error::Conflict(format!(
            "the agent `{name}` of this conversation was deleted: begin a new conversation with another agent"
        ))
    })
}

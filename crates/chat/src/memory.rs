//! Passes the messages of people on to the extraction, for agents with `config.remember`. A message becomes a document,
//! which starts the agents with `trigger: on_document_ingested`. The job for it is written with the answer, and it is
//! completed in the transaction that writes the document: so each message is stored once, and no answer waits for it.

use emergent_domain::{
    author::Author,
    conversation::{ChatMemory, ChatMemoryStatus, ChatMessage, Conversation},
    document::NewDocument,
    ids::{ChatMessageId, ConversationId, ProjectId},
    time::Timestamp,
    trigger::EventKind,
};
use emergent_executor::Executor;
use emergent_graph::{
    Actor,
    documents::{self, PreparedDocument},
    worker::{ClaimedJob, JobOutcome, Worker},
};
use emergent_store::{
    Tx, agents,
    conversations::{self as rows, memories, messages},
    jobs, triggers,
};
use serde_json::json;
use tokio::sync::watch;
use tracing::info;

use crate::{Chat, Error, Result};

/// How many documents of a deleted conversation one transaction deletes.
const FORGET_BATCH: usize = 20;

impl Chat {
    /// Stores messages as documents until `stop` becomes true.
    pub(crate) async fn run_memory(&self, stop: watch::Receiver<bool>) {
        let chat = self.clone();
        let worker = Worker { concurrency: 2, ..Worker::new(memories::QUEUE) };
        worker
            .run(self.db().clone(), self.clock().clone(), stop, move |claimed: ClaimedJob| {
                let chat = chat.clone();
                async move { chat.work_on_memory(claimed).await }
            })
            .await;
    }

    async fn work_on_memory(&self, claimed: ClaimedJob) -> Result<JobOutcome> {
        let (Some(project), Some(key)) = (claimed.job.project, claimed.job.key.clone()) else {
            return Ok(JobOutcome::Done);
        };
        if let Some(id) = key.strip_prefix("forget:").and_then(|id| id.parse::<ConversationId>().ok()) {
            return self.forget(project, id).await;
        }
        match key.parse::<ChatMessageId>() {
            Ok(message) => self.remember(claimed, project, message).await,
            Err(_) => Ok(JobOutcome::Done),
        }
    }

    /// Stores a message as a document, or records why it is not extracted, and completes the job with it.
    async fn remember(
        &self,
        claimed: ClaimedJob,
        project: ProjectId,
        id: ChatMessageId,
    ) -> Result<JobOutcome> {
        let read = move |tx: &mut Tx<'_>| find_message(tx, project, id);
        let Some((conversation, message, memory)) = self.db().snapshot(read).await? else {
            return Ok(JobOutcome::Done);
        };
        let author = message.author;
        let new = new_document(&conversation, message, &memory);
        let prepared = match self.executor.graph().prepare_document(project, new).await {
            Ok(prepared) => Ok(prepared.with_identity(&id.to_string())),
            Err(emergent_graph::Error::Invalid(invalid)) => Err(invalid.to_string()),
            Err(error) => return Err(error.into()),
        };
        let (executor, now) = (self.executor.clone(), self.clock().now());
        let work = move |tx: &mut Tx<'_>| {
            if !jobs::lock_owned(tx, claimed.job.id, &claimed.owner)? {
                return Ok(JobOutcome::Completed);
            }
            // The lock keeps the conversation from being deleted before its document exists.
            let is_live = rows::lock(tx, project, conversation.id)?.is_some();
            let memory = memories::get(tx, project, id)?;
            if is_live && memory.is_some_and(|memory| memory.status == ChatMemoryStatus::Queued) {
                store(tx, &executor, Actor { project, author }, id, &prepared, now)?;
            }
            jobs::complete(tx, claimed.job.id, &claimed.owner, now)?;
            Ok::<_, Error>(JobOutcome::Completed)
        };
        self.db().write(work).await
    }

    /// Deletes the documents of a deleted conversation.
    async fn forget(&self, project: ProjectId, id: ConversationId) -> Result<JobOutcome> {
        let (graph, now) = (self.executor.graph().clone(), self.clock().now());
        let actor = Actor { project, author: Author::System };
        let work = move |tx: &mut Tx<'_>| {
            let stored = memories::list_stored(tx, id, FORGET_BATCH)?;
            let ctx = graph.write_context(tx, actor)?;
            for memory in &stored {
                match memory.document.map(|document| documents::delete(tx, &ctx, document)) {
                    // Somebody may have deleted the document before.
                    None | Some(Ok(_) | Err(emergent_graph::Error::NotFound { .. })) => {}
                    Some(Err(error)) => return Err(error.into()),
                }
                memories::mark_forgotten(tx, memory.message, now)?;
            }
            Ok::<_, Error>(stored.len())
        };
        let deleted = self.db().write(work).await?;
        Ok(if deleted < FORGET_BATCH { JobOutcome::Done } else { JobOutcome::More })
    }
}

/// Returns a message that is to be stored, with its conversation; `None` if there is nothing to do.
fn find_message(
    tx: &mut Tx<'_>,
    project: ProjectId,
    id: ChatMessageId,
) -> Result<Option<(Conversation, ChatMessage, ChatMemory)>> {
    let Some(memory) = memories::get(tx, project, id)? else { return Ok(None) };
    let Some(conversation) = rows::get(tx, project, memory.conversation)? else { return Ok(None) };
    let message = messages::get(tx, conversation.id, id)?;
    let is_queued = memory.status == ChatMemoryStatus::Queued;
    Ok(message.filter(|_| is_queued).map(|message| (conversation, message, memory)))
}

/// A message as a document. What the agent answered is left out: it comes from the graph or from tools, or is a guess.
fn new_document(conversation: &Conversation, message: ChatMessage, memory: &ChatMemory) -> NewDocument {
    let metadata = json!({
        "conversationId": conversation.id, "messageId": message.id, "runId": memory.run,
    });
    NewDocument {
        title: format!("Message in the conversation \"{}\"", conversation.title),
        content: message.content.into_bytes(),
        mime_type: Some("text/plain".to_owned()),
        source_url: None,
        metadata: metadata.as_object().cloned().unwrap_or_default(),
    }
}

/// Writes the document of a message, or the reason why there is none.
fn store(
    tx: &mut Tx<'_>,
    executor: &Executor,
    actor: Actor,
    id: ChatMessageId,
    prepared: &Result<PreparedDocument, String>,
    now: Timestamp,
) -> Result<()> {
    let checked = match prepared {
        Ok(prepared) => find_extractor(tx, executor, actor.project)?.map(|()| prepared),
        Err(reason) => Err(reason.clone()),
    };
    match checked {
        Ok(prepared) => {
            let ctx = executor.graph().write_context(tx, actor)?;
            let (document, _) = documents::create(tx, &ctx, prepared)?;
            memories::settle(tx, id, Ok(document.id), now)?;
        }
        Err(reason) => {
            info!(chat.message.id = %id, "the facts of a message are not extracted: {reason}");
            memories::settle(tx, id, Err(&reason.replace('\0', "\u{fffd}")), now)?;
        }
    }
    Ok(())
}

/// Checks that a document starts something that can run; otherwise returns what is missing.
fn find_extractor(
    tx: &mut Tx<'_>,
    executor: &Executor,
    project: ProjectId,
) -> Result<std::result::Result<(), String>> {
    let mut problem = "no agent of this project is started by a new document: install the product \
                       `emergent.memory`, or give an agent the trigger `on_document_ingested`"
        .to_owned();
    for trigger in triggers::list(tx, project)? {
        if trigger.event != EventKind::DocumentIngested {
            continue;
        }
        // What a workflow or a flow needs is checked when it starts.
        if trigger.dispatch.is_some() {
            return Ok(Ok(()));
        }
        let Some(agent) = agents::get(tx, project, trigger.agent)? else { continue };
        if agent.definition.flow_config.is_some() {
            return Ok(Ok(()));
        }
        match executor.models().choose_for_run(None, agent.definition.model.as_ref()) {
            Ok(_) => return Ok(Ok(())),
            Err(error) => {
                problem = format!("the agent `{}` cannot run: {error}", agent.definition.name);
            }
        }
    }
    Ok(Err(problem))
}

//! Starts the answers to messages that waited for their turn. The transaction that ends an answer adds a job if
//! another message waits, so a crash cannot forget it.

use emergent_domain::{
    author::Author,
    conversation::ChatMessage,
    ids::{ConversationId, ProjectId},
    time::Timestamp,
};
use emergent_executor::{AdmissionBatch, Executor};
use emergent_graph::worker::{ClaimedJob, JobOutcome, Worker};
use emergent_store::{
    Tx,
    conversations::{self as rows, QUEUE, answers, messages},
    jobs, tokens,
};
use tokio::sync::watch;
use tracing::info;

use crate::{
    Chat, Error, Result,
    answer::{self, AnswerTerms},
};

impl Chat {
    /// Starts the answers to messages that waited, and passes messages on to the extraction, until `stop` becomes
    /// true.
    pub async fn run(&self, stop: watch::Receiver<bool>) {
        tokio::join!(self.run_queue(stop.clone()), self.run_memory(stop));
    }

    async fn run_queue(&self, stop: watch::Receiver<bool>) {
        let chat = self.clone();
        let worker = Worker { concurrency: 8, ..Worker::new(QUEUE) };
        worker
            .run(self.db().clone(), self.clock().clone(), stop, move |claimed: ClaimedJob| {
                let chat = chat.clone();
                async move { chat.answer_next(claimed).await }
            })
            .await;
    }

    /// Starts the answer to the next message of the conversation of a job, and completes the job with it.
    async fn answer_next(&self, claimed: ClaimedJob) -> Result<JobOutcome> {
        let id = claimed.job.key.as_deref().and_then(|key| key.parse::<ConversationId>().ok());
        let (Some(project), Some(id)) = (claimed.job.project, id) else { return Ok(JobOutcome::Done) };
        let slots = self.executor.try_acquire_slots(project, 1);
        let (executor, now) = (self.executor.clone(), self.clock().now());
        let work = move |tx: &mut Tx<'_>, admissions: &mut AdmissionBatch| {
            // A message that is added from now on finds this job completed, and adds another one.
            if !jobs::lock_owned(tx, claimed.job.id, &claimed.owner)? {
                return Ok(JobOutcome::Completed);
            }
            start_next(tx, &executor, admissions, project, id, now)?;
            jobs::complete(tx, claimed.job.id, &claimed.owner, now)?;
            Ok::<_, Error>(JobOutcome::Completed)
        };
        self.executor.commit_and_drive(slots, work).await
    }
}

/// Starts the answer to the next message that waits. A message whose run cannot be started gets an answer that says
/// so, and the next one has its turn.
fn start_next(
    tx: &mut Tx<'_>,
    executor: &Executor,
    admissions: &mut AdmissionBatch,
    project: ProjectId,
    id: ConversationId,
    now: Timestamp,
) -> Result<()> {
    let Some(conversation) = rows::lock(tx, project, id)? else { return Ok(()) };
    let conversation = answers::repair(tx, conversation, now)?;
    if conversation.active_run.is_some() {
        return Ok(());
    }
    while let Some(question) = messages::next_queued(tx, id)? {
        let started = check_sender(tx, &question, now).and_then(|()| {
            answer::start(
                tx,
                executor,
                admissions,
                &conversation,
                &question,
                AnswerTerms::for_chat(None),
                now,
            )
        });
        match started {
            Ok(run) => {
                info!(conversation.id = %id, run.id = %run, "a message that waited is answered by run `{run}`");
                return Ok(());
            }
            Err(error) if error.store_error().is_some() => return Err(error),
            Err(error) => answers::fail(tx, &question, &error.to_string(), now)?,
        }
    }
    Ok(())
}

/// Refuses the message of a token that is no longer valid.
fn check_sender(tx: &mut Tx<'_>, question: &ChatMessage, now: Timestamp) -> Result<()> {
    let Author::Token { id } = question.author else { return Ok(()) };
    match tokens::get(tx, id)? {
        Some(token) if token.is_valid(now) => Ok(()),
        _ => Err(Error::Forbidden("the token that sent this message was revoked or has expired".to_owned())),
    }
}

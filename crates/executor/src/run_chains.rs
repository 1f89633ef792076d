//! Resume chains as callers from outside see them: one task, however often it was paused and resumed.

use emergent_domain::{
    approval::Approval,
    cursor::{Page, ResultPage},
    ids::{ConversationId, ProjectId, RunId},
    run::{MessageRole, Run, RunStatus},
    run_event::{MessageContent, RecordedMessage},
};
use emergent_store::{Tx, approvals, conversations::messages, runs, runs::chains};

pub use emergent_store::runs::chains::{ChainFilter, ChainStatus, ListedChain};

use crate::{Executor, Result, first_messages::resume_input, history::get_run};

/// A resume chain.
#[derive(Debug, Clone, PartialEq)]
pub struct RunChain {
    pub first: Run,
    /// The run that resumes the others, or the first one.
    pub newest: Run,
    /// The conversation that the first run belongs to.
    pub conversation: Option<ConversationId>,
    /// What the newest run waits for, itself or through its children.
    pub requests: Vec<Approval>,
    /// The newest messages of the chain, the oldest first.
    pub messages: Vec<RecordedMessage>,
}

/// A chain of a list, with what else is shown of it.
#[derive(Debug, Clone, PartialEq)]
pub struct ChainDetail {
    pub chain: ListedChain,
    pub requests: Vec<Approval>,
    pub messages: Vec<RecordedMessage>,
}

impl Executor {
    /// Returns the chain that begins with this run, with up to `history` messages. A run that resumes another one is
    /// not found.
    pub async fn run_chain(&self, project: ProjectId, first: RunId, history: usize) -> Result<RunChain> {
        self.db()
            .snapshot(move |tx| {
                let first_run = get_run(tx, project, first)?;
                if first_run.resumed_from.is_some() {
                    return Err(crate::Error::not_found("run", first));
                }
                let newest = chains::get_newest(tx, project, first)?.unwrap_or_else(|| first_run.clone());
                Ok(RunChain {
                    conversation: messages::conversation_of_run(tx, project, first)?,
                    requests: pending_requests(tx, &newest)?,
                    messages: newest_messages(tx, &newest, history)?,
                    first: first_run,
                    newest,
                })
            })
            .await
    }

    /// Lists chains that callers from outside started, by the time of their status, the newest first; and how many there
    /// are on all pages.
    pub async fn list_run_chains(
        &self,
        project: ProjectId,
        filter: ChainFilter,
        history: usize,
        page: Page,
    ) -> Result<(ResultPage<ChainDetail>, i64)> {
        self.db()
            .snapshot(move |tx| {
                let (found, total) = chains::list(tx, project, &filter, &page)?;
                let mut items = Vec::with_capacity(found.items.len());
                for chain in found.items {
                    items.push(ChainDetail {
                        requests: pending_requests(tx, &chain.newest)?,
                        messages: newest_messages(tx, &chain.newest, history)?,
                        chain,
                    });
                }
                Ok((ResultPage { items, next: found.next }, total))
            })
            .await
    }

    /// The first run of the chain that a run belongs to.
    pub async fn first_of_chain(&self, run: RunId) -> Result<RunId> {
        Ok(self.db().read(move |tx| chains::get_first(tx, run)).await?)
    }

    /// The run that resumes this one, if there is one.
    pub async fn resumed_as(&self, run: RunId) -> Result<Option<RunId>> {
        Ok(self.db().read(move |tx| runs::resumed_as(tx, run)).await?)
    }

    /// What a run waits for, itself or through its children, the oldest first.
    pub async fn pending_requests(&self, run: RunId) -> Result<Vec<Approval>> {
        Ok(self.db().read(move |tx| approvals::list_pending_below(tx, run)).await?)
    }
}

fn pending_requests(tx: &mut Tx<'_>, run: &Run) -> Result<Vec<Approval>> {
    match run.status {
        RunStatus::Waiting => Ok(approvals::list_pending_below(tx, run.id)?),
        _ => Ok(Vec::new()),
    }
}

/// The newest messages of a chain, the oldest first. The text that the executor puts before the input of a resumption is
/// left out.
fn newest_messages(tx: &mut Tx<'_>, newest: &Run, limit: usize) -> Result<Vec<RecordedMessage>> {
    let mut messages = Vec::new();
    let mut run = Some(newest.id);
    while let Some(id) = run.take().filter(|_| messages.len() < limit) {
        messages.extend(chains::list_newest_messages(tx, id, limit - messages.len())?);
        run = runs::get(tx, newest.project, id)?.and_then(|run| run.resumed_from);
    }
    messages.reverse();
    for message in &mut messages {
        if let (MessageRole::User, MessageContent::Text { text, .. }) = (message.role, &mut message.content) {
            let input = resume_input(text);
            if !input.is_empty() {
                *text = input.to_owned();
            }
        }
    }
    Ok(messages)
}

//! Resume chains as callers from outside see them: one task, however often it was paused and resumed.

use emergent_domain::{
    approval::Approval,
    artifact::{MAX_ARTIFACTS, RunArtifact},
    chat::{Part, join_text},
    cursor::{Page, ResultPage},
    ids::{MessageId, ProjectId, RunId},
    run::{MessageRole, Run, RunStatus, ToolCallStatus},
    run_event::{MessageContent, RecordedMessage, RecordedToolCall},
};
use emergent_store::{Tx, approvals, runs, runs::chains};
use uuid::Uuid;

pub use emergent_store::runs::chains::{ChainContext, ChainFilter, ChainStatus, ContextFilter, ListedChain};

use crate::{
    Executor, Result,
    first_messages::resume_input,
    history::get_run,
    run_driver::{add_artifact::artifacts_of_run, ask_user::NAME as ASK_USER},
};

/// The size of what is read for a page of a list.
const MAX_PAGE_BYTES: usize = 8 << 20;

/// A resume chain.
#[derive(Debug, Clone, PartialEq)]
pub struct RunChain {
    pub first: Run,
    /// The run that resumes the others, or the first one.
    pub newest: Run,
    /// The conversation that the first run belongs to.
    pub context: Option<ChainContext>,
    /// What the newest run waits for, itself or through its children.
    pub requests: Vec<Approval>,
    /// The newest messages of the chain, the oldest first.
    pub messages: Vec<RecordedMessage>,
    /// What the runs of the chain added to their result, if it was asked for.
    pub artifacts: Vec<RunArtifact>,
}

/// What is read of a chain besides its runs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ChainParts {
    /// The maximum number of messages.
    pub messages: usize,
    pub artifacts: bool,
}

/// A chain of a list, with what else is shown of it.
#[derive(Debug, Clone, PartialEq)]
pub struct ChainDetail {
    pub chain: ListedChain,
    pub requests: Vec<Approval>,
    pub messages: Vec<RecordedMessage>,
    /// Empty in a list that was not asked for artifacts.
    pub artifacts: Vec<RunArtifact>,
}

impl Executor {
    /// Returns the chain that begins with this run. A run that resumes another one is not found.
    pub async fn run_chain(&self, project: ProjectId, first: RunId, parts: ChainParts) -> Result<RunChain> {
        self.db()
            .snapshot(move |tx| {
                let first_run = get_run(tx, project, first)?;
                if first_run.resumed_from.is_some() {
                    return Err(crate::Error::not_found("run", first));
                }
                let newest = chains::get_newest(tx, project, first)?.unwrap_or_else(|| first_run.clone());
                Ok(RunChain {
                    context: chains::get_context(tx, project, first)?,
                    requests: pending_requests(tx, &newest)?,
                    messages: newest_messages(tx, &newest, parts.messages)?,
                    artifacts: chain_artifacts(tx, &newest, parts)?,
                    first: first_run,
                    newest,
                })
            })
            .await
    }

    /// Lists chains that callers from outside started, by the time of their status, the newest first; and how many there
    /// are on all pages. A page ends early, after the chain with which it has 8 MiB.
    pub async fn list_run_chains(
        &self,
        project: ProjectId,
        filter: ChainFilter,
        parts: ChainParts,
        page: Page,
    ) -> Result<(ResultPage<ChainDetail>, i64)> {
        self.db()
            .snapshot(move |tx| {
                let (ResultPage { items: found, mut next }, total) =
                    chains::list(tx, project, &filter, &page)?;
                let mut items = Vec::with_capacity(found.len());
                let mut found = found.into_iter().peekable();
                while let Some(chain) = found.next() {
                    items.push(ChainDetail {
                        requests: pending_requests(tx, &chain.newest)?,
                        messages: newest_messages(tx, &chain.newest, parts.messages)?,
                        artifacts: chain_artifacts(tx, &chain.newest, parts)?,
                        chain,
                    });
                    // The runs, the messages and the artifacts of all chains are in memory together.
                    if tx.read_bytes() > MAX_PAGE_BYTES && found.peek().is_some() {
                        next = items.last().map(|last| last.chain.cursor());
                        break;
                    }
                }
                Ok((ResultPage { items, next }, total))
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

/// How much is read of the artifacts of one chain before its earlier runs are left out.
const MAX_CHAIN_ARTIFACT_BYTES: usize = 4 << 20;

/// What the runs of a chain added to their result, in its order. The newest ones count if there are too many.
fn chain_artifacts(tx: &mut Tx<'_>, newest: &Run, parts: ChainParts) -> Result<Vec<RunArtifact>> {
    if !parts.artifacts {
        return Ok(Vec::new());
    }
    let max_bytes = tx.read_bytes() + MAX_CHAIN_ARTIFACT_BYTES;
    let mut found: Vec<_> = artifacts_of_run(tx, newest.id)?.into_iter().rev().collect();
    let mut earlier = newest.resumed_from;
    while let Some(id) = earlier.take().filter(|_| found.len() < MAX_ARTIFACTS && tx.read_bytes() < max_bytes)
    {
        found.extend(artifacts_of_run(tx, id)?.into_iter().rev());
        earlier = runs::get(tx, newest.project, id)?.and_then(|run| run.resumed_from);
    }
    found.truncate(MAX_ARTIFACTS);
    found.reverse();
    Ok(found)
}

/// How many messages of a run are looked at together for those that somebody said.
const PAGE: usize = 50;
/// How often that is done for one run: an agent may call tools for many steps without a word.
const MAX_PAGES: usize = 20;

/// The newest messages of a chain that have a text, the oldest first. Questions to a person, and the answers to them, are
/// among them. The text that the executor puts before the input of a resumption is left out.
fn newest_messages(tx: &mut Tx<'_>, newest: &Run, limit: usize) -> Result<Vec<RecordedMessage>> {
    let mut messages = Vec::new();
    let mut run = Some(newest.id);
    while let Some(id) = run.take().filter(|_| messages.len() < limit) {
        messages.extend(newest_of_run(tx, id, limit - messages.len())?);
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

/// The newest messages of a run that have a text, the newest first.
fn newest_of_run(tx: &mut Tx<'_>, run: RunId, limit: usize) -> Result<Vec<RecordedMessage>> {
    let (mut said, mut before) = (Vec::new(), i64::MAX);
    for _ in 0..MAX_PAGES {
        let page = chains::list_newest_messages(tx, run, before, PAGE)?;
        let Some(oldest) = page.last() else { break };
        before = oldest.seq;
        said.extend(page.into_iter().filter(has_text));
        if said.len() >= limit {
            break;
        }
    }
    let asked = chains::list_newest_calls(tx, run, ASK_USER, limit)?;
    said.extend(asked.iter().flat_map(question_messages));
    said.sort_by_key(|message| std::cmp::Reverse(message.seq));
    said.truncate(limit);
    Ok(said)
}

/// Whether somebody said something: neither a step that only calls tools, nor a message of the executor.
fn has_text(message: &RecordedMessage) -> bool {
    match &message.content {
        MessageContent::Text { text, injected: None } => !text.trim().is_empty(),
        MessageContent::Parts(parts) => !join_text(parts).trim().is_empty(),
        _ => false,
    }
}

/// A question to a person as a message of the agent, and the answer as one of the person.
fn question_messages(call: &RecordedToolCall) -> Vec<RecordedMessage> {
    // The model was told how to correct it, or nobody answered.
    let Some(question) = call.input["question"].as_str().filter(|_| call.status != ToolCallStatus::Error)
    else {
        return Vec::new();
    };
    let message = |id: Uuid, seq, role, content| RecordedMessage {
        id: MessageId(id),
        seq,
        role,
        step: call.step,
        content,
        usage: None,
        cost: None,
        at: call.at,
    };
    let asked = MessageContent::Parts(vec![Part::text(question)]);
    let mut messages = vec![message(call.id.0, call.seq, MessageRole::Assistant, asked)];
    let answer = call.output.as_ref().map(|output| &output["answer"]).filter(|answer| !answer.is_null());
    if let (Some(answer), Some(seq)) = (answer, call.result_seq) {
        let text = answer.as_str().map_or_else(|| answer.to_string(), str::to_owned);
        // The id of the call is that of the question.
        let id = Uuid::from_u128(call.id.0.as_u128() ^ 1);
        let answer = MessageContent::Text { text, injected: None };
        messages.push(message(id, seq, MessageRole::User, answer));
    }
    messages
}

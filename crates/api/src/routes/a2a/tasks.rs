//! Reads, lists and cancels tasks.

use emergent_domain::{
    agent::AnswerAs,
    approval::ApprovalKind,
    cursor::Page,
    ids::{ConversationId, RunId},
    run::{Origin, RunStatus},
    token::Scope,
};
use emergent_executor::{
    Error,
    run_chains::{ChainContext, ChainDetail, ChainFilter, ChainParts, ChainStatus, ContextFilter, RunChain},
};
use emergent_surfaces::a2a::{
    error::{A2aError, ErrorKind},
    request::{ContextRef, GetTask, ListTasks, TaskParams, parse_task},
    task::{TaskIds, TaskSource, answer_message, state, task},
    types::{StreamResponse, Task, TaskList, TaskState},
};
use uuid::Uuid;

use super::{agent_call::AgentCall, failure::Result};

/// What a caller wants to do with a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TaskAccess {
    /// The token that started the task may, and those with `admin:read`.
    Read,
    /// Only the token that started the task may.
    Change,
}

/// Returns the chain of a task without messages and artifacts. A task of another agent, of another surface's run, or that
/// the caller may not see, is not found.
pub(super) async fn load(call: &AgentCall, id: Uuid, access: TaskAccess) -> Result<RunChain> {
    load_parts(call, id, ChainParts::default(), access).await
}

/// Returns the chain of a task as it is shown, with up to `history` messages.
pub(super) async fn load_shown(
    call: &AgentCall,
    id: Uuid,
    history: usize,
    access: TaskAccess,
) -> Result<RunChain> {
    load_parts(call, id, ChainParts { messages: history, artifacts: true }, access).await
}

async fn load_parts(call: &AgentCall, id: Uuid, parts: ChainParts, access: TaskAccess) -> Result<RunChain> {
    let not_found = || A2aError::task_not_found(&id.to_string());
    let chain = match call.app.executor.run_chain(call.actor.project, RunId(id), parts).await {
        Err(Error::NotFound { .. }) => return Err(not_found().into()),
        chain => chain?,
    };
    let is_own = chain.first.started_by == Some(call.caller.token.id);
    let may_read = access == TaskAccess::Read && call.caller.token.scopes.contains(&Scope::AdminRead);
    let is_task = chain.first.origin == Origin::Invoke && chain.first.agent == call.agent.id;
    match is_task && (is_own || may_read) {
        true => Ok(chain),
        false => Err(not_found().into()),
    }
}

pub(super) fn ids(chain: &RunChain) -> TaskIds {
    TaskIds::new(chain.first.id, chain.context.as_ref().map(context_id))
}

/// A context as clients know it.
fn context_id(context: &ChainContext) -> String {
    context.name.clone().unwrap_or_else(|| context.conversation.to_string())
}

/// The state of a task.
pub(super) fn chain_state(chain: &RunChain) -> TaskState {
    state(chain.newest.status, chain.newest.waiting_for, chain.context.is_some())
}

/// The task as it is shown, without a history if `history` is 0. The chain was loaded with [`load_shown`].
pub(super) fn show(chain: &RunChain, history: usize) -> Task {
    task(&source(chain, history))
}

/// What the agent answers to a message: the task, or only a message if it answers so and has completed its work.
pub(super) fn respond(call: &AgentCall, chain: &RunChain, history: usize) -> StreamResponse {
    let answer_as = call.agent.definition.acp.as_ref().map_or(AnswerAs::Task, |acp| acp.answer_as);
    let message = match answer_as {
        AnswerAs::Message => answer_message(&source(chain, history)),
        AnswerAs::Task => None,
    };
    message.map_or_else(|| StreamResponse::Task(show(chain, history)), StreamResponse::Message)
}

fn source(chain: &RunChain, history: usize) -> TaskSource<'_> {
    TaskSource {
        ids: ids(chain),
        run: &chain.newest,
        requests: &chain.requests,
        messages: (history > 0).then_some(chain.messages.as_slice()),
        artifacts: Some(&chain.artifacts),
    }
}

pub(super) async fn get(call: &AgentCall, params: GetTask) -> Result<Task> {
    let (id, history) = params.check()?;
    let chain = load_shown(call, id, history, TaskAccess::Read).await?;
    Ok(show(&chain, history))
}

pub(super) async fn list(call: &AgentCall, params: ListTasks) -> Result<TaskList> {
    let query = params.check()?;
    let sees_all = call.caller.token.scopes.contains(&Scope::AdminRead);
    let filter = ChainFilter {
        agent: call.agent.id,
        started_by: (!sees_all).then_some(call.caller.token.id),
        context: query.context.map(|context| match context {
            ContextRef::Server(id) => ContextFilter::Id(ConversationId(id)),
            ContextRef::Client(name) => ContextFilter::Name(name),
        }),
        statuses: query.state.map(statuses),
        since: query.since,
    };
    let page = Page { limit: query.page_size, after: query.after };
    let history = query.history_length;
    let parts = ChainParts { messages: history, artifacts: query.includes_artifacts };
    let (found, total_size) =
        call.app.executor.list_run_chains(call.actor.project, filter, parts, page).await?;
    let show = |detail: &ChainDetail| {
        task(&TaskSource {
            ids: TaskIds::new(detail.chain.first, detail.chain.context.as_ref().map(context_id)),
            run: &detail.chain.newest,
            requests: &detail.requests,
            messages: (history > 0).then_some(detail.messages.as_slice()),
            artifacts: query.includes_artifacts.then_some(detail.artifacts.as_slice()),
        })
    };
    Ok(TaskList {
        page_size: query.page_size,
        tasks: found.items.iter().map(show).collect(),
        next_page_token: found.next.map(|cursor| cursor.encode()).unwrap_or_default(),
        total_size,
    })
}

/// What the newest run of a task with this state is like: everything that [`state`] shows so.
fn statuses(wanted: TaskState) -> Vec<ChainStatus> {
    let mut found = Vec::new();
    for status in RunStatus::ALL {
        let kinds = match status {
            RunStatus::Waiting => ApprovalKind::ALL.iter().map(|kind| Some(*kind)).collect(),
            _ => vec![None],
        };
        for waiting_for in kinds {
            let is_shown = |in_conversation| state(*status, waiting_for, in_conversation) == wanted;
            let in_conversation = match (is_shown(false), is_shown(true)) {
                (true, true) => None,
                (true, false) => Some(false),
                (false, true) => Some(true),
                (false, false) => continue,
            };
            found.push(ChainStatus { status: *status, waiting_for, in_conversation });
        }
    }
    found
}

pub(super) async fn cancel(call: &AgentCall, params: TaskParams) -> Result<Task> {
    let id = parse_task(&params.id)?;
    let chain = load(call, id, TaskAccess::Change).await?;
    if chain.newest.status.is_terminal() {
        return Err(not_cancelable(&chain).into());
    }
    let cancelled = call.app.executor.cancel(call.actor, chain.newest.id).await;
    match cancelled {
        Ok(_) => Ok(show(&load_shown(call, id, 0, TaskAccess::Change).await?, 0)),
        // It ended meanwhile.
        Err(Error::Conflict(_)) => Err(not_cancelable(&load(call, id, TaskAccess::Change).await?).into()),
        Err(error) => Err(error.into()),
    }
}

fn not_cancelable(chain: &RunChain) -> A2aError {
    let id = chain.first.id.to_string();
    let message = match chain.newest.status {
        RunStatus::Paused => format!("task `{id}` is paused: nothing of it goes on until it gets a message"),
        status => format!("task `{id}` has already ended: its run is {status}"),
    };
    A2aError::new(ErrorKind::TaskNotCancelable, message).with("taskId", id)
}

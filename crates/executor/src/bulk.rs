//! Cancels or resumes many runs with one request. Each run is a transaction of its own, so one that cannot be
//! changed does not keep the others from it. The result says of each run what happened.

use emergent_domain::{
    audit::{AuditAction, NewAuditEntry},
    ids::{ProjectId, RunId, TokenId},
    invalid::Invalid,
    run::{Run, RunStatus},
    text::counted,
};
use emergent_graph::Actor;
use emergent_store::{
    Tx, agents, audit,
    idempotency::{self, without_request},
    runs,
    runs::filter::{self, Eligibility, RunFilter},
};
use serde_json::json;
use tracing::info;

use crate::{Error, Executor, Result};

/// The most runs of one request.
pub const MAX_BULK_RUNS: usize = 1_000;
/// The most ids in the audit log.
const MAX_AUDITED_IDS: usize = 100;

/// What is done to each run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BulkAction {
    Cancel,
    Resume,
}

impl BulkAction {
    fn eligibility(self) -> Eligibility {
        match self {
            Self::Cancel => Eligibility::Cancellable,
            Self::Resume => Eligibility::Resumable,
        }
    }

    fn accepts(self, status: RunStatus) -> bool {
        match self {
            Self::Cancel => !status.is_terminal(),
            Self::Resume => status == RunStatus::Paused,
        }
    }
}

/// Which runs are changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BulkSelection {
    Ids(Vec<RunId>),
    /// The newest runs that match, and that the action is possible for.
    Filter(RunFilter),
    /// The runs of a request that was accepted before and is repeated. What was done to them then counts as done.
    Accepted(Vec<RunId>),
}

/// What happened to a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BulkOutcome {
    Cancelled,
    /// With the run that resumes it.
    Resumed(RunId),
    /// With a dry run: the action is possible.
    Possible,
    /// The action is not possible, for this reason.
    Skipped(String),
    NotFound,
    /// The action failed, for this reason. It may succeed later.
    Failed(String),
}

/// A run of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BulkItem {
    pub id: RunId,
    /// The agent and the status before; `None` if there is no such run.
    pub run: Option<(String, RunStatus)>,
    pub outcome: BulkOutcome,
}

/// What happened to the runs of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BulkResult {
    pub items: Vec<BulkItem>,
    /// More runs match than one request may change. The same request again continues with them.
    pub has_more: bool,
}

impl Executor {
    /// Cancels or resumes runs; with `started_by`, only those that this token started, and others are not found. With
    /// `dry_run`, only says what would happen.
    pub async fn change_runs(
        &self,
        actor: Actor,
        action: BulkAction,
        selection: BulkSelection,
        started_by: Option<TokenId>,
        dry_run: bool,
    ) -> Result<BulkResult> {
        check_selection(action, &selection)?;
        let (project, chosen) = (actor.project, selection.clone());
        let read = move |tx: &mut Tx<'_>| select_runs(tx, project, action, chosen, started_by);
        let (mut items, has_more) = self.db().snapshot(read).await?;
        if dry_run {
            return Ok(BulkResult { items, has_more });
        }
        let ids: Vec<RunId> =
            items.iter().filter(|item| item.outcome == BulkOutcome::Possible).map(|item| item.id).collect();
        if !matches!(selection, BulkSelection::Accepted(_)) {
            self.accept_bulk(actor, action, &selection, &items, &ids).await?;
        }
        if ids.is_empty() {
            return Ok(BulkResult { items, has_more });
        }
        let mut failed = false;
        for item in items.iter_mut().filter(|item| item.outcome == BulkOutcome::Possible) {
            item.outcome = match failed {
                true => BulkOutcome::Failed("not tried, because the run before it failed".to_owned()),
                // The key of the request is stored; a run that is resumed has none of its own.
                false => without_request(self.change_run(actor, action, item.id)).await,
            };
            failed |= matches!(item.outcome, BulkOutcome::Failed(_));
        }
        info!(runs = ids.len(), "{} runs were changed by one request: {action:?}", ids.len());
        Ok(BulkResult { items, has_more })
    }

    async fn change_run(&self, actor: Actor, action: BulkAction, id: RunId) -> BulkOutcome {
        let changed = match action {
            BulkAction::Cancel => self.cancel(actor, id).await.map(|_| BulkOutcome::Cancelled),
            BulkAction::Resume => self.resume(actor, id, None).await.map(|run| BulkOutcome::Resumed(run.id)),
        };
        match changed {
            Ok(outcome) => outcome,
            Err(Error::NotFound { what: "run", .. }) => BulkOutcome::NotFound,
            // It may have been cancelled with a run above it.
            Err(Error::Conflict(reason)) if action == BulkAction::Cancel => {
                match self.get_run(actor.project, id).await {
                    Ok(run) if run.status == RunStatus::Cancelled => BulkOutcome::Cancelled,
                    _ => BulkOutcome::Skipped(reason),
                }
            }
            Err(
                error @ (Error::Conflict(_)
                | Error::BudgetUsedUp(_)
                | Error::Forbidden(_)
                | Error::Invalid(_)
                | Error::NoModel(_)),
            ) => BulkOutcome::Skipped(error.to_string()),
            Err(error) => BulkOutcome::Failed(error.to_string()),
        }
    }

    /// Records what is about to be done, with the key of the request, if it has one. The runs themselves record what
    /// was done. If the server dies before all runs are changed, the same request continues with those that it named.
    async fn accept_bulk(
        &self,
        actor: Actor,
        action: BulkAction,
        selection: &BulkSelection,
        items: &[BulkItem],
        ids: &[RunId],
    ) -> Result<()> {
        let kind = match action {
            BulkAction::Cancel => AuditAction::RunBulkCancel,
            BulkAction::Resume => AuditAction::RunBulkResume,
        };
        let listed: Vec<String> = ids.iter().take(MAX_AUDITED_IDS).map(ToString::to_string).collect();
        let entry = NewAuditEntry::new(kind, Some(actor.project), counted(ids.len() as u64, "run"))
            .detail("runs", ids.len())
            .detail("firstIds", json!(listed))
            .detail("byFilter", matches!(selection, BulkSelection::Filter(_)));
        let (now, is_audited) = (self.clock().now(), !ids.is_empty());
        let named: Vec<RunId> = items.iter().map(|item| item.id).collect();
        let work = move |tx: &mut Tx<'_>| {
            idempotency::accept_bulk(tx, &named)?;
            if is_audited {
                audit::record(tx, &entry, now)?;
            }
            Ok::<_, Error>(())
        };
        self.db().write(work).await
    }
}

fn check_selection(action: BulkAction, selection: &BulkSelection) -> Result<(), Invalid> {
    match selection {
        BulkSelection::Ids(ids) if ids.is_empty() => Err(Invalid::new("ids", "must name at least one run")),
        BulkSelection::Ids(ids) if ids.len() > MAX_BULK_RUNS => {
            Err(Invalid::new("ids", format!("must be at most {MAX_BULK_RUNS} runs")))
        }
        BulkSelection::Filter(filter) if *filter == RunFilter::default() => {
            Err(Invalid::new("filter", "must name at least one condition, such as an agent or a status"))
        }
        BulkSelection::Filter(filter) if !filter.statuses.iter().all(|status| action.accepts(*status)) => {
            let reason = match action {
                BulkAction::Cancel => "must be queued, running or waiting: other runs have ended",
                BulkAction::Resume => "must be paused: only a paused run can be resumed",
            };
            Err(Invalid::new("filter.status", reason))
        }
        BulkSelection::Filter(_) | BulkSelection::Ids(_) | BulkSelection::Accepted(_) => Ok(()),
    }
}

/// Returns the runs of a request, and whether more runs match. A run that the action is not possible for is among
/// them only if the request names it.
fn select_runs(
    tx: &mut Tx<'_>,
    project: ProjectId,
    action: BulkAction,
    selection: BulkSelection,
    started_by: Option<TokenId>,
) -> Result<(Vec<BulkItem>, bool)> {
    let is_repeated = matches!(selection, BulkSelection::Accepted(_));
    let may_change = |run: &Run| started_by.is_none() || run.started_by == started_by;
    let ids = match selection {
        BulkSelection::Ids(ids) | BulkSelection::Accepted(ids) => ids,
        BulkSelection::Filter(filter) => {
            if let Some(agent) = filter.agent {
                agents::get_including_deleted(tx, project, agent)?
                    .ok_or_else(|| Error::not_found("agent", agent))?;
            }
            let filter = RunFilter { eligibility: action.eligibility(), ..filter };
            let (runs, has_more) = filter::find(tx, project, &filter, MAX_BULK_RUNS)?;
            let items = runs
                .into_iter()
                .filter(may_change)
                .map(|run| bulk_item(run, BulkOutcome::Possible))
                .collect();
            return Ok((items, has_more));
        }
    };
    let mut items: Vec<BulkItem> = Vec::with_capacity(ids.len());
    for id in ids {
        if items.iter().any(|item| item.id == id) {
            continue;
        }
        items.push(match runs::get(tx, project, id)?.filter(may_change) {
            None => BulkItem { id, run: None, outcome: BulkOutcome::NotFound },
            Some(run) => {
                let done = if is_repeated { find_done(tx, action, &run)? } else { None };
                let outcome = match done {
                    Some(done) => done,
                    None => check_run(tx, action, &run)?,
                };
                bulk_item(run, outcome)
            }
        });
    }
    Ok((items, false))
}

fn bulk_item(run: Run, outcome: BulkOutcome) -> BulkItem {
    BulkItem { id: run.id, run: Some((run.agent_name, run.status)), outcome }
}

/// What was done to a run already, if it is what the action does.
fn find_done(tx: &mut Tx<'_>, action: BulkAction, run: &Run) -> Result<Option<BulkOutcome>> {
    Ok(match action {
        BulkAction::Cancel => (run.status == RunStatus::Cancelled).then_some(BulkOutcome::Cancelled),
        BulkAction::Resume => runs::resumed_as(tx, run.id)?.map(BulkOutcome::Resumed),
    })
}

/// Whether the action is possible for a run at the moment.
fn check_run(tx: &mut Tx<'_>, action: BulkAction, run: &Run) -> Result<BulkOutcome> {
    if !action.accepts(run.status) {
        let needed = match action {
            BulkAction::Cancel => "it has already ended",
            BulkAction::Resume => "only a paused run can be resumed",
        };
        return Ok(BulkOutcome::Skipped(format!("run `{}` is {}: {needed}", run.id, run.status)));
    }
    if action == BulkAction::Resume
        && let Some(successor) = runs::resumed_as(tx, run.id)?
    {
        let reason = format!("run `{}` was already resumed as `{successor}`", run.id);
        return Ok(BulkOutcome::Skipped(reason));
    }
    Ok(BulkOutcome::Possible)
}

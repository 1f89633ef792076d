//! Reverts what a run wrote to the graph, or what it and all the runs below it wrote.

use std::collections::HashMap;

use emergent_domain::{
    audit::{AuditAction, NewAuditEntry},
    ids::{ProjectId, RunId},
    time::Timestamp,
};
use emergent_graph::{
    Actor, Graph,
    revert::{self, RunSet, WrittenEntities},
};
use emergent_store::{Tx, audit, revert as rows, runs, runs::history::ChildRun};

pub use emergent_graph::revert::{EntityKind, RevertConflict, RevertReport, RevertedEntity, UndoAction};
pub use emergent_store::revert::StandingWrites;

use crate::{Error, Executor, Result, dry_run::Save};

/// The most runs of a tree that is reverted, or whose writes are listed.
pub(crate) const MAX_TREE_RUNS: usize = 1_000;
/// The most entities that are reverted in one transaction. More are reverted in many, and so are larger ones.
const MAX_IN_ONE_TRANSACTION: usize = 500;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RevertOptions {
    /// Whether the runs that the run started are reverted with it, and those that they started.
    pub tree: bool,
    /// Whether everything is rolled back in the end, so that only the report remains.
    pub dry_run: bool,
}

/// What was reverted, and what was not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RevertOutcome {
    pub report: RevertReport,
    /// The reverted runs, the given one first.
    pub runs: Vec<RunId>,
    /// The runs below the given one that were not reverted and whose writes stand, whoever wrote after them.
    pub children: Vec<ChildWrites>,
    pub dry_run: bool,
    /// How many objects, relationships and documents the runs wrote, whether they stand or not.
    pub written: usize,
    /// When the given run was reverted before, if nothing was left to revert.
    pub reverted_at: Option<Timestamp>,
}

impl RevertOutcome {
    fn new(report: RevertReport, runs: Vec<RunId>, children: Vec<ChildWrites>, dry_run: bool) -> Self {
        Self { report, runs, children, dry_run, written: 0, reverted_at: None }
    }

    fn is_empty(&self) -> bool {
        let report = &self.report;
        report.undone.is_empty() && report.conflicts.is_empty()
    }
}

/// What is known of runs before they are reverted.
struct Before {
    written: usize,
    /// When the given run was reverted.
    reverted_at: Option<Timestamp>,
}

/// What still stands of the writes of a child run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChildWrites {
    pub run: RunId,
    pub agent_name: String,
    pub writes: StandingWrites,
}

impl Executor {
    /// Reverts what a run wrote to the graph, once the run has ended. Entities that were changed since are
    /// reported and stay as they are. Reverting again changes nothing.
    pub async fn revert_run(&self, actor: Actor, id: RunId) -> Result<RevertReport> {
        Ok(self.revert(actor, id, RevertOptions::default()).await?.report)
    }

    /// Like [`Executor::revert_run`], with options. The runs of a tree are reverted as if one run had written
    /// everything: in one transaction, or in many if they wrote much. If the server stops between two of them, a job
    /// makes the others. A dry run of many is rolled back one by one, so that nobody waits for all of them.
    pub async fn revert(&self, actor: Actor, id: RunId, options: RevertOptions) -> Result<RevertOutcome> {
        let Before { written, reverted_at } = self.load_before(actor, id, options).await?;
        let mut outcome = self.revert_written(actor, id, options, written).await?;
        outcome.written = written;
        outcome.reverted_at = reverted_at.filter(|_| outcome.is_empty());
        Ok(outcome)
    }

    /// Reverts runs that wrote so many entities.
    async fn revert_written(
        &self,
        actor: Actor,
        id: RunId,
        options: RevertOptions,
        written: usize,
    ) -> Result<RevertOutcome> {
        if written <= MAX_IN_ONE_TRANSACTION {
            let graph = self.graph().clone();
            let work = move |tx: &mut Tx<'_>| revert_in(tx, &graph, actor, id, options);
            // In a dry run the same code runs, so that the report is exact. The content that objects get back is
            // validated as that of other writes.
            let outcome = match options.dry_run {
                true => self.graph().write_validated_and_roll_back(actor.project, work).await?,
                false => self.graph().write_validated(actor.project, work).await?,
            };
            if let Some(outcome) = outcome {
                return Ok(outcome);
            }
        }
        match options.dry_run {
            true => self.preview_in_batches(actor, id, options).await,
            false => self.revert_in_batches(actor, id, options, written).await,
        }
    }
}

impl Executor {
    /// How many entities the runs wrote that would be reverted, and when the given one was reverted before.
    async fn load_before(&self, actor: Actor, id: RunId, options: RevertOptions) -> Result<Before> {
        let read = move |tx: &mut Tx<'_>| -> Result<Before> {
            let mut runs = RunSet::from([id]);
            if options.tree {
                runs.extend(list_descendants(tx, id)?.iter().map(|child| child.id));
            }
            let written = WrittenEntities::load(tx, actor.project, &runs)?.count();
            let reverted_at = audit::last_time(tx, actor.project, AuditAction::RunRevert, id.0)?;
            Ok(Before { written, reverted_at })
        };
        self.db().read(read).await
    }

    /// `written` is how many entities the runs wrote. It is counted before, because that takes long if they are many,
    /// and others wait for the writer meanwhile.
    async fn revert_in_batches(
        &self,
        actor: Actor,
        id: RunId,
        options: RevertOptions,
        written: usize,
    ) -> Result<RevertOutcome> {
        let graph = self.graph().clone();
        let prepare = move |tx: &mut Tx<'_>| {
            let ctx = graph.write_context(tx, actor)?;
            let selected = select_runs(tx, actor.project, id, options)?;
            let runs: RunSet = selected.reverted.iter().copied().collect();
            revert::enqueue(tx, &ctx, &runs)?;
            let entry = NewAuditEntry::new(AuditAction::RunRevert, Some(actor.project), &selected.agent_name)
                .id(id)
                .detail("runs", runs.len())
                .detail("written", written);
            audit::record(tx, &entry, ctx.now)?;
            Ok::<_, Error>(selected)
        };
        let SelectedRuns { reverted, descendants, .. } = self.db().write(prepare).await?;
        let runs: RunSet = reverted.iter().copied().collect();
        let report = self.graph().revert_in_batches(actor, runs, revert::MAX_AT_ONCE).await?;
        let children = self.remaining_children(actor, id, options, descendants).await?;
        Ok(RevertOutcome::new(report, reverted, children, false))
    }

    async fn preview_in_batches(
        &self,
        actor: Actor,
        id: RunId,
        options: RevertOptions,
    ) -> Result<RevertOutcome> {
        let select = move |tx: &mut Tx<'_>| select_runs(tx, actor.project, id, options);
        let SelectedRuns { reverted, descendants, .. } = self.write_or_try(Save::DryRun, select).await?;
        let runs: RunSet = reverted.iter().copied().collect();
        let report = self.graph().preview_revert(actor, runs, revert::MAX_AT_ONCE).await?;
        let children = self.remaining_children(actor, id, options, descendants).await?;
        Ok(RevertOutcome::new(report, reverted, children, true))
    }

    /// What the runs below the given one wrote, if they are not reverted with it.
    async fn remaining_children(
        &self,
        actor: Actor,
        root: RunId,
        options: RevertOptions,
        descendants: Vec<ChildRun>,
    ) -> Result<Vec<ChildWrites>> {
        match options.tree {
            true => Ok(Vec::new()),
            false => self.db().read(move |tx| standing_writes(tx, actor.project, root, &descendants)).await,
        }
    }
}

/// The runs that are reverted, the given one first, and those below it.
struct SelectedRuns {
    agent_name: String,
    reverted: Vec<RunId>,
    descendants: Vec<ChildRun>,
}

/// Selects the runs to revert, and checks that they have ended.
fn select_runs(
    tx: &mut Tx<'_>,
    project: ProjectId,
    id: RunId,
    options: RevertOptions,
) -> Result<SelectedRuns> {
    let run = runs::get_for_update(tx, project, id)?.ok_or_else(|| Error::not_found("run", id))?;
    if !run.status.is_terminal() {
        return Err(not_ended(id, run.status.as_str()));
    }
    let descendants = list_descendants(tx, id)?;
    let mut reverted = vec![id];
    if options.tree {
        if descendants.len() >= MAX_TREE_RUNS {
            return Err(Error::Conflict(format!(
                "run `{id}` has {MAX_TREE_RUNS} or more runs below it: revert those that it started one by one"
            )));
        }
        if let Some(active) = descendants.iter().find(|child| !child.status.is_terminal()) {
            return Err(not_ended(active.id, active.status.as_str()));
        }
        reverted.extend(descendants.iter().map(|child| child.id));
    }
    Ok(SelectedRuns { agent_name: run.agent_name, reverted, descendants })
}

/// Reverts in one transaction. Returns `None` if the entities are too large for that.
fn revert_in(
    tx: &mut Tx<'_>,
    graph: &Graph,
    actor: Actor,
    id: RunId,
    options: RevertOptions,
) -> Result<Option<RevertOutcome>> {
    let ctx = graph.write_context(tx, actor)?;
    let SelectedRuns { agent_name, reverted, descendants } = select_runs(tx, actor.project, id, options)?;
    let runs: RunSet = reverted.iter().copied().collect();
    let Some(report) = revert::revert(tx, &ctx, &runs, revert::MAX_BATCH_BYTES)? else { return Ok(None) };
    if !report.undone.is_empty() {
        let entry = NewAuditEntry::new(AuditAction::RunRevert, Some(actor.project), &agent_name)
            .id(id)
            .detail("runs", reverted.len())
            .detail("undone", report.undone.len())
            .detail("conflicts", report.conflicts.len());
        audit::record(tx, &entry, ctx.now)?;
    }
    let children = match options.tree {
        true => Vec::new(),
        false => standing_writes(tx, actor.project, id, &descendants)?,
    };
    Ok(Some(RevertOutcome::new(report, reverted, children, options.dry_run)))
}

fn not_ended(id: RunId, status: &str) -> Error {
    Error::Conflict(format!(
        "run `{id}` is {status}: what it writes can be undone once it has ended; cancel it, or wait"
    ))
}

/// The runs below a run, level by level, at most [`MAX_TREE_RUNS`].
pub(crate) fn list_descendants(tx: &mut Tx<'_>, root: RunId) -> Result<Vec<ChildRun>> {
    let (mut descendants, mut level) = (Vec::new(), vec![root]);
    while !level.is_empty() && descendants.len() < MAX_TREE_RUNS {
        let children = runs::history::list_children(tx, &level, MAX_TREE_RUNS - descendants.len())?;
        level = children.iter().map(|child| child.id).collect();
        descendants.extend(children);
    }
    Ok(descendants)
}

/// The runs below `root` whose writes stand, with what they wrote. A run that wrote what another one has written anew is
/// among them: its content is still there.
fn standing_writes(
    tx: &mut Tx<'_>,
    project: ProjectId,
    root: RunId,
    descendants: &[ChildRun],
) -> Result<Vec<ChildWrites>> {
    if descendants.is_empty() {
        return Ok(Vec::new());
    }
    let mut parents: HashMap<RunId, RunId> = HashMap::new();
    let mut above = Some(root);
    while let Some(run) = above {
        above = runs::history::find_child(tx, run)?.and_then(|run| run.parent);
        parents.extend(above.map(|parent| (run, parent)));
    }
    parents.extend(descendants.iter().filter_map(|child| Some((child.id, child.parent?))));
    let mut children = Vec::new();
    for child in descendants {
        let above = std::iter::successors(parents.get(&child.id), |run| parents.get(run)).copied();
        let reasons = revert::reasons_of(child.id, above);
        let writes = rows::count_standing_writes(tx, project, child.id, &reasons)?;
        if !writes.is_empty() {
            children.push(ChildWrites { run: child.id, agent_name: child.agent_name.clone(), writes });
        }
    }
    Ok(children)
}

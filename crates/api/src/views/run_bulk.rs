//! Converts counts of runs, and requests that change many runs.

use std::collections::{BTreeMap, HashMap};

use emergent_domain::{ids::AgentId, run::RunStatus, time::Timestamp};
use emergent_executor::{
    bulk::{BulkAction, BulkItem, BulkOutcome, BulkResult},
    history::{AgentCount, HourCount, RunCounts},
};
pub(crate) use emergent_wire::run_bulk::*;

/// The most agents in a count.
const MAX_AGENTS: usize = 200;

/// Adds up the counts of runs.
pub(crate) fn run_stats(since: Timestamp, until: Timestamp, counts: RunCounts) -> RunStatsView {
    let mut by_status = BTreeMap::new();
    let mut by_agent: HashMap<AgentId, AgentRunsView> = HashMap::new();
    for AgentCount { agent, name, status, runs } in counts.by_agent {
        add(&mut by_status, status, runs);
        let counted = by_agent.entry(agent).or_insert_with(|| AgentRunsView {
            agent_id: agent.0,
            agent_name: name,
            total: 0,
            by_status: BTreeMap::new(),
        });
        counted.total += runs;
        add(&mut counted.by_status, status, runs);
    }
    let mut by_agent: Vec<AgentRunsView> = by_agent.into_values().collect();
    by_agent.sort_by(|one, other| {
        other.total.cmp(&one.total).then_with(|| one.agent_name.cmp(&other.agent_name))
    });
    let omitted = by_agent.len().saturating_sub(MAX_AGENTS);
    by_agent.truncate(MAX_AGENTS);
    RunStatsView {
        since,
        until,
        total: by_status.values().sum(),
        by_status,
        by_agent,
        agents_omitted: i64::try_from(omitted).ok().filter(|omitted| *omitted > 0),
        by_hour: count_hours(counts.by_hour),
        active: counts
            .active
            .into_iter()
            .filter(|(_, runs)| *runs > 0)
            .map(|(status, runs)| (status.as_str().to_owned(), runs))
            .collect(),
    }
}

fn count_hours(hours: Vec<HourCount>) -> Vec<HourRunsView> {
    let mut views: Vec<HourRunsView> = Vec::new();
    for HourCount { hour, status, runs } in hours {
        if views.last().is_none_or(|last| last.hour != hour) {
            views.push(HourRunsView { hour, total: 0, by_status: BTreeMap::new() });
        }
        if let Some(view) = views.last_mut() {
            view.total += runs;
            add(&mut view.by_status, status, runs);
        }
    }
    views
}

fn add(counts: &mut BTreeMap<String, i64>, status: RunStatus, runs: i64) {
    *counts.entry(status.as_str().to_owned()).or_default() += runs;
}

pub(crate) fn bulk_action(action: BulkRunAction) -> BulkAction {
    match action {
        BulkRunAction::Cancel => BulkAction::Cancel,
        BulkRunAction::Resume => BulkAction::Resume,
    }
}

pub(crate) fn bulk_view(action: BulkRunAction, dry_run: bool, result: BulkResult) -> BulkRunsView {
    BulkRunsView {
        action,
        dry_run,
        runs: result.items.into_iter().map(bulk_item).collect(),
        has_more: result.has_more,
    }
}

fn bulk_item(item: BulkItem) -> BulkRunItemView {
    let (outcome, new_run_id, message) = match item.outcome {
        BulkOutcome::Cancelled => (BulkOutcomeView::Cancelled, None, None),
        BulkOutcome::Resumed(run) => (BulkOutcomeView::Resumed, Some(run.0), None),
        BulkOutcome::Possible => (BulkOutcomeView::Possible, None, None),
        BulkOutcome::Skipped(reason) => (BulkOutcomeView::Skipped, None, Some(reason)),
        BulkOutcome::NotFound => (BulkOutcomeView::NotFound, None, None),
        BulkOutcome::Failed(reason) => (BulkOutcomeView::Failed, None, Some(reason)),
    };
    let (agent_name, status) = item.run.unzip();
    BulkRunItemView { run_id: item.id.0, agent_name, status, outcome, new_run_id, message }
}

//! Lists of runs, the detail of one run, and the tree of runs it spawned. The events of a single run
//! are in [`crate::timeline`].

use std::collections::HashMap;

use emergent_domain::{
    cursor::{Page, ResultPage},
    ids::{ConversationId, ProjectId, RunId},
    run::{Run, RunStatus},
    run_event::{SERVERS_UNAVAILABLE, UnavailableServer},
    time::Timestamp,
};
use emergent_store::{
    Tx, agents, runs,
    runs::{history as rows, stats},
};

pub use emergent_store::runs::{
    filter::MAX_SEARCHED_RUNS,
    history::{ChildRun, RunFilter, RunSummary, TokenTotals, ToolCallSummary, ToolUse, duration_ms},
    stats::{AgentCount, HourCount},
};

use crate::{Error, Executor, Result};

/// The maximum depth of a tree. Runs do not spawn this deep, but the limit makes sure that loading a
/// tree always ends.
const MAX_TREE_DEPTH: usize = 5;
const MAX_TREE_NODES: usize = 1_000;
const MAX_CHILDREN: usize = 1_000;

/// A run with its totals and its children.
#[derive(Debug, Clone, PartialEq)]
pub struct RunDetail {
    pub run: Run,
    /// The runs that it resumes, newest first.
    pub resume_chain: Vec<RunId>,
    /// The run that resumes this one, if there is one.
    pub resumed_as: Option<RunId>,
    /// The tokens of this run alone, without its children.
    pub tokens: TokenTotals,
    pub tool_calls: ToolCallSummary,
    /// The children in the order in which they were started.
    pub children: Vec<ChildRun>,
    /// How often the run was warned that it repeats itself.
    pub loops: i64,
    /// The servers that its whitelist names, and that could not be used when it was last started.
    pub unavailable_servers: Vec<UnavailableServer>,
    /// The names of its whitelist that no tool had when it was last started.
    pub missing_tools: Vec<String>,
    /// The conversation in which it answers a message.
    pub conversation: Option<ConversationId>,
    /// The beginning of its input, on one line.
    pub input_preview: Option<String>,
}

/// A run and the runs it spawned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunTree {
    pub id: RunId,
    pub agent_name: String,
    pub status: RunStatus,
    pub step_count: i64,
    pub duration_ms: Option<i64>,
    /// The beginning of its input, on one line.
    pub input_preview: Option<String>,
    pub resumed_as: Option<RunId>,
    /// The children in the order in which they were started.
    pub children: Vec<RunTree>,
    /// True if some children are not shown, because the tree is too deep or too large.
    pub truncated: bool,
}

/// Counts of the runs of a project.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunCounts {
    pub by_agent: Vec<AgentCount>,
    pub by_hour: Vec<HourCount>,
    /// The runs that have not ended, by status.
    pub active: [(RunStatus, i64); 3],
}

impl Executor {
    /// Lists runs, newest first. The runs of a deleted agent are listed too; an agent that never existed is
    /// an error.
    pub async fn list_runs(
        &self,
        project: ProjectId,
        filter: RunFilter,
        page: Page,
    ) -> Result<ResultPage<RunSummary>> {
        self.db()
            .snapshot(move |tx| {
                if let Some(agent) = filter.agent {
                    agents::get_including_deleted(tx, project, agent)?
                        .ok_or_else(|| Error::not_found("agent", agent))?;
                }
                Ok(rows::list(tx, project, &filter, &page)?)
            })
            .await
    }

    /// Counts the runs that were created from `since` on and before `until`: by agent and by hour, each with the
    /// statuses. Also counts the runs that have not ended, whenever they were created. All counts are of the same
    /// moment.
    pub async fn run_stats(
        &self,
        project: ProjectId,
        since: Timestamp,
        until: Timestamp,
    ) -> Result<RunCounts> {
        let read = move |tx: &mut Tx<'_>| {
            Ok::<_, Error>(RunCounts {
                by_agent: stats::count_by_agent(tx, project, since, until)?,
                by_hour: stats::count_by_hour(tx, project, since, until)?,
                active: stats::count_active(tx, project)?,
            })
        };
        self.db().snapshot(read).await
    }

    pub async fn get_run(&self, project: ProjectId, id: RunId) -> Result<Run> {
        self.db().read(move |tx| get_run(tx, project, id)).await
    }

    /// Returns the tokens that a run has used.
    pub async fn token_totals(&self, project: ProjectId, id: RunId) -> Result<TokenTotals> {
        self.db()
            .snapshot(move |tx| {
                if !runs::exists(tx, project, id)? {
                    return Err(Error::not_found("run", id));
                }
                Ok(rows::token_totals(tx, &[id])?.remove(&id).unwrap_or_default())
            })
            .await
    }

    /// Returns a run with its totals and its children.
    pub async fn run_detail(&self, project: ProjectId, id: RunId) -> Result<RunDetail> {
        self.db()
            .snapshot(move |tx| {
                let run = get_run(tx, project, id)?;
                let missing = rows::newest_event(tx, id, SERVERS_UNAVAILABLE)?.unwrap_or_default();
                Ok(RunDetail {
                    resume_chain: runs::resume_chain(tx, &run)?,
                    resumed_as: runs::resumed_as(tx, id)?,
                    tokens: rows::token_totals(tx, &[id])?.remove(&id).unwrap_or_default(),
                    tool_calls: rows::summarize_tool_calls(tx, id)?,
                    children: rows::list_children(tx, &[id], MAX_CHILDREN)?,
                    loops: rows::event_count(tx, id, "loop_detected")?,
                    unavailable_servers: UnavailableServer::list_from_event(&missing).unwrap_or_default(),
                    missing_tools: UnavailableServer::missing_tools_from_event(&missing),
                    conversation: rows::conversations(tx, &[id])?.remove(&id),
                    input_preview: rows::input_previews(tx, &[id])?.remove(&id),
                    run,
                })
            })
            .await
    }

    /// Returns a run with its descendants, at most `MAX_TREE_DEPTH` levels and `MAX_TREE_NODES` runs.
    pub async fn run_tree(&self, project: ProjectId, id: RunId) -> Result<RunTree> {
        self.db()
            .snapshot(move |tx| {
                let run = get_run(tx, project, id)?;
                let root = ChildRun {
                    id,
                    parent: None,
                    agent_name: run.agent_name,
                    status: run.status,
                    step_count: run.step_count,
                    duration_ms: duration_ms(run.started_at, run.completed_at),
                };
                let nodes = load_levels(tx, root)?;
                let ids: Vec<RunId> = nodes.iter().map(|node| node.id).collect();
                let resumed = rows::resumptions(tx, &ids)?;
                let counts = rows::child_counts(tx, &ids)?;
                let previews = rows::input_previews(tx, &ids)?;
                Ok(build_tree(nodes, &resumed, &counts, previews))
            })
            .await
    }
}

pub(crate) fn get_run(tx: &mut Tx<'_>, project: ProjectId, id: RunId) -> Result<Run> {
    runs::get(tx, project, id)?.ok_or_else(|| Error::not_found("run", id))
}

/// Loads the runs of a tree, each after its parent, up to the limits.
fn load_levels(tx: &mut Tx<'_>, root: ChildRun) -> Result<Vec<ChildRun>> {
    let mut level = vec![root.id];
    let mut nodes = vec![root];
    for _ in 0..MAX_TREE_DEPTH {
        let children = rows::list_children(tx, &level, MAX_TREE_NODES - nodes.len())?;
        if children.is_empty() {
            break;
        }
        level = children.iter().map(|child| child.id).collect();
        nodes.extend(children);
    }
    Ok(nodes)
}

/// Attaches each run to its parent. Parents come before their children, so going from the last run to
/// the first, each subtree is complete when it is attached.
fn build_tree(
    nodes: Vec<ChildRun>,
    resumed: &HashMap<RunId, RunId>,
    child_counts: &HashMap<RunId, i64>,
    mut previews: HashMap<RunId, String>,
) -> RunTree {
    let mut trees_by_parent: HashMap<Option<RunId>, Vec<RunTree>> = HashMap::new();
    for node in nodes.into_iter().rev() {
        let mut children = trees_by_parent.remove(&Some(node.id)).unwrap_or_default();
        children.reverse();
        let child_count = child_counts.get(&node.id).copied().unwrap_or(0);
        let tree = RunTree {
            resumed_as: resumed.get(&node.id).copied(),
            input_preview: previews.remove(&node.id),
            truncated: child_count > i64::try_from(children.len()).unwrap_or(i64::MAX),
            children,
            id: node.id,
            agent_name: node.agent_name,
            status: node.status,
            step_count: node.step_count,
            duration_ms: node.duration_ms,
        };
        if node.parent.is_none() {
            return tree;
        }
        trees_by_parent.entry(node.parent).or_default().push(tree);
    }
    unreachable!("a tree begins with a run that has no parent in it")
}

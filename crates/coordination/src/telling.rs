//! What an attempt is told of the work before it: by rules, or as a model chose where the workflow
//! wants that and there is much to tell.

use emergent_domain::{
    ids::ObjectId,
    task::{Task, TaskStatus, VerdictKind},
    workflow::ThreadingKind,
};
use emergent_rules::workflow::{
    snapshot::{DiscussionProgress, Snapshot},
    threading::{self, PriorResult, PriorResults, TaskPrompt},
};
use serde_json::Value;

use crate::{
    judge::{self, AnswerState, JudgeAnswer},
    loaded_workflow::LoadedWorkflow,
    workflow_driver::WorkflowDriver,
};

/// How many tasks further back are told at most: in a wide graph nearly everything lies behind a task,
/// and little of it says more than what is near.
const MAX_INDIRECT: usize = 8;

pub(crate) enum PromptState {
    /// `chosen` says so where a model chose.
    Ready { threaded: TaskPrompt, chosen: Option<String> },
    /// A model is asked what matters.
    WaitingForJudge,
}

/// What went before, within the workflow's measure.
pub(crate) fn prepare_prompt(walk: &mut WorkflowDriver, known: &LoadedWorkflow, task: &Task) -> PromptState {
    let settings = &known.workflow().settings;
    let budget = settings.context_tokens;
    let mut sources = collect_results(known, task);
    let mut chosen = None;
    let much = settings.threading == ThreadingKind::Llm && sources.need_selection(budget);
    if let Some(judge) = walk.judge().filter(|_| much) {
        let open = sources.selectable();
        match judge::ask_for_results(&judge, &mut walk.judge_answers, task, &open) {
            AnswerState::Pending => return PromptState::WaitingForJudge,
            AnswerState::Answered(Some(JudgeAnswer::Results(kept))) => {
                let offered: Vec<ObjectId> = open.iter().map(|source| source.id).collect();
                sources.retain_selected(&offered, &kept);
                let (kept, of) = (kept.len(), offered.len());
                chosen = Some(format!("a model chose {kept} of {of} sources it is told of"));
            }
            // No answer that can be used: rules decide.
            AnswerState::NotAsked | AnswerState::Answered(_) => {}
        }
    }
    let PriorResults { direct, discussions, indirect } = &sources;
    let threaded =
        threading::build_prompt(budget, task, direct, discussions, &task.failure_context, indirect);
    PromptState::Ready { threaded, chosen }
}

/// Everything that could be told.
fn collect_results(known: &LoadedWorkflow, task: &Task) -> PriorResults {
    let snapshot = &known.snapshot;
    let verified: Vec<ObjectId> = match task.verdict {
        VerdictKind::None => Vec::new(),
        _ => snapshot.verified_tasks(task).into_iter().map(|one| one.id).collect(),
    };
    let source = |other: &Task| PriorResult {
        id: other.id,
        title: task_title(other),
        kind: other.kind.clone(),
        agent: other.assigned_agent.clone(),
        text: output_text(other.output.as_ref()).or_else(|| other.summary.clone()).unwrap_or_default(),
        verified: verified.contains(&other.id),
    };
    let direct = direct_results(snapshot, task, &verified);
    let discussions = direct
        .iter()
        .flat_map(|one| known.discussions.get(&one.id).into_iter().flatten().map(|talking| (one.id, talking)))
        .filter(|(_, talking)| talking.progress() == DiscussionProgress::Resolved)
        .map(|(of, talking)| PriorResult {
            id: talking.id,
            title: talking.topic().to_owned(),
            kind: talking.kind().to_owned(),
            agent: None,
            text: talking.transcript(),
            verified: verified.contains(&of),
        })
        .collect();
    let mut indirect = snapshot.indirect_blockers(task.id, MAX_INDIRECT + verified.len());
    indirect.retain(|far| direct.iter().all(|one| one.id != far.id));
    indirect.truncate(MAX_INDIRECT);
    PriorResults {
        direct: direct.into_iter().map(source).collect(),
        discussions,
        indirect: indirect.into_iter().map(source).collect(),
    }
}

/// What a task builds on itself, and what it has to judge, however far back that is.
fn direct_results<'a>(snapshot: &'a Snapshot, task: &Task, verified: &[ObjectId]) -> Vec<&'a Task> {
    let mut direct: Vec<&Task> = snapshot.blockers(task.id).collect();
    let far = verified.iter().filter_map(|id| snapshot.get(*id));
    for one in far.filter(|one| one.status == TaskStatus::Completed) {
        if direct.iter().all(|known| known.id != one.id) {
            direct.push(one);
        }
    }
    direct
}

fn task_title(task: &Task) -> String {
    if task.title.is_empty() { task.key.clone() } else { task.title.clone() }
}

fn output_text(output: Option<&Value>) -> Option<String> {
    match output? {
        Value::String(text) => Some(text.clone()),
        other => Some(other.to_string()),
    }
}

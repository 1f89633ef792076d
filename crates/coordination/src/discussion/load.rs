//! Loads the discussions of tasks from the graph and from the runs of their turns.

use emergent_domain::{
    ids::{ProjectId, RunId},
    object::Object,
    run::RunStatus,
    task_links::DISCUSSION_TYPE,
    workflow::Deliverable,
};
use emergent_rules::workflow::discussion::{
    AbsentParticipant, DiscussionKind, DiscussionSettings, DiscussionTurn, TaskDiscussion, TurnResult,
    TurnRun, Vote,
};
use emergent_store::{Tx, runs, workflows};
use serde_json::Value;

use super::REQUIRED_PROPERTY;
use crate::attempts::first_run_of_attempt;

/// Loads a `Discussion`, or returns `None` if the object is none, or if the dispatcher does not conduct it.
pub(crate) fn load_discussion(
    tx: &mut Tx<'_>,
    project: ProjectId,
    object: &Object,
) -> Result<Option<TaskDiscussion>, emergent_store::Error> {
    // Properties of other types are not protected against authors who may write the graph and nothing more.
    if object.type_ != DISCUSSION_TYPE {
        return Ok(None);
    }
    let map = object.properties.to_map();
    // Only discussions that the dispatcher conducts have settings.
    let settings = map
        .get("settings")
        .and_then(|settings| serde_json::from_value::<DiscussionSettings>(settings.clone()).ok());
    let Some(settings) = settings else { return Ok(None) };
    let text = |name: &str| map.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    let attempt_run: Option<RunId> = text("run_id").parse().ok();
    let attempt = match attempt_run {
        Some(run) => first_run_of_attempt(tx, project, run)?,
        None => None,
    };
    let mut indexed_runs = Vec::new();
    // In a review loop the attempt itself is the first turn.
    if settings.kind == DiscussionKind::ReviewLoop
        && let Some(run) = attempt_run
    {
        indexed_runs.extend(runs::get(tx, project, run)?.map(|run| (0, run)));
    }
    indexed_runs.extend(workflows::list_turns(tx, object.id)?.into_iter().map(|run| (run.child_index, run)));
    let mut turns = Vec::with_capacity(indexed_runs.len());
    let mut turn_runs = Vec::with_capacity(indexed_runs.len());
    for (index, run) in indexed_runs {
        let result = match run.status.is_terminal() {
            true => Some(TurnResult {
                ok: matches!(run.status, RunStatus::Completed | RunStatus::Paused),
                text: run.summary.clone().unwrap_or_default(),
                vote: match run.workflow_link.deliverable {
                    Some(Deliverable::Vote) => runs::submission(tx, run.id)?
                        .and_then(|value| serde_json::from_value::<Vote>(value).ok()),
                    _ => None,
                },
            }),
            false => None,
        };
        turn_runs.push(TurnRun { index, run: run.id, status: run.status });
        turns.push(DiscussionTurn { index, agent: run.agent_name, phase: String::new(), round: 0, result });
    }
    let absent: Vec<AbsentParticipant> =
        map.get("absent").and_then(|absent| serde_json::from_value(absent.clone()).ok()).unwrap_or_default();
    turns.extend(absent.iter().map(AbsentParticipant::turn));
    let recorded = map.get("entered").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let person_decision =
        map.get("decided_by_person").and_then(|value| serde_json::from_value(value.clone()).ok());
    let decision = map.get("final_decision");
    Ok(Some(TaskDiscussion {
        id: object.id,
        attempt,
        status: text("status"),
        settings,
        turns,
        runs: turn_runs,
        recorded: recorded.iter().filter_map(Value::as_i64).collect(),
        absent,
        required: map.get(REQUIRED_PROPERTY).and_then(Value::as_bool).unwrap_or_default(),
        person_decision,
        escalation: map
            .get("escalation")
            .and_then(|escalation| escalation.get("reason")?.as_str())
            .map(str::to_owned),
        outcome: decision
            .and_then(|decision| decision.get("text"))
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned(),
    }))
}

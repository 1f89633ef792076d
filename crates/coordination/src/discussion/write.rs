//! Writes a discussion to the graph: its object, its entries, its turns and its outcome.

use emergent_domain::{
    ids::{ObjectId, RunId},
    workflow::{Deliverable, WorkflowLink},
    workflow_event::WorkflowEventBody,
};
use emergent_rules::workflow::{
    discussion::{
        DiscussionEnd, DiscussionKind, DiscussionOutcome, DiscussionStep, EntryType, NewEntry, NewTurn,
    },
    question::truncate,
};
use emergent_store::{runs, workflows};
use serde_json::{Value, json};

use super::{DiscussionWrite, REQUIRED_PROPERTY, StartedTurn};
use crate::{
    create,
    error::Result,
    transactions::update_properties,
    workflow_tx::{NewEdge, RunAdmission, WorkflowTx, run_author},
};

/// The most characters of the context that a discussion stores beside its settings.
const MAX_CONTEXT_CHARS: usize = 2_000;
/// The most characters of an entry or a decision in an event.
const MAX_EVENT_TEXT_CHARS: usize = 300;

/// Opens a discussion, or writes its next step: entries, new turns and the outcome.
pub(crate) fn write_discussion(writing: &mut WorkflowTx<'_, '_>, step: &DiscussionWrite) -> Result<()> {
    match step {
        DiscussionWrite::Open { id, task, run, agent, proposal, review } => {
            let settings = &review.settings;
            let author = run_author(*run);
            // In other kinds the attempt is what is talked about, and no turn.
            let is_first_turn = settings.kind == DiscussionKind::ReviewLoop;
            let names: Vec<&str> =
                settings.participants.iter().map(|participant| participant.agent.as_str()).collect();
            let properties = json!({
                "topic": settings.topic,
                "status": "active",
                "discussion_type": settings.kind.as_str(),
                "context": truncate(&settings.context, MAX_CONTEXT_CHARS),
                "participating_agents": names,
                "decision_criteria": settings.criteria,
                "settings": settings,
                "run_id": run.to_string(),
                "task_id": task.to_string(),
                "entered": if is_first_turn { vec![0] } else { Vec::new() },
                REQUIRED_PROPERTY: true,
            });
            writing.draft_object(author, *id, "Discussion", properties)?;
            writing.draft_edges(author, &[NewEdge::new("spawned_discussion", *task, *id)])?;
            let first = NewTurn {
                index: 0,
                agent: agent.clone(),
                phase: "propose".into(),
                round: 1,
                prompt: String::new(),
                expects_vote: false,
                options: Vec::new(),
                entry_type: EntryType::Proposal,
            };
            let sequence = i64::from(is_first_turn);
            let entry = NewEntry { run: *run, sequence, turn: first, content: proposal.clone(), vote: None };
            write_entry(writing, *id, &entry)?;
            let started = WorkflowEventBody::DiscussionStarted {
                discussion: *id,
                topic: settings.topic.clone(),
                participants: settings
                    .participants
                    .iter()
                    .map(|participant| participant.agent.clone())
                    .collect(),
                note: review.note.clone(),
            };
            writing.push_event(Some(*task), Some(*run), &started);
            Ok(())
        }
        DiscussionWrite::Advance { id, task, step, started } => {
            for entry in &step.entries {
                write_entry(writing, *id, entry)?;
                let event = WorkflowEventBody::DiscussionEntry {
                    discussion: *id,
                    agent: entry.turn.agent.clone(),
                    entry_type: entry.turn.entry_type.as_str().to_owned(),
                    round: entry.turn.round,
                    text: truncate(&entry.content, MAX_EVENT_TEXT_CHARS),
                };
                writing.push_event(Some(*task), Some(entry.run), &event);
            }
            for StartedTurn { turn, agent, run } in started {
                let link = WorkflowLink {
                    workflow: Some(writing.workflow.id),
                    task: Some(*task),
                    session: None,
                    discussion: Some(*id),
                    deliverable: turn.expects_vote.then_some(Deliverable::Vote),
                };
                let start = writing.start_options(turn.prompt.clone());
                writing.admit_run(RunAdmission {
                    agent: *agent,
                    resumed_run: None,
                    start,
                    link,
                    child_index: turn.index,
                    run: *run,
                    task: Some(*task),
                })?;
                let event = WorkflowEventBody::DiscussionTurn {
                    discussion: *id,
                    agent: turn.agent.clone(),
                    phase: turn.phase.clone(),
                    round: turn.round,
                };
                writing.push_event(Some(*task), Some(*run), &event);
            }
            update_discussion(writing, *id, *task, step)
        }
    }
}

fn write_entry(writing: &mut WorkflowTx<'_, '_>, discussion: ObjectId, entry: &NewEntry) -> Result<()> {
    let author = run_author(entry.run);
    let id = ObjectId::new();
    let mut properties = json!({
        "agent_name": entry.turn.agent,
        "content": entry.content,
        "entry_type": entry.turn.entry_type.as_str(),
        "phase": entry.turn.phase,
        "round": entry.turn.round,
        "timestamp": writing.now,
        "run_id": entry.run.to_string(),
    });
    if let Some(vote) = &entry.vote {
        properties["option"] = json!(vote.option);
        properties["reason"] = json!(vote.reason);
        if let Some(confidence) = vote.confidence {
            properties["confidence"] = json!(confidence.clamp(0.0, 1.0));
        }
    }
    writing.draft_object(author, id, "DiscussionEntry", properties)?;
    writing.draft_edges(author, &[NewEdge::new("has_entry", discussion, id).with_sequence(entry.sequence)])
}

fn update_discussion(
    writing: &mut WorkflowTx<'_, '_>,
    id: ObjectId,
    task: ObjectId,
    step: &DiscussionStep,
) -> Result<()> {
    let mut properties = json!({ "entered": step.recorded });
    if !step.absent.is_empty() {
        properties["absent"] = json!(step.absent);
    }
    let end = step.end.as_ref();
    match end {
        None => {}
        Some(DiscussionEnd::Resolved(outcome)) => {
            properties["status"] = json!("resolved");
            properties["consensus_level"] = json!(outcome.consensus_level.clamp(0.0, 1.0));
            properties["final_decision"] = decision_json(outcome);
            let resolved = WorkflowEventBody::DiscussionResolved {
                discussion: id,
                consensus_level: outcome.consensus_level,
                text: truncate(&outcome.text, MAX_EVENT_TEXT_CHARS),
            };
            writing.push_event(Some(task), None, &resolved);
        }
        Some(DiscussionEnd::Escalated { reason, options, so_far }) => {
            properties["status"] = json!("escalated");
            properties["consensus_level"] = json!(so_far.consensus_level.clamp(0.0, 1.0));
            properties["escalation"] =
                json!({ "reason": reason, "options": options, "so_far": decision_json(so_far) });
            let escalated = WorkflowEventBody::DiscussionEscalated {
                discussion: id,
                reason: reason.clone(),
                options: options.clone(),
            };
            writing.push_event(Some(task), None, &escalated);
        }
    }
    update_properties(writing.tx, &writing.writer, id, properties)?;
    if let Some(end) = end {
        cancel_open_turns(writing, id, end)?;
    }
    if let Some(DiscussionEnd::Resolved(outcome)) = end {
        create_follow_up_tasks(writing, id, outcome)?;
    }
    Ok(())
}

/// Cancels the turns that still run when the discussion ends: nothing will read their results.
fn cancel_open_turns(writing: &mut WorkflowTx<'_, '_>, id: ObjectId, end: &DiscussionEnd) -> Result<()> {
    let turns = workflows::list_turns(writing.tx, id)?;
    let open_runs: Vec<RunId> =
        turns.into_iter().filter(|run| !run.status.is_terminal()).map(|run| run.id).collect();
    if open_runs.is_empty() {
        return Ok(());
    }
    let cancel_reason = match end {
        DiscussionEnd::Resolved(_) => "its discussion was decided without it".to_owned(),
        DiscussionEnd::Escalated { reason, .. } => {
            format!("its discussion ended without it: {reason}")
        }
    };
    let project = writing.workflow.project;
    let stopped = runs::record::cancel_trees(writing.tx, project, open_runs, &cancel_reason, writing.now)?;
    let executor = writing.executor.clone();
    writing.tx.after_commit(move || executor.stop_driving(&stopped));
    Ok(())
}

/// The decision as it is stored: an object with its text, the dissent and the ranking.
pub(crate) fn decision_json(outcome: &DiscussionOutcome) -> Value {
    let mut decision = match &outcome.decision {
        Value::Object(map) => Value::Object(map.clone()),
        Value::Null => json!({}),
        other => json!({ "decision": other }),
    };
    decision["text"] = json!(outcome.text);
    if !outcome.dissent.is_empty() {
        decision["dissent"] = json!(outcome.dissent);
    }
    if !outcome.ranked.is_empty() {
        decision["ranked"] = json!(outcome.ranked);
    }
    decision
}

/// Creates the tasks that the decision asks for.
fn create_follow_up_tasks(
    writing: &mut WorkflowTx<'_, '_>,
    discussion: ObjectId,
    outcome: &DiscussionOutcome,
) -> Result<()> {
    if outcome.tasks.is_empty() {
        return Ok(());
    }
    let created = match create::add_tasks(writing.tx, &writing.writer, writing.workflow.id, &outcome.tasks) {
        Ok(created) => created,
        // The tasks are checked before one is written, so the decision is stored without them.
        Err(emergent_graph::Error::Invalid(invalid)) => {
            let refused = WorkflowEventBody::TasksRefused { discussion, reason: invalid.to_string() };
            writing.push_event(None, None, &refused);
            return Ok(());
        }
        Err(error) => return Err(error.into()),
    };
    let edges: Vec<_> =
        created.iter().map(|task| NewEdge::new("resulted_in_task", discussion, task.id)).collect();
    writing.draft_edges(writing.writer.author, &edges)
}

//! What a discussion comes to in the graph: its object, its entries, its turns, its outcome.

use emergent_domain::{
    ids::{ObjectId, RunId},
    workflow::{Deliverable, WorkflowLink},
};
use emergent_executor::StartOptions;
use emergent_rules::workflow::{
    discussion::{DiscussionOutcome, EntryType, NewTurn},
    question::truncate,
};
use emergent_store::{runs, workflows};
use serde_json::{Value, json};

use super::{AbsentParticipant, DiscussionEnd, DiscussionWrite, NewEntry, REQUIRED_PROPERTY, StartedTurn};
use crate::{
    Result,
    apply::{WorkflowTx, run_author},
    create,
    service::update_properties,
};

pub(crate) fn write_discussion(writing: &mut WorkflowTx<'_, '_>, step: &DiscussionWrite) -> Result<()> {
    match step {
        DiscussionWrite::Open { id, task, run, agent, said, settings } => {
            let author = run_author(*run);
            let names: Vec<&str> = settings.participants.iter().map(|one| one.agent.as_str()).collect();
            let properties = json!({
                "topic": settings.topic,
                "status": "active",
                "discussion_type": settings.kind.as_str(),
                "context": truncate(&settings.context, 2_000),
                "participating_agents": names,
                "decision_criteria": settings.criteria,
                "settings": settings,
                "run_id": run.to_string(),
                "task_id": task.to_string(),
                "entered": [0],
                REQUIRED_PROPERTY: true,
            });
            writing.draft_object(author, *id, "Discussion", properties)?;
            writing.draft_edges(author, &[("spawned_discussion", *task, *id, None)])?;
            let first = NewTurn {
                index: 0,
                agent: agent.clone(),
                phase: "propose".into(),
                round: 1,
                prompt: String::new(),
                expects_vote: false,
                entry_type: EntryType::Proposal,
            };
            let entry = NewEntry { run: *run, sequence: 1, ask: first, content: said.clone(), vote: None };
            write_entry(writing, *id, &entry)?;
            let data = json!({ "discussion": id, "topic": settings.topic, "participants": names });
            writing.push_event("discussion_started", Some(*task), Some(*run), data);
            Ok(())
        }
        DiscussionWrite::Advance { id, task, entered, absent, entries, asks, end } => {
            for entry in entries {
                write_entry(writing, *id, entry)?;
                let data = json!({
                    "discussion": id, "agent": entry.ask.agent, "entryType": entry.ask.entry_type.as_str(),
                    "round": entry.ask.round, "text": truncate(&entry.content, 300),
                });
                writing.push_event("discussion_entry", Some(*task), Some(entry.run), data);
            }
            for StartedTurn { ask, agent, run } in asks {
                let duty = WorkflowLink {
                    workflow: Some(writing.workflow.id),
                    task: Some(*task),
                    session: None,
                    discussion: Some(*id),
                    deliverable: ask.expects_vote.then_some(Deliverable::Vote),
                };
                let start = StartOptions { input: ask.prompt.clone(), ..StartOptions::default() };
                writing.admit_run(*agent, None, start, duty, ask.index, *run, Some(*task))?;
                let data =
                    json!({ "discussion": id, "agent": ask.agent, "phase": ask.phase, "round": ask.round });
                writing.push_event("discussion_turn", Some(*task), Some(*run), data);
            }
            update_discussion(writing, *id, *task, entered, absent, end.as_ref())
        }
    }
}

fn write_entry(writing: &mut WorkflowTx<'_, '_>, discussion: ObjectId, entry: &NewEntry) -> Result<()> {
    let author = run_author(entry.run);
    let id = ObjectId::new();
    let mut properties = json!({
        "agent_name": entry.ask.agent,
        "content": entry.content,
        "entry_type": entry.ask.entry_type.as_str(),
        "phase": entry.ask.phase,
        "round": entry.ask.round,
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
    writing.draft_edges(author, &[("has_entry", discussion, id, Some(entry.sequence))])
}

fn update_discussion(
    writing: &mut WorkflowTx<'_, '_>,
    id: ObjectId,
    task: ObjectId,
    entered: &[i64],
    absent: &[AbsentParticipant],
    end: Option<&DiscussionEnd>,
) -> Result<()> {
    let mut properties = json!({ "entered": entered });
    if !absent.is_empty() {
        properties["absent"] = json!(absent);
    }
    match end {
        None => {}
        Some(DiscussionEnd::Resolved(outcome)) => {
            properties["status"] = json!("resolved");
            properties["consensus_level"] = json!(outcome.consensus_level.clamp(0.0, 1.0));
            properties["final_decision"] = decision_json(outcome);
            let data = json!({
                "discussion": id, "consensusLevel": outcome.consensus_level, "text": truncate(&outcome.text, 300),
            });
            writing.push_event("discussion_resolved", Some(task), None, data);
        }
        Some(DiscussionEnd::Escalated { reason, options, so_far }) => {
            properties["status"] = json!("escalated");
            properties["consensus_level"] = json!(so_far.consensus_level.clamp(0.0, 1.0));
            properties["escalation"] =
                json!({ "reason": reason, "options": options, "so_far": decision_json(so_far) });
            let data = json!({ "discussion": id, "reason": reason, "options": options });
            writing.push_event("discussion_escalated", Some(task), None, data);
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

/// Whoever still speaks when it is over speaks to nobody.
fn cancel_open_turns(writing: &mut WorkflowTx<'_, '_>, id: ObjectId, end: &DiscussionEnd) -> Result<()> {
    let turns = workflows::list_turns(writing.tx, id)?;
    let open: Vec<RunId> =
        turns.into_iter().filter(|run| !run.status.is_terminal()).map(|run| run.id).collect();
    if open.is_empty() {
        return Ok(());
    }
    let why = match end {
        DiscussionEnd::Resolved(_) => "its discussion was decided without it".to_owned(),
        DiscussionEnd::Escalated { reason, .. } => format!("its discussion ended without it: {reason}"),
    };
    let project = writing.workflow.project;
    let stopped = runs::record::cancel_trees(writing.tx, project, open, &why, writing.now)?;
    let executor = writing.executor.clone();
    writing.tx.after_commit(move || executor.stop_driving(&stopped));
    Ok(())
}

/// The decision as it is kept: an object with its words, who thought otherwise, and the ranking.
fn decision_json(outcome: &DiscussionOutcome) -> Value {
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

/// Work that the decision asks for becomes tasks of the workflow.
fn create_follow_up_tasks(
    writing: &mut WorkflowTx<'_, '_>,
    discussion: ObjectId,
    outcome: &DiscussionOutcome,
) -> Result<()> {
    if outcome.tasks.is_empty() {
        return Ok(());
    }
    let made = match create::add_tasks(writing.tx, &writing.writer, writing.workflow.id, &outcome.tasks) {
        Ok(made) => made,
        // Checked before anything is written: what was decided stands, without the tasks.
        Err(emergent_graph::Error::Invalid(invalid)) => {
            let data = json!({ "discussion": discussion, "reason": invalid.to_string() });
            writing.push_event("tasks_refused", None, None, data);
            return Ok(());
        }
        Err(error) => return Err(error.into()),
    };
    let edges: Vec<_> = made.iter().map(|task| ("resulted_in_task", discussion, task.id, None)).collect();
    writing.draft_edges(writing.writer.author, &edges)
}

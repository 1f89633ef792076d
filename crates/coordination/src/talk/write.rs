//! What a discussion comes to in the graph: its object, its entries, its turns, its outcome.

use emergent_domain::{
    ids::{ObjectId, RunId},
    workflow::{Duty, Hands},
};
use emergent_executor::Start;
use emergent_store::{runs, workflows};
use serde_json::{Value, json};

use super::{Absent, Asked, End, Entry, REQUIRED, Step};
use crate::{
    Result,
    apply::{Writing, as_run},
    discuss::{Ask, EntryType, Outcome},
    question::cut,
    service::set,
    start,
};

pub(crate) fn write(writing: &mut Writing<'_, '_>, step: &Step) -> Result<()> {
    match step {
        Step::Open { id, task, run, agent, said, settings } => {
            let author = as_run(*run);
            let names: Vec<&str> = settings.participants.iter().map(|one| one.agent.as_str()).collect();
            let properties = json!({
                "topic": settings.topic,
                "status": "active",
                "discussion_type": settings.kind.as_str(),
                "context": cut(&settings.context, 2_000),
                "participating_agents": names,
                "decision_criteria": settings.criteria,
                "settings": settings,
                "run_id": run.to_string(),
                "task_id": task.to_string(),
                "entered": [0],
                REQUIRED: true,
            });
            writing.make(author, *id, "Discussion", properties)?;
            writing.join(author, &[("spawned_discussion", *task, *id, None)])?;
            let first = Ask {
                place: 0,
                agent: agent.clone(),
                phase: "propose".into(),
                round: 1,
                prompt: String::new(),
                hands_vote: false,
                entry_type: EntryType::Proposal,
            };
            let entry = Entry { run: *run, sequence: 1, ask: first, content: said.clone(), vote: None };
            enter(writing, *id, &entry)?;
            let data = json!({ "discussion": id, "topic": settings.topic, "participants": names });
            writing.tell("discussion_started", Some(*task), Some(*run), data);
            Ok(())
        }
        Step::Go { id, task, entered, absent, entries, asks, end } => {
            for entry in entries {
                enter(writing, *id, entry)?;
                let data = json!({
                    "discussion": id, "agent": entry.ask.agent, "entryType": entry.ask.entry_type.as_str(),
                    "round": entry.ask.round, "text": cut(&entry.content, 300),
                });
                writing.tell("discussion_entry", Some(*task), Some(entry.run), data);
            }
            for Asked { ask, agent, run } in asks {
                let duty = Duty {
                    workflow: Some(writing.workflow.id),
                    task: Some(*task),
                    session: None,
                    discussion: Some(*id),
                    hands: ask.hands_vote.then_some(Hands::Vote),
                };
                let start = Start { input: ask.prompt.clone(), ..Start::default() };
                writing.admit(*agent, None, start, duty, ask.place, *run, Some(*task))?;
                let data =
                    json!({ "discussion": id, "agent": ask.agent, "phase": ask.phase, "round": ask.round });
                writing.tell("discussion_turn", Some(*task), Some(*run), data);
            }
            finish(writing, *id, *task, entered, absent, end.as_ref())
        }
    }
}

fn enter(writing: &mut Writing<'_, '_>, discussion: ObjectId, entry: &Entry) -> Result<()> {
    let author = as_run(entry.run);
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
    writing.make(author, id, "DiscussionEntry", properties)?;
    writing.join(author, &[("has_entry", discussion, id, Some(entry.sequence))])
}

fn finish(
    writing: &mut Writing<'_, '_>,
    id: ObjectId,
    task: ObjectId,
    entered: &[i64],
    absent: &[Absent],
    end: Option<&End>,
) -> Result<()> {
    let mut properties = json!({ "entered": entered });
    if !absent.is_empty() {
        properties["absent"] = json!(absent);
    }
    match end {
        None => {}
        Some(End::Resolved(outcome)) => {
            properties["status"] = json!("resolved");
            properties["consensus_level"] = json!(outcome.consensus_level.clamp(0.0, 1.0));
            properties["final_decision"] = decision(outcome);
            let data = json!({
                "discussion": id, "consensusLevel": outcome.consensus_level, "text": cut(&outcome.text, 300),
            });
            writing.tell("discussion_resolved", Some(task), None, data);
        }
        Some(End::Escalated { reason, options, so_far }) => {
            properties["status"] = json!("escalated");
            properties["consensus_level"] = json!(so_far.consensus_level.clamp(0.0, 1.0));
            properties["escalation"] =
                json!({ "reason": reason, "options": options, "so_far": decision(so_far) });
            let data = json!({ "discussion": id, "reason": reason, "options": options });
            writing.tell("discussion_escalated", Some(task), None, data);
        }
    }
    set(writing.tx, &writing.writer, id, properties)?;
    if let Some(end) = end {
        stop_turns(writing, id, end)?;
    }
    if let Some(End::Resolved(outcome)) = end {
        follow_up(writing, id, outcome)?;
    }
    Ok(())
}

/// Whoever still speaks when it is over speaks to nobody.
fn stop_turns(writing: &mut Writing<'_, '_>, id: ObjectId, end: &End) -> Result<()> {
    let turns = workflows::turns(writing.tx, id)?;
    let open: Vec<RunId> =
        turns.into_iter().filter(|run| !run.status.is_terminal()).map(|run| run.id).collect();
    if open.is_empty() {
        return Ok(());
    }
    let why = match end {
        End::Resolved(_) => "its discussion was decided without it".to_owned(),
        End::Escalated { reason, .. } => format!("its discussion ended without it: {reason}"),
    };
    let project = writing.workflow.project;
    let stopped = runs::record::cancel_trees(writing.tx, project, open, &why, writing.now)?;
    let executor = writing.executor.clone();
    writing.tx.after_commit(move || executor.stop_driving(&stopped));
    Ok(())
}

/// The decision as it is kept: an object with its words, who thought otherwise, and the ranking.
fn decision(outcome: &Outcome) -> Value {
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
fn follow_up(writing: &mut Writing<'_, '_>, discussion: ObjectId, outcome: &Outcome) -> Result<()> {
    if outcome.tasks.is_empty() {
        return Ok(());
    }
    let made = match start::add_tasks(writing.tx, &writing.writer, writing.workflow.id, &outcome.tasks) {
        Ok(made) => made,
        // Checked before anything is written: what was decided stands, without the tasks.
        Err(emergent_graph::Error::Invalid(invalid)) => {
            let data = json!({ "discussion": discussion, "reason": invalid.to_string() });
            writing.tell("tasks_refused", None, None, data);
            return Ok(());
        }
        Err(error) => return Err(error.into()),
    };
    let edges: Vec<_> = made.iter().map(|task| ("resulted_in_task", discussion, task.id, None)).collect();
    writing.join(writing.writer.author, &edges)
}

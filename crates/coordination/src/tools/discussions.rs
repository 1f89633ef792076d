//! The tools `discussions_get` and `discussions_start`.

use std::{collections::HashMap, sync::Arc};

use emergent_domain::{
    coordination::DiscussionDefaults,
    cursor::Page,
    ids::{ObjectId, ProjectId},
    invalid::Invalid,
    object::{NewObject, Object},
    query::Direction,
    task::{Task, TaskStatus},
    task_links::DISCUSSION_TYPE,
    token::Scope,
    workflow_event::WorkflowEventBody,
};
use emergent_graph::{Error, Result, WriteContext, judged_names::JudgedNames, objects, relationships};
use emergent_rules::workflow::discussion::{DiscussionKind, DiscussionSettings, MAX_STARTED_DISCUSSIONS};
use emergent_store::{Tx, objects as rows, relationships as edges, transfer, workflows};
use emergent_tools::{
    Tool, ToolContext, ToolError,
    builtin::{
        define::{CallResult, graph_change, read_tool, refuse, write_tool_with_scope},
        reference::{ObjectRef, check_read},
        view::FieldSelection,
    },
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{
    caller::{Caller, TaskRef, check_may_read, not_found},
    discussion_input::{ParticipantInput, PhaseInput, StartInput},
};
use crate::{
    create::{author_run, new_edge},
    dispatchable::NameableAgents,
    transactions::new_event,
};

/// The most characters of the context that a discussion stores beside its settings.
const MAX_CONTEXT_CHARS: usize = 2_000;
/// The most entries in one answer; a discussion has fewer.
const MAX_ENTRIES: usize = 500;

pub(super) fn tools() -> Vec<Arc<dyn Tool>> {
    vec![
        read_tool(
            "discussions_get",
            "Reads a discussion: topic, participants, entries in order, and the decision. Returns `discussion`, with its \
             `entries`.",
            get,
        ),
        write_tool_with_scope(
            Scope::AgentsInvoke,
            "discussions_start",
            "Starts a discussion between agents about the task you work on. It begins when your run has ended, and its decision \
             is passed on with your task; you need not wait. Returns the `discussion`.",
            start,
        ),
    ]
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct GetInput {
    /// Discussion: id or `Type/key`; default: the task's newest.
    id: Option<ObjectRef>,
    /// Key or id of the task, without `id`; default: your own.
    task: Option<TaskRef>,
    /// Return only these fields, such as decision; default: all. `entries` can be long.
    #[serde(default)]
    fields: FieldSelection,
}

async fn get(context: ToolContext, input: GetInput) -> Result<Value, ToolError> {
    let (project, run, judged) = (context.project, context.run, Arc::clone(&context.judged));
    let read = move |tx: &mut Tx<'_>| {
        let id = match &input.id {
            Some(named) => {
                let id = named.resolve(tx, project)?;
                check_read(tx, project, &judged, named, id)?;
                id
            }
            None => {
                let caller = Caller::load(tx, project, run)?;
                let task = resolve_task(tx, project, &caller, input.task.as_ref(), &judged)?;
                latest_discussion(tx, project, &task)?
            }
        };
        let discussion = rows::get(tx, project, id)?.filter(|object| object.type_ == DISCUSSION_TYPE);
        let discussion = discussion.ok_or_else(|| not_found("discussion", id))?;
        let entries = if input.fields.includes("entries") { entries(tx, project, id)? } else { Vec::new() };
        Ok::<_, Error>((discussion, entries, input.fields))
    };
    let (discussion, entries, fields) = context.graph.db().snapshot(read).await?;
    Ok(json!({ "discussion": fields.select(view(&discussion, &entries)) }))
}

/// The newest discussion of a task.
fn latest_discussion(tx: &mut Tx<'_>, project: ProjectId, task: &Task) -> Result<ObjectId> {
    let types = ["spawned_discussion".to_owned()];
    let discussion_edges =
        edges::list_for_object(tx, project, task.id, Direction::Out, &types, &Page::first(1))?.items;
    let newest = discussion_edges.first().map(|edge| edge.to);
    newest.ok_or_else(|| Error::Conflict { message: format!("the task `{}` has no discussion", task.key) })
}

/// The given task, or the task that the caller works on.
fn resolve_task(
    tx: &mut Tx<'_>,
    project: ProjectId,
    caller: &Caller,
    named: Option<&TaskRef>,
    judged: &[JudgedNames],
) -> Result<Task> {
    let (task, workflow) = (named_task(caller, named)?, caller.workflow(tx, project, None)?);
    Ok(Task::from_object(&task.resolve(tx, project, workflow, judged)?))
}

/// Like [`resolve_task`], in the change of a call.
fn resolve_task_for(
    tx: &mut Tx<'_>,
    writer: &WriteContext,
    caller: &Caller,
    named: Option<&TaskRef>,
) -> Result<Task> {
    let (task, workflow) = (named_task(caller, named)?, caller.workflow(tx, writer.project.id, None)?);
    Ok(Task::from_object(&task.resolve_for(tx, writer, workflow)?))
}

fn named_task(caller: &Caller, named: Option<&TaskRef>) -> Result<TaskRef> {
    let own = || caller.link.task.map(|id| TaskRef(id.to_string()));
    named
        .cloned()
        .or_else(own)
        .ok_or_else(|| Error::Conflict { message: "name a `task`: you were started for none".to_owned() })
}

/// The entries of a discussion, in their order.
fn entries(tx: &mut Tx<'_>, project: ProjectId, discussion: ObjectId) -> Result<Vec<Object>> {
    let types = ["has_entry".to_owned()];
    let page = Page::first(MAX_ENTRIES);
    let entry_edges = edges::list_for_object(tx, project, discussion, Direction::Out, &types, &page)?.items;
    let sequences: HashMap<ObjectId, i64> = entry_edges
        .iter()
        .map(|edge| {
            (edge.to, edge.properties.to_map().get("sequence").and_then(Value::as_i64).unwrap_or(i64::MAX))
        })
        .collect();
    let ids: Vec<ObjectId> = entry_edges.iter().map(|edge| edge.to).collect();
    let mut entries = transfer::objects_by_id(tx, project, &ids)?;
    entries.retain(|entry| entry.deleted_at.is_none());
    entries.sort_by_key(|entry| (sequences.get(&entry.id).copied(), entry.created_at, entry.id));
    Ok(entries)
}

/// The JSON of a discussion.
fn view(discussion: &Object, entries: &[Object]) -> Value {
    let map = discussion.properties.to_map();
    let get = |name: &str| map.get(name).cloned().unwrap_or_default();
    json!({
        "id": discussion.id,
        "topic": get("topic"),
        "status": get("status"),
        "kind": get("discussion_type"),
        "participants": get("participating_agents"),
        "phase": get("phase"),
        "consensusLevel": get("consensus_level"),
        "decision": get("final_decision"),
        "escalation": get("escalation"),
        "taskId": get("task_id"),
        "createdAt": discussion.created_at,
        "entries": entries.iter().map(entry_json).collect::<Vec<_>>(),
    })
}

/// The JSON of an entry, without the fields that it does not have.
fn entry_json(entry: &Object) -> Value {
    let map = entry.properties.to_map();
    let fields = [
        ("agent", "agent_name"),
        ("type", "entry_type"),
        ("phase", "phase"),
        ("round", "round"),
        ("content", "content"),
        ("option", "option"),
        ("confidence", "confidence"),
        ("reason", "reason"),
    ];
    let shown =
        fields.iter().filter_map(|(field, name)| Some(((*field).to_owned(), map.get(*name)?.clone())));
    Value::Object(shown.collect())
}

async fn start(_: ToolContext, input: StartInput) -> CallResult {
    let StartInput {
        topic,
        kind,
        participants,
        context,
        options,
        criteria,
        rounds,
        threshold,
        quorum,
        phases,
        task,
    } = input;
    let own = DiscussionDefaults {
        kind: kind.map(|kind| kind.as_str().to_owned()),
        rounds,
        threshold,
        quorum: None,
        phases: phases.into_iter().map(PhaseInput::into_phase).collect(),
    };
    if !own.phases.is_empty() && kind.is_some_and(|kind| kind != DiscussionKind::Collaboration) {
        return Err(refuse("The discussion cannot be started: `phases` are only for a collaboration"));
    }
    let mut settings = DiscussionSettings::new(DiscussionKind::Consensus, topic, &[]);
    settings.participants = participants.into_iter().map(ParticipantInput::into_participant).collect();
    settings.context = context.unwrap_or_default();
    settings.options = options;
    settings.criteria = criteria;
    let quorum = quorum.and_then(|quorum| usize::try_from(quorum).ok());
    graph_change(move |tx, writer| {
        let project = writer.project.id;
        let caller = Caller::load(tx, project, author_run(writer))?;
        check_may_read(tx, writer.author, "task")?;
        let task = resolve_task_for(tx, writer, &caller, task.as_ref())?;
        // What the caller leaves open, the task says, and else the project.
        let defaults = own.or(&task.discussion).or(&writer.project.coordination.discussions);
        let mut settings = settings.clone().with_defaults(&defaults);
        if let Some(problem) = own.threshold_problem(settings.kind.as_str()) {
            return Err(Invalid::new("threshold", problem).into());
        }
        if let Some(quorum) = quorum {
            (settings.quorum, settings.lowered_quorum) = (Some(quorum), None);
        }
        let problems = settings.problems();
        if !problems.is_empty() {
            let message = format!("the discussion cannot be started: {}", problems.join("; "));
            return Err(Error::Conflict { message });
        }
        let Some(workflow) = task.workflow else {
            let message = format!(
                "the task `{}` belongs to no workflow, so no dispatcher would conduct the discussion",
                task.key
            );
            return Err(Error::Conflict { message });
        };
        // This locks the workflow, so that the task does not end before the commit.
        workflows::bump_revision(tx, project, workflow)?;
        if workflows::count_discussions(tx, workflow, task.id)? >= MAX_STARTED_DISCUSSIONS {
            let message = format!(
                "this attempt at the task `{}` has had {MAX_STARTED_DISCUSSIONS} discussions, which is the limit: go on \
                 with what was decided",
                task.key
            );
            return Err(Error::Conflict { message });
        }
        // The discussion is about the current attempt at the task. A run that only discusses the task
        // is no attempt.
        let is_own_task = caller.link.task == Some(task.id) && caller.link.session.is_some();
        let run = if is_own_task { caller.run } else { task.run };
        let Some(run) = run.filter(|_| task.status == TaskStatus::InProgress) else {
            let message = format!(
                "the task `{}` is {}: only one that is in progress is discussed",
                task.key, task.status
            );
            return Err(Error::Conflict { message });
        };
        check_agents(&NameableAgents::load(tx, project, writer.author)?, &settings, &own)?;
        let names: Vec<&str> =
            settings.participants.iter().map(|participant| participant.agent.as_str()).collect();
        let properties = json!({
            "topic": settings.topic,
            "status": "active",
            "discussion_type": settings.kind.as_str(),
            "context": settings.context.chars().take(MAX_CONTEXT_CHARS).collect::<String>(),
            "participating_agents": names,
            "decision_criteria": settings.criteria,
            "settings": settings,
            "run_id": run,
            "task_id": task.id,
        });
        let created = objects::create(
            tx,
            &writer.with_links(),
            &objects::ObjectDraft::new(new_object(DISCUSSION_TYPE, properties))?,
        )?;
        let edge =
            relationships::RelationshipDraft::new(new_edge("spawned_discussion", task.id, created.id))?;
        relationships::create(tx, writer, &edge)?;
        let started = WorkflowEventBody::DiscussionStarted {
            discussion: created.id,
            topic: settings.topic.clone(),
            participants: names.into_iter().map(str::to_owned).collect(),
            note: settings.quorum_note(),
        };
        let event = new_event(Some(task.id), caller.run, &started, writer.now);
        workflows::append_events(tx, workflow, &[event])?;
        let fields = FieldSelection::only(["topic", "status", "kind", "participants", "taskId"]);
        let mut started = json!({ "discussion": fields.select(view(&created, &[])) });
        if let Some(note) = settings.quorum_note() {
            started["note"] = json!(note);
        }
        Ok(started)
    })
}

/// Checks the agents that the caller names.
fn check_agents(
    agents: &NameableAgents,
    settings: &DiscussionSettings,
    own: &DiscussionDefaults,
) -> Result<(), Invalid> {
    let check = |path: String, agent: &str| match agents.problem(agent, true) {
        Some(reason) => Err(Invalid::new(path, reason)),
        None => Ok(()),
    };
    for (index, participant) in settings.participants.iter().enumerate() {
        check(format!("participants[{index}]"), &participant.agent)?;
    }
    for (index, phase) in own.phases.iter().enumerate() {
        for (position, agent) in phase.agents.iter().enumerate() {
            check(format!("phases[{index}].agents[{position}]"), agent)?;
        }
    }
    Ok(())
}

fn new_object(type_: &str, properties: Value) -> NewObject {
    let properties = match properties {
        Value::Object(map) => map,
        _ => Map::new(),
    };
    NewObject { type_: type_.to_owned(), properties, ..NewObject::default() }
}

//! `discussions_get` and `discussions_start`.

use std::{collections::HashMap, sync::Arc};

use emergent_domain::{
    cursor::Page,
    ids::{ObjectId, ProjectId},
    invalid::Invalid,
    object::{NewObject, Object},
    pack::nearest_name,
    query::Direction,
    task::{Task, TaskStatus},
};
use emergent_graph::{Error, Result, objects, relationships};
use emergent_rules::workflow::discussion::{DiscussionKind, DiscussionSettings, Participant};
use emergent_store::{Tx, agents, objects as rows, relationships as edges, transfer, workflows};
use emergent_tools::{
    Tool, ToolContext, ToolError,
    builtin::{
        define::{CallResult, graph_change, read_tool, refuse, write_tool},
        reference::ObjectRef,
        schema,
        view::FieldSelection,
    },
};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::caller::{Caller, TaskRef, not_found};
use crate::create::{author_run, new_edge};

const DISCUSSION_TYPE: &str = "Discussion";
/// Entries of one answer; a discussion has fewer.
const MAX_ENTRIES: usize = 500;

pub(super) fn tools() -> Vec<Arc<dyn Tool>> {
    let kinds: Vec<&str> = DiscussionKind::ALL.iter().map(|kind| kind.as_str()).collect();
    let mut start_schema = schema::object(
        &["topic", "participants"],
        json!({
            "topic": schema::text("The question to be decided.", 2_000),
            "kind": {
                "type": "string",
                "description": "How it goes; `consensus` when absent: everybody argues, then votes.",
                "enum": kinds,
            },
            "participants": {
                "type": "array",
                "description": "Who takes part, each once: names of agents, or with a `role` (such as judge, proposer, \
                                for, against) and the `weight` of its vote.",
                "items": { "anyOf": [
                    { "type": "string", "minLength": 1, "maxLength": 128 },
                    schema::object(&["agent"], json!({
                        "agent": schema::text("The agent.", 128),
                        "role": schema::text("What it is in this discussion.", 64),
                        "weight": { "type": "number", "description": "1 when absent.", "minimum": 0 },
                    })),
                ] },
                "minItems": 2,
                "maxItems": 20,
            },
            "context": schema::text("What everybody should know first.", 50_000),
            "options": {
                "type": "array",
                "description": "What can be voted for; found by the participants when absent.",
                "items": { "type": "string", "minLength": 1, "maxLength": 500 },
                "maxItems": 50,
            },
            "criteria": {
                "type": "array",
                "description": "What a decision is measured by.",
                "items": { "type": "string", "minLength": 1, "maxLength": 500 },
                "maxItems": 20,
            },
            "rounds": { "type": "integer", "description": "How many rounds at most.", "minimum": 1, "maximum": 10 },
            "task": TaskRef::schema("The task it is for; your own when absent"),
        }),
    );
    start_schema["examples"] = json!([{
        "topic": "Should tags be rows or a JSON list?", "kind": "consensus",
        "participants": ["design-agent", "reviewer-agent"], "options": ["rows", "list"],
    }]);
    vec![
        read_tool(
            "discussions_get",
            "Reads a discussion: what it is about, who takes part, what was said in order, and what was decided. Returns \
             `discussion`, with its `entries`.",
            schema::object(
                &[],
                schema::merge_properties(
                    json!({
                        "id": schema::object_ref("The discussion; the newest one of the task when absent"),
                        "task": TaskRef::schema("Without `id`: the task; your own when absent"),
                    }),
                    &[schema::fields_schema(
                        "`topic`, `status`, `kind`, `participants`, `phase`, `consensusLevel`, `decision`, `escalation`, \
                         `taskId`, `createdAt`, `entries`; `entries` can be long",
                    )],
                ),
            ),
            get,
        ),
        write_tool(
            "discussions_start",
            "Starts a discussion between agents about the task you work at. They speak when your run has ended, and what \
             is decided is handed on with your task; you need not wait. Returns the `discussion`.",
            start_schema,
            start,
        ),
    ]
}

#[derive(Deserialize)]
struct GetInput {
    id: Option<ObjectRef>,
    task: Option<TaskRef>,
    #[serde(default)]
    fields: FieldSelection,
}

async fn get(context: ToolContext, input: GetInput) -> Result<Value, ToolError> {
    let (project, run) = (context.project, context.run);
    let read = move |tx: &mut Tx<'_>| {
        let id = match &input.id {
            Some(id) => id.resolve(tx, project)?,
            None => {
                let caller = Caller::load(tx, project, run)?;
                latest_discussion(tx, project, &caller, input.task.as_ref())?
            }
        };
        let found = rows::get(tx, project, id)?.filter(|object| object.type_ == DISCUSSION_TYPE);
        let found = found.ok_or_else(|| not_found("discussion", id))?;
        let entries = if input.fields.includes("entries") { entries(tx, project, id)? } else { Vec::new() };
        Ok::<_, Error>((found, entries, input.fields))
    };
    let (found, entries, fields) = context.graph.db().snapshot(read).await?;
    Ok(json!({ "discussion": fields.select(view(&found, &entries)) }))
}

fn latest_discussion(
    tx: &mut Tx<'_>,
    project: ProjectId,
    caller: &Caller,
    task: Option<&TaskRef>,
) -> Result<ObjectId> {
    let task = resolve_task(tx, project, caller, task)?;
    let types = ["spawned_discussion".to_owned()];
    let found = edges::list_for_object(tx, project, task.id, Direction::Out, &types, &Page::first(1))?.items;
    let newest = found.first().map(|edge| edge.to);
    newest.ok_or_else(|| Error::Conflict { message: format!("the task `{}` has no discussion", task.key) })
}

fn resolve_task(
    tx: &mut Tx<'_>,
    project: ProjectId,
    caller: &Caller,
    named: Option<&TaskRef>,
) -> Result<Task> {
    let own = caller.duty.task.map(|id| TaskRef(id.to_string()));
    let Some(task) = named.or(own.as_ref()) else {
        let message = "name a `task`: you were started for none".to_owned();
        return Err(Error::Conflict { message });
    };
    let workflow = caller.workflow(tx, project, None)?;
    Ok(Task::from_object(&task.resolve(tx, project, workflow)?))
}

/// What was said, in the order of saying.
fn entries(tx: &mut Tx<'_>, project: ProjectId, discussion: ObjectId) -> Result<Vec<Object>> {
    let types = ["has_entry".to_owned()];
    let page = Page::first(MAX_ENTRIES);
    let found = edges::list_for_object(tx, project, discussion, Direction::Out, &types, &page)?.items;
    let places: HashMap<ObjectId, i64> = found
        .iter()
        .map(|edge| {
            (edge.to, edge.properties.to_map().get("sequence").and_then(Value::as_i64).unwrap_or(i64::MAX))
        })
        .collect();
    let ids: Vec<ObjectId> = found.iter().map(|edge| edge.to).collect();
    let mut entries = transfer::objects_by_id(tx, project, &ids)?;
    entries.retain(|entry| entry.deleted_at.is_none());
    entries.sort_by_key(|entry| (places.get(&entry.id).copied(), entry.created_at, entry.id));
    Ok(entries)
}

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
        "entries": entries.iter().map(entry).collect::<Vec<_>>(),
    })
}

fn entry(entry: &Object) -> Value {
    let map = entry.properties.to_map();
    let parts = [
        ("agent", "agent_name"),
        ("type", "entry_type"),
        ("phase", "phase"),
        ("round", "round"),
        ("content", "content"),
        ("option", "option"),
        ("confidence", "confidence"),
        ("reason", "reason"),
    ];
    let shown = parts.iter().filter_map(|(shown, name)| Some(((*shown).to_owned(), map.get(*name)?.clone())));
    Value::Object(shown.collect())
}

#[derive(Deserialize)]
struct StartInput {
    topic: String,
    kind: Option<DiscussionKind>,
    participants: Vec<ParticipantInput>,
    context: Option<String>,
    #[serde(default)]
    options: Vec<String>,
    #[serde(default)]
    criteria: Vec<String>,
    rounds: Option<i64>,
    task: Option<TaskRef>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum ParticipantInput {
    Named(String),
    Detailed(Participant),
}

async fn start(_: ToolContext, input: StartInput) -> CallResult {
    let StartInput { topic, kind, participants, context, options, criteria, rounds, task } = input;
    let mut settings = DiscussionSettings::new(kind.unwrap_or(DiscussionKind::Consensus), topic, &[]);
    settings.participants = participants
        .into_iter()
        .map(|who| match who {
            ParticipantInput::Named(name) => Participant::new(name),
            ParticipantInput::Detailed(participant) => participant,
        })
        .collect();
    settings.context = context.unwrap_or_default();
    settings.options = options;
    settings.criteria = criteria;
    settings.rounds = rounds;
    let problems = settings.problems();
    if !problems.is_empty() {
        return Err(refuse(format!("This cannot be discussed so: {}", problems.join("; "))));
    }
    graph_change(move |tx, writer| {
        let project = writer.project.id;
        let caller = Caller::load(tx, project, author_run(writer))?;
        let task = resolve_task(tx, project, &caller, task.as_ref())?;
        let Some(workflow) = task.workflow else {
            let message =
                format!("the task `{}` belongs to no workflow, and nobody would lead a discussion", task.key);
            return Err(Error::Conflict { message });
        };
        // Held, so that the task does not come to its end meanwhile.
        workflows::bump_revision(tx, project, workflow)?;
        // Whoever is at it now is the one whose work is discussed. One who only speaks about it, or
        // was called in, is of no attempt itself.
        let own = caller.duty.task == Some(task.id) && caller.duty.session.is_some();
        let run = if own { caller.run } else { task.run };
        let Some(run) = run.filter(|_| task.status == TaskStatus::InProgress) else {
            let message = format!(
                "the task `{}` is {}: only one that is in progress is discussed",
                task.key, task.status
            );
            return Err(Error::Conflict { message });
        };
        check_agents(&agents::list_names(tx, project)?, &settings)?;
        let names: Vec<&str> = settings.participants.iter().map(|one| one.agent.as_str()).collect();
        let properties = json!({
            "topic": settings.topic,
            "status": "active",
            "discussion_type": settings.kind.as_str(),
            "context": settings.context.chars().take(2_000).collect::<String>(),
            "participating_agents": names,
            "decision_criteria": settings.criteria,
            "settings": settings,
            "run_id": run,
            "task_id": task.id,
        });
        let made = objects::create(
            tx,
            writer,
            &objects::ObjectDraft::new(new_object(DISCUSSION_TYPE, properties))?,
        )?;
        let joined = relationships::RelationshipDraft::new(new_edge("spawned_discussion", task.id, made.id))?;
        relationships::create(tx, writer, &joined)?;
        let event = workflows::NewWorkflowEvent {
            kind: "discussion_started",
            task: Some(task.id),
            run: caller.run,
            data: json!({ "discussion": made.id, "topic": settings.topic, "participants": names }),
            at: writer.now,
        };
        workflows::append_events(tx, workflow, &[event])?;
        let shown = FieldSelection::only(["topic", "status", "kind", "participants", "taskId"]);
        Ok(json!({ "discussion": shown.select(view(&made, &[])) }))
    })
}

fn check_agents(known: &[String], settings: &DiscussionSettings) -> Result<(), Invalid> {
    for (at, one) in settings.participants.iter().enumerate() {
        if !known.contains(&one.agent) {
            let hint = nearest_name(&one.agent, known.iter().map(String::as_str));
            let hint = hint.map(|name| format!("; did you mean `{name}`?")).unwrap_or_default();
            let reason = format!("there is no agent `{}`{hint}", one.agent);
            return Err(Invalid::new(format!("participants[{at}]"), reason));
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

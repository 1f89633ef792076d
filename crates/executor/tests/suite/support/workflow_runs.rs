//! Workflows and their runs, started the way the dispatcher does.

use emergent_domain::{
    agent::Agent,
    cursor::Page,
    ids::{ObjectId, RunId, WorkflowId},
    object::{NewObject, Object},
    run::Run,
    time::Timestamp,
    workflow::{Deliverable, Limit, WorkflowLink, WorkflowSettings},
};
use emergent_executor::{AdmissionBatch, Error, LinkedRun, StartOptions, admit_linked_run};
use emergent_graph::RelationshipFilter;
use emergent_store::{Tx, workflows};
use emergent_testkit::fixtures;
use serde_json::{Value, json};

use super::Harness;

/// Creates a workflow with this budget.
pub async fn workflow(harness: &Harness, budget: Limit) -> WorkflowId {
    let settings = WorkflowSettings { budget, ..WorkflowSettings::default() };
    let workflow = fixtures::workflow(harness.project, settings, Timestamp::now());
    let id = workflow.id;
    let done: Result<(), emergent_store::Error> =
        harness.executor.graph().db().write(move |tx| workflows::insert(tx, &workflow)).await;
    done.unwrap();
    id
}

pub async fn object(harness: &Harness, type_: &str) -> ObjectId {
    let properties = json!({ "title": "One" }).as_object().unwrap().clone();
    let properties = if type_ == "SpecTask" { properties } else { Default::default() };
    let new = NewObject { type_: type_.into(), properties, ..NewObject::default() };
    harness.executor.graph().create_object(harness.actor(), new).await.unwrap().id
}

pub fn hands(hands: Deliverable) -> WorkflowLink {
    WorkflowLink { deliverable: Some(hands), ..WorkflowLink::default() }
}

/// Starts a run as the dispatcher does.
pub async fn dispatched(
    harness: &Harness,
    agent: &Agent,
    workflow_link: WorkflowLink,
    part: i64,
) -> Result<Run, Error> {
    let (executor, agent) = (harness.executor.clone(), agent.clone());
    admit_into_slot(harness, move |tx, admissions| {
        let start = StartOptions { input: "Do your part.".into(), ..StartOptions::default() };
        let run = LinkedRun {
            id: RunId::new(),
            link: workflow_link,
            child_index: part,
            started_by: None,
            cause: None,
            cause_depth: 0,
        };
        admit_linked_run(tx, &executor, admissions, &agent, run, &start)
    })
    .await
}

/// Admits a run into a slot.
pub async fn admit_into_slot(
    harness: &Harness,
    work: impl Fn(&mut Tx<'_>, &mut AdmissionBatch) -> Result<Run, Error> + Send + 'static,
) -> Result<Run, Error> {
    harness.executor.commit_and_drive(harness.executor.try_acquire_slots(harness.project, 1), work).await
}

/// Returns the messages of a session in order, each with its sequence number.
pub async fn session(harness: &Harness, session: ObjectId) -> Vec<(i64, Object)> {
    let filter = RelationshipFilter {
        types: vec!["has_message".into()],
        from: Some(session),
        ..RelationshipFilter::default()
    };
    let graph = harness.executor.graph();
    let edges = graph.list_relationships(harness.project, filter, Page::first(500)).await.unwrap();
    let mut found = Vec::new();
    for edge in edges.items {
        let sequence = edge.properties.to_map()["sequence"].as_i64().unwrap();
        found.push((sequence, graph.get_object(harness.project, edge.to).await.unwrap()));
    }
    found.sort_by_key(|(sequence, _)| *sequence);
    found
}

/// Renders each message of a session as one line.
pub async fn told(harness: &Harness, id: ObjectId) -> Vec<String> {
    let line = |(sequence, object): (i64, Object)| {
        let of = object.properties.to_map();
        assert_eq!(of["seq"], json!(sequence));
        let more = of.get("tool_name").or(of.get("tool_calls")).map(|more| format!(" {more}"));
        let more = if of["role"] == "assistant" { more.map(|_| " calls".to_owned()) } else { more };
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        format!("{}{}: {}", text(&of["role"]), more.unwrap_or_default(), text(&of["content"]))
    };
    session(harness, id).await.into_iter().map(line).collect()
}

//! Small reads and writes that several transactions share.

use emergent_domain::{
    ids::{ObjectId, ProjectId, RunId, WorkflowId},
    object::{Object, ObjectPatch},
    time::Timestamp,
    workflow::Workflow,
    workflow_event::WorkflowEventBody,
};
use emergent_graph::{WriteContext, objects};
use emergent_store::{
    Tx,
    workflows::{self, NewWorkflowEvent},
};
use serde_json::Value;

use crate::error::{Error, Result};

pub(crate) fn get_workflow(tx: &mut Tx<'_>, project: ProjectId, id: WorkflowId) -> Result<Workflow> {
    workflows::get(tx, project, id)?.ok_or_else(|| Error::not_found("workflow", id))
}

/// Loads a workflow and locks its row until the transaction ends.
pub(crate) fn lock_workflow(tx: &mut Tx<'_>, project: ProjectId, id: WorkflowId) -> Result<Workflow> {
    workflows::lock(tx, project, id)?.ok_or_else(|| Error::not_found("workflow", id))
}

/// Builds an event of a workflow; `task` and `run` name what it is about.
pub(crate) fn new_event(
    task: Option<ObjectId>,
    run: Option<RunId>,
    body: &WorkflowEventBody,
    at: Timestamp,
) -> NewWorkflowEvent {
    NewWorkflowEvent { kind: body.kind(), task, run, data: body.data(), at }
}

/// Updates properties of a task or a discussion, also those that link it to workflows, runs and decisions.
/// `properties` has to be a JSON object.
pub(crate) fn update_properties(
    tx: &mut Tx<'_>,
    writer: &WriteContext,
    id: ObjectId,
    properties: Value,
) -> Result<Object> {
    let Value::Object(properties) = properties else { return Err(Error::not_found("object", id)) };
    let patch = ObjectPatch { properties: Some(properties), ..ObjectPatch::default() };
    Ok(objects::update(tx, &writer.with_links(), id, &patch)?)
}

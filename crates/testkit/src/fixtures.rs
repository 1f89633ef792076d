//! New tasks, workflows and MCP servers, for tests that need one without its service: `Task { status,
//! ..task(new) }`.

use emergent_domain::{
    author::Author,
    ids::{ObjectId, ProjectId, WorkflowId},
    json::JsonObject,
    mcp_server::{ConfiguredBy, McpServer},
    object::Object,
    task::{NewTask, Task},
    time::Timestamp,
    workflow::{Workflow, WorkflowOrigin, WorkflowSettings, WorkflowStatus},
};
use serde_json::Value;

/// Returns a task without a workflow, as it is read from its graph object.
pub fn task(new: NewTask) -> Task {
    let created = new.to_object(None);
    let now = Timestamp::now();
    Task::from_object(&Object {
        id: ObjectId::new(),
        project: ProjectId::new(),
        type_: created.type_,
        key: created.key,
        status: None,
        labels: Vec::new(),
        properties: JsonObject::from_map(&created.properties),
        version: 1,
        created_at: now,
        updated_at: now,
        deleted_at: None,
        author: Author::System,
        reason: None,
    })
}

/// Returns a running workflow that no dispatcher owns.
pub fn workflow(project: ProjectId, settings: WorkflowSettings, now: Timestamp) -> Workflow {
    Workflow {
        id: WorkflowId::new(),
        project,
        description: String::new(),
        status: WorkflowStatus::Running,
        settings,
        escalation: None,
        summary: None,
        planner_run: None,
        plan_attempts: 0,
        owner: None,
        revision: 0,
        event_seq: 0,
        started_by: None,
        started_by_run: None,
        origin: WorkflowOrigin::default(),
        created_at: now,
        updated_at: now,
        completed_at: None,
    }
}

/// Returns the MCP server of this description, as an operator would add it.
pub fn mcp_server(project: ProjectId, spec: Value) -> McpServer {
    let spec = serde_json::from_value(spec).expect("the description of a server");
    McpServer::new(project, spec, ConfiguredBy::Operator, Timestamp::now())
}

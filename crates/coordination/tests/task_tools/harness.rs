//! A project with agents, and calls as runs of a workflow make them.

use std::sync::Arc;

use emergent_coordination::{
    create::{self, CreatedWorkflow, NewWorkflow},
    tools,
};
use emergent_domain::{
    agent::{Agent, AgentDefinition, ModelConfig},
    author::Author,
    ids::{AgentId, ObjectId, ProjectId, RunId, ToolCallId, WorkflowId},
    object::Object,
    run::{Origin, Run, RunStatus},
    task::{NewTask, Task, TaskStatus},
    workflow::{Workflow, WorkflowLink, WorkflowSettings},
};
use emergent_graph::{Actor, Error, Graph, WriteContext, objects};
use emergent_store::{Tx, agents, runs, tasks, workflows};
use emergent_testkit::{TestDb, fixed_clock};
use emergent_tools::{Guard, GuardedOutput, ToolContext, ToolError};
use serde_json::{Value, json};

pub const AGENTS: [&str; 3] = ["researcher", "implementer", "reviewer"];

pub struct World {
    pub graph: Graph,
    pub project: ProjectId,
    /// Who calls; `None` for a client from outside.
    pub run: Option<RunId>,
    agent: AgentId,
}

impl World {
    pub async fn new(db: &TestDb) -> Self {
        let graph = Graph::new(db.db.clone(), fixed_clock(), None);
        graph.ensure_builtin_packs().await.unwrap();
        let project = graph.create_project("here", true).await.unwrap().id;
        let packs = graph.list_packs(project, emergent_domain::cursor::Page::first(9)).await.unwrap().items;
        graph.assign_pack(project, packs[0].id).await.unwrap();
        let now = graph.clock().now();
        let made: Vec<Agent> = AGENTS
            .iter()
            .map(|name| Agent {
                id: AgentId::new(),
                project,
                version: 1,
                definition: AgentDefinition::new(*name),
                created_at: now,
                updated_at: now,
                deleted_at: None,
            })
            .collect();
        let agent = made[0].id;
        let insert = move |tx: &mut Tx<'_>| {
            made.iter().try_for_each(|agent| agents::insert(tx, agent, Author::System))
        };
        graph.db().write(insert).await.unwrap_or_else(|error: emergent_store::Error| panic!("{error}"));
        Self { graph, project, run: None, agent }
    }

    /// The same, called by a run with this duty.
    pub async fn as_run(&self, duty: WorkflowLink) -> Self {
        let now = self.graph.clock().now();
        let run = Run {
            id: RunId::new(),
            project: self.project,
            agent: self.agent,
            agent_version: 1,
            agent_name: AGENTS[0].to_owned(),
            status: RunStatus::Running,
            reason: None,
            origin: Origin::Trigger,
            parent: None,
            parent_call: None,
            child_index: 0,
            depth: 0,
            resumed_from: None,
            schedule: None,
            cause: None,
            cause_depth: 0,
            workflow_link: duty,
            model: ModelConfig {
                provider: "rehearsal".into(),
                name: "script".into(),
                temperature: None,
                max_tokens: None,
            },
            step_count: 0,
            steps_before: 0,
            terms: Default::default(),
            max_steps: None,
            timeout_seconds: 300,
            deadline_base: Some(now),
            owner: None,
            seq: 0,
            summary: None,
            error: None,
            started_by: None,
            created_at: now,
            started_at: Some(now),
            completed_at: None,
            waiting_for: None,
            output: None,
            waiting_since: None,
        };
        let id = run.id;
        let insert = move |tx: &mut Tx<'_>| runs::insert(tx, &run);
        self.graph.db().write(insert).await.unwrap_or_else(|error: emergent_store::Error| panic!("{error}"));
        Self { graph: self.graph.clone(), project: self.project, run: Some(id), agent: self.agent }
    }

    pub async fn in_workflow(&self, workflow: WorkflowId) -> Self {
        self.as_run(WorkflowLink { workflow: Some(workflow), ..WorkflowLink::default() }).await
    }

    fn actor(&self) -> Actor {
        let author = match self.run {
            Some(run_id) => Author::Run { run_id, tool_call_id: Some(ToolCallId::new()) },
            None => Author::System,
        };
        Actor { project: self.project, author }
    }

    /// A call through the guard, and a change in a transaction; by any name of the tool.
    pub async fn call(&self, name: &str, input: Value) -> Result<Value, String> {
        let canonical = emergent_domain::tool_name::canonical(name);
        let tool = tools::tools().into_iter().find(|tool| tool.info().name == canonical).expect("a tool");
        let guard = Guard::default();
        let context = ToolContext::new(self.graph.clone(), self.project, self.run);
        match guard.call(tool.as_ref(), &context, input).await {
            GuardedOutput::Answer(answer) => Ok(answer),
            GuardedOutput::Error(why) => Err(why),
            GuardedOutput::Change(change) => {
                let change = Arc::new(change);
                let done = self.write(move |tx, writer| change(tx, writer)).await;
                done.map(|answer| guard.truncate_for(tool.info(), answer))
                    .map_err(|error| ToolError::from(error).to_string())
            }
        }
    }

    pub async fn ok(&self, name: &str, input: Value) -> Value {
        self.call(name, input.clone()).await.unwrap_or_else(|why| panic!("{name} {input}: {why}"))
    }

    pub async fn err(&self, name: &str, input: Value) -> String {
        match self.call(name, input.clone()).await {
            Err(why) => why,
            Ok(answer) => panic!("{name} {input} worked: {answer}"),
        }
    }

    pub async fn write<T: Send + 'static>(
        &self,
        work: impl Fn(&mut Tx<'_>, &WriteContext) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        let (graph, actor) = (self.graph.clone(), self.actor());
        self.graph
            .db()
            .write(move |tx| {
                let writer = graph.write_context(tx, actor)?;
                work(tx, &writer)
            })
            .await
    }

    pub async fn read<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Tx<'_>) -> emergent_store::Result<T> + Send + 'static,
    ) -> T {
        self.graph.db().read(work).await.unwrap_or_else(|error| panic!("{error}"))
    }

    pub async fn start(&self, tasks: Vec<NewTask>, max_tasks: usize) -> Result<CreatedWorkflow, Error> {
        let new = NewWorkflow {
            description: "tags".into(),
            settings: WorkflowSettings { max_tasks, ..WorkflowSettings::default() },
            tasks,
        };
        self.write(move |tx, writer| create::create_workflow(tx, writer, &new)).await
    }

    pub async fn workflow(&self, id: WorkflowId) -> Workflow {
        let project = self.project;
        self.read(move |tx| workflows::get(tx, project, id)).await.unwrap()
    }

    /// A workflow as one line: its tasks, each with what it waits for.
    pub async fn shape(&self, id: WorkflowId) -> String {
        let project = self.project;
        let (all, blocks) = self
            .read(move |tx| {
                Ok((tasks::list_for_workflow(tx, project, id)?, tasks::list_blocks(tx, project, id)?))
            })
            .await;
        let all: Vec<Task> = all.iter().map(Task::from_object).collect();
        let key = |id: ObjectId| all.iter().find(|task| task.id == id).map_or("?", |task| task.key.as_str());
        let mut told: Vec<String> = all
            .iter()
            .map(|task| {
                let before = blocks.iter().filter(|(_, after)| *after == task.id);
                let mut before: Vec<&str> = before.map(|(before, _)| key(*before)).collect();
                before.sort_unstable();
                if before.is_empty() {
                    task.key.clone()
                } else {
                    format!("{}<{}", task.key, before.join("+"))
                }
            })
            .collect();
        told.sort();
        told.join(" ")
    }

    /// The kinds of what happened in a workflow.
    pub async fn told(&self, id: WorkflowId) -> Vec<String> {
        let events = self.read(move |tx| workflows::list_events(tx, id, 0, 100)).await;
        events.into_iter().map(|event| event.kind).collect()
    }

    /// A move as the dispatcher makes it.
    pub async fn walk(&self, id: ObjectId, to: TaskStatus) -> Object {
        let properties = json!({ "status": to }).as_object().unwrap().clone();
        let patch =
            emergent_domain::object::ObjectPatch { properties: Some(properties), ..Default::default() };
        let (graph, actor) = (self.graph.clone(), self.actor());
        let work = move |tx: &mut Tx<'_>| {
            let task = emergent_store::objects::get(tx, actor.project, id)?.expect("a task");
            let workflow = Task::from_object(&task).workflow.expect("a task of a workflow");
            let (writer, _) = graph.workflow_write_context(tx, actor, workflow)?;
            objects::update(tx, &writer, id, &patch)
        };
        let walked: Result<Object, Error> = self.graph.db().write(work).await;
        walked.unwrap()
    }
}

pub fn task(key: &str, after: &[&str]) -> NewTask {
    NewTask {
        key: key.into(),
        title: format!("Do {key}"),
        blocked_by: after.iter().map(|key| (*key).to_owned()).collect(),
        ..NewTask::default()
    }
}

pub fn id(answer: &Value) -> ObjectId {
    answer["id"].as_str().expect("an id").parse().expect("an id")
}

pub fn workflow_of(answer: &Value) -> WorkflowId {
    answer["workflowId"].as_str().expect("a workflow").parse().expect("an id")
}

/// The keys of the tasks in a list.
pub fn keys<'a>(answer: &'a Value, list: &str) -> Vec<&'a str> {
    let items = answer[list].as_array().unwrap_or_else(|| panic!("no `{list}` in {answer}"));
    items.iter().map(|item| item["key"].as_str().unwrap_or("-")).collect()
}

//! A server in miniature for stories about workflows: a database, a scripted model, a runner and a
//! dispatcher.

use std::{sync::Arc, time::Duration};

use emergent_coordination::{Dispatcher, Settings, WorkflowDetail, create::NewWorkflow, tools};
use emergent_domain::{
    agent::AgentDefinition,
    author::Author,
    ids::{ObjectId, ProjectId, RunId, WorkflowId},
    object::{Object, ObjectPatch},
    query::Direction,
    run_event::MessageContent,
    task::{NewTask, Task, TaskStatus},
    workflow::{WorkflowEvent, WorkflowSettings, WorkflowStatus},
};
use emergent_executor::Executor;
use emergent_graph::{Actor, Graph};
use emergent_llm::Embedder;
use emergent_store::Db;
use emergent_testkit::scripted::ScriptedModel;
use emergent_tools::{ToolPool, remote::McpServers};
use serde_json::Value;
use tokio::{sync::watch, task::JoinHandle};

pub struct House {
    pub dispatcher: Dispatcher,
    pub project: ProjectId,
    pub model: ScriptedModel,
    stop: watch::Sender<bool>,
    at_work: Vec<JoinHandle<()>>,
}

impl House {
    pub async fn open(db: &Db, model: ScriptedModel) -> Self {
        Self::with(db, model, Settings::default()).await
    }

    pub async fn with(db: &Db, model: ScriptedModel, settings: Settings) -> Self {
        Self::with_embedder(db, model, settings, None).await
    }

    pub async fn with_embedder(
        db: &Db,
        model: ScriptedModel,
        settings: Settings,
        embedder: Option<Arc<dyn Embedder>>,
    ) -> Self {
        Self::build(db, model, settings, embedder, None).await
    }

    /// With the external servers of the projects.
    pub async fn with_remote(db: &Db, model: ScriptedModel, servers: McpServers) -> Self {
        Self::build(db, model, Settings::default(), None, Some(servers)).await
    }

    async fn build(
        db: &Db,
        model: ScriptedModel,
        settings: Settings,
        embedder: Option<Arc<dyn Embedder>>,
        servers: Option<McpServers>,
    ) -> Self {
        let graph = Graph::new(db.clone(), emergent_domain::time::Clock::system(), embedder);
        graph.ensure_builtin_packs().await.unwrap();
        let project = graph.ensure_default_project().await.unwrap().id;
        let pool = tools::tools()
            .into_iter()
            .fold(ToolPool::new(emergent_tools::builtin::tools()), |pool, tool| pool.with_tool(tool));
        let pool = match servers {
            Some(servers) => pool.with_remote(servers),
            None => pool,
        };
        let executor = Executor::new(graph, model.models(), pool, emergent_executor::Settings::default());
        let dispatcher = Dispatcher::new(executor.clone(), settings);
        let (stop, stopping) = watch::channel(false);
        let (runs, walks, stop_walks) = (executor, dispatcher.clone(), stopping.clone());
        let at_work = vec![
            tokio::spawn(async move { runs.run(stopping).await }),
            tokio::spawn(async move { walks.run(stop_walks).await }),
        ];
        Self { dispatcher, project, model, stop, at_work }
    }

    /// As a server that dies: nothing is given back.
    pub fn kill(self) {
        self.at_work.iter().for_each(JoinHandle::abort);
    }

    pub async fn close(self) {
        let _ = self.stop.send(true);
        for task in self.at_work {
            let _ = task.await;
        }
    }

    pub fn actor(&self) -> Actor {
        Actor { project: self.project, author: Author::System }
    }

    pub fn graph(&self) -> &Graph {
        self.dispatcher.executor().graph()
    }

    pub async fn agents(&self, names: &[&str]) {
        for name in names {
            self.agent(name, &[]).await;
        }
    }

    pub async fn agent(&self, name: &str, tools: &[&str]) {
        let definition = AgentDefinition {
            system_prompt: format!("You are {name}."),
            model: ScriptedModel::MODEL.parse().ok(),
            tools: tools.iter().map(|tool| (*tool).to_owned()).collect(),
            ..AgentDefinition::new(name)
        };
        self.dispatcher.executor().create_agent(self.actor(), definition).await.unwrap();
    }

    pub async fn dispatch(&self, tasks: Vec<NewTask>) -> WorkflowId {
        self.dispatch_with(WorkflowSettings::default(), tasks).await
    }

    pub async fn dispatch_with(&self, settings: WorkflowSettings, tasks: Vec<NewTask>) -> WorkflowId {
        let new = NewWorkflow { description: "the whole of it".into(), settings, tasks };
        self.dispatcher.dispatch(self.actor(), new).await.unwrap().id
    }

    /// Waits until a workflow is over or waits for a person.
    pub async fn ended(&self, id: WorkflowId) -> WorkflowDetail {
        let deadline = tokio::time::Instant::now() + Duration::from_secs(60);
        loop {
            let shown = self.dispatcher.workflow(self.project, id).await.unwrap();
            if !shown.workflow.status.is_active() {
                return shown;
            }
            let tasks: Vec<_> = shown.tasks.iter().map(|one| (&one.task.key, one.task.status)).collect();
            assert!(tokio::time::Instant::now() < deadline, "{} {tasks:?}", shown.workflow.status);
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    pub async fn completed(&self, id: WorkflowId) -> WorkflowDetail {
        let shown = self.ended(id).await;
        let events = self.events(id).await;
        assert_eq!(shown.workflow.status, WorkflowStatus::Completed, "{:?}\n{events:#?}", shown.workflow);
        shown
    }

    pub async fn events(&self, id: WorkflowId) -> Vec<WorkflowEvent> {
        self.dispatcher.events(self.project, id, 0, 10_000).await.unwrap()
    }

    /// Waits until a task has this status.
    pub async fn reaches(&self, id: WorkflowId, key: &str, status: TaskStatus) -> Task {
        for _ in 0..3_000 {
            let shown = self.dispatcher.workflow(self.project, id).await.unwrap();
            let task = shown.tasks.into_iter().find(|one| one.task.key == key).unwrap().task;
            if task.status == status {
                return task;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("`{key}` does not become {status}");
    }

    /// Somebody changes an object by hand.
    pub async fn change(&self, id: ObjectId, properties: Value) {
        let Value::Object(properties) = properties else { panic!("properties are an object") };
        let patch = ObjectPatch { properties: Some(properties), ..ObjectPatch::default() };
        self.graph().update_object(self.actor(), id, patch).await.unwrap();
    }

    /// What lies at the other end of an object's edges of one type, in the order of `sequence`, then
    /// of time.
    pub async fn beyond(&self, from: ObjectId, type_: &str) -> Vec<Object> {
        let page = emergent_domain::cursor::Page::first(100);
        let edges = self
            .graph()
            .object_edges(self.project, from, Direction::Out, vec![type_.to_owned()], page)
            .await
            .unwrap();
        let mut edges = edges.items;
        edges.sort_by_key(|edge| {
            (edge.properties.to_map().get("sequence").and_then(Value::as_i64), edge.created_at, edge.id)
        });
        let mut found = Vec::new();
        for edge in edges {
            found.push(self.graph().get_object(self.project, edge.to).await.unwrap());
        }
        found
    }

    /// What a run was told at its start.
    pub async fn prompt(&self, run: RunId) -> String {
        let read = move |tx: &mut emergent_store::Tx<'_>| emergent_store::runs::conversation::load(tx, run);
        let told: Result<_, emergent_store::Error> = self.graph().db().read(read).await;
        let user =
            told.unwrap().messages.into_iter().find(|message| message.role.as_str() == "user").unwrap();
        match user.content {
            MessageContent::Text { text, .. } => text,
            other => panic!("{other:?}"),
        }
    }
}

pub fn task(key: &str, agent: &str, blocked_by: &[&str]) -> NewTask {
    NewTask {
        key: key.into(),
        title: format!("The {key}"),
        description: format!("Do the {key}."),
        kind: key.into(),
        assigned_agent: (!agent.is_empty()).then(|| agent.to_owned()),
        blocked_by: blocked_by.iter().map(|key| (*key).to_owned()).collect(),
        ..NewTask::default()
    }
}

pub fn text(object: &Object, property: &str) -> String {
    match object.properties.to_map().get(property) {
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
        None => String::new(),
    }
}

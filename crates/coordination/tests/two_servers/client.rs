//! Where workflows are handed in and looked at: it drives nothing itself.

use std::time::Duration;

use emergent_coordination::{Dispatcher, Settings, WorkflowDetail, create::NewWorkflow};
use emergent_domain::{
    agent::AgentDefinition,
    author::Author,
    cursor::Page,
    ids::{ObjectId, ProjectId, WorkflowId},
    query::Direction,
    workflow::{Amount, WorkflowEvent, WorkflowStatus},
};
use emergent_graph::Actor;
use emergent_store::{
    Tx,
    budget::{self, BudgetKind, Counter},
    workflows,
};
use emergent_testkit::{TestDb, scripted::ScriptedModel};
use tokio::time::{Instant, sleep};

use crate::{
    case::Case,
    random_agents::{AGENTS, MAX_STEPS},
    replay::Replay,
    server,
};

/// Two leases and the work; more than this is no end.
const PATIENCE: Duration = Duration::from_secs(180);

pub struct Desk {
    dispatcher: Dispatcher,
    project: ProjectId,
    opened: Instant,
}

impl Desk {
    pub async fn open(db: &TestDb, model: &ScriptedModel) -> Self {
        let dispatcher = server::dispatcher(db.db.clone(), model, Settings::default());
        let graph = dispatcher.executor().graph();
        graph.ensure_builtin_packs().await.unwrap();
        let project = graph.ensure_default_project().await.unwrap().id;
        for (name, tools) in AGENTS {
            let definition = AgentDefinition {
                model: ScriptedModel::MODEL.parse().ok(),
                tools: tools.iter().map(|tool| (*tool).to_owned()).collect(),
                max_steps: Some(MAX_STEPS),
                ..AgentDefinition::new(name)
            };
            let actor = Actor { project, author: Author::System };
            dispatcher.executor().create_agent(actor, definition).await.unwrap();
        }
        Self { dispatcher, project, opened: Instant::now() }
    }

    pub async fn dispatch(&self, Case { settings, tasks }: Case) -> WorkflowId {
        let new = NewWorkflow { description: "the whole of it".into(), settings, tasks };
        let actor = Actor { project: self.project, author: Author::System };
        self.dispatcher.dispatch(actor, new).await.unwrap().id
    }

    /// Waits until nothing goes on by itself any more.
    pub async fn ended(&self, id: WorkflowId) -> WorkflowDetail {
        loop {
            let shown = self.dispatcher.workflow(self.project, id).await.unwrap();
            if !shown.workflow.status.is_active() {
                return shown;
            }
            let tasks: Vec<_> = shown.tasks.iter().map(|one| (&one.task.key, one.task.status)).collect();
            assert!(self.opened.elapsed() < PATIENCE, "the workflow does not come to an end: {tasks:?}");
            sleep(Duration::from_millis(50)).await;
        }
    }

    /// How many workflows are not over yet; no more than a page of them.
    pub async fn under_way(&self) -> usize {
        let running = Some(WorkflowStatus::Running);
        self.dispatcher.workflows(self.project, running, Page::first(100)).await.unwrap().items.len()
    }

    /// Everything that holds for a workflow that has come to an end.
    pub async fn check(&self, shown: &WorkflowDetail) {
        use WorkflowStatus::{Completed, Escalated, Failed};
        let (workflow, id) = (&shown.workflow, shown.workflow.id);
        assert!(matches!(workflow.status, Completed | Failed | Escalated), "it ended {}", workflow.status);
        let live = self.read(move |tx| workflows::list_active_runs(tx, id)).await;
        assert_eq!(live, [], "runs outlive their workflow");
        let replayed = Replay::of(shown, &self.events(id).await);
        for one in &shown.tasks {
            let mut runs = one.runs.clone();
            runs.sort_unstable();
            assert_eq!(
                replayed.attempts(one.task.id),
                runs,
                "every attempt at `{}` is one run",
                one.task.key
            );
            let runs: Vec<String> = runs.iter().map(ToString::to_string).collect();
            assert_eq!(self.sessions(one.task.id).await, runs, "and has one session");
            assert!(one.task.retry_count <= one.task.max_retries, "`{}` was retried too often", one.task.key);
        }
        self.check_books(shown).await;
    }

    async fn check_books(&self, shown: &WorkflowDetail) {
        let (spent, budget) = (&shown.spent, shown.workflow.settings.budget);
        let tasks: Amount = spent.by_task.iter().map(|share| share.spent).sum();
        let agents: Amount = spent.by_agent.iter().map(|share| share.spent).sum();
        assert_eq!((tasks, agents), (spent.spent, spent.spent), "shares sum up to the whole");
        assert_eq!(spent.reserved, Amount::default(), "nothing is reserved when nobody asks");
        assert!(budget.allows(spent.spent), "{:?} is more than {budget:?}", spent.spent);
        if !budget.is_unlimited() {
            let counted = Counter { spent: spent.spent, reserved: Amount::default() };
            assert_eq!(self.counter(shown.workflow.id).await, counted, "the counter moves with the calls");
        }
    }

    /// What the workflow's limit is held against.
    async fn counter(&self, id: WorkflowId) -> Counter {
        let call = budget::NewModelCall {
            id: uuid::Uuid::nil(),
            project: self.project,
            workflow: Some(id),
            task: None,
            agent: String::new(),
            run: None,
            budget_runs: Vec::new(),
            at: emergent_domain::time::Timestamp::now(),
        };
        self.read(move |tx| budget::read_counters(tx, &call)).await.get(BudgetKind::Workflow)
    }

    async fn events(&self, id: WorkflowId) -> Vec<WorkflowEvent> {
        self.dispatcher.events(self.project, id, 0, 100_000).await.unwrap()
    }

    /// The runs that the sessions of a task name, in order.
    async fn sessions(&self, task: ObjectId) -> Vec<String> {
        let graph = self.dispatcher.executor().graph();
        let types = vec!["has_session".to_owned()];
        let edges = graph.object_edges(self.project, task, Direction::Out, types, Page::first(100)).await;
        let mut runs = Vec::new();
        for edge in edges.unwrap().items {
            let session = graph.get_object(self.project, edge.to).await.unwrap();
            runs.push(session.properties.to_map()["run_id"].as_str().unwrap().to_owned());
        }
        runs.sort_unstable();
        runs
    }

    async fn read<T: Send + 'static>(
        &self,
        work: impl Fn(&mut Tx<'_>) -> Result<T, emergent_store::Error> + Send + 'static,
    ) -> T {
        self.dispatcher.executor().graph().db().read(work).await.unwrap()
    }
}

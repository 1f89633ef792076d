//! Which agent gets a task that names none.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use async_trait::async_trait;
use emergent_coordination::{ExistingTasks, Settings, TaskSelection, create::NewWorkflow};
use emergent_domain::{
    agent::{AgentDefinition, Visibility},
    author::Author,
    ids::TokenId,
    object::NewObject,
    task::NewTask,
};
use emergent_graph::Actor;
use emergent_llm::{EmbedTask, Embedder};
use emergent_testkit::{
    both_engines,
    scripted::{ScriptedModel, fails, says},
};

use serde_json::{Map, json};

use crate::harness::{House, task};

fn of_kind(kind: &str, new: NewTask) -> NewTask {
    NewTask { kind: kind.into(), max_retries: Some(0), ..new }
}

/// A sentence model that knows two subjects: food, and everything else.
#[derive(Default)]
struct FoodModel {
    documents: AtomicUsize,
    is_broken: bool,
}

#[async_trait]
impl Embedder for FoodModel {
    fn model(&self) -> &str {
        "test/food"
    }

    fn dims(&self) -> Option<usize> {
        Some(2)
    }

    fn max_batch(&self) -> usize {
        2
    }

    async fn embed(&self, texts: &[String], task: EmbedTask) -> Result<Vec<Vec<f32>>, emergent_llm::Error> {
        if self.is_broken {
            return Err(refused());
        }
        if task == EmbedTask::Document {
            self.documents.fetch_add(texts.len(), Ordering::Relaxed);
        }
        let is_food = |text: &String| ["soup", "dinner", "chef"].iter().any(|word| text.contains(word));
        Ok(texts.iter().map(|text| if is_food(text) { vec![1.0, 0.0] } else { vec![0.0, 1.0] }).collect())
    }
}

fn refused() -> emergent_llm::Error {
    emergent_llm::Error::BadRequest {
        model: ScriptedModel::MODEL.into(),
        status: 400,
        message: "no such column".into(),
    }
}

fn titled(title: &str) -> NewTask {
    NewTask { title: title.into(), description: String::new(), kind: String::new(), ..task("it", "", &[]) }
}

/// An internal agent; `dispatchable` is its `config.dispatchable`.
fn internal(name: &str, dispatchable: bool) -> AgentDefinition {
    AgentDefinition {
        visibility: Visibility::Internal,
        description: "Reviews code changes".into(),
        model: ScriptedModel::MODEL.parse().ok(),
        config: Map::from_iter([("dispatchable".to_owned(), json!(dispatchable))]),
        ..AgentDefinition::new(name)
    }
}

both_engines! {
    async fn an_internal_agent_is_chosen_only_if_it_says_so_and_named_by_no_token(db: TestDb) {
        let model = ScriptedModel::default().agent("writer", [says("Written.")]).agent("reviewer", [says("Fine.")]);
        let house = House::open(&db, model).await;
        house.agent("writer", &[]).await;
        let executor = house.dispatcher.executor().clone();
        executor.create_agent(house.actor(), internal("hidden", false)).await.unwrap();
        let review = || NewTask { title: "Review the code changes".into(), ..titled("") };
        let id = house.dispatch(vec![titled("Something hidden for the writer")]).await;
        assert_eq!(house.completed(id).await.tasks[0].task.assigned_agent.as_deref(), Some("writer"));

        executor.create_agent(house.actor(), internal("reviewer", true)).await.unwrap();
        let id = house.dispatch(vec![review()]).await;
        assert_eq!(house.completed(id).await.tasks[0].task.assigned_agent.as_deref(), Some("reviewer"));

        let token = Actor { author: Author::Token { id: TokenId::new() }, ..house.actor() };
        for (actor, name, is_allowed) in [
            (token, "reviewer", false), (token, "hidden", false), (house.actor(), "reviewer", true), (house.actor(), "hidden", false),
        ] {
            let named = NewTask { assigned_agent: Some(name.into()), ..review() };
            let new = NewWorkflow { description: "all".into(), settings: Default::default(), tasks: vec![named] };
            let checked = house.dispatcher.dry_run_dispatch(actor, new).await;
            assert_eq!(checked.is_ok(), is_allowed, "{name} by {actor:?}: {checked:?}");
        }
        // A task of the graph that names it is refused as well.
        let properties = json!({ "title": "Review", "assigned_agent": "reviewer" });
        let wish = NewObject { type_: "SpecTask".into(), properties: properties.as_object().cloned().unwrap(), ..NewObject::default() };
        let wish = house.graph().create_object(token, wish).await.unwrap().id;
        let existing = || ExistingTasks { selection: TaskSelection::Ids(vec![wish]), settings: Default::default() };
        let refused = house.dispatcher.dispatch_existing(token, existing()).await.unwrap_err().to_string();
        assert!(refused.contains("reviewer"), "{refused}");
        house.close().await;
    }

    async fn an_agent_that_is_not_dispatchable_is_only_given_tasks_that_name_it(db: TestDb) {
        let model = ScriptedModel::default()
            .agent("writer", [says("Written.")])
            .agent("guide", [says("Guided.")]);
        let house = House::open(&db, model).await;
        house.agent("writer", &[]).await;
        let guide = AgentDefinition { visibility: Visibility::Project, ..internal("guide", false) };
        house.dispatcher.executor().create_agent(house.actor(), guide).await.unwrap();
        let review = || NewTask { title: "Review the code changes with the guide, for the writer".into(), ..titled("") };
        let id = house.dispatch(vec![review()]).await;
        assert_eq!(house.completed(id).await.tasks[0].task.assigned_agent.as_deref(), Some("writer"));
        let named = NewTask { assigned_agent: Some("guide".into()), ..review() };
        let id = house.dispatch(vec![named]).await;
        assert_eq!(house.completed(id).await.tasks[0].task.assigned_agent.as_deref(), Some("guide"));
        house.close().await;
    }

    async fn a_sentence_model_is_asked_where_words_do_not_decide(db: TestDb) {
        let model = ScriptedModel::default()
            .agent("chef", [says("Served."), says("Served again.")])
            .agent("clerk", [says("Filed.")]);
        let food = Arc::new(FoodModel::default());
        let house = House::with_embedder(&db, model, Settings::default(), Some(food.clone())).await;
        house.agents(&["clerk", "chef"]).await;
        let embedded = || food.documents.load(Ordering::Relaxed);
        let agent_for = async |title: &str| {
            let shown = house.completed(house.dispatch(vec![titled(title)]).await).await;
            shown.tasks[0].task.assigned_agent.clone().unwrap()
        };
        // A shared word decides, and nothing is embedded.
        assert_eq!((agent_for("The clerk and the dinner").await, embedded()), ("clerk".to_owned(), 0));
        assert_eq!((agent_for("Something for dinner").await, embedded()), ("chef".to_owned(), 2));
        // The agents are the same, so only the task is embedded.
        assert_eq!((agent_for("Some soup").await, embedded()), ("chef".to_owned(), 2));
        house.close().await;
    }

    async fn a_sentence_model_that_fails_leaves_the_choice_to_the_rules(db: TestDb) {
        let model = ScriptedModel::default().agent("chef-a", [says("Served.")]).agent("chef-b", []);
        let broken = Arc::new(FoodModel { is_broken: true, ..FoodModel::default() });
        let house = House::with_embedder(&db, model, Settings::default(), Some(broken)).await;
        house.agents(&["chef-b", "chef-a"]).await;
        let shown = house.completed(house.dispatch(vec![titled("For the chef")]).await).await;
        assert_eq!(shown.tasks[0].task.assigned_agent.as_deref(), Some("chef-a"));
        house.close().await;
    }

    async fn an_agent_that_completed_tasks_of_a_kind_gets_the_next_one(db: TestDb) {
        let model = ScriptedModel::default()
            .agent("first", [])
            .agent("second", [says("Moved."), says("Moved again."), says("Moved once more.")]);
        let house = House::open(&db, model).await;
        house.agents(&["first", "second"]).await;
        // Within one workflow, and from one workflow to another.
        let tasks = vec![
            of_kind("migration", task("one", "second", &[])),
            of_kind("migration", task("two", "", &["one"])),
        ];
        for tasks in [tasks, vec![of_kind("migration", task("three", "", &[]))]] {
            let id = house.dispatch(tasks).await;
            let shown = house.completed(id).await;
            assert!(shown.tasks.iter().all(|one| one.task.assigned_agent.as_deref() == Some("second")));
            let events = house.events(id).await;
            let started = events.iter().rfind(|event| event.kind == "task_started").unwrap();
            let reason = started.data["reason"].to_string();
            assert!(reason.contains("it completed") && reason.contains("of kind `migration`"), "{reason}");
        }
        house.close().await;
    }

    async fn an_agent_that_failed_tasks_of_a_kind_does_not_get_the_next_one(db: TestDb) {
        let model = ScriptedModel::default().agent("mover-a", [fails(refused())]).agent("mover-b", [says("Moved.")]);
        let house = House::open(&db, model).await;
        house.agents(&["mover-a", "mover-b"]).await;
        let id = house.dispatch(vec![of_kind("mover", task("one", "mover-a", &[]))]).await;
        house.ended(id).await;
        // Both fit by their names; the first one would be chosen in the order of names.
        let id = house.dispatch(vec![of_kind("mover", task("two", "", &[]))]).await;
        let shown = house.completed(id).await;
        assert_eq!(shown.tasks[0].task.assigned_agent.as_deref(), Some("mover-b"));
        house.close().await;
    }
}

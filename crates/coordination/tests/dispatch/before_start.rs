//! What is checked and said before a workflow starts, and what an escalation says.

use emergent_coordination::create::NewWorkflow;
use emergent_domain::{
    agent::{AgentDefinition, Visibility},
    coordination::SelectionRule,
    project::ProjectPatch,
    task::NewTask,
    workflow::{SelectorKind, WorkflowSettings, WorkflowStatus},
};
use emergent_testkit::{
    both_engines,
    scripted::{ScriptedModel, fails, says},
};
use serde_json::{Map, json};

use crate::harness::{House, task};

fn request(settings: WorkflowSettings, tasks: Vec<NewTask>) -> NewWorkflow {
    NewWorkflow { description: "all of it".into(), settings, tasks }
}

fn refused() -> emergent_llm::Error {
    emergent_llm::Error::BadRequest {
        model: ScriptedModel::MODEL.into(),
        status: 400,
        message: "no such column".into(),
    }
}

both_engines! {
    async fn an_agent_without_a_usable_model_stops_the_dispatch_and_its_dry_run(db: TestDb) {
        let house = House::open(&db, ScriptedModel::default().agent("builder", [says("Done.")]).agent("keyless", [says("Done.")])).await;
        house.agents(&["builder"]).await;
        let keyless = AgentDefinition { model: "google/gemini-2.5-flash".parse().ok(), ..AgentDefinition::new("keyless") };
        house.dispatcher.executor().create_agent(house.actor(), keyless).await.unwrap();
        let open = || request(WorkflowSettings::default(), vec![task("any", "", &[])]);
        let dispatched = house.dispatcher.dispatch(house.actor(), open()).await.unwrap_err().to_string();
        let checked = house.dispatcher.dry_run_dispatch(house.actor(), open()).await.unwrap_err().to_string();
        assert_eq!(dispatched, checked);
        for word in ["`keyless`", "GEMINI_API_KEY", "--model"] {
            assert!(checked.contains(word), "{word}: {checked}");
        }
        let listed = house.dispatcher.workflows(house.project, None, emergent_domain::cursor::Page::first(10)).await.unwrap();
        assert!(listed.items.is_empty());
        // A workflow that cannot start it is not concerned, and neither is one with a model of its own.
        let id = house.dispatch(vec![task("named", "builder", &[])]).await;
        house.completed(id).await;
        let settings = WorkflowSettings { model: ScriptedModel::MODEL.parse().ok(), ..WorkflowSettings::default() };
        let id = house.dispatch_with(settings, vec![task("keyless", "keyless", &[])]).await;
        house.completed(id).await;
        house.close().await;
    }

    async fn a_model_for_the_whole_workflow_that_cannot_be_meant_is_refused_before_anything_is_written(db: TestDb) {
        let house = House::open(&db, ScriptedModel::default()).await;
        house.agents(&["builder"]).await;
        for (model, expected) in [
            ("gogle/gemini-2.5-flash", "has the unknown provider `gogle`; did you mean `google`? The providers are `google`, "),
            ("record/gogle/gemini", "has the unknown provider `gogle`; did you mean `google`?"),
            ("zzz/model", "has the unknown provider `zzz`; the providers are `google`, "),
        ] {
            let settings = WorkflowSettings { model: model.parse().ok(), ..WorkflowSettings::default() };
            let new = || request(settings.clone(), vec![task("any", "builder", &[])]);
            let dispatched = house.dispatcher.dispatch(house.actor(), new()).await.unwrap_err();
            let checked = house.dispatcher.dry_run_dispatch(house.actor(), new()).await.unwrap_err();
            assert_eq!(dispatched.to_string(), checked.to_string());
            let emergent_coordination::Error::Invalid(invalid) = dispatched else { panic!("{dispatched}") };
            assert_eq!(invalid.problems[0].field, "model");
            assert!(invalid.problems[0].reason.starts_with(expected), "{}", invalid.problems[0].reason);
        }
        let listed = house.dispatcher.workflows(house.project, None, emergent_domain::cursor::Page::first(10)).await.unwrap();
        assert!(listed.items.is_empty(), "nothing was written");
        house.close().await;
    }

    async fn dry_runs_at_once_are_all_answered_and_write_nothing(db: TestDb) {
        let house = House::open(&db, ScriptedModel::default()).await;
        house.agents(&["builder", "writer"]).await;
        let check = || {
            let tasks = vec![task("write", "", &["build"]), task("build", "", &[])];
            house.dispatcher.dry_run_dispatch(house.actor(), request(WorkflowSettings::default(), tasks))
        };
        let (first, second, third) = tokio::join!(check(), check(), check());
        for checked in [first, second, third] {
            let checked = checked.unwrap();
            let tasks: Vec<_> = checked.layers.iter().flatten().map(|one| (one.task.key.as_str(), one.agent.as_deref())).collect();
            assert_eq!(tasks, [("build", Some("builder")), ("write", Some("writer"))]);
            assert_eq!((checked.layers.len(), checked.layers[1][0].blocked_by.as_slice()), (2, &["build".to_owned()][..]));
        }
        let listed = house.dispatcher.workflows(house.project, None, emergent_domain::cursor::Page::first(10)).await.unwrap();
        assert!(listed.items.is_empty());
        house.close().await;
    }

    async fn the_model_of_a_workflow_is_not_for_agents_that_pin_their_own(db: TestDb) {
        let model = ScriptedModel::default().agent("pinned", [says("Done.")]).agent("free", [says("Done.")]);
        let house = House::open(&db, model).await;
        for (name, config) in [("pinned", json!({ "pin_model": true })), ("free", json!({}))] {
            let definition = AgentDefinition {
                model: "scripted/own".parse().ok(),
                config: config.as_object().unwrap().clone(),
                ..AgentDefinition::new(name)
            };
            house.dispatcher.executor().create_agent(house.actor(), definition).await.unwrap();
        }
        let settings = WorkflowSettings { model: "scripted/asked".parse().ok(), ..WorkflowSettings::default() };
        let id = house.dispatch_with(settings, vec![task("a", "pinned", &[]), task("b", "free", &[])]).await;
        let shown = house.completed(id).await;
        let mut models = Vec::new();
        for task in &shown.tasks {
            let run = house.dispatcher.executor().get_run(house.project, task.runs[0]).await.unwrap();
            models.push((run.agent_name, run.model.to_string()));
        }
        models.sort();
        let expected = [("free", "scripted/asked"), ("pinned", "scripted/own")];
        assert_eq!(models, expected.map(|(agent, model)| (agent.to_owned(), model.to_owned())));
        house.close().await;
    }

    async fn a_workflow_that_asks_for_a_judge_gets_the_model_of_the_planner(db: TestDb) {
        let house = House::open(&db, ScriptedModel::default()).await;
        house.agents(&["task-planner", "builder"]).await;
        let check = async |settings: WorkflowSettings| {
            let new = request(settings, vec![task("any", "", &[])]);
            house.dispatcher.dry_run_dispatch(house.actor(), new).await.unwrap().judge
        };
        assert_eq!(check(WorkflowSettings::default()).await, None, "nobody asked for one");
        let by_model = WorkflowSettings { selector: SelectorKind::Llm, ..WorkflowSettings::default() };
        assert_eq!(check(by_model).await.as_deref(), Some(ScriptedModel::MODEL));
        let evaluated = WorkflowSettings { evaluate: true, ..WorkflowSettings::default() };
        assert_eq!(check(evaluated).await.as_deref(), Some(ScriptedModel::MODEL));
        house.close().await;
    }

    async fn a_workflow_that_asks_for_a_judge_is_refused_where_no_model_can_judge(db: TestDb) {
        let house = House::open(&db, ScriptedModel::default()).await;
        house.agents(&["builder"]).await;
        let refused = async |house: &House, settings: WorkflowSettings| {
            let new = || request(settings.clone(), vec![task("any", "builder", &[])]);
            let dispatched = house.dispatcher.dispatch(house.actor(), new()).await.unwrap_err();
            let checked = house.dispatcher.dry_run_dispatch(house.actor(), new()).await.unwrap_err();
            assert_eq!(dispatched.to_string(), checked.to_string());
            match dispatched {
                emergent_coordination::Error::Invalid(invalid) => invalid.problems,
                other => panic!("{other}"),
            }
        };
        let asking = [
            ("evaluate", WorkflowSettings { evaluate: true, ..WorkflowSettings::default() }),
            ("selector", WorkflowSettings { selector: SelectorKind::Llm, ..WorkflowSettings::default() }),
        ];
        for (field, settings) in asking.clone() {
            let problems = refused(&house, settings).await;
            assert_eq!(problems.len(), 1);
            assert_eq!(problems[0].field, field);
            assert!(problems[0].reason.contains("EMERGENT_JUDGE_MODEL"), "{}", problems[0].reason);
        }
        let listed = house.dispatcher.workflows(house.project, None, emergent_domain::cursor::Page::first(10)).await.unwrap();
        assert!(listed.items.is_empty(), "nothing was written");
        house.close().await;

        // A judge without credentials cannot judge either.
        let keyless = emergent_coordination::Settings { judge: "google/gemini-2.5-flash".parse().ok(), ..Default::default() };
        let house = House::with(&db, ScriptedModel::default(), keyless).await;
        for (field, settings) in asking {
            let problems = refused(&house, settings).await;
            assert_eq!(problems[0].field, field);
            assert!(problems[0].reason.contains("GEMINI_API_KEY"), "{}", problems[0].reason);
        }
        house.close().await;
    }

    async fn rules_of_the_project_choose_the_agent_and_helpers_of_products_are_left_out(db: TestDb) {
        let model = ScriptedModel::default().agent("writer", [says("Written.")]).agent("helper", [says("Helped."), says("Helped.")]);
        let house = House::open(&db, model).await;
        house.agents(&["writer"]).await;
        let helper = AgentDefinition {
            visibility: Visibility::Internal,
            description: "Translates letters".into(),
            model: ScriptedModel::MODEL.parse().ok(),
            config: Map::from_iter([("dispatchable".to_owned(), json!(true))]),
            product: Some("emergent.letters".into()),
            ..AgentDefinition::new("helper")
        };
        house.dispatcher.executor().create_agent(house.actor(), helper).await.unwrap();
        let translate = || NewTask { title: "Translate the letters, writer".into(), kind: String::new(), ..task("it", "", &[]) };
        let chosen = async || {
            let shown = house.completed(house.dispatch(vec![translate()]).await).await;
            shown.tasks[0].task.assigned_agent.clone().unwrap()
        };
        assert_eq!(chosen().await, "writer");
        let internal = ProjectPatch { select_internal_agents: Some(true), ..ProjectPatch::default() };
        house.graph().update_project(house.project, internal).await.unwrap();
        assert_eq!(chosen().await, "helper");
        let rule = |agent: &str| ProjectPatch {
            select_internal_agents: Some(false),
            selection_rules: Some(vec![SelectionRule { pattern: "title:letters".into(), agent: agent.into() }]),
            ..ProjectPatch::default()
        };
        assert!(house.graph().update_project(house.project, rule("helpr")).await.unwrap_err().to_string().contains("did you mean `helper`"));
        house.graph().update_project(house.project, rule("helper")).await.unwrap();
        assert_eq!(chosen().await, "helper");
        house.close().await;
    }

    async fn the_events_of_a_workflow_say_that_the_model_of_a_run_is_asked_again(db: TestDb) {
        let limited = fails(emergent_llm::Error::RateLimited {
            model: ScriptedModel::MODEL.into(),
            message: "slow down".into(),
            retry_after: Some(std::time::Duration::from_millis(300)),
        });
        let house = House::open(&db, ScriptedModel::default().agent("builder", [limited, says("Done.")])).await;
        house.agents(&["builder"]).await;
        let id = house.dispatch(vec![task("build", "builder", &[])]).await;
        let shown = house.completed(id).await;
        let events = house.events(id).await;
        let [retry] = &events.iter().filter(|event| event.kind == "model_retry").collect::<Vec<_>>()[..] else {
            panic!("{events:?}")
        };
        assert_eq!((retry.task, retry.run), (Some(shown.tasks[0].task.id), Some(shown.tasks[0].runs[0])));
        assert_eq!((&retry.data["asker"], &retry.data["agent"]), (&json!("agent"), &json!("builder")));
        assert!(retry.data["waitMs"].as_u64().unwrap() >= 300 && retry.data["attempt"] == 1, "{}", retry.data);
        house.close().await;
    }

    async fn an_escalation_says_what_went_wrong_last(db: TestDb) {
        let model = ScriptedModel::default().agent("builder", [fails(refused()), fails(refused())]);
        let house = House::open(&db, model).await;
        house.agents(&["builder"]).await;
        let tasks = vec![NewTask { max_retries: Some(1), ..task("build", "builder", &[]) }];
        let id = house.dispatch(tasks).await;
        let shown = house.ended(id).await;
        assert_eq!(shown.workflow.status, WorkflowStatus::Escalated);
        let escalation = shown.workflow.escalation.unwrap();
        assert!(escalation.reason.contains("`build` failed") && escalation.reason.contains("no such column"), "{}", escalation.reason);
        let attempts: Vec<i64> = house.events(id).await.iter()
            .filter(|event| event.kind == "task_started").filter_map(|event| event.data["attempt"].as_i64()).collect();
        assert_eq!((attempts, shown.tasks[0].attempts), (vec![1, 2], 2));
        house.close().await;
    }
}

//! Agents that start other agents.

use crate::support;

use std::time::Duration;

use emergent_domain::{
    agent::AgentDefinition,
    ids::RunId,
    run::{Reason, Run, RunStatus, ToolCallStatus},
};
use emergent_testkit::{
    TestDb, both_engines,
    scripted::{ScriptedModel, ScriptedReply, calls, hangs, replies, says},
};
use serde_json::{Map, Value, json};
use support::{Harness, HarnessOptions, agent, assert_ended, until, with_tools};

fn task(agent: &str) -> Value {
    json!({ "agent_name": agent, "task": format!("Work, {agent}.") })
}

fn spawn(tasks: Vec<Value>) -> ScriptedReply {
    calls("spawn_agents", json!({ "tasks": tasks }))
}

fn again(agent: &str, run: RunId) -> ScriptedReply {
    spawn(vec![json!({ "agent_name": agent, "task": "Go on.", "resume_run_id": run })])
}

fn delegating(name: &str, tools: &[&str]) -> AgentDefinition {
    let config = Map::from_iter([("allow_delegation".to_owned(), json!(true))]);
    AgentDefinition { config, ..with_tools(name, tools) }
}

/// Runs the agent `parent`, which may spawn `others`. Returns its run and the result of its first call.
async fn parent(
    db: &TestDb,
    model: ScriptedModel,
    others: Vec<AgentDefinition>,
) -> (Harness, Run, Vec<Value>) {
    let harness = Harness::open(db, model).await;
    for other in others {
        harness.agent(other).await;
    }
    let parent = harness.agent(with_tools("parent", &["spawn_agents", "list_available_agents"])).await;
    let run = harness.run(&parent, "Go.").await;
    let answers = harness.answers(run.id).await;
    (harness, run, answers)
}

both_engines! {
    async fn results_come_in_the_order_of_the_tasks_with_what_each_came_to(db: TestDb) {
        let model = ScriptedModel::default()
            .agent("parent", [spawn(vec![task("slow"), task("quick"), task("stopped")]), says("All back.")])
            .agent("slow", [calls("project_info", json!({})).with_delay(Duration::from_millis(100)), says("Slow is done.")])
            .agent("quick", [says("Quick is done.")])
            .agent("stopped", [calls("project_info", json!({})), says("I was stopped.")]);
        let mut stopped = with_tools("stopped", &["project_info"]);
        stopped.max_steps = Some(1);
        let others = vec![with_tools("slow", &["project_info"]), agent("quick"), stopped];
        let (harness, run, answers) = parent(&db, model, others).await;
        assert_ended(&run, RunStatus::Completed, None);
        let children = harness.children(run.id).await;
        assert_eq!(answers[0], json!([
            { "run_id": children[0].id, "agent_name": "slow", "status": "completed", "summary": "Slow is done.", "steps": 2 },
            { "run_id": children[1].id, "agent_name": "quick", "status": "completed", "summary": "Quick is done.", "steps": 1 },
            { "run_id": children[2].id, "agent_name": "stopped", "status": "paused", "summary": "I was stopped.", "steps": 1 },
        ]));
        let call = harness.calls(run.id).await.remove(0);
        assert!(children.iter().all(|child| child.depth == 1 && child.parent_call == Some(call.id)));
        assert_eq!(harness.model.requests_of("slow")[0].turns[0].text(), "Work, slow.", "a child sees its task and no more");
        assert_eq!(harness.model.requests_of("slow")[0].turns.len(), 1);
        harness.close().await;
    }

    async fn the_call_fails_only_when_every_task_failed(db: TestDb) {
        let script = [
            spawn(vec![task("nobody"), task("worker")]),
            spawn(vec![task("nobody"), task("wroker")]),
            says("Some worked."),
        ];
        let model = ScriptedModel::default().agent("parent", script).agent("worker", [says("Worked.")]);
        let (harness, run, answers) = parent(&db, model, vec![agent("worker")]).await;
        let statuses: Vec<ToolCallStatus> = harness.calls(run.id).await.iter().map(|call| call.status).collect();
        assert_eq!(statuses, [ToolCallStatus::Completed, ToolCallStatus::Error]);
        let nobody = &answers[0][0];
        assert_eq!((&nobody["status"], &nobody["run_id"]), (&json!("failed"), &Value::Null));
        assert!(nobody["error"].as_str().unwrap().contains("there is no agent `nobody`"), "{nobody}");
        assert_eq!(answers[0][1]["status"], "completed");
        assert_eq!(answers[1][1]["error"], "there is no agent `wroker`; did you mean `worker`?");
        harness.close().await;
    }

    async fn an_agent_starts_and_finds_only_those_it_may(db: TestDb) {
        let model = ScriptedModel::default()
            .agent("lead", [
                calls("list_available_agents", json!({})),
                spawn(vec![task("writer-de"), task("admin"), task("nobody")]),
                says("Some worked."),
            ])
            .agent("writer-de", [says("Written.")]);
        let harness = Harness::open(&db, model).await;
        for name in ["writer-de", "admin"] {
            harness.agent(agent(name)).await;
        }
        let config = Map::from_iter([("may_spawn".to_owned(), json!(["writer-*", "editor"]))]);
        let lead = AgentDefinition { config, ..with_tools("lead", &["spawn_agents", "list_available_agents"]) };
        let lead = harness.agent(lead).await;
        let run = harness.run(&lead, "Go.").await;
        let answers = harness.answers(run.id).await;
        let listed: Vec<&str> = answers[0]["agents"].as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap()).collect();
        assert_eq!(listed, ["writer-de"]);
        assert_eq!(answers[1][0]["status"], "completed");
        for refused in [&answers[1][1], &answers[1][2]] {
            assert_eq!((&refused["status"], &refused["run_id"]), (&json!("failed"), &Value::Null));
            let why = refused["error"].as_str().unwrap();
            assert!(why.contains("`writer-*`, `editor`"), "it names those that it may start: {why}");
        }
        assert_eq!(harness.children(run.id).await.len(), 1);
        harness.close().await;
    }

    async fn a_child_that_fails_says_why(db: TestDb) {
        let model = ScriptedModel::default().agent("parent", [spawn(vec![task("silent")]), says("It failed.")]);
        let (harness, run, answers) = parent(&db, model, vec![agent("silent")]).await;
        assert_ended(&run, RunStatus::Completed, None);
        let result = &answers[0][0];
        assert_eq!(result["status"], "failed");
        assert!(result["error"].as_str().unwrap().contains("no more lines"), "{result}");
        harness.close().await;
    }

    async fn of_twenty_children_sixteen_run_at_once_and_the_rest_wait_their_turn(db: TestDb) {
        let tasks = (0..20).map(|_| task("worker")).collect();
        let model = ScriptedModel::default().agent("parent", [spawn(tasks)]).agent("worker", (0..20).map(|_| hangs()));
        let harness = Harness::open(&db, model).await;
        harness.agent(agent("worker")).await;
        let parent = harness.agent(with_tools("parent", &["spawn_agents"])).await;
        let run = harness.start(&parent, "Go.").await;
        until("sixteen are at work", async || harness.model.open() == 16).await;
        assert_eq!(harness.children(run.id).await.len(), 16);
        let first = harness.children(run.id).await.remove(0);
        harness.executor.cancel(harness.actor(), first.id).await.unwrap();
        until("another takes its turn", async || harness.model.requests_of("worker").len() == 17).await;
        assert_eq!((harness.children(run.id).await.len(), harness.model.max_open()), (17, 16));
        harness.executor.cancel(harness.actor(), run.id).await.unwrap();
        harness.close().await;
    }

    async fn twenty_tasks_give_twenty_results(db: TestDb) {
        let tasks = (0..20).map(|_| task("worker")).collect();
        let work = (0..20).map(|_| says("Worked."));
        let model = ScriptedModel::default().agent("parent", [spawn(tasks), says("All.")]).agent("worker", work);
        let (harness, run, answers) = parent(&db, model, vec![agent("worker")]).await;
        assert_ended(&run, RunStatus::Completed, None);
        assert_eq!(answers[0].as_array().unwrap().len(), 20);
        harness.close().await;
    }

    async fn a_child_has_its_own_tools_and_never_its_parents(db: TestDb) {
        let model = ScriptedModel::default()
            .agent("parent", [spawn(vec![task("worker")]), says("Done.")])
            .agent("worker", [calls("spawn_agents", json!({ "tasks": [task("worker")] })), says("I cannot.")]);
        let (harness, run, _) = parent(&db, model, vec![with_tools("worker", &["entities_get"])]).await;
        assert_eq!(harness.model.requests_of("worker")[0].tools, ["entities_get"]);
        let child = harness.children(run.id).await.remove(0);
        assert!(harness.answers(child.id).await[0]["error"].as_str().unwrap().starts_with("tool not found"));
        assert!(harness.children(child.id).await.is_empty());
        harness.close().await;
    }

    async fn below_the_top_both_coordination_tools_are_gone_unless_named_and_allowed(db: TestDb) {
        let both = ["spawn_agents", "list_available_agents"];
        let kinds = vec![
            (with_tools("listed", &both), vec![]),
            (delegating("allowed-by-glob", &["*agents"]), vec![]),
            (delegating("allowed-and-named", &both), vec!["list_available_agents", "spawn_agents"]),
            (delegating("allowed-not-named", &["entities_get"]), vec!["entities_get"]),
        ];
        let tasks = kinds.iter().map(|(kind, _)| task(&kind.name)).collect();
        let mut model = ScriptedModel::default().agent("parent", [spawn(tasks), says("Done.")]);
        for (kind, _) in &kinds {
            model = model.agent(&kind.name, [says("Here.")]);
        }
        let others = kinds.iter().map(|(kind, _)| kind.clone()).collect();
        let (harness, _, _) = parent(&db, model, others).await;
        for (kind, tools) in kinds {
            assert_eq!(harness.model.requests_of(&kind.name)[0].tools, tools, "{}", kind.name);
        }
        assert_eq!(harness.model.requests_of("parent")[0].tools, ["list_available_agents", "spawn_agents"]);
        harness.close().await;
    }

    async fn depth_two_is_the_hard_end(db: TestDb) {
        let model = ScriptedModel::default()
            .agent("parent", [spawn(vec![task("middle")]), says("Done.")])
            .agent("middle", [spawn(vec![task("leaf")]), says("Leaf is back.")])
            .agent("leaf", [spawn(vec![task("middle")]), says("I cannot.")]);
        let others = vec![delegating("middle", &["spawn_agents"]), delegating("leaf", &["spawn_agents"])];
        let (harness, run, _) = parent(&db, model, others).await;
        let middle = harness.children(run.id).await.remove(0);
        let leaf = harness.children(middle.id).await.remove(0);
        assert_eq!((middle.depth, leaf.depth), (1, 2));
        assert!(harness.model.requests_of("leaf")[0].tools.is_empty());
        assert!(harness.children(leaf.id).await.is_empty());
        assert_ended(&leaf, RunStatus::Completed, None);
        harness.close().await;
    }

    async fn the_list_of_agents_leaves_out_the_caller_and_every_system_prompt(db: TestDb) {
        let model = ScriptedModel::default().agent("parent", [calls("list_available_agents", json!({})), says("Two.")]);
        let mut inner = agent("inner");
        inner.visibility = emergent_domain::agent::Visibility::Internal;
        inner.description = "Works inside.".into();
        let (harness, _, answers) = parent(&db, model, vec![inner, with_tools("outer", &["entities_get"])]).await;
        assert_eq!(answers[0], json!({ "agents": [
            { "name": "inner", "description": "Works inside.", "tools": [], "flow_type": "single", "visibility": "internal" },
            { "name": "outer", "description": "", "tools": ["entities_get"], "flow_type": "single", "visibility": "project" },
        ] }));
        harness.close().await;
    }

    async fn a_parent_goes_on_with_its_own_paused_child(db: TestDb) {
        let model = ScriptedModel::default()
            .agent("parent", [
                spawn(vec![task("worker")]),
                replies(|request| {
                    let results: Value = serde_json::from_str(&request.last_text()).unwrap();
                    let run = results[0]["output"][0]["run_id"].as_str().unwrap();
                    again("worker", run.parse().unwrap())
                }),
                says("Now it is done."),
            ])
            .agent("worker", [calls("project_info", json!({})), says("Half."), says("Whole.")]);
        let mut worker = with_tools("worker", &["project_info"]);
        worker.max_steps = Some(1);
        let (harness, run, answers) = parent(&db, model, vec![worker]).await;
        assert_ended(&run, RunStatus::Completed, None);
        let children = harness.children(run.id).await;
        assert_eq!(children[1].resumed_from, Some(children[0].id));
        let second = &answers[1][0];
        assert_eq!((&second["status"], &second["summary"], &second["steps"]), (&json!("completed"), &json!("Whole."), &json!(2)));
        let request = harness.model.requests_of("worker").pop().unwrap();
        assert_eq!(request.last_text(), "Continue your work. Here is additional context: Go on.");
        assert_eq!(request.turns[0].text(), "Work, worker.", "the conversation is the chain's");
        harness.close().await;
    }

    async fn somebody_elses_paused_run_is_not_found(db: TestDb) {
        let model = ScriptedModel::default()
            .agent("worker", [calls("project_info", json!({})), says("Half.")])
            .agent("parent", []);
        let harness = Harness::open(&db, model).await;
        let mut definition = with_tools("worker", &["project_info"]);
        definition.max_steps = Some(1);
        let worker = harness.agent(definition).await;
        let paused = harness.run(&worker, "Work.").await;
        assert_ended(&paused, RunStatus::Paused, Some(Reason::StepLimit));
        harness.model.add("parent", [again("worker", paused.id), says("I cannot.")]);
        let parent = harness.agent(with_tools("parent", &["spawn_agents"])).await;
        let run = harness.run(&parent, "Go.").await;
        let result = &harness.answers(run.id).await[0][0];
        assert_eq!(result["status"], "failed");
        assert!(result["error"].as_str().unwrap().contains("no paused run"), "{result}");
        let detail = harness.executor.run_detail(harness.project, paused.id).await.unwrap();
        assert_eq!(detail.resumed_as, None);
        harness.close().await;
    }

    async fn a_parent_that_waits_leaves_its_place_to_its_children(db: TestDb) {
        let model = ScriptedModel::default()
            .agent("parent", [spawn(vec![task("middle"), task("middle")]), says("All.")])
            .agent("middle", [spawn(vec![task("leaf")]), spawn(vec![task("leaf"), task("leaf")]), says("m"), says("m")])
            .agent("leaf", [says("l"), says("l"), says("l")]);
        let harness = Harness::with(&db, HarnessOptions::new(model).max_runs(1)).await;
        harness.agent(delegating("middle", &["spawn_agents"])).await;
        harness.agent(agent("leaf")).await;
        let parent = harness.agent(with_tools("parent", &["spawn_agents"])).await;
        let run = harness.run(&parent, "Go.").await;
        assert_ended(&run, RunStatus::Completed, None);
        assert_eq!(harness.model.max_open(), 1, "one place, one at a time");
        harness.close().await;
    }

    async fn no_more_runs_are_driven_at_once_than_there_are_places(db: TestDb) {
        // Long enough for three runs to begin before the first one ends, also on a slow machine.
        let script = (0..8).map(|_| says("Done.").with_delay(Duration::from_millis(400)));
        let harness = Harness::with(&db, HarnessOptions::new(ScriptedModel::new(script)).max_runs(3)).await;
        let worker = harness.agent(agent("worker")).await;
        let mut runs = Vec::new();
        for _ in 0..8 {
            runs.push(harness.start(&worker, "Go.").await.id);
        }
        for run in runs {
            assert_ended(&harness.ended(run).await, RunStatus::Completed, None);
        }
        assert_eq!(harness.model.max_open(), 3);
        harness.close().await;
    }

    async fn the_tree_shows_children_while_they_run(db: TestDb) {
        let model = ScriptedModel::default()
            .agent("parent", [spawn(vec![task("worker"), task("worker")])])
            .agent("worker", [hangs(), hangs()]);
        let harness = Harness::open(&db, model).await;
        harness.agent(agent("worker")).await;
        let parent = harness.agent(with_tools("parent", &["spawn_agents"])).await;
        let run = harness.start(&parent, "Go.").await;
        until("both children run", async || harness.model.open() == 2).await;
        let tree = harness.executor.run_tree(harness.project, run.id).await.unwrap();
        assert_eq!(tree.children.len(), 2);
        assert!(tree.children.iter().all(|child| child.status == RunStatus::Running));
        harness.executor.cancel(harness.actor(), run.id).await.unwrap();
        harness.close().await;
    }
}

//! A token that may not start an internal agent does not reach it through other agents, flows or paused runs.

use crate::support;

use emergent_domain::{
    agent::{Agent, AgentDefinition, FlowConfig, FlowType, Visibility},
    author::Author,
    run::{Run, RunStatus},
    token::Scope,
};
use emergent_executor::{Error, StartOptions};
use emergent_graph::Actor;
use emergent_testkit::{
    both_engines,
    scripted::{ScriptedModel, ScriptedReply, calls, says},
};
use serde_json::{Map, Value, json};
use support::{Harness, agent, assert_ended, with_tools};

fn spawn(name: &str) -> ScriptedReply {
    calls("spawn_agents", json!({ "tasks": [{ "agent_name": name, "task": "Obey." }] }))
}

fn internal(name: &str) -> AgentDefinition {
    AgentDefinition { visibility: Visibility::Internal, ..agent(name) }
}

fn lead(name: &str) -> AgentDefinition {
    with_tools(name, &["spawn_agents", "list_available_agents"])
}

fn delegates() -> Map<String, Value> {
    Map::from_iter([("allow_delegation".to_owned(), json!(true))])
}

fn flow_over(name: &str, part: &str) -> AgentDefinition {
    let flow = FlowConfig { agents: vec![part.to_owned()], ..FlowConfig::default() };
    AgentDefinition { flow_type: FlowType::Sequential, flow_config: Some(flow), ..agent(name) }
}

async fn with_scopes(harness: &Harness, scopes: &[Scope]) -> Actor {
    let scopes = scopes.iter().copied().collect();
    let graph = harness.executor.graph();
    let (token, _) = graph.create_token("t", scopes, Some(harness.project), None).await.unwrap();
    Actor { project: harness.project, author: Author::Token { id: token.id } }
}

async fn run_as(harness: &Harness, actor: Actor, agent: &Agent) -> Run {
    let start = StartOptions { input: "Go.".to_owned(), ..StartOptions::default() };
    let run = harness.executor.trigger(actor, agent.id, start).await.unwrap();
    harness.ended(run.id).await
}

fn is_beyond_maker(outcome: Result<Agent, Error>) -> bool {
    matches!(outcome, Err(Error::BeyondMaker { scope: Scope::AdminWrite, .. }))
}

const MAKER: &[Scope] = &[Scope::AgentsWrite, Scope::AgentsInvoke, Scope::GraphRead];

both_engines! {
    async fn the_agent_of_a_plain_token_neither_finds_nor_starts_an_internal_one(db: TestDb) {
        let script = || [calls("list_available_agents", json!({})), spawn("inside"), says("Done.")];
        let three = script().into_iter().chain(script()).chain(script());
        let model = ScriptedModel::default().agent("lead", three).agent("inside", [says("Obeyed.")]);
        let harness = Harness::open(&db, model).await;
        harness.agent(internal("inside")).await;
        let maker = with_scopes(&harness, MAKER).await;
        let made = AgentDefinition { is_default: true, ..lead("lead") };
        let made = harness.executor.create_agent(maker, made).await.unwrap();
        let refused = async || {
            let run = run_as(&harness, maker, &made).await;
            let answers = harness.answers(run.id).await;
            assert_eq!(answers[0]["agents"].as_array().unwrap().iter().find(|one| one["name"] == "inside"), None);
            let why = answers[1][0]["error"].as_str().unwrap_or_default().to_owned();
            assert!(why.contains("agent `inside` is internal"), "{answers:?}");
        };
        refused().await;
        // The server makes another agent the default one, which makes a version of this one.
        harness.agent(AgentDefinition { is_default: true, ..agent("other") }).await;
        assert_eq!(harness.executor.get_agent(harness.project, made.id).await.unwrap().version, 2);
        refused().await;
        let admin = with_scopes(&harness, &[Scope::AdminWrite, Scope::AgentsInvoke]).await;
        let run = run_as(&harness, admin, &made).await;
        let answers = harness.answers(run.id).await;
        assert_eq!(answers[1][0]["status"], "completed", "an admin who starts it may start the other as well");
        harness.close().await;
    }

    async fn an_admin_who_saves_an_agent_lets_it_start_internal_ones(db: TestDb) {
        let model = ScriptedModel::default()
            .agent("lead", [spawn("inside"), says("Done.")])
            .agent("inside", [says("Obeyed.")]);
        let harness = Harness::open(&db, model).await;
        harness.agent(internal("inside")).await;
        let admin = with_scopes(&harness, &[Scope::AdminWrite]).await;
        let lead = harness.executor.create_agent(admin, lead("lead")).await.unwrap();
        let caller = with_scopes(&harness, &[Scope::AgentsInvoke]).await;
        let run = run_as(&harness, caller, &lead).await;
        assert_eq!(harness.answers(run.id).await[0][0]["status"], "completed");
        harness.close().await;
    }

    async fn a_plain_token_names_no_internal_agent_in_a_definition(db: TestDb) {
        let model = ScriptedModel::default().agent("part", [says("Obeyed.")]);
        let harness = Harness::open(&db, model).await;
        harness.agent(internal("inside")).await;
        let part = harness.agent(agent("part")).await;
        let maker = with_scopes(&harness, MAKER).await;
        let create = async |definition| harness.executor.create_agent(maker, definition).await;
        let config = |names: Value| Map::from_iter([("may_spawn".to_owned(), names)]);
        assert!(is_beyond_maker(create(flow_over("flow", "inside")).await));
        let named = AgentDefinition { config: config(json!(["part", "inside"])), ..lead("lead") };
        assert!(is_beyond_maker(create(named).await));
        create(AgentDefinition { config: config(json!(["*"])), ..lead("any") }).await.unwrap();
        // An agent that becomes internal later is checked when the flow starts it.
        let flow = create(flow_over("flow", "part")).await.unwrap();
        let hide = |definition| AgentDefinition { visibility: Visibility::Internal, ..definition };
        harness.executor.update_agent(harness.actor(), part.id, None, hide).await.unwrap();
        let run = run_as(&harness, maker, &flow).await;
        assert_eq!(run.status, RunStatus::Failed);
        assert!(run.error.unwrap_or_default().contains("agent `part` is internal"));
        harness.close().await;
    }

    async fn a_plain_token_neither_makes_an_internal_agent_nor_changes_one(db: TestDb) {
        let model = ScriptedModel::default()
            .agent("outer", [spawn("sneaky"), says("Done.")])
            .agent("sneaky", [spawn("inside"), says("Done.")])
            .agent("inside", [says("Obeyed.")]);
        let harness = Harness::open(&db, model).await;
        let inside = harness.agent(internal("inside")).await;
        let maker = with_scopes(&harness, MAKER).await;
        let hidden = AgentDefinition { config: delegates(), visibility: Visibility::Internal, ..lead("sneaky") };
        assert!(is_beyond_maker(harness.executor.create_agent(maker, hidden).await));
        let publish = |definition| AgentDefinition { visibility: Visibility::Project, ..definition };
        assert!(is_beyond_maker(harness.executor.update_agent(maker, inside.id, None, publish).await));
        assert!(is_beyond_maker(harness.executor.delete_agent(maker, inside.id).await));
        let sneaky = AgentDefinition { config: delegates(), ..lead("sneaky") };
        let made = harness.executor.create_agent(maker, sneaky).await.unwrap();
        let hide = |definition| AgentDefinition { visibility: Visibility::Internal, ..definition };
        assert!(is_beyond_maker(harness.executor.update_agent(maker, made.id, None, hide).await));
        // One that was saved before this needed `admin:write` starts no internal agent.
        let project = harness.project;
        let saved: Result<bool, emergent_store::Error> = db
            .write(move |tx| {
                let before = emergent_store::agents::get(tx, project, made.id)?.unwrap();
                let definition = hide(before.definition.clone());
                let next = Agent { version: before.version + 1, definition, ..before };
                emergent_store::agents::update(tx, &next, maker.author)
            })
            .await;
        assert!(saved.unwrap());
        let outer = harness.agent(lead("outer")).await;
        let caller = with_scopes(&harness, &[Scope::AgentsInvoke]).await;
        let parent = run_as(&harness, caller, &outer).await;
        let child = harness.children(parent.id).await.remove(0);
        let why = harness.answers(child.id).await[0][0]["error"].as_str().unwrap_or_default().to_owned();
        assert!(why.contains("agent `inside` is internal"), "{why}");
        harness.close().await;
    }

    async fn the_default_agent_of_an_admin_is_replaced_only_by_those_who_may_change_it(db: TestDb) {
        let harness = Harness::open(&db, ScriptedModel::default()).await;
        let strong = AgentDefinition { is_default: true, ..with_tools("strong", &["entities_create"]) };
        let strong = harness.agent(strong).await;
        let replaces = || AgentDefinition { is_default: true, ..agent("mine") };
        let maker = with_scopes(&harness, MAKER).await;
        let refused = harness.executor.create_agent(maker, replaces()).await;
        assert!(matches!(refused, Err(Error::BeyondMaker { scope: Scope::AdminWrite, .. })), "{refused:?}");
        assert_eq!(harness.executor.get_agent(harness.project, strong.id).await.unwrap().version, 1);
        let writer = with_scopes(&harness, &[Scope::AgentsWrite, Scope::GraphWrite]).await;
        harness.executor.create_agent(writer, replaces()).await.unwrap();
        harness.close().await;
    }

    async fn a_run_of_an_internal_agent_is_resumed_but_not_told_what_to_do(db: TestDb) {
        let model = ScriptedModel::default()
            .agent("lead", [spawn("inside"), says("It stopped.")])
            .agent("inside", [calls("project_info", json!({})), says("I was stopped."), says("Done.")]);
        let harness = Harness::open(&db, model).await;
        let inside = AgentDefinition { max_steps: Some(1), tools: vec!["project_info".into()], ..internal("inside") };
        harness.agent(inside).await;
        let lead = harness.agent(lead("lead")).await;
        let parent = harness.run(&lead, "Go.").await;
        let paused = harness.children(parent.id).await.remove(0);
        assert_ended(&paused, RunStatus::Paused, Some(emergent_domain::run::Reason::StepLimit));
        let caller = with_scopes(&harness, MAKER).await;
        let told = harness.executor.resume(caller, paused.id, Some("Delete everything.".to_owned())).await;
        let Err(Error::Forbidden(why)) = told else { panic!("{told:?}") };
        assert!(why.contains("agent `inside` is internal"), "{why}");
        let resumed = harness.executor.resume(caller, paused.id, None).await.unwrap();
        assert_eq!(harness.ended(resumed.id).await.status, RunStatus::Completed);
        harness.close().await;
    }
}

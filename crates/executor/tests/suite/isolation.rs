//! An agent cannot reach tools or data it was not given: not by name, by pattern, through another
//! agent, or in another project.

use crate::support;

use std::collections::BTreeSet;

use emergent_domain::{author::Author, object::NewObject, run::ToolCallStatus, tool_name};
use emergent_executor::Error;
use emergent_graph::Actor;
use emergent_testkit::{
    both_engines,
    scripted::{ScriptedModel, ScriptedReply, calls, says},
};
use serde_json::json;
use support::{Harness, agent, server::content, with_tools};

/// Returns the names and aliases of all built-in tools.
async fn every_name(harness: &Harness) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for tool in harness.executor.tools().project_tools(harness.project).await {
        let name = &tool.info().name;
        names.extend(tool_name::aliases(name).map(str::to_owned));
        names.insert(name.clone());
    }
    names
}

/// Returns spellings that might circumvent a list of names.
fn disguises(name: &str) -> Vec<String> {
    let upper = name.to_uppercase();
    vec![
        name.to_owned(),
        upper,
        format!("{name}*"),
        format!(" {name}"),
        format!("builtin.{name}"),
        format!(".{name}"),
    ]
}

fn all_in_one(names: impl IntoIterator<Item = String>) -> ScriptedReply {
    names.into_iter().fold(says("I try."), |say, name| say.and(calls(name.clone(), json!({ "tried": name }))))
}

both_engines! {
    async fn no_name_of_any_built_in_tool_reaches_one_that_was_not_granted(db: TestDb) {
        let harness = Harness::open(&db, ScriptedModel::default()).await;
        let names = every_name(&harness).await;
        assert!(names.len() > 40, "{}", names.len());
        let tries: Vec<String> = names.iter().flat_map(|name| disguises(name)).collect();
        harness.model.add("", [all_in_one(tries.clone()), says("None.")]);
        let bare = harness.agent(agent("bare")).await;
        let run = harness.run(&bare, "Go.").await;
        let recorded_calls = harness.calls(run.id).await;
        assert_eq!(recorded_calls.len(), tries.len());
        for call in recorded_calls {
            assert_eq!(call.status, ToolCallStatus::Error, "{call:?}");
            assert!(call.output.as_ref().unwrap()["error"].as_str().unwrap().starts_with("tool not found"), "{call:?}");
        }
        harness.close().await;
    }

    async fn each_tool_alone_grants_itself_and_no_other(db: TestDb) {
        let harness = Harness::open(&db, ScriptedModel::default()).await;
        let canonical: BTreeSet<String> =
            every_name(&harness).await.iter().map(|name| tool_name::canonical(name).to_owned()).collect();
        for granted in &canonical {
            let tools = harness.executor.tools().resolve(harness.project, std::slice::from_ref(granted), 0, false).await;
            assert_eq!(tools.names().collect::<Vec<_>>(), [granted.as_str()]);
            for other in canonical.iter().filter(|other| *other != granted) {
                assert!(tools.get(other).is_none(), "{granted} gives {other}");
                for alias in tool_name::aliases(other) {
                    assert!(tools.get(alias).is_none(), "{granted} gives {alias}");
                }
            }
        }
        harness.close().await;
    }

    async fn a_pattern_grants_what_it_matches_by_canonical_name_and_nothing_else(db: TestDb) {
        let harness = Harness::open(&db, ScriptedModel::default()).await;
        let names = async |pattern: &str| {
            let tools = harness.executor.tools().resolve(harness.project, &[pattern.to_owned()], 0, false).await;
            tools.names().map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(names("create_*").await, Vec::<String>::new(), "aliases are not matched");
        assert!(names("entities_*").await.iter().all(|name| name.starts_with("entities_")));
        assert_eq!(names("entities_g*t").await, ["entities_get"]);
        harness.close().await;
    }

    async fn spawning_gives_a_parent_nothing_of_its_childs_tools_nor_a_child_its_parents(db: TestDb) {
        let write = json!({ "objects": [{ "type": "Sneaked" }] });
        let model = ScriptedModel::default()
            .agent("parent", [
                calls("spawn_agents", json!({ "tasks": [{ "agent_name": "child", "task": "Write for me." }] })),
                calls("entities_create", write.clone()),
                says("No."),
            ])
            .agent("child", [calls("entities_create", write.clone()).and(calls("entities_delete", json!({ "id": "x" }))), says("No.")]);
        let harness = Harness::open(&db, model).await;
        harness.agent(with_tools("child", &["entities_delete"])).await;
        let parent = harness.agent(with_tools("parent", &["spawn_agents"])).await;
        let run = harness.run(&parent, "Go.").await;
        let child = harness.children(run.id).await.remove(0);
        let not_found = |output: &serde_json::Value| output["error"].as_str().unwrap_or("").starts_with("tool not found");
        assert!(not_found(&harness.answers(run.id).await[1]));
        assert!(not_found(&harness.answers(child.id).await[0]));
        assert!(!not_found(&harness.answers(child.id).await[1]), "its own tool it has");
        assert!(!content(&db).await.iter().any(|row| row.starts_with("graph_objects ")));
        harness.close().await;
    }

    async fn a_tool_that_was_taken_away_is_gone_for_the_resumed_run(db: TestDb) {
        let model = ScriptedModel::new([calls("project_info", json!({})), says("Half."), calls("project_info", json!({})), says("No.")]);
        let harness = Harness::open(&db, model).await;
        let mut definition = with_tools("looker", &["project_info"]);
        definition.max_steps = Some(1);
        let looker = harness.agent(definition).await;
        let first = harness.run(&looker, "Go.").await;
        let none = |mut definition: emergent_domain::agent::AgentDefinition| {
            definition.tools.clear();
            definition
        };
        harness.executor.update_agent(harness.actor(), looker.id, None, none).await.unwrap();
        let second = harness.resumed(first.id).await;
        assert!(harness.answers(second.id).await[0]["error"].as_str().unwrap().starts_with("tool not found"));
        harness.close().await;
    }

    async fn a_run_reads_and_writes_nothing_of_another_project(db: TestDb) {
        let harness = Harness::open(&db, ScriptedModel::default()).await;
        let graph = harness.executor.graph();
        let project = graph.create_project("other", false).await.unwrap().id;
        let stranger = Actor { project, author: Author::System };
        let new = NewObject { type_: "Secret".into(), key: Some("one".into()), ..NewObject::default() };
        let secret = graph.create_object(stranger, new).await.unwrap();
        let by = |tool: &str| calls(tool, json!({ "id": secret.id }));
        harness.model.add("", [
            by("entities_get").and(by("entities_delete")).and(by("entities_history"))
                .and(calls("entities_update", json!({ "id": secret.id, "properties": { "x": 1 } })))
                .and(calls("entities_query", json!({ "type": "Secret" })))
                .and(calls("graph_traverse", json!({ "startIds": [secret.id] }))),
            says("Nothing."),
        ]);
        let agent = harness.agent(with_tools("spy", &["entities_*", "graph_*"])).await;
        let run = harness.run(&agent, "Go.").await;
        for answer in harness.answers(run.id).await {
            let answer = answer.to_string();
            assert!(!answer.contains(r#""type":"Secret""#), "{answer}");
        }
        assert_eq!(graph.get_object(project, secret.id).await.unwrap(), secret);
        harness.close().await;
    }

    async fn runs_and_agents_of_another_project_are_not_found(db: TestDb) {
        let harness = Harness::open(&db, ScriptedModel::new([says("Done.")])).await;
        let worker = harness.agent(agent("worker")).await;
        let run = harness.run(&worker, "Go.").await;
        let project = harness.executor.graph().create_project("other", false).await.unwrap().id;
        let stranger = Actor { project, author: Author::System };
        let executor = &harness.executor;
        let start = emergent_executor::StartOptions { input: "Go.".into(), ..Default::default() };
        let errors = [
            executor.trigger(stranger, worker.id, start).await.err(),
            executor.resume(stranger, run.id, None).await.err(),
            executor.cancel(stranger, run.id).await.err(),
            executor.revert_run(stranger, run.id).await.err(),
            executor.get_run(project, run.id).await.err(),
            executor.run_events(project, run.id, 0, 10).await.err(),
            executor.run_tree(project, run.id).await.err(),
            executor.get_agent(project, worker.id).await.err(),
        ];
        for error in errors {
            assert!(matches!(error, Some(Error::NotFound { .. })), "{error:?}");
        }
        harness.close().await;
    }

    async fn an_agent_of_another_project_cannot_be_spawned(db: TestDb) {
        let spawn = calls("spawn_agents", json!({ "tasks": [{ "agent_name": "far", "task": "Go." }] }));
        let harness = Harness::open(&db, ScriptedModel::default().agent("parent", [calls("list_available_agents", json!({})).and(spawn), says("No.")])).await;
        let project = harness.executor.graph().create_project("other", false).await.unwrap().id;
        harness.executor.create_agent(Actor { project, author: Author::System }, agent("far")).await.unwrap();
        let parent = harness.agent(with_tools("parent", &["spawn_agents", "list_available_agents"])).await;
        let run = harness.run(&parent, "Go.").await;
        let answers = harness.answers(run.id).await;
        assert_eq!(answers[0], json!({ "agents": [] }));
        assert_eq!(answers[1][0]["error"], "there is no agent `far`");
        harness.close().await;
    }
}

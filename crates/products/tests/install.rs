//! Products are installed, upgraded and uninstalled completely or not at all, on both engines.

mod support;

use emergent_domain::{agent::AgentDefinition, run::RunStatus};
use emergent_executor::StartOptions;
use emergent_products::{Error, plan::Direction};
use emergent_testkit::{
    both_engines,
    scripted::{ScriptedModel, says},
};
use serde_json::{Value, json};
use support::{Harness, accepted, builtin_manifest, manifest_input, sample, shown};

fn names(value: &Value) -> Vec<String> {
    value.as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap().to_owned()).collect()
}

both_engines! {
    async fn an_install_brings_everything_and_an_uninstall_takes_it_all_away(db: TestDb) {
        let harness = Harness::open(&db).await;
        harness.own_agent(AgentDefinition::new("mine")).await;
        let before = harness.fingerprint().await;
        let done = harness.install(&sample(1)).await.unwrap();
        assert_eq!(done.plan.direction, Direction::Install);
        let installed = harness.fingerprint().await;
        assert_eq!(names(&installed["agents"]), ["mine", "old-one", "steady", "triage"]);
        assert_eq!(installed["packs"].as_array().unwrap().len(), 2);
        assert_eq!(installed["servers"].as_array().unwrap().len(), 2);
        assert_eq!(installed["prompts"].as_array().unwrap().len(), 2);
        assert_eq!(installed["schedules"].as_array().unwrap().len(), 2);
        assert_eq!(installed["triggers"], json!({ "triage": "on_document_ingested" }));
        assert_eq!(harness.products.list(harness.actor.project).await.unwrap()[0].raw, sample(1), "word by word");
        let gone = harness.uninstall("acme.support").await.unwrap();
        assert_eq!((gone.plan.direction, gone.product), (Direction::Uninstall, None));
        assert_eq!(harness.fingerprint().await, before);
    }

    async fn an_upgrade_changes_everything_and_a_downgrade_changes_it_back(db: TestDb) {
        let harness = Harness::open(&db).await;
        harness.own_agent(AgentDefinition::new("mine")).await;
        harness.install(&sample(1)).await.unwrap();
        let first = harness.fingerprint().await;
        let triage = harness.agent("triage").await;
        let up = harness.upgrade(&sample(2)).await.unwrap();
        assert_eq!(up.plan.direction, Direction::Upgrade);
        let second = harness.fingerprint().await;
        assert_eq!(names(&second["agents"]), ["mine", "new-one", "steady", "triage"]);
        assert_eq!(harness.agent("triage").await.id, triage.id, "the same agent in a new version");
        assert_eq!(harness.agent("steady").await.version, 1, "what stays the same gets no version");
        assert_eq!(up.product.unwrap().revision, 2);
        assert_eq!(harness.upgrade(&sample(1)).await.unwrap().plan.direction, Direction::Downgrade);
        assert_eq!(harness.fingerprint().await, first);
        let again = harness.upgrade(&sample(1)).await.unwrap();
        assert!(again.plan.is_empty(), "{:#?}", again.plan.steps);
        harness.uninstall("acme.support").await.unwrap();
        harness.install(&sample(2)).await.unwrap();
        assert_eq!(harness.fingerprint().await, second, "coming back is like coming");
    }

    async fn a_dry_run_tells_the_same_and_writes_nothing(db: TestDb) {
        let harness = Harness::open(&db).await;
        let before = harness.rows().await;
        let told = harness.products.install(harness.actor, manifest_input(&sample(1)), shown()).await.unwrap();
        assert!(told.product.is_none());
        assert_eq!(harness.rows().await, before);
        assert_eq!(harness.install(&sample(1)).await.unwrap().plan, told.plan);
        let (before, first) = (harness.rows().await, harness.fingerprint().await);
        let told = harness.products.upgrade(harness.actor, "acme.support", Some(manifest_input(&sample(2))), shown()).await.unwrap();
        assert_eq!(told.product.unwrap().version.to_string(), "1.0.0", "as it is");
        harness.products.uninstall(harness.actor, "acme.support", true).await.unwrap();
        assert_eq!((harness.rows().await, harness.fingerprint().await), (before, first));
        assert_eq!(harness.upgrade(&sample(2)).await.unwrap().plan, told.plan);
    }

    async fn what_stands_against_it_is_told_and_nothing_is_written(db: TestDb) {
        let harness = Harness::open(&db).await;
        harness.own_agent(AgentDefinition::new("old-one")).await;
        let before = harness.rows().await;
        let refused = harness.install(&sample(1)).await;
        assert!(matches!(&refused, Err(Error::Incompatible(problems)) if problems[0].pointer == "/agents/2/name"), "{refused:?}");
        let mut bad = sample(1);
        bad["agents"][0]["tools"][0] = json!("no_such_tool");
        bad["jobs"][1]["agent"] = json!("nobody");
        bad["mcp"]["servers"] = json!([]);
        match harness.install(&bad).await {
            Err(Error::Manifest(problems)) => {
                let places: Vec<_> = problems.iter().map(|one| one.pointer.as_str()).collect();
                assert_eq!(places, ["/agents/0/tools/0", "/jobs/1/agent", "/agents/2/name"]);
            }
            other => panic!("{other:?}"),
        }
        assert_eq!(harness.rows().await, before);
    }

    async fn what_is_not_the_case_is_said(db: TestDb) {
        let harness = Harness::open(&db).await;
        assert!(matches!(harness.uninstall("acme.support").await, Err(Error::NotInstalled(_))));
        assert!(matches!(harness.upgrade(&sample(1)).await, Err(Error::NotInstalled(_))));
        harness.install(&sample(1)).await.unwrap();
        assert!(matches!(harness.install(&sample(2)).await, Err(Error::AlreadyInstalled { .. })));
        let (first, rows) = (harness.fingerprint().await, harness.rows().await);
        let again = harness.install(&sample(1)).await.unwrap();
        assert!(again.plan.steps.is_empty() && again.plan.from.is_some() && again.product.is_some());
        assert_eq!((harness.fingerprint().await, harness.rows().await), (first, rows), "the same manifest changes nothing");
        let other = harness.products.upgrade(harness.actor, "acme.support", Some(manifest_input(&builtin_manifest("emergent.code"))), accepted()).await;
        assert!(matches!(other, Err(Error::NameMismatch { .. })), "{other:?}");
        let nowhere = harness.products.upgrade(harness.actor, "acme.support", None, accepted()).await;
        assert!(matches!(&nowhere, Err(Error::Source(why)) if why.contains("name the file")), "{nowhere:?}");
    }

    async fn a_persons_change_is_overwritten_with_a_warning_and_stays_in_the_history(db: TestDb) {
        let harness = Harness::open(&db).await;
        harness.install(&sample(1)).await.unwrap();
        harness.change("triage", |agent| agent.system_prompt = "Mine.".into()).await;
        let (_, own) = harness.products.get(harness.actor.project, "acme.support").await.unwrap();
        assert_eq!((own.len(), own[0].fields[0].pointer.as_str()), (1, "/system_prompt"));
        let version = harness.agent("triage").await.version;
        let up = harness.upgrade(&sample(2)).await.unwrap();
        assert!(up.plan.warnings.iter().any(|one| one.kind() == "own_change" && one.subject() == "triage"), "{:?}", up.plan.warnings);
        let agent = harness.agent("triage").await;
        assert_eq!(agent.definition.system_prompt, "Version 2.");
        let kept = harness.db().read(move |tx| emergent_store::agents::get_version(tx, agent.id, version)).await;
        let kept: Option<AgentDefinition> = kept.unwrap_or_else(|error: emergent_store::Error| panic!("{error}"));
        assert_eq!(kept.unwrap().system_prompt, "Mine.");
    }

    async fn what_people_set_of_a_server_survives_an_upgrade(db: TestDb) {
        let harness = Harness::open(&db).await;
        harness.install(&sample(1)).await.unwrap();
        harness.switch_off("hub").await;
        harness.upgrade(&sample(2)).await.unwrap();
        let hub = harness.state().await.servers.into_iter().find(|one| one.name() == "hub").unwrap();
        assert!(!hub.enabled && serde_json::to_string(&hub.spec).unwrap().contains("/v2"), "{hub:?}");
    }

    async fn a_run_goes_on_with_the_definition_it_was_admitted_with(db: TestDb) {
        let model = ScriptedModel::new([says("First."), says("Second.")]);
        let harness = Harness::with(&db, Default::default(), model.models()).await;
        let with_model = |version| {
            let mut manifest = sample(version);
            manifest["agents"][0]["model"] = json!({ "provider": "scripted", "name": "lines" });
            manifest
        };
        harness.install(&with_model(1)).await.unwrap();
        let triage = harness.agent("triage").await.id;
        let start = || StartOptions { input: "go".into(), ..StartOptions::default() };
        let waiting = harness.executor.trigger(harness.actor, triage, start()).await.unwrap();
        harness.upgrade(&with_model(2)).await.unwrap();
        let later = harness.executor.trigger(harness.actor, triage, start()).await.unwrap();
        let doomed = harness.uninstall("acme.support").await;
        doomed.unwrap();
        let (stop, stopping) = tokio::sync::watch::channel(false);
        let (executor, runner) = (harness.executor.clone(), harness.executor.clone());
        let runner = tokio::spawn(async move { runner.run(stopping).await });
        for run in [waiting.id, later.id] {
            let mut looked = 0;
            while !executor.get_run(harness.actor.project, run).await.unwrap().status.is_terminal() {
                looked += 1;
                assert!(looked < 1_000, "run {run} did not end");
                tokio::time::sleep(std::time::Duration::from_millis(10)).await;
            }
        }
        let _ = stop.send(true);
        let _ = runner.await;
        let mut systems: Vec<_> = model.requests().into_iter().map(|asked| asked.system).collect();
        systems.sort();
        assert!(systems[0].contains("Version 1.") && systems[1].contains("Version 2."), "{systems:?}");
    }

    async fn the_external_default_wins_in_either_order_and_gives_the_flag_back(db: TestDb) {
        let harness = Harness::open(&db).await;
        harness.builtin("emergent.memory").await.unwrap();
        assert_eq!(harness.default_agent().await.as_deref(), Some("graph-query-agent"));
        harness.builtin("emergent.research").await.unwrap();
        assert_eq!(harness.default_agent().await.as_deref(), Some("research-assistant"));
        harness.uninstall("emergent.research").await.unwrap();
        assert_eq!(harness.default_agent().await.as_deref(), Some("graph-query-agent"));
        harness.uninstall("emergent.memory").await.unwrap();
        assert_eq!(harness.default_agent().await, None);
        harness.builtin("emergent.research").await.unwrap();
        let memory = harness.builtin("emergent.memory").await.unwrap();
        assert!(memory.plan.warnings.iter().any(|one| one.kind() == "default_not_taken"), "{:?}", memory.plan.warnings);
        assert_eq!(harness.default_agent().await.as_deref(), Some("research-assistant"));
    }

    async fn default_agents_are_installed_once(db: TestDb) {
        let harness = Harness::open(&db).await;
        harness.products.install_default_agents(harness.actor).await.unwrap();
        let (first, rows) = (harness.fingerprint().await, harness.rows().await);
        let again = harness.products.install_default_agents(harness.actor).await.unwrap();
        assert!(again.plan.steps.is_empty() && again.product.is_some());
        assert_eq!((harness.fingerprint().await, harness.rows().await), (first, rows));
    }

    async fn installing_again_brings_back_what_was_deleted_and_keeps_what_was_changed(db: TestDb) {
        let harness = Harness::open(&db).await;
        harness.products.install_default_agents(harness.actor).await.unwrap();
        harness.delete("graph-query-agent").await.unwrap();
        harness.change("entity-extractor", |agent| agent.system_prompt = "My own words.".into()).await;
        let changed = harness.agent("entity-extractor").await;
        let again = harness.products.install_default_agents(harness.actor).await.unwrap();
        let steps: Vec<_> = again.plan.steps.iter().map(|step| (step.change.as_str(), step.name.as_str())).collect();
        assert_eq!(steps, [("add", "graph-query-agent")]);
        let back = harness.agent("graph-query-agent").await.definition;
        assert_eq!((back.product.as_deref(), back.is_default, back.tools.len()), (Some("emergent.memory"), true, 10));
        assert_eq!(harness.agent("entity-extractor").await, changed, "a person's own change stays");

        harness.delete("graph-query-agent").await.unwrap();
        harness.own_agent(AgentDefinition { is_default: true, ..AgentDefinition::new("mine") }).await;
        harness.builtin("emergent.memory").await.unwrap();
        assert!(!harness.agent("graph-query-agent").await.definition.is_default);
        assert_eq!(harness.default_agent().await.as_deref(), Some("mine"));

        harness.delete("graph-query-agent").await.unwrap();
        harness.own_agent(AgentDefinition::new("graph-query-agent")).await;
        let rows = harness.rows().await;
        let kept = harness.products.install_default_agents(harness.actor).await.unwrap();
        assert!(kept.plan.steps.is_empty(), "the name is taken: {:?}", kept.plan.steps);
        assert_eq!(harness.agent("graph-query-agent").await.definition.product, None);
        assert_eq!(harness.rows().await, rows);
    }

    async fn of_two_that_install_at_once_one_does(db: TestDb) {
        let harness = Harness::open(&db).await;
        let manifest = sample(1);
        let (one, other) = tokio::join!(harness.install(&manifest), harness.install(&manifest));
        let steps = [one.unwrap().plan.steps.len(), other.unwrap().plan.steps.len()];
        assert!(steps.contains(&0) && steps != [0, 0], "{steps:?}");
        assert_eq!(harness.state().await.agents.len(), 3);
    }

    async fn a_product_is_of_one_project(db: TestDb) {
        let harness = Harness::open(&db).await;
        let in_other_project = harness.in_other_project("other").await;
        harness.install(&sample(1)).await.unwrap();
        assert!(in_other_project.state().await.agents.is_empty());
        assert!(matches!(in_other_project.uninstall("acme.support").await, Err(Error::NotInstalled(_))));
        in_other_project.install(&sample(2)).await.unwrap();
        harness.uninstall("acme.support").await.unwrap();
        assert_eq!(in_other_project.state().await.agents.len(), 3);
    }

    /// Runs every agent of every built-in product that can be started by hand, without an API key.
    async fn each_product_can_be_rehearsed(db: TestDb) {
        let harness = Harness::open(&db).await;
        let (stop, stopping) = tokio::sync::watch::channel(false);
        let runner = harness.executor.clone();
        let runner = tokio::spawn(async move { runner.run(stopping).await });
        for (product, agents) in [
            ("emergent.memory", &["entity-extractor", "memory-assistant", "graph-query-agent"][..]),
            ("emergent.research", &["research-assistant", "paper-summarizer"]),
            ("emergent.code", &["spec-writer", "task-planner", "implement-agent", "reviewer-agent"]),
        ] {
            harness.builtin(product).await.unwrap_or_else(|error| panic!("{product}: {error}"));
            let before = harness.rows().await["graph_objects"];
            for agent in agents {
                let start = StartOptions {
                    input: "What is known about Ada Lovelace?".into(),
                    model: Some(format!("rehearsal/{product}").parse().unwrap()),
                    ..StartOptions::default()
                };
                let id = harness.agent(agent).await.id;
                let run = harness.executor.trigger(harness.actor, id, start).await.unwrap().id;
                let ended = loop {
                    let run = harness.executor.get_run(harness.actor.project, run).await.unwrap();
                    if run.status.is_terminal() {
                        break run;
                    }
                    tokio::time::sleep(std::time::Duration::from_millis(10)).await;
                };
                assert_eq!(ended.status, RunStatus::Completed, "{agent}: {ended:?}");
                let timeline = harness.executor.run_events(harness.actor.project, run, 0, 1_000).await.unwrap();
                let failed = timeline.iter().any(|event| format!("{:?}", event.body).contains("is_error: true"));
                assert!(!failed, "{agent}: {timeline:#?}");
                let children = harness.executor.run_detail(harness.actor.project, run).await.unwrap().children;
                let completed = children.iter().all(|child| child.status == RunStatus::Completed);
                assert!(completed, "the agents that it starts need no key either: {agent}: {children:?}");
            }
            assert!(harness.rows().await["graph_objects"] > before, "{product} wrote nothing to the graph");
        }
        let _ = stop.send(true);
        let _ = runner.await;
    }
}

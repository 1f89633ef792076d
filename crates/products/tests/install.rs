//! Products come, change and go, all or nothing, on both engines.

mod support;

use emergent_domain::{agent::AgentDefinition, run::RunStatus};
use emergent_executor::StartOptions;
use emergent_products::{Error, plan::Direction};
use emergent_testkit::{
    both_engines,
    scripted::{ScriptedModel, says},
};
use serde_json::{Value, json};
use support::{Shop, sample, shipped, wanted};

fn names(value: &Value) -> Vec<String> {
    value.as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap().to_owned()).collect()
}

both_engines! {
    async fn an_install_brings_everything_and_an_uninstall_takes_it_all_away(db: TestDb) {
        let shop = Shop::open(&db).await;
        shop.own_agent(AgentDefinition::new("mine")).await;
        let before = shop.fingerprint().await;
        let done = shop.install(&sample(1)).await.unwrap();
        assert_eq!(done.plan.direction, Direction::Install);
        let installed = shop.fingerprint().await;
        assert_eq!(names(&installed["agents"]), ["mine", "old-one", "steady", "triage"]);
        assert_eq!(installed["packs"].as_array().unwrap().len(), 2);
        assert_eq!(installed["servers"].as_array().unwrap().len(), 2);
        assert_eq!(installed["prompts"].as_array().unwrap().len(), 2);
        assert_eq!(installed["schedules"].as_array().unwrap().len(), 2);
        assert_eq!(installed["triggers"], json!({ "triage": "on_document_ingested" }));
        assert_eq!(shop.products.list(shop.actor.project).await.unwrap()[0].raw, sample(1), "word by word");
        let gone = shop.uninstall("acme.support").await.unwrap();
        assert_eq!((gone.plan.direction, gone.product), (Direction::Uninstall, None));
        assert_eq!(shop.fingerprint().await, before);
    }

    async fn an_upgrade_changes_everything_and_a_downgrade_changes_it_back(db: TestDb) {
        let shop = Shop::open(&db).await;
        shop.own_agent(AgentDefinition::new("mine")).await;
        shop.install(&sample(1)).await.unwrap();
        let first = shop.fingerprint().await;
        let triage = shop.agent("triage").await;
        let up = shop.upgrade(&sample(2)).await.unwrap();
        assert_eq!(up.plan.direction, Direction::Upgrade);
        let second = shop.fingerprint().await;
        assert_eq!(names(&second["agents"]), ["mine", "new-one", "steady", "triage"]);
        assert_eq!(shop.agent("triage").await.id, triage.id, "the same agent in a new version");
        assert_eq!(shop.agent("steady").await.version, 1, "what stays the same gets no version");
        assert_eq!(up.product.unwrap().revision, 2);
        assert_eq!(shop.upgrade(&sample(1)).await.unwrap().plan.direction, Direction::Downgrade);
        assert_eq!(shop.fingerprint().await, first);
        let again = shop.upgrade(&sample(1)).await.unwrap();
        assert!(again.plan.is_empty(), "{:#?}", again.plan.steps);
        shop.uninstall("acme.support").await.unwrap();
        shop.install(&sample(2)).await.unwrap();
        assert_eq!(shop.fingerprint().await, second, "coming back is like coming");
    }

    async fn a_dry_run_tells_the_same_and_writes_nothing(db: TestDb) {
        let shop = Shop::open(&db).await;
        let before = shop.rows().await;
        let told = shop.products.install(shop.actor, wanted(&sample(1)), true).await.unwrap();
        assert!(told.product.is_none());
        assert_eq!(shop.rows().await, before);
        assert_eq!(shop.install(&sample(1)).await.unwrap().plan, told.plan);
        let (before, first) = (shop.rows().await, shop.fingerprint().await);
        let told = shop.products.upgrade(shop.actor, "acme.support", Some(wanted(&sample(2))), true).await.unwrap();
        assert_eq!(told.product.unwrap().version.to_string(), "1.0.0", "as it is");
        shop.products.uninstall(shop.actor, "acme.support", true).await.unwrap();
        assert_eq!((shop.rows().await, shop.fingerprint().await), (before, first));
        assert_eq!(shop.upgrade(&sample(2)).await.unwrap().plan, told.plan);
    }

    async fn what_stands_against_it_is_told_and_nothing_is_written(db: TestDb) {
        let shop = Shop::open(&db).await;
        shop.own_agent(AgentDefinition::new("old-one")).await;
        let before = shop.rows().await;
        let refused = shop.install(&sample(1)).await;
        assert!(matches!(&refused, Err(Error::Incompatible(problems)) if problems[0].pointer == "/agents/2/name"), "{refused:?}");
        let mut bad = sample(1);
        bad["agents"][0]["tools"][0] = json!("no_such_tool");
        bad["jobs"][1]["agent"] = json!("nobody");
        bad["mcp"]["servers"] = json!([]);
        match shop.install(&bad).await {
            Err(Error::Manifest(problems)) => {
                let places: Vec<_> = problems.iter().map(|one| one.pointer.as_str()).collect();
                assert_eq!(places, ["/agents/0/tools/0", "/jobs/1/agent"]);
            }
            other => panic!("{other:?}"),
        }
        assert_eq!(shop.rows().await, before);
    }

    async fn what_is_not_the_case_is_said(db: TestDb) {
        let shop = Shop::open(&db).await;
        assert!(matches!(shop.uninstall("acme.support").await, Err(Error::NotInstalled(_))));
        assert!(matches!(shop.upgrade(&sample(1)).await, Err(Error::NotInstalled(_))));
        shop.install(&sample(1)).await.unwrap();
        assert!(matches!(shop.install(&sample(2)).await, Err(Error::AlreadyInstalled { .. })));
        let other = shop.products.upgrade(shop.actor, "acme.support", Some(wanted(&shipped("emergent.code"))), false).await;
        assert!(matches!(other, Err(Error::NameMismatch { .. })), "{other:?}");
        let nowhere = shop.products.upgrade(shop.actor, "acme.support", None, false).await;
        assert!(matches!(&nowhere, Err(Error::Source(why)) if why.contains("give a manifest")), "{nowhere:?}");
    }

    async fn a_persons_change_is_overwritten_with_a_warning_and_stays_in_the_history(db: TestDb) {
        let shop = Shop::open(&db).await;
        shop.install(&sample(1)).await.unwrap();
        shop.change("triage", |agent| agent.system_prompt = "Mine.".into()).await;
        let (_, own) = shop.products.get(shop.actor.project, "acme.support").await.unwrap();
        assert_eq!((own.len(), own[0].fields[0].pointer.as_str()), (1, "/system_prompt"));
        let version = shop.agent("triage").await.version;
        let up = shop.upgrade(&sample(2)).await.unwrap();
        assert!(up.plan.warnings.iter().any(|one| one.kind() == "own_change" && one.subject() == "triage"), "{:?}", up.plan.warnings);
        let agent = shop.agent("triage").await;
        assert_eq!(agent.definition.system_prompt, "Version 2.");
        let kept = shop.db().read(move |tx| emergent_store::agents::get_version(tx, agent.id, version)).await;
        let kept: Option<AgentDefinition> = kept.unwrap_or_else(|error: emergent_store::Error| panic!("{error}"));
        assert_eq!(kept.unwrap().system_prompt, "Mine.");
    }

    async fn what_people_set_of_a_server_survives_an_upgrade(db: TestDb) {
        let shop = Shop::open(&db).await;
        shop.install(&sample(1)).await.unwrap();
        shop.switch_off("hub").await;
        shop.upgrade(&sample(2)).await.unwrap();
        let hub = shop.state().await.servers.into_iter().find(|one| one.name() == "hub").unwrap();
        assert!(!hub.enabled && serde_json::to_string(&hub.spec).unwrap().contains("/v2"), "{hub:?}");
    }

    async fn a_run_goes_on_with_the_definition_it_was_admitted_with(db: TestDb) {
        let model = ScriptedModel::new([says("First."), says("Second.")]);
        let shop = Shop::with(&db, Default::default(), model.models()).await;
        let with_model = |version| {
            let mut manifest = sample(version);
            manifest["agents"][0]["model"] = json!({ "provider": "scripted", "name": "lines" });
            manifest
        };
        shop.install(&with_model(1)).await.unwrap();
        let triage = shop.agent("triage").await.id;
        let start = || StartOptions { input: "go".into(), ..StartOptions::default() };
        let waiting = shop.executor.trigger(shop.actor, triage, start()).await.unwrap();
        shop.upgrade(&with_model(2)).await.unwrap();
        let later = shop.executor.trigger(shop.actor, triage, start()).await.unwrap();
        let doomed = shop.uninstall("acme.support").await;
        doomed.unwrap();
        let (stop, stopping) = tokio::sync::watch::channel(false);
        let (executor, runner) = (shop.executor.clone(), shop.executor.clone());
        let runner = tokio::spawn(async move { runner.run(stopping).await });
        for run in [waiting.id, later.id] {
            let mut looked = 0;
            while !executor.get_run(shop.actor.project, run).await.unwrap().status.is_terminal() {
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
        let shop = Shop::open(&db).await;
        shop.builtin("emergent.memory").await.unwrap();
        assert_eq!(shop.default_agent().await.as_deref(), Some("graph-query-agent"));
        shop.builtin("emergent.research").await.unwrap();
        assert_eq!(shop.default_agent().await.as_deref(), Some("research-assistant"));
        shop.uninstall("emergent.research").await.unwrap();
        assert_eq!(shop.default_agent().await.as_deref(), Some("graph-query-agent"));
        shop.uninstall("emergent.memory").await.unwrap();
        assert_eq!(shop.default_agent().await, None);
        shop.builtin("emergent.research").await.unwrap();
        let memory = shop.builtin("emergent.memory").await.unwrap();
        assert!(memory.plan.warnings.iter().any(|one| one.kind() == "default_not_taken"), "{:?}", memory.plan.warnings);
        assert_eq!(shop.default_agent().await.as_deref(), Some("research-assistant"));
    }

    async fn default_agents_are_installed_once(db: TestDb) {
        let shop = Shop::open(&db).await;
        shop.products.install_default_agents(shop.actor).await.unwrap();
        let (first, rows) = (shop.fingerprint().await, shop.rows().await);
        let again = shop.products.install_default_agents(shop.actor).await.unwrap();
        assert!(again.plan.steps.is_empty() && again.product.is_some());
        assert_eq!((shop.fingerprint().await, shop.rows().await), (first, rows));
    }

    async fn of_two_that_install_at_once_one_does(db: TestDb) {
        let shop = Shop::open(&db).await;
        let manifest = sample(1);
        let (one, other) = tokio::join!(shop.install(&manifest), shop.install(&manifest));
        let refused = one.err().xor(other.err());
        assert!(matches!(refused, Some(Error::AlreadyInstalled { .. })), "{refused:?}");
        assert_eq!(shop.state().await.agents.len(), 3);
    }

    async fn a_product_is_of_one_project(db: TestDb) {
        let shop = Shop::open(&db).await;
        let next_door = shop.next_door("other").await;
        shop.install(&sample(1)).await.unwrap();
        assert!(next_door.state().await.agents.is_empty());
        assert!(matches!(next_door.uninstall("acme.support").await, Err(Error::NotInstalled(_))));
        next_door.install(&sample(2)).await.unwrap();
        shop.uninstall("acme.support").await.unwrap();
        assert_eq!(next_door.state().await.agents.len(), 3);
    }

    /// Every agent that may be started by hand, of every product that ships, without a key.
    async fn each_product_can_be_rehearsed(db: TestDb) {
        let shop = Shop::open(&db).await;
        let (stop, stopping) = tokio::sync::watch::channel(false);
        let runner = shop.executor.clone();
        let runner = tokio::spawn(async move { runner.run(stopping).await });
        for (product, agents) in [
            ("emergent.memory", &["entity-extractor", "memory-assistant", "graph-query-agent"][..]),
            ("emergent.research", &["research-assistant", "paper-summarizer"]),
            ("emergent.code", &["spec-writer", "task-planner", "implement-agent", "reviewer-agent"]),
        ] {
            shop.builtin(product).await.unwrap_or_else(|error| panic!("{product}: {error}"));
            let before = shop.rows().await["graph_objects"];
            for agent in agents {
                let start = StartOptions {
                    input: "What is known about Ada Lovelace?".into(),
                    model: Some(format!("rehearsal/{product}").parse().unwrap()),
                    ..StartOptions::default()
                };
                let id = shop.agent(agent).await.id;
                let run = shop.executor.trigger(shop.actor, id, start).await.unwrap().id;
                let ended = loop {
                    let run = shop.executor.get_run(shop.actor.project, run).await.unwrap();
                    if run.status.is_terminal() {
                        break run;
                    }
                    tokio::time::sleep(std::time::Duration::from_millis(10)).await;
                };
                assert_eq!(ended.status, RunStatus::Completed, "{agent}: {ended:?}");
                let timeline = shop.executor.run_events(shop.actor.project, run, 0, 1_000).await.unwrap();
                let failed = timeline.iter().any(|event| format!("{:?}", event.body).contains("is_error: true"));
                assert!(!failed, "{agent}: {timeline:#?}");
            }
            assert!(shop.rows().await["graph_objects"] > before, "{product} wrote nothing to the graph");
        }
        let _ = stop.send(true);
        let _ = runner.await;
    }
}

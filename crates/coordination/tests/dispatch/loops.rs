//! Agents of workflows that repeat themselves. The record of such a run is in the graph, so each step of it changes what
//! some tools return.

use emergent_domain::{
    object::NewObject,
    run::{Reason, Run},
    task::NewTask,
    workflow::{OnFailure, WorkflowSettings},
};
use emergent_testkit::{
    both_engines,
    scripted::{ScriptedModel, calls},
};
use serde_json::{Map, Value, json};

use crate::harness::{House, task};

impl House {
    async fn note(&self, key: &str, text: &str) {
        let properties = Map::from_iter([("text".to_owned(), json!(text))]);
        let note =
            NewObject { type_: "Note".into(), key: Some(key.into()), properties, ..NewObject::default() };
        self.graph().create_object(self.actor(), note).await.unwrap();
    }

    /// Dispatches one task to an agent, and returns its run when the workflow has ended.
    async fn only_run(&self, agent: &str) -> Run {
        let settings = WorkflowSettings { on_failure: OnFailure::Skip, ..WorkflowSettings::default() };
        let only = NewTask { max_retries: Some(0), ..task("look", agent, &[]) };
        let id = self.dispatch_with(settings, vec![only]).await;
        let shown = self.ended(id).await;
        self.dispatcher.executor().get_run(self.project, shown.tasks[0].runs[0]).await.unwrap()
    }
}

/// Plays agents of which each always makes one call, and checks that each is ended.
async fn check_ended(house: &House, tools: &[(&str, Value)]) {
    for (tool, input) in tools {
        let agent = format!("always-{}", tool.replace('_', "-"));
        house.model.add(&agent, (0..12).map(|_| calls(*tool, input.clone())));
        house.agent(&agent, &[tool]).await;
        let run = house.only_run(&agent).await;
        assert_eq!(run.reason, Some(Reason::DoomLoop), "{tool}: {:?} {:?}", run.status, run.error);
        assert!(run.step_count <= 6, "{tool}: {}", run.step_count);
    }
}

both_engines! {
    async fn a_search_that_is_repeated_ends_its_run_although_every_step_changes_the_scores(db: TestDb) {
        let house = House::open(&db, ScriptedModel::default()).await;
        for n in 0..4 {
            house.note(&format!("n{n}"), &format!("alpha and {n} other words")).await;
        }
        let query = || json!({ "query": "alpha" });
        check_ended(&house, &[
            // It comes first: messages of earlier runs would be hits as well.
            ("search_linked", json!({ "query": "alpha", "includeSystem": true })),
            ("search_hybrid", query()),
            ("entities_search", query()),
            ("search_fts", query()),
        ]).await;
        house.close().await;
    }

    async fn a_search_that_is_repeated_ends_its_run_while_others_write(db: TestDb) {
        let house = House::open(&db, ScriptedModel::default()).await;
        house.note("alpha", "alpha").await;
        let (graph, actor) = (house.graph().clone(), house.actor());
        let writing = tokio::spawn(async move {
            for n in 0_u64.. {
                let properties = Map::from_iter([("text".to_owned(), json!(format!("beta {n}")))]);
                let other = NewObject { type_: "Other".into(), properties, ..NewObject::default() };
                graph.create_object(actor, other).await.unwrap();
                tokio::time::sleep(std::time::Duration::from_millis(2)).await;
            }
        });
        check_ended(&house, &[("search_hybrid", json!({ "query": "alpha" }))]).await;
        writing.abort();
        let _ = writing.await;
        house.close().await;
    }

    async fn reads_whose_results_contain_the_record_of_the_run_end_it_as_well(db: TestDb) {
        let house = House::open(&db, ScriptedModel::default()).await;
        house.note("alpha", "alpha").await;
        check_ended(&house, &[
            ("entities_query", json!({})),
            ("relationships_list", json!({})),
            ("project_info", json!({})),
            ("schema_list_types", json!({})),
            ("schema_get_type", json!({ "name": "SessionMessage" })),
            ("runs_get", json!({})),
            ("runs_list", json!({})),
            ("runs_messages", json!({})),
        ]).await;
        house.close().await;
    }

    async fn searches_for_other_words_that_never_find_anything_end_the_run(db: TestDb) {
        let lines = (0..100).map(|n| calls("search_hybrid", json!({ "query": format!("zzqx{n}") })));
        let house = House::open(&db, ScriptedModel::default().agent("guesser", lines)).await;
        house.agent("guesser", &["search_hybrid"]).await;
        let run = house.only_run("guesser").await;
        assert_eq!((run.reason, run.step_count), (Some(Reason::DoomLoop), 63));
        let error = run.error.unwrap();
        assert!(error.contains("60 times in a row without any new result"), "{error}");
        house.close().await;
    }
}

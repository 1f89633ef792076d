//! A run from its start to its end.

mod support;

use emergent_domain::run::RunStatus;
use emergent_testkit::{both, scripted::{Scripted, calls, says}};
use serde_json::json;
use support::{House, agent, with_tools};

both! {
    async fn a_run_answers_and_is_recorded_whole(db: TestDb) {
        let house = House::open(&db, Scripted::new([says("Four.")])).await;
        let agent = house.agent(agent("adder")).await;
        let run = house.run(&agent, "What is two and two?").await;
        assert_eq!(run.status, RunStatus::Completed, "{run:?}");
        assert_eq!(run.summary.as_deref(), Some("Four."));
        assert_eq!(run.step_count, 1);
        let timeline = house.timeline(run.id).await;
        assert_eq!(timeline, "0 system: You are adder.\n1 user: What is two and two?\nstarted\n1 assistant: Four.\nended completed: Four.");
        house.close().await;
    }

    async fn a_tools_writes_are_in_the_graph_with_the_run_that_made_them(db: TestDb) {
        let model = Scripted::new([
            calls("create_entity", json!({ "objects": [{ "type": "Person", "key": "ada", "properties": { "name": "Ada" } }] })),
            calls("entities_query", json!({ "type": "Person" })),
            says("Ada is in."),
        ]);
        let house = House::open(&db, model).await;
        let agent = house.agent(with_tools("writer", &["entities_*"])).await;
        let run = house.run(&agent, "Note Ada.").await;
        let timeline = house.timeline(run.id).await;
        assert_eq!(run.status, RunStatus::Completed, "{timeline}");
        println!("{timeline}");
        assert_eq!(run.step_count, 3);
        house.close().await;
    }
}

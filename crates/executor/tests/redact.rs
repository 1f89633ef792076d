//! What a tool answers is recorded without the secrets it was reached with, and the model sees what
//! is recorded.

mod support;

use emergent_domain::run::RunStatus;
use emergent_testkit::{
    both,
    scripted::{Scripted, calls, says},
};
use emergent_tools::Effect;
use serde_json::json;
use support::{
    House, Plan, assert_ended,
    tools::{EXTERNAL, Probe},
    with_tools,
};

const SECRET: &str = "S3cr3t-\"of the run\"";

both! {
    async fn a_secret_in_an_answer_is_neither_recorded_nor_shown_to_the_model(db: TestDb) {
        let model = Scripted::new([
            calls("whoami", json!({})).and(calls("look", json!({}))),
            says("Done."),
        ]);
        let leak = json!({ "env": { "API_KEY": SECRET }, SECRET: [format!("Bearer {SECRET}")] });
        let plan = Plan::new(model)
            .tool(Probe::new("whoami", EXTERNAL).answers(leak.clone()).build())
            .tool(Probe::new("look", Effect::Reads).answers(json!(leak.to_string())).build());
        let redactor = plan.settings.redactor.clone();
        let house = House::with(&db, plan).await;
        redactor.learn(house.project, "API_KEY", SECRET);
        let agent = house.agent(with_tools("spy", &["whoami", "look"])).await;
        let run = house.run(&agent, "Go.").await;
        assert_ended(&run, RunStatus::Completed, None);

        let told = house.answers(run.id).await;
        let name = "[secret API_KEY]";
        assert_eq!(told[0], json!({ "env": { "API_KEY": name }, name: [format!("Bearer {name}")] }));
        let record = house.timeline(run.id).await;
        assert!(record.matches(name).count() >= 6 && !record.contains("of the run"), "{record}");
        let seen: String = house.model.asked().iter().map(|asked| format!("{:?}", asked.turns)).collect();
        assert!(seen.contains(name) && !seen.contains("of the run"), "{seen}");
        house.close().await;
    }
}

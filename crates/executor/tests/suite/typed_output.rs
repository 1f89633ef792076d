//! Agents with an output schema: the final answer matches it and becomes the output of the run, or the run fails.

use crate::support;

use emergent_domain::{
    agent::{AgentDefinition, FlowConfig, FlowType},
    run::{Reason, Run, RunStatus},
    run_event::RunEventBody,
};
use emergent_executor::{Error, StartOptions};
use emergent_testkit::{
    TestDb, both_engines,
    scripted::{ScriptedModel, ScriptedReply, calls, fails, says},
};
use serde_json::{Value, json};
use support::{Harness, agent, assert_ended, with_tools};

const ADA: &str = r#"{"name": "Ada", "age": 36}"#;

fn person() -> Value {
    json!({
        "type": "object",
        "properties": { "name": { "type": "string" }, "age": { "type": "integer" } },
        "required": ["name", "age"],
        "additionalProperties": false,
    })
}

fn ada() -> Value {
    json!({ "name": "Ada", "age": 36 })
}

fn typed(name: &str) -> AgentDefinition {
    AgentDefinition { output_schema: Some(person()), ..with_tools(name, &["project_info"]) }
}

fn look() -> ScriptedReply {
    calls("project_info", json!({}))
}

async fn play_as(db: &TestDb, definition: AgentDefinition, script: Vec<ScriptedReply>) -> (Run, Harness) {
    let harness = Harness::open(db, ScriptedModel::new(script)).await;
    let agent = harness.agent(definition).await;
    let run = harness.run(&agent, "Who was it?").await;
    (run, harness)
}

async fn play(db: &TestDb, script: Vec<ScriptedReply>) -> (Run, Harness) {
    play_as(db, typed("historian"), script).await
}

/// The output in the event that ends the run.
async fn ended_output(harness: &Harness, run: &Run) -> Option<Value> {
    match harness.events(run.id).await.pop().unwrap().body {
        RunEventBody::Ended { output, .. } => output,
        other => panic!("{other:?}"),
    }
}

both_engines! {
    async fn an_answer_that_matches_is_the_output(db: TestDb) {
        for answer in [ADA.to_owned(), format!("```json\n{ADA}\n```")] {
            let db = TestDb::new(db.engine()).await;
            let (run, harness) = play(&db, vec![look(), says(answer.clone())]).await;
            assert_ended(&run, RunStatus::Completed, None);
            assert_eq!((run.summary, run.output.clone()), (Some(answer), Some(ada())));
            assert_eq!(ended_output(&harness, &harness.ended(run.id).await).await, Some(ada()));
            let request = harness.model.requests().remove(0);
            assert_eq!(request.output_schema, Some(person()), "a provider may hold the model to it");
            assert!(request.system.starts_with("You are historian.\n\n"), "{}", request.system);
            assert!(request.system.contains(&person().to_string()), "every model reads it: {}", request.system);
            let timeline = harness.timeline(run.id).await;
            assert!(timeline.contains(&person().to_string()), "the record has what the model read: {timeline}");
            harness.close().await;
        }
    }

    async fn an_agent_without_a_schema_has_no_output(db: TestDb) {
        let (run, harness) = play_as(&db, agent("plain"), vec![says(ADA)]).await;
        assert_ended(&run, RunStatus::Completed, None);
        assert_eq!(run.output, None);
        let request = harness.model.requests().remove(0);
        assert_eq!((request.output_schema, request.system.as_str()), (None, "You are plain."));
        harness.close().await;
    }

    async fn an_answer_that_does_not_match_is_corrected(db: TestDb) {
        let script = vec![says("It was Ada."), look(), says(r#"{"name": "Ada"}"#), says(ADA)];
        let (run, harness) = play(&db, script).await;
        assert_ended(&run, RunStatus::Completed, None);
        assert_eq!((run.output.clone(), run.step_count), (Some(ada()), 4));
        let asked: Vec<String> = harness.model.requests().iter().map(|request| request.last_text()).collect();
        assert!(asked[1].starts_with("Your answer is not one JSON value: "), "{}", asked[1]);
        assert!(asked[3].starts_with("Your answer does not match the output schema: `age`: is required."), "{}", asked[3]);
        let incomplete = |body| matches!(body, RunEventBody::AnswerIncomplete { reason: Reason::InvalidOutput, .. });
        let events = harness.events(run.id).await;
        assert_eq!(events.into_iter().filter(|event| incomplete(event.body.clone())).count(), 2);
        harness.close().await;
    }

    async fn after_two_corrections_the_run_fails_and_says_what_did_not_match(db: TestDb) {
        let script = vec![says("Ada"), says("Ada."), says(r#"{"name": "Ada", "age": "old"}"#), says(ADA)];
        let (run, harness) = play(&db, script).await;
        assert_ended(&run, RunStatus::Failed, Some(Reason::InvalidOutput));
        let error = run.error.clone().unwrap();
        assert!(error.contains(r#"`age`: "old" is not an integer"#) && error.contains("2 times"), "{error}");
        assert_eq!(run.summary.as_deref(), Some(r#"{"name": "Ada", "age": "old"}"#));
        assert_eq!((run.output.clone(), ended_output(&harness, &run).await), (None, None));
        assert_eq!(harness.model.requests().len(), 3);
        harness.close().await;
    }

    async fn a_correction_is_a_step_and_needs_one(db: TestDb) {
        let short = AgentDefinition { max_steps: Some(1), ..typed("short") };
        let (run, harness) = play_as(&db, short, vec![says("Ada"), says(ADA)]).await;
        assert_ended(&run, RunStatus::Failed, Some(Reason::InvalidOutput));
        assert!(run.error.clone().unwrap().contains("`maxSteps`"), "{:?}", run.error);
        assert_eq!(harness.model.requests().len(), 1);
        harness.close().await;
    }

    async fn a_run_that_ends_at_a_limit_has_no_output(db: TestDb) {
        let short = AgentDefinition { max_steps: Some(1), ..typed("short") };
        let (run, harness) = play_as(&db, short, vec![look(), says(ADA), look(), says(ADA)]).await;
        assert_ended(&run, RunStatus::Paused, Some(Reason::StepLimit));
        assert_eq!((run.summary.as_deref(), run.output.clone()), (Some(ADA), None));
        let summary = harness.model.requests().remove(1);
        assert_eq!(summary.output_schema, None, "a summary is a text");
        harness.close().await;
    }

    async fn a_cut_answer_is_an_output_only_when_it_is_complete(db: TestDb) {
        let (first, second) = ADA.split_at(12);
        let (run, harness) = play(&db, vec![says(first).truncated(), says(second)]).await;
        assert_ended(&run, RunStatus::Completed, None);
        assert_eq!((run.output, run.step_count), (Some(ada()), 1));
        harness.close().await;

        let script = vec![says(first).truncated(), says("That is all."), says(ADA)];
        let second_db = TestDb::new(db.engine()).await;
        let (run, harness) = play(&second_db, script).await;
        assert_ended(&run, RunStatus::Completed, None);
        assert_eq!((run.output, run.summary.as_deref()), (Some(ada()), Some(ADA)), "the parts are not mixed");
        harness.close().await;

        let script = (0..4).map(|_| says(ADA).truncated()).collect();
        let third_db = TestDb::new(db.engine()).await;
        let (run, harness) = play(&third_db, script).await;
        assert_ended(&run, RunStatus::Failed, Some(Reason::Truncated));
        assert_eq!(run.output, None);
        harness.close().await;
    }

    async fn a_provider_that_refuses_the_schema_is_asked_without_it(db: TestDb) {
        let refused = emergent_llm::Error::BadRequest {
            model: ScriptedModel::MODEL.into(), status: 400, message: "unsupported keyword".into(),
        };
        let (run, harness) = play(&db, vec![fails(refused), says("Ada"), says(ADA)]).await;
        assert_ended(&run, RunStatus::Completed, None);
        assert_eq!(run.output, Some(ada()), "the answer is validated in any case");
        let sent: Vec<bool> = harness.model.requests().iter().map(|request| request.output_schema.is_some()).collect();
        assert_eq!(sent, [true, false, false]);
        harness.close().await;
    }

    async fn an_agent_reads_the_output_of_the_agents_that_it_starts(db: TestDb) {
        let spawn = calls("spawn_agents", json!({ "tasks": [{ "agent_name": "historian", "task": "Who?" }, { "agent_name": "plain", "task": "Who?" }] }));
        let model = ScriptedModel::default()
            .agent("parent", [spawn, says("Ada.")])
            .agent("historian", [says(ADA)])
            .agent("plain", [says("Ada")]);
        let harness = Harness::open(&db, model).await;
        harness.agent(typed("historian")).await;
        harness.agent(agent("plain")).await;
        let parent = harness.agent(with_tools("parent", &["spawn_agents"])).await;
        let run = harness.run(&parent, "Go.").await;
        assert_ended(&run, RunStatus::Completed, None);
        let answers = harness.answers(run.id).await;
        assert_eq!((&answers[0][0]["output"], answers[0][1].get("output")), (&ada(), None));
        harness.close().await;
    }

    async fn the_last_part_of_a_flow_is_held_to_the_schema_of_the_flow(db: TestDb) {
        let flow = |output_schema| AgentDefinition {
            output_schema,
            flow_type: FlowType::Sequential,
            flow_config: Some(FlowConfig { agents: vec!["first".into(), "last".into()], ..FlowConfig::default() }),
            ..agent("flow")
        };
        let model = ScriptedModel::default()
            .agent("first", [says("Ada"), says("Ada"), says("Ada")])
            .agent("last", [says("Ada."), says(ADA), says("no"), says("no"), says("no")]);
        let harness = Harness::open(&db, model).await;
        harness.agent(agent("first")).await;
        harness.agent(agent("last")).await;
        let flow = harness.agent(flow(Some(person()))).await;
        let run = harness.run(&flow, "Who?").await;
        assert_ended(&run, RunStatus::Completed, None);
        assert_eq!(run.output, Some(ada()));
        let outputs: Vec<_> = harness.children(run.id).await.into_iter().map(|part| part.output).collect();
        assert_eq!(outputs, [None, Some(ada())]);
        let run = harness.run(&flow, "Who?").await;
        assert_ended(&run, RunStatus::Failed, Some(Reason::InvalidOutput));
        assert_eq!(run.output, None);
        harness.close().await;
    }

    async fn a_start_may_name_a_schema_instead_of_that_of_the_agent(db: TestDb) {
        let harness = Harness::open(&db, ScriptedModel::new([says(ADA), says("[1]")])).await;
        let historian = harness.agent(typed("historian")).await;
        let start = |schema| StartOptions { input: "Go.".into(), output_schema: Some(schema), ..StartOptions::default() };
        let run = harness.run_with(&historian, start(json!({ "type": "array" }))).await;
        assert_ended(&run, RunStatus::Completed, None);
        assert_eq!((run.output, run.step_count), (Some(json!([1])), 2));
        let refused = harness.executor.trigger(harness.actor(), historian.id, start(json!({ "type": "list" }))).await;
        assert!(matches!(&refused, Err(Error::Invalid(invalid)) if invalid.problems[0].field == "outputSchema.type"), "{refused:?}");
        harness.close().await;
    }

    async fn a_resumed_run_is_held_to_the_schema_of_its_start(db: TestDb) {
        let short = AgentDefinition { max_steps: Some(1), ..typed("short") };
        let harness = Harness::open(&db, ScriptedModel::new([look(), says("Half."), says("[1]")])).await;
        let short = harness.agent(short).await;
        let start = StartOptions { input: "Go.".into(), output_schema: Some(json!({ "type": "array" })), ..StartOptions::default() };
        let run = harness.run_with(&short, start).await;
        assert_ended(&run, RunStatus::Paused, Some(Reason::StepLimit));
        let run = harness.resumed(run.id).await;
        assert_ended(&run, RunStatus::Completed, None);
        assert_eq!(run.output, Some(json!([1])));
        harness.close().await;
    }

    async fn any_json_value_can_be_an_output(db: TestDb) {
        for output in [json!(null), json!(7), json!("text"), json!(false), json!([]), json!({ "_value": 1 }), json!({ "ü": [null, 1.5, "\"\n"] })] {
            let any = AgentDefinition { output_schema: Some(json!({})), ..agent("any") };
            let db = TestDb::new(db.engine()).await;
            let (run, harness) = play_as(&db, any, vec![says(output.to_string())]).await;
            assert_ended(&run, RunStatus::Completed, None);
            assert_eq!(run.output, Some(output));
            harness.close().await;
        }
    }
}

//! Runs whose results change only because of what they write again and again.

use crate::support;

use std::sync::atomic::{AtomicUsize, Ordering};

use emergent_domain::run::{Reason, Run, RunStatus};
use emergent_llm::{Models, Script};
use emergent_testkit::{TestDb, both_engines, scripted::ScriptedModel};
use support::{Harness, HarnessOptions, assert_ended, with_tools};

/// Each script has an agent of its own.
static AGENTS: AtomicUsize = AtomicUsize::new(0);

/// Runs an agent whose model is this script.
async fn play(db: &TestDb, script: &str) -> Run {
    let models = Models::default().with_script("script", Script::parse(script).unwrap());
    let options = HarnessOptions { models: Some(models), ..HarnessOptions::new(ScriptedModel::new([])) };
    let harness = Harness::with(db, options).await;
    let name = format!("circler-{}", AGENTS.fetch_add(1, Ordering::Relaxed));
    let mut definition = with_tools(&name, &["entities_*", "project_info"]);
    definition.model = Some("rehearsal/script".parse().unwrap());
    let agent = harness.agent(definition).await;
    let run = harness.run(&agent, "Go.").await;
    harness.close().await;
    run
}

/// A script that changes `change` of `Note/a` back and forth, and reads it with `read` after each change.
fn toggle(first: &str, second: &str, read: &str) -> String {
    format!(
        r#"
rules:
  - when: {{ step: 1 }}
    answer: {{ calls: [{{ tool: entities_create, input: {{ type: Note, key: a, status: new }} }}] }}
  - when: {{ tool_result: entities_update }}
    answer: {{ calls: [{read}] }}
  - when: {{ contains: '{first_shown}' }}
    answer: {{ calls: [{{ tool: entities_update, input: {{ id: Note/a, {second} }} }}] }}
  - when: {{}}
    answer: {{ calls: [{{ tool: entities_update, input: {{ id: Note/a, {first} }} }}] }}
"#,
        first_shown = if first.contains("doing") { "\"doing\"" } else { "\"v\":1" },
    )
}

both_engines! {
    async fn a_state_that_the_run_changes_back_and_forth_is_no_progress(db: TestDb) {
        for read in ["{ tool: entities_get, input: { id: Note/a } }", "{ tool: entities_query, input: { type: Note } }"] {
            for (first, second) in [("status: doing", "status: todo"), ("properties: { v: 1 }", "properties: { v: 2 }")] {
                let run = play(&db, &toggle(first, second, read)).await;
                assert_ended(&run, RunStatus::Failed, Some(Reason::DoomLoop));
                assert!(run.step_count <= 22, "{read}, {first}: {} steps", run.step_count);
            }
        }
    }

    async fn equal_objects_that_the_run_creates_are_no_progress(db: TestDb) {
        for read in ["entities_query, input: { type: Dup }", "project_info, input: {}", "entities_search, input: { query: same, type: Dup }"] {
            let script = format!(r#"
rules:
  - when: {{ tool_result: entities_create }}
    answer: {{ calls: [{{ tool: {read} }}] }}
  - when: {{}}
    answer: {{ calls: [{{ tool: entities_create, input: {{ type: Dup, properties: {{ title: same }} }} }}] }}
"#);
            let run = play(&db, &script).await;
            assert_ended(&run, RunStatus::Failed, Some(Reason::DoomLoop));
            assert!(run.step_count <= 11, "{read}: {} steps", run.step_count);
        }
    }

    async fn a_counter_that_advances_is_read_to_its_end(db: TestDb) {
        let count = (2..=12).map(|step| {
            let (value, write) = (step / 2, step % 2 == 0);
            let call = match write {
                true => format!("{{ tool: entities_update, input: {{ id: Note/a, properties: {{ v: {value} }} }} }}"),
                false => "{ tool: entities_get, input: { id: Note/a } }".to_owned(),
            };
            format!("  - when: {{ step: {step} }}\n    answer: {{ calls: [{call}] }}\n")
        });
        let script = format!(
            "rules:\n  - when: {{ step: 1 }}\n    answer: {{ calls: [{{ tool: entities_create, input: {{ type: Note, key: a }} }}] }}\n{}  - when: {{}}\n    answer: {{ text: Done. }}\n",
            count.collect::<String>()
        );
        let run = play(&db, &script).await;
        assert_ended(&run, RunStatus::Completed, None);
        assert_eq!(run.step_count, 13);
    }
}

//! Scripts, recordings and their replay, through `Models` as a run uses it.

use std::{path::Path, sync::Arc, time::Duration};

use async_trait::async_trait;
use emergent_domain::{
    agent::ModelConfig,
    chat::{Part, StopReason, ToolCall, ToolResult, Turn, Usage},
    ids::{ObjectId, RunId, ToolCallId},
};
use emergent_llm::{
    Answer, ChatRequest, Delta, Error, ModelSettings, Models, Provider, RequestMeta, Script, ToolSpec,
};
use serde_json::{Value, json};
use tokio::time::Instant;

/// A conversation with one agent, as the executor would continue it.
struct Conversation {
    models: Models,
    model: ModelConfig,
    agent: &'static str,
    run: RunId,
    turns: Vec<Turn>,
    tools: Vec<ToolSpec>,
    deltas: Vec<Delta>,
}

impl Conversation {
    fn new(models: &Models, model: &str, agent: &'static str) -> Self {
        let tool = ToolSpec { name: "search".into(), description: "".into(), input_schema: json!({}).into() };
        let model = model.parse().unwrap();
        let (run, turns, deltas) = (RunId::new(), Vec::new(), Vec::new());
        Self { models: models.clone(), model, agent, run, turns, tools: vec![tool], deltas }
    }

    fn play(script: &str) -> Self {
        let models = Models::default().with_script("play", script.parse().unwrap());
        Self::new(&models, "rehearsal/play", "ada")
    }

    fn user(mut self, text: &str) -> Self {
        self.turns.push(Turn::user(text));
        self
    }

    /// Adds the same result for every call of the last turn.
    fn result(&mut self, output: Value) {
        let calls =
            self.turns.last().into_iter().flat_map(|turn| &turn.parts).filter_map(|part| match part {
                Part::Call(call) => Some(call),
                _ => None,
            });
        let results = calls.map(|call| ToolResult {
            id: call.id,
            name: call.name.clone(),
            output: output.clone(),
            is_error: false,
        });
        self.turns.push(Turn::results(results.collect::<Vec<_>>()));
    }

    async fn ask(&mut self) -> Result<Answer, Error> {
        let step = self.turns.iter().filter(|turn| turn.speaker == emergent_domain::chat::Speaker::Assistant);
        let about = RequestMeta { agent: self.agent, step: step.count() as i64 + 1, run: Some(self.run) };
        let request = ChatRequest {
            model: "",
            system: "You are Ada.",
            turns: &self.turns,
            tools: &self.tools,
            temperature: None,
            max_tokens: None,
            output_schema: None,
            cache: None,
            meta: about,
        };
        let deadline = Instant::now() + Duration::from_secs(300);
        let deltas = &mut self.deltas;
        self.models.chat(&self.model, request, deadline, &mut |delta| deltas.push(delta)).await
    }

    /// Calls the model, adds the answer to the conversation, and renders it as one line.
    async fn next(&mut self) -> String {
        let answer = match self.ask().await {
            Ok(answer) => answer,
            Err(error) => return format!("! {error}"),
        };
        let line = line(&answer);
        self.turns.push(Turn::assistant(answer.parts));
        line
    }
}

fn line(answer: &Answer) -> String {
    let words = answer.parts.iter().map(|part| match part {
        Part::Text { text, .. } => text.clone(),
        Part::Thought { text, .. } => format!("({text})"),
        Part::Call(ToolCall { name, input, .. }) => format!("{name}{input}"),
        Part::Result(_) => unreachable!("a model gives no results"),
    });
    words.collect::<Vec<_>>().join(" ")
}

#[tokio::test]
async fn echo_needs_no_file() {
    let mut conversation =
        Conversation::new(&Models::default(), "rehearsal/echo", "anybody").user("Hello there");
    assert_eq!(conversation.next().await, "Hello there");
    assert_eq!(conversation.deltas, [Delta::Text("Hello there".into())]);
}

const RESEARCH: &str = r#"
rules:
  - when: { agent: bob }
    answer: { text: I am Bob. }
  - when: { tool_result: search, contains: nothing }
    answer: { text: "Nothing about {{input}}." }
  - when: { tool_result: search }
    answer: { thought: Good., text: "Found {{result.objects.0.name}}." }
  - when: { step: 1, contains: tagging }
    answer:
      calls: [{ tool: search, input: { query: "{{input}}", limit: 3 } }]
"#;

#[tokio::test]
async fn the_first_rule_that_fits_the_conversation_answers() {
    let mut conversation = Conversation::play(RESEARCH).user("tagging");
    let answer = conversation.ask().await.unwrap();
    assert_eq!((answer.stop, answer.usage.input > 0), (StopReason::ToolCalls, true));
    assert_eq!(conversation.next().await, r#"search{"limit":3,"query":"tagging"}"#);
    conversation.result(json!({ "objects": [{ "name": "folksonomy" }] }));
    assert_eq!(conversation.next().await, "(Good.) Found folksonomy.");

    let mut conversation = Conversation::play(RESEARCH).user("tagging");
    conversation.next().await;
    conversation.result(json!("nothing"));
    assert_eq!(conversation.next().await, "Nothing about tagging.");

    let mut bob = Conversation::play(RESEARCH).user("who are you?");
    bob.agent = "bob";
    assert_eq!(bob.next().await, "I am Bob.");
}

#[tokio::test]
async fn a_request_without_a_rule_fails_loudly() {
    let mut conversation = Conversation::play(RESEARCH).user("cats");
    let answer = conversation.next().await;
    for part in ["rehearsal/play", "agent `ada`", "step 1", "`cats`"] {
        assert!(answer.contains(part), "{answer}");
    }
    let mut conversation = Conversation::play(RESEARCH).user("tagging");
    conversation.next().await;
    conversation.result(json!({ "objects": [] }));
    let answer = conversation.next().await;
    assert!(answer.contains("{{result.objects.0.name}}") && answer.contains("rules[2]"), "{answer}");
}

#[tokio::test]
async fn times_are_counted_in_the_conversation_so_a_recovered_run_goes_on_the_same() {
    let script = "rules:\n  - answer: { text: one }\n    times: 1\n  - when: { turn: 2 }\n    \
                  answer: { text: two }\n  - answer: { text: more }\n    times: 2";
    let mut conversation = Conversation::play(script).user("go");
    let mut answer = Vec::new();
    for _ in 0..5 {
        // A call whose answer is not stored, as before a crash, does not use a rule up.
        let lost = line(&conversation.ask().await.unwrap_or_else(|error| Answer {
            parts: vec![Part::text(format!("! {error}"))],
            usage: Usage::default(),
            stop: StopReason::End,
            response: Default::default(),
        }));
        // Another process has only the stored conversation.
        let stored: Vec<Turn> =
            serde_json::from_value(serde_json::to_value(&conversation.turns).unwrap()).unwrap();
        conversation = Conversation { turns: stored, ..Conversation::play(script) };
        answer.push(conversation.next().await);
        assert_eq!(answer.last(), Some(&lost));
    }
    assert_eq!(answer[..4], ["one", "two", "more", "more"]);
    assert!(answer[4].contains("has no rule for"), "{}", answer[4]);
}

#[tokio::test(start_paused = true)]
async fn faults_pass_after_their_times_and_the_run_gets_its_answer() {
    let script = r#"
rules:
  - { fault: rate_limit, times: 1, retry_after_ms: 7000 }
  - { fault: overloaded, times: 1 }
  - { fault: cut, times: 1, answer: { text: whole } }
  - { fault: silence, times: 1 }
  - answer: { text: whole }
"#;
    let mut conversation = Conversation::play(script).user("go");
    let start = Instant::now();
    assert_eq!(conversation.next().await, "whole");
    assert!((67..90).contains(&start.elapsed().as_secs()), "{:?}", start.elapsed());
    let why = "`rehearsal/play` is not available: the answer was cut off".to_owned();
    let deltas = [Delta::Text("who".into()), Delta::Restart { why }, Delta::Text("whole".into())];
    conversation.deltas.retain(|delta| !matches!(delta, Delta::Retry(_)));
    assert_eq!(conversation.deltas, deltas);
    let answer = Conversation::play("rules: [{ fault: auth }]").user("go").next().await;
    assert!(answer.contains("refused the credentials"), "{answer}");
}

#[tokio::test(start_paused = true)]
async fn delays_and_words_one_by_one() {
    let script = "delay_ms: 500\nchunk_delay_ms: 100\nrules: [{ answer: { text: one two three } }]";
    let mut conversation = Conversation::play(script).user("go");
    let start = Instant::now();
    assert_eq!(conversation.next().await, "one two three");
    let words = ["one ", "two ", "three"].map(|word| Delta::Text(word.into()));
    assert_eq!((conversation.deltas.as_slice(), start.elapsed().as_millis()), (&words[..], 700));
}

fn in_folder(folder: &Path) -> Models {
    let folder = Some(folder.to_str().unwrap().to_owned());
    let settings = ModelSettings {
        rehearsals: folder.clone(),
        recordings: folder,
        openai_api_key: Some("sk-very-secret".into()),
        ..ModelSettings::default()
    };
    Models::from_settings(&settings).unwrap()
}

#[tokio::test]
async fn scripts_are_files_and_a_missing_or_broken_one_shows_when_it_is_chosen() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("demo.yml"), "rules: [{ answer: { text: from a file } }]").unwrap();
    std::fs::write(folder.path().join("broken.yaml"), "rules: [{ anwser: {} }]").unwrap();
    let models = in_folder(folder.path());
    assert_eq!(Conversation::new(&models, "rehearsal/demo", "ada").user("go").next().await, "from a file");
    let why = |name: &str| models.choose(Some(&name.parse().unwrap())).unwrap_err().to_string();
    let unknown = why("rehearsal/dmo");
    assert!(
        unknown.contains("`dmo.yaml`") && !unknown.contains("broken"),
        "other scripts are not told: {unknown}"
    );
    assert!(why("rehearsal/broken").contains("anwser"));
    assert!(why("rehearsal/../demo").contains("cannot be the name of a file"));
    assert!(why("replay/nothing").contains("no recording"));
    for missing in ["replay/nothing", "replay/all"] {
        let told = why(missing);
        assert!(
            told.contains("EMERGENT_RECORDINGS") && told.contains("`record/<provider>/<name>`"),
            "{told}"
        );
    }
}

/// Behaves like a real model: searches, then mentions the id it found. Its own ids are new each time.
struct RealModel;

#[async_trait]
impl Provider for RealModel {
    fn name(&self) -> &str {
        "real"
    }

    async fn chat(
        &self,
        request: ChatRequest<'_>,
        _: &mut (dyn FnMut(Delta) + Send),
    ) -> Result<Answer, Error> {
        let found = request.turns.last().unwrap().parts.iter().find_map(|part| match part {
            Part::Result(result) => result.output["id"].as_str(),
            _ => None,
        });
        let parts = match found {
            None => vec![Part::Call(ToolCall {
                id: ToolCallId::new(),
                name: "search".into(),
                input: json!({ "query": "x" }),
                provider: Some(json!({ "signature": "opaque" })),
            })],
            Some(id) => vec![Part::text(format!("It is {id}; the key is sk-very-secret."))],
        };
        Ok(Answer {
            parts,
            usage: Usage { input: 7, ..Usage::default() },
            stop: StopReason::End,
            response: Default::default(),
        })
    }
}

/// Makes one run with a new object. Returns the answers and the id of the object.
async fn run(models: &Models, model: &str) -> (Vec<String>, String) {
    let mut conversation = Conversation::new(models, model, "ada").user("find it");
    let id = ObjectId::new().to_string();
    let first = conversation.next().await;
    conversation.result(
        json!({ "id": id, "at": format!("2026-01-01T00:00:00.{}Z", RunId::new().0.as_u128() % 999) }),
    );
    let second = conversation.next().await;
    (vec![first, second], id)
}

#[tokio::test]
async fn what_was_recorded_plays_back_with_the_new_runs_ids() {
    let folder = tempfile::tempdir().unwrap();
    let models = in_folder(folder.path()).with_provider(Arc::new(RealModel));
    models.choose(Some(&"record/real/m".parse().unwrap())).unwrap();
    let (recorded, old) = run(&models, "record/real/m").await;
    assert!(recorded[1].contains(&old));

    for name in ["replay/ada", "replay/all"] {
        let (played, new) = run(&in_folder(folder.path()), name).await;
        assert_ne!(new, old);
        assert_eq!(played[0], recorded[0]);
        assert_eq!(played[1], format!("It is {new}; the key is [secret]."));
    }
}

#[tokio::test]
async fn a_recording_holds_no_secret_and_nothing_of_the_request() {
    let folder = tempfile::tempdir().unwrap();
    let models = in_folder(folder.path()).with_provider(Arc::new(RealModel));
    let (_, id) = run(&models, "record/real/m").await;
    let text = std::fs::read_to_string(folder.path().join("ada.jsonl")).unwrap();
    assert_eq!(text.lines().count(), 2);
    for hidden in ["sk-very-secret", "You are Ada", "find it", "opaque", &id] {
        assert!(!text.contains(hidden), "{hidden}: {text}");
    }
}

#[tokio::test]
async fn a_request_that_was_not_recorded_says_how_it_differs() {
    let folder = tempfile::tempdir().unwrap();
    let models = in_folder(folder.path()).with_provider(Arc::new(RealModel));
    run(&models, "record/real/m").await;

    let answer = Conversation::new(&models, "replay/ada", "ada").user("find another").next().await;
    assert!(answer.contains("agent `ada`, step 1") && answer.contains("in its conversation"), "{answer}");
    let mut conversation = Conversation::new(&models, "replay/ada", "ada").user("find it");
    conversation.tools.clear();
    let answer = conversation.next().await;
    assert!(answer.contains("in its tools;"), "{answer}");
    let answer = Conversation::new(&models, "replay/ada", "bob").user("new").next().await;
    assert!(answer.contains("nothing was recorded for this agent"), "{answer}");
}

#[test]
fn scripts_can_be_added_while_handles_are_around() {
    let models = Models::default();
    let handle = models.clone();
    models.add_script("late", Script::default());
    assert!(handle.choose(Some(&"rehearsal/late".parse().unwrap())).is_ok());
}

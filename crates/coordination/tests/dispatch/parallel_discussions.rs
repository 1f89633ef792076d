//! Discussions beside one another, beside the review that a task wants, and of an attempt before.

use emergent_domain::{
    agent::AgentDefinition,
    approval::{ApprovalStatus, Choice, NewDecision},
    task::{NewTask, VerdictKind},
    workflow::WorkflowStatus,
};
use emergent_testkit::{
    both_engines,
    scripted::{ModelRequest, ScriptedModel, ScriptedReply, calls, replies, says},
};
use serde_json::{Value, json};

use crate::harness::{House, task, text};

fn discuss(topic: &str, who: Value) -> ScriptedReply {
    calls("discussions_start", json!({ "topic": topic, "participants": who, "options": ["yes", "no"] }))
}

fn verdict(word: &str) -> ScriptedReply {
    calls(
        "submit_verdict",
        json!({ "verdict": word, "issues": ["it does not start"], "summary": "as found" }),
    )
}

/// One who is for it, whatever it is asked.
fn agrees() -> impl Iterator<Item = ScriptedReply> {
    let answer = |asked: &ModelRequest| {
        let votes = asked.tools.iter().any(|tool| tool == "submit_vote") && asked.turns.len() == 1;
        match votes {
            true => calls("submit_vote", json!({ "option": "yes", "confidence": 0.9, "reason": "why not" })),
            false => says("I say yes."),
        }
    };
    (0..12).map(move |_| replies(answer))
}

impl House {
    /// An agent whose model nobody serves: no run of it can be started.
    async fn unserved(&self, name: &str) {
        let model = "nobody/serves-this".parse().ok();
        let definition = AgentDefinition { model, ..AgentDefinition::new(name) };
        self.dispatcher.executor().create_agent(self.actor(), definition).await.unwrap();
    }
}

both_engines! {
    async fn one_who_speaks_in_a_discussion_starts_another_and_both_are_held(db: TestDb) {
        let model = ScriptedModel::default()
            .agent("lead", [discuss("First?", json!(["one", "two"])), says("I leave that to the others.")])
            .agent("one", [discuss("Second?", json!(["two", "three"]))].into_iter().chain(agrees()))
            .agent("two", agrees())
            .agent("three", agrees());
        let house = House::open(&db, model).await;
        house.agent("lead", &["discussions_start"]).await;
        house.agent("one", &["discussions_start"]).await;
        house.agents(&["two", "three"]).await;
        let id = house.dispatch(vec![task("choose", "lead", &[])]).await;
        let shown = house.completed(id).await;
        let choose = &shown.tasks[0];
        let discussions = house.beyond(choose.task.id, "spawned_discussion").await;
        let of: Vec<_> = discussions.iter().map(|one| (text(one, "topic"), text(one, "status"))).collect();
        assert_eq!(of, [("First?".into(), "resolved".into()), ("Second?".into(), "resolved".to_owned())]);
        assert!(discussions.iter().all(|one| text(one, "run_id") == choose.runs[0].to_string()));
        assert_eq!(house.model.open(), 0, "nobody speaks any more");
        house.close().await;
    }

    async fn what_its_agent_had_discussed_is_reviewed_with_the_rest(db: TestDb) {
        let model = ScriptedModel::default()
            .agent("writer", [discuss("With a type?", json!(["one", "two"])), says("A Tag with a name.")])
            .agent("one", agrees())
            .agent("two", agrees())
            .agent("researcher", [says("APPROVED. Looks complete.")]);
        let house = House::open(&db, model).await;
        house.agent("writer", &["discussions_start"]).await;
        house.agents(&["one", "two", "researcher"]).await;
        let wants = NewTask {
            requires_collaboration: true,
            collaborators: vec!["researcher".into()],
            ..task("design", "writer", &[])
        };
        let id = house.dispatch(vec![wants]).await;
        let shown = house.completed(id).await;
        let discussions = house.beyond(shown.tasks[0].task.id, "spawned_discussion").await;
        let kinds: Vec<_> = discussions.iter().map(|one| text(one, "discussion_type")).collect();
        assert_eq!(kinds, ["consensus", "review_loop"]);
        let asked = house.model.requests_of("researcher")[0].turns[0].text();
        assert!(asked.contains("A Tag with a name.") && asked.contains("Decided in a discussion of it"), "{asked}");
        let output = shown.tasks[0].task.output.clone().unwrap().to_string();
        assert_eq!(output.matches("Decided in a discussion of it").count(), 1, "{output}");
        house.close().await;
    }

    async fn one_who_cannot_be_asked_abstains_and_holds_up_no_other_discussion(db: TestDb) {
        let model = ScriptedModel::default()
            .agent("lead", [
                discuss("First?", json!(["one", "two", "mute"])).and(discuss("Second?", json!(["one", "two"]))),
                says("I leave both to the others."),
            ])
            .agent("one", agrees())
            .agent("two", agrees());
        let house = House::open(&db, model).await;
        house.agent("lead", &["discussions_start"]).await;
        house.agents(&["one", "two"]).await;
        house.unserved("mute").await;
        let id = house.dispatch(vec![task("choose", "lead", &[])]).await;
        let shown = house.completed(id).await;
        let discussions = house.beyond(shown.tasks[0].task.id, "spawned_discussion").await;
        for discussion in &discussions {
            assert_eq!(text(discussion, "status"), "resolved", "{}", text(discussion, "topic"));
        }
        let absent = discussions[0].properties.to_map()["absent"].clone();
        assert_eq!((absent[0]["place"].clone(), absent[0]["agent"].clone()), (json!(2), json!("mute")), "{absent}");
        assert_eq!(absent.as_array().unwrap().len(), 1, "asked no more: {absent}");
        house.close().await;
    }

    async fn a_person_is_told_why_too_few_could_be_asked(db: TestDb) {
        let model = ScriptedModel::default()
            .agent("lead", [discuss("First?", json!(["one", "mute"])), says("I leave it to the others.")])
            .agent("one", agrees());
        let house = House::open(&db, model).await;
        house.agent("lead", &["discussions_start"]).await;
        house.agents(&["one"]).await;
        house.unserved("mute").await;
        let id = house.dispatch(vec![task("choose", "lead", &[])]).await;
        let shown = house.ended(id).await;
        assert_eq!(shown.workflow.status, WorkflowStatus::Escalated);
        let discussion = shown.workflow.escalation.unwrap().discussion.unwrap();
        let told = house.dispatcher.discussion(house.project, discussion).await.unwrap();
        let escalation = text(&told.discussion, "escalation");
        assert!(escalation.contains("`mute` was not asked: ") && escalation.contains("nobody/"), "{escalation}");
        house.dispatcher.decide(house.actor(), discussion, json!("yes"), None).await.unwrap();
        house.completed(id).await;
        house.close().await;
    }

    async fn each_of_two_discussions_without_a_decision_can_be_denied(db: TestDb) {
        let model = ScriptedModel::default()
            .agent("lead", [
                discuss("First?", json!(["one", "mute"])).and(discuss("Second?", json!(["one", "mute"]))),
                says("I leave both to the others."),
            ])
            .agent("one", agrees());
        let house = House::open(&db, model).await;
        house.agent("lead", &["discussions_start"]).await;
        house.agents(&["one"]).await;
        house.unserved("mute").await;
        let id = house.dispatch(vec![task("choose", "lead", &[])]).await;
        let shown = house.ended(id).await;
        let named = shown.workflow.escalation.unwrap().discussion.unwrap();
        let discussions = house.beyond(shown.tasks[0].task.id, "spawned_discussion").await;
        let statuses: Vec<_> = discussions.iter().map(|one| text(one, "status")).collect();
        assert_eq!(statuses, ["escalated", "escalated"]);
        let other = discussions.iter().find(|one| one.id != named).unwrap().id;
        let denied =
            NewDecision { choice: Choice::Deny, edited_input: None, answer: None, reason: None, digest: None };
        let item = house.dispatcher.decide_inbox_item(house.actor(), other.0, denied).await.unwrap().item;
        assert_eq!(item.status, ApprovalStatus::Decided);
        assert_eq!(house.ended(id).await.workflow.status, WorkflowStatus::Cancelled);
        let first = house.dispatcher.inbox_item(house.project, named.0).await.unwrap().item;
        assert_eq!((first.status, first.decision), (ApprovalStatus::Withdrawn, None), "nobody decided it");
        house.close().await;
    }

    async fn what_was_discussed_in_an_attempt_before_is_told_to_nobody(db: TestDb) {
        let model = ScriptedModel::default()
            .agent("lead", [discuss("First?", json!(["one", "two"])), says("Built it."), says("Built it anew.")])
            .agent("one", agrees())
            .agent("two", agrees())
            .agent("tester", [verdict("FAIL"), says("No."), verdict("PASS"), says("Yes.")]);
        let house = House::open(&db, model).await;
        house.agent("lead", &["discussions_start"]).await;
        house.agents(&["one", "two", "tester"]).await;
        let test = NewTask { verdict: VerdictKind::Test, ..task("test", "tester", &["build"]) };
        let id = house.dispatch(vec![task("build", "lead", &[]), test]).await;
        let shown = house.completed(id).await;
        let test = shown.tasks.iter().find(|one| one.task.key == "test").unwrap();
        let (first, second) = (house.prompt(test.runs[0]).await, house.prompt(test.runs[1]).await);
        assert!(first.contains("First?"), "{first}");
        assert!(second.contains("Built it anew.") && !second.contains("First?"), "{second}");
        house.close().await;
    }

    async fn a_verdict_handed_in_with_the_last_step_counts_when_the_run_goes_on(db: TestDb) {
        let model = ScriptedModel::default()
            .agent("builder", [says("Built it.")])
            .agent("tester", [verdict("PASS"), says("That is how far I got."), says("Done.")]);
        let house = House::open(&db, model).await;
        house.agents(&["builder"]).await;
        let tester = AgentDefinition {
            model: ScriptedModel::MODEL.parse().ok(),
            max_steps: Some(1),
            ..AgentDefinition::new("tester")
        };
        house.dispatcher.executor().create_agent(house.actor(), tester).await.unwrap();
        let test = NewTask { verdict: VerdictKind::Test, ..task("test", "tester", &["build"]) };
        let id = house.dispatch(vec![task("build", "builder", &[]), test]).await;
        let shown = house.completed(id).await;
        let test = shown.tasks.iter().find(|one| one.task.key == "test").unwrap();
        assert_eq!(test.runs.len(), 2, "its run met a limit, and went on");
        let events = house.events(id).await;
        assert!(!events.iter().any(|event| event.kind == "task_asked_again"), "it is asked nothing twice");
        let sessions = house.beyond(test.task.id, "has_session").await;
        assert_eq!(text(&house.beyond(sessions[1].id, "has_result").await[0], "verdict"), "PASS");
        house.close().await;
    }
}

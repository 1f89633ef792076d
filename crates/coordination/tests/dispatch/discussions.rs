//! Tasks that others have a say in.

use std::time::Duration;

use emergent_coordination::create::NewWorkflow;
use emergent_domain::{
    agent::AgentDefinition,
    approval::{Choice, NewDecision},
    coordination::{DiscussionDefaults, DiscussionPhase},
    object::Object,
    project::ProjectPatch,
    run::RunStatus,
    task::{NewTask, TaskStatus},
    workflow::{WorkflowSettings, WorkflowStatus},
};
use emergent_testkit::{
    both_engines,
    scripted::{ModelRequest, ScriptedModel, ScriptedReply, calls, fails, hangs, replies, says},
};
use serde_json::json;

use crate::harness::{House, task, text};

fn design() -> Vec<NewTask> {
    vec![NewTask {
        requires_collaboration: true,
        collaborators: vec!["researcher".into()],
        ..task("design", "writer", &[])
    }]
}

fn vote(option: &str) -> ScriptedReply {
    calls("submit_vote", json!({ "option": option, "confidence": 0.9, "reason": "it is simpler" }))
}

both_engines! {
    async fn a_quorum_that_the_named_agents_cannot_reach_is_refused_by_its_field(db: TestDb) {
        let house = House::open(&db, ScriptedModel::default()).await;
        house.agents(&["writer", "researcher", "other"]).await;
        let with_quorum = |quorum: usize| {
            let mut tasks = design();
            tasks[0].discussion.quorum = Some(quorum);
            NewWorkflow { description: "all of it".into(), settings: WorkflowSettings::default(), tasks }
        };
        let refused = house.dispatcher.dispatch(house.actor(), with_quorum(3)).await.unwrap_err().to_string();
        assert!(refused.contains("tasks[0].discussion.quorum") && refused.contains("at most 2 agents"), "{refused}");
        let mut alone = design().remove(0);
        alone.discussion.quorum = Some(3);
        let refused = house.dispatcher.add_task(house.actor(), None, alone).await.unwrap_err().to_string();
        assert!(refused.contains("discussion.quorum"), "{refused}");
        house.dispatcher.dry_run_dispatch(house.actor(), with_quorum(2)).await.unwrap();
        house.close().await;
    }

    async fn a_threshold_is_refused_where_the_review_has_none(db: TestDb) {
        let house = House::open(&db, ScriptedModel::default()).await;
        house.agents(&["writer", "researcher", "other"]).await;
        let with = |kind: Option<&str>| {
            let mut tasks = design();
            tasks[0].discussion.threshold = Some(0.9);
            tasks[0].discussion.kind = kind.map(str::to_owned);
            NewWorkflow { description: "all of it".into(), settings: WorkflowSettings::default(), tasks }
        };
        let dry_run = async |kind: Option<&str>| house.dispatcher.dry_run_dispatch(house.actor(), with(kind)).await;
        for kind in [None, Some("review_loop"), Some("debate")] {
            let refused = dry_run(kind).await.unwrap_err().to_string();
            assert!(refused.contains("tasks[0].discussion.threshold"), "{refused}");
            assert!(refused.contains("is only for the kinds `consensus` and `collaboration`"), "{refused}");
            let mut alone = with(kind).tasks.remove(0);
            alone.blocked_by.clear();
            let refused = house.dispatcher.add_task(house.actor(), None, alone).await.unwrap_err().to_string();
            assert!(refused.contains("`discussion.threshold`"), "{refused}");
        }
        dry_run(Some("consensus")).await.unwrap();
        let change = async |discussions| {
            let patch = ProjectPatch { discussions: Some(discussions), ..ProjectPatch::default() };
            house.graph().update_project(house.project, patch).await
        };
        let of_kind = |kind: Option<&str>| DiscussionDefaults {
            kind: kind.map(str::to_owned), threshold: Some(0.9), ..DiscussionDefaults::default()
        };
        let refused = change(of_kind(Some("brainstorm"))).await.unwrap_err().to_string();
        assert!(refused.contains("discussions.threshold"), "{refused}");
        // The project's is for the discussions that have one.
        change(of_kind(None)).await.unwrap();
        house.dispatcher.dry_run_dispatch(house.actor(), NewWorkflow { tasks: design(), ..with(None) }).await.unwrap();
        change(of_kind(Some("consensus"))).await.unwrap();
        dry_run(None).await.unwrap();
        house.close().await;
    }

    async fn a_quorum_of_the_project_that_is_lowered_is_said_when_the_discussion_starts(db: TestDb) {
        let model = ScriptedModel::default().agent("writer", [says("A Tag.")]).agent("researcher", [says("APPROVED.")]);
        let house = House::open(&db, model).await;
        house.agents(&["writer", "researcher"]).await;
        let discussions = DiscussionDefaults { quorum: Some(9), ..DiscussionDefaults::default() };
        let patch = ProjectPatch { discussions: Some(discussions), ..ProjectPatch::default() };
        house.graph().update_project(house.project, patch).await.unwrap();
        let id = house.dispatch(design()).await;
        house.completed(id).await;
        let events = house.events(id).await;
        let started = events.iter().find(|event| event.kind == "discussion_started").unwrap();
        assert_eq!(started.data["note"], "the quorum of 9 is lowered to 2, because only 2 agents take part");
        house.close().await;
    }

    async fn a_required_review_is_held_by_an_agent_that_nothing_points_to(db: TestDb) {
        let model = ScriptedModel::default().agent("writer", [says("Paid.")]).agent("lawyer", [says("APPROVED.")]);
        let house = House::open(&db, model).await;
        house.agents(&["writer", "lawyer"]).await;
        let pay = NewTask { requires_collaboration: true, ..task("pay", "writer", &[]) };
        let id = house.dispatch(vec![pay]).await;
        let shown = house.completed(id).await;
        let discussions = house.beyond(shown.tasks[0].task.id, "spawned_discussion").await;
        assert_eq!(discussions.len(), 1);
        assert_eq!(discussions[0].properties.to_map()["participating_agents"], json!(["writer", "lawyer"]));
        house.close().await;
    }

    async fn a_required_review_that_no_other_agent_can_do_waits_for_a_person(db: TestDb) {
        let model = ScriptedModel::default().agent("writer", [says("Paid.")]);
        let house = House::open(&db, model).await;
        house.agents(&["writer"]).await;
        let pay = || vec![NewTask { requires_collaboration: true, ..task("pay", "writer", &[]) }];
        let workflow = NewWorkflow {
            description: "pay".into(),
            settings: WorkflowSettings::default(),
            tasks: pay(),
        };
        let dry_run = house.dispatcher.dry_run_dispatch(house.actor(), workflow).await.unwrap();
        let note = dry_run.layers[0][0].review_note.clone().expect("nobody can review it");
        assert!(note.contains("a person decides"), "{note}");
        let id = house.dispatch(pay()).await;
        let shown = house.ended(id).await;
        assert_eq!(shown.workflow.status, WorkflowStatus::Escalated);
        assert_eq!(shown.tasks[0].task.status, TaskStatus::InProgress, "nobody has approved of its result");
        let events = house.events(id).await;
        let started = events.iter().find(|event| event.kind == "discussion_started").unwrap();
        assert_eq!(started.data["note"], note.as_str());
        let discussion = shown.workflow.escalation.unwrap().discussion.unwrap();
        house.dispatcher.decide(house.actor(), discussion, json!("Paid."), None).await.unwrap();
        let shown = house.completed(id).await;
        assert_eq!(shown.tasks[0].task.output, Some(json!("Paid.")));
        house.close().await;
    }

    async fn a_proposal_is_discussed_until_it_is_approved(db: TestDb) {
        let model = ScriptedModel::default()
            .agent("writer", [says("A Tag with a name."), says("A Tag with a name and a tag_type.")])
            .agent("researcher", [says("SUGGEST_CHANGES: add tag_type."), says("APPROVED. Looks complete.")]);
        let house = House::open(&db, model).await;
        house.agents(&["writer", "researcher"]).await;
        let id = house.dispatch(design()).await;
        let shown = house.completed(id).await;
        let design = &shown.tasks[0];
        assert_eq!(design.task.output, Some(json!("A Tag with a name and a tag_type.")));
        assert_eq!(design.runs.len(), 1, "the attempt is one run; the turns are the discussion's");
        let discussions = house.beyond(design.task.id, "spawned_discussion").await;
        assert_eq!(discussions.len(), 1);
        assert_eq!(text(&discussions[0], "status"), "resolved");
        assert_eq!(discussions[0].properties.to_map()["consensus_level"], json!(1.0));
        let entries = house.beyond(discussions[0].id, "has_entry").await;
        let said: Vec<(String, String)> =
            entries.iter().map(|entry| (text(entry, "agent_name"), text(entry, "content"))).collect();
        assert_eq!(said.len(), 4, "{said:?}");
        assert_eq!(said[1], ("researcher".into(), "SUGGEST_CHANGES: add tag_type.".into()));
        assert_eq!(said[3].0, "researcher");
        let feedback = house.model.requests_of("researcher");
        assert!(feedback[0].turns[0].text().contains("A Tag with a name."));
        house.close().await;
    }

    async fn a_discussion_without_an_end_waits_for_a_person_who_decides(db: TestDb) {
        let writer: Vec<_> = (0..4).map(|at| says(format!("Proposal {at}."))).collect();
        let researcher: Vec<_> = (0..4).map(|_| says("SUGGEST_CHANGES: not like that.")).collect();
        let model = ScriptedModel::default().agent("writer", writer).agent("researcher", researcher);
        let house = House::open(&db, model).await;
        house.agents(&["writer", "researcher"]).await;
        let id = house.dispatch(design()).await;
        let shown = house.ended(id).await;
        assert_eq!(shown.workflow.status, WorkflowStatus::Escalated);
        let escalation = shown.workflow.escalation.unwrap();
        assert_eq!(escalation.options, ["decide", "cancel"]);
        assert!(escalation.reason.contains("did not come to an end by itself: "), "{}", escalation.reason);
        let discussion = escalation.discussion.unwrap();
        assert_eq!(shown.tasks[0].task.status, TaskStatus::InProgress, "its task waits");
        let session = house.beyond(shown.tasks[0].task.id, "has_session").await.remove(0);
        assert_eq!(text(&session, "status"), "completed", "its run has ended");
        assert_eq!(session.properties.to_map()["message_count"], 3);
        house.dispatcher
            .decide(house.actor(), discussion, json!("Take the second proposal."), Some("it is simpler".into()))
            .await
            .unwrap();
        let shown = house.completed(id).await;
        let output = shown.tasks[0].task.output.clone().unwrap().to_string();
        assert!(output.contains("Take the second proposal."), "{output}");
        house.close().await;
    }

    async fn a_result_that_a_person_wants_to_be_changed_goes_back_to_its_agent_and_is_reviewed_again(db: TestDb) {
        let model = ScriptedModel::default()
            .agent("writer", [says("First."), says("Second."), says("Third.")])
            .agent("researcher", [says("SUGGEST_CHANGES: no dates."), says("APPROVED.")]);
        let house = House::open(&db, model).await;
        house.agents(&["writer", "researcher"]).await;
        let mut tasks = design();
        tasks[0].discussion.rounds = Some(1);
        tasks[0].max_retries = Some(0);
        let id = house.dispatch(tasks).await;
        let discussion = house.ended(id).await.workflow.escalation.unwrap().discussion.unwrap();
        let offered = house.dispatcher.inbox_item(house.project, discussion.0).await.unwrap().options;
        assert_eq!(offered, ["accept the last proposal", "SUGGEST_CHANGES"]);
        let slip = house.dispatcher.decide(house.actor(), discussion, json!("SUGGEST_CHANGE"), None).await;
        let slip = slip.unwrap_err().to_string();
        assert!(slip.contains("`decision`: is nearly the option `SUGGEST_CHANGES`"), "{slip}");
        let answer = Some(json!("SUGGEST_CHANGES: add the dates"));
        let new = NewDecision { choice: Choice::Answer, edited_input: None, answer, reason: None, digest: None };
        let slip = house.dispatcher.decide_inbox_item(house.actor(), discussion.0, new).await.unwrap_err().to_string();
        assert!(slip.contains("`answer`: is nearly the option `SUGGEST_CHANGES`"), "{slip}");
        let decision = json!("suggest changes");
        house.dispatcher.decide(house.actor(), discussion, decision, Some("add the dates".into())).await.unwrap();
        let shown = house.completed(id).await;
        let design = &shown.tasks[0];
        assert_eq!(design.task.output, Some(json!("Third.")));
        assert_eq!((design.task.retry_count, design.runs.len()), (0, 2), "it has no retries, and used none");
        let told = house.model.requests_of("writer")[2].turns[0].text();
        for part in ["SUGGEST_CHANGES: add the dates", "- researcher: SUGGEST_CHANGES: no dates.", "What it said: Second."] {
            assert!(told.contains(part), "{part}: {told}");
        }
        let events = house.events(id).await;
        let retried: Vec<_> = events.iter().filter(|event| event.kind == "task_retried").collect();
        assert_eq!(retried.len(), 1);
        assert_eq!(retried[0].data["reason"], "a person decided its review with SUGGEST_CHANGES: add the dates");
        assert_eq!(retried[0].data["by"], "person");
        let discussions = house.beyond(design.task.id, "spawned_discussion").await;
        let statuses: Vec<_> = discussions.iter().map(|one| text(one, "status")).collect();
        assert_eq!(statuses, ["resolved", "resolved"]);
        house.close().await;
    }

    async fn a_decision_that_is_none_of_the_options_is_refused_by_its_field(db: TestDb) {
        let ask = json!({ "topic": "Rows or a list?", "participants": ["one", "two"], "options": ["rows", "list"] });
        let model = ScriptedModel::default()
            .agent("lead", [calls("discussions_start", ask), says("I leave that to the others.")])
            .agent("one", [says("Rows."), vote("rows"), says("Voted.")])
            .agent("two", [says("A list."), vote("list"), says("Voted.")]);
        let house = House::open(&db, model).await;
        house.agent("lead", &["discussions_start"]).await;
        house.agents(&["one", "two"]).await;
        let id = house.dispatch(vec![task("choose", "lead", &[])]).await;
        let discussion = house.ended(id).await.workflow.escalation.unwrap().discussion.unwrap();
        let inbox = |answer: &str| {
            let (choice, answer) = (Choice::Answer, Some(json!(answer)));
            let new = NewDecision { choice, edited_input: None, answer, reason: None, digest: None };
            house.dispatcher.decide_inbox_item(house.actor(), discussion.0, new)
        };
        let refused = inbox("BLAH").await.unwrap_err().to_string();
        assert!(refused.contains("`answer`: must be one of `") && refused.contains("`rows`"), "{refused}");
        for decision in [json!("columns"), json!({ "text": "columns" }), json!({ "other": 1 })] {
            let refused = house.dispatcher.decide(house.actor(), discussion, decision, None).await.unwrap_err().to_string();
            assert!(refused.contains("`decision`: must be one of `") && refused.contains("`list`"), "{refused}");
        }
        assert_eq!(house.ended(id).await.workflow.status, WorkflowStatus::Escalated, "nothing was decided");
        let decided = inbox("LIST").await.unwrap().item.decision.unwrap();
        assert_eq!(decided.answer, Some(json!("list")));
        let shown = house.completed(id).await;
        assert!(shown.tasks[0].task.output.clone().unwrap().to_string().contains("list"));
        house.close().await;
    }

    async fn a_discussion_is_abandoned_when_its_workflow_is_cancelled(db: TestDb) {
        let writer: Vec<_> = (0..4).map(|_| says("A proposal.")).collect();
        let researcher: Vec<_> = (0..4).map(|_| says("SUGGEST_CHANGES: not like that.")).collect();
        let model = ScriptedModel::default().agent("writer", writer).agent("researcher", researcher);
        let house = House::open(&db, model).await;
        house.agents(&["writer", "researcher"]).await;
        let id = house.dispatch(design()).await;
        let discussion = house.ended(id).await.workflow.escalation.unwrap().discussion.unwrap();
        let page = || emergent_domain::cursor::Page::first(10);
        let escalated = Some("escalated".to_owned());
        let listed = house.dispatcher.discussions(house.project, escalated.clone(), None, page()).await.unwrap();
        assert_eq!(listed.items.iter().map(|one| one.id).collect::<Vec<_>>(), [discussion]);
        house.dispatcher.cancel(house.actor(), id).await.unwrap();
        let told = house.dispatcher.discussion(house.project, discussion).await.unwrap();
        assert_eq!(text(&told.discussion, "status"), "abandoned");
        assert!(house.dispatcher.discussions(house.project, escalated, None, page()).await.unwrap().items.is_empty());
        house.close().await;
    }

    async fn a_task_says_how_its_result_is_discussed(db: TestDb) {
        let phase = |name: &str, agent: &str, output: &str| DiscussionPhase {
            name: name.into(), agents: vec![agent.into()], max_rounds: None, output: Some(output.into()),
        };
        let phases = vec![
            phase("ask", "researcher", "question"),
            phase("answer", "writer", "clarification"),
            phase("decide", "researcher", "vote"),
        ];
        let model = ScriptedModel::default()
            .agent("writer", [says("A Tag with a name."), says("Yes, it is unique.")])
            .agent("researcher", [says("Is the name unique?"), vote("APPROVED"), says("Approved, as the name is unique.")]);
        let house = House::open(&db, model).await;
        house.agents(&["writer", "researcher"]).await;
        let task = NewTask {
            requires_collaboration: true,
            discussion: DiscussionDefaults { phases, threshold: Some(1.0), ..DiscussionDefaults::default() },
            ..task("design", "writer", &[])
        };
        let id = house.dispatch(vec![task]).await;
        let shown = house.completed(id).await;
        let design = &shown.tasks[0];
        let output = design.task.output.clone().unwrap();
        // Who decides alone has said what was decided.
        assert_eq!(output, json!("A Tag with a name.\n\nDecided in a discussion of it: Approved, as the name is unique."));
        let discussion = house.beyond(design.task.id, "spawned_discussion").await.remove(0);
        assert_eq!((text(&discussion, "discussion_type"), text(&discussion, "status")), ("collaboration".into(), "resolved".into()));
        let entries = house.beyond(discussion.id, "has_entry").await;
        let said: Vec<String> = entries.iter().map(|entry| text(entry, "entry_type")).collect();
        assert_eq!(said, ["proposal", "question", "clarification", "vote"]);
        assert_eq!(house.model.requests_of("researcher")[0].turns[0].text().matches("A Tag with a name.").count(), 1);
        house.close().await;
    }

    async fn an_agent_has_others_vote_on_what_it_cannot_decide(db: TestDb) {
        let ask = json!({ "topic": "Rows or a list?", "participants": ["one", "two", "three"], "options": ["rows", "list"] });
        let model = ScriptedModel::default()
            .agent("lead", [calls("discussions_start", ask), says("I leave that to the others.")])
            .agent("one", [says("Rows."), vote("rows"), says("Voted.")])
            .agent("two", [says("Rows as well."), vote("rows"), says("Voted.")])
            .agent("three", [says("A list."), vote("list"), says("Voted.")]);
        let house = House::open(&db, model).await;
        house.agent("lead", &["discussions_start"]).await;
        house.agents(&["one", "two", "three"]).await;
        let id = house.dispatch(vec![task("choose", "lead", &[])]).await;
        let shown = house.ended(id).await;
        // Two of three is not enough for a threshold of 0.7: a person decides.
        assert_eq!(shown.workflow.status, WorkflowStatus::Escalated, "{:?}", house.events(id).await);
        let discussion = shown.workflow.escalation.unwrap().discussion.unwrap();
        let told = house.dispatcher.discussion(house.project, discussion).await.unwrap();
        house.dispatcher.decide(house.actor(), discussion, json!("rows"), None).await.unwrap();
        let shown = house.completed(id).await;
        let output = shown.tasks[0].task.output.clone().unwrap().to_string();
        assert!(output.contains("I leave that to the others.") && output.contains("rows"), "{output}");
        let votes: Vec<_> = told.entries.iter().filter(|entry| text(entry, "entry_type") == "vote").collect();
        // The third is not waited for when nothing can win any more.
        assert!(votes.len() >= 2);
        assert!(votes.iter().any(|vote| text(vote, "option") == "list"), "dissent is kept");
        let blind = house.model.requests_of("two");
        let asked = blind[1].turns[0].text();
        assert!(!asked.contains("simpler"), "votes are given blind: {asked}");
        house.close().await;
    }

    async fn a_discussion_begun_before_a_limit_is_held_when_the_run_goes_on(db: TestDb) {
        let ask = json!({ "topic": "Rows or a list?", "participants": ["one", "two"], "options": ["rows", "list"] });
        let model = ScriptedModel::default()
            .agent("lead", [calls("discussions_start", ask), says("I got half way."), says("Done now.")])
            .agent("one", [says("Rows."), vote("rows"), says("Voted.")])
            .agent("two", [says("Rows as well."), vote("rows"), says("Voted.")]);
        let house = House::open(&db, model).await;
        let lead = AgentDefinition {
            model: ScriptedModel::MODEL.parse().ok(),
            tools: vec!["discussions_start".into()],
            max_steps: Some(1),
            ..AgentDefinition::new("lead")
        };
        house.dispatcher.executor().create_agent(house.actor(), lead).await.unwrap();
        house.agents(&["one", "two"]).await;
        let id = house.dispatch(vec![task("choose", "lead", &[])]).await;
        let shown = house.completed(id).await;
        let choose = &shown.tasks[0];
        assert_eq!(choose.runs.len(), 2, "its run met a limit, and went on");
        let discussions = house.beyond(choose.task.id, "spawned_discussion").await;
        assert_eq!(text(&discussions[0], "status"), "resolved");
        let output = choose.task.output.clone().unwrap().to_string();
        assert!(output.contains("Done now.") && output.contains("rows"), "{output}");
        house.close().await;
    }

    async fn everything_an_agent_has_discussed_is_held_and_handed_on(db: TestDb) {
        let ask = |topic: &str, options: [&str; 2]| {
            calls("discussions_start", json!({ "topic": topic, "participants": ["one", "two"], "options": options }))
        };
        // Two discussions at once: each participant answers the one it is asked in.
        let voter = || (0..6).map(|_| replies(|asked: &ModelRequest| {
            let about = asked.turns[0].text();
            let option = if about.contains("Rows or a list?") { "rows" } else { "red" };
            match (asked.tools.is_empty(), asked.turns.len()) {
                (false, 1) => vote(option),
                _ => says(format!("I am for {option}.")),
            }
        }));
        let model = ScriptedModel::default()
            .agent("lead", [
                ask("Rows or a list?", ["rows", "list"]).and(ask("Red or blue?", ["red", "blue"])),
                says("I leave both to the others."),
            ])
            .agent("one", voter())
            .agent("two", voter())
            .agent("builder", [says("Built.")]);
        let house = House::open(&db, model).await;
        house.agent("lead", &["discussions_start"]).await;
        house.agents(&["one", "two", "builder"]).await;
        let id = house.dispatch(vec![task("choose", "lead", &[]), task("build", "builder", &["choose"])]).await;
        let shown = house.completed(id).await;
        let of = |key: &str| shown.tasks.iter().find(|one| one.task.key == key).unwrap();
        let choose = of("choose");
        for discussion in house.beyond(choose.task.id, "spawned_discussion").await {
            assert_eq!(text(&discussion, "status"), "resolved", "{}", text(&discussion, "topic"));
        }
        let output = choose.task.output.clone().unwrap().to_string();
        for part in ["I leave both to the others.", "rows", "red"] {
            assert!(output.contains(part), "{part}: {output}");
        }
        let prompt = house.prompt(of("build").runs[0]).await;
        assert!(prompt.contains("Rows or a list?") && prompt.contains("Red or blue?"), "{prompt}");
        house.close().await;
    }

    async fn of_two_discussions_without_an_end_each_is_decided_by_a_person(db: TestDb) {
        let ask = |topic: &str| {
            calls("discussions_start", json!({ "topic": topic, "participants": ["one", "two"], "options": ["yes", "no"] }))
        };
        let voter = |option: &'static str| (0..6).map(move |_| replies(move |asked: &ModelRequest| {
            match (asked.tools.is_empty(), asked.turns.len()) {
                (false, 1) => vote(option),
                _ => says(format!("I say {option}.")),
            }
        }));
        let model = ScriptedModel::default()
            .agent("lead", [ask("First?").and(ask("Second?")), says("I cannot say.")])
            .agent("one", voter("yes"))
            .agent("two", voter("no"));
        let house = House::open(&db, model).await;
        house.agent("lead", &["discussions_start"]).await;
        house.agents(&["one", "two"]).await;
        let id = house.dispatch(vec![task("choose", "lead", &[])]).await;
        let mut decided = Vec::new();
        for decision in ["yes", "no"] {
            let shown = house.ended(id).await;
            assert_eq!(shown.workflow.status, WorkflowStatus::Escalated);
            let escalation = shown.workflow.escalation.unwrap();
            assert_eq!(escalation.options, ["decide", "cancel"]);
            let discussion = escalation.discussion.unwrap();
            assert!(!decided.contains(&discussion), "each is asked for once");
            decided.push(discussion);
            house.dispatcher.decide(house.actor(), discussion, json!(decision), None).await.unwrap();
        }
        house.completed(id).await;
        house.close().await;
    }

    async fn who_still_speaks_when_it_is_decided_is_stopped(db: TestDb) {
        let who = json!([{ "agent": "one", "weight": 5 }, { "agent": "two", "weight": 5 }, { "agent": "three", "weight": 1 }]);
        let ask = json!({ "topic": "Rows or a list?", "participants": who, "options": ["rows", "list"] });
        let model = ScriptedModel::default()
            .agent("lead", [calls("discussions_start", ask), says("I leave that to the others.")])
            .agent("one", [says("Rows."), vote("rows"), says("Voted.")])
            .agent("two", [says("Rows as well."), vote("rows"), says("Voted.")])
            .agent("three", [says("A list."), hangs()]);
        let house = House::open(&db, model).await;
        house.agent("lead", &["discussions_start"]).await;
        house.agents(&["one", "two", "three"]).await;
        let id = house.dispatch(vec![task("choose", "lead", &[])]).await;
        let shown = house.completed(id).await;
        let discussion = house.beyond(shown.tasks[0].task.id, "spawned_discussion").await[0].id;
        let told = house.dispatcher.discussion(house.project, discussion).await.unwrap();
        let last: Vec<_> = told.runs.iter().filter(|run| run.agent_name == "three").collect();
        assert_eq!(last[1].status, RunStatus::Cancelled);
        assert!(last[1].error.as_deref().unwrap().contains("decided without it"), "{:?}", last[1].error);
        // The model is not waited for any more either.
        for _ in 0..200 {
            if house.model.open() == 0 { break }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        assert_eq!(house.model.open(), 0);
        house.close().await;
    }

    async fn who_still_speaks_when_nobody_can_win_any_more_is_stopped_too(db: TestDb) {
        let ask = json!({ "topic": "Rows or a list?", "participants": ["one", "two", "three"], "options": ["rows", "list"] });
        let model = ScriptedModel::default()
            .agent("lead", [calls("discussions_start", ask), says("I leave that to the others.")])
            .agent("one", [says("Rows."), vote("rows"), says("Voted.")])
            .agent("two", [says("A list."), vote("list"), says("Voted.")])
            .agent("three", [says("Hm."), hangs()]);
        let house = House::open(&db, model).await;
        house.agent("lead", &["discussions_start"]).await;
        house.agents(&["one", "two", "three"]).await;
        let id = house.dispatch(vec![task("choose", "lead", &[])]).await;
        let shown = house.ended(id).await;
        assert_eq!(shown.workflow.status, WorkflowStatus::Escalated);
        let discussion = shown.workflow.escalation.unwrap().discussion.unwrap();
        let told = house.dispatcher.discussion(house.project, discussion).await.unwrap();
        assert!(told.runs.iter().all(|run| run.status.is_terminal()), "{:?}", told.runs);
        house.dispatcher.decide(house.actor(), discussion, json!("list"), None).await.unwrap();
        let shown = house.completed(id).await;
        let output = shown.tasks[0].task.output.clone().unwrap().to_string();
        assert!(output.contains("list"), "{output}");
        house.close().await;
    }

    async fn an_approval_with_markup_ends_the_review(db: TestDb) {
        let model = ScriptedModel::default()
            .agent("writer", [says("A Tag with a name.")])
            .agent("researcher", [says("**Approved**\n\nLooks complete.")]);
        let house = House::open(&db, model).await;
        house.agents(&["writer", "researcher"]).await;
        let id = house.dispatch(design()).await;
        house.completed(id).await;
        let asked = house.model.requests_of("researcher")[0].turns[0].text();
        assert!(asked.contains("Start your answer with") && !asked.contains("VOTE:"), "it says one thing: {asked}");
        house.close().await;
    }

    async fn a_vote_for_no_option_is_refused_with_the_options(db: TestDb) {
        let ask = json!({ "topic": "Rows or a list?", "participants": ["one", "two"], "options": ["rows", "list"] });
        let model = ScriptedModel::default()
            .agent("lead", [calls("discussions_start", ask), says("I leave that to the others.")])
            .agent("one", [says("Rows."), vote("columns"), vote("rows"), says("Voted.")])
            .agent("two", [says("Rows as well."), vote("Rows"), says("Voted.")]);
        let house = House::open(&db, model).await;
        house.agent("lead", &["discussions_start"]).await;
        house.agents(&["one", "two"]).await;
        let id = house.dispatch(vec![task("choose", "lead", &[])]).await;
        house.completed(id).await;
        let told = house.model.requests_of("one")[2].last_text();
        assert!(told.contains("there is no option `columns`; the options are `rows`, `list`"), "{told}");
        house.close().await;
    }

    async fn without_an_approval_there_is_no_consensus_and_a_decision_is_answered_with_its_outcome(db: TestDb) {
        let writer: Vec<_> = (0..4).map(|at| says(format!("Proposal {at}."))).collect();
        let researcher: Vec<_> = (0..4).map(|_| says("SUGGEST_CHANGES: not like that.")).collect();
        let model = ScriptedModel::default().agent("writer", writer).agent("researcher", researcher);
        let house = House::open(&db, model).await;
        house.agents(&["writer", "researcher"]).await;
        let id = house.dispatch(design()).await;
        let discussion = house.ended(id).await.workflow.escalation.unwrap().discussion.unwrap();
        let level = |object: &Object| object.properties.to_map()["consensus_level"].as_f64().unwrap();
        let told = house.dispatcher.discussion(house.project, discussion).await.unwrap();
        assert_eq!(level(&told.discussion), 0.0);
        let decision = json!("Take the second proposal.");
        let told = house.dispatcher.decide(house.actor(), discussion, decision, None).await.unwrap();
        assert_eq!((text(&told.discussion, "status"), level(&told.discussion)), ("resolved".into(), 0.0));
        let outcome = told.discussion.properties.to_map()["final_decision"].clone();
        assert_eq!(outcome["text"], "Take the second proposal.");
        house.completed(id).await;
        let stored = house.dispatcher.discussion(house.project, discussion).await.unwrap();
        assert_eq!(stored.discussion.properties.to_map()["final_decision"], outcome);
        house.close().await;
    }

    async fn the_metrics_of_a_task_count_its_retries_and_its_review(db: TestDb) {
        let model = ScriptedModel::default()
            .agent("writer", [
                fails(emergent_llm::Error::BadRequest { model: ScriptedModel::MODEL.into(), status: 400, message: "no".into() }),
                calls("entities_query", json!({ "type": "Tag" })),
                says("A Tag with a name."),
                says("A Tag with a name and a tag_type."),
            ])
            .agent("researcher", [says("SUGGEST_CHANGES: add tag_type."), says("APPROVED. Looks complete.")]);
        let house = House::open(&db, model).await;
        house.agent("writer", &["entities_query"]).await;
        house.agents(&["researcher"]).await;
        let id = house.dispatch(design()).await;
        let shown = house.completed(id).await;
        let task = house.graph().get_object(house.project, shown.tasks[0].task.id).await.unwrap();
        let metrics = task.properties.to_map()["metrics"].clone();
        assert_eq!(metrics["llm_calls"], 5, "two of the attempt and three of the review: {metrics}");
        assert_eq!(metrics["tokens_used"], json!(shown.spent.spent.tokens), "{metrics}");
        let resolved = house.events(id).await.into_iter().find(|event| event.kind == "discussion_resolved").unwrap();
        let completed: emergent_domain::time::Timestamp = metrics["completion_time"].as_str().unwrap().parse().unwrap();
        assert!(completed >= resolved.at, "{metrics}");
        house.close().await;
    }
}

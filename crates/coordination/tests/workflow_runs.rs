//! Runs of a workflow: their admission, what they submit, and their session in the graph.

#[path = "../../executor/tests/suite/support/mod.rs"]
mod support;

use std::time::Duration;

use emergent_coordination::{
    Dispatcher,
    sessions::{self, GraphDrafts},
    workflow_runs::{cancel_workflow_runs, resume_workflow_run},
};
use emergent_domain::{
    agent::Agent,
    author::Author,
    ids::{ObjectId, RunId},
    run::{Origin, Run, RunStatus, ToolCallStatus},
    workflow::{Deliverable, Limit, WorkflowLink},
};
use emergent_executor::{AdmissionBatch, Error, LinkedRun, StartOptions, admit_linked_run};
use emergent_graph::Actor;
use emergent_store::{Tx, runs};
use emergent_testkit::{
    both_engines,
    scripted::{ScriptedModel, calls, hangs, says},
};
use serde_json::{Value, json};
use support::{
    Harness, HarnessOptions, agent, assert_ended,
    server::Server,
    until, with_tools,
    workflow_runs::{hands, object, session, told, workflow},
};

/// A server whose executor knows the hooks of workflows.
fn options(model: ScriptedModel) -> HarnessOptions {
    let prepare = |executor: &_| drop(Dispatcher::new(Clone::clone(executor), Default::default()));
    HarnessOptions { prepare, ..HarnessOptions::new(model) }
}

/// Starts a run as the dispatcher does.
async fn dispatched(
    harness: &Harness,
    agent: &Agent,
    link: WorkflowLink,
    child_index: i64,
) -> Result<Run, Error> {
    let (executor, agent) = (harness.executor.clone(), agent.clone());
    admit_into_slot(harness, move |tx, admissions| {
        let start = StartOptions { input: "Do your part.".into(), ..StartOptions::default() };
        let run =
            LinkedRun { id: RunId::new(), link, child_index, started_by: None, cause: None, cause_depth: 0 };
        admit_linked_run(tx, &executor, admissions, &agent, run, &start)
    })
    .await
}

/// Admits a run into a slot, together with its first session messages.
async fn admit_into_slot(
    harness: &Harness,
    work: impl Fn(&mut Tx<'_>, &mut AdmissionBatch) -> Result<Run, Error> + Send + 'static,
) -> Result<Run, Error> {
    let executor = harness.executor.clone();
    let work = move |tx: &mut Tx<'_>, admissions: &mut AdmissionBatch| {
        let run = work(tx, admissions)?;
        let actor = Actor { project: run.project, author: Author::System };
        let writer = executor.graph().write_context(tx, actor)?;
        sessions::write_drafts(tx, &writer, GraphDrafts::default(), admissions)?;
        Ok(run)
    };
    harness.executor.commit_and_drive(harness.executor.try_acquire_slots(harness.project, 1), work).await
}

async fn handed_in(harness: &Harness, run: RunId) -> Option<Value> {
    let found: Result<_, emergent_store::Error> =
        harness.executor.graph().db().read(move |tx| runs::submission(tx, run)).await;
    found.unwrap()
}

both_engines! {
    async fn a_run_has_the_tool_for_what_it_hands_in_whatever_its_definition_lists(db: TestDb) {
        let verdict = json!({ "verdict": "FAIL", "issues": ["no cycle is found"] });
        let last = json!({ "verdict": "PASS", "summary": "mended" });
        let lines = [
            calls("submit_verdict", json!({ "verdict": "APPROVE" })),
            calls("submit_verdict", verdict),
            calls("submit_verdict", last.clone()),
            says("Done."),
        ];
        let harness = Harness::with(&db, options(ScriptedModel::new(lines))).await;
        let tester = harness.agent(agent("tester")).await;
        let run = dispatched(&harness, &tester, hands(Deliverable::TestVerdict), 0).await.unwrap();
        assert_eq!(run.origin, Origin::Dispatch);
        assert_ended(&harness.ended(run.id).await, RunStatus::Completed, None);
        assert_eq!(harness.model.requests()[0].tools, ["submit_verdict"]);
        let made = harness.calls(run.id).await;
        let status: Vec<ToolCallStatus> = made.iter().map(|call| call.status).collect();
        assert_eq!(status, [ToolCallStatus::Error, ToolCallStatus::Completed, ToolCallStatus::Completed], "a test approves nothing");
        assert!(made[1].output.as_ref().unwrap()["next"].as_str().unwrap().starts_with("Finish now"));
        assert_eq!(handed_in(&harness, run.id).await, Some(last));
        harness.close().await;
    }

    async fn nobody_else_has_it_or_finds_it(db: TestDb) {
        let vote = json!({ "option": "a", "confidence": 0.9, "reason": "It is." });
        let lines = [
            calls("submit_vote", vote.clone()).and(calls("submit_verdict", json!({ "verdict": "PASS" }))), says("No."),
            calls("submit_vote", vote.clone()).and(calls("submit_verdict", json!({ "verdict": "PASS" }))), says("Yes."),
        ];
        let harness = Harness::with(&db, options(ScriptedModel::new(lines))).await;
        for tool in harness.executor.tools().project_tools(harness.project).await {
            assert!(!tool.info().name.starts_with("submit_"), "{}", tool.info().name);
        }
        let voter = harness.agent(with_tools("voter", &["*"])).await;
        let bare = harness.run(&voter, "Vote.").await;
        assert!(harness.calls(bare.id).await.iter().all(|call| call.status == ToolCallStatus::Error));
        assert_eq!(handed_in(&harness, bare.id).await, None);
        let run = dispatched(&harness, &voter, hands(Deliverable::Vote), 0).await.unwrap();
        harness.ended(run.id).await;
        let made = harness.calls(run.id).await;
        assert_eq!((made[0].status, made[1].status), (ToolCallStatus::Completed, ToolCallStatus::Error), "a vote is no verdict");
        assert_eq!(handed_in(&harness, run.id).await, Some(vote));
        harness.close().await;
    }

    async fn a_run_that_is_taken_up_again_still_has_it(db: TestDb) {
        let server = Server::open(&db, options(ScriptedModel::new([hangs()]))).await;
        let reviewer = server.harness.agent(with_tools("reviewer", &["entities_q*"])).await;
        let run = dispatched(&server.harness, &reviewer, hands(Deliverable::ReviewVerdict), 0).await.unwrap();
        until("it is asked", async || server.harness.model.open() == 1).await;
        server.kill(&db, Duration::ZERO).await;
        let verdict = json!({ "verdict": "REQUEST_CHANGES", "required_changes": ["a test"], "comments": ["line 3"] });
        let harness = Harness::with(&db, options(ScriptedModel::new([calls("submit_verdict", verdict.clone()), says("Done.")]))).await;
        assert_ended(&harness.ended(run.id).await, RunStatus::Completed, None);
        assert_eq!(harness.model.requests()[0].tools, ["entities_query", "submit_verdict"]);
        assert_eq!(handed_in(&harness, run.id).await, Some(verdict));
        harness.close().await;
    }

    async fn a_turn_in_a_discussion_is_taken_once(db: TestDb) {
        let harness = Harness::build(&db, options(ScriptedModel::default())).await;
        let speaker = harness.agent(agent("speaker")).await;
        let workflow_link = WorkflowLink { discussion: Some(ObjectId::new()), ..WorkflowLink::default() };
        dispatched(&harness, &speaker, workflow_link, 0).await.unwrap();
        dispatched(&harness, &speaker, workflow_link, 1).await.unwrap();
        assert!(dispatched(&harness, &speaker, workflow_link, 1).await.is_err());
    }

    async fn what_is_said_in_an_attempt_is_kept_in_its_session(db: TestDb) {
        let long = "word ".repeat(400);
        let make = json!({ "objects": [{ "type": "Note", "key": "a" }] });
        let lines = [
            says("I look and write.").and(calls("entities_query", json!({ "type": "Note" }))).and(calls("entities_create", make)),
            calls("no_such_tool", json!({})),
            says(long.clone()),
        ];
        let harness = Harness::with(&db, options(ScriptedModel::new(lines))).await;
        let writer = harness.agent(with_tools("writer", &["entities_*"])).await;
        let (task, kept) = (object(&harness, "SpecTask").await, object(&harness, "Session").await);
        let workflow_link = WorkflowLink { task: Some(task), session: Some(kept), ..WorkflowLink::default() };
        let run = dispatched(&harness, &writer, workflow_link, 0).await.unwrap();
        // The run may already have said more.
        assert_eq!(told(&harness, kept).await[..2], ["system: You are writer.", "user: Do your part."], "at admission");
        assert_ended(&harness.ended(run.id).await, RunStatus::Completed, None);
        let lines = told(&harness, kept).await;
        let starts = [
            "system: You are writer.", "user: Do your part.", "assistant calls: I look and write.",
            "tool \"entities_query\": {", "tool \"entities_create\": {", "assistant calls: ",
            "tool \"no_such_tool\": {\"error\":\"tool not found", "assistant: word word",
        ];
        assert_eq!(lines.len(), starts.len(), "{lines:#?}");
        for (line, start) in lines.iter().zip(starts) {
            assert!(line.starts_with(start), "{line} is not {start}");
        }
        let (_, last) = session(&harness, kept).await.pop().unwrap();
        let last = last.properties.to_map();
        assert_eq!(last["content"].as_str().unwrap(), &long[..1_000]);
        assert_eq!((&last["truncated"], &last["run_id"]), (&json!(true), &json!(run.id)));
        // Reverting the run reverts the changes of its calls, while the messages of its session stay.
        let report = harness.executor.revert_run(harness.actor(), run.id).await.unwrap();
        assert_eq!(report.undone.len(), 1, "{report:?}");
        assert_eq!(told(&harness, kept).await, lines);
        harness.close().await;
    }

    async fn a_session_has_everything_once_wherever_the_server_dies(db: TestDb) {
        let make = |n: usize| calls("entities_create", json!({ "objects": [{ "type": "Note", "key": n.to_string() }] }));
        let server = Server::open(&db, options(ScriptedModel::new((0..40).map(make)))).await;
        let writer = server.harness.agent(with_tools("writer", &["entities_create"])).await;
        let kept = object(&server.harness, "Session").await;
        let run = dispatched(&server.harness, &writer, WorkflowLink { session: Some(kept), ..WorkflowLink::default() }, 0).await.unwrap();
        until("it is at work", async || server.harness.calls(run.id).await.len() > 6).await;
        server.kill(&db, Duration::ZERO).await;
        let harness = Harness::with(&db, options(ScriptedModel::new([says("Done."), says("Done.")]))).await;
        assert_ended(&harness.ended(run.id).await, RunStatus::Completed, None);
        let sequences: Vec<i64> = session(&harness, kept).await.into_iter().map(|(sequence, _)| sequence).collect();
        let mut recorded = Vec::new();
        for event in harness.events(run.id).await {
            use emergent_domain::run_event::RunEventBody::{Message, ToolCompleted};
            if matches!(event.body, Message(_) | ToolCompleted(_)) {
                recorded.extend(event.seq);
            }
        }
        assert_eq!(sequences, recorded);
        harness.close().await;
    }

    async fn a_session_that_was_deleted_does_not_stand_in_the_way(db: TestDb) {
        let harness = Harness::with(&db, options(ScriptedModel::new([says("Done.").with_delay(Duration::from_millis(300))]))).await;
        let worker = harness.agent(agent("worker")).await;
        let kept = object(&harness, "Session").await;
        let run = dispatched(&harness, &worker, WorkflowLink { session: Some(kept), ..WorkflowLink::default() }, 0).await.unwrap();
        harness.executor.graph().delete_object(harness.actor(), kept, None).await.unwrap();
        assert_ended(&harness.ended(run.id).await, RunStatus::Completed, None);
        harness.close().await;
    }

    async fn a_resumption_keeps_workflow_and_task_and_has_a_session_of_its_own(db: TestDb) {
        let lines = [calls("entities_query", json!({})), says("So far."), says("All.")];
        let harness = Harness::with(&db, options(ScriptedModel::new(lines))).await;
        let mut definition = with_tools("worker", &["entities_query"]);
        definition.max_steps = Some(1);
        let worker = harness.agent(definition).await;
        let flow = workflow(&harness, Limit::default()).await;
        let (task, first, second) =
            (object(&harness, "SpecTask").await, object(&harness, "Session").await, object(&harness, "Session").await);
        let workflow_link = WorkflowLink { workflow: Some(flow), task: Some(task), session: Some(first), ..WorkflowLink::default() };
        let paused = dispatched(&harness, &worker, workflow_link, 0).await.unwrap();
        let paused = harness.ended(paused.id).await;
        assert_eq!(paused.status, RunStatus::Paused);
        let (executor, id) = (harness.executor.clone(), RunId::new());
        let work = move |tx: &mut Tx<'_>, admissions: &mut AdmissionBatch| {
            let workflow_link = WorkflowLink { session: Some(second), deliverable: Some(Deliverable::Vote), ..WorkflowLink::default() };
            resume_workflow_run(tx, &executor, admissions, &paused, workflow_link, id, "Go on.".into())
        };
        let resumed = admit_into_slot(&harness, work.clone()).await.unwrap();
        assert_eq!(resumed.id, id);
        assert_eq!((resumed.workflow_link.workflow, resumed.workflow_link.task), (Some(flow), Some(task)));
        assert_ended(&harness.ended(id).await, RunStatus::Completed, None);
        let said = told(&harness, second).await;
        assert_eq!(said, ["user: Continue your work. Here is additional context: Go on.", "assistant: All."]);
        let again: Result<_, Error> = admit_into_slot(&harness, work).await;
        assert!(matches!(again, Err(Error::Conflict(_))), "{again:?}");
        harness.close().await;
    }

    async fn only_one_who_owes_something_goes_on_after_it_completed(db: TestDb) {
        let verdict = calls("submit_verdict", json!({ "verdict": "PASS" }));
        let harness = Harness::with(&db, options(ScriptedModel::new([says("I looked."), verdict, says("Good.")]))).await;
        let worker = harness.agent(agent("worker")).await;
        let owes = WorkflowLink { deliverable: Some(Deliverable::TestVerdict), ..WorkflowLink::default() };
        let done = dispatched(&harness, &worker, owes, 0).await.unwrap();
        let done = harness.ended(done.id).await;
        assert_eq!(done.status, RunStatus::Completed);
        let go_on = |workflow_link: WorkflowLink| {
            let (executor, done) = (harness.executor.clone(), done.clone());
            let said = "Your verdict, please.";
            admit_into_slot(&harness, move |tx, admissions| {
                resume_workflow_run(tx, &executor, admissions, &done, workflow_link, RunId::new(), said.into())
            })
        };
        assert!(matches!(go_on(WorkflowLink::default()).await, Err(Error::Conflict(_))), "it owes nothing");
        assert!(matches!(harness.executor.resume(harness.actor(), done.id, None).await, Err(Error::Conflict(_))));
        let again = harness.ended(go_on(owes).await.unwrap().id).await;
        assert_ended(&again, RunStatus::Completed, None);
        assert_eq!(again.resumed_from, Some(done.id));
        let asked = harness.model.requests();
        assert!(asked[1].turns.len() == 3 && asked[1].last_text().contains("Your verdict, please."), "{:?}", asked[1].turns);
        harness.close().await;
    }

    async fn the_runs_of_a_workflow_are_cancelled_with_everything_below_them(db: TestDb) {
        let spawn = json!({ "tasks": [{ "agent_name": "worker", "task": "Work." }, { "agent_name": "worker", "task": "Work." }] });
        let model = ScriptedModel::default().agent("lead", [calls("spawn_agents", spawn)]).agent("worker", (0..4).map(|_| hangs()));
        let harness = Harness::with(&db, options(model)).await;
        let worker = harness.agent(agent("worker")).await;
        let lead = harness.agent(with_tools("lead", &["spawn_agents"])).await;
        let flow = workflow(&harness, Limit::default()).await;
        let workflow_link = WorkflowLink { workflow: Some(flow), ..WorkflowLink::default() };
        let one = dispatched(&harness, &lead, workflow_link, 0).await.unwrap();
        let other = dispatched(&harness, &worker, workflow_link, 0).await.unwrap();
        let stays = harness.start(&worker, "Something else.").await;
        until("all are asked", async || harness.model.open() == 4).await;
        let (executor, project) = (harness.executor.clone(), harness.project);
        let cancelled = harness.executor.graph().db()
            .write(move |tx| cancel_workflow_runs(tx, &executor, project, flow, "cancelled with its workflow"));
        let cancelled = cancelled.await.unwrap();
        assert_eq!(cancelled.len(), 4);
        harness.executor.stop_driving(&cancelled);
        until("only the other is asked", async || harness.model.open() == 1).await;
        for run in [one.id, other.id] {
            assert_ended(&harness.ended(run).await, RunStatus::Cancelled, None);
        }
        let children = harness.children(one.id).await;
        assert!(children.iter().all(|run| run.status == RunStatus::Cancelled && run.workflow_link.workflow == Some(flow)));
        assert_eq!(harness.executor.get_run(harness.project, stays.id).await.unwrap().status, RunStatus::Running);
        harness.close().await;
    }
}

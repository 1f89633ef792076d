//! External MCP servers that ask for input during a tool call: the run waits for a person, and the server gets the
//! answer. The servers are programs.

use crate::support;

use std::{path::Path, time::Duration};

use emergent_domain::{
    agent::Agent,
    approval::{Approval, ApprovalKind, ApprovalStatus, Choice, NewDecision},
    cursor::Page,
    ids::{ProjectId, RunId, TokenId},
    mcp_server::{ConfiguredBy, ServerSpec},
    redact::Redactor,
    run::{Run, RunStatus},
    run_event::RunEventBody,
    time::{Clock, Timestamp},
};
use emergent_executor::{Error, approvals::ApprovalFilter};
use emergent_secrets::{KeySource, Secrets};
use emergent_store::{Tx, params};
use emergent_testkit::{
    ShellMcpServer, TestDb, both_engines,
    scripted::{ScriptedModel, calls, says},
};
use emergent_tools::remote::{McpServers, NewServer, RemoteSettings};
use serde_json::{Value, json};
use support::{Harness, HarnessOptions, assert_ended, server::Server, until, with_tools};

/// What the program asks for.
fn form() -> Value {
    json!({ "message": "Where to?", "requestedSchema": { "type": "object", "required": ["email"], "properties": {
        "email": { "type": "string", "format": "email", "title": "Address" },
        "copies": { "type": "integer", "minimum": 1 } } } })
}

fn asking_model() -> ScriptedModel {
    ScriptedModel::default()
        .agent("sender", [calls("send", json!({})), says("Done.")])
        .agent("other", [says("Done, too.")])
}

async fn servers(db: &TestDb, folder: &Path) -> McpServers {
    let keys = KeySource::from_file(folder.join("secret-key"));
    let secrets = Secrets::open(db.db.clone(), Clock::system(), keys, Redactor::default()).await.unwrap();
    let settings =
        RemoteSettings { probe_timeout: Duration::from_millis(1_500), ..RemoteSettings::default() };
    McpServers::new(db.db.clone(), Clock::system(), secrets, settings)
}

/// Adds the program with a timeout of its calls, in seconds. Returns the file with a line for each call.
async fn add(
    servers: &McpServers,
    project: ProjectId,
    folder: &Path,
    program: ShellMcpServer,
    timeout_seconds: i64,
) -> String {
    let calls = folder.join("calls").to_str().unwrap().to_owned();
    let spec: ServerSpec = serde_json::from_value(program.spec("post", json!({ "CALLS": calls }))).unwrap();
    let new = NewServer { timeout_seconds, ..NewServer::new(spec) };
    servers.create(project, ConfiguredBy::Operator, new).await.unwrap();
    calls
}

fn program() -> ShellMcpServer {
    ShellMcpServer::with_tool("send", "Sends it.")
}

fn decision(choice: Choice) -> NewDecision {
    NewDecision { choice, edited_input: None, answer: None, reason: None, digest: None }
}

fn answer(answer: Value) -> NewDecision {
    NewDecision { answer: Some(answer), ..decision(Choice::Answer) }
}

async fn requests(harness: &Harness) -> Vec<Approval> {
    let page = Page::first(10);
    harness.executor.list_approvals(harness.project, ApprovalFilter::default(), page).await.unwrap().items
}

async fn decide(harness: &Harness, request: &Approval, new: NewDecision) -> Result<Approval, Error> {
    harness.executor.decide_approval(harness.project, request.id, new, TokenId::new()).await
}

/// Starts a run, and waits until its server has asked.
async fn asked(harness: &Harness) -> (Agent, Run, Approval) {
    let agent = harness.agent(with_tools("sender", &["send"])).await;
    let id = harness.start(&agent, "Go.").await.id;
    let run = async || harness.executor.get_run(harness.project, id).await.unwrap();
    until("the run waits", async || {
        let run = run().await;
        assert!(!run.status.is_terminal(), "{run:?}");
        run.status == RunStatus::Waiting
    })
    .await;
    let request = requests(harness).await.remove(0);
    (agent, run().await, request)
}

/// What the program got, or the error of the call.
async fn output(harness: &Harness, run: RunId) -> String {
    harness.calls(run).await[0].output.clone().unwrap().to_string()
}

fn number_of_calls(file: &str) -> usize {
    std::fs::read_to_string(file).unwrap_or_default().lines().count()
}

both_engines! {
    async fn a_server_that_asks_gets_the_answer_of_a_person_and_the_run_waits_meanwhile(db: TestDb) {
        let folder = tempfile::tempdir().unwrap();
        let servers = servers(&db, folder.path()).await;
        let plan = HarnessOptions { remote: Some(servers.clone()), ..HarnessOptions::new(asking_model()) };
        let harness = Harness::with(&db, plan.max_runs(1)).await;
        let called = add(&servers, harness.project, folder.path(), program().asks(&form()), 2).await;
        let (_, run, request) = asked(&harness).await;
        assert_eq!((run.waiting_for, request.kind), (Some(ApprovalKind::Question), ApprovalKind::Question));
        assert_eq!((request.tool.as_str(), request.server.as_deref()), ("send", Some("post")));
        let question = request.question.clone().unwrap();
        assert_eq!((question.text.as_str(), question.response_schema), ("Where to?", Some(form()["requestedSchema"].clone())));
        assert!(request.expires_at.is_some(), "it is declined in the end");
        // The run uses no slot, and the time of the person counts neither for the call nor for the run.
        let other = harness.agent(with_tools("other", &[])).await;
        assert_ended(&harness.run(&other, "Go.").await, RunStatus::Completed, None);
        tokio::time::sleep(Duration::from_millis(2_200)).await;
        for (wrong, field) in [
            (json!({ "email": "a@example.com", "copies": 0 }), "answer.copies"),
            (json!({ "copies": 1 }), "answer.email"),
            (json!("a@example.com"), "answer"),
        ] {
            match decide(&harness, &request, answer(wrong)).await {
                Err(Error::Invalid(invalid)) => assert_eq!(invalid.problems[0].field, field),
                other => panic!("{other:?}"),
            }
        }
        decide(&harness, &request, answer(json!({ "email": "a@example.com" }))).await.unwrap();
        let ended = harness.ended(run.id).await;
        assert_ended(&ended, RunStatus::Completed, None);
        let moved = ended.deadline_base.unwrap().since(run.deadline_base.unwrap());
        assert!(moved >= Duration::from_millis(2_200), "{moved:?}");
        assert_eq!((ended.waiting_for, ended.waiting_since), (None, None));
        let got = output(&harness, run.id).await;
        assert!(got.contains("accept") && got.contains("a@example.com"), "{got}");
        assert_eq!(number_of_calls(&called), 1);
        let events = harness.events(run.id).await;
        let is_shown = |body: &&RunEventBody| !matches!(body, RunEventBody::Message(_));
        let names: Vec<_> = events.iter().map(|event| &event.body).filter(is_shown).map(RunEventBody::kind).collect();
        assert_eq!(names, [
            "run_started", "tool_started", "approval_requested", "run_waiting", "approval_decided",
            "run_continued", "tool_completed", "run_ended",
        ]);
        harness.close().await;
        servers.shutdown().await;
    }

    async fn a_person_may_decline_and_what_nobody_answers_is_declined(db: TestDb) {
        let folder = tempfile::tempdir().unwrap();
        let servers = servers(&db, folder.path()).await;
        let model = ScriptedModel::default()
            .agent("sender", [calls("send", json!({})), says("Done."), calls("send", json!({ "again": 1 })), says("Done.")]);
        let harness = Harness::with(&db, HarnessOptions { remote: Some(servers.clone()), ..HarnessOptions::new(model) }).await;
        add(&servers, harness.project, folder.path(), program().asks(&form()), 60).await;
        let (agent, run, request) = asked(&harness).await;
        decide(&harness, &request, decision(Choice::Deny)).await.unwrap();
        assert_ended(&harness.ended(run.id).await, RunStatus::Completed, None);
        let got = output(&harness, run.id).await;
        assert!(got.contains("decline"), "{got}");

        let run = harness.start(&agent, "Again.").await;
        until("the server asks again", async || requests(&harness).await.len() == 2).await;
        let past = Timestamp::now() - Duration::from_secs(1);
        let overdue = move |tx: &mut Tx<'_>| tx.execute("UPDATE jobs SET run_at = $1 WHERE queue = 'approvals'", params![past]);
        let overdue: Result<u64, emergent_store::Error> = db.db.write(overdue).await;
        assert_eq!(overdue.unwrap(), 2, "each has a job that ends it");
        let (stop, stopping) = tokio::sync::watch::channel(false);
        let executor = harness.executor.clone();
        let expiry = tokio::spawn(async move { executor.run_approval_expiry(stopping).await });
        assert_ended(&harness.ended(run.id).await, RunStatus::Completed, None);
        assert_eq!(requests(&harness).await[0].status, ApprovalStatus::Expired);
        let got = output(&harness, run.id).await;
        assert!(got.contains("decline"), "{got}");
        stop.send_replace(true);
        let _ = expiry.await;
        harness.close().await;
        servers.shutdown().await;
    }

    async fn a_question_is_withdrawn_when_the_server_gives_up_or_the_run_is_cancelled(db: TestDb) {
        let folder = tempfile::tempdir().unwrap();
        let servers = servers(&db, folder.path()).await;
        let model = ScriptedModel::default().agent("sender", [calls("send", json!({})), says("Done."), calls("send", json!({}))]);
        let harness = Harness::with(&db, HarnessOptions { remote: Some(servers.clone()), ..HarnessOptions::new(model) }).await;
        add(&servers, harness.project, folder.path(), program().asks_and_gives_up(&form(), 0.4), 60).await;
        let (agent, run, _) = asked(&harness).await;
        let ended = harness.ended(run.id).await;
        assert_ended(&ended, RunStatus::Completed, None);
        let request = requests(&harness).await.remove(0);
        assert_eq!(request.status, ApprovalStatus::Withdrawn);
        assert!(request.decision.unwrap().reason.unwrap().contains("no longer wants an answer"));
        let got = output(&harness, run.id).await;
        assert!(got.contains("gave up"), "{got}");

        let run = harness.start(&agent, "Again.").await;
        until("the server asks again", async || requests(&harness).await.len() == 2).await;
        harness.executor.cancel(harness.actor(), run.id).await.unwrap();
        assert_ended(&harness.ended(run.id).await, RunStatus::Cancelled, None);
        assert_eq!(requests(&harness).await[0].status, ApprovalStatus::Withdrawn);
        until("nobody drives it", async || harness.executor.driven_count() == 0).await;
        harness.close().await;
        servers.shutdown().await;
    }

    async fn a_call_whose_server_was_killed_while_a_person_was_asked_is_not_made_again(db: TestDb) {
        let folder = tempfile::tempdir().unwrap();
        let first = servers(&db, folder.path()).await;
        let plan = HarnessOptions { remote: Some(first.clone()), ..HarnessOptions::new(asking_model()) };
        let killed = Server::open(&db, plan).await;
        let called = add(&first, killed.harness.project, folder.path(), program().asks(&form()), 60).await;
        let (_, run, request) = asked(&killed.harness).await;
        killed.kill(&db, Duration::from_secs(1)).await;

        let second = servers(&db, folder.path()).await;
        let model = ScriptedModel::default().agent("sender", [says("Interrupted.")]);
        let harness = Harness::with(&db, HarnessOptions { remote: Some(second.clone()), ..HarnessOptions::new(model) }).await;
        assert_ended(&harness.ended(run.id).await, RunStatus::Completed, None);
        let withdrawn = requests(&harness).await.remove(0);
        assert_eq!((withdrawn.id, withdrawn.status), (request.id, ApprovalStatus::Withdrawn));
        assert!(withdrawn.decision.unwrap().reason.unwrap().contains("connection to the external server was lost"));
        assert!(matches!(decide(&harness, &request, answer(json!({ "email": "a@b.example" }))).await, Err(Error::Decided(_))));
        let told = output(&harness, run.id).await;
        assert!(told.contains("Whether it took effect is not known"), "{told}");
        assert_eq!(number_of_calls(&called), 1, "the call was not made again");
        harness.close().await;
        second.shutdown().await;
        first.shutdown().await;
    }
}

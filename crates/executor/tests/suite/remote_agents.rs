//! Agents that another system executes, made with the Python SDK of A2A: their runs, their record, and how they are
//! started by others, cancelled and resumed.

use crate::support;

use emergent_domain::{
    agent::AgentDefinition,
    approval::{Choice, NewDecision},
    cursor::Page,
    ids::{ProjectId, RunId, TokenId},
    mcp_server::{ConfiguredBy, ServerSpec},
    redact::Redactor,
    run::{Reason, RunStatus, ToolCallStatus},
    run_event::{RunEvent, RunEventBody},
    time::Clock,
};
use emergent_executor::approvals::ApprovalFilter;
use emergent_secrets::{KeySource, Secrets};
use emergent_testkit::{
    A2aAgents, TestDb, both_engines,
    scripted::{ScriptedModel, calls, says},
};
use emergent_tools::remote::{McpServers, NewServer, RemoteSettings};
use serde_json::{Value, json};
use support::{Harness, HarnessOptions, agent, assert_ended, until, with_tools};

/// A project with the agents of another system.
struct Site {
    harness: Harness,
    servers: McpServers,
    agents: A2aAgents,
    _folder: tempfile::TempDir,
}

impl Site {
    async fn open(db: &TestDb, model: ScriptedModel) -> Self {
        let (folder, agents) = (tempfile::tempdir().unwrap(), A2aAgents::start());
        let keys = KeySource::from_file(folder.path().join("secret-key"));
        let secrets = Secrets::open(db.db.clone(), Clock::system(), keys, Redactor::default()).await.unwrap();
        let settings = RemoteSettings { allow_private_hosts: true, ..RemoteSettings::default() };
        let servers = McpServers::new(db.db.clone(), Clock::system(), secrets, settings);
        let options = HarnessOptions { remote: Some(servers.clone()), ..HarnessOptions::new(model) };
        let harness = Harness::with(db, options).await;
        for name in ["echo", "slow", "guarded", "asker"] {
            add(&servers, harness.project, name, &agents.url(name)).await;
        }
        Self { harness, servers, agents, _folder: folder }
    }

    /// How many entries the agents have in a list: the messages that came, or the tasks that were cancelled.
    async fn count(&self, list: &str) -> usize {
        let url = self.agents.url(list);
        let client = emergent_net::http::client_builder_for(&url).build().unwrap();
        let text = client.get(url).send().await.unwrap().text().await.unwrap();
        serde_json::from_str::<Vec<Value>>(&text).unwrap().len()
    }

    async fn close(self) {
        self.harness.close().await;
        self.servers.shutdown().await;
    }
}

async fn add(servers: &McpServers, project: ProjectId, name: &str, url: &str) {
    let spec: ServerSpec =
        serde_json::from_value(json!({ "name": name, "transport": "a2a", "url": url })).unwrap();
    servers.create(project, ConfiguredBy::Operator, NewServer::new(spec)).await.unwrap();
}

/// A definition that the agent of a server executes.
fn remote(name: &str, server: &str) -> AgentDefinition {
    AgentDefinition { model: Some(format!("a2a/{server}").parse().unwrap()), ..agent(name) }
}

both_engines! {
    async fn a_run_is_executed_by_an_agent_of_another_system_and_recorded_like_any_other(db: TestDb) {
        let site = Site::open(&db, ScriptedModel::default()).await;
        let helper = site.harness.agent(remote("helper", "echo")).await;
        let run = site.harness.run(&helper, "good morning").await;
        assert_ended(&run, RunStatus::Completed, None);
        assert_eq!(run.summary.as_deref(), Some("You said: good morning"));
        let recorded = site.harness.calls(run.id).await;
        assert_eq!(recorded.len(), 1);
        assert_eq!((recorded[0].tool.as_str(), recorded[0].status), ("echo_agent", ToolCallStatus::Completed));
        assert_eq!(recorded[0].input, json!({ "message": "good morning" }));
        // A resumed run continues the conversation.
        let context = recorded[0].output.as_ref().unwrap()["contextId"].clone();
        assert!(context.is_string());

        let failing = site.harness.run(&helper, "fail").await;
        assert_eq!(failing.status, RunStatus::Failed);
        assert!(failing.error.as_deref().unwrap_or_default().contains("It went wrong."), "{failing:?}");
        site.close().await;
    }

    async fn spawned_agents_may_be_those_of_another_system(db: TestDb) {
        let tasks = json!({ "tasks": [{ "agent_name": "helper", "task": "one" }, { "agent_name": "helper", "task": "two" }] });
        let model = ScriptedModel::default().agent("parent", [calls("spawn_agents", tasks), says("Both are back.")]);
        let site = Site::open(&db, model).await;
        site.harness.agent(remote("helper", "echo")).await;
        let parent = site.harness.agent(with_tools("parent", &["spawn_agents"])).await;
        let run = site.harness.run(&parent, "Go.").await;
        assert_ended(&run, RunStatus::Completed, None);
        let mut said: Vec<_> =
            site.harness.children(run.id).await.into_iter().filter_map(|child| child.summary).collect();
        said.sort();
        assert_eq!(said, ["You said: one", "You said: two"]);
        site.close().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cancelled_run_cancels_the_task_of_the_other_system() {
    let db = TestDb::sqlite().await;
    let site = Site::open(&db, ScriptedModel::default()).await;
    let slow = site.harness.agent(remote("slow", "slow")).await;
    let run = site.harness.start(&slow, "never").await;
    until("the task is at work", async || site.count("seen").await == 1).await;
    let cancelled = site.harness.executor.cancel(site.harness.actor(), run.id).await.unwrap();
    assert_ended(&cancelled, RunStatus::Cancelled, None);
    until("the task is cancelled", async || site.count("cancelled").await == 1).await;
    site.close().await;
}

/// Whether the run has an event that says that its agent waits for an authorisation.
async fn waits_for_authorisation(site: &Site, run: RunId) -> bool {
    let is_wait = |event: RunEvent| match event.body {
        RunEventBody::ModelRetry { retry, .. } => {
            retry.model == "a2a/guarded"
                && retry.error.contains("authorisation")
                && retry.error.contains("Approve")
        }
        _ => false,
    };
    site.harness.events(run).await.into_iter().any(is_wait)
}

both_engines! {
    async fn a_run_waits_until_a_person_of_the_other_system_has_authorised_its_task(db: TestDb) {
        let site = Site::open(&db, ScriptedModel::default()).await;
        let clerk = site.harness.agent(remote("clerk", "guarded")).await;
        let run = site.harness.start(&clerk, "Send the letter.").await;
        until("the run says what it waits for", async || waits_for_authorisation(&site, run.id).await).await;
        site.count("authorise").await;
        let run = site.harness.ended(run.id).await;
        assert_ended(&run, RunStatus::Completed, None);
        assert_eq!(run.summary.as_deref(), Some("The letter is sent."));
        assert_eq!((site.count("seen").await, site.count("cancelled").await), (1, 0), "one task at the other system");
        site.close().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_task_that_waits_for_an_authorisation_is_cancelled_with_its_run() {
    let db = TestDb::sqlite().await;
    let site = Site::open(&db, ScriptedModel::default()).await;
    let clerk = site.harness.agent(remote("clerk", "guarded")).await;
    let run = site.harness.start(&clerk, "Send the letter.").await;
    until("the run waits", async || waits_for_authorisation(&site, run.id).await).await;
    let cancelled = site.harness.executor.cancel(site.harness.actor(), run.id).await.unwrap();
    assert_ended(&cancelled, RunStatus::Cancelled, None);
    until("the task is cancelled", async || site.count("cancelled").await == 1).await;
    site.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_whose_time_is_up_cancels_the_task_and_is_not_repeated() {
    let db = TestDb::sqlite().await;
    let site = Site::open(&db, ScriptedModel::default()).await;
    let definition = AgentDefinition { default_timeout: Some(2), ..remote("clerk", "guarded") };
    let clerk = site.harness.agent(definition).await;
    let run = site.harness.run(&clerk, "Send the letter.").await;
    // A task of a workflow that ends with this reason is not tried again.
    assert_ended(&run, RunStatus::Failed, Some(Reason::UnknownOutcome));
    until("the task is cancelled", async || site.count("cancelled").await == 1).await;
    assert_eq!(site.count("seen").await, 1);
    site.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_question_of_the_other_system_is_answered_by_a_person() {
    let db = TestDb::sqlite().await;
    let site = Site::open(&db, ScriptedModel::default()).await;
    let definition = AgentDefinition { tools: vec!["ask_user".into()], ..remote("host", "asker") };
    let host = site.harness.agent(definition).await;
    let run = site.harness.start(&host, "Book a table.").await;
    until("a person is asked", async || asked(&site.harness).await.is_some()).await;
    let question = asked(&site.harness).await.unwrap();
    assert_eq!(question.tool, "ask_user");
    let answer = NewDecision {
        choice: Choice::Answer,
        edited_input: None,
        answer: Some(json!("four")),
        reason: None,
        digest: None,
    };
    let (executor, project) = (&site.harness.executor, site.harness.project);
    executor.decide_approval(project, question.id, answer, TokenId::new()).await.unwrap();
    let run = site.harness.ended(run.id).await;
    assert_ended(&run, RunStatus::Completed, None);
    assert_eq!(run.summary.as_deref(), Some("A table for four."));
    site.close().await;
}

async fn asked(harness: &Harness) -> Option<emergent_domain::approval::Approval> {
    let (filter, page) = (ApprovalFilter::default(), Page::first(10));
    let listed = harness.executor.list_approvals(harness.project, filter, page).await.unwrap();
    listed.items.into_iter().next()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_remote_agent_that_is_not_there_fails_its_run_with_the_reason() {
    let db = TestDb::sqlite().await;
    let site = Site::open(&db, ScriptedModel::default()).await;
    let nobody = site.harness.agent(remote("nobody", "nowhere")).await;
    let run = site.harness.run(&nobody, "hello").await;
    // A task of a workflow that ends with this reason is not tried again.
    assert_ended(&run, RunStatus::Failed, Some(Reason::Definition));
    let error = run.error.as_deref().unwrap_or_default();
    assert!(error.contains("`nowhere` cannot be used: it is not a server of this project"), "{error}");
    site.close().await;
}
